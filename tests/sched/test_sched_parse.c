/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/sched_support.h"

#include <stdbool.h>
#include <stdio.h>

static tpp_status parse(tpp_schedule **s, const char *text) {
    return tpp_schedule_parse(s, text, (int64_t)strlen(text), NULL);
}

/* --- Reading is the inverse of writing --- */

static void same_actions(const tpp_schedule *a, const tpp_schedule *b, int32_t ranks) {
    for (int32_t r = 0; r < ranks; r++) {
        int64_t n, m;
        const tpp_action *x = tpp_schedule_actions(a, r, &n), *y = tpp_schedule_actions(b, r, &m);
        assert_int_equal(n, m);
        assert_memory_equal(x, y, (size_t)n * sizeof *x);
    }
}

static void same(const tpp_schedule *a, const tpp_schedule *b) {
    tpp_schedule_info x = {.size = sizeof x}, y = {.size = sizeof y};
    assert_ok(tpp_schedule_query(a, &x));
    assert_ok(tpp_schedule_query(b, &y));
    y.finished = x.finished;
    assert_memory_equal(&x, &y, sizeof x);
    same_actions(a, b, x.ranks);
    for (int32_t stage = 0; stage < x.stages; stage++)
        assert_int_equal(tpp_schedule_rank_of(a, stage), tpp_schedule_rank_of(b, stage));
    int32_t p[8] = {0}, q[8] = {0};
    assert_int_equal(tpp_schedule_peaks(a, p), tpp_schedule_peaks(b, q));
    assert_memory_equal(p, q, sizeof p);
}

static void there_and_back(tpp_schedule *s) {
    char *text = sched_text(s);
    tpp_schedule *again = sched_parsed(text);
    if (!again)
        fail_msg("%s", tpp_message());
    same(s, again);
    char *text_again = sched_text(again);
    assert_string_equal(text, text_again);
    free(text);
    free(text_again);
    tpp_schedule_destroy(again);
}

static void test_inverse(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 4; p++) {
        for (int32_t m = 1; m <= 8; m++) {
            for (int32_t v = 1; v <= 3; v++) {
                tpp_schedule *s = sched_created(TPP_SCHEDULE_INTERLEAVED, p, v, m, 0);
                there_and_back(s);
                assert_ok(tpp_schedule_lower(s));
                if (p > 1) /* without messages it reads as not lowered */
                    there_and_back(s);
                assert_ok(tpp_schedule_finish(s));
                tpp_schedule_destroy(s);
            }
        }
    }
    tpp_schedule *s = sched_made(TPP_SCHEDULE_INTERLEAVED, 2, 2, 8, 8); /* with early receives */
    there_and_back(s);
    tpp_schedule_destroy(s);
}

/* A parsed text is a schedule like another. */
static void test_parsed_can_be_finished(void **state) {
    (void)state;
    tpp_schedule *made = sched_made(TPP_SCHEDULE_1F1B, 3, 1, 4, 0);
    char *text = sched_text(made);
    tpp_schedule *s = sched_parsed(text);
    assert_int_equal(tpp_schedule_lower(s), TPP_ERR_INVALID);
    assert_ok(tpp_schedule_finish(s));
    same(made, s);
    tpp_schedule_destroy(s);
    tpp_schedule_destroy(made);
    free(text);
}

static void test_line_ends(void **state) {
    (void)state;
    static const char *const texts[] = {
        "0F0 0B0\n1F0 1B0\n",   "0F0 0B0\n1F0 1B0",           "0F0 0B0\r\n1F0 1B0\r\n",
        "0F0 0B0\r\n1F0 1B0\n", "0F0 0B0\n1F0 1B0\n\n\r\n\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tpp_schedule *s;
        assert_ok(parse(&s, texts[i]));
        char *text = sched_text(s);
        assert_string_equal(text, texts[0]);
        free(text);
        tpp_schedule_destroy(s);
    }
}

