/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/close.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* A bfloat16 is the upper half of a float. */
static float bf16_value(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static close_quad element(int type, const void *array, int64_t i) {
    switch (type) {
    case TPP_F32:
        return (close_quad)((const float *)array)[i];
    case TPP_F64:
        return (close_quad)((const double *)array)[i];
    case TPP_BF16:
        return (close_quad)bf16_value(((const uint16_t *)array)[i]);
    default:
        return ((const close_quad *)array)[i];
    }
}

static close_quad magnitude(close_quad x) {
    return x < 0 ? -x : x;
}

/* False for NaN and the infinities, also those beyond the range of double. */
static int finite(close_quad x) {
    return x - x == 0;
}

static close_quad largest(int type, const void *array, int64_t n) {
    close_quad most = 0;
    for (int64_t i = 0; i < n; i++) {
        close_quad x = magnitude(element(type, array, i));
        if (finite(x) && x > most)
            most = x;
    }
    return most;
}

/* |got - want| in units of the last place that `type` has at want. */
static double in_ulps(int type, close_quad got, close_quad want) {
    int exponent;
    frexp((double)want, &exponent);
    int digits = type == TPP_F32 ? FLT_MANT_DIG : type == TPP_BF16 ? 8 : DBL_MANT_DIG;
    int lowest = type != TPP_F64 ? FLT_MIN_EXP - digits : DBL_MIN_EXP - DBL_MANT_DIG;
    int last = exponent - digits > lowest ? exponent - digits : lowest;
    return ldexp((double)magnitude(got - want), -last);
}

/* How far beyond what is allowed; 0 is close enough. NaN counts as infinitely far. */
static double excess(close_quad got, close_quad want, close_quad allowed) {
    if (got == want)
        return 0;
    if (!finite(got) || !finite(want))
        return HUGE_VAL;
    close_quad off = magnitude(got - want);
    if (off <= allowed)
        return 0;
    return allowed > 0 ? (double)(off / allowed) : DBL_MAX;
}

void close__check(const char *file, int line, const char *what, int got_type, const void *got,
                  int want_type, const void *want, int64_t n, double bound, double tiny) {
    close_quad scale = tiny < 0 ? largest(want_type, want, n) : 0;
    double worst = 0;
    int64_t at = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        close_quad w = element(want_type, want, i);
        close_quad size = tiny < 0 ? scale : magnitude(w) > tiny ? magnitude(w) : (close_quad)tiny;
        double e = excess(element(got_type, got, i), w, bound * size);
        count += e > 0;
        if (e > worst) {
            worst = e;
            at = i;
        }
    }
    if (count == 0)
        return;
    close_quad g = element(got_type, got, at);
    close_quad w = element(want_type, want, at);
    print_error("%s[%lld]: got %.17g, want %.17g; off by %.3g = %.3g ulp = %.3g of the bound\n",
                what, (long long)at, (double)g, (double)w, (double)(g - w), in_ulps(got_type, g, w),
                worst);
    print_error("%s: %lld of %lld are off; bound %.3g of %s %.6g\n", what, (long long)count,
                (long long)n, bound, tiny < 0 ? "the largest," : "each, at least",
                tiny < 0 ? (double)scale : tiny);
    _fail(file, line);
}

void close__check_f32(const char *file, int line, const char *what, const float *got,
                      const float *want, int64_t n, double bound) {
    close__check(file, line, what, TPP_F32, got, TPP_F32, want, n, bound, -1);
}

void close__check_f64(const char *file, int line, const char *what, const double *got,
                      const double *want, int64_t n, double bound) {
    close__check(file, line, what, TPP_F64, got, TPP_F64, want, n, bound, -1);
}

/* The element of `width` bytes that holds byte `at`, as a number; NaN when it does not fit in. */
static double number(const unsigned char *bytes, uint64_t at, uint64_t width, uint64_t total) {
    uint64_t begin = at / width * width;
    float f;
    double d = NAN;
    if (begin + width > total)
        return d;
    if (width == sizeof d) {
        memcpy(&d, bytes + begin, sizeof d);
        return d;
    }
    memcpy(&f, bytes + begin, sizeof f);
    return (double)f;
}

void close__bits(const char *file, int line, const char *what, const void *a, const void *b,
                 uint64_t bytes) {
    const unsigned char *x = a;
    const unsigned char *y = b;
    if (bytes == 0 || memcmp(a, b, bytes) == 0)
        return;
    uint64_t at = 0;
    while (x[at] == y[at])
        at++;
    print_error("%s: byte %llu of %llu differs\n", what, (unsigned long long)at,
                (unsigned long long)bytes);
    print_error("    as float  [%llu]: %.9g and %.9g\n", (unsigned long long)(at / 4),
                number(x, at, 4, bytes), number(y, at, 4, bytes));
    print_error("    as double [%llu]: %.17g and %.17g\n", (unsigned long long)(at / 8),
                number(x, at, 8, bytes), number(y, at, 8, bytes));
    _fail(file, line);
}
