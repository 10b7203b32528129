/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "cost/cost_model.h"

static tpp_status read_bytes(tpp_cost_bytes *out, const tpp_cost_bytes *given) {
    static const tpp_cost_bytes adam = {sizeof adam, 0, 2, 2, 0, 4, 4, 4};
    if (!given) {
        *out = adam;
        return TPP_OK;
    }
    tpp_status status = tpp__sized_read(out, sizeof *out, 0, given, "bytes");
    if (status != TPP_OK)
        return status;
    const tpp__cost_rule rules[] = {
        {"weight", out->weight, 0},       {"grad", out->grad, 0},
        {"grad_copy", out->grad_copy, 0}, {"master", out->master, 0},
        {"momentum", out->momentum, 0},   {"variance", out->variance, 0},
    };
    status = TPP__COST_RULES("bytes.", rules);
    if (!out->weight && !out->grad && !out->grad_copy && !out->master && !out->momentum &&
        !out->variance)
        *out = adam;
    return status;
}

static tpp_status count(int64_t params, const tpp_cost_bytes *b, int64_t dp, int32_t zero,
                        tpp_cost_states *out) {
    int64_t shard = params / dp + (params % dp != 0);
    tpp__count sum = {0};
    out->params = params;
    out->weights = tpp__count_times(&sum, zero >= 3 ? shard : params, b->weight);
    out->grads =
        tpp__count_times(&sum, zero >= 2 ? shard : params, (int64_t)b->grad + b->grad_copy);
    out->optimizer = tpp__count_times(&sum, zero >= 1 ? shard : params,
                                      (int64_t)b->master + b->momentum + b->variance);
    tpp__count_add(&sum, 1, out->weights);
    tpp__count_add(&sum, 1, out->grads);
    tpp__count_add(&sum, 1, out->optimizer);
    out->total = sum.value;
    return sum.overflow ? tpp__cost_overflow("bytes of the model's states") : TPP_OK;
}

tpp_status tpp_cost_states_of(int64_t params, const tpp_cost_bytes *bytes, int64_t dp, int32_t zero,
                              tpp_cost_states *out) {
    tpp_cost_bytes b;
    tpp_cost_states found = {0};
    tpp_status status = tpp__cost_at_least("", "params", params, 0);
    if (status == TPP_OK)
        status = read_bytes(&b, bytes);
    if (status == TPP_OK)
        status = tpp__cost_at_least("", "dp", dp, 1);
    if (status == TPP_OK && (zero < 0 || zero > 3))
        status =
            tpp__fail(TPP_ERR_INVALID, "zero = %d is not accepted; accepted: 0, 1, 2, 3", zero);
    if (status == TPP_OK)
        status = count(params, &b, dp, zero, &found);
    return status == TPP_OK ? tpp__sized_write(out, &found, sizeof found, "out") : status;
}

tpp_status tpp_cost_states_query(const tpp_cost_model *model, const tpp_cost_part *part,
                                 const tpp_cost_bytes *bytes, int64_t dp, int32_t zero,
                                 tpp_cost_states *out) {
    int64_t params = 0;
    tpp_status status = tpp_cost_part_params(model, part, &params);
    return status == TPP_OK ? tpp_cost_states_of(params, bytes, dp, zero, out) : status;
}
