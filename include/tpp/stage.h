/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_STAGE_H
#define TPP_STAGE_H

/**
 * @file stage.h
 * The stages of one rank, made of layers, offered as the callbacks that executors call (exec.h).
 * The place where layers and schedules meet; neither knows of the other.
 *
 *     tpp_stage_desc d = {0};
 *     d.size = sizeof d;
 *     d.layers = layers;                        // one per chunk, usually a chain
 *     d.params = params;                        // one state per chunk
 *     d.grads = grads;
 *     d.chunks = 1;
 *     d.batch = 2;
 *     d.seq = 128;
 *     d.micros = 8;
 *     d.slots = info.slots;                     // tpp_schedule_query
 *     d.loss_weight = 1.0 / (8 * 2 * 128);      // mean over the step's tokens
 *     tpp_stage_create(&stage, &d);
 *     ranks[i].ops = tpp_stage_ops_get();
 *     ranks[i].ctx = stage;
 *
 * A chunk whose layer takes token ids reads them from the step's data; a chunk whose layer takes
 * targets is the end of the model: its losses are kept per micro-batch, and its grad_out is
 * loss_weight for every token, or once for a loss that is summed or a mean (loss.h). For the mean
 * over tokens that count, however they are spread over micro-batches: TPP_LOSS_MEAN, loss_weight = 1
 * and tpp_stage_set_weights with the step's weight sum.
 *
 * Schedules. desc.halves says that there are I and W (tpp_schedule_info.halves). With two directions
 * (info.directions) every rank has stages of both, so the model stands twice, with equal parameters:
 * after the step tpp_stage_sum_mirrors gives both the sum of their gradients, and equal updates keep
 * them equal. Tied copies (head.h) are summed after that, those of each direction by themselves; of
 * stages that lie on one rank (V placement) they are summed there, once.
 *
 * The same bits under every schedule. Gradients add up in the order of the micro-batches, whatever
 * the built-in order. Two directions sum each half of them apart; with late_grads all others do so
 * too, and tpp_stage_join_grads then adds the halves. Thus, with fixed blocks, a step has the same
 * losses and gradients under every built-in schedule, executor and split.
 *
 * Forward alone (tpp_schedule_info.forward_only): any stage can be called so; one with
 * TPP_STAGE_NO_GRAD needs no gradients and keeps nothing for a backward.
 */

#include <tpp/exec.h>
#include <tpp/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tpp_stage tpp_stage;

/** Flags of tpp_stage_desc. */
enum {
    TPP_STAGE_NO_GRAD = 1 /**< forward alone: grads may be NULL, backward is refused */
};

/** The stages of a rank. */
typedef struct tpp_stage_desc {
    uint32_t size;
    uint32_t flags;                 /**< TPP_STAGE_... or 0 */
    const tpp_layer *const *layers; /**< [chunks]; must outlive the stage */
    const void *const *params;      /**< [chunks]: state_bytes each, aligned to 64 */
    /** [chunks]: grad_bytes each, aligned to 64; the caller zeroes them */
    void *const *grads;
    int32_t chunks; /**< >= 1 */
    int32_t micros; /**< micro-batches of a step, >= 1 */
    int32_t slots;  /**< stash slots of the schedule, >= 1 */
    /** 1: the schedule has I and W: saved memory is made longer for them */
    int32_t halves;
    int64_t batch; /**< sequences of a micro-batch, >= 1 */
    int64_t seq;   /**< tokens of a sequence, >= 1 */
    /** gradient of the step's loss by what the loss layer gives (one token's loss, their sum, their
     * mean); 0: 1 / (micros * rows): of a token's loss 1 / (tokens of the step), of a sum or a mean
     * over each micro-batch 1 / micros */
    double loss_weight;
    /** tensor-parallel group, aborted when a run fails; NULL: that of layers[0] */
    tpp_comm *comm;
    const tpp_allocator *allocator; /**< NULL: malloc */
    /** [chunks], as grads: those of micro-batches from ceil(micros / 2) on add up here, until
     * tpp_stage_join_grads; NULL, or an entry NULL: in grads */
    void *const *late_grads;
} tpp_stage_desc;

/**
 * Make the stages of a rank. Allocates slots * saved bytes (of the largest chunk) and scratch. Runs
 * need run.message_count = batch * seq * the columns between the chunks, and run.message_dtype =
 * their type; another one is TPP_ERR_INVALID when the stage is called. With TPP_ENV_SEQUENCE (layer.h)
 * messages are a rank's rows, ceil(batch * seq / R) * R / t of them: of all ranks as many, zeros where
 * a rank has fewer.
 *
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_TOO_NEW; TPP_ERR_OVERFLOW; TPP_ERR_NO_MEMORY.
 *
 * Memory: destroy with tpp_stage_destroy. Threads: a stage is used by one thread at a time. Since:
 * 0.1.
 */
TPP_API tpp_status tpp_stage_create(tpp_stage **out, const tpp_stage_desc *desc);

/**
 * Set the data of the next step.
 *
 * @param ids,targets [micros, batch * seq]; must stay until the step is over; NULL if no chunk
 *         needs them.
 * @return TPP_OK; TPP_ERR_INVALID. Since: 0.1.
 */
