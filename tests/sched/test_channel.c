/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/sched_judge.h"
#include "support/sched_sim.h"
#include "support/sched_support.h"

#include <stdbool.h>
#include <stdio.h>
#include <tpp/deadlock.h>

/* --- The smallest capacities of the naive order: receive, compute, blocking send ----------------- */

enum { MISMATCH = -1 };

static const struct {
    tpp_schedule_kind kind;
    int32_t p, v, m;
    int32_t pair, per_kind; /* computed by others' simulation of the published orders */
} smallest[] = {
    {TPP_SCHEDULE_GPIPE, 4, 1, 8, 0, 0},
    {TPP_SCHEDULE_1F1B, 4, 1, 8, 1, 1},
    {TPP_SCHEDULE_1F1B, 2, 1, 2, 1, 1},
    {TPP_SCHEDULE_ZB_H1, 4, 1, 8, 1, 1},
    {TPP_SCHEDULE_ZB_H2, 4, 1, 8, 1, 1},
    {TPP_SCHEDULE_INTERLEAVED, 4, 2, 8, 1, 1},
    {TPP_SCHEDULE_INTERLEAVED, 4, 3, 8, 1, 1},
    {TPP_SCHEDULE_INTERLEAVED, 2, 2, 4, 2, 1},
    {TPP_SCHEDULE_BFS, 2, 2, 8, 4, 4},
    {TPP_SCHEDULE_BFS, 4, 2, 8, 2, 2},
    {TPP_SCHEDULE_BFS, 4, 2, 16, 4, 4},
    {TPP_SCHEDULE_BFS, 8, 2, 16, 2, 2},
    {TPP_SCHEDULE_ZB_INTERLEAVED, 2, 2, 8, MISMATCH, 1},
    {TPP_SCHEDULE_ZB_INTERLEAVED, 4, 2, 8, 2, 2},
    {TPP_SCHEDULE_ZB_INTERLEAVED, 8, 2, 16, 4, 4},
    {TPP_SCHEDULE_ZB_V, 4, 2, 8, MISMATCH, 1},
    {TPP_SCHEDULE_DUALPIPEV, 2, 2, 8, 2, 1},
    {TPP_SCHEDULE_DUALPIPEV, 4, 2, 8, MISMATCH, 1},
    {TPP_SCHEDULE_DUALPIPE, 2, 2, 4, 2, 1},
    {TPP_SCHEDULE_DUALPIPE, 4, 2, 8, 2, 1},
    {TPP_SCHEDULE_DUALPIPE, 8, 2, 16, MISMATCH, 1},
};

static void test_smallest(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof smallest / sizeof *smallest; i++) {
        tpp_schedule *s =
            sched_made(smallest[i].kind, smallest[i].p, smallest[i].v, smallest[i].m, 0);
        int32_t pair, per_kind;
        assert_ok(tpp_schedule_capacity(s, TPP_CHANNEL_FIFO_PAIR, &pair));
        assert_ok(tpp_schedule_capacity(s, TPP_CHANNEL_FIFO_KIND, &per_kind));
        if (pair != smallest[i].pair || per_kind != smallest[i].per_kind)
            fail_msg("%s p %d v %d m %d: %d and %d, not %d and %d",
                     tpp_schedule_kind_name(smallest[i].kind), smallest[i].p, smallest[i].v,
                     smallest[i].m, pair, per_kind, smallest[i].pair, smallest[i].per_kind);
        tpp_schedule_destroy(s);
    }
}

/* --- Every small schedule under every channel, run for real --------------------------------------- */

static judge_verdict proved(const tpp_schedule *s, tpp_channel channel, int32_t capacity) {
    switch (tpp_schedule_check_channel(s, channel, capacity)) {
    case TPP_OK:
        return JUDGE_RIGHT;
    case TPP_ERR_DEADLOCK:
        return JUDGE_STUCK;
    default:
        return strstr(tpp_message(), "FIFO") ? JUDGE_WRONG_MESSAGE : JUDGE_WRONG_ORDER;
    }
}

