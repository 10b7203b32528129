/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_KERN_VECTOR_H
#define TPP_KERN_VECTOR_H

/* Building blocks of loops that compilers turn into vector code with the same bits in the vector
 * body and in the scalar rest: only arithmetic and selections, no calls, branches or fused
 * operations. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define TPP__INLINE static inline __attribute__((always_inline))

/* One copy of a function per instruction set, chosen when the program is loaded. All copies give
 * the same bits, because nothing is contracted or reordered; wider ones are only faster. For static
 * functions alone: gcc exports the chooser of others whatever their visibility. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) &&       \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TPP__CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TPP__CLONES
#endif

/* Before a loop whose buffers are either the same or apart: no check at run time. */
#if defined(__GNUC__) && !defined(__clang__)
#define TPP__ELEMENTWISE _Pragma("GCC ivdep")
#else
#define TPP__ELEMENTWISE
#endif

/* Before a short loop that must stay one to become vector code, not be unrolled before. */
#if defined(__GNUC__) && !defined(__clang__)
#define TPP__KEPT_LOOP _Pragma("GCC unroll 1")
#else
#define TPP__KEPT_LOOP
#endif

/* condition ? yes : no, by masks: written as a choice, compilers make a jump of it (so as not to
 * compute what is not needed), and no vector loop. */
TPP__INLINE float tpp__pick_f32(int condition, float yes, float no) {
    uint32_t mask = 0u - (uint32_t)condition, y, n;
    memcpy(&y, &yes, sizeof y);
    memcpy(&n, &no, sizeof n);
    n = (y & mask) | (n & ~mask);
    memcpy(&no, &n, sizeof n);
    return no;
}

TPP__INLINE double tpp__pick_f64(int condition, double yes, double no) {
    uint64_t mask = 0u - (uint64_t)condition, y, n;
    memcpy(&y, &yes, sizeof y);
    memcpy(&n, &no, sizeof n);
    n = (y & mask) | (n & ~mask);
    memcpy(&no, &n, sizeof n);
    return no;
}

TPP__INLINE float tpp__abs_f32(float x) {
    return fabsf(x);
}

TPP__INLINE double tpp__abs_f64(double x) {
    return fabs(x);
}

/* exp(r) for |r| <= 0.35: minimax, relative error 4e-9 before rounding. */
TPP__INLINE float tpp__exp_small(float r) {
    float p = 0.00138135915f;
    p = p * r + 0.0083694059f;
    p = p * r + 0.0416684513f;
    p = p * r + 0.166665149f;
    p = p * r + 0.49999993f;
    return (p * r) * r + r + 1.0f;
}

/* 2^n for a whole n in [-126, 127]; 0 for -127. */
TPP__INLINE float tpp__power_of_two(float n) {
    float shifted = n + (0x1.8p23f + 127.0f); /* n + 127 in the lowest bits */
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits <<= 23;
    memcpy(&shifted, &bits, sizeof bits);
    return shifted;
}

/* exp(x) to 2 ulp for x <= 88; 0 from about -87.7 on, where results are no normal numbers, and at
 * -inf. NaN stays. */
TPP__INLINE float tpp__exp_f32(float x) {
    x = tpp__pick_f32(x < -88.0f, -88.0f, x);
    float n = (x * 1.44269504f + 0x1.8p23f) - 0x1.8p23f;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f; /* n * 355/512 is exact */
    return tpp__exp_small(r) * tpp__power_of_two(n);
}

TPP__INLINE double tpp__exp_f64(double x) {
    return exp(x);
}

/* exp(-k (hi + lo)) for a period ln2 / k = period_hi + period_lo and k (hi + lo) in [0, 88.3], to
 * float's last bits also where the exponent is large, if hi is exact: whole multiples of period_hi,
 * a number of few bits, are taken from hi without rounding. 0 from 87.7 on. */
TPP__INLINE float tpp__exp_minus_f32(float hi, float lo, float k, float period_hi,
                                     float period_lo) {
    float n = (0x1.8p23f - (hi + lo) * (k * 1.44269504f)) - 0x1.8p23f;
    float r = (hi + n * period_hi) + (lo + n * period_lo);
    return tpp__exp_small(r * -k) * tpp__power_of_two(n);
}

/* The first 7 or 12 significant bits, whose third or second power is exact. */
TPP__INLINE float tpp__top_f32(float x, uint32_t mask) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= mask;
    memcpy(&x, &bits, sizeof bits);
    return x;
}
#define TPP__TOP_7 0xfffe0000u
#define TPP__TOP_12 0xfffff000u

#endif
