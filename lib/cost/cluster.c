/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "cost/cluster_read.h"

#include "cost/cost_model.h"

#include <math.h>
#include <string.h>

/* --- What a cluster may hold ------------------------------------------------------------------ */

tpp_status tpp__cluster_amount(const char *name, double value) {
    if (value >= 0 && isfinite(value))
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID,
                     "%s = %g is not accepted; accepted: finite numbers, 0 or more", name, value);
}

static tpp_status check_point(const tpp_curve *c, const char *name, int32_t i) {
    double before = i > 0 ? c->at[i - 1] : 0;
    if (!(c->at[i] > before && isfinite(c->at[i])))
        return tpp__fail(
            TPP_ERR_INVALID,
            "cluster.%s.at[%d] = %g is not accepted; accepted: finite numbers above %g", name, i,
            c->at[i], before);
    if (!(c->value[i] > 0 && c->value[i] <= 1))
        return tpp__fail(TPP_ERR_INVALID,
                         "cluster.%s.value[%d] = %g is not accepted; accepted: above 0, at most 1",
                         name, i, c->value[i]);
    return TPP_OK;
}

static tpp_status check_curve(const tpp_curve *c, const char *name) {
    tpp_status status = TPP_OK;
    if (c->points < 0 || c->points > TPP_CURVE_POINTS)
        return tpp__fail(TPP_ERR_INVALID,
                         "cluster.%s.points = %d is not accepted; accepted: 0 .. %d", name,
                         c->points, TPP_CURVE_POINTS);
    for (int32_t i = 0; i < c->points && status == TPP_OK; i++)
        status = check_point(c, name, i);
    return status;
}

static tpp_status check_link(const tpp_cluster *c, int32_t level) {
    const tpp_link *link = &c->links[level];
    int64_t below = level > 0 ? c->links[level - 1].ranks : 1;
    if (link->ranks <= below || link->ranks % below != 0)
        return tpp__fail(
            TPP_ERR_INVALID,
            "cluster.links[%d].ranks = %lld is not accepted; accepted: larger multiples of %lld",
            level, (long long)link->ranks, (long long)below);
    if (!(link->latency >= 0 && isfinite(link->latency)))
        return tpp__fail(
            TPP_ERR_INVALID,
            "cluster.links[%d].latency = %g is not accepted; accepted: finite numbers, 0 or more",
            level, link->latency);
    if (!(link->bandwidth > 0 && isfinite(link->bandwidth)))
        return tpp__fail(
            TPP_ERR_INVALID,
            "cluster.links[%d].bandwidth = %g is not accepted; accepted: finite numbers above 0",
            level, link->bandwidth);
    return TPP_OK;
}

static tpp_status check_links(const tpp_cluster *c) {
    int32_t least = c->ranks > 1;
    tpp_status status = TPP_OK;
    if (c->levels < least || c->levels > TPP_CLUSTER_LEVELS)
        return tpp__fail(TPP_ERR_INVALID,
                         "cluster.levels = %d is not accepted; accepted: %d .. %d for %lld ranks",
                         c->levels, least, TPP_CLUSTER_LEVELS, (long long)c->ranks);
    for (int32_t i = 0; i < c->levels && status == TPP_OK; i++)
        status = check_link(c, i);
    if (status == TPP_OK && c->levels > 0 && c->links[c->levels - 1].ranks != c->ranks)
        status =
            tpp__fail(TPP_ERR_INVALID,
                      "cluster.links[%d].ranks = %lld, of the last level, is not cluster.ranks "
                      "= %lld",
                      c->levels - 1, (long long)c->links[c->levels - 1].ranks, (long long)c->ranks);
    return status;
}

static tpp_status check_amounts(const tpp_cluster *c) {
    const struct {
        const char *name;
        double value;
    } rules[] = {
        {"cluster.memory", c->memory},
        {"cluster.peak_bf16", c->peak_bf16},
        {"cluster.peak_f32", c->peak_f32},
        {"cluster.peak_f64", c->peak_f64},
        {"cluster.memory_bandwidth", c->memory_bandwidth},
        {"cluster.memory_share", c->memory_share},
        {"cluster.launch", c->launch},
    };
    tpp_status status = TPP_OK;
    for (size_t i = 0; i < sizeof rules / sizeof *rules && status == TPP_OK; i++)
        status = tpp__cluster_amount(rules[i].name, rules[i].value);
    if (status == TPP_OK && c->memory_share > 1)
        status = tpp__fail(TPP_ERR_INVALID,
                           "cluster.memory_share = %g is not accepted; accepted: 0 .. 1",
                           c->memory_share);
    return status;
}

