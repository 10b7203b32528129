/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/sched_support.h"
#include "support/tp_memory.h"

/* Every call that allocates is tried with its first, second, ... allocation failing, until one
 * attempt needs no more: it says so, leaves nothing behind, and can be repeated. */

typedef tpp_status attempt(const tp_counting *memory, void *ctx);

static void try_all(attempt *call, void *ctx, int64_t least) {
    int64_t failed = 0;
    for (;; failed++) {
        tp_counting memory;
        tp_counting_init(&memory);
        memory.fail_at = failed + 1;
        tpp_status status = call(&memory, ctx);
        assert_int_equal(memory.live, 0);
        assert_int_equal(memory.live_bytes, 0);
        assert_int_equal(memory.wrong, 0);
        if (status == TPP_OK)
            break;
        assert_fails(status, TPP_ERR_NO_MEMORY, "the allocator returned NULL for ");
    }
    assert_true(failed >= least);
}

static tpp_status make(const tp_counting *memory, void *ctx) {
    tpp_schedule_desc d = *(const tpp_schedule_desc *)ctx;
    tpp_schedule *s = NULL;
    d.allocator = &memory->allocator;
    tpp_status status = tpp_schedule_make(&s, &d);
    assert_int_equal(s != NULL, status == TPP_OK);
    tpp_schedule_destroy(s);
    return status;
}

static void test_make(void **state) {
    (void)state;
    tpp_schedule_desc d = sched_desc(TPP_SCHEDULE_1F1B, 3, 1, 4, 0);
    try_all(make, &d, 7);
    d = sched_desc(TPP_SCHEDULE_INTERLEAVED, 2, 2, 8, 8); /* moves receives: two more arrays */
    try_all(make, &d, 10);
    d = sched_desc(TPP_SCHEDULE_V_HALF, 3, 0, 4, 0); /* is made for all ranks together: one more */
    try_all(make, &d, 8);
}

static tpp_status parse(const tp_counting *memory, void *ctx) {
    const char *text = ctx;
    tpp_schedule *s = NULL;
    tpp_status status = tpp_schedule_parse(&s, text, (int64_t)strlen(text), &memory->allocator);
    assert_int_equal(s != NULL, status == TPP_OK);
    tpp_schedule_destroy(s);
    return status;
}

static void test_parse(void **state) {
    (void)state;
    tpp_schedule *s = sched_made(TPP_SCHEDULE_1F1B, 3, 1, 4, 0);
    char *text = sched_text(s);
    try_all(parse, text, 3);
    try_all(parse, "0F0 0B0\n", 2);
    free(text);
    tpp_schedule_destroy(s);
}

/* lower and check on a schedule that was made while there was memory. */
static tpp_status lower(const tp_counting *memory, void *ctx) {
    tp_counting *m = (tp_counting *)memory;
    tpp_schedule_desc d = *(const tpp_schedule_desc *)ctx;
    tpp_schedule *s;
    int64_t fail_at = m->fail_at;
    d.allocator = &m->allocator;
    m->fail_at = 0;
    assert_ok(tpp_schedule_create(&s, &d));
    char *before = sched_text(s);
    m->fail_at = m->calls + fail_at;
    tpp_status status = tpp_schedule_lower(s);
    if (status < 0) { /* it is as it was, and the second time works */
        char *after = sched_text(s);
        assert_string_equal(before, after);
        free(after);
        tpp_schedule_info info = {.size = sizeof info};
        tpp_schedule_query(s, &info);
        assert_int_equal(info.slots + info.messages, 0);
        assert_int_equal(tpp_schedule_actions(s, 0, NULL)->slot, -1);
        assert_int_equal(status, TPP_ERR_NO_MEMORY);
        m->fail_at = 0;
        assert_ok(tpp_schedule_lower(s));
        d.allocator = NULL;
        tpp_schedule *right;
        assert_ok(tpp_schedule_make(&right, &d));
        char *text = sched_text(s), *expected = sched_text(right);
        assert_string_equal(text, expected);
        free(text);
        free(expected);
        tpp_schedule_destroy(right);
        tpp_message_set("the allocator returned NULL for this test");
    }
    m->fail_at = 0;
    assert_int_equal(tpp_schedule_finish(s), TPP_OK);
    tpp_schedule_destroy(s);
    free(before);
    return status;
}

static void test_lower(void **state) {
    (void)state;
    tpp_schedule_desc d = sched_desc(TPP_SCHEDULE_INTERLEAVED, 2, 2, 8, 8);
    try_all(lower, &d, 6);
    d = sched_desc(TPP_SCHEDULE_GPIPE, 3, 1, 2, 0);
    try_all(lower, &d, 4);
    d = sched_desc(TPP_SCHEDULE_FORWARD_ONLY, 2, 2, 8, 8);
    try_all(lower, &d, 8);
}

static tpp_status check(const tp_counting *memory, void *ctx) {
    tp_counting *m = (tp_counting *)memory;
    tpp_schedule_desc d = *(const tpp_schedule_desc *)ctx;
    tpp_schedule *s;
    int64_t fail_at = m->fail_at;
    d.allocator = &m->allocator;
    m->fail_at = 0;
    assert_ok(tpp_schedule_make(&s, &d));
    m->fail_at = m->calls + fail_at;
    tpp_status status = tpp_schedule_check(s, TPP_CHANNEL_POSTED);
    tpp_schedule_destroy(s);
    return status;
}

static void test_check(void **state) {
    (void)state;
    tpp_schedule_desc d = sched_desc(TPP_SCHEDULE_1F1B, 3, 1, 4, 0);
    try_all(check, &d, 2);
}

/* Bytes that the caller's allocator gives are not taken as zero, and what is refused takes none. */
static void test_refused_takes_nothing(void **state) {
    (void)state;
    tp_counting memory;
    tp_counting_init(&memory);
    tpp_schedule_desc d = sched_desc(TPP_SCHEDULE_1F1B, 3, 1, 0, 0);
    d.allocator = &memory.allocator;
    tpp_schedule *s;
    assert_int_equal(tpp_schedule_create(&s, &d), TPP_ERR_INVALID);
    assert_int_equal(tpp_schedule_parse(&s, "0F0 x", 5, d.allocator), TPP_ERR_PARSE);
    assert_int_equal(memory.calls, 0);
    assert_int_equal(tpp_schedule_parse(&s, "1F0", 3, d.allocator), TPP_ERR_SCHEDULE);
    assert_int_equal(memory.live, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_make), cmocka_unit_test(test_parse),
                                       cmocka_unit_test(test_lower), cmocka_unit_test(test_check),
                                       cmocka_unit_test(test_refused_takes_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
