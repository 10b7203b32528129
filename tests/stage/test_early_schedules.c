/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Steps without a barrier under every built-in schedule: parameters and moments have the bits of a plain
 * loop that waits for everything, all ranks agree on what was wrong, nothing hangs, and one rank that
 * fails ends all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/comm_threads.h"
#include "support/exec_kinds.h"
#include "support/step_toy.h"

static const exec_shapes SHAPES = {
    .ranks = 4, .micros = TOY_MICROS, .chunks = 3, .depth = TOY_STAGES};

static bool has_backward(const tpp_schedule *s, tpp_schedule_info *info) {
    *info = (tpp_schedule_info){.size = sizeof *info};
    assert_int_equal(tpp_schedule_query(s, info), TPP_OK);
    return !info->forward_only;
}

static void expect(const step_toy *toy, const tpp_schedule_desc *d, const tpp_schedule_info *info) {
    step_toy_result want, got;
    int64_t wasted = 0;
    step_toy_plain(info->depth, info->micros, toy->clip, &want);
    step_toy_train(toy, &got);
    if (memcmp(got.w, want.w, sizeof want.w) != 0 || memcmp(got.m, want.m, sizeof want.m) != 0)
        fail_msg("%s p %d v %d m %d, executor %d: other bits than the plain loop",
                 tpp_schedule_kind_name(d->kind), d->ranks, d->chunks, d->micros, toy->executor);
    assert_memory_equal(got.wrong, want.wrong, sizeof want.wrong);
    for (int i = 0; i < TOY_STEPS - 1 && toy->executor == TOY_RANKS; i++)
        wasted += want.wrong[i]; /* the last step's verdict comes when no run is under way */
    assert_int_equal(got.runs, TOY_STEPS + wasted);
}

typedef struct visit {
    int64_t seen;
    comm_random random;
} visit;

static void same_bits(const tpp_schedule *s, const tpp_schedule_desc *d, void *arg) {
    static const double clips[] = {0.75, 1e9, 1e-6};
    visit *v = arg;
    tpp_schedule_info info;
    if (!has_backward(s, &info))
        return;
    v->seen++;
    step_toy toy = {.schedule = s, .fail_step = -1, .seed = (uint64_t)v->seen};
    for (toy.executor = TOY_SERIAL; toy.executor <= TOY_RANKS; toy.executor++) {
        if (toy.executor == TOY_SERIAL && info.directions > 1)
            continue; /* mirrors wait for each other, and one thread plays them */
        toy.clip = clips[toy.executor == TOY_RANKS ? v->seen % 3 : 0];
        expect(&toy, d, &info);
    }
}

static void test_bits(void **state) {
    visit v = {0};
    (void)state;
    exec_kinds_each(&SHAPES, same_bits, &v);
    assert_true(v.seen > 200);
}

/* Steps are kept, clipped and skipped, else the bits would prove little. */
static void test_cases(void **state) {
    step_toy_result r;
    int wrong = 0;
    (void)state;
    step_toy_plain(4, 8, 0.75, &r);
    for (int i = 0; i < TOY_STEPS; i++)
        wrong += r.wrong[i];
    assert_true(r.wrong[4] && r.wrong[9]);
    assert_in_range(wrong, 5, TOY_STEPS - 4);
}

/* A rank is in its next step while another one is still in the one before. */
static void test_no_barrier(void **state) {
    static const tpp_schedule_kind kinds[] = {TPP_SCHEDULE_ZB_H1, TPP_SCHEDULE_ZB_H2};
    (void)state;
    for (int k = 0; k < 2; k++) {
        tpp_schedule *s = NULL;
        tpp_schedule_info info;
        tpp_schedule_desc d = {.size = sizeof d, .kind = kinds[k], .ranks = 4, .micros = 8};
        assert_int_equal(tpp_schedule_make(&s, &d), TPP_OK);
        assert_true(has_backward(s, &info));
        step_toy toy = {.schedule = s, .executor = TOY_RANKS, .fail_step = -1, .gate = 1};
        toy.clip = 0.75;
        expect(&toy, &d, &info);
        tpp_schedule_destroy(s);
    }
}

static void fails(const tpp_schedule *s, const tpp_schedule_desc *d, void *arg) {
    visit *v = arg;
    tpp_schedule_info info;
    (void)d;
    if (!has_backward(s, &info))
        return;
    step_toy toy = {.schedule = s, .executor = TOY_RANKS, .clip = 0.5, .seed = (uint64_t)v->seen++};
    toy.fail_rank = (int32_t)comm_random_below(&v->random, info.ranks);
    toy.fail_step = comm_random_below(&v->random, TOY_STEPS);
    toy.fail_call = 1 + (int32_t)comm_random_below(&v->random, 2 * info.micros);
    step_toy_fail(&toy);
}

static void test_failures(void **state) {
    visit v = {0};
    (void)state;
    exec_kinds_each(&SHAPES, fails, &v);
    assert_true(v.seen > 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_no_barrier),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