/* A run may get stuck before the wrong message comes: then both are right. */
static void agree(const tpp_schedule *s, const char *name, tpp_channel channel, int32_t capacity) {
    judge_verdict right = sched_judge(s, channel, capacity, 1 + (uint32_t)capacity);
    judge_verdict got = proved(s, channel, capacity);
    bool both = got == JUDGE_WRONG_MESSAGE && right == JUDGE_STUCK;
    if (got != right && !both)
        fail_msg("%s, channel %d of %d: the check says %d (%s), a run %d", name, channel, capacity,
                 got, got == JUDGE_RIGHT ? "" : tpp_message(), right);
    int32_t count;
    if (got == JUDGE_RIGHT || got == JUDGE_STUCK) {
        assert_ok(tpp_schedule_wait_cycle(s, channel, capacity, NULL, 0, &count));
        assert_int_equal(count > 0, got == JUDGE_STUCK);
    }
}

static int agree_all(tpp_schedule_kind kind, int32_t p, int32_t v, int32_t m) {
    tpp_schedule_desc d = sched_desc(kind, p, v, m, 0);
    tpp_schedule *s;
    if (tpp_schedule_make(&s, &d) < 0)
        return 0;
    char name[64];
    snprintf(name, sizeof name, "%s p %d v %d m %d", tpp_schedule_kind_name(kind), p, v, m);
    agree(s, name, TPP_CHANNEL_RENDEZVOUS, 0);
    for (tpp_channel channel = TPP_CHANNEL_FIFO_PAIR; channel <= TPP_CHANNEL_TAGGED; channel++) {
        int32_t smallest_here;
        assert_ok(tpp_schedule_capacity(s, channel, &smallest_here));
        for (int32_t capacity = 0; capacity < 5; capacity++) {
            agree(s, name, channel, capacity);
            assert_int_equal(tpp_schedule_check_channel(s, channel, capacity) == TPP_OK,
                             smallest_here >= 0 && capacity >= smallest_here);
        }
    }
    tpp_schedule_destroy(s);
    return 1;
}

static void test_brute(void **state) {
    (void)state;
    int made = 0;
    for (tpp_schedule_kind kind = 1; kind < 40; kind++) {
        for (int32_t p = 1; p <= 4 && tpp_schedule_kind_name(kind); p++) {
            for (int32_t m = 1; m <= 6; m++) {
                for (int32_t v = 1; v <= 2; v++)
                    made += agree_all(kind, p, v, m);
            }
        }
    }
    assert_true(made > 400);
}

/* --- The witness ---------------------------------------------------------------------------------- */

/* The cycle closes, each rank stands before its end, and what it waits for is still to come. */
static void check_cycle(const tpp_schedule *s, const tpp_wait *w, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        const tpp_wait *next = &w[(i + 1) % count];
        assert_int_equal(w[i].peer, next->rank);
        int64_t actions;
        const tpp_action *a = tpp_schedule_actions(s, next->rank, &actions);
        assert_true(next->at < actions);
        bool found = w[i].until_op == 0;
        for (int64_t k = next->at; k < actions; k++)
            found |= a[k].op == w[i].until_op && a[k].stage == w[i].until_stage &&
                     a[k].micro == w[i].until_micro;
        assert_true(found);
    }
}

