/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COST_COMM_H
#define TPP_COST_COMM_H

/**
 * @file cost_comm.h
 * What the ranks of a model say to each other, from its numbers alone (cost.h): calls and elements
 * of tensor, context and data parallelism; how a product is spread over grids of ranks; and ratios
 * of the time of communication to that of computing, which tell what has to stay within a node.
 * Pure functions, letters and sources as in cost.h. Times of real links are told by a cluster's
 * numbers.
 *
 *     tpp_cost_model m = {0};
 *     m.size = sizeof m;
 *     tpp_cost_model_preset(&m, "llama2-70b");
 *     tpp_cost_shape shape = {0};
 *     shape.size = sizeof shape;
 *     shape.flags = TPP_COST_SEQUENCE;
 *     shape.batch = 1, shape.seq = 4096, shape.tp = 8;
 *     tpp_cost_traffic t = {0};
 *     t.size = sizeof t;
 *     tpp_cost_traffic_query(&m, &shape, TPP_COST_LAYER_FORWARD, &t);  // 2 gathers, 2 scatters
 *     double ratio = tpp_cost_ratio_tp(&m, 0, 8, 989e12, 50e9);  // above 1: not hidden
 *
 * A ratio of 0.6 means: for each second of computing 0.6 s of messages, if nothing overlaps. All
 * are for bfloat16 (e = 2), a ring, no latency. F is in operations per second of one rank, W in
 * bytes per second that one rank sends while it receives as many.
 *
 * Threads: any, of all functions here.
 */

#include <tpp/cost.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a rank takes part in: calls, and elements of the whole tensor of each: an all-reduce's, an
 * all-gather's result, a reduce-scatter's operand. A ring of n ranks sends (n - 1) / n of it, for
 * an all-reduce twice. */
typedef struct tpp_cost_traffic {
    uint32_t size;
    uint32_t flags;       /**< 0 */
    int64_t reduce_calls; /**< all-reduces over tensor-parallel ranks */
    int64_t reduce;       /**< their elements */
    int64_t gather_calls; /**< all-gathers over them */
    int64_t gather;
    int64_t scatter_calls; /**< reduce-scatters over them */
    int64_t scatter;
    int64_t context_calls; /**< messages that the rank sends to context-parallel ranks */
    int64_t context;       /**< elements of all of these */
} tpp_cost_traffic;

/** What is asked about. */
typedef int32_t tpp_cost_phase;
enum {
    TPP_COST_LAYER_FORWARD = 1,  /**< of one layer */
    TPP_COST_LAYER_BACKWARD = 2, /**< and what `recompute` does again */
    TPP_COST_EMBEDDING_FORWARD = 3,
    TPP_COST_EMBEDDING_BACKWARD = 4,
    TPP_COST_HEAD_FORWARD = 5, /**< head and cross-entropy, whose numbers are float32 */
    TPP_COST_HEAD_BACKWARD = 6
};

/**
 * What is said in a phase of a micro-batch: exactly what the layers of layer.h do, as
 * tpp_layer_cost_query tells and a traced comm counts. (These count what a rank gives of a gather,
 * and gets of a scatter: 1/t.)
 *
 * | phase | plain | TPP_COST_SEQUENCE |
 * |---|---|---|
 * | layer forward | 2 all-reduces of T h | 2 all-gathers and 2 reduce-scatters of it |
 * | layer backward | 2 all-reduces | 4 all-gathers, 2 reduce-scatters |
 * | ... again, selective | - | 1 all-gather: recompute.h begins at attention's input |
 * | ... again, full | 1 all-reduce | 2 all-gathers, 1 reduce-scatter |
 * | embedding forward, backward | 1 all-reduce, - | 1 reduce-scatter, 1 all-gather |
 * | head forward | 2 all-reduces, of T and 2 T | the same, 1 all-gather |
 * | head backward | 1 all-reduce of T h | 1 all-gather, 1 reduce-scatter |
 *
 *
 * Side by side, with n norms:
 *
 * | layer forward | 1 all-reduce | n all-gathers, 1 reduce-scatter |
 * |---|---|---|
 * | layer backward | n all-reduces | n + 1 all-gathers, n reduce-scatters |
 * | ... again, full | - | n all-gathers |
 *
 * T is T / c with context parallelism; a gather or scatter has ceil(T / t) t h elements; with t = 1
 * nothing is said. Experts are cut by columns, as MLPs are.
 *
 * To context ranks a layer sends, with k = T / c max(g / t, 1) d and q = T / c a / t d elements:
 *
 * | | forward, and again | backward |
 * |---|---|---|
 * | ring | c - 1 of 2 k | 2 c - 1 of 2 k |
 * | TPP_COST_EXCHANGE | c - 1 of (q + 2 k) / c and q / c | of (3 q + 2 k) / c and (q + 2 k) / c |
 *
 * @param phase tpp_cost_phase. @param out size must be set.
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value and the rule); TPP_ERR_OVERFLOW;
 *         TPP_ERR_TOO_NEW. Since: 0.1.
 */
