/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_TP_RUN_H
#define TPP_SUPPORT_TP_RUN_H

/* Runs a layer on rank threads, with memory of exactly the size that the query tells, filled with
 * NaN beforehand and guarded on both sides, and puts the ranks' parts together.
 *
 *     tp_full *full = tp_full_new(c, 2, 5, 1);
 *     tp_setup setup = {.ranks = 4, .dtype = TPP_F64};
 *     tp_result *result = tp_run(c, full, &setup);
 *     tp_check(result, full, 1e-13);
 *     tp_result_free(result);
 *     tp_full_free(full); */

#include "support/tp_case.h"
#include "support/tp_memory.h"
#include "support/tp_ranks.h"

typedef struct tp_setup {
    int32_t ranks;
    int32_t blocks; /* env.blocks */
    tpp_dtype dtype;
    int halves;       /* 1: backward in two calls, scratch ruined between them */
    int backwards;    /* how often backward is called; 0: once */
    int fill;         /* byte in memory beforehand, TP_...; 0: TP_NAN */
    int own_comm;     /* 1: a comm also for one rank, where it is NULL otherwise */
    uint32_t flags;   /* env.flags */
    const char *name; /* env.name */
    const tpp_gemm_ops *gemm;
} tp_setup;

/* Collectives of one rank. */
typedef struct tp_counts {
    tpp_comm_count reduce, gather, scatter;
} tp_counts;

/* Unsplit results: grad_in, elements of `dtype`; out of `out_dtype`; gradients of `grad_dtype`. */
typedef struct tp_result {
    tpp_dtype dtype, out_dtype, grad_dtype;
    int32_t params;
    int64_t tokens, in_cols, out_rows, out_cols;
    void *out, *grad_in; /* grad_in is NULL for token ids */
    void *grad[TP_PARAMS];
    int64_t count[TP_PARAMS];
    char name[TP_PARAMS][TP_NAME];
    tp_counts forward, backward; /* the same on all ranks */
    tp_counts weight;            /* of backward_weight alone (halves); 0 else */
    tp_counts copies;            /* of tpp_layer_sum_copies */
} tp_result;

/* One rank's layer and memory. */
typedef struct tp_rank {
    const tp_full *full;
    const tp_setup *setup;
    int32_t rank;
    tpp_comm *traced; /* NULL without comm */
    tpp_layer *layer;
    tpp_layer_info info;
    tpp_shard shard[TP_PARAMS]; /* in the order of full->param */
    int64_t offset[TP_PARAMS], grad_offset[TP_PARAMS];
    int64_t in_first, out_first; /* global columns of this rank */
    int64_t in_row, out_row;     /* and rows, and how many */
    int64_t in_rows, out_rows;
    int64_t width; /* bytes of an element */
    tp_memory in, out, grad_out, grad_in, params, grads, saved, scratch, targets, weights;
    uint64_t inputs; /* checksum of what calls only read */
    tpp_call call;
} tp_rank;

/* Create the layer, check what the query tells of it against `full`, make and fill the memory. */
tpp_status tp_rank_open(tp_rank *r, const tp_case *c, const tp_full *full, const tp_setup *setup,
                        tpp_comm *comm, int32_t rank);

/* Copy another batch of the same shape into the memory; grads stay. */
void tp_rank_load(tp_rank *r, const tp_full *full);

/* A test that writes into in, grad_out, params or targets itself calls this afterwards. */
void tp_rank_seal(tp_rank *r);

/* What has been said since the last call of this; zeros without comm. */
tpp_status tp_rank_count(tp_rank *r, tp_counts *out);

/* Sum the gradients of copies, as before an optimizer's step. */
tpp_status tp_rank_sum_copies(tp_rank *r);

/* Fails when a guard, an input or a parameter was touched. */
tpp_status tp_rank_verify(const tp_rank *r);

/* Destroy the layer; the memory stays until tp_rank_free. */
void tp_rank_close(tp_rank *r);
void tp_rank_free(tp_rank *r);

/* Put the ranks' outputs and gradients together; fails the test when ranks that hold the same
 * differ. */
tp_result *tp_gather(const tp_rank *ranks, int32_t count);

/* Open, forward, backward, verify, close on all ranks; gather. */
tp_result *tp_run(const tp_case *c, const tp_full *full, const tp_setup *setup);
void tp_result_free(tp_result *result);

/* Outputs and gradients against the reference, |difference| <= bound * largest. */
void tp_check(const tp_result *result, const tp_full *full, double bound);

/* The same with a largest gradient of at least `share` of that of all tensors: for a few numbers that
 * cancel, whose terms were rounded before (bfloat16). */
void tp_check_beside(const tp_result *result, const tp_full *full, double bound, double share);

/* Outputs and gradients of two runs byte by byte. */
void tp_same(const char *what, const tp_result *a, const tp_result *b);

/* One number in float64: |got - want| <= bound. (cmocka's assert_float_equal compares in float.) */
#define assert_near(got, want, bound) tp_near(__FILE__, __LINE__, got, want, bound)
void tp_near(const char *file, int line, double got, double want, double bound);

/* Write elements; bytes of one. */
void tp_store(tpp_dtype dtype, void *array, int64_t i, ref_real value);
int64_t tp_width(tpp_dtype dtype);

/* The type of gradients of parameters, and of losses: float32 for bfloat16. */
tpp_dtype tp_wide(tpp_dtype dtype);

#endif
