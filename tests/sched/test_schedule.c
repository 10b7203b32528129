/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/sched_support.h"

#include <stdio.h>

/* --- Descriptions that are refused --- */

static void refuses(tpp_schedule_desc d, tpp_status status, const char *words) {
    tpp_schedule *s = (tpp_schedule *)&d;
    assert_fails(tpp_schedule_create(&s, &d), status, words);
    assert_null(s);
    s = (tpp_schedule *)&d;
    assert_fails(tpp_schedule_make(&s, &d), status, words);
    assert_null(s);
}

static void test_bad_desc(void **state) {
    (void)state;
    enum { GPIPE = TPP_SCHEDULE_GPIPE, F1B1 = TPP_SCHEDULE_1F1B, INTER = TPP_SCHEDULE_INTERLEAVED };
    const tpp_status bad = TPP_ERR_INVALID;
    refuses(sched_desc(0, 2, 1, 4, 0), bad,
            "desc.kind = 0 is no schedule; valid: 1 (gpipe), 2 (1f1b)");
    refuses(sched_desc(99, 2, 1, 4, 0), bad, "desc.kind = 99 ");
    refuses(sched_desc(-1, 2, 1, 4, 0), bad, "desc.kind = -1 ");
    refuses(sched_desc(GPIPE, 0, 1, 4, 0), bad,
            "desc.ranks = 0 is out of range; valid: 1 .. 1048576");
    refuses(sched_desc(GPIPE, -3, 1, 4, 0), bad, "desc.ranks = -3 ");
    refuses(sched_desc(GPIPE, (1 << 20) + 1, 1, 4, 0), bad, "desc.ranks = 1048577 ");
    refuses(sched_desc(F1B1, 2, 1, 0, 0), bad,
            "desc.micros = 0 is out of range; valid: 1 .. 1048576");
    refuses(sched_desc(F1B1, 2, 1, -8, 0), bad, "desc.micros = -8 ");
    refuses(sched_desc(GPIPE, 2, 2, 4, 0), bad, "desc.chunks = 2 but kind gpipe has 1");
    refuses(sched_desc(F1B1, 2, 2, 4, 0), bad, "desc.chunks = 2 but kind 1f1b has 1");
    refuses(sched_desc(INTER, 2, -1, 4, 0), bad,
            "desc.chunks = -1 is out of range; valid: 0 .. 65536");
    refuses(sched_desc(INTER, 1, 65537, 4, 0), bad, "desc.chunks = 65537 ");
    refuses(sched_desc(INTER, 1 << 10, 1025, 1, 0), bad, "desc.ranks * desc.chunks = 1024 * 1025 ");
    refuses(sched_desc(INTER, 2, 2, 4, 5), bad, "desc.group = 5 is not within 0 .. micros = 4");
    refuses(sched_desc(INTER, 2, 2, 4, -1), bad, "desc.group = -1 is not within 0 .. micros = 4");
    refuses(sched_desc(F1B1, 2, 1, 4, 2), bad, "desc.group = 2 but kind 1f1b has no groups");
    tpp_schedule_desc d = sched_desc(F1B1, 2, 1, 4, 0);
    d.reserved0 = 7;
    refuses(d, bad, "desc.reserved0 = 7");
}

static void test_too_large(void **state) {
    (void)state;
    refuses(sched_desc(TPP_SCHEDULE_GPIPE, 1 << 11, 1, 1 << 20, 0), TPP_ERR_OVERFLOW,
            "2048 stages of 1048576 micro-batches have more message tags than 32 bits hold");
    refuses(sched_desc(TPP_SCHEDULE_INTERLEAVED, 1, 512, 1 << 20, 0), TPP_ERR_OVERFLOW,
            "rank 0 has 512 stages of 1048576 micro-batches");
}

