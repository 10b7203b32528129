/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_EMBEDDING_H
#define TPP_EMBEDDING_H

/**
 * @file embedding.h
 * Token embedding with the vocabulary split over ranks, and learned positions if wanted.
 *
 *     tpp_embedding_desc d = {0};
 *     d.size = sizeof d;
 *     d.vocab = 256;
 *     d.hidden = 64;
 *     d.positions = 128;
 *     tpp_embedding_create(&layer, &env, &d);
 *
 * call.in are token ids: dtype TPP_I32, [tokens, 1]. A rank looks up the ids of its own rows, the
 * others give 0, and operator g adds them up. Token i of a sequence gets position i. Backward adds to
 * the tables token by token, in their order. Rows of padding hold 0 and are never looked up. A head
 * can use the same table (head.h).
 */

#include <tpp/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Flags of tpp_embedding_desc. */
enum {
    TPP_EMBEDDING_TIED = 1 /**< heads hold copies of the table: tpp_layer_sum_tied (head.h) */
};

/** An embedding. */
typedef struct tpp_embedding_desc {
    uint32_t size;
    uint32_t flags;    /**< TPP_EMBEDDING_... */
    int64_t vocab;     /**< ids are 0 .. vocab - 1; padded inside to a multiple of the blocks */
    int64_t hidden;    /**< columns of the output, >= 1 */
    int64_t positions; /**< longest sequence with learned positions; 0: none */
    double init_std;   /**< of both tables; 0: 0.02 */
} tpp_embedding_desc;

/**
 * A vocabulary-parallel embedding. Parameters: tokens.weight [vocab, hidden] by rows,
 * positions.weight [positions, hidden] whole.
 *
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_TOO_NEW; TPP_ERR_NO_MEMORY. Forward: TPP_ERR_RANGE for
 *         an id outside the vocabulary, on every rank, before anything is sent; TPP_ERR_INVALID for
 *         seq > positions.
 *
 * Comm: forward one all-reduce of tokens * hidden (operator g), backward none. TPP_ENV_SEQUENCE: forward
 * one reduce-scatter of tokens * hidden, backward one all-gather. Memory: saved none. Since: 0.1.
 */
TPP_API tpp_status tpp_embedding_create(tpp_layer **out, const tpp_layer_env *env,
                                        const tpp_embedding_desc *desc);

#ifdef __cplusplus
}
#endif

#endif
