/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm_impl.h"

#include "base/bf16.h"
#include "base/check.h"

#include <assert.h>
#include <string.h>

/* Small enough for the first-level cache, and for one per level of the tree on a thread's stack. */
#define BLOCK 4096

/* into: out = a op b; onto: acc = acc op b. The left operand holds the lower ranks. */
typedef struct kernel {
    void (*into)(void *restrict out, const void *restrict a, const void *restrict b, int64_t n);
    void (*onto)(void *restrict acc, const void *restrict b, int64_t n);
} kernel;

/* NOLINTBEGIN(bugprone-macro-parentheses): a type cannot stand in parentheses */
#define KERNEL(name, type, expression)                                                             \
    static void name##_into(void *restrict out, const void *restrict a, const void *restrict b,    \
                            int64_t n) {                                                           \
        type *restrict o = out;                                                                    \
        const type *restrict xs = a;                                                               \
        const type *restrict ys = b;                                                               \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const type x = xs[i], y = ys[i];                                                       \
            o[i] = (expression);                                                                   \
        }                                                                                          \
    }                                                                                              \
    static void name##_onto(void *restrict acc, const void *restrict b, int64_t n) {               \
        type *restrict o = acc;                                                                    \
        const type *restrict ys = b;                                                               \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const type x = o[i], y = ys[i];                                                        \
            o[i] = (expression);                                                                   \
        }                                                                                          \
    }                                                                                              \
    static const kernel name = {name##_into, name##_onto};
/* NOLINTEND(bugprone-macro-parentheses) */

/* Sums of integers wrap, which is defined for unsigned ones only. */
KERNEL(sum_f32, float, x + y)
KERNEL(sum_f64, double, x + y)
KERNEL(sum_bf16, tpp__bf16, tpp__bf16_of(tpp__bf16_get(x) + tpp__bf16_get(y)))
KERNEL(sum_i32, uint32_t, x + y)
KERNEL(sum_i64, uint64_t, x + y)
/* A NaN on the left stays, one on the right fails the comparison and is taken. */
KERNEL(max_f32, float, ((x >= y) | (x != x)) ? x : y)
KERNEL(max_f64, double, ((x >= y) | (x != x)) ? x : y)
static inline tpp__bf16 max_of_bf16(tpp__bf16 a, tpp__bf16 b) {
    float x = tpp__bf16_get(a), y = tpp__bf16_get(b);
    return ((x >= y) | (x != x)) ? a : b;
}
KERNEL(max_bf16, tpp__bf16, max_of_bf16(x, y))
KERNEL(max_i32, int32_t, x >= y ? x : y)
KERNEL(max_i64, int64_t, x >= y ? x : y)

static const kernel *kernel_of(tpp_dtype dtype, tpp_reduce reduce) {
    bool max = reduce == TPP_MAX;
    switch (dtype) {
    case TPP_F32:
        return max ? &max_f32 : &sum_f32;
    case TPP_F64:
        return max ? &max_f64 : &sum_f64;
    case TPP_BF16:
        return max ? &max_bf16 : &sum_bf16;
    case TPP_I32:
        return max ? &max_i32 : &sum_i32;
    default:
        assert(dtype == TPP_I64);
        return max ? &max_i64 : &sum_i64;
    }
}

tpp_dtype tpp__comm_sum_type(tpp_dtype dtype, tpp_reduce reduce) {
    return reduce == TPP_SUM ? tpp__dtype_wide(dtype) : dtype;
}

void tpp__comm_combine(void *acc, const void *b, int64_t count, tpp_dtype dtype,
                       tpp_reduce reduce) {
    kernel_of(dtype, reduce)->onto(acc, b, count);
}

void tpp__comm_add_bf16(float *sum, const tpp__bf16 *x, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        sum[i] += tpp__bf16_get(x[i]);
}

/* One block of a reduction: `count` elements that start `offset` bytes into every buffer. */
typedef struct block {
    const tpp__comm_fold *fold;
    const kernel *kernel;
    int64_t offset;
    int64_t count;
} block;

static const void *input(const block *b, int32_t rank) {
    const char *at = (const char *)b->fold->in + rank * b->fold->step;
    return (const char *)*(const void *const *)at + b->fold->skip + b->offset;
}

static void *output(const block *b, int32_t rank) {
    const char *at = (const char *)b->fold->out + rank * b->fold->step;
    return (char *)*(void *const *)at + b->offset;
}

/* acc may be the left input itself: the first output of a reduction in place. */
static void first_two(const block *b, int32_t first, void *acc) {
    if (acc == input(b, first))
        b->kernel->onto(acc, input(b, first + 1), b->count);
    else
        b->kernel->into(acc, input(b, first), input(b, first + 1), b->count);
}

static void fold_in_order(const block *b, void *acc) {
    first_two(b, 0, acc);
    for (int32_t r = 2; r < b->fold->ranks; r++)
        b->kernel->onto(acc, input(b, r), b->count);
}

/* A sum in rank order of bfloat16 is kept in float until its end: a long one would otherwise stop
 * growing. (A tree has few levels, and must give a sum of two that can be sent on as it is.) */
static void fold_in_order_bf16(const block *b, void *out) {
    float sum[BLOCK / sizeof(tpp__bf16)];
    tpp__bf16_widen(b->count, input(b, 0), sum);
    for (int32_t r = 1; r < b->fold->ranks; r++)
        tpp__comm_add_bf16(sum, input(b, r), b->count);
    tpp__bf16_narrow(b->count, sum, out);
}

/* Ranks first .. first + n - 1, n >= 2: the left part is the largest power of two below n. */
static void fold_tree(const block *b, int32_t first, int32_t n,
                      void *acc) { // NOLINT(misc-no-recursion)
    if (n == 2) {
        first_two(b, first, acc);
        return;
    }
    int32_t left = 2;
    while (2 * left < n)
        left *= 2;
    fold_tree(b, first, left, acc);
    if (n - left == 1) {
        b->kernel->onto(acc, input(b, first + left), b->count);
        return;
    }
    _Alignas(64) char right[BLOCK];
    fold_tree(b, first + left, n - left, right);
    b->kernel->onto(acc, right, b->count);
}

static void copy(void *to, const void *from, int64_t bytes) {
    if (to != from)
        memcpy(to, from, (size_t)bytes);
}

/* Is this the input of another rank than the first, which is still to be read when a sum grows there? */
static bool is_later_input(const block *b, const void *acc) {
    for (int32_t r = 1; r < b->fold->ranks; r++)
        if (acc == input(b, r))
            return true;
    return false;
}

/* The sum grows in the first output, which is in cache when it is copied to the others. */
static void fold_block(const block *b, int64_t bytes) {
    _Alignas(64) char apart[BLOCK];
    void *acc = is_later_input(b, output(b, 0)) ? apart : output(b, 0);
    if (b->fold->ranks == 1)
        copy(acc, input(b, 0), bytes);
    else if (b->fold->reduce == TPP_SUM_TREE)
        fold_tree(b, 0, b->fold->ranks, acc);
    else if (tpp__comm_sum_type(b->fold->dtype, b->fold->reduce) != b->fold->dtype)
        fold_in_order_bf16(b, acc);
    else
        fold_in_order(b, acc);
    for (int32_t k = 0; k < b->fold->outs; k++)
        copy(output(b, k), acc, bytes);
}

void tpp__comm_fold_slice(const tpp__comm_fold *fold, int64_t begin, int64_t end) {
    const int64_t width = tpp__dtype_bytes(fold->dtype);
    const int64_t most = BLOCK / width;
    block b = {fold, kernel_of(fold->dtype, fold->reduce), 0, 0};
    for (int64_t i = begin; i < end; i += most) {
        b.offset = i * width;
        b.count = end - i < most ? end - i : most;
        fold_block(&b, b.count * width);
    }
}
