/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_HEAD_H
#define TPP_HEAD_H

/**
 * @file head.h
 * The output head of a model: hidden columns to the logits of a vocabulary that is split over ranks,
 * or, fused, at once to their cross-entropy (loss.h) without ever holding all logits. Its table is
 * [vocab, hidden], as an embedding's is, and may be the embedding's (Press and Wolf 2017).
 *
 *     tpp_embedding_create(&layers[0], &env, &embedding);
 *     tpp_head_desc d = {0};
 *     d.size = sizeof d;
 *     d.hidden = 64;
 *     d.vocab = 256;
 *     d.tied = layers[0];                  // one table for both
 *     d.loss = &loss;                      // fused; NULL: gives logits
 *     tpp_head_create(&layers[1], &env, &d);
 *     tpp_chain_create(&model, &env, layers, 2);
 *
 * logits = X table^T; operator f in front. Padding of the vocabulary (to a multiple of the blocks) is
 * -infinity in logits, so that it never wins an arg-max, and has gradient 0.
 *
 * Fused. Forward makes the logits of `block` tokens at a time and keeps two numbers of each token;
 * backward makes them again, block by block, and turns them into gradients at once (each half on its
 * own). So memory is block * vocab / t logits of scratch instead of tokens * vocab / t saved, for one
 * more product. Loss and gradients are those of a head and a loss in a chain, but for the order of
 * sums over tokens of different blocks.
 *
 * Early. With TPP_HEAD_EARLY, for a loss that is a sum or a mean, forward turns the logits of each
 * block into gradients while they are there, and backward only multiplies these by grad_out: three
 * products instead of four, as fast as a head and a loss apart, but `saved` holds the gradients of the
 * input and of the table, for each micro-batch in flight (Hsu et al. 2024, Liger Kernel).
 *
 * Tied, in one chain. With `tied` the head has no parameter: it reads the embedding's table and adds
 * to its gradient. Both layers must be in the chain that is called, at any depth. Where micro-batches
 * follow each other, what head and embedding give is added in the order of the calls.
 *
 * Tied, over pipeline stages. Where the embedding is on another stage, give it TPP_EMBEDDING_TIED, and
 * the head TPP_HEAD_COPY and the embedding's env.name and init_std: the head then holds a copy of the
 * table under the same name, which starts with the same numbers. tpp_layer_sum_tied, once a step, gives
 * both the sum of their gradients with the same bits, so that the copies stay equal. Used for layers
 * on one stage as well, it gives the same bits under every pipeline split (as `tied` does not), at the
 * price of a second copy.
 */

#include <tpp/layer.h>
#include <tpp/loss.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Flags of tpp_head_desc. */
enum {
    TPP_HEAD_COPY = 1, /**< the table is a copy of an embedding's: "Tied, over pipeline stages" */
    /** fused with a sum or mean: forward makes the gradients, "Early" */
    TPP_HEAD_EARLY = 2
};

/** An output head. */
typedef struct tpp_head_desc {
    uint32_t size;
    uint32_t flags;        /**< TPP_HEAD_... */
    int64_t hidden;        /**< columns of the input, >= 1 */
    int64_t vocab;         /**< classes, >= 1; padded inside to a multiple of the blocks */
    const tpp_layer *tied; /**< an embedding of the same env whose table it uses; NULL: its own */
    const tpp_loss_desc *loss; /**< fused with this loss, of the same vocab; NULL: gives logits */
    int64_t block;             /**< fused: tokens of a block; 0: 256 */
    double init_std;           /**< of its own table; 0: 0.02 */
} tpp_head_desc;

/**
 * A vocabulary-parallel output head. Parameters: weight [vocab, hidden] by rows; with TPP_HEAD_COPY
 * tokens.weight; with `tied` none.
 *
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value and what is accepted);
 *         TPP_ERR_TOO_NEW; TPP_ERR_NO_MEMORY. Calls: also as those of loss.h when fused;
 *         TPP_ERR_INVALID when a tied head is called outside of the chain that holds the embedding.
 *
 * Comm: forward none, fused the two all-reduces of the loss (loss.h) whatever the block is, early
 * those of each block's tokens; backward one all-reduce of tokens * hidden (operator f).
 * TPP_ENV_SEQUENCE: forward also one all-gather of tokens * hidden, backward one all-gather (early none)
 * and one reduce-scatter instead of the all-reduce.
 * Memory: saved none, fused 2 * tokens elements, early tokens * hidden + vocab / t * hidden. Since:
 * 0.1.
 */
TPP_API tpp_status tpp_head_create(tpp_layer **out, const tpp_layer_env *env,
                                   const tpp_head_desc *desc);

/**
 * Sum the gradients of tied parameters (TPP_PARAM_TIED) that have equal names, in these layers and on
 * all ranks of comm, and write the sum to every copy. Call it once per step, after the last backward
 * and before gradients are used.
 *
 * Parameters go into one sum in the order of their names, whatever the order of layers is on each
 * rank. All ranks of comm must hold the same names, of the same shape. With fixed blocks and two
 * copies, bits do not depend on which ranks hold them; more copies on one rank are added in the order
 * of layers.
 *
 * @param layers        [count]; layers without tied parameters are passed over.
 * @param grads         [count]: grad_bytes each.
 * @param comm          the ranks with the same part of the tables, one per stage that has a copy;
 *                      NULL: all copies are here.
 * @param scratch       aligned to 64; dead when the call returns.
 * @param scratch_bytes at least the sum of info.tied_bytes over the layers.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_TOO_SMALL (names the need); a comm failure.
 *
 * Comm: one all-reduce over comm of the elements of all tied parameters here, each name counted once;
 * none with comm NULL or of one rank, and none when no layer has any. Memory: none allocated. Since:
 * 0.1.
 */
TPP_API tpp_status tpp_layer_sum_tied(const tpp_layer *const *layers, void *const *grads,
                                      int32_t count, tpp_comm *comm, void *scratch,
                                      int64_t scratch_bytes);

#ifdef __cplusplus
}
#endif

#endif
