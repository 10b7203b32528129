/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_VALIDATION_H
#define TPP_VALIDATION_H

/**
 * @file validation.h
 * An optimizer step without a barrier (post-validation of Qi et al. 2023, Zero Bubble Pipeline
 * Parallelism). Clipping needs the norm of all gradients, so that every rank waits for the slowest,
 * and a pipeline runs empty and fills again in every step. Here a rank takes its step as soon as its
 * own gradients are there, begins the next step's forwards, and learns the norm before its first
 * backward. Where the step was wrong, above the limit or not finite, all ranks take it back and do it
 * again: parameters have the bits that they have with a barrier, in every case.
 *
 *     tpp_validation_desc d = {0};
 *     d.size = sizeof d;
 *     d.pipeline = pipeline;                      // this rank's handle of the executor's comm
 *     d.tensor = tensor;                          // tensor-parallel group; NULL: one
 *     d.parts = all_params * blocks;              // of the whole model
 *     d.clip = 1.0;
 *     tpp_validation *v;
 *     tpp_validation_create(&v, &d);
 *     // after the rank's last backward of a step:
 *     tpp_layer_grad_squares(model, grads, tpp_validation_parts(v) + first * blocks);
 *     tpp_validation_begin(v, &known);
 *     if (known.grad_scale == 1 && !known.skip)   // else the step would be wrong for certain
 *         tpp_layer_adamw_early(model, &adamw, params, grads, moments, undo);
 *     // before its first backward of the next step:
 *     tpp_validation_end(v, &verdict);            // then keep, or undo and redo (optim.h)
 *
 * What the ranks tell each other. Each adds its parts to those of the ranks before it and passes them
 * on to the next rank; the last one adds all parts up in the order of the model, so that the norm has
 * the bits of tpp_grad_verdict over all of them under every split and schedule, and sends it to every
 * rank. The decision is made from that one number: the same on all ranks. Begin waits for the ranks
 * before this one to begin, and for nothing else; end waits for all ranks to begin, which they have
 * when a micro-batch has passed all stages. So no schedule can hang by it, whatever its placement, if
 * begin comes after all of a rank's actions of a step and end before its first backward of the next.
 *
 * What was wrong is done again. Forwards that ran before the verdict used early parameters: when they
 * are taken back, the whole run goes to waste. Let its callbacks return TPP_OK without computing, so
 * that the messages still meet (lanes of a rank decide alike, because end is at the same action of
 * each), and run that step again, with another run.step. tpp_executor_distributed_create gives each
 * rank a run of its own: with serial and threads, where a run ends on all ranks before the next one
 * begins, begin and end stand between two runs and nothing goes to waste.
 *
 * Transports. Messages must move on without being asked after, as those of local comms do: a rank
 * computes while its parts, or the norm, are on their way.
 *
 * Failures. A comm that fails aborts both groups, so that no rank waits for ever; a rank that gives up
 * for another reason calls tpp_comm_abort itself.
 */

#include <tpp/comm.h>
#include <tpp/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tpp_validation tpp_validation;

/** Of one rank: lane of a pipeline rank. */
typedef struct tpp_validation_desc {
    uint32_t size;
    uint32_t flags;     /**< 0 */
    tpp_comm *pipeline; /**< ranks that hold the other stages; NULL: none */
    tpp_comm *tensor;   /**< ranks that hold the same stages; NULL: none */
    int64_t parts;      /**< of all stages (tpp_layer_grad_squares); the same everywhere */
    double clip;        /**< largest norm, the same everywhere; 0: none */
    const tpp_allocator *allocator; /**< NULL: malloc */
} tpp_validation_desc;

/**
 * Make a rank's side. Both comms must outlive it and may be used for other things in between, by the
 * same thread.
 *
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_TOO_NEW; TPP_ERR_OVERFLOW; TPP_ERR_NO_MEMORY.
 *
 * Memory: destroy with tpp_validation_destroy; 16 bytes a part, and on the last rank of the pipeline
 * 128 a rank. Threads: one at a time. Since: 0.1.
 */
TPP_API tpp_status tpp_validation_create(tpp_validation **out, const tpp_validation_desc *desc);

/**
 * Where the parts of this rank's stages go, each at its place in the model: [parts], 0 after create
 * and after begin.
 *
 * Memory: borrowed until destroy. Since: 0.1.
 */
TPP_API double *tpp_validation_parts(tpp_validation *validation);

/**
 * This rank's gradients are complete and their parts are in place: pass them on.
 *
 * @param known size must be set; what is to be said of the ranks up to this one: when it clips or
 *        skips, the final verdict does so too. NULL: not wanted.
 * @return TPP_OK; TPP_ERR_INVALID (end is missing before it); a comm failure.
 *
 * Comm: over tensor one all-reduce of parts; over pipeline at most one message of parts from the rank
 * before and one to the next, and from the last rank one of one number to each. Since: 0.1.
 */
TPP_API tpp_status tpp_validation_begin(tpp_validation *validation, tpp_verdict *known);

/**
 * Wait for the verdict on the step that was begun.
 *
 * @param out size must be set; the same bits on all ranks.
 * @return TPP_OK; TPP_ERR_INVALID (begin is missing before it); a comm failure. Since: 0.1.
 */
TPP_API tpp_status tpp_validation_end(tpp_validation *validation, tpp_verdict *out);

/**
 * Free it; NULL is fine. Waits until the other ranks have what this one sent them, which they have
 * when they have called end, or until the group is aborted. Since: 0.1.
 */
TPP_API void tpp_validation_destroy(tpp_validation *validation);

#ifdef __cplusplus
}
#endif

#endif
