/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* bfloat16 held against its definition: the nearest of the 65536 numbers, and between two the one
 * whose last bit is 0. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <tpp/convert.h>

/* The value of a bfloat16 from its fields. */
static double value_of(uint16_t x) {
    int exponent = x >> 7 & 0xff, digits = x & 0x7f;
    double sign = x & 0x8000 ? -1 : 1;
    if (exponent == 255)
        return digits ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(digits, -133);
    return sign * ldexp(128 + digits, exponent - 134);
}

static uint16_t from_f32(float x) {
    uint16_t out;
    assert_int_equal(tpp_convert(&out, TPP_BF16, &x, TPP_F32, 1), TPP_OK);
    return out;
}

static uint16_t from_f64(double x) {
    uint16_t out;
    assert_int_equal(tpp_convert(&out, TPP_BF16, &x, TPP_F64, 1), TPP_OK);
    return out;
}

static void every_number_is_itself(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t x = (uint16_t)i;
        float f;
        double d;
        assert_int_equal(tpp_convert(&f, TPP_F32, &x, TPP_BF16, 1), TPP_OK);
        assert_int_equal(tpp_convert(&d, TPP_F64, &x, TPP_BF16, 1), TPP_OK);
        if (isnan(value_of(x))) {
            assert_true(isnan(f) && isnan(d));
            assert_true(isnan(value_of(from_f32(f))) && isnan(value_of(from_f64(d))));
            continue;
        }
        assert_true((double)f == value_of(x) && d == value_of(x));
        assert_int_equal(from_f32(f), x);
        assert_int_equal(from_f64(d), x);
    }
}

/* Halves between neighbours go to the even one, what lies beside a half to the nearer one. */
static void check_between(uint16_t low) {
    uint16_t high = (uint16_t)(low + 1), even = low & 1 ? high : low;
    double a = value_of(low), b = value_of(high);
    if (isinf(b))
        b = copysign(0x1p128, a); /* where it would lie */
    double half = (a + b) / 2;
    assert_int_equal(from_f64(half), even);
    assert_int_equal(from_f64(nextafter(half, a)), low);
    assert_int_equal(from_f64(nextafter(half, b)), high);
    assert_int_equal(from_f32((float)half), even);
    assert_int_equal(from_f32(nextafterf((float)half, (float)a)), low);
    if (fabs(b) < 0x1p128)
        assert_int_equal(from_f32(nextafterf((float)half, (float)b)), high);
}

static void halves_go_to_even(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 0x7f80; i++) {
        check_between((uint16_t)i);
        check_between((uint16_t)(i | 0x8000));
    }
}

static void nan_and_beyond(void **state) {
    static const uint32_t nans[] = {0x7f800001, 0x7fffffff, 0xff800001, 0xffffffff, 0x7fc00000};
    (void)state;
    for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
        float x;
        memcpy(&x, &nans[i], sizeof x);
        assert_true(isnan(value_of(from_f32(x))));
    }
    assert_int_equal(from_f32(INFINITY), 0x7f80);
    assert_int_equal(from_f32(3.4028235e38f), 0x7f80);
    assert_int_equal(from_f64(-1e300), 0xff80);
    assert_int_equal(from_f64(1e-300), 0);
    assert_int_equal(from_f64(-1e-300), 0x8000);
}

static void other_pairs(void **state) {
    double d[3] = {1, 0.1, -3}, back[3];
    float f[3];
    (void)state;
    assert_int_equal(tpp_convert(f, TPP_F32, d, TPP_F64, 3), TPP_OK);
    assert_true(f[1] == 0.1f && f[2] == -3);
    assert_int_equal(tpp_convert(back, TPP_F64, f, TPP_F32, 3), TPP_OK);
    assert_true(back[1] == (double)0.1f);
    assert_int_equal(tpp_convert(f, TPP_F32, f, TPP_F32, 3), TPP_OK);
    assert_true(f[2] == -3);
}

/* All 65536 numbers of half precision, by their definition. */
static void half_precision(void **state) {
    (void)state;
    for (uint32_t i = 0; i <= 0xffff; i++) {
        uint16_t half = (uint16_t)i;
        uint32_t exponent = i >> 10 & 31, fraction = i & 1023;
        double got;
        assert_int_equal(tpp_convert(&got, TPP_F64, &half, TPP_F16, 1), TPP_OK);
        double want = exponent == 0 ? fraction / 1024.0 * 0x1p-14
                                    : (1 + fraction / 1024.0) * pow(2, (int)exponent - 15);
        if (exponent == 31)
            assert_true(fraction ? isnan(got) : isinf(got));
        else
            assert_true(fabs(got) == want);
        assert_true(isnan(got) || !!signbit(got) == (int)(i >> 15));
    }
}

static void refuse(tpp_status got, const char *says) {
    assert_int_equal(got, TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), says));
}

static void bad_arguments(void **state) {
    float x[1] = {1};
    (void)state;
    refuse(tpp_convert(x, 3, x, TPP_F32, 1), "out_type = 3");
    refuse(tpp_convert(x, TPP_F32, x, 5, 1), "3 (float16)");
    refuse(tpp_convert(x, TPP_F32, x, TPP_I32, 1), "in_type = 16");
    refuse(tpp_convert(x, TPP_F32, x, TPP_F32, -1), "count = -1");
    refuse(tpp_convert(NULL, TPP_F32, x, TPP_F32, 1), "out is NULL");
    refuse(tpp_convert(x, TPP_F32, NULL, TPP_F32, 1), "in is NULL");
    assert_int_equal(tpp_convert(NULL, TPP_F32, NULL, TPP_F32, 0), TPP_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_itself), cmocka_unit_test(halves_go_to_even),
        cmocka_unit_test(nan_and_beyond),         cmocka_unit_test(other_pairs),
        cmocka_unit_test(half_precision),         cmocka_unit_test(bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
