/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_CLUSTER_H
#define TPP_CLUSTER_H

/**
 * @file cluster.h
 * A cluster as numbers, and how long things take on it: products, attention, passes over memory,
 * messages, collectives. What a model asks for is cost.h's and cost_comm.h's. Pure functions: no
 * allocation, no clock.
 *
 *     tpp_cluster c = {0};
 *     c.size = sizeof c;
 *     tpp_cluster_preset(&c, "h100", 8);           // 8 nodes of 8; or by hand
 *     tpp_collective_time t = {0};
 *     t.size = sizeof t;
 *     tpp_cluster_collective(&c, TPP_COLLECTIVE_ALL_REDUCE, TPP_ALGORITHM_BEST, 64e6, 8, 1, &t);
 *     double seconds = t.seconds;                  // of 64 MB among 8 neighbours
 *
 * Ranks are numbered so that neighbours have the fastest links. Level 0 of the links joins the ranks
 * of a node, every further level joins whole groups of the level below. A group is told by its number
 * of ranks and the stride from each to the next: n ranks with stride d use the lowest level that joins
 * n d ranks.
 *
 * A message of B bytes takes latency + B / (bandwidth * link(B)), in each direction at the same time
 * and without contention. Efficiencies are curves over a size: of a product and of attention over
 * its operations, of a link over the bytes of one message.
 */

#include <tpp/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TPP_CLUSTER_LEVELS 4
#define TPP_CURVE_POINTS 16

/**
 * Efficiency over a size: straight between points over the logarithm of the size, level outside them.
 * Frozen: 264 bytes for ever.
 */
typedef struct tpp_curve {
    int32_t points;                 /**< 0 .. TPP_CURVE_POINTS; 0: efficiency 1 everywhere */
    int32_t reserved0;              /**< 0 */
    double at[TPP_CURVE_POINTS];    /**< sizes, > 0, rising */
    double value[TPP_CURVE_POINTS]; /**< efficiencies, > 0 and <= 1 */
} tpp_curve;

/** Links of a level. Frozen: 32 bytes for ever. */
typedef struct tpp_link {
    int64_t ranks;    /**< joined by this level, >= 2; a multiple of the level's below */
    double latency;   /**< seconds of a message without bytes, >= 0 */
    double bandwidth; /**< bytes per second and direction of one rank, > 0 */
    double reserved0; /**< 0 */
} tpp_link;

/** A cluster. */
typedef struct tpp_cluster {
    uint32_t size;
    uint32_t flags;    /**< 0 */
    int64_t ranks;     /**< devices in all, >= 1 */
    int32_t levels;    /**< of links; 0 only if there is one rank. The last one joins all ranks */
    int32_t reserved0; /**< 0 */
    tpp_link links[TPP_CLUSTER_LEVELS];
    char name[32];           /**< ends in a zero byte; may be empty */
    double memory;           /**< bytes of a rank; 0: not known */
    double peak_bf16;        /**< operations per second of a rank; 0: not known */
    double peak_f32;         /**< the same of float32 */
    double peak_f64;         /**< the same of float64 */
    double memory_bandwidth; /**< bytes per second of a rank's memory; 0: not known */
    double memory_share;     /**< of it that a pass over tensors reaches, <= 1; 0: 1 */
    double launch;           /**< seconds that a product, attention or pass takes at least */
    tpp_curve gemm;          /**< share of the peak, over the operations of a product */
    tpp_curve attention;     /**< share of the peak, over the operations of an attention core */
    tpp_curve link;          /**< share of the bandwidth, over the bytes of a message */
} tpp_cluster;

/**
 * A known cluster of 8 devices a node: a100 (SXM 80 GB), h100 (SXM), h200, b200, mi300x; gh200 has 4.
 *
 * @param out   size must be set.
 * @param nodes >= 1; with one there is no level of links between nodes.
 * @return TPP_OK; TPP_ERR_INVALID (a name that is none: names all there are); TPP_ERR_OVERFLOW.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_cluster_preset(tpp_cluster *out, const char *name, int64_t nodes);

/** Name of preset `index`, from 0 on; NULL behind the last. Memory: static. Since: 0.1. */
TPP_API const char *tpp_cluster_preset_name(int32_t index);

/** Where a preset's numbers come from, a line for each kind; NULL: no such preset. Memory: static.
 * Since: 0.1. */
TPP_API const char *tpp_cluster_preset_sources(const char *name);

/**
 * That a cluster's numbers can be used; the other functions ask the same.
 *
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value and the rule); TPP_ERR_TOO_NEW.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_cluster_check(const tpp_cluster *cluster);

/** Efficiency at a size > 0; 1 of a curve without points or NULL. Since: 0.1. */
TPP_API double tpp_curve_at(const tpp_curve *curve, double at);

/** What ranks do together. S is the full tensor: an all-reduce's, an all-gather's result, a
 * reduce-scatter's operand, what a rank has for an all-to-all. */