static void test_wait_cycle(void **state) {
    (void)state;
    tpp_wait w[4];
    int32_t count;
    tpp_schedule *s = sched_made(TPP_SCHEDULE_1F1B, 4, 1, 8, 0);
    assert_ok(tpp_schedule_wait_cycle(s, TPP_CHANNEL_RENDEZVOUS, 0, w, 4, &count));
    assert_int_equal(count, 2);
    assert_int_equal(w[0].rank, 2);
    assert_int_equal(w[0].reason, TPP_WAIT_RECEIVER);
    assert_int_equal(w[0].until_op, TPP_OP_RECV_F);
    assert_int_equal(w[0].until_stage, 3);
    assert_int_equal(w[0].until_micro, 1);
    check_cycle(s, w, count);
    assert_ok(tpp_schedule_wait_cycle(s, TPP_CHANNEL_POSTED, 0, w, 4, &count));
    assert_int_equal(count, 0);
    tpp_schedule_destroy(s);
    s = sched_made(TPP_SCHEDULE_BFS, 4, 2, 8, 0);
    assert_ok(tpp_schedule_wait_cycle(s, TPP_CHANNEL_TAGGED, 1, w, 4, &count));
    assert_int_equal(count, 4);
    assert_int_equal(w[1].reason, TPP_WAIT_CHANNEL);
    check_cycle(s, w, count);
    assert_ok(tpp_schedule_wait_cycle(s, TPP_CHANNEL_TAGGED, 1, w, 1, &count));
    assert_int_equal(count, 4);
    tpp_schedule_destroy(s);
    /* two ranks that both receive first */
    s = sched_parsed("0F0 0F1 0SEND_F0 0RECV_B0 0SEND_F1 0B0 0RECV_B1 0B1\n"
                     "1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1\n");
    assert_ok(tpp_schedule_wait_cycle(s, TPP_CHANNEL_POSTED, 0, w, 4, &count));
    assert_int_equal(count, 2);
    assert_int_equal(w[0].reason, TPP_WAIT_MESSAGE);
    check_cycle(s, w, count);
    assert_fails(tpp_schedule_check(s, TPP_CHANNEL_POSTED), TPP_ERR_DEADLOCK,
                 "rank 0 waits at 0RECV_B0 for rank 1, rank 1 waits at 1RECV_F1 for rank 0");
    tpp_schedule_destroy(s);
}

typedef struct page {
    char text[60000];
    size_t used;
} page;

static tpp_status put(void *ctx, const char *bytes, int64_t count) {
    page *p = ctx;
    assert_true(p->used + (size_t)count < sizeof p->text);
    memcpy(p->text + p->used, bytes, (size_t)count);
    p->used += (size_t)count;
    return TPP_OK;
}

static int times(const char *text, const char *words) {
    int n = 0;
    for (const char *at = strstr(text, words); at; at = strstr(at + 1, words))
        n++;
    return n;
}

static void test_drawing(void **state) {
    (void)state;
    static page p;
    tpp_schedule *s = sched_made(TPP_SCHEDULE_BFS, 4, 2, 8, 0);
    assert_ok(tpp_schedule_write_wait_svg(s, TPP_CHANNEL_TAGGED, 1, put, &p));
    assert_int_equal(times(p.text, "<rect class=\"here\""), 4);
    assert_int_equal(times(p.text, "<path class=\"wait\""), 4);
    assert_non_null(strstr(p.text, "4 ranks wait for each other"));
    assert_non_null(
        strstr(p.text, "rank 0 stands at 0SEND_F7: rank 1 has not emptied the channel"));
    assert_string_equal(p.text + p.used - 7, "</svg>\n");
    assert_fails(tpp_schedule_write_wait_svg(s, TPP_CHANNEL_POSTED, 0, put, &p), TPP_ERR_INVALID,
                 "no ranks wait for each other");
    tpp_schedule_destroy(s);
}

/* --- Peaks, refusals ------------------------------------------------------------------------------ */

