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

static void waits(tpp_schedule *s, tpp_channel channel, const char *cycle) {
    assert_non_null(s);
    assert_int_equal(tpp_schedule_check(s, channel), TPP_ERR_DEADLOCK);
    assert_string_equal(tpp_message(), cycle);
    tpp_schedule_destroy(s);
}

/* --- Sends that block --- */

/* Receive, compute, blocking send: textbook 1F1B waits in a ring, and the check says in which. */
static void test_1f1b_blocks(void **state) {
    (void)state;
    const tpp_schedule_kind kind = TPP_SCHEDULE_1F1B;
    const tpp_channel block = TPP_CHANNEL_RENDEZVOUS;
    waits(sched_made(kind, 2, 1, 2, 0), block,
          "rank 0 waits at 0SEND_F1 for rank 1, rank 1 waits at 1SEND_B0 for rank 0");
    waits(sched_made(kind, 3, 1, 4, 0), block,
          "rank 1 waits at 1SEND_F1 for rank 2, rank 2 waits at 2SEND_B0 for rank 1");
    waits(sched_made(kind, 4, 1, 2, 0), block,
          "rank 2 waits at 2SEND_F1 for rank 3, rank 3 waits at 3SEND_B0 for rank 2");
    waits(sched_made(kind, 4, 1, 8, 0), block,
          "rank 2 waits at 2SEND_F1 for rank 3, rank 3 waits at 3SEND_B0 for rank 2");
    waits(sched_made(TPP_SCHEDULE_INTERLEAVED, 2, 2, 4, 0), block,
          "rank 0 waits at 0SEND_F1 for rank 1, rank 1 waits at 1SEND_F0 for rank 0");
}

/* GPipe needs no buffer; neither does a single micro-batch, nor a single rank. */
static void test_blocking_is_enough(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 6; p++) {
        for (int32_t m = 1; m <= 12; m++) {
            tpp_schedule *s = sched_made(TPP_SCHEDULE_GPIPE, p, 1, m, 0);
            assert_ok(tpp_schedule_check(s, TPP_CHANNEL_RENDEZVOUS));
            tpp_schedule_destroy(s);
            s = sched_made(TPP_SCHEDULE_1F1B, p, 1, m, 0);
            assert_int_equal(tpp_schedule_check(s, TPP_CHANNEL_RENDEZVOUS),
                             p == 1 || m == 1 ? TPP_OK : TPP_ERR_DEADLOCK);
            tpp_schedule_destroy(s);
        }
    }
}

/* Both ranks meet at a message, whichever comes first, but not before what the other one carries is
 * there. */
static void test_meeting(void **state) {
    (void)state;
    tpp_schedule *s = sched_parsed("1RECV_F0 1F0 1B0 1SEND_B0\n0F0 0SEND_F0 0RECV_B0 0B0\n");
    assert_ok(tpp_schedule_check(s, TPP_CHANNEL_RENDEZVOUS));
    tpp_schedule_destroy(s);
    s = sched_parsed("1RECV_F0 1F0 1B0 1SEND_B0\n0SEND_F0 0F0 0RECV_B0 0B0\n");
    assert_fails(tpp_schedule_check(s, TPP_CHANNEL_RENDEZVOUS), TPP_ERR_SCHEDULE,
                 "rank 1: 0SEND_F0 stands before 0F0");
    tpp_schedule_destroy(s);
}

static void test_long_cycle(void **state) {
    (void)state;
    tpp_schedule *s = sched_made(TPP_SCHEDULE_INTERLEAVED, 64, 2, 128, 0);
    assert_fails(tpp_schedule_check(s, TPP_CHANNEL_RENDEZVOUS), TPP_ERR_DEADLOCK,
                 "rank 0 waits at 0SEND_F63 for rank 1, rank 1 waits at 1SEND_F62 for rank 2, ");
    const char *rest = strstr(tpp_message(), ", and so on over ");
    assert_non_null(rest);
    int more, told = 0;
    assert_int_equal(sscanf(rest, ", and so on over %d more ranks", &more), 1);
    for (const char *at = tpp_message(); (at = strstr(at, "waits at")); at++)
        told++;
    assert_int_equal(told + more, 64);
    tpp_schedule_destroy(s);
}

/* --- Sends that are posted --- */

static tpp_schedule *lowered(const char *text) {
    tpp_schedule *s = sched_parsed(text);
    assert_ok(tpp_schedule_lower(s));
    return s;
}