TPP_API tpp_status tpp_cost_traffic_query(const tpp_cost_model *model, const tpp_cost_shape *shape,
                                          tpp_cost_phase phase, tpp_cost_traffic *out);

/**
 * Elements that a rank sends over its data-parallel group in a step: (N - 1) / N of (1 + r) P, or
 * of 3 r P with ZeRO stage 3 ([Z] section 7: gradients are summed, and weights gathered, once, or
 * twice each time).
 *
 * @param params     P, of the rank before they are shared out, >= 0.
 * @param dp,zero    N, >= 1, and the ZeRO stage, 0 .. 3.
 * @param reductions r, how often gradients are summed: 1, or (ZeRO 2 and 3) for every micro-batch.
 * @param out receives the number.
 * @return TPP_OK; TPP_ERR_INVALID. Since: 0.1.
 */
TPP_API tpp_status tpp_cost_data_volume(int64_t params, int64_t dp, int32_t zero,
                                        int64_t reductions, double *out);

/** How a pair of products, X [T, h] A [h, k] = U and U B [k, h] = Y, is spread over ranks. */
typedef int32_t tpp_cost_grid;
enum {
    TPP_COST_GRID_1D = 1,  /**< q ranks: A by columns, B by rows (Megatron-LM) */
    TPP_COST_GRID_2D = 2,  /**< q x q ranks: SUMMA (Optimus) */
    TPP_COST_GRID_25D = 3, /**< depth x q x q ranks (Tesseract) */
    TPP_COST_GRID_3D = 4   /**< q x q x q ranks */
};

/** A matrix of the pair. */
typedef int32_t tpp_cost_operand;
enum {
    TPP_COST_OPERAND_X = 1,
    TPP_COST_OPERAND_A = 2,
    TPP_COST_OPERAND_U = 3,
    TPP_COST_OPERAND_B = 4,
    TPP_COST_OPERAND_Y = 5
};

/**
 * Rows and columns that a rank has of a matrix. Cut into:
 *
 * | | rows of A | columns of A | rows of X, U, Y | columns of X, U, Y |
 * |---|---|---|---|---|
 * | 1D | 1 (B: q) | q (B: 1) | 1 | 1 (U: q) |
 * | 2D | q | q | q | q |
 * | 2.5D | q | q | depth q | q |
 * | 3D | q | q^2 | q^2 | q |
 *
 * @param rows,columns of the whole matrix, >= 0.
 * @param q,depth      >= 1; depth is 2.5D's, else 0 or 1.
 * @param out_rows,out_columns receive the numbers.
 * @return TPP_OK; TPP_ERR_INVALID (also where ranks do not divide rows or columns). Since: 0.1.
 */
TPP_API tpp_status tpp_cost_grid_shape(tpp_cost_grid grid, tpp_cost_operand operand, int64_t rows,
                                       int64_t columns, int32_t q, int32_t depth, int64_t *out_rows,
                                       int64_t *out_columns);

