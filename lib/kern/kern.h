/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_KERN_KERN_H
#define TPP_KERN_KERN_H

/* Serial math that knows no ranks. Matrices are row-major with a leading dimension in elements;
 * `dtype` is TPP_F32, TPP_F64 or TPP_BF16. With TPP_BF16 all is computed in float and what is stored
 * is rounded; what is found by sums (statistics of rows, losses, gradients of parameters) is of the
 * wide type, float (tpp__dtype_wide), and so are the weights of a loss's gradient. Every element's result depends on its own inputs alone, never on
 * where it lies in a row or buffer: that is why nothing here is compiled with fast-math, and why
 * reductions over a row use a fixed number of partial sums. Nothing allocates. Shapes are trusted:
 * the door has checked them. */

#include <stdbool.h>
#include <tpp/gemm.h>

/* Activations: y = act(x); dx = dy * act'(x). Buffers may be the same. ReLU's slope at 0 is 0. */
enum {
    TPP__ACT_GELU_TANH = 1,
    TPP__ACT_GELU_ERF = 2,
    TPP__ACT_RELU = 3,
    TPP__ACT_SQUARED_RELU = 4,
    TPP__ACT_SILU = 5
};
void tpp__kern_act_forward(tpp_dtype dtype, int32_t act, int64_t n, const void *x, void *y);
void tpp__kern_act_backward(tpp_dtype dtype, int32_t act, int64_t n, const void *x, const void *dy,
                            void *dx);

/* Gated activations: y = act(gate) * up; dgate = dy * up * act'(gate), dup = dy * act(gate), for
 * SiLU and GeLU's tanh form. gate, up and their gradients are [rows, cols] with the stride ld; y
 * and dy with ldy. dgate may be gate and dup may be up, together; the others are apart. */
typedef struct tpp__gated {
    tpp_dtype dtype;
    int32_t act;
    int64_t rows, cols;
    const void *gate, *up;
    int64_t ld;
    void *y; /* written by forward */
    int64_t ldy;
    const void *dy; /* backward */
    void *dgate, *dup;
} tpp__gated;
void tpp__kern_gated_forward(const tpp__gated *gated);
void tpp__kern_gated_backward(const tpp__gated *gated);

/* y[r, :] += bias; dbias += the sum over rows of dy, made first (rows in rising order). */
void tpp__kern_bias_add(tpp_dtype dtype, int64_t rows, int64_t cols, const void *bias, void *y,
                        int64_t ldy);
void tpp__kern_bias_grad(tpp_dtype dtype, int64_t rows, int64_t cols, const void *dy, int64_t lddy,
                         void *dbias);

/* y += x; y = x + z, n contiguous elements, y may be x or z; sum += x, of the wide type; copy of a
 * strided matrix. */
void tpp__kern_add(tpp_dtype dtype, int64_t n, const void *x, void *y);
void tpp__kern_add_to(tpp_dtype dtype, int64_t n, const void *x, const void *z, void *y);
void tpp__kern_collect(tpp_dtype dtype, int64_t n, const void *x, void *sum);
/* y = factor * x; y += factor * x. */
void tpp__kern_times(tpp_dtype dtype, int64_t n, double factor, const void *x, void *y);
void tpp__kern_add_times(tpp_dtype dtype, int64_t n, double factor, const void *x, void *y);
void tpp__kern_copy(tpp_dtype dtype, int64_t rows, int64_t cols, const void *x, int64_t ldx,
                    void *y, int64_t ldy);

/* Sum of squares of a strided matrix, in float64: rows in rising order, each summed as in row.h. */
double tpp__kern_squares(tpp_dtype dtype, int64_t rows, int64_t cols, const void *x, int64_t ldx);

/* LayerNorm over the columns: y = (x - mean) * rstd * gamma + beta. mean and rstd hold `rows`
 * elements each. beta, dbeta may be NULL. backward_weight adds the sums over rows, likewise.
 * With mean NULL it is RMSNorm, y = x * rstd * gamma + beta: rstd is 1 / sqrt(mean of x^2 + eps),
 * and all else is as if the mean were 0. */
void tpp__kern_norm_forward(tpp_dtype dtype, int64_t rows, int64_t cols, double eps, const void *x,
                            const void *gamma, const void *beta, void *y, void *mean, void *rstd);
void tpp__kern_norm_backward_input(tpp_dtype dtype, int64_t rows, int64_t cols, const void *x,
                                   const void *gamma, const void *mean, const void *rstd,
                                   const void *dy, void *dx);
void tpp__kern_norm_backward_weight(tpp_dtype dtype, int64_t rows, int64_t cols, const void *x,
                                    const void *mean, const void *rstd, const void *dy,
                                    void *dgamma, void *dbeta);

/* Pairs (a, b) of x turn: (a c - b s, b c + a s). Pair j is (x[j], x[half + j]), or interleaved
 * (x[2j], x[2j + 1]). */
void tpp__kern_rotate(tpp_dtype dtype, int64_t half, int32_t interleaved, const double *cosine,
                      const double *sine, void *x);

/* One head of attention: q and o are [seq, width], k and v are [keys, width], with strides. Query i
 * stands at the place i + offset among the keys (offset may be negative) and sees those up to its
 * own place, or all with `full`; with a window w > 0 only those after its place less w.
 * o = softmax(scale * q k^T) v, in tiles of rows; lse[i] = log sum exp of row i's scores, saved for
 * backward, of the wide type. A query that sees no key gives o = 0, lse = -inf and no gradients.
 * scratch: tpp__kern_attention_scratch(dtype, n, width) bytes, n the larger of seq and keys. */
