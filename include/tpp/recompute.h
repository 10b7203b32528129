/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_RECOMPUTE_H
#define TPP_RECOMPUTE_H

/**
 * @file recompute.h
 * Activation recomputation: a layer keeps nothing between forward and backward but its input, which the
 * caller has anyway, and computes forward again when backward comes. Chosen layer by layer, by a
 * wrapper around any layer, or by block.h's `recompute`.
 *
 *     tpp_block_desc d = {0};
 *     d.size = sizeof d;
 *     d.hidden = 64;
 *     d.heads = 4;
 *     d.recompute = TPP_RECOMPUTE_SELECTIVE;      // of a block
 *     tpp_block_create(&layers[0], &env, &d);
 *     tpp_mlp_create(&mlp, &env, &desc);
 *     tpp_recompute_create(&layers[1], mlp);      // of any layer, also a chain
 *
 * Results have the same bits as without, dropout included: forward is computed again with the same
 * numbers. What tpp_layer_query tells of saved and scratch shows the price and the gain.
 *
 * Again, but not all of it. Backward does not read a layer's output, so what only makes the output is
 * left out: the last product and its all-reduce of an MLP, of attention, of a block's MLP, and of what
 * ends a chain.
 *
 * Kinds, after Korthikanti et al. 2022 (Reducing activation recomputation in large transformer
 * models, section 5). *Full*: of a block only its input is kept. *Selective*: a block keeps what its
 * norms and its MLP need, and of attention its input alone; Q, K, V, the heads' outputs and the
 * log-sum-exp of the scores are computed again. (In the paper Q, K and V are kept, and the scores, their
 * softmax and dropout, which grow with seq^2, are not. Here these never are, as attention.h says, so
 * selective goes on to what is left.) The kinds, tpp_recompute, stand in base.h.
 *
 * Memory. Without halves scratch holds what the wrapped layer would have saved, one layer at a time.
 * With halves it is in split: forward is computed again once, by backward_input, and kept for
 * backward_weight; so between the two a micro-batch holds as much as without recomputation.
 */

#include <tpp/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A layer that is computed again in backward.
 *
 * @param out   receives the wrapper, which stands wherever `layer` could.
 * @param layer any layer. On success it belongs to the wrapper and goes with it; on failure it stays the
 *              caller's. comm, type, blocks, GEMM table, allocator and names are those of the layer.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_NO_MEMORY.
 *
 * Comm: forward as the layer; backward as the layer's backward, and before it forward's once more without
 * the last one that makes the output (an MLP, attention, linear layer: none; a block: one all-reduce of
 * tokens * hidden); with halves in backward_input. A norm, a loss, and a custom layer do all of forward.
 * With TPP_ENV_SEQUENCE forward's all-gathers come again, and its reduce-scatters but for the last one;
 * what attention says to env.context comes again.
 * Memory: saved none; split the layer's saved and split; scratch the layer's saved and scratch, and,
 * where a norm or a custom layer comes last, its output. Since: 0.1.
 */
TPP_API tpp_status tpp_recompute_create(tpp_layer **out, tpp_layer *layer);

#ifdef __cplusplus
}
#endif

#endif