/**
 * Elements that a rank receives: 1D for the pair (rings), the others for one product of [T, h] and
 * [h, k].
 *
 * | | forward | backward |
 * |---|---|---|
 * | 1D | 2 (q - 1) / q T h | the same |
 * | 2D | (q - 1) (T h + h k) / q^2 | twice that |
 * | 2.5D | (q - 1) (T h / depth + h k) / q^2 | twice that, 2 (depth - 1) / depth h k / q^2 |
 * | 3D | (q - 1) (T h + h k + T k) / q^3 | twice that |
 *
 * (2.5D: the weight's gradient is summed over depth besides.)
 *
 * @param tokens,hidden,columns T, h, k, >= 0. @param q,depth as above.
 * @param forward,backward receive the numbers.
 * @return TPP_OK; TPP_ERR_INVALID. Since: 0.1.
 */
TPP_API tpp_status tpp_cost_grid_volume(tpp_cost_grid grid, int64_t tokens, int64_t hidden,
                                        int64_t columns, int32_t q, int32_t depth, double *forward,
                                        double *backward);

/**
 * Tensor parallelism: a forward's all-reduces over its products, averaged over layers: 4 (t - 1) T
 * h e / (t W) over (operations of a layer) / (t F); side by side half. For g = a, f = 4 h, without
 * scores, (t - 1) F / (3 h W): tokens cancel. A backward's is half of it. Sequence parallelism has
 * the same bytes in a forward.
 *
 * @param seq s for scores, of which half are seen; 0: without scores. @param tp t, >= 1.
 * @param flops,bandwidth F and W, > 0.
 * @return the ratio; NaN for what is refused, with a message. Since: 0.1.
 */
TPP_API double tpp_cost_ratio_tp(const tpp_cost_model *model, int64_t seq, int32_t tp, double flops,
                                 double bandwidth);

/**
 * Pipeline parallelism: a message of T h e / t bytes to the next stage over a forward of L / p
 * layers on t ranks; t cancels. For g = a, f = 4 h, without scores, p F / (12 h L W). Interleaved
 * stages send v times as many.
 *
 * @param seq as above. @param pp p, >= 1.
 * @param copies ranks that send the same: 1 if each of t sends its 1 / t ([N] section 4.1); else t.
 * @return as above. Since: 0.1.
 */
TPP_API double tpp_cost_ratio_pp(const tpp_cost_model *model, int64_t seq, int32_t copies,
                                 int32_t pp, double flops, double bandwidth);

/**
 * Context parallelism: a hop of K and V round the ring over the attention of one block of s / c
 * tokens against another: (g / a) F c / (W s), twice that when only half of the pairs are seen.
 * Hidden below 1.
 *
 * @param seq s, >= 1. @param cp c, >= 1. @param mask HALF or FULL.
 * @return as above. Since: 0.1.
 */
TPP_API double tpp_cost_ratio_cp(const tpp_cost_model *model, int64_t seq, int32_t cp,
                                 tpp_cost_mask mask, double flops, double bandwidth);

/**
 * Data parallelism: the gradients' all-reduce over the backward of `tokens` tokens per rank and
 * step, (N - 1) / N F / (W tokens): any model's. With ZeRO 3 the same for the tokens of one
 * micro-batch, of forward and backward. Hidden below 1: a rank needs F / W tokens.
 *
 * @param tokens >= 1. @param dp N, >= 1.
 * @return as above. Since: 0.1.
 */
TPP_API double tpp_cost_ratio_dp(int64_t tokens, int64_t dp, double flops, double bandwidth);

/**
 * Model FLOP/s utilisation (MFU): operations of a step over what its ranks could have done. With
 * what is recomputed it is hardware utilisation (HFU; [K] section 5).
 *
 * @param flops   of the step, >= 0: 3 forward of all its micro-batches; for HFU and
 *                `layers` (full) or `cores` (selective) once more.
 * @param seconds of the step, > 0. @param peak operations per second of a rank, > 0.
 * @param ranks   >= 1.
 * @return the fraction; NaN for what is refused, with a message. Since: 0.1.
 */
TPP_API double tpp_cost_utilisation(double flops, double seconds, double peak, int64_t ranks);

#ifdef __cplusplus
}
#endif

#endif
