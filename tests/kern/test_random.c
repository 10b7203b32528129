/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/kern.h"
#include "support/close.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* The three vectors for philox4x32-10 of the Random123 distribution (kat_vectors). */
static void known_answers(void **state) {
    (void)state;
    const struct {
        uint32_t counter[4], key[2], want[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        tpp__kern_philox(known[i].counter, known[i].key, out);
        assert_memory_equal(out, known[i].want, sizeof out);
    }
}

/* Seed is Philox's key, index and key its counter, low word first. */
static void where_the_arguments_go(void **state) {
    (void)state;
    double want = (double)((((uint64_t)0xd16cfe09 << 32 | 0x94fdcceb) >> 11) | 1) * 0x1p-53;
    double got =
        tpp__kern_random_uniform(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88);
    assert_same_bits("uniform", &got, &want, sizeof want);
    want = (double)((((uint64_t)0x6627e8d5 << 32 | 0xe169c58d) >> 11) | 1) * 0x1p-53; /* made odd */
    got = tpp__kern_random_uniform(0, 0, 0);
    assert_same_bits("uniform", &got, &want, sizeof want);
}

static void uniform_is_inside_and_even(void **state) {
    (void)state;
    enum { N = 100000, BINS = 10 };
    int count[BINS] = {0};
    for (uint64_t i = 0; i < N; i++) {
        double u = tpp__kern_random_uniform(7, 3, i);
        assert_true(u > 0 && u < 1);
        count[(int)(u * BINS)]++;
    }
    for (int b = 0; b < BINS; b++) /* five standard deviations of a bin's count */
        assert_true(fabs((double)count[b] - N / BINS) < 5 * sqrt(N / BINS * 0.9));
}

/* Mean, variance, skewness, kurtosis within five of their standard deviations. */
static void normal_moments(void **state) {
    (void)state;
    enum { N = 1000000 };
    double s1 = 0, s2 = 0, s3 = 0, s4 = 0;
    for (uint64_t i = 0; i < N; i++) {
        double x = tpp__kern_random_normal(7, 3, i);
        s1 += x;
        s2 += x * x;
        s3 += x * x * x;
        s4 += x * x * x * x;
    }
    assert_true(fabs(s1 / N) < 5 * sqrt(1.0 / N));
    assert_true(fabs(s2 / N - 1) < 5 * sqrt(2.0 / N));
    assert_true(fabs(s3 / N) < 5 * sqrt(15.0 / N));
    assert_true(fabs(s4 / N - 3) < 5 * sqrt(96.0 / N));
}

static void neighbours_are_unrelated(void **state) {
    (void)state;
    enum { N = 100000 };
    double index = 0, key = 0, seed = 0;
    for (uint64_t i = 0; i < N; i++) {
        double x = tpp__kern_random_normal(7, 3, i);
        index += x * tpp__kern_random_normal(7, 3, i + 1);
        key += x * tpp__kern_random_normal(7, 4, i);
        seed += x * tpp__kern_random_normal(8, 3, i);
    }
    assert_true(fabs(index) < 5 * sqrt(N));
    assert_true(fabs(key) < 5 * sqrt(N));
    assert_true(fabs(seed) < 5 * sqrt(N));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(where_the_arguments_go),
        cmocka_unit_test(uniform_is_inside_and_even),
        cmocka_unit_test(normal_moments),
        cmocka_unit_test(neighbours_are_unrelated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
