/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_REF_GPT_H
#define TPP_SUPPORT_REF_GPT_H

/* The truth that layers are held against: a GPT-2 model on one rank, written from its formulas in
 * plain loops and in 113-bit numbers, so that its own rounding is far below anything a test asks
 * for.
 *
 * Matrices are row-major and contiguous; rows are tokens. Backward functions take the input of
 * forward and compute again what they need of it; they write (not add) every gradient. A bias that
 * is NULL does not exist, and neither does its gradient. Each part has its own ref_*.c file. */

#include <stdint.h>

__extension__ typedef __float128 ref_real;

/* The functions of libm for this type; strict C11 does not declare them. */
ref_real expf128(ref_real x);
ref_real logf128(ref_real x);
ref_real sqrtf128(ref_real x);
ref_real atanf128(ref_real x);
ref_real erff128(ref_real x);
ref_real tanhf128(ref_real x);
ref_real powf128(ref_real x, ref_real y);
ref_real cosf128(ref_real x);
ref_real sinf128(ref_real x);
ref_real acosf128(ref_real x);

enum {
    REF_GELU_TANH = 1,
    REF_GELU_ERF = 2,
    REF_RELU = 3,
    REF_SQUARED_RELU = 4,
    REF_SILU = 5,
    REF_SWIGLU = 6, /* gated: the two last ones */
    REF_GEGLU = 7
};
enum { REF_BLOCKS = 4 };

/* Shape of everything; a part reads what concerns it. */
typedef struct ref_size {
    int64_t batch;
    int64_t seq;
    int64_t hidden;
    int64_t ffn;
    int64_t heads;
    int64_t head_cols;
    int64_t vocab;
    int64_t positions; /* 0: no learned positions */
    int64_t blocks;    /* transformer blocks, at most REF_BLOCKS */
    int act;           /* REF_... */
    ref_real epsilon;
    int64_t kv_heads;     /* 0: heads */
    int64_t window;       /* keys that a query sees; 0: all that are not later */
    ref_real rope_theta;  /* 0: no rotary positions */
    int64_t rope_cols;    /* of a head that are rotated; 0: all */
    ref_real rope_factor; /* scaling; 0: none. Llama 3's, or linear when rope_original is 0 */
    ref_real rope_low, rope_high, rope_original;
    int rope_interleaved; /* pairs (2j, 2j + 1) */
    int full;             /* 1: no causal mask */
    int64_t past;         /* position of the first token of every sequence */
} ref_size;

/* Parameters of a part; the same struct for their gradients. */
typedef struct ref_norm {
    ref_real *weight, *bias; /* [cols] */
    int rms;                 /* 1: no mean is taken off */
} ref_norm;
typedef struct ref_mlp {
    ref_real *gate_weight, *gate_bias; /* [hidden, ffn], [ffn]; NULL when fused or not gated */
    ref_real *up_weight, *up_bias;     /* the same; fused: [hidden, 2 * ffn], all of gate first */
    ref_real *down_weight, *down_bias; /* [ffn, hidden], [hidden] */
} ref_mlp;
typedef struct ref_attention {
    ref_real *qkv_weight, *qkv_bias; /* [hidden, 3 * heads * head_cols]: all Q, all K, all V */
    ref_real *out_weight, *out_bias; /* [heads * head_cols, hidden], [hidden] */
    ref_real *weight[3], *bias[3];   /* of Q, K and V alone, when qkv_weight is NULL */
    ref_real *norm[2];               /* of Q's and K's heads, [head_cols]; NULL: none */
} ref_attention;
typedef struct ref_block {
    ref_norm norm_1;
    ref_attention attention;
    ref_norm norm_2;
    ref_mlp mlp;
    const ref_real
        *drop[2]; /* what dropout multiplies the outputs of attention and MLP by, or NULL */
} ref_block;
typedef struct ref_gpt {
    ref_real *tokens;    /* [vocab, hidden] */
    ref_real *positions; /* [positions, hidden] or NULL */
    ref_block block[REF_BLOCKS];
    ref_norm norm;
    ref_real *head; /* [hidden, vocab] */
} ref_gpt;

/* count numbers, all zero; freed with free. */
ref_real *ref_new(int64_t count);

/* An activation, or that of a gate, and its derivative. */
ref_real ref_act(int act, ref_real x);
ref_real ref_act_slope(int act, ref_real x);

/* y [rows, out] = x [rows, in] w [in, out] + b [out]. */
void ref_linear_forward(int64_t rows, int64_t in, int64_t out, const ref_real *x, const ref_real *w,
                        const ref_real *b, ref_real *y);
void ref_linear_backward(int64_t rows, int64_t in, int64_t out, const ref_real *x,
                         const ref_real *w, const ref_real *dy, ref_real *dx, ref_real *dw,
                         ref_real *db);

