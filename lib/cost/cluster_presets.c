/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "cost/cluster_read.h"

#include "cost/cost_model.h"

#include <stdio.h>
#include <string.h>

typedef struct preset {
    const char *name;
    int64_t node; /* devices of a node */
    double memory, bandwidth;
    double bf16, f32, f64;
    double near, far; /* bandwidth of a device in a node and between nodes */
    double reach;     /* share of the peak, by that of the curve */
    const double *gemm, *attention;
    const char *sources;
} preset;

enum { SIZES = 4 };
static const double sizes[SIZES] = {1e9, 1e10, 1e11, 1e12};
static const double messages[SIZES] = {1e4, 1e5, 1e6, 1e7};
static const double link_shares[SIZES] = {0.3, 0.5, 0.7, 0.8};

static const double a100_gemm[SIZES] = {0.20, 0.54, 0.72, 0.78};
static const double a100_attention[SIZES] = {0.15, 0.30, 0.40, 0.50};
static const double h100_gemm[SIZES] = {0.08, 0.34, 0.58, 0.68};
static const double h100_attention[SIZES] = {0.08, 0.25, 0.38, 0.50};

static const double curve_peak = 989e12; /* of the device that the second pair belongs to */

#define SHARED                                                                                     \
    "memory_share 0.8: assumed; kernels that copy reach 0.8 to 0.9\n"                              \
    "launch 5e-6: assumed; start and tail of a kernel in a queue\n"                                \
    "links.latency 3e-6 in a node, 8e-6 between nodes: assumed; one step of a ring\n"              \
    "link 0.3 .. 0.8 at 1e4 .. 1e7 bytes: fitted; collectives of large messages reach about 240 "  \
    "of 300 GB/s on DGX A100, of small ones half\n"
#define FITTED                                                                                     \
    "gemm, attention: fitted, one set for all of: Narayanan et al. 2021 (table 1), Korthikanti "   \
    "et al. 2022 (table 5) on A100; The Llama 3 Herd of Models 2024 (table 4) on H100\n"
#define SCALED                                                                                     \
    "gemm, attention: those of h100, not held against runs; sizes by the peak, shares by the "     \
    "best matrix products that were measured\n"

static const preset presets[] = {
    {"a100", 8, 80e9, 2.039e12, 312e12, 19.5e12, 19.5e12, 300e9, 25e9, 0, a100_gemm, a100_attention,
     "memory, memory_bandwidth, peaks: NVIDIA A100 80GB SXM data sheet; bfloat16 dense, float64 by "
     "tensor cores\n"
     "links.bandwidth 300e9: NVLink 3, 600 GB/s in both directions; 25e9: one HDR 200 Gb/s adapter "
     "a device\n" SHARED FITTED},
    {"h100", 8, 80e9, 3.35e12, 989e12, 67e12, 67e12, 450e9, 50e9, 0, h100_gemm, h100_attention,
     "memory, memory_bandwidth, peaks: NVIDIA H100 SXM data sheet; bfloat16 dense, float64 by "
     "tensor cores\n"
     "links.bandwidth 450e9: NVLink 4, 900 GB/s in both directions; 50e9: one NDR 400 Gb/s adapter "
     "a device\n" SHARED FITTED},
    {"h200", 8, 141e9, 4.8e12, 989e12, 67e12, 67e12, 450e9, 50e9, 1, h100_gemm, h100_attention,
     "memory, memory_bandwidth, peaks: NVIDIA H200 SXM data sheet; bfloat16 dense\n"
     "links.bandwidth: as h100\n" SHARED SCALED},
    {"b200", 8, 180e9, 8e12, 2250e12, 0, 0, 900e9, 50e9, 0.97, h100_gemm, h100_attention,
     "memory, memory_bandwidth, peak_bf16: an eighth of NVIDIA DGX B200's data sheet; dense\n"
     "links.bandwidth 900e9: NVLink 5, 1.8 TB/s in both directions; 50e9: one 400 Gb/s adapter a "
     "device\n" SHARED SCALED},
    {"gh200", 4, 96e9, 4e12, 989e12, 67e12, 67e12, 450e9, 25e9, 1.03, h100_gemm, h100_attention,
     "memory, memory_bandwidth, peaks: NVIDIA GH200 data sheet, 96 GB HBM3; bfloat16 dense\n"
     "links.bandwidth 450e9: NVLink 4, all links of a device together; 25e9: one 200 Gb/s adapter "
     "a "
     "device, 4 devices a node\n" SHARED SCALED},
    {"mi300x", 8, 192e9, 5.3e12, 1307e12, 163.4e12, 163.4e12, 448e9, 50e9, 0.68, h100_gemm,
     h100_attention,
     "memory, memory_bandwidth, peaks: AMD Instinct MI300X data sheet; bfloat16 dense, float32 and "
     "float64 by matrix cores\n"
     "links.bandwidth 448e9: 7 links of 64 GB/s a direction, all together; 50e9: one 400 Gb/s "
     "adapter a device\n" SHARED SCALED},
};