TPP_API tpp_status tpp_stage_set_data(tpp_stage *stage, const int32_t *ids, const int32_t *targets);

/**
 * Set what the tokens of the next steps count, until it is called again; without, each counts 1.
 *
 * @param weights    [micros, batch * seq]; must stay until the steps are over; NULL: each 1.
 * @param weight_sum what means divide by (tpp_call); 0: each micro-batch's own sum.
 * @return TPP_OK; TPP_ERR_INVALID. Since: 0.1.
 */
TPP_API tpp_status tpp_stage_set_weights(tpp_stage *stage, const double *weights,
                                         double weight_sum);

/**
 * Set the lengths of the sequences of the next steps (tpp_call.lengths, tpp_call.past), until it is
 * called again; without, each has seq tokens, and positions begin at 0. The tokens of a micro-batch
 * then lie one behind the other from the beginning of its batch * seq ids, targets and weights; those
 * behind them are not looked at. Messages keep their size, zeros behind the tokens. With loss_weight 0 a
 * token's loss counts 1 / (tokens of the step).
 *
 * @param lengths [micros, batch], 0 .. seq; must stay until the steps are over; NULL: seq each.
 * @param past    [micros, batch], >= 0, likewise; NULL: 0.
 * @return TPP_OK; TPP_ERR_INVALID (names the sequence and the micro-batch). Since: 0.1.
 */
TPP_API tpp_status tpp_stage_set_lengths(tpp_stage *stage, const int32_t *lengths,
                                         const int32_t *past);

/**
 * Set the seed of dropout (dropout.h) of the next steps, until it is called again; without, nothing is
 * dropped. Set another one for every step, the same on all ranks of a model. Micro-batch m draws with
 * seed + m * 0x9e3779b97f4a7c15, or 1 when that is 0.
 *
 * @param seed 0: nothing is dropped (evaluation).
 * @return TPP_OK; TPP_ERR_INVALID. Since: 0.1.
 */
TPP_API tpp_status tpp_stage_set_dropout(tpp_stage *stage, uint64_t seed);

/**
 * The callbacks; their ctx is a tpp_stage. No slot but forward_backward is NULL: of a pair, the
 * forward runs first. enter and leave limit BLAS to one thread
 * per call (tpp_blas_single_begin), because the ranks of a run share it: a host that wants otherwise
 * copies the table and sets both to NULL.
 *
 * Memory: static. Threads: any. Since: 0.1.
 */
TPP_API const tpp_stage_ops *tpp_stage_ops_get(void);

/**
 * Sum of what the loss layer gave for each micro-batch of the last step (of its token losses, unless
 * it makes a sum or a mean of them itself): [micros] numbers, in float64; NULL when no chunk has a
 * loss.
 *
 * Memory: borrowed until destroy. Since: 0.1.
 */
TPP_API const double *tpp_stage_losses(const tpp_stage *stage);

/**
 * Add late_grads to grads and set late_grads to zero. Once per step, after the last backward and before
 * gradients are used. Without late_grads it does nothing.
 *
 * @return TPP_OK; TPP_ERR_INVALID. Comm: none. Threads: those of the stage. Since: 0.1.
 */
TPP_API tpp_status tpp_stage_join_grads(tpp_stage *stage);

/**
 * Sum the gradients of mirrored stages, the two that are the same stage of the model in the two
 * directions, and give the sum to both. Once per step, as tpp_stage_join_grads. It has the bits of
 * direction 0's gradient + direction 1's. With one direction it does nothing.
 *
 * @param stages        [count]: those of all pipeline ranks in order, when all are in this process, or
 *                      that of this rank alone.
 * @param count         ranks of the schedule, or 1.
 * @param comm          this rank's handle of the pipeline group; NULL: all ranks are here. A lane
 *                      sums over its own stages and comm.
 * @param scratch       grad_bytes of the largest chunk, aligned to 64; dead when the call returns;
 *                      NULL when all ranks are here.
 * @return TPP_OK; TPP_ERR_INVALID (mirrored stages that are not alike, a rank that is not there);
 *         TPP_ERR_TOO_SMALL (names the need); a comm failure.
 *
 * Comm: of each stage whose mirror lies on another rank, one message of its gradients there and one
 * back (rounding of each parameter to 64 bytes included). Every rank of the group calls it. Memory: none
 * allocated. Since: 0.1.
 */
TPP_API tpp_status tpp_stage_sum_mirrors(tpp_stage *const *stages, int32_t count,
                                         const tpp_schedule *schedule, tpp_comm *comm,
                                         void *scratch, int64_t scratch_bytes);

/** Bytes that create allocated for saved and scratch memory. Cannot fail. Since: 0.1. */
TPP_API int64_t tpp_stage_bytes(const tpp_stage *stage);

/** Free a stage; NULL is fine. Layers, params and grads stay the caller's. Since: 0.1. */
TPP_API void tpp_stage_destroy(tpp_stage *stage);

#ifdef __cplusplus
}
#endif

#endif
