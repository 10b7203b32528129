/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/sched_sim.h"
#include "support/sched_support.h"

#include <stdbool.h>
#include <stdio.h>

/* What holds for every built-in order; names; placements of the caller's own. */

static const struct {
    tpp_schedule_kind kind;
    const char *name, *pytorch;
} names[] = {
    {TPP_SCHEDULE_GPIPE, "gpipe", "ScheduleGPipe"},
    {TPP_SCHEDULE_1F1B, "1f1b", "Schedule1F1B"},
    {TPP_SCHEDULE_INTERLEAVED, "interleaved", "ScheduleInterleaved1F1B"},
    {TPP_SCHEDULE_BFS, "bfs", "ScheduleLoopedBFS"},
    {TPP_SCHEDULE_EAGER_1F1B, "eager-1f1b", NULL},
    {TPP_SCHEDULE_FORWARD_ONLY, "forward-only", NULL},
    {TPP_SCHEDULE_ZB_H1, "zb-h1", NULL},
    {TPP_SCHEDULE_ZB_H2, "zb-h2", NULL},
    {TPP_SCHEDULE_ZB_INTERLEAVED, "zb-interleaved", "ScheduleInterleavedZeroBubble"},
    {TPP_SCHEDULE_ZB_V, "zb-v", "ScheduleZBVZeroBubble"},
    {TPP_SCHEDULE_V_HALF, "v-half", NULL},
    {TPP_SCHEDULE_V_MIN, "v-min", NULL},
    {TPP_SCHEDULE_V_1F1B, "v-1f1b", NULL},
    {TPP_SCHEDULE_DUALPIPE, "dualpipe", NULL},
    {TPP_SCHEDULE_DUALPIPEV, "dualpipev", "ScheduleDualPipeV"},
};

enum { KINDS = sizeof names / sizeof *names };