enum { PRESETS = sizeof presets / sizeof *presets };

static const preset *find(const char *name) {
    for (int32_t i = 0; name && i < PRESETS; i++) {
        if (strcmp(name, presets[i].name) == 0)
            return &presets[i];
    }
    return NULL;
}

static tpp_status refuse(const char *name) {
    char names[120];
    int used = 0;
    for (int32_t i = 0; i < PRESETS; i++)
        used += snprintf(names + used, sizeof names - (size_t)used, "%s%s", i > 0 ? ", " : "",
                         presets[i].name);
    return tpp__fail(TPP_ERR_INVALID, "name = \"%.60s\" is no cluster that is known; accepted: %s",
                     name, names);
}

static tpp_curve curve_of(const double *at, double wider, const double *value, double higher) {
    tpp_curve c = {.points = SIZES};
    for (int i = 0; i < SIZES; i++) {
        c.at[i] = at[i] * wider;
        c.value[i] = value[i] * higher;
    }
    return c;
}

static void fill(tpp_cluster *c, const preset *p) {
    double wider = p->reach > 0 ? p->bf16 / curve_peak : 1, higher = p->reach > 0 ? p->reach : 1;
    snprintf(c->name, sizeof c->name, "%s", p->name);
    c->memory = p->memory;
    c->peak_bf16 = p->bf16;
    c->peak_f32 = p->f32;
    c->peak_f64 = p->f64;
    c->memory_bandwidth = p->bandwidth;
    c->memory_share = 0.8;
    c->launch = 5e-6;
    c->gemm = curve_of(sizes, wider, p->gemm, higher);
    c->attention = curve_of(sizes, wider, p->attention, higher);
    c->link = curve_of(messages, 1, link_shares, 1);
}

tpp_status tpp_cluster_preset(tpp_cluster *out, const char *name, int64_t nodes) {
    if (!name)
        return tpp__fail(TPP_ERR_INVALID, "name is NULL; it must be a cluster's name");
    const preset *p = find(name);
    if (!p)
        return refuse(name);
    tpp_status status = tpp__cost_at_least("", "nodes", nodes, 1);
    if (status != TPP_OK)
        return status;
    tpp_cluster c = {.size = sizeof c, .levels = nodes > 1 ? 2 : 1};
    if (!tpp__mul(p->node, nodes, &c.ranks))
        return tpp__cost_overflow("ranks");
    c.links[0] = (tpp_link){.ranks = p->node, .latency = 3e-6, .bandwidth = p->near};
    if (nodes > 1)
        c.links[1] = (tpp_link){.ranks = c.ranks, .latency = 8e-6, .bandwidth = p->far};
    fill(&c, p);
    return tpp__sized_write(out, &c, sizeof c, "out");
}

const char *tpp_cluster_preset_name(int32_t index) {
    return index >= 0 && index < PRESETS ? presets[index].name : NULL;
}

const char *tpp_cluster_preset_sources(const char *name) {
    const preset *p = find(name);
    return p ? p->sources : NULL;
}
