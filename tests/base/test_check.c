/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Sized structs, messages, overflow checks: the rules of base.h and status.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/thread.h"

typedef struct sample {
    uint32_t size, flags;
    int64_t a, b;
} sample;

static void shorter_struct_means_zero(void **state) {
    (void)state;
    sample in = {16, 0, 7, 9}, out = {0, 0, 5, 5};
    assert_int_equal(tpp__sized_read(&out, sizeof out, 0, &in, "in"), TPP_OK);
    assert_int_equal(out.a, 7);
    assert_int_equal(out.b, 0);
}

static void longer_struct_must_end_in_zeros(void **state) {
    (void)state;
    struct {
        sample known;
        int64_t newer;
    } in = {{sizeof in, 0, 7, 9}, 0};
    sample out;
    assert_int_equal(tpp__sized_read(&out, sizeof out, 0, &in, "in"), TPP_OK);
    assert_int_equal(out.b, 9);
    in.newer = (int64_t)1 << 40;
    assert_int_equal(tpp__sized_read(&out, sizeof out, 0, &in, "in"), TPP_ERR_TOO_NEW);
    assert_non_null(strstr(tpp_message(), "in uses byte 29"));
}

static void too_small_or_unknown_flags_are_refused(void **state) {
    (void)state;
    sample in = {7, 0, 1, 1}, out;
    assert_int_equal(tpp__sized_read(&out, sizeof out, 0, &in, "in"), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "in.size = 7"));
    in.size = sizeof in;
    in.flags = 6;
    assert_int_equal(tpp__sized_read(&out, sizeof out, 2, &in, "in"), TPP_ERR_TOO_NEW);
    assert_int_equal(tpp__sized_read(&out, sizeof out, 6, &in, "in"), TPP_OK);
    assert_int_equal(tpp__sized_read(&out, sizeof out, 0, NULL, "in"), TPP_ERR_INVALID);
}

static void output_is_never_longer_than_the_caller_says(void **state) {
    (void)state;
    sample from = {sizeof from, 3, 7, 9}, to = {16, 0, 0, -1};
    assert_int_equal(tpp__sized_write(&to, &from, sizeof from, "out"), TPP_OK);
    assert_int_equal(to.size, 16);
    assert_int_equal(to.flags, 3);
    assert_int_equal(to.a, 7);
    assert_int_equal(to.b, -1);
    to.size = 4;
    assert_int_equal(tpp__sized_write(&to, &from, sizeof from, "out"), TPP_ERR_INVALID);
}

static void sums_and_products_know_their_limit(void **state) {
    (void)state;
    int64_t out;
    assert_true(tpp__mul((int64_t)1 << 31, (int64_t)1 << 31, &out));
    assert_true(out == (int64_t)1 << 62);
    assert_false(tpp__mul((int64_t)1 << 32, (int64_t)1 << 31, &out));
    assert_true(tpp__mul(0, INT64_MAX, &out));
    assert_true(tpp__add(INT64_MAX - 1, 1, &out));
    assert_false(tpp__add(INT64_MAX, 1, &out));
}

static void divisors_are_listed(void **state) {
    (void)state;
    char text[64];
    tpp__divisors(12, text, sizeof text);
    assert_string_equal(text, "1, 2, 3, 4, 6, 12");
    tpp__divisors(5040, text, sizeof text);
    assert_true(strlen(text) < sizeof text);
}

static void *fail_elsewhere(void *arg) {
    (void)arg;
    tpp__fail(TPP_ERR_INVALID, "of the other thread");
    return NULL;
}

static void message_belongs_to_its_thread(void **state) {
    (void)state;
    tpp__thread thread;
    assert_int_equal(tpp__fail(TPP_ERR_RANGE, "id = %d", 5), TPP_ERR_RANGE);
    assert_int_equal(tpp__thread_start(&thread, fail_elsewhere, NULL), TPP_OK);
    tpp__thread_join(&thread);
    assert_string_equal(tpp_message(), "id = 5");
    tpp_message_set(tpp_message());
    assert_string_equal(tpp_message(), "id = 5");
    tpp_message_set(NULL);
    assert_string_equal(tpp_message(), "");
}

static void every_status_has_a_name(void **state) {
    (void)state;
    assert_string_equal(tpp_status_name(TPP_ERR_DEADLOCK), "TPP_ERR_DEADLOCK");
    assert_string_equal(tpp_status_name(TPP_ERR_USER - 77), "TPP_ERR_USER");
    assert_string_equal(tpp_status_name(-999), "unknown status");
    assert_true(tpp_version() == TPP_VERSION);
    assert_string_equal(tpp_version_string(), TPP_VERSION_STRING);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shorter_struct_means_zero),
        cmocka_unit_test(longer_struct_must_end_in_zeros),
        cmocka_unit_test(too_small_or_unknown_flags_are_refused),
        cmocka_unit_test(output_is_never_longer_than_the_caller_says),
        cmocka_unit_test(sums_and_products_know_their_limit),
        cmocka_unit_test(divisors_are_listed),
        cmocka_unit_test(message_belongs_to_its_thread),
        cmocka_unit_test(every_status_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