static void test_sizes_of_desc(void **state) {
    (void)state;
    struct {
        tpp_schedule_desc d;
        uint64_t tail;
    } longer = {sched_desc(TPP_SCHEDULE_1F1B, 2, 1, 4, 0), 0};
    tpp_schedule *s;
    longer.d.size = sizeof longer;
    assert_ok(tpp_schedule_make(&s, &longer.d));
    tpp_schedule_destroy(s);
    longer.tail = 1;
    assert_fails(tpp_schedule_create(&s, &longer.d), TPP_ERR_TOO_NEW, "desc uses byte 56");
    tpp_schedule_desc d = sched_desc(TPP_SCHEDULE_1F1B, 2, 1, 4, 0);
    d.size = 7;
    assert_fails(tpp_schedule_create(&s, &d), TPP_ERR_INVALID, "desc.size = 7 is too small");
    d.size = offsetof(tpp_schedule_desc, chunks); /* without micros */
    assert_fails(tpp_schedule_create(&s, &d), TPP_ERR_INVALID, "desc.micros = 0 ");
    d = sched_desc(TPP_SCHEDULE_1F1B, 2, 1, 4, 0);
    d.flags = 2;
    assert_fails(tpp_schedule_create(&s, &d), TPP_ERR_TOO_NEW, "desc.flags = 0x2");
    d.flags = 0;
    d.size = offsetof(tpp_schedule_desc, group); /* defaults from here on */
    assert_ok(tpp_schedule_make(&s, &d));
    tpp_schedule_destroy(s);
}

static void test_null(void **state) {
    (void)state;
    tpp_schedule_desc d = sched_desc(TPP_SCHEDULE_1F1B, 2, 1, 4, 0);
    tpp_schedule_info info = {.size = sizeof info};
    tpp_schedule *s = sched_made(d.kind, 2, 1, 4, 0);
    assert_fails(tpp_schedule_create(NULL, &d), TPP_ERR_INVALID, "out is NULL");
    assert_fails(tpp_schedule_make(NULL, &d), TPP_ERR_INVALID, "out is NULL");
    tpp_schedule *none;
    assert_fails(tpp_schedule_create(&none, NULL), TPP_ERR_INVALID, "desc is NULL");
    assert_fails(tpp_schedule_lower(NULL), TPP_ERR_INVALID, "schedule is NULL");
    assert_fails(tpp_schedule_check(NULL, 0), TPP_ERR_INVALID, "schedule is NULL");
    assert_fails(tpp_schedule_finish(NULL), TPP_ERR_INVALID, "schedule is NULL");
    assert_fails(tpp_schedule_query(NULL, &info), TPP_ERR_INVALID, "schedule is NULL");
    assert_fails(tpp_schedule_query(s, NULL), TPP_ERR_INVALID, "out is NULL");
    int32_t peaks[2];
    assert_fails(tpp_schedule_peaks(NULL, peaks), TPP_ERR_INVALID, "schedule is NULL");
    assert_fails(tpp_schedule_peaks(s, NULL), TPP_ERR_INVALID, "out is NULL");
    assert_fails(tpp_schedule_write_text(NULL, NULL, NULL), TPP_ERR_INVALID, "schedule is NULL");
    assert_fails(tpp_schedule_write_text(s, NULL, NULL), TPP_ERR_INVALID, "write is NULL");
    int64_t count = 5;
    assert_null(tpp_schedule_actions(NULL, 0, &count));
    assert_int_equal(count, 0);
    assert_int_equal(tpp_schedule_rank_of(NULL, 0), -1);
    assert_int_equal(tpp_schedule_stage_of(NULL, 0, 0), -1);
    tpp_schedule_destroy(NULL);
    tpp_schedule_destroy(s);
}

/* --- Facts --- */