typedef int32_t tpp_collective;
enum {
    TPP_COLLECTIVE_ALL_REDUCE = 1,
    TPP_COLLECTIVE_ALL_GATHER = 2,
    TPP_COLLECTIVE_REDUCE_SCATTER = 3,
    TPP_COLLECTIVE_BROADCAST = 4,
    TPP_COLLECTIVE_ALL_TO_ALL = 5
};

/** How they do it. */
typedef int32_t tpp_algorithm;
enum {
    TPP_ALGORITHM_BEST = 0,      /**< the fastest of those the collective has */
    TPP_ALGORITHM_RING = 1,      /**< all; of all-to-all each with each in turn */
    TPP_ALGORITHM_TREE = 2,      /**< all-reduce (double binary tree), broadcast */
    TPP_ALGORITHM_RECURSIVE = 3, /**< all-reduce (doubling), all-gather (doubling), reduce-scatter
                                    * (halving), all-to-all (Bruck) */
    TPP_ALGORITHM_HALVING = 4,   /**< all-reduce: reduce-scatter by halving, gather by doubling */
    TPP_ALGORITHM_TWO_LEVEL = 5  /**< all-reduce, all-gather, reduce-scatter over several nodes:
                                    * in the node, with each share between nodes, in the node */
};

/** What a collective takes. */
typedef struct tpp_collective_time {
    uint32_t size;
    uint32_t flags;          /**< 0 */
    double seconds;          /**< from the first to the last rank's end */
    double latency;          /**< of them, what does not depend on bytes */
    double bytes;            /**< that a rank sends, at most */
    double messages;         /**< one after the other */
    tpp_algorithm algorithm; /**< taken; 0 when there is one rank */
    int32_t level;           /**< highest level of links used */
} tpp_collective_time;

/**
 * Time of a collective of n ranks with S bytes, latency a, bandwidth W of its level (Thakur et al.
 * 2005; the double tree: Sanders et al. 2009; logarithms to base 2, rounded up):
 *
 * | | ring | tree | recursive | halving |
 * |---|---|---|---|---|
 * | all-reduce | 2 (n-1) a + 2 (n-1)/n S/W | 2 log(n) a + 2 S/W | log(n) (a + S/W) | 2 log(n) a + 2 (n-1)/n S/W |
 * | gather, scatter | (n-1) a + (n-1)/n S/W | | log(n) a + (n-1)/n S/W | |
 * | broadcast | (n-1) a + S/W | log(n) (a + S/W) | | |
 * | all-to-all | (n-1) a + (n-1)/n S/W | | log(n) (a + S/(2W)) | |
 *
 * W is taken with the link's efficiency at one message: S/n of rings and of gathers, S/2 of halving
 * and Bruck, S else. Two-level, with g ranks of the group in a node: scatter and gather S in the
 * node, and between n/g nodes the best of the table for S/g: every rank has a link of its own.
 *
 * @param bytes  S, >= 0 and finite.
 * @param ranks  n, >= 1; one rank takes no time.
 * @param stride from one rank of the group to the next, >= 1.
 * @param out    size must be set.
 * @return TPP_OK; TPP_ERR_INVALID (an algorithm that the collective, or such a group, does not have; a
 *         group that is larger than the cluster); TPP_ERR_TOO_NEW. Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_cluster_collective(const tpp_cluster *cluster, tpp_collective collective,
                                          tpp_algorithm algorithm, double bytes, int64_t ranks,
                                          int64_t stride, tpp_collective_time *out);

/**
 * Seconds of a message from a rank to one `stride` >= 1 away, over the lowest level that joins both.
 *
 * @return the time; NaN, with the message set, for numbers that are none. Since: 0.1.
 */
TPP_API double tpp_cluster_message(const tpp_cluster *cluster, double bytes, int64_t stride);

/**
 * Seconds of a matrix product on a rank: launch + flops / (peak * gemm(flops)).
 *
 * @param dtype TPP_BF16, TPP_F32 or TPP_F64. @param flops >= 0.
 * @return the time; NaN, with the message set, where that peak is not known. Since: 0.1.
 */
TPP_API double tpp_cluster_product(const tpp_cluster *cluster, tpp_dtype dtype, double flops);

/** The same of an attention core that keeps its scores in cache, with the curve `attention`. Since:
 * 0.1. */
TPP_API double tpp_cluster_attention(const tpp_cluster *cluster, tpp_dtype dtype, double flops);

/**
 * Seconds of a pass that reads and writes `bytes` of memory: launch + bytes / (bandwidth * share).
 *
 * @return the time; NaN, with the message set, where the bandwidth is not known. Since: 0.1.
 */
TPP_API double tpp_cluster_pass(const tpp_cluster *cluster, double bytes);

#ifdef __cplusplus
}
#endif

#endif