/* The text need not end in a zero byte. */
static void test_length(void **state) {
    (void)state;
    const char text[] = {'0', 'F', '1', '0', 'B', '0', ' ', '0', 'F', '1'};
    char *exact = malloc(sizeof text);
    memcpy(exact, text, sizeof text);
    tpp_schedule *s;
    tpp_schedule_info info = {.size = sizeof info};
    assert_int_equal(tpp_schedule_parse(&s, exact, 5, NULL), TPP_ERR_PARSE);
    assert_ok(tpp_schedule_parse(&s, exact, 3, NULL));
    assert_ok(tpp_schedule_query(s, &info));
    assert_int_equal(info.micros, 2);
    tpp_schedule_destroy(s);
    free(exact);
}

/* --- Refusals --- */

static void refuses(const char *text, tpp_status status, const char *words) {
    tpp_schedule *s = (tpp_schedule *)&status;
    assert_fails(parse(&s, text), status, words);
    assert_null(s);
}

static void test_grammar(void **state) {
    (void)state;
    const tpp_status bad = TPP_ERR_PARSE;
    refuses("", bad, "line 1, column 1: found the end of the text, expected a stage");
    refuses("\n", bad, "line 1, column 1: found the end of the line, expected a stage");
    refuses("0F0 0B0\n\n1F0 1B0\n", bad,
            "line 2, column 1: found the end of the line, expected a stage");
    refuses(" 0F0", bad, "line 1, column 1: found ' 0F0', expected a stage");
    refuses("0F0  0B0", bad, "line 1, column 5: found ' 0B0', expected a stage");
    refuses("0F0 ", bad, "line 1, column 5: found the end of the text, expected a stage");
    refuses("0F0 \n", bad, "line 1, column 5: found the end of the line, expected a stage");
    refuses("0F0\t0B0", bad,
            "line 1, column 4: found '?0B0', expected a blank or the end of the line");
    refuses("0F0 0B0\n1F0 1X0\n", bad,
            "line 2, column 6: found 'X0', expected an operation (F, B, I, W,");
    refuses("0F0 0SEND0", bad, "line 1, column 6: found 'SEND0', expected an operation");
    refuses("0F0 0f0", bad, "line 1, column 6: found 'f0', expected an operation");
    refuses("0F0 0", bad, "line 1, column 6: found the end of the text, expected an operation");
    refuses("0F0 0B", bad, "line 1, column 7: found the end of the text, expected a micro-batch");
    refuses("0F0 0B\n", bad, "line 1, column 7: found the end of the line, expected a micro-batch");
    refuses("0F0 0B-1", bad, "line 1, column 7: found '-1', expected a micro-batch");
    refuses("0F0,0B0", bad, "line 1, column 4: found ',0B0', expected a blank");
    refuses("0F0;", bad, "line 1, column 4: found ';', expected a blank");
    refuses("00F0", bad,
            "line 1, column 1: found '00F0', expected a stage, 0 .. 1048575 without leading zeros");
    refuses("0F01", bad, "line 1, column 3: found '01', expected a micro-batch");
    refuses("1048576F0", bad,
            "line 1, column 1: found '1048576F0', expected a stage, 0 .. 1048575");
    refuses(
        "0F99999999999999999999999999999999999999999", bad,
        "line 1, column 3: found '9999999999999999999999999999999999999', expected a micro-batch");
    refuses("0F0\r0B0", bad, "line 1, column 4: found the end of the line, expected a blank");
    refuses("0F0\r\n0B0 \xc3\xa9", bad, "line 2, column 5: found '?");
    refuses("0F0 0B0\r\n\r\n0F0", bad, "line 2, column 1: found the end of the line");
}

static void test_arguments(void **state) {
    (void)state;
    tpp_schedule *s;
    assert_fails(tpp_schedule_parse(NULL, "0F0", 3, NULL), TPP_ERR_INVALID, "out is NULL");
    assert_fails(tpp_schedule_parse(&s, NULL, 3, NULL), TPP_ERR_INVALID, "text is NULL");
    assert_fails(tpp_schedule_parse(&s, "0F0", -1, NULL), TPP_ERR_INVALID, "bytes = -1");
    tpp_allocator a = {0};
    assert_fails(tpp_schedule_parse(&s, "0F0", 3, &a), TPP_ERR_INVALID, "allocator.size = 0");
}