typedef struct tpp__attention {
    const tpp_gemm_ops *gemm;
    tpp_dtype dtype;
    int64_t seq, keys;
    int64_t offset; /* of the first query among the keys: keys - seq for the last ones */
    int64_t window; /* 0: none */
    int32_t full;
    /* dk and dv are added to: a K/V head that several query heads see, from the second one on, with
     * the scratch as the call before left it */
    int32_t add_kv;
    int64_t width; /* of a head */
    double scale;
    const void *q, *k, *v;
    int64_t ldq, ldk, ldv;
    void *o; /* written by forward, read by backward */
    int64_t ldo;
    void *lse; /* [seq] */
    void *scratch;
    const void *d_o; /* backward: gradient of o */
    int64_t ld_do;
    void *dq, *dk, *dv; /* backward: overwritten, but see add_kv */
    int64_t lddq, lddk, lddv;
} tpp__attention;
int64_t tpp__kern_attention_scratch(tpp_dtype dtype, int64_t n, int64_t width);
tpp_status tpp__kern_attention_forward(const tpp__attention *a);
/* (o, lse) of some keys becomes that of these and more keys, whose (more, lse_more) is given. Before
 * any keys: o = 0, lse = -inf. */
void tpp__kern_attention_merge(tpp_dtype dtype, int64_t rows, int64_t width, const void *more,
                               int64_t ld_more, const void *lse_more, void *o, int64_t ldo,
                               void *lse);
tpp_status tpp__kern_attention_backward(const tpp__attention *a);
/* Pairs of a query and a key: those of the tiles, which is what products are made of (two in forward,
 * five in backward), and those that the mask lets through. */
void tpp__kern_attention_pairs(const tpp__attention *a, double *tiles, double *seen);
int64_t tpp__kern_attention_bf16_scratch(int64_t n, int64_t width); /* these are called by those */
tpp_status tpp__kern_attention_bf16_forward(const tpp__attention *a);
tpp_status tpp__kern_attention_bf16_backward(const tpp__attention *a);

/* The product through a table; sizes above BLAS's 32-bit limit are TPP_ERR_OVERFLOW. m, n or k may
 * be 0. */
typedef struct tpp__product {
    tpp_dtype dtype;   /* of A and B */
    tpp_dtype c_dtype; /* TPP_F32 for a float C of bfloat16 A and B; 0: as dtype */
    uint32_t flags;    /* TPP_GEMM_... */
    int32_t trans_a, trans_b;
    int64_t m, n, k;
    double alpha, beta;
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc;
    /* [n], added to every row where beta is 0, of bfloat16 before rounding; NULL: none */
    const void *bias;
} tpp__product;
tpp_status tpp__kern_gemm(const tpp_gemm_ops *gemm, const tpp__product *product);

/* Several products of equal m, n, alpha and dtype added up: C = sum of alpha * op(A) * op(B), + beta * C of
 * the first, whose C it is. Of bfloat16 the whole sum is made in float and rounded once. */
tpp_status tpp__kern_gemm_sum(const tpp_gemm_ops *gemm, const tpp__product *products,
                              int32_t count);
tpp_status tpp__kern_gemm_bf16(const tpp_gemm_ops *gemm, const tpp__product *products,
                               int32_t count); /* of checked bfloat16 products */
/* The same by the CPU's bfloat16 instructions, where it has them and the table is OpenBLAS. */
bool tpp__kern_gemm_dot_usable(const tpp_gemm_ops *gemm);
void tpp__kern_gemm_dot(const tpp__product *products, int32_t count);

/* The functions of the built-in tables, and their door: reads and checks the caller's struct. */
tpp_status tpp__kern_gemm_blas(void *ctx, const tpp_gemm_call *call);
tpp_status tpp__kern_gemm_reference(void *ctx, const tpp_gemm_call *call);
tpp_status tpp__kern_gemm_read(tpp_gemm_call *out, const tpp_gemm_call *call);
void tpp__kern_gemm_scale(const tpp_gemm_call *call); /* C = beta * C; beta = 0 does not read C */
bool tpp__kern_gemm_row(const tpp_gemm_call *call);   /* does the product of one row, else false */

/* Counter-based generator (Philox 4x32-10): the number depends on (seed, key, index) alone. */
double tpp__kern_random_uniform(uint64_t seed, uint64_t key, uint64_t index); /* (0, 1) */
double tpp__kern_random_normal(uint64_t seed, uint64_t key, uint64_t index);
void tpp__kern_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* y = x * scale where the word of (row, column) is `threshold` or more, else 0; y may be x. Rows are
 * contiguous, the first one is row number `first`. The word of column c of row r is number c % 4 of
 * Philox with the counter (r * ceil(cols / 4) + c / 4, key) and the key seed, as above. */
typedef struct tpp__dropout {
    uint64_t seed, key;
    double scale;
    uint32_t threshold;
} tpp__dropout;
void tpp__kern_dropout(tpp_dtype dtype, const tpp__dropout *d, int64_t first, int64_t rows,
                       int64_t cols, const void *x, void *y);

#endif
