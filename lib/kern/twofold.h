/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_KERN_TWOFOLD_H
#define TPP_KERN_TWOFOLD_H

/* Numbers of twice float64's precision, the unevaluated sum of two (Dekker 1971; the algorithms are
 * those of Hida, Li and Bailey 2001, Library for double-double and quad-double arithmetic). Relative
 * errors are a few 2^-104. Not compiled with fast-math or contraction, which would undo them. */

#include <math.h>
#include <stdint.h>

typedef struct tpp__twofold {
    double high, low; /* |low| is at most half of the last place of high */
} tpp__twofold;

/* |a| >= |b| */
static inline tpp__twofold tpp__twofold_join(double a, double b) {
    double sum = a + b;
    return (tpp__twofold){sum, b - (sum - a)};
}

static inline tpp__twofold tpp__twofold_sum(double a, double b) {
    double sum = a + b, of_b = sum - a;
    return (tpp__twofold){sum, (a - (sum - of_b)) + (b - of_b)};
}

static inline tpp__twofold tpp__twofold_product(double a, double b) {
    double product = a * b;
    return (tpp__twofold){product, fma(a, b, -product)};
}

static inline tpp__twofold tpp__twofold_add(tpp__twofold a, tpp__twofold b) {
    tpp__twofold high = tpp__twofold_sum(a.high, b.high), low = tpp__twofold_sum(a.low, b.low);
    high = tpp__twofold_join(high.high, high.low + low.high);
    return tpp__twofold_join(high.high, high.low + low.low);
}

static inline tpp__twofold tpp__twofold_minus(tpp__twofold a, tpp__twofold b) {
    return tpp__twofold_add(a, (tpp__twofold){-b.high, -b.low});
}

static inline tpp__twofold tpp__twofold_times(tpp__twofold a, tpp__twofold b) {
    tpp__twofold p = tpp__twofold_product(a.high, b.high);
    return tpp__twofold_join(p.high, p.low + (a.high * b.low + a.low * b.high));
}

static inline tpp__twofold tpp__twofold_scaled(tpp__twofold a, double b) {
    return tpp__twofold_times(a, (tpp__twofold){b, 0});
}

/* The quotient digit by digit. */
static inline tpp__twofold tpp__twofold_over(tpp__twofold a, tpp__twofold b) {
    double first = a.high / b.high;
    a = tpp__twofold_minus(a, tpp__twofold_scaled(b, first));
    double second = a.high / b.high;
    a = tpp__twofold_minus(a, tpp__twofold_scaled(b, second));
    tpp__twofold sum = tpp__twofold_join(first, second);
    return tpp__twofold_add(sum, (tpp__twofold){a.high / b.high, 0});
}

static inline tpp__twofold tpp__twofold_power(tpp__twofold x, int64_t n) {
    tpp__twofold power = {1, 0};
    for (; n > 0; n /= 2, x = tpp__twofold_times(x, x))
        if (n % 2)
            power = tpp__twofold_times(power, x);
    return power;
}

/* x^(-1 / n): float64's, and one step of Newton's. */
static inline tpp__twofold tpp__twofold_inverse_root(double x, int64_t n) {
    tpp__twofold root = {pow(x, -1 / (double)n), 0};
    tpp__twofold one = tpp__twofold_scaled(tpp__twofold_power(root, n), x);
    tpp__twofold off = tpp__twofold_minus((tpp__twofold){1, 0}, one);
    return tpp__twofold_join(root.high, root.high * off.high / (double)n);
}

#endif
