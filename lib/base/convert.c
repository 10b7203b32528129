/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <tpp/convert.h>

#include "base/bf16.h"
#include "base/check.h"

#include <math.h>

void tpp__bf16_widen(int64_t n, const tpp__bf16 *x, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = tpp__bf16_get(x[i]);
}

void tpp__bf16_narrow(int64_t n, const float *x, tpp__bf16 *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = tpp__bf16_of(x[i]);
}

/* Through float, but rounded once: float's last bit is set when the rest is not 0 (rounding to odd),
 * so that a number beside a half of bfloat16 does not become that half. */
static tpp__bf16 bf16_of_double(double value) {
    float near = (float)value;
    uint32_t bits;
    double back = (double)near;
    memcpy(&bits, &near, sizeof bits);
    if (back != value && (bits & 1u) == 0 && (bits & 0x7f800000u) != 0x7f800000u) {
        bits += (value > back) == (value > 0) ? 1u : 0xffffffffu; /* the float beyond the number */
        memcpy(&near, &bits, sizeof near);
    }
    return tpp__bf16_of(near);
}

/* Half precision: 1 sign, 5 bits of exponent, 10 of fraction. */
static double of_half(uint16_t half) {
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double size = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31)
        size = fraction ? (double)NAN : (double)INFINITY;
    return half & 0x8000u ? -size : size;
}

static double element(const void *in, tpp_dtype type, int64_t i) {
    switch (type) {
    case TPP_F32:
        return (double)((const float *)in)[i];
    case TPP_F64:
        return ((const double *)in)[i];
    case TPP_F16:
        return of_half(((const uint16_t *)in)[i]);
    default:
        return (double)tpp__bf16_get(((const tpp__bf16 *)in)[i]);
    }
}

static void store(void *out, tpp_dtype type, int64_t i, double value) {
    switch (type) {
    case TPP_F32:
        ((float *)out)[i] = (float)value;
        break;
    case TPP_F64:
        ((double *)out)[i] = value;
        break;
    default:
        ((tpp__bf16 *)out)[i] = bf16_of_double(value);
        break;
    }
}

/* Half precision is read, not written. */
static tpp_status check_type(const char *name, tpp_dtype type, bool half) {
    if (type == TPP_F32 || type == TPP_F64 || type == TPP_BF16 || (half && type == TPP_F16))
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID,
                     "%s = %d is not accepted; accepted: 1 (float32), 2 (float64), %s4 (bfloat16)",
                     name, type, half ? "3 (float16), " : "");
}

tpp_status tpp_convert(void *out, tpp_dtype out_type, const void *in, tpp_dtype in_type,
                       int64_t count) {
    tpp_status status = check_type("out_type", out_type, false);
    if (status == TPP_OK)
        status = check_type("in_type", in_type, true);
    if (status == TPP_OK && count < 0)
        status = tpp__fail(TPP_ERR_INVALID, "count = %lld is negative; it must be 0 or more",
                           (long long)count);
    if (status != TPP_OK || count == 0)
        return status;
    if (!out || !in)
        return tpp__fail(TPP_ERR_INVALID, "%s is NULL; it must hold %lld numbers",
                         out ? "in" : "out", (long long)count);
    for (int64_t i = 0; i < count; i++)
        store(out, out_type, i, element(in, in_type, i));
    return TPP_OK;
}
