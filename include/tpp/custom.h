/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_CUSTOM_H
#define TPP_CUSTOM_H

/**
 * @file custom.h
 * A layer of your own, made of callbacks. It takes part like a built-in one: in chains and pipeline
 * stages, with parameters that tpp_layer_init fills, tpp_layer_adamw moves and shard maps cut, in the
 * backward's halves, in recomputation (recompute.h).
 *
 *     tpp_custom_ops ops = {0};
 *     ops.size = sizeof ops;
 *     ops.query = my_query;                     // saved, split and scratch bytes; NULL: none
 *     ops.forward = my_forward;                 // tpp_status my_forward(void *, const tpp_custom_call *)
 *     ops.backward_input = my_backward_input;
 *     tpp_custom_desc d = {0};
 *     d.size = sizeof d;
 *     d.ops = &ops;
 *     d.in_cols = 64;                           // on this rank
 *     d.out_cols = 64;
 *     tpp_custom_create(&layer, &env, &d);
 *
 * What a callback may rely on. The doors of layer.h have checked the call: shapes, types, memory; there
 * is at least one token. All ranks of env.comm are called in the same order, so a callback may
 * communicate over call->comm, and does the same there on every rank. A callback never allocates, if
 * the layer is to keep what layer.h says.
 *
 * Recomputation calls forward a second time with the same input; it must then do the same.
 *
 * A callback refuses with a negative status, its own ones at or below TPP_ERR_USER, and explains it
 * with tpp_message_set: both come back to the caller unchanged. Without a sentence the library says
 * which callback of which layer it was. A positive status is TPP_ERR_INVALID.
 *
 * Threads: callbacks of one layer may run on several threads at once when the caller's calls do.
 */

#include <tpp/layer.h>
#include <tpp/layer_cost.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a callback works on. The fields below `call` are those of the layer, not of the call. */
typedef struct tpp_custom_call {
    uint32_t size;
    uint32_t flags; /**< 0 */
    /** The call, as layer.h says, with the matrices and memory of this layer alone, also in a chain:
     * params begin with its first parameter, saved_bytes and scratch_bytes are what query told. Query
     * sees batch and seq alone; forward writes out and saved; backward_input reads grad_out, in and
     * saved and writes grad_in (unless `in` are ids) and split; backward_weight reads those and adds to
     * grads. What a callback has no right to is NULL. */
    const tpp_call *call;
    void *split;                 /**< what backward_input leaves for backward_weight */
    const int64_t *offsets;      /**< [params]: of each parameter, bytes from call->params */
    const int64_t *grad_offsets; /**< [params]: of its gradient, bytes from call->grads */
    tpp_comm *comm;              /**< of env; NULL: one rank */
    const tpp_gemm_ops *gemm;    /**< of env, or the built-in one; never NULL */
    int32_t rank;                /**< of comm */
    int32_t ranks;               /**< of comm, >= 1 */
    int32_t blocks;              /**< R in force */
    uint32_t reserved0;          /**< 0 */
} tpp_custom_call;

/** Memory of a layer for a batch. Each piece that a callback gets is aligned to 64 bytes. */
typedef struct tpp_custom_needs {
    uint32_t size;         /**< set by the library */
    uint32_t flags;        /**< 0 */
    int64_t saved_bytes;   /**< forward writes, backward reads */
    int64_t split_bytes;   /**< backward_input writes, backward_weight reads */
    int64_t scratch_bytes; /**< largest of all callbacks */
} tpp_custom_needs;