static void test_names(void **state) {
    (void)state;
    int known = 0;
    for (int32_t kind = -1; kind < 100; kind++)
        known += tpp_schedule_kind_name(kind) != NULL;
    assert_int_equal(known, KINDS);
    for (int k = 0; k < KINDS; k++) {
        assert_string_equal(tpp_schedule_kind_name(names[k].kind), names[k].name);
        assert_int_equal(tpp_schedule_kind_of(names[k].name), names[k].kind);
        if (names[k].pytorch)
            assert_int_equal(tpp_schedule_kind_of(names[k].pytorch), names[k].kind);
    }
    static const char *const wrong[] = {"", "1F1B", "zb", "zb-h1 ", "zb_h1", "Schedule", "gpipe2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(tpp_schedule_kind_of(wrong[i]), 0);
    assert_int_equal(tpp_schedule_kind_of(NULL), 0);
}

/* Each rank does the same operation of one stage in rising order of micro-batches, so that sums of
 * weight gradients have the same order under every schedule. */
static void is_rising(const tpp_schedule *s, const char *name) {
    tpp_schedule_info info = {.size = sizeof info};
    assert_ok(tpp_schedule_query(s, &info));
    int32_t *last = malloc((size_t)info.stages * 2 * sizeof *last);
    for (int32_t i = 0; i < 2 * info.stages; i++)
        last[i] = -1;
    for (int32_t r = 0; r < info.ranks; r++) {
        int64_t count;
        const tpp_action *a = tpp_schedule_actions(s, r, &count);
        for (int64_t i = 0; i < count; i++) {
            if (a[i].op != TPP_OP_F && a[i].op != TPP_OP_B && a[i].op != TPP_OP_W)
                continue;
            int32_t *before = &last[2 * a[i].stage + (a[i].op != TPP_OP_F)];
            if (a[i].micro <= *before)
                fail_msg("%s p %d m %d: %s of stage %d: micro-batch %d after %d", name, info.ranks,
                         info.micros, a[i].op == TPP_OP_F ? "F" : "B or W", a[i].stage, a[i].micro,
                         *before);
            *before = a[i].micro;
        }
    }
    free(last);
}

/* Every kind takes any numbers, and is proved. */
static void test_all_made(void **state) {
    (void)state;
    int made = 0;
    for (int k = 0; k < KINDS; k++) {
        for (int32_t p = 1; p <= 8; p++) {
            for (int32_t m = 1; m <= 16; m++) {
                for (int32_t v = 1; v <= 3; v++) {
                    bool chunked = k == 2 || k == 3 || k == 5 || k == 8;
                    if (v > 1 && !chunked)
                        continue;
                    tpp_schedule *s = sched_made(names[k].kind, p, chunked ? v : 0, m, 0);
                    if (!s)
                        fail_msg("%s p %d v %d m %d: %s", names[k].name, p, v, m, tpp_message());
                    is_rising(s, names[k].name);
                    tpp_schedule_destroy(s);
                    made++;
                }
            }
        }
    }
    assert_int_equal(made, 8 * 16 * (11 + 4 * 3));
}

/* --- Placements ------------------------------------------------------------------------------- */

static tpp_schedule *placed(tpp_schedule_kind kind, int32_t p, int32_t m, int32_t stages,
                            const int32_t *rank_of) {
    tpp_schedule_desc d = sched_desc(kind, p, 0, m, 0);
    tpp_schedule *s = NULL;
    d.placement = TPP_PLACEMENT_OWN;
    d.stages = stages;
    d.rank_of = rank_of;
    if (tpp_schedule_make(&s, &d) != TPP_OK)
        fail_msg("%s p %d m %d: %s", tpp_schedule_kind_name(kind), p, m, tpp_message());
    for (int32_t i = 0; i < stages; i++)
        assert_int_equal(tpp_schedule_rank_of(s, i), rank_of[i]);
    is_rising(s, tpp_schedule_kind_name(kind));
    return s;
}

/* A stage takes 1 forward and 2 backward, so a rank's two take twice that. */
static void takes(tpp_schedule_kind kind, int32_t p, int32_t m, const int32_t *rank_of,
                  double expected) {
    tpp_schedule *s = placed(kind, p, m, 2 * p, rank_of);
    sched_sim sim = sched_sim_run(s, 2, 4);
    if (!sim.finished || sim.makespan < expected - 1e-9 || sim.makespan > expected + 1e-9)
        fail_msg("%s p %d m %d: %.9f, not %.9f", tpp_schedule_kind_name(kind), p, m, sim.makespan,
                 expected);
    tpp_schedule_destroy(s);
}

/* Down the ranks and up again, and two neighbours on each rank: no order is faster forward, for the
 * last rank has nothing to do in the first p - 1 turns, nor the first one between. */
static void test_waves(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 8; p++) {
        int32_t v[16], near[16];
        for (int32_t i = 0; i < p; i++) {
            v[i] = v[2 * p - 1 - i] = i;
            near[2 * i] = near[2 * i + 1] = i;
        }
        for (int32_t m = 1; m <= 16; m++) {
            int32_t wave = 2 * m + 2 * (p - 1);
            takes(TPP_SCHEDULE_FORWARD_ONLY, p, m, v, wave);
            takes(TPP_SCHEDULE_FORWARD_ONLY, p, m, near, wave);
            takes(TPP_SCHEDULE_GPIPE, p, m, v, 3 * wave);
            takes(TPP_SCHEDULE_GPIPE, p, m, near, 3 * wave);
        }
    }
}

static uint32_t draw(uint32_t *random, uint32_t end) {
    *random = *random * 1664525u + 1013904223u;
    return (*random >> 8) % end;
}

/* Some need their slots for longer than to the end of F; a reader of the text finds the same. */
static void is_read_again(const tpp_schedule *s) {
    char *text = sched_text(s);
    tpp_schedule *again = sched_parsed(text);
    if (!strstr(text, "SEND"))
        assert_ok(tpp_schedule_lower(again));
    assert_ok(tpp_schedule_finish(again));
    char *text_again = sched_text(again);
    assert_string_equal(text, text_again);
    free(text);
    free(text_again);
    tpp_schedule_destroy(again);
}

/* Any placement, also with a rank that has no stage. */
static void test_any_placement(void **state) {
    (void)state;
    uint32_t random = 1;
    static const tpp_schedule_kind kinds[] = {TPP_SCHEDULE_GPIPE, TPP_SCHEDULE_BFS,
                                              TPP_SCHEDULE_FORWARD_ONLY};
    for (int i = 0; i < 6000; i++) {
        int32_t rank_of[16], p = 1 + (int32_t)draw(&random, 5);
        int32_t stages = p + (int32_t)draw(&random, 11), m = 1 + (int32_t)draw(&random, 12);
        for (int32_t k = 0; k < stages; k++)
            rank_of[k] = (int32_t)draw(&random, (uint32_t)p);
        tpp_schedule *s = placed(kinds[i % 3], p, m, stages, rank_of);
        if (!sched_sim_run(s, 1, 2).finished)
            fail_msg("it does not finish");
        is_read_again(s);
        tpp_schedule_destroy(s);
    }
}

