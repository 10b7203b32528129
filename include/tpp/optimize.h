/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_OPTIMIZE_H
#define TPP_OPTIMIZE_H

/**
 * @file optimize.h
 * Search for a pipeline schedule: given what each stage's F, I and W take, what messages take, and
 * how much memory a rank has, find the order of actions with the shortest step, and prove how far
 * from the shortest possible it can be at most. Also: which layers belong on which stage.
 *
 *     tpp_sim_desc costs = {0};
 *     costs.size = sizeof costs;
 *     costs.stages = 8;
 *     costs.forward = tf;                      // [8], likewise I, W
 *     costs.backward_input = ti;
 *     costs.backward_weight = tw;
 *     costs.memory = mb;                       // [8] held from F to I
 *     costs.memory_weight = mw;                // [8] held from I to W
 *     costs.latency = 0.6;
 *     tpp_optimize_desc d = {0};
 *     d.size = sizeof d;
 *     d.ranks = 8;
 *     d.micros = 24;
 *     d.costs = &costs;
 *     d.memory_limit = 8 * mb[0];
 *     tpp_optimize_report report = {0};
 *     report.size = sizeof report;
 *     tpp_schedule *s;
 *     tpp_optimize(&s, &d, &report);           // finished: any executor follows it
 *     tpp_schedule_destroy(s);
 *
 * How. Published schedules are tried first, then a list scheduler whose warm-up and priorities are
 * varied, then exchanges of single actions; small cases are searched exhaustively. The backward is
 * always in halves (Qi et al. 2023). A search that is stopped early has the best schedule so far.
 *
 * The bound rests on what no order can avoid: a rank's work; the wait for the first gradient to come
 * back, in which only as many forwards fit as the memory holds; the same for the last one at the
 * end; the memory that each micro-batch holds times the time that it holds it; and that all forwards
 * and input gradients of a later rank lie between the first forward and the last gradient of an
 * earlier one. A bound equal to the cost is a proof that the schedule is best. Ranks do one action at
 * a time, and each starts its actions as early as it can.
 *
 * Results depend on the description, the seed and the number of evaluations alone; where time ends
 * the search, a faster machine may thus find a better schedule. For the same one everywhere, set
 * `evaluations` and leave room in `seconds`.
 */

#include <tpp/exec.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What is to be short. */
typedef int32_t tpp_optimize_objective;
enum {
    /** the longest span of a rank, from its first start to its last end: the time from step to step
     * when ranks do not wait for each other at the optimizer step (zero-bubble papers). Among equals
     * the shortest makespan */
    TPP_OPTIMIZE_SPAN = 0,
    /** from the first start to the last end of all ranks; among equals the shortest span */
    TPP_OPTIMIZE_MAKESPAN = 1
};

/** How a search stands. */
typedef struct tpp_optimize_state {
    uint32_t size;
    uint32_t flags;      /**< 0 */
    double seconds;      /**< since the beginning */
    double cost;         /**< of the best schedule so far; infinity: none yet */
    double lower_bound;  /**< no schedule costs less */
    int64_t evaluations; /**< orders tried */
} tpp_optimize_state;

/** Called now and then, at most ten times a second. Return a value other than 0 to end the search
 * with what was found. */
typedef int32_t (*tpp_optimize_progress_fn)(void *ctx, const tpp_optimize_state *state);