/** The callbacks. */
typedef struct tpp_custom_ops {
    uint32_t size;
    uint32_t flags; /**< 0 */
    /** Tell the memory for call->call->batch and ->seq; *out is all 0 beforehand. Called often, from
     * tpp_layer_query and from every call; the answer depends on batch and seq alone. NULL: no memory. */
    tpp_status (*query)(void *ctx, const tpp_custom_call *call, tpp_custom_needs *out);
    /** Compute out from in. Required. */
    tpp_status (*forward)(void *ctx, const tpp_custom_call *call);
    /** Compute grad_in from grad_out. Required unless `in` are ids. */
    tpp_status (*backward_input)(void *ctx, const tpp_custom_call *call);
    /** Add to the gradients of the parameters; runs after backward_input, in tpp_layer_backward at
     * once. Required with parameters. */
    tpp_status (*backward_weight)(void *ctx, const tpp_custom_call *call);
    /** The layer goes; NULL: nothing to do. Called once, not when _create fails. */
    void (*destroy)(void *ctx);
    /** Tell what `kind` of call, TPP_COST_FORWARD, _INPUT or _WEIGHT (layer_cost.h), does for
     * call->call->batch and ->seq; *out is all 0 beforehand. NULL: the layer counts as nothing. */
    tpp_status (*cost)(void *ctx, const tpp_custom_call *call, tpp_cost_call kind,
                       tpp_layer_cost *out);
} tpp_custom_ops;

/** A parameter. */
typedef struct tpp_custom_param {
    uint32_t size;
    uint32_t flags;     /**< TPP_PARAM_NO_DECAY, or 0 */
    const char *name;   /**< behind env.name; 1 to 31 characters, each name once; copied */
    int64_t rows;       /**< of the full tensor, >= 1 */
    int64_t cols;       /**< of the full tensor, >= 1 */
    tpp_axis axis;      /**< the axis that the blocks split; TPP_AXIS_NONE: every rank has all */
    int32_t sections;   /**< equal sections along the axis, each split (shard.h); 0: 1 */
    tpp_init init;      /**< how tpp_layer_init fills it */
    uint32_t reserved0; /**< 0 */
    double init_std;    /**< of TPP_INIT_NORMAL; 0: 0.02 */
} tpp_custom_param;

/** Flags of tpp_custom_desc. */
enum {
    TPP_CUSTOM_TARGETS = 1, /**< a loss: call.targets is needed, and it is the last layer */
    TPP_CUSTOM_ONE_ROW = 2, /**< a loss that gives one row, not one per token */
    /** with TPP_ENV_SEQUENCE: `in` (unless token ids) and `out` (unless of a loss) are this rank's rows of
     * the tokens (tpp_layer_rows), as between the built-in layers; without this flag, all of them */
    TPP_CUSTOM_SEQUENCE = 4
};

/** A custom layer. */
typedef struct tpp_custom_desc {
    uint32_t size;
    uint32_t flags;            /**< TPP_CUSTOM_... */
    const tpp_custom_ops *ops; /**< copied */
    void *ctx;                 /**< passed to the callbacks */
    int64_t in_cols;           /**< columns of call.in on this rank, >= 1 */
    int64_t out_cols;          /**< columns of call.out on this rank, >= 1 */
    /** of call.in; 0: env.dtype; TPP_I32: token ids. call.out is of env.dtype, of a loss float32
     * where that is TPP_BF16 */
    tpp_dtype in_dtype;
    int32_t param_count; /**< >= 0 */
    /** [param_count], each of the size that the first one states; NULL: none */
    const tpp_custom_param *params;
} tpp_custom_desc;

/**
 * A layer made of callbacks.
 *
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value and what is accepted);
 *         TPP_ERR_TOO_NEW; TPP_ERR_OVERFLOW; TPP_ERR_NO_MEMORY.
 *
 * Calls, and tpp_layer_query, return what a callback returned.
 *
 * Comm: what the callbacks do. Memory: what query tells, each piece rounded up to 64 bytes. ops, params
 * and names are copied, ctx is not. Since: 0.1.
 */
TPP_API tpp_status tpp_custom_create(tpp_layer **out, const tpp_layer_env *env,
                                     const tpp_custom_desc *desc);

#ifdef __cplusplus
}
#endif

#endif
