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

enum { GPIPE = TPP_SCHEDULE_GPIPE, F1B1 = TPP_SCHEDULE_1F1B, INTER = TPP_SCHEDULE_INTERLEAVED };

static void becomes(const char *order, const char *lowered) {
    tpp_schedule *s = sched_parsed(order);
    if (!s)
        fail_msg("%s", tpp_message());
    assert_ok(tpp_schedule_lower(s));
    char *text = sched_text(s);
    assert_string_equal(text, lowered);
    free(text);
    assert_ok(tpp_schedule_finish(s));
    tpp_schedule_destroy(s);
}

static void test_small(void **state) {
    (void)state;
    becomes("0F0 0F1 0B0 0B1\n1F0 1B0 1F1 1B1\n",
            "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
            "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1\n");
    /* the gradient leaves after I, not after W */
    becomes("0F0 0I0 0W0\n1F0 1I0 1W0\n", "0F0 0SEND_F0 0RECV_B0 0I0 0W0\n"
                                          "1RECV_F0 1F0 1I0 1SEND_B0 1W0\n");
    /* stages 1 and 2 share a rank: nothing passes between them */
    becomes("0F0 3F0 3B0 0B0\n1F0 2F0 2B0 1B0\n",
            "0F0 0SEND_F0 3RECV_F0 3F0 3B0 3SEND_B0 0RECV_B0 0B0\n"
            "1RECV_F0 1F0 2F0 2SEND_F0 2RECV_B0 2B0 1B0 1SEND_B0\n");
    becomes("0F0 1F0 1B0 0B0\n", "0F0 1F0 1B0 0B0\n");
}

/* --- For all small schedules --- */

typedef void each(const tpp_schedule *s, const tpp_schedule_info *info);

static void for_all(each *check) {
    for (int32_t p = 1; p <= 5; p++) {
        for (int32_t m = 1; m <= 9; m++) {
            for (int32_t v = 0; v <= 3; v++) { /* 0: 1F1B */
                for (int32_t g = 0; g <= (v ? m : 0); g++) {
                    tpp_schedule *s = sched_made(v ? INTER : F1B1, p, v, m, g);
                    tpp_schedule_info info = {.size = sizeof info};
                    assert_non_null(s);
                    assert_ok(tpp_schedule_query(s, &info));
                    check(s, &info);
                    tpp_schedule_destroy(s);
                }
            }
        }
    }
}

/* A slot is the smallest that is free at F, and free again after B: told by looking at all of them.
 */
static void check_slots(const tpp_schedule *s, const tpp_schedule_info *info) {
    int32_t most = 0, peaks[8];
    assert_ok(tpp_schedule_peaks(s, peaks));
    for (int32_t r = 0; r < info->ranks; r++) {
        int32_t holder_stage[64], holder_micro[64], used = 0;
        for (int32_t i = 0; i < 64; i++)
            holder_stage[i] = -1;
        int64_t count;
        const tpp_action *a = tpp_schedule_actions(s, r, &count);
        for (int64_t i = 0; i < count; i++) {
            int32_t slot = 0;
            if (a[i].op == TPP_OP_F) {
                while (holder_stage[slot] >= 0)
                    slot++;
                holder_stage[slot] = a[i].stage;
                holder_micro[slot] = a[i].micro;
            } else if (a[i].op == TPP_OP_B) {
                while (holder_stage[slot] != a[i].stage || holder_micro[slot] != a[i].micro)
                    slot++;
                holder_stage[slot] = -1;
            } else {
                continue;
            }
            assert_int_equal(a[i].slot, slot);
            used = slot + 1 > used ? slot + 1 : used;
        }
        assert_int_equal(used, peaks[r]);
        most = used > most ? used : most;
    }
    assert_int_equal(info->slots, most);
}

static void test_slots(void **state) {
    (void)state;
    for_all(check_slots);
}