tpp_status tpp__cluster_read(tpp_cluster *out, const tpp_cluster *given) {
    tpp_status status = tpp__sized_read(out, sizeof *out, 0, given, "cluster");
    if (status == TPP_OK)
        status = tpp__cost_at_least("cluster.", "ranks", out->ranks, 1);
    if (status == TPP_OK)
        status = check_links(out);
    if (status == TPP_OK && !memchr(out->name, 0, sizeof out->name))
        status = tpp__fail(TPP_ERR_INVALID, "cluster.name has no zero byte within its %d",
                           (int)sizeof out->name);
    if (status == TPP_OK)
        status = check_amounts(out);
    if (status == TPP_OK)
        status = check_curve(&out->gemm, "gemm");
    if (status == TPP_OK)
        status = check_curve(&out->attention, "attention");
    if (status == TPP_OK)
        status = check_curve(&out->link, "link");
    if (status == TPP_OK && out->memory_share == 0)
        out->memory_share = 1;
    return status;
}

tpp_status tpp_cluster_check(const tpp_cluster *cluster) {
    tpp_cluster c;
    return tpp__cluster_read(&c, cluster);
}

/* --- What a rank does alone ------------------------------------------------------------------- */

double tpp_curve_at(const tpp_curve *curve, double at) {
    if (!curve || curve->points <= 0)
        return 1;
    int32_t last = curve->points - 1, i = 0;
    if (!(at > curve->at[0]))
        return curve->value[0];
    if (at >= curve->at[last])
        return curve->value[last];
    while (curve->at[i + 1] < at)
        i++;
    double part = log(at / curve->at[i]) / log(curve->at[i + 1] / curve->at[i]);
    return curve->value[i] + part * (curve->value[i + 1] - curve->value[i]);
}

static double peak_of(const tpp_cluster *c, tpp_dtype dtype) {
    switch (dtype) {
    case TPP_BF16:
        return c->peak_bf16;
    case TPP_F32:
        return c->peak_f32;
    case TPP_F64:
        return c->peak_f64;
    default:
        return -1;
    }
}

/* launch + flops / (peak * curve) for either curve. */
static double compute(const tpp_cluster *given, tpp_dtype dtype, double flops, bool attention) {
    tpp_cluster c;
    if (tpp__cluster_read(&c, given) != TPP_OK || tpp__cluster_amount("flops", flops) != TPP_OK)
        return NAN;
    double peak = peak_of(&c, dtype);
    if (peak < 0) {
        tpp__fail(TPP_ERR_INVALID,
                  "dtype = %d is not accepted; accepted: TPP_F32, TPP_F64, TPP_BF16", dtype);
        return NAN;
    }
    if (peak == 0) {
        tpp__fail(TPP_ERR_INVALID, "the cluster's peak of %s is not known (0)",
                  tpp__dtype_name(dtype));
        return NAN;
    }
    return c.launch + flops / (peak * tpp_curve_at(attention ? &c.attention : &c.gemm, flops));
}

double tpp_cluster_product(const tpp_cluster *cluster, tpp_dtype dtype, double flops) {
    return compute(cluster, dtype, flops, false);
}

double tpp_cluster_attention(const tpp_cluster *cluster, tpp_dtype dtype, double flops) {
    return compute(cluster, dtype, flops, true);
}

double tpp_cluster_pass(const tpp_cluster *cluster, double bytes) {
    tpp_cluster c;
    if (tpp__cluster_read(&c, cluster) != TPP_OK || tpp__cluster_amount("bytes", bytes) != TPP_OK)
        return NAN;
    if (c.memory_bandwidth == 0) {
        tpp__fail(TPP_ERR_INVALID, "cluster.memory_bandwidth is not known (0)");
        return NAN;
    }
    return c.launch + bytes / (c.memory_bandwidth * c.memory_share);
}