/** What to search for. */
typedef struct tpp_optimize_desc {
    uint32_t size;
    uint32_t flags;          /**< 0 */
    int32_t ranks;           /**< p, >= 1 */
    int32_t micros;          /**< m, >= 1 */
    tpp_placement placement; /**< LOOPED; V; 0: both are tried, with `chunks` = 2 for V */
    int32_t chunks;          /**< stages of a rank; 0: 1 looped, 2 of V */
    /** the simulator's costs, copied: arrays for ranks * chunks stages; `backward` is used only where
     * a half is missing; `fused`, `optimizer` and flags must not be set. With placement 0: costs of
     * ranks stages (chunks 0 or 1), of which V takes halves: stage s of V costs half of what its rank's
     * stage costs, in time and memory; messages between two ranks cost what they cost looped. */
    const tpp_sim_desc *costs;
    double memory_limit; /**< of each rank, memory_state included; 0: none */
    tpp_optimize_objective objective;
    uint32_t reserved0;                /**< 0 */
    double seconds;                    /**< at most so long; 0: 1 second */
    int64_t evaluations;               /**< at most so many orders tried; 0: any number. One of
                                          * each placement always is */
    uint64_t seed;                     /**< of the random choices */
    tpp_optimize_progress_fn progress; /**< NULL: none */
    void *progress_ctx;
    const tpp_allocator *allocator; /**< NULL: malloc */
} tpp_optimize_desc;

/** What was found. Times in the units of the costs. */
typedef struct tpp_optimize_report {
    uint32_t size;
    uint32_t flags; /**< 0 */
    double cost;    /**< the objective of the schedule returned */
    double
        lower_bound; /**< no schedule of this placement costs less (of both, if both were tried) */
    double gap; /**< (cost - lower_bound) / lower_bound; 0: equal but for rounding, proved best */
    double makespan;         /**< as tpp_run_report has it */
    double span;             /**< longest span of a rank */
    double memory_peak;      /**< most that a rank holds */
    double seconds;          /**< that the search took */
    int64_t evaluations;     /**< orders tried */
    tpp_placement placement; /**< of the schedule */
    int32_t optimal;         /**< 1: proved that no schedule of its placement is better */
} tpp_optimize_report;

/**
 * Find a schedule.
 *
 * @param out    receives it, finished.
 * @param report size must be set; NULL: not wanted.
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value and the rule; also when the limit is
 *         below what one micro-batch needs: names both); TPP_ERR_TOO_NEW; TPP_ERR_OVERFLOW;
 *         TPP_ERR_NO_MEMORY.
 *
 * Memory: about 40 bytes an action while it runs; destroy the schedule with tpp_schedule_destroy.
 * Threads: any; runs on the caller's. Since: 0.1.
 */
TPP_API tpp_status tpp_optimize(tpp_schedule **out, const tpp_optimize_desc *desc,
                                tpp_optimize_report *report);

/** Which layers belong on which stage. */
typedef struct tpp_optimize_layers_desc {
    uint32_t size;
    uint32_t flags;                /**< 0 */
    int32_t layers;                /**< of the model in order: embedding, blocks, head; >= stages */
    uint32_t reserved0;            /**< 0 */
    const double *forward;         /**< [layers] time of F */
    const double *backward_input;  /**< [layers] time of I */
    const double *backward_weight; /**< [layers] time of W */
    const tpp_schedule *schedule;  /**< finished: the order that they will follow */
    double latency;                /**< as tpp_sim_desc.latency */
    tpp_optimize_objective objective;
    uint32_t reserved1;             /**< 0 */
    const tpp_allocator *allocator; /**< NULL: malloc */
} tpp_optimize_layers_desc;

/**
 * Split a model's layers over the stages of a schedule: contiguous, each stage at least one, so that
 * the simulated step is short. When there are few enough splits all are simulated; else the search
 * starts with the split whose largest stage is smallest and with the even one, and moves boundaries,
 * one and two at a time, as long as that helps.
 *
 * @param first  receives [stages + 1] indices: stage s has layers first[s] .. first[s + 1] - 1. Of a
 *               two-way schedule, [depth + 1]: both directions have the same split.
 * @param report size must be set; cost, makespan, span, seconds, evaluations (splits simulated) and
 *               optimal (1: all splits were tried) are filled; lower_bound is the smallest work that
 *               the most loaded rank can have; NULL: not wanted.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_TOO_NEW; TPP_ERR_NO_MEMORY. Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_optimize_layers(int32_t *first, const tpp_optimize_layers_desc *desc,
                                       tpp_optimize_report *report);

#ifdef __cplusplus
}
#endif

#endif
