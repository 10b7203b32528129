/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "cost/cluster_read.h"

#include "cost/cost_model.h"

#include <math.h>

/* An algorithm within one level: steps of latency, bytes sent by S, one message by S. */
typedef struct shape {
    double steps, volume, message;
} shape;

static double log2_up(int64_t n) {
    double steps = 0;
    for (int64_t reach = 1; reach<n; reach = reach> n / 2 ? n : 2 * reach)
        steps++;
    return steps;
}

/* False: the collective has no such algorithm. */
static bool shape_of(tpp_collective collective, tpp_algorithm algorithm, int64_t ranks,
                     shape *out) {
    double n = (double)ranks, up = log2_up(ranks), share = (n - 1) / n;
    enum { KINDS = TPP_COLLECTIVE_ALL_TO_ALL + 1, WAYS = TPP_ALGORITHM_HALVING + 1 };
    const shape all[KINDS][WAYS] = {
        [TPP_COLLECTIVE_ALL_REDUCE] = {[TPP_ALGORITHM_RING] = {2 * (n - 1), 2 * share, 1 / n},
                                       [TPP_ALGORITHM_TREE] = {2 * up, 2, 1},
                                       [TPP_ALGORITHM_RECURSIVE] = {up, up, 1},
                                       [TPP_ALGORITHM_HALVING] = {2 * up, 2 * share, 0.5}},
        [TPP_COLLECTIVE_ALL_GATHER] = {[TPP_ALGORITHM_RING] = {n - 1, share, 1 / n},
                                       [TPP_ALGORITHM_RECURSIVE] = {up, share, 1 / n}},
        [TPP_COLLECTIVE_REDUCE_SCATTER] = {[TPP_ALGORITHM_RING] = {n - 1, share, 1 / n},
                                           [TPP_ALGORITHM_RECURSIVE] = {up, share, 1 / n}},
        [TPP_COLLECTIVE_BROADCAST] =
            {[TPP_ALGORITHM_RING] = {n - 1, 1, 1}, [TPP_ALGORITHM_TREE] = {up, up, 1}},
        [TPP_COLLECTIVE_ALL_TO_ALL] = {[TPP_ALGORITHM_RING] = {n - 1, share, 1 / n},
                                       [TPP_ALGORITHM_RECURSIVE] = {up, up / 2, 0.5}},
    };
    if (algorithm < TPP_ALGORITHM_RING || algorithm >= WAYS)
        return false;
    *out = all[collective][algorithm];
    return out->message > 0;
}

/* Lowest level that joins so many ranks; -1: none does. */
static int32_t level_of(const tpp_cluster *c, int64_t ranks) {
    for (int32_t i = 0; i < c->levels; i++) {
        if (c->links[i].ranks >= ranks)
            return i;
    }
    return -1;
}

static double transfer(const tpp_cluster *c, int32_t level, double bytes, double message) {
    return bytes / (c->links[level].bandwidth * tpp_curve_at(&c->link, message));
}

/* The fastest, or the one asked for, within a level; algorithm 0 when there is none. */
static tpp_collective_time flat(const tpp_cluster *c, tpp_collective collective,
                                tpp_algorithm asked, double bytes, int64_t ranks, int32_t level) {
    tpp_collective_time best = {.seconds = INFINITY, .level = level};
    for (tpp_algorithm a = TPP_ALGORITHM_RING; a <= TPP_ALGORITHM_HALVING; a++) {
        shape s;
        if ((asked != TPP_ALGORITHM_BEST && asked != a) || !shape_of(collective, a, ranks, &s))
            continue;
        double latency = s.steps * c->links[level].latency;
        double seconds = latency + transfer(c, level, s.volume * bytes, s.message * bytes);
        if (best.algorithm == 0 || seconds < best.seconds) {
            best.seconds = seconds;
            best.latency = latency;
            best.bytes = s.volume * bytes;
            best.messages = s.steps;
            best.algorithm = a;
        }
    }
    return best;
}

static void add(tpp_collective_time *sum, const tpp_collective_time *part) {
    sum->seconds += part->seconds;
    sum->latency += part->latency;
    sum->bytes += part->bytes;
    sum->messages += part->messages;
}

/* Ranks of a group that the level below joins; 1: the group has no two levels. */
static int64_t ranks_below(const tpp_cluster *c, int64_t ranks, int64_t stride, int32_t level) {
    if (level == 0 || c->links[level - 1].ranks % stride != 0)
        return 1;
    int64_t below = c->links[level - 1].ranks / stride;
    return below > 1 && ranks % below == 0 ? below : 1;
}

static bool has_two_levels(tpp_collective collective) {
    return collective == TPP_COLLECTIVE_ALL_REDUCE || collective == TPP_COLLECTIVE_ALL_GATHER ||
           collective == TPP_COLLECTIVE_REDUCE_SCATTER;
}

static tpp_collective_time two_level(const tpp_cluster *c, tpp_collective collective, double bytes,
                                     int64_t ranks, int64_t stride, int32_t level);