static uint32_t next(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* One rank whose backwards come in any order, so that slots are freed in any order. */
static void test_slots_in_disorder(void **state) {
    (void)state;
    enum { MICROS = 50 };
    uint32_t seed = 3;
    for (int round = 0; round < 200; round++) {
        char text[MICROS * 16] = "", *to = text;
        int32_t held[MICROS], alive = 0, started = 0;
        while (started < MICROS || alive > 0) {
            bool forward = started < MICROS && (alive == 0 || next(&seed) % 8 < 5);
            int32_t at = forward ? 0 : (int32_t)(next(&seed) % (uint32_t)alive);
            to += sprintf(to, "0%s%d ", forward ? "F" : "B", forward ? started : held[at]);
            if (forward)
                held[alive++] = started++;
            else
                held[at] = held[--alive];
        }
        to[-1] = '\n';
        tpp_schedule *s = sched_parsed(text);
        tpp_schedule_info info = {.size = sizeof info};
        assert_ok(tpp_schedule_lower(s));
        assert_ok(tpp_schedule_query(s, &info));
        check_slots(s, &info);
        assert_ok(tpp_schedule_finish(s));
        tpp_schedule_destroy(s);
    }
}

static const tpp_action *other_end(const tpp_schedule *s, const tpp_action *a, int32_t op) {
    int64_t count;
    const tpp_action *b = tpp_schedule_actions(s, a->peer, &count), *found = NULL;
    for (int64_t i = 0; i < count; i++) {
        if (b[i].op != op || b[i].tag != a->tag)
            continue;
        assert_null(found);
        found = &b[i];
    }
    return found;
}

/* Each send meets one receive, of the neighbouring stage, with the slot of the micro-batch there;
 * and a tag names one message of the step. */
static void check_messages(const tpp_schedule *s, const tpp_schedule_info *info) {
    int64_t sends = 0, receives = 0;
    char *seen = calloc(2 * (size_t)info->stages * (size_t)info->micros, 1);
    for (int32_t r = 0; r < info->ranks; r++) {
        int64_t count;
        const tpp_action *a = tpp_schedule_actions(s, r, &count);
        for (int64_t i = 0; i < count; i++) {
            if (a[i].op < TPP_OP_SEND_F) {
                assert_int_equal(a[i].peer, -1);
                continue;
            }
            bool forward = a[i].op == TPP_OP_SEND_F;
            if (!forward && a[i].op != TPP_OP_SEND_B) {
                receives++;
                continue;
            }
            sends++;
            assert_int_equal(a[i].tag, 2 * (a[i].stage * info->micros + a[i].micro) + !forward);
            assert_int_equal(seen[a[i].tag]++, 0);
            const tpp_action *b = other_end(s, &a[i], forward ? TPP_OP_RECV_F : TPP_OP_RECV_B);
            assert_non_null(b);
            assert_int_equal(b->peer, r);
            assert_int_equal(b->micro, a[i].micro);
            assert_int_equal(b->stage, a[i].stage + (forward ? 1 : -1));
        }
    }
    assert_int_equal(sends, receives);
    assert_int_equal(sends, info->messages);
    free(seen);
}

static void test_messages(void **state) {
    (void)state;
    for_all(check_messages);
}

/* Only groups of 4 p - 2 and more need receives elsewhere than just before their consumers. */
static bool all_beside(const tpp_schedule *s, int32_t ranks) {
    for (int32_t r = 0; r < ranks; r++) {
        int64_t count;
        const tpp_action *a = tpp_schedule_actions(s, r, &count);
        for (int64_t i = 0; i < count; i++) {
            bool receives = a[i].op == TPP_OP_RECV_F || a[i].op == TPP_OP_RECV_B;
            bool sends = a[i].op == TPP_OP_SEND_F || a[i].op == TPP_OP_SEND_B;
            int32_t consumer = a[i].op == TPP_OP_RECV_F ? TPP_OP_F : TPP_OP_B;
            int32_t producer = a[i].op == TPP_OP_SEND_F ? TPP_OP_F : TPP_OP_B;
            const tpp_action *near = receives ? &a[i + 1] : &a[i - 1];
            if ((receives || sends) && (near->op != (receives ? consumer : producer) ||
                                        near->stage != a[i].stage || near->micro != a[i].micro))
                return false;
        }
    }
    return true;
}

static void test_places(void **state) {
    (void)state;
    int early = 0;
    for (int32_t p = 1; p <= 4; p++) {
        for (int32_t m = 1; m <= 16; m++) {
            for (int32_t g = 0; g <= m; g++) {
                tpp_schedule *s = sched_made(INTER, p, 2, m, g);
                assert_non_null(s);
                bool beside = all_beside(s, p);
                assert_true(beside || g >= 4 * p - 2);
                early += !beside;
                assert_true(sched_sim_run(s, 1, 2).finished);
                tpp_schedule_destroy(s);
            }
        }
    }
    assert_true(early > 50);
}

/* A receive that stands earlier is into the slot that the micro-batch has held since its forward.
 */
static void test_early_receive(void **state) {
    (void)state;
    tpp_schedule *s = sched_made(INTER, 2, 2, 6, 6);
    int64_t count;
    const tpp_action *a = tpp_schedule_actions(s, 1, &count);
    int32_t slot = -1, early = 0;
    for (int64_t i = 0; i < count; i++) {
        if (a[i].op == TPP_OP_F && a[i].stage == 1 && a[i].micro == 0)
            slot = a[i].slot;
        if (a[i].op != TPP_OP_RECV_B || a[i].stage != 1 || a[i].micro != 0)
            continue;
        assert_int_equal(a[i].slot, slot);
        early += a[i + 1].op != TPP_OP_B || a[i + 1].stage != 1;
    }
    assert_true(slot >= 0);
    assert_int_equal(early, 1);
    tpp_schedule_destroy(s);
}

/* Lowering adds and never reorders. */
static void test_order_kept(void **state) {
    (void)state;
    static const int32_t cases[][4] = {{3, 2, 7, 0}, {2, 2, 8, 8}, {4, 3, 5, 2}, {1, 3, 4, 0}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const int32_t *x = cases[c];
        tpp_schedule *plain = sched_created(INTER, x[0], x[1], x[2], x[3]);
        tpp_schedule *lowered = sched_made(INTER, x[0], x[1], x[2], x[3]);
        for (int32_t r = 0; r < x[0]; r++) {
            int64_t n, all, i = 0;
            const tpp_action *a = tpp_schedule_actions(plain, r, &n);
            const tpp_action *b = tpp_schedule_actions(lowered, r, &all);
            for (int64_t k = 0; k < all; k++) {
                if (b[k].op >= TPP_OP_SEND_F)
                    continue;
                assert_int_equal(b[k].op, a[i].op);
                assert_int_equal(b[k].stage, a[i].stage);
                assert_int_equal(b[k].chunk, a[i].chunk);
                assert_int_equal(b[k].micro, a[i].micro);
                assert_int_equal(a[i].slot, -1);
                i++;
            }
            assert_int_equal(i, n);
        }
        tpp_schedule_destroy(plain);
        tpp_schedule_destroy(lowered);
    }
}

/* --- Two halves of a backward --- */

static void test_held_until_w(void **state) {
    (void)state;
    tpp_schedule *s = sched_parsed("0F0 0I0 0F1 0W0 0F2 0I1 0W1 0I2 0W2\n");
    static const int32_t slots[] = {0, 0, 1, 0, 0, 1, 1, 0, 0};
    assert_ok(tpp_schedule_lower(s));
    int64_t count;
    const tpp_action *a = tpp_schedule_actions(s, 0, &count);
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(a[i].slot, slots[i]);
    int32_t peak;
    assert_ok(tpp_schedule_peaks(s, &peak));
    assert_int_equal(peak, 2);
    tpp_schedule_destroy(s);
}

/* --- Refusals --- */

static void refuses(const char *order, const char *words) {
    tpp_schedule *s = sched_parsed(order);
    if (!s)
        fail_msg("%s", tpp_message());
    assert_fails(tpp_schedule_lower(s), TPP_ERR_SCHEDULE, words);
    char *text = sched_text(s);
    assert_string_equal(text, order);
    tpp_schedule_info info = {.size = sizeof info};
    assert_ok(tpp_schedule_query(s, &info));
    assert_int_equal(info.slots, 0);
    assert_int_equal(tpp_schedule_actions(s, 0, NULL)->slot, -1);
    free(text);
    tpp_schedule_destroy(s);
}

static void test_refusals(void **state) {
    (void)state;
    refuses("0F0 0B0 0F1 0F1 0B1\n", "0F1 is doubled on rank 0");
    refuses("0F0 0B0 0F1\n", "0B1 is missing on rank 0");
    refuses("0F0 0B0 0B1\n", "0F1 is missing on rank 0");
    refuses("0F0 0I0\n", "0W0 is missing on rank 0");
    refuses("0F0 0W0\n", "0I0 is missing on rank 0");
    refuses("0F0 0B0 0W0\n", "0W0 of rank 0 is foreign: a B stands for I and W already");
    refuses("0F0 0I0 0B0 0W0\n", "0I0 of rank 0 is foreign: a B stands for I and W already");
    refuses("0F1 0B0 0F0 0B1\n", "rank 0: 0B0 stands before 0F0");
    refuses("0F0 0F9 0B0\n",
            "the schedule has 3 actions, but 1 stages and 10 micro-batches need at least 20");
}

/* Without backwards a slot is free after F, or when the next stage of the rank has read it. */
static void test_forward_only(void **state) {
    (void)state;
    tpp_schedule *s = sched_parsed("0F0 0F1 2F0 2F1\n1F0 1F1 3F0 3F1\n");
    assert_ok(tpp_schedule_lower(s));
    assert_ok(tpp_schedule_check(s, TPP_CHANNEL_POSTED));
    tpp_schedule_info info = {.size = sizeof info};
    assert_ok(tpp_schedule_query(s, &info));
    assert_int_equal(info.forward_only, 1);
    assert_int_equal(info.messages, 6);
    assert_int_equal(info.slots, 1);
    tpp_schedule_destroy(s);
    s = sched_parsed("0F0 0F1 1F0 1F1\n");
    assert_ok(tpp_schedule_lower(s));
    int32_t peak;
    assert_ok(tpp_schedule_peaks(s, &peak));
    assert_int_equal(peak, 3); /* 1F0 is held while it reads what 0F0 left */
    assert_ok(tpp_schedule_finish(s));
    tpp_schedule_destroy(s);
    s = sched_parsed("0F0 2F0 0F1 2F1\n1F0 3F0 1F1 3F1\n");
    assert_ok(tpp_schedule_lower(s));
    assert_ok(tpp_schedule_finish(s));
    tpp_schedule_destroy(s);
    s = sched_parsed("0F0 0F1 0F2 0F3 2F0 2F1 2F2 2F3\n"
                     "1F0 1F1 1F2 1F3 3F0 3F1 3F2 3F3\n");
    assert_ok(tpp_schedule_lower(s));
    /* 1F0's output lies in its slot until rank 0 takes it, after 0F3; so 1F1 has another slot, else
     * 1F1 would wait for rank 0, and 0F3, whose slot 0F2 has, for rank 1. */
    assert_ok(tpp_schedule_finish(s));
    assert_ok(tpp_schedule_query(s, &info));
    assert_in_range(info.slots, 2, 4);
    tpp_schedule_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_slots_in_disorder),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_early_receive),
        cmocka_unit_test(test_order_kept),
        cmocka_unit_test(test_held_until_w),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_forward_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