/* Without a backward a rank holds few outputs, however many micro-batches there are; with groups
 * that are much larger than the pipeline, as many as wait at the end of a chunk. */
static void test_forward_only_slots(void **state) {
    (void)state;
    tpp_schedule_info info = {.size = sizeof info};
    tpp_schedule *s = sched_made(TPP_SCHEDULE_FORWARD_ONLY, 4, 2, 200, 0);
    assert_ok(tpp_schedule_query(s, &info));
    assert_int_equal(info.slots, 1);
    assert_true(info.forward_only);
    tpp_schedule_destroy(s);
    s = sched_made(TPP_SCHEDULE_FORWARD_ONLY, 2, 2, 8, 8);
    assert_ok(tpp_schedule_query(s, &info));
    assert_in_range(info.slots, 2, 8);
    tpp_schedule_destroy(s);
}

static void test_refused(void **state) {
    (void)state;
    static const int32_t rank_of[] = {0, 1, 1, 0};
    tpp_schedule *s;
    tpp_schedule_desc d = sched_desc(TPP_SCHEDULE_FORWARD_ONLY, 2, 0, 4, 2);
    d.placement = TPP_PLACEMENT_OWN;
    d.stages = 4;
    d.rank_of = rank_of;
    assert_fails(tpp_schedule_create(&s, &d), TPP_ERR_INVALID, "desc.group = 2 but placement OWN");
    d = sched_desc(TPP_SCHEDULE_ZB_H1, 2, 2, 4, 0);
    assert_fails(tpp_schedule_create(&s, &d), TPP_ERR_INVALID, "desc.chunks = 2 but kind zb-h1");
    d = sched_desc(TPP_SCHEDULE_BFS, 2, 2, 4, 2);
    assert_fails(tpp_schedule_create(&s, &d), TPP_ERR_INVALID, "desc.group = 2 but kind bfs");
    d = sched_desc(TPP_SCHEDULE_ZB_H2, 2, 0, 4, 0);
    d.placement = TPP_PLACEMENT_OWN;
    d.stages = 4;
    d.rank_of = rank_of;
    assert_fails(tpp_schedule_create(&s, &d), TPP_ERR_INVALID, "kind zb-h2 stands on placement");
}

/* Sends that block until they are received, in the naive order "receive, compute, send": the ranks
 * of these wait for each other, and the proof says who. The executors' sends do not block. */
static void test_blocking_sends(void **state) {
    (void)state;
    static const struct {
        tpp_schedule_kind kind;
        int32_t p, v, m;
        bool passes;
    } cases[] = {
        {TPP_SCHEDULE_ZB_H1, 2, 1, 2, false},       {TPP_SCHEDULE_ZB_H1, 4, 1, 8, false},
        {TPP_SCHEDULE_ZB_H2, 4, 1, 8, false},       {TPP_SCHEDULE_EAGER_1F1B, 4, 1, 8, false},
        {TPP_SCHEDULE_BFS, 4, 2, 8, false},         {TPP_SCHEDULE_BFS, 4, 2, 2, true},
        {TPP_SCHEDULE_BFS, 4, 1, 8, true},          {TPP_SCHEDULE_ZB_INTERLEAVED, 2, 2, 4, false},
        {TPP_SCHEDULE_FORWARD_ONLY, 4, 1, 8, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tpp_schedule *s = sched_made(cases[i].kind, cases[i].p, cases[i].v, cases[i].m, 0);
        tpp_status status = tpp_schedule_check(s, TPP_CHANNEL_RENDEZVOUS);
        if (status != (cases[i].passes ? TPP_OK : TPP_ERR_DEADLOCK))
            fail_msg("%s p %d v %d m %d: %s", tpp_schedule_kind_name(cases[i].kind), cases[i].p,
                     cases[i].v, cases[i].m, tpp_status_name(status));
        if (!cases[i].passes)
            assert_non_null(strstr(tpp_message(), "waits"));
        tpp_schedule_destroy(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_all_made),
        cmocka_unit_test(test_waves),
        cmocka_unit_test(test_any_placement),
        cmocka_unit_test(test_forward_only_slots),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_blocking_sends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