static void test_placement(void **state) {
    (void)state;
    refuses("0F0 0B0\n1F0 1B0 0F1\n", TPP_ERR_SCHEDULE,
            "line 2, column 9: stage 0 is on rank 0 already, so not on rank 1");
    refuses("0F0 0B0\n2F0 2B0\n", TPP_ERR_SCHEDULE, "stage 1 is on no rank");
    refuses("1F0\n", TPP_ERR_SCHEDULE, "stage 0 is on no rank");
    refuses("0F1048575\n1F0 2F0 3F0 4F0 5F0 6F0 7F0\n1048575F0\n", TPP_ERR_OVERFLOW,
            "1048576 stages of 1048576 micro-batches have more message tags than 32 bits hold");
}

/* A rank's stages are chunks of it in rising order, whatever the order of the line. */
static void test_chunks(void **state) {
    (void)state;
    tpp_schedule *s;
    assert_ok(parse(&s, "3F0 0F0 3B0 0B0\n2F0 1F0 2B0 1B0\n"));
    int64_t count;
    const tpp_action *a = tpp_schedule_actions(s, 0, &count);
    assert_int_equal(a[0].chunk, 1);
    assert_int_equal(a[1].chunk, 0);
    assert_int_equal(tpp_schedule_stage_of(s, 1, 1), 2);
    tpp_schedule_destroy(s);
}

/* --- Text of any kind --- */

static uint32_t next(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Damaged texts are refused or are schedules, and never more than that. */
static void test_damaged(void **state) {
    (void)state;
    static const char alphabet[] = "0123456789FBIWSENDRCV_ \r\n";
    tpp_schedule *s = sched_made(TPP_SCHEDULE_INTERLEAVED, 2, 2, 2, 0);
    char *text = sched_text(s);
    size_t length = strlen(text);
    uint32_t seed = 1;
    int parsed = 0, checked = 0;
    for (int i = 0; i < 20000; i++) {
        char *x = malloc(length);
        memcpy(x, text, length);
        for (uint32_t k = next(&seed) % 3 + 1; k > 0; k--)
            x[next(&seed) % length] = alphabet[next(&seed) % (sizeof alphabet - 1)];
        tpp_schedule *damaged;
        tpp_status status =
            tpp_schedule_parse(&damaged, x, (int64_t)(length - next(&seed) % 2), NULL);
        if (status == TPP_OK) {
            parsed++;
            status = tpp_schedule_check(damaged, TPP_CHANNEL_RENDEZVOUS);
            tpp_status posted = tpp_schedule_check(damaged, TPP_CHANNEL_POSTED);
            assert_true(posted <= 0 && status <= 0);
            checked += posted == TPP_OK;
        } else {
            assert_null(damaged);
            assert_true(status == TPP_ERR_PARSE || status == TPP_ERR_SCHEDULE);
        }
        tpp_schedule_destroy(damaged);
        free(x);
    }
    assert_true(parsed > 100);
    assert_true(checked > 0);
    free(text);
    tpp_schedule_destroy(s);
}

/* --- Writing --- */

static tpp_status full(void *ctx, const char *bytes, int64_t count) {
    int *calls = ctx;
    (void)bytes;
    (void)count;
    return ++*calls == 2 ? TPP_ERR_USER - 7 : TPP_OK;
}

static void test_sink_refuses(void **state) {
    (void)state;
    tpp_schedule *s = sched_made(TPP_SCHEDULE_1F1B, 4, 1, 200, 0);
    int calls = 0;
    assert_int_equal(tpp_schedule_write_text(s, full, &calls), TPP_ERR_USER - 7);
    assert_int_equal(calls, 2);
    tpp_schedule_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inverse),   cmocka_unit_test(test_parsed_can_be_finished),
        cmocka_unit_test(test_line_ends), cmocka_unit_test(test_length),
        cmocka_unit_test(test_grammar),   cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_placement), cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_damaged),   cmocka_unit_test(test_sink_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