/* The fastest of all. */
static tpp_collective_time best_of(const tpp_cluster *c, tpp_collective collective, double bytes,
                                   int64_t ranks, int64_t stride) {
    int32_t level = level_of(c, ranks * stride);
    tpp_collective_time one = flat(c, collective, TPP_ALGORITHM_BEST, bytes, ranks, level);
    tpp_collective_time two = two_level(c, collective, bytes, ranks, stride, level);
    return two.seconds < one.seconds ? two : one;
}

static tpp_collective_time two_level(const tpp_cluster *c, tpp_collective collective, double bytes,
                                     int64_t ranks, int64_t stride, int32_t level) {
    int64_t below = ranks_below(c, ranks, stride, level);
    tpp_collective_time sum = {.seconds = INFINITY, .level = level};
    if (below == 1 || !has_two_levels(collective))
        return sum;
    bool all = collective == TPP_COLLECTIVE_ALL_REDUCE;
    sum = flat(c, collective, TPP_ALGORITHM_BEST, bytes / (double)below, ranks / below, level);
    sum.algorithm = TPP_ALGORITHM_TWO_LEVEL;
    tpp_collective inside = all ? TPP_COLLECTIVE_ALL_GATHER : collective;
    tpp_collective_time part = best_of(c, inside, bytes, below, stride);
    add(&sum, &part);
    if (all) { /* the scatter takes as long as the gather */
        add(&sum, &part);
    }
    return sum;
}

/* --- The doors -------------------------------------------------------------------------------- */

static tpp_status check(const tpp_cluster *c, tpp_collective collective, tpp_algorithm algorithm,
                        double bytes, int64_t ranks, int64_t stride) {
    const tpp__cost_rule rules[] = {{"ranks", ranks, 1}, {"stride", stride, 1}};
    tpp_status status = TPP__COST_RULES("", rules);
    if (status == TPP_OK)
        status = tpp__cluster_amount("bytes", bytes);
    if (status != TPP_OK)
        return status;
    if (collective < TPP_COLLECTIVE_ALL_REDUCE || collective > TPP_COLLECTIVE_ALL_TO_ALL)
        return tpp__fail(TPP_ERR_INVALID, "collective = %d is not accepted; accepted: 1 .. %d",
                         collective, TPP_COLLECTIVE_ALL_TO_ALL);
    if (algorithm < TPP_ALGORITHM_BEST || algorithm > TPP_ALGORITHM_TWO_LEVEL)
        return tpp__fail(TPP_ERR_INVALID, "algorithm = %d is not accepted; accepted: 0 .. %d",
                         algorithm, TPP_ALGORITHM_TWO_LEVEL);
    if (ranks > 1 && stride > c->ranks / ranks)
        return tpp__fail(TPP_ERR_INVALID,
                         "ranks = %lld with stride = %lld are more than cluster.ranks = %lld",
                         (long long)ranks, (long long)stride, (long long)c->ranks);
    return TPP_OK;
}

tpp_status tpp_cluster_collective(const tpp_cluster *cluster, tpp_collective collective,
                                  tpp_algorithm algorithm, double bytes, int64_t ranks,
                                  int64_t stride, tpp_collective_time *out) {
    tpp_cluster c;
    tpp_collective_time t = {0};
    tpp_status status = tpp__cluster_read(&c, cluster);
    if (status == TPP_OK)
        status = check(&c, collective, algorithm, bytes, ranks, stride);
    if (status != TPP_OK)
        return status;
    if (ranks > 1) {
        int32_t level = level_of(&c, ranks * stride);
        if (algorithm == TPP_ALGORITHM_BEST)
            t = best_of(&c, collective, bytes, ranks, stride);
        else if (algorithm == TPP_ALGORITHM_TWO_LEVEL)
            t = two_level(&c, collective, bytes, ranks, stride, level);
        else
            t = flat(&c, collective, algorithm, bytes, ranks, level);
        if (t.algorithm == 0)
            return tpp__fail(TPP_ERR_INVALID,
                             "algorithm = %d is not accepted for collective = %d of %lld ranks "
                             "with stride %lld; accepted: 0 (the best)",
                             algorithm, collective, (long long)ranks, (long long)stride);
    }
    return tpp__sized_write(out, &t, sizeof t, "out");
}

double tpp_cluster_message(const tpp_cluster *cluster, double bytes, int64_t stride) {
    tpp_cluster c;
    if (tpp__cluster_read(&c, cluster) != TPP_OK || tpp__cluster_amount("bytes", bytes) != TPP_OK ||
        tpp__cost_at_least("", "stride", stride, 1) != TPP_OK)
        return NAN;
    if (stride >= c.ranks) {
        tpp__fail(TPP_ERR_INVALID, "stride = %lld is not below cluster.ranks = %lld",
                  (long long)stride, (long long)c.ranks);
        return NAN;
    }
    int32_t level = level_of(&c, stride + 1);
    return c.links[level].latency + transfer(&c, level, bytes, bytes);
}