/* y = act(x A + a) B + b; gated: (act(x G + g) * (x U + u)) B + b. */
void ref_mlp_forward(const ref_size *size, const ref_mlp *p, const ref_real *x, ref_real *y);
void ref_mlp_backward(const ref_size *size, const ref_mlp *p, const ref_real *x, const ref_real *dy,
                      ref_real *dx, const ref_mlp *grad);

/* y = (x - mean) / sqrt(variance + epsilon) * weight + bias, over the columns of a row; RMSNorm: as
 * if the mean were 0. */
void ref_norm_forward(int64_t rows, int64_t cols, ref_real epsilon, const ref_norm *p,
                      const ref_real *x, ref_real *y);
void ref_norm_backward(int64_t rows, int64_t cols, ref_real epsilon, const ref_norm *p,
                       const ref_real *x, const ref_real *dy, ref_real *dx, const ref_norm *grad);

/* Rotary positions: pair (j, j + rope_cols / 2), or (2j, 2j + 1), of every head of x [batch * seq, heads * head_cols]
 * is turned by the angle of its token's place in its sequence; back: the other way. */
void ref_rope(const ref_size *size, int64_t heads, ref_real *x, int back);

/* Causal self-attention. */
void ref_attention_forward(const ref_size *size, const ref_attention *p, const ref_real *x,
                           ref_real *y);
void ref_attention_backward(const ref_size *size, const ref_attention *p, const ref_real *x,
                            const ref_real *dy, ref_real *dx, const ref_attention *grad);

/* factor [rows, cols]: 0 where dropout drops, else 1 / (1 - rate), by the rule in dropout.h. */
void ref_dropout(uint64_t seed, const char *name, double rate, int64_t rows, int64_t cols,
                 ref_real *factor);

/* x + attention(norm_1(x)), then x + mlp(norm_2(x)). */
void ref_block_forward(const ref_size *size, const ref_block *p, const ref_real *x, ref_real *y);
void ref_block_backward(const ref_size *size, const ref_block *p, const ref_real *x,
                        const ref_real *dy, ref_real *dx, const ref_block *grad);

/* x + attention(norm_1(x)) + mlp(norm_2(x)); with norm_2.weight NULL: mlp(norm_1(x)). */
void ref_parallel_forward(const ref_size *size, const ref_block *p, const ref_real *x, ref_real *y);
void ref_parallel_backward(const ref_size *size, const ref_block *p, const ref_real *x,
                           const ref_real *dy, ref_real *dx, const ref_block *grad);

/* y[i] = tokens[ids[i]] + positions[i % seq]. */
void ref_embedding_forward(const ref_size *size, const ref_real *tokens, const ref_real *positions,
                           const int32_t *ids, ref_real *y);
void ref_embedding_backward(const ref_size *size, const int32_t *ids, const ref_real *dy,
                            ref_real *dtokens, ref_real *dpositions);

/* loss[i] = l - sum_j q_j z[i, j] + z_loss * l^2, l = log(sum_j exp(z[i, j])); q is 1 at the target,
 * spread by label smoothing over all classes or over the others; of weight[i] (NULL: 1), 0 when
 * ignored. Kept per token, or one sum, or the sum over the weights' sum (weight_sum unless 0). */
enum { REF_TOKENS = 0, REF_SUM = 1, REF_MEAN = 2 };
typedef struct ref_loss {
    int64_t vocab;
    int ignores, others, reduction;
    int32_t ignore;
    ref_real smoothing, z_loss;
    const double *weight;
    double weight_sum;
} ref_loss;
void ref_loss_forward(int64_t rows, const ref_loss *p, const ref_real *z, const int32_t *target,
                      ref_real *loss);
void ref_loss_backward(int64_t rows, const ref_loss *p, const ref_real *z, const int32_t *target,
                       const ref_real *dloss, ref_real *dz);

/* An output head on a table [vocab, hidden]: z = x table^T. */
void ref_transpose(int64_t rows, int64_t cols, const ref_real *x, ref_real *y);
void ref_head_forward(int64_t rows, int64_t hidden, int64_t vocab, const ref_real *x,
                      const ref_real *table, ref_real *z);
void ref_head_backward(int64_t rows, int64_t hidden, int64_t vocab, const ref_real *x,
                       const ref_real *table, const ref_real *dz, ref_real *dx, ref_real *dtable);

/* Token losses of the whole model: embedding, blocks, norm, output head, cross-entropy. */
void ref_gpt_forward(const ref_size *size, const ref_gpt *p, const int32_t *ids,
                     const int32_t *targets, ref_real *loss);
void ref_gpt_backward(const ref_size *size, const ref_gpt *p, const int32_t *ids,
                      const int32_t *targets, const ref_real *dloss, const ref_gpt *grad);

#endif
