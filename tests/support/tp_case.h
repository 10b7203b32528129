/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_TP_CASE_H
#define TPP_SUPPORT_TP_CASE_H

/* What the tests know of a layer without asking the library: its parameters and their full shapes,
 * how its input and output are split, and its unsplit result from ref_gpt.h. */

#include <tpp/tpp.h>

#include "support/ref_gpt.h"

enum { TP_PARAMS = 40, TP_NAME = 48 };

typedef struct tp_tensor {
    char name[TP_NAME];
    int64_t rows, cols;
    ref_real *value;
    ref_real *grad; /* by the reference */
} tp_tensor;

/* The unsplit tensors of one call. */
typedef struct tp_full {
    int64_t batch, seq, tokens;
    int64_t in_cols, out_cols; /* over all ranks, without padding */
    int in_split, out_split;   /* 1: a rank has its own columns */
    int64_t ids_below;         /* > 0: the input is token ids */
    int64_t targets_below;     /* > 0: there are targets */
    int one_row;               /* 1: out is [1, out_cols] */
    int out_low;               /* 1: padding of out is -infinity; otherwise 0 */
    int weighted;              /* 1: tokens have weights */
    int ignores;               /* 1: every third target is `ignore` */
    int32_t ignore;
    int64_t out_rows;
    ref_real *in, *out, *grad_out, *grad_in;
    int32_t *ids, *targets;
    double *weights;
    double weight_sum;              /* of the call */
    const int32_t *lengths, *pasts; /* of the call; NULL: all of seq, 0 */
    int64_t past;                   /* position of the first token, for the reference */
    uint64_t dropout_seed;
    int all_rows; /* 1: has all rows on every rank also with sequence parallelism */
    int32_t params;
    tp_tensor param[TP_PARAMS];
} tp_full;

/* A kind of layer. */
typedef struct tp_kind {
    tpp_status (*create)(tpp_layer **out, const tpp_layer_env *env, const void *desc);
    void (*describe)(const void *desc, tp_full *full);  /* fills columns, splits, parameters */
    void (*reference)(const void *desc, tp_full *full); /* fills out, grad_in, grads */
} tp_kind;

typedef struct tp_case {
    const char *name;
    const tp_kind *kind;
    const void *desc;
} tp_case;

enum {
    TP_HEAD_PLAIN = 1, /* a head and a loss */
    TP_HEAD_FUSED = 2,
    TP_HEAD_TIED = 4 /* to the embedding; with one of the others */
};

/* A whole model as a chain: embedding, blocks, norm, output head, loss. */
typedef struct tp_gpt_desc {
    int64_t vocab, hidden, positions;
    int32_t heads, blocks, kv_heads;
    int32_t head; /* TP_HEAD_...; 0: a linear layer and a loss */
    int64_t step; /* tokens of a step of the fused head */
} tp_gpt_desc;

extern const tp_kind tp_kind_linear, tp_kind_mlp, tp_kind_attention, tp_kind_norm,
    tp_kind_embedding, tp_kind_loss, tp_kind_block, tp_kind_gpt, tp_kind_dropout;

/* Tokens have weights. */
extern const tp_kind tp_kind_loss_weighted, tp_kind_head_weighted;

/* A head, fused or not. */
extern const tp_kind tp_kind_head;

/* The same with TPP_ENV_UNEVEN. */
extern const tp_kind tp_kind_linear_uneven, tp_kind_mlp_uneven;

/* One or more cases of every kind, fit for 1, 2, 4 and 8 ranks; ends with an empty one. */
extern const tp_case tp_cases[];

/* The case of that name; ends the program when there is none. */
const tp_case *tp_case_find(const char *name);

/* Random tensors (all exact in float) for a batch, and the reference's answer. Freed with
 * tp_full_free. */
tp_full *tp_full_new(const tp_case *c, int64_t batch, int64_t seq, uint64_t seed);
tp_full *tp_full_inputs(const tp_case *c, int64_t batch, int64_t seq,
                        uint64_t seed); /* no answer */
void tp_full_free(tp_full *full);

/* The same of packed sequences; the arrays [batch] must stay. The answer is that of every sequence
 * by itself, with the sums of their gradients. */
tp_full *tp_full_packed(const tp_case *c, int64_t batch, int64_t seq, const int32_t *lengths,
                        const int32_t *pasts, uint64_t seed);
tp_full *tp_full_packed_inputs(const tp_case *c, int64_t batch, int64_t seq, const int32_t *lengths,
                               const int32_t *pasts, uint64_t seed); /* no answer */

/* Round all inputs and parameters to what bfloat16 holds: those that such a layer really gets. */
void tp_full_round(tp_full *full);

/* Compute the reference's answer again after a change of tensors. */
void tp_full_answer(const tp_case *c, tp_full *full);

/* For describe and reference. */
void tp_add_param(tp_full *full, const char *prefix, const char *name, int64_t rows, int64_t cols);
ref_real *tp_value(const tp_full *full, const char *prefix, const char *name);
ref_real *tp_grad(const tp_full *full, const char *prefix, const char *name);

/* The nearest bfloat16, halves to even. */
uint16_t tp_bf16(ref_real value);

/* Uniform in [-1, 1) in steps of 2^-15; the state steps on. */
double tp_random(uint64_t *state);

#endif
