/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_KERN_ACTIVATION_H
#define TPP_KERN_ACTIVATION_H

/* Activations of one element, value_<act> and slope_<act>, for loops in activation.inc and
 * gated.inc. */

#include "kern/vector.h"

/* GeLU and SiLU are x * P(x), where P rises from 0 to 1 and P(x) + P(-x) = 1. All is computed from
 * a = |x|, in terms of the left tail, so that nothing cancels there:
 *
 *     tail(a)  = P(-a)            act(x)  = max(x, 0) - a * tail(a)
 *     slope(a) = act'(-a)         act'(x) = x > 0 ? 1 - slope(a) : slope(a)
 *
 * erf form:  P(-a) = erfc(a / sqrt 2) / 2, and slope = P(-a) - a * density(a).
 * tanh form: P(-a) = e / (1 + e), e = exp(-a (A + B a^2)), and
 *            slope = P(-a) * (1 - a * P(a) * (A + 3 B a^2)).
 * SiLU:      P(-a) = e / (1 + e), e = exp(-a), and slope = P(-a) * P(a) * (1 - a + e); 1 - a is
 *            exact where the sum is near 0.
 *
 * From a = ..._far on the tail is 0 in the type; keeping a there makes infinite x right. For float
 * it is where e or exp(-a^2 / 2) is 2^-127.2, which tpp__exp_minus_f32 makes 0. */
static const float tanh_far_f32 = 10.0371f, erf_far_f32 = 13.2791f, silu_far_f32 = 88;
static const double tanh_far_f64 = 40, erf_far_f64 = 40, silu_far_f64 = 750;

#define TPP__GELU_A 1.5957691216057307117597842397375 /* 2 sqrt(2 / pi) */
#define TPP__GELU_B 0.071354816272600248800780972800  /* 0.044715 * A */
#define TPP__SQRT_HALF 0.70710678118654752440084436210485
#define TPP__DENSITY_0 0.39894228040143267793994605993438 /* 1 / sqrt(2 pi) */

/* exp(-B (a^3 + D a)), D = A / B. An error of the exponent, up to 88, is one of the result, so
 * the polynomial is taken at a's first bits without rounding, and the rest is small. */
TPP__INLINE float tanh_exp_f32(float a) {
    const float d_hi = 22.359375f, d_lo = 0.00448500224f;
    float top = tpp__top_f32(a, TPP__TOP_7);
    float slope = top * top + d_hi;
    float rest = (a - top) * (a * (a + top) + slope) + d_lo * a;
    return tpp__exp_minus_f32(top * slope, rest, (float)TPP__GELU_B, 9.71484375f, -0.000752721976f);
}

TPP__INLINE double tanh_exp_f64(double a) {
    return exp(-a * (TPP__GELU_A + TPP__GELU_B * (a * a)));
}

/* exp(-a^2 / 2) likewise. */
TPP__INLINE float bell_f32(float a) {
    float top = tpp__top_f32(a, TPP__TOP_12);
    return tpp__exp_minus_f32(top * top, (a - top) * (a + top), 0.5f, 1.38671875f, -4.24388880e-4f);
}

TPP__INLINE double bell_f64(double a) {
    return exp(-0.5 * (a * a));
}

/* exp(a^2 / 2) * erfc(a / sqrt 2) / 2: rational minimax on [0, 14], relative error 6e-9. */
TPP__INLINE float mills_f32(float a) {
    float p = 0.00407814613f;
    p = p * a + 0.0403763239f;
    p = p * a + 0.182473246f;
    p = p * a + 0.43726667f;
    p = p * a + 0.5f;
    float q = 0.0102222678f;
    q = q * a + 0.101215239f;
    q = q * a + 0.467459164f;
    q = q * a + 1.19933871f;
    q = q * a + 1.6724183f;
    q = q * a + 1.0f;
    return p / q;
}

TPP__INLINE float tanh_tail_f32(float a) {
    float e = tanh_exp_f32(a);
    return e / (1 + e);
}

TPP__INLINE double tanh_tail_f64(double a) {
    double e = tanh_exp_f64(a);
    return e / (1 + e);
}

TPP__INLINE float tanh_slope_f32(float a) {
    float e = tanh_exp_f32(a);
    float right = 1 / (1 + e);
    return e * right * (1 - a * right * ((float)TPP__GELU_A + (float)(3 * TPP__GELU_B) * (a * a)));
}

TPP__INLINE double tanh_slope_f64(double a) {
    double e = tanh_exp_f64(a);
    double right = 1 / (1 + e);
    return e * right * (1 - a * right * (TPP__GELU_A + 3 * TPP__GELU_B * (a * a)));
}

TPP__INLINE float erf_tail_f32(float a) {
    return bell_f32(a) * mills_f32(a);
}

TPP__INLINE double erf_tail_f64(double a) {
    return 0.5 * erfc(a * TPP__SQRT_HALF);
}

TPP__INLINE float erf_slope_f32(float a) {
    return bell_f32(a) * (mills_f32(a) - a * (float)TPP__DENSITY_0);
}

TPP__INLINE double erf_slope_f64(double a) {
    return erf_tail_f64(a) - a * TPP__DENSITY_0 * bell_f64(a);
}

TPP__INLINE float silu_tail_f32(float a) {
    float e = tpp__exp_f32(-a);
    return e / (1 + e);
}

TPP__INLINE double silu_tail_f64(double a) {
    double e = exp(-a);
    return e / (1 + e);
}

TPP__INLINE float silu_slope_f32(float a) {
    float e = tpp__exp_f32(-a);
    float right = 1 / (1 + e);
    return e * right * right * ((1 - a) + e);
}

TPP__INLINE double silu_slope_f64(double a) {
    double e = exp(-a);
    double right = 1 / (1 + e);
    return e * right * right * ((1 - a) + e);
}

#define REAL float
#define FN(name) name##_f32
#include "kern/activation_value.inc"
#undef REAL
#undef FN

#define REAL double
#define FN(name) name##_f64
#include "kern/activation_value.inc"
#undef REAL
#undef FN

#endif
