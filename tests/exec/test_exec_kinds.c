/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/comm_shuffle.h"
#include "support/exec_kinds.h"
#include "support/exec_lazy.h"
#include "support/exec_ranks.h"
#include "support/exec_rig.h"
#include "support/exec_sim.h"

/* All executors follow every built-in order. */

enum { HANGS = 20 }; /* seconds: then the run is taken to hang, and the alarm ends the program */

static const char *current(const tpp_schedule_desc *d) {
    static char text[80];
    snprintf(text, sizeof text, "%s%s p %d v %d m %d", tpp_schedule_kind_name(d->kind),
             d->flags ? " unfused" : "", d->ranks, d->chunks, d->micros);
    return text;
}

static void step(exec_rig *rig, uint64_t number, const tpp_schedule_desc *d) {
    if (exec_rig_step(rig) != TPP_OK)
        fail_msg("%s: %s", current(d), tpp_message());
    exec_rig_check(rig, number);
}

static void use_pairs(exec_rig *rig) {
    for (int32_t row = 0; row < rig->rows; row++)
        rig->ranks[row].ops = &exec_layer_pair_ops;
}

/* --- Right values ----------------------------------------------------------------------------- */

/* Two steps: right values, and the same ones down to the order of summation, whether pairs are one call
 * or two. */
static void compare(const tpp_schedule *s, const tpp_schedule_desc *d, void *arg) {
    int32_t lanes = *(const int32_t *)arg;
    exec_rig rigs[4];
    alarm(HANGS);
    for (int i = 0; i < 4; i++)
        exec_rig_open(&rigs[i], s, lanes, i < 3 ? EXEC_SERIAL + i : EXEC_SERIAL, NULL);
    for (int i = 1; i < 4; i++)
        use_pairs(&rigs[i]);
    for (uint64_t number = 0; number < 2; number++) {
        for (int i = 0; i < 4; i++) {
            step(&rigs[i], number, d);
            for (int32_t row = 0; row < rigs[0].rows; row++)
                assert_memory_equal(rigs[0].layers[row].chain, rigs[i].layers[row].chain,
                                    (size_t)rigs[0].info.stages * 8);
        }
    }
    int32_t pairs = 0;
    for (int32_t row = 0; row < rigs[1].rows; row++)
        pairs += rigs[1].layers[row].pairs;
    assert_true(!pairs == !rigs[0].info.fused);
    for (int i = 0; i < 4; i++)
        exec_rig_close(&rigs[i]);
    alarm(0);
}

static void test_values(void **state) {
    static const exec_shapes small = {.ranks = 4, .micros = 6, .chunks = 3};
    static const exec_shapes large = {.ranks = 6, .micros = 13, .chunks = 3, .every = 7};
    int32_t lanes = 1;
    (void)state;
    exec_kinds_each(&small, compare, &lanes);
    exec_kinds_each(&large, compare, &lanes);
}

static void test_lanes(void **state) {
    static const exec_shapes shapes = {.ranks = 4, .micros = 9, .chunks = 2, .every = 5};
    (void)state;
    for (int32_t lanes = 2; lanes <= 3; lanes++)
        exec_kinds_each(&shapes, compare, &lanes);
}

/* --- Transports ------------------------------------------------------------------------------- */

static uint64_t shuffle_seed;

static tpp_comm *lazy(tpp_comm *inner) {
    const exec_lazy_desc d = {.most_asked = 12, .fail_at = -1, .drop_at = -1, .timeout = 20};
    return exec_lazy_create(inner, &d);
}

static tpp_comm *shuffled(tpp_comm *inner) {
    tpp_comm *out = NULL;
    exec_expect_ok(comm_shuffle_create(&out, inner, shuffle_seed++));
    return out;
}

/* A transport that hands out one request for each message and holds each until it was asked after, and
 * one that lets messages of different tags overtake each other. */
static void over(const tpp_schedule *s, const tpp_schedule_desc *d, void *arg) {
    (void)arg;
    for (int i = 0; i < 6; i++) {
        exec_rig rig;
        alarm(HANGS);
        exec_rig_open(&rig, s, 1, EXEC_SERIAL + i / 2, i % 2 ? lazy : shuffled);
        use_pairs(&rig);
        for (uint64_t number = 0; number < 2; number++)
            step(&rig, number, d);
        exec_rig_close(&rig);
        alarm(0);
    }
}

static void test_transports(void **state) {
    static const exec_shapes shapes = {.ranks = 5, .micros = 11, .chunks = 3, .every = 7};
    static const exec_shapes two = {.ranks = 2, .micros = 6, .chunks = 2};
    (void)state;
    int64_t before = exec_lazy_made();
    exec_kinds_each(&shapes, over, NULL);
    exec_kinds_each(&two, over, NULL); /* the next rank is the one before, too */
    assert_true(exec_lazy_made() > before);
    assert_int_equal(exec_lazy_made(), exec_lazy_ended()); /* each request once, to its end */
}

/* --- Order ------------------------------------------------------------------------------------ */