static void test_facts(void **state) {
    (void)state;
    tpp_schedule *s = sched_created(TPP_SCHEDULE_INTERLEAVED, 3, 2, 5, 0);
    tpp_schedule_info info = {.size = sizeof info};
    assert_ok(tpp_schedule_query(s, &info));
    assert_int_equal(info.ranks, 3);
    assert_int_equal(info.chunks, 2);
    assert_int_equal(info.stages, 6);
    assert_int_equal(info.micros, 5);
    assert_int_equal(info.actions, 60);
    assert_int_equal(info.slots + info.finished + info.messages, 0);
    assert_ok(tpp_schedule_lower(s));
    assert_ok(tpp_schedule_query(s, &info));
    assert_int_equal(info.messages, 5 * 5 * 2);
    assert_int_equal(info.actions, 60 + 2 * 50);
    assert_int_equal(info.finished, 0);
    assert_true(info.slots > 0);
    assert_ok(tpp_schedule_finish(s));
    assert_ok(tpp_schedule_query(s, &info));
    assert_int_equal(info.finished, 1);
    info.size = offsetof(tpp_schedule_info, stages); /* an older caller */
    info.stages = -5;
    assert_ok(tpp_schedule_query(s, &info));
    assert_int_equal(info.stages, -5);
    tpp_schedule_destroy(s);
}

static void test_places(void **state) {
    (void)state;
    tpp_schedule *s = sched_created(TPP_SCHEDULE_INTERLEAVED, 3, 2, 4, 0);
    for (int32_t stage = 0; stage < 6; stage++) {
        assert_int_equal(tpp_schedule_rank_of(s, stage), stage % 3);
        assert_int_equal(tpp_schedule_stage_of(s, stage % 3, stage / 3), stage);
    }
    assert_int_equal(tpp_schedule_rank_of(s, -1), -1);
    assert_int_equal(tpp_schedule_rank_of(s, 6), -1);
    assert_int_equal(tpp_schedule_stage_of(s, -1, 0), -1);
    assert_int_equal(tpp_schedule_stage_of(s, 3, 0), -1);
    assert_int_equal(tpp_schedule_stage_of(s, 0, -1), -1);
    assert_int_equal(tpp_schedule_stage_of(s, 0, 2), -1);
    int64_t count = 1;
    assert_non_null(tpp_schedule_actions(s, 2, &count));
    assert_int_equal(count, 16);
    assert_non_null(tpp_schedule_actions(s, 2, NULL));
    assert_null(tpp_schedule_actions(s, 3, &count));
    assert_int_equal(count, 0);
    assert_null(tpp_schedule_actions(s, -1, &count));
    tpp_schedule_destroy(s);
    s = sched_parsed("1F0 3F0 2F0\n0F0\n"); /* ranks with different numbers of stages */
    tpp_schedule_info info = {.size = sizeof info};
    assert_ok(tpp_schedule_query(s, &info));
    assert_int_equal(info.stages, 4);
    assert_int_equal(info.chunks, 3);
    for (int32_t chunk = 0; chunk < 3; chunk++)
        assert_int_equal(tpp_schedule_stage_of(s, 0, chunk), 1 + chunk);
    assert_int_equal(tpp_schedule_stage_of(s, 1, 0), 0);
    assert_int_equal(tpp_schedule_stage_of(s, 1, 1), -1);
    tpp_schedule_destroy(s);
}

/* --- Life --- */

static void test_life(void **state) {
    (void)state;
    tpp_schedule *s = sched_created(TPP_SCHEDULE_1F1B, 2, 0, 2, 0);
    int32_t peaks[2];
    assert_fails(tpp_schedule_check(s, TPP_CHANNEL_POSTED), TPP_ERR_INVALID, "is not lowered");
    assert_fails(tpp_schedule_finish(s), TPP_ERR_INVALID, "is not lowered");
    assert_fails(tpp_schedule_peaks(s, peaks), TPP_ERR_INVALID, "is not lowered");
    assert_ok(tpp_schedule_lower(s));
    assert_fails(tpp_schedule_lower(s), TPP_ERR_INVALID, "schedule is lowered already");
    assert_ok(tpp_schedule_peaks(s, peaks));
    assert_fails(tpp_schedule_check(s, 2), TPP_ERR_INVALID, "channel = 2; valid: 0 (POSTED), 1");
    assert_fails(tpp_schedule_check(s, -1), TPP_ERR_INVALID, "channel = -1");
    assert_ok(tpp_schedule_check(s, TPP_CHANNEL_POSTED));
    assert_ok(tpp_schedule_finish(s));
    char *before = sched_text(s);
    assert_fails(tpp_schedule_lower(s), TPP_ERR_INVALID, "schedule is finished already");
    assert_ok(tpp_schedule_finish(s));
    assert_ok(tpp_schedule_check(s, TPP_CHANNEL_POSTED));
    char *after = sched_text(s);
    assert_string_equal(before, after);
    free(before);
    free(after);
    tpp_schedule_destroy(s);
}