static void test_orders_that_cross(void **state) {
    (void)state;
    waits(lowered("0F0 0B0 0F1 0B1\n1F0 1F1 1B0 1B1\n"), TPP_CHANNEL_POSTED,
          "rank 0 waits at 0RECV_B0 for rank 1, rank 1 waits at 1RECV_F1 for rank 0");
    /* rank 0 is not in the ring, it waits for one who is */
    waits(lowered("0F0 0F1 0B1 0B0\n1F0 1B0 1F1 1B1\n2F0 2F1 2B0 2B1\n"), TPP_CHANNEL_POSTED,
          "rank 1 waits at 1RECV_B0 for rank 2, rank 2 waits at 2RECV_F1 for rank 1");
}

/* A compute order with its messages, each receive just before its consumer. */
static char *naive(const tpp_schedule *s) {
    tpp_schedule_info info = {.size = sizeof info};
    assert_ok(tpp_schedule_query(s, &info));
    char *text = calloc((size_t)info.actions * 3, 16), *to = text;
    for (int32_t r = 0; r < info.ranks; r++) {
        int64_t count;
        const tpp_action *a = tpp_schedule_actions(s, r, &count);
        for (int64_t i = 0; i < count; i++) {
            int32_t stage = a[i].stage, micro = a[i].micro, last = info.stages - 1;
            bool forward = a[i].op == TPP_OP_F;
            if (stage != (forward ? 0 : last))
                to += sprintf(to, "%d%s%d ", stage, forward ? "RECV_F" : "RECV_B", micro);
            to += sprintf(to, "%d%s%d ", stage, forward ? "F" : "B", micro);
            if (stage != (forward ? last : 0))
                to += sprintf(to, "%d%s%d ", stage, forward ? "SEND_F" : "SEND_B", micro);
        }
        to[-1] = '\n';
    }
    return text;
}

/* Gradients lie in their slots until they are received: with a large group ranks wait for each
 * other's slots, unless lower places some receives earlier. The simulator says the same. */
static void test_slots_in_a_ring(void **state) {
    (void)state;
    tpp_schedule *order = sched_created(TPP_SCHEDULE_INTERLEAVED, 2, 2, 6, 6);
    char *text = naive(order);
    tpp_schedule *s = sched_parsed(text);
    assert_non_null(s);
    assert_false(sched_sim_run(s, 1, 2).finished);
    waits(s, TPP_CHANNEL_POSTED,
          "rank 0 waits at 2B3 for rank 1 to receive 2SEND_B0, "
          "rank 1 waits at 3B5 for rank 0 to receive 3SEND_B4");
    assert_ok(tpp_schedule_lower(order));
    assert_ok(tpp_schedule_finish(order));
    assert_true(sched_sim_run(order, 1, 2).finished);
    tpp_schedule_destroy(order);
    free(text);
}

/* Wherever lower has nothing to move, it writes what the naive text says. */
static void test_naive_is_lower(void **state) {
    (void)state;
    for (int32_t p = 2; p <= 4; p++) {
        for (int32_t m = 1; m <= 8; m++) {
            tpp_schedule *s = sched_created(TPP_SCHEDULE_INTERLEAVED, p, 2, m, 0);
            char *expected = naive(s);
            assert_ok(tpp_schedule_lower(s));
            char *text = sched_text(s);
            assert_string_equal(text, expected);
            free(text);
            free(expected);
            tpp_schedule_destroy(s);
        }
    }
}

/* An order that cannot finish is lowered all the same, and the message of the thread stays. */
static void test_lower_is_quiet(void **state) {
    (void)state;
    tpp_schedule *s = sched_parsed("0F0 0B0 0F1 0B1\n1F0 1F1 1B0 1B1\n");
    tpp_message_set("as before");
    assert_ok(tpp_schedule_lower(s));
    assert_string_equal(tpp_message(), "as before");
    assert_int_equal(tpp_schedule_finish(s), TPP_ERR_DEADLOCK);
    tpp_schedule_destroy(s);
    s = sched_parsed("1F0 0F0 0B0 1B0\n2F0 2B0\n"); /* out of order on one rank */
    tpp_message_set("as before");
    assert_ok(tpp_schedule_lower(s));
    assert_string_equal(tpp_message(), "as before");
    assert_fails(tpp_schedule_finish(s), TPP_ERR_SCHEDULE, "rank 0: 1F0 stands before 0F0");
    tpp_schedule_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_1f1b_blocks),       cmocka_unit_test(test_blocking_is_enough),
        cmocka_unit_test(test_meeting),           cmocka_unit_test(test_long_cycle),
        cmocka_unit_test(test_orders_that_cross), cmocka_unit_test(test_slots_in_a_ring),
        cmocka_unit_test(test_naive_is_lower),    cmocka_unit_test(test_lower_is_quiet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