/* The events of a row are the schedule's compute actions, in its order; nothing overlaps but a pair. */
static void check_row(const exec_rig *rig, const tpp_trace *trace, int32_t row, int32_t rank) {
    int64_t count, n, at = 0;
    const tpp_event *e = tpp_trace_events(trace, row, &count);
    const tpp_action *a = tpp_schedule_actions(rig->schedule, rank, &n);
    double last = 0;
    for (int64_t i = 0; i < n; i++) {
        if (a[i].op > TPP_OP_W)
            continue;
        while (at < count && e[at].op > TPP_OP_W)
            at++; /* a wait */
        assert_true(at < count);
        assert_int_equal(e[at].op, a[i].op);
        assert_int_equal(e[at].stage, a[i].stage);
        assert_int_equal(e[at].micro, a[i].micro);
        int second = i > 0 && a[i - 1].flags & TPP_ACTION_FUSED;
        assert_int_equal((e[at].flags & TPP_EVENT_FUSED) != 0,
                         second || (a[i].flags & TPP_ACTION_FUSED) != 0);
        if (second)
            assert_true(e[at].start == e[at - 1].start && e[at].end == e[at - 1].end);
        else
            assert_true(e[at].start >= last);
        last = e[at].end;
        at++;
    }
}

static void in_order(const tpp_schedule *s, const tpp_schedule_desc *d, void *arg) {
    (void)arg;
    for (exec_kind kind = EXEC_SERIAL; kind <= EXEC_DISTRIBUTED; kind++) {
        exec_rig rig;
        tpp_trace *all, *own[EXEC_MOST_ROWS];
        exec_rig_open(&rig, s, 1, kind, NULL);
        use_pairs(&rig);
        exec_expect_ok(tpp_trace_create(&all, rig.rows, rig.info.actions, NULL));
        for (int32_t r = 0; r < rig.rows; r++) {
            exec_expect_ok(tpp_trace_create(&own[r], 1, rig.info.actions, NULL));
            if (kind == EXEC_DISTRIBUTED)
                exec_ranks_trace(r, own[r]);
        }
        rig.run.trace = kind == EXEC_DISTRIBUTED ? NULL : all;
        step(&rig, 0, d);
        for (int32_t r = 0; r < rig.rows; r++) {
            if (kind == EXEC_DISTRIBUTED)
                check_row(&rig, own[r], 0, r);
            else
                check_row(&rig, all, r, r);
        }
        exec_rig_close(&rig);
        for (int32_t r = 0; r < rig.rows; r++)
            tpp_trace_destroy(own[r]);
        tpp_trace_destroy(all);
    }
}

static void test_order(void **state) {
    static const exec_shapes shapes = {.ranks = 4, .micros = 9, .chunks = 2, .every = 3};
    (void)state;
    exec_kinds_each(&shapes, in_order, NULL);
}

/* --- Failures --------------------------------------------------------------------------------- */

/* The compute action with number `at` of a rank, or NULL; pairs count as two. */
static const tpp_action *compute_action(const tpp_schedule *s, int32_t rank, int32_t at) {
    int64_t n;
    const tpp_action *a = tpp_schedule_actions(s, rank, &n);
    for (int64_t i = 0; i < n; i++) {
        if (a[i].op <= TPP_OP_W && at-- == 0)
            return &a[i];
    }
    return NULL;
}

static void fail_at(const tpp_schedule *s, const tpp_schedule_desc *d, exec_kind kind, int32_t rank,
                    int32_t at) {
    static const char *const letters[] = {
        [TPP_OP_F] = "F", [TPP_OP_B] = "B", [TPP_OP_I] = "I", [TPP_OP_W] = "W"};
    const tpp_action *a = compute_action(s, rank, at);
    int pair = a->flags & TPP_ACTION_FUSED || (at > 0 && compute_action(s, rank, at - 1)->flags);
    const tpp_action *f = a->flags & TPP_ACTION_FUSED ? a : a - 1; /* of a pair */
    for (int as_one = 0; as_one <= pair; as_one++) {
        exec_rig rig;
        char want[120];
        alarm(HANGS);
        exec_rig_open(&rig, s, 1, kind, NULL);
        if (as_one)
            use_pairs(&rig);
        rig.layers[rank].fail_at = at;
        rig.layers[rank].fail_with = TPP_ERR_USER - 7;
        rig.layers[rank].fail_text = "the pump is out of order";
        if (exec_rig_step(&rig) != TPP_ERR_USER - 7)
            fail_msg("%s: %s", current(d), tpp_message());
        if (as_one)
            snprintf(want, sizeof want, "rank %d lane 0, (%dF%d;%dB%d)OVERLAP_F_B: the pump", rank,
                     f->stage, f->micro, f[1].stage, f[1].micro);
        else
            snprintf(want, sizeof want, "rank %d lane 0, %d%s%d: the pump is out of order", rank,
                     a->stage, letters[a->op], a->micro);
        if (strncmp(tpp_message(), want, strlen(want)) != 0)
            fail_msg("%s: \"%s\" is not \"%s\"", current(d), tpp_message(), want);
        const tpp_action *told = as_one ? f : a;
        assert_int_equal(rig.report.failed_rank, rank);
        assert_int_equal(rig.report.failed_stage, told->stage);
        assert_int_equal(rig.report.failed_micro, told->micro);
        assert_int_equal(rig.report.failed_op, told->op);
        for (int32_t row = 0; row < rig.rows; row++)
            assert_int_equal(rig.layers[row].entered, rig.layers[row].left);
        exec_rig_close(&rig);
        alarm(0);
    }
}

static void fail_everywhere(const tpp_schedule *s, const tpp_schedule_desc *d, void *arg) {
    (void)arg;
    for (int32_t rank = 0; rank < d->ranks; rank++) {
        for (int32_t at = 0; compute_action(s, rank, at); at++)
            fail_at(s, d, EXEC_SERIAL + at % 3, rank, at);
    }
}

static void test_failures(void **state) {
    static const exec_shapes shapes = {.ranks = 4, .micros = 9, .chunks = 2, .every = 13};
    (void)state;
    exec_kinds_each(&shapes, fail_everywhere, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),     cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_transports), cmocka_unit_test(test_order),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