static void test_peaks(void **state) {
    (void)state;
    int32_t peaks[4];
    tpp_schedule *s = sched_made(TPP_SCHEDULE_ZB_H1, 4, 1, 8, 0);
    assert_ok(tpp_schedule_peaks_until(s, TPP_OP_W, peaks));
    for (int32_t r = 0; r < 4; r++)
        assert_int_equal(peaks[r], 4);
    assert_ok(tpp_schedule_peaks_until(s, TPP_OP_I, peaks));
    for (int32_t r = 0; r < 4; r++)
        assert_int_equal(peaks[r], 4 - r);
    assert_fails(tpp_schedule_peaks_until(s, TPP_OP_F, peaks), TPP_ERR_INVALID, "op = 1");
    tpp_schedule_destroy(s);
    tpp_schedule_build_desc d = {.size = sizeof d, .ranks = 1, .stages = 1, .micros = 3};
    assert_ok(tpp_schedule_build(&s, &d));
    for (int32_t i = 0; i < 6; i++) /* F0 F1 I0 W0 F2 I1: not complete yet */
        assert_ok(tpp_schedule_add(s, 0, "\1\1\3\4\1\3"[i], 0, "\0\1\0\0\2\1"[i], 0));
    assert_ok(tpp_schedule_peaks_until(s, TPP_OP_W, peaks));
    assert_int_equal(peaks[0], 2);
    tpp_schedule_destroy(s);
}

/* Before and after lowering, against another simulator's count, for every kind. */
static void test_peaks_of_all(void **state) {
    (void)state;
    for (tpp_schedule_kind kind = 1; kind < 40; kind++) {
        for (int32_t p = 1; p <= 6 && tpp_schedule_kind_name(kind); p++) {
            for (int32_t m = 1; m <= 13; m += 3) {
                tpp_schedule *s = sched_created(kind, p, 0, m, 0);
                int32_t before[6], until_w[6], until_i[6], peaks[6];
                assert_non_null(s);
                assert_ok(tpp_schedule_peaks_until(s, TPP_OP_W, before));
                assert_ok(tpp_schedule_lower(s));
                assert_ok(tpp_schedule_peaks_until(s, TPP_OP_W, until_w));
                assert_ok(tpp_schedule_peaks_until(s, TPP_OP_I, until_i));
                assert_ok(tpp_schedule_peaks(s, peaks));
                sched_sim sim = sched_sim_run(s, 1, 2);
                for (int32_t r = 0; r < p; r++) {
                    assert_int_equal(before[r], until_w[r]);
                    assert_int_equal(peaks[r], until_w[r]);
                    if (kind == TPP_SCHEDULE_FORWARD_ONLY) /* the simulator holds them for ever */
                        continue;
                    assert_int_equal(sim.peak[r], until_w[r]);
                    assert_int_equal(sim.peak_input[r], until_i[r]);
                }
                tpp_schedule_destroy(s);
            }
        }
    }
}

static void test_refusals(void **state) {
    (void)state;
    int32_t k;
    tpp_schedule *s = sched_made(TPP_SCHEDULE_1F1B, 2, 1, 2, 0);
    assert_fails(tpp_schedule_check_channel(s, 9, 0), TPP_ERR_INVALID, "channel = 9; valid: 0");
    assert_fails(tpp_schedule_check_channel(s, TPP_CHANNEL_TAGGED, -1), TPP_ERR_INVALID,
                 "capacity = -1; it must be >= 0");
    assert_fails(tpp_schedule_check_channel(s, TPP_CHANNEL_POSTED, 1), TPP_ERR_INVALID,
                 "capacity = 1; it must be 0 with channel 0");
    assert_fails(tpp_schedule_capacity(s, TPP_CHANNEL_POSTED, &k), TPP_ERR_INVALID,
                 "channel = 0 has no capacity");
    assert_fails(tpp_schedule_capacity(NULL, TPP_CHANNEL_TAGGED, &k), TPP_ERR_INVALID, "schedule");
    tpp_schedule_destroy(s);
    s = sched_created(TPP_SCHEDULE_1F1B, 2, 1, 2, 0);
    assert_fails(tpp_schedule_capacity(s, TPP_CHANNEL_TAGGED, &k), TPP_ERR_INVALID, "not lowered");
    tpp_schedule_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smallest),     cmocka_unit_test(test_brute),
        cmocka_unit_test(test_wait_cycle),   cmocka_unit_test(test_drawing),
        cmocka_unit_test(test_peaks),        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_peaks_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