static void test_finish_refuses(void **state) {
    (void)state;
    tpp_schedule *s = sched_parsed("0F0 0SEND_F0 0RECV_B0 0B0\n1RECV_F0 1F0 1B0 1SEND_B0 1F1\n");
    tpp_schedule_info info = {.size = sizeof info};
    assert_fails(tpp_schedule_finish(s), TPP_ERR_SCHEDULE, "missing");
    assert_ok(tpp_schedule_query(s, &info));
    assert_int_equal(info.finished, 0);
    tpp_schedule_destroy(s);
}

/* --- Layers onto stages --- */

static void test_partition(void **state) {
    (void)state;
    for (int32_t items = 0; items <= 128; items++) {
        for (int32_t parts = 1; parts <= 32; parts++) {
            int32_t next = 0, least = INT32_MAX, most = 0, before = INT32_MAX;
            for (int32_t part = 0; part < parts; part++) {
                int32_t first, count;
                assert_ok(tpp_schedule_partition(items, parts, part, &first, &count));
                assert_int_equal(first, next);
                assert_true(count <= before);
                next = first + count;
                before = count;
                least = count < least ? count : least;
                most = count > most ? count : most;
            }
            assert_int_equal(next, items);
            assert_true(most - least <= 1);
        }
    }
    int32_t first[3], count[3], expected[] = {4, 3, 3}, starts[] = {0, 4, 7};
    for (int32_t part = 0; part < 3; part++)
        assert_ok(tpp_schedule_partition(10, 3, part, &first[part], &count[part]));
    assert_memory_equal(count, expected, sizeof count);
    assert_memory_equal(first, starts, sizeof first);
    assert_ok(tpp_schedule_partition(INT32_MAX, 2, 1, first, count));
    assert_int_equal(first[0], 1 << 30);
    assert_int_equal(count[0], INT32_MAX / 2);
}

static void test_partition_refuses(void **state) {
    (void)state;
    int32_t n;
    assert_fails(tpp_schedule_partition(-1, 3, 0, &n, &n), TPP_ERR_INVALID,
                 "items = -1; must be >= 0");
    assert_fails(tpp_schedule_partition(8, 0, 0, &n, &n), TPP_ERR_INVALID,
                 "parts = 0; must be >= 1");
    assert_fails(tpp_schedule_partition(8, 3, 3, &n, &n), TPP_ERR_INVALID,
                 "part = 3 is not within");
    assert_fails(tpp_schedule_partition(8, 3, -1, &n, &n), TPP_ERR_INVALID,
                 "part = -1 is not within");
    assert_fails(tpp_schedule_partition(8, 3, 0, NULL, &n), TPP_ERR_INVALID, "first is NULL");
    assert_fails(tpp_schedule_partition(8, 3, 0, &n, NULL), TPP_ERR_INVALID, "count is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_desc),      cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_sizes_of_desc), cmocka_unit_test(test_null),
        cmocka_unit_test(test_facts),         cmocka_unit_test(test_places),
        cmocka_unit_test(test_life),          cmocka_unit_test(test_finish_refuses),
        cmocka_unit_test(test_partition),     cmocka_unit_test(test_partition_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
