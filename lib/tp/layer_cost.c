/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/copies.h"
#include "tp/cost_impl.h"
#include "tp/part.h"

void tpp__layer_cost(const tpp_layer *layer, int32_t parts, tpp__cost *cost) {
    if (layer->ops->cost)
        layer->ops->cost(layer, parts, cost);
}

void tpp__cost_product(tpp__cost *cost, int64_t m, int64_t n, int64_t k) {
    double flops = 2 * (double)m * (double)n * (double)k;
    cost->sum.gemm_flops += flops;
    if (!cost->repeated)
        cost->sum.weight_flops += flops;
}

static void count(tpp_comm_count *to, int64_t calls, int64_t elements, tpp_dtype dtype,
                  bool *overflow) {
    int64_t bytes = 0;
    *overflow |= !tpp__mul(elements, calls, &elements) ||
                 !tpp__mul(elements, tpp__dtype_bytes(dtype), &bytes) ||
                 !tpp__add(to->elements, elements, &to->elements) ||
                 !tpp__add(to->bytes, bytes, &to->bytes);
    to->calls += calls;
}

void tpp__cost_comm(const tpp_layer *layer, tpp__cost *cost, tpp_comm_kind kind, int64_t elements,
                    tpp_dtype dtype) {
    if (layer->comm)
        count(&cost->sum.comm[kind], 1, elements, dtype, &cost->overflow);
}

void tpp__cost_context(tpp__cost *cost, tpp_comm_kind kind, int64_t calls, int64_t elements,
                       tpp_dtype dtype) {
    count(&cost->sum.context[kind], calls, elements, dtype, &cost->overflow);
}

static int64_t elements_of(tpp__cost *cost, int64_t rows, int64_t cols) {
    int64_t count = 0;
    cost->overflow |= !tpp__mul(rows, cols, &count);
    return count;
}

void tpp__cost_gather(const tpp_layer *layer, tpp__cost *cost, int64_t cols) {
    if (tpp__is_parted(layer))
        tpp__cost_comm(layer, cost, TPP_COMM_ALL_GATHER,
                       elements_of(cost, tpp__part_of(layer, cost->tokens).room, cols),
                       layer->dtype);
}

void tpp__cost_sum(const tpp_layer *layer, tpp__cost *cost, int64_t cols) {
    bool parted = tpp__is_parted(layer);
    int64_t rows = parted ? tpp__part_of(layer, cost->tokens).room : cost->tokens;
    tpp__cost_comm(layer, cost, parted ? TPP_COMM_REDUCE_SCATTER : TPP_COMM_ALL_REDUCE,
                   elements_of(cost, rows, cols), layer->dtype);
}

/* Parts of a call; 0: of a sum of gradients; -1: no such call. */
static int32_t parts_of(tpp_cost_call call) {
    switch (call) {
    case TPP_COST_FORWARD:
        return TPP__FORWARD;
    case TPP_COST_BACKWARD:
        return TPP__BOTH;
    case TPP_COST_INPUT:
        return TPP__INPUT;
    case TPP_COST_WEIGHT:
        return TPP__WEIGHT;
    case TPP_COST_COPIES:
    case TPP_COST_CONTEXT:
        return 0;
    default:
        return -1;
    }
}

static void sum_context(const tpp_layer *layer, tpp__cost *cost) {
    if (layer->context && layer->grad_bytes > 0)
        tpp__cost_context(cost, TPP_COMM_ALL_REDUCE, 1, layer->grad_bytes / layer->wide_width,
                          layer->wide);
}

tpp_status tpp_layer_cost_query(const tpp_layer *layer, tpp_cost_call call, int64_t batch,
                                int64_t seq, tpp_layer_cost *out) {
    int32_t parts = parts_of(call);
    if (!layer)
        return tpp__fail(TPP_ERR_INVALID, "layer is NULL");
    if (parts < 0)
        return tpp__fail(TPP_ERR_INVALID, "call = %d is not accepted; accepted: 1 .. %d", call,
                         TPP_COST_CONTEXT);
    tpp_status status = tpp__check_shape(batch, seq);
    if (status != TPP_OK)
        return status;
    tpp__cost cost = {.batch = batch, .seq = seq, .tokens = batch * seq};
    if (call == TPP_COST_CONTEXT)
        sum_context(layer, &cost);
    else if (parts == 0)
        tpp__copies_cost(layer, &cost);
    else if (cost.tokens > 0) /* else a call says nothing */
        tpp__layer_cost(layer, parts, &cost);
    if (cost.failed != TPP_OK)
        return cost.failed;
    if (cost.overflow)
        return tpp__fail(TPP_ERR_OVERFLOW,
                         "bytes of collectives for batch %lld x seq %lld do not fit into 64 bits",
                         (long long)batch, (long long)seq);
    return tpp__sized_write(out, &cost.sum, sizeof cost.sum, "out");
}
