/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "cost/cost_model.h"

static int64_t count(const tpp_cost_model *share, int32_t layers, int64_t batch, int64_t seq,
                     int32_t bytes, tpp__count *s) {
    int64_t columns = tpp__count_times(s, 2 * (int64_t)share->kv_heads, share->head_cols);
    int64_t tokens = tpp__count_times(s, batch, seq);
    tpp__count_add(s, tpp__count_times(s, columns, bytes), tpp__count_times(s, layers, tokens));
    return s->value;
}

tpp_status tpp_cost_kv_cache(const tpp_cost_model *model, int32_t layers, int32_t tp, int64_t batch,
                             int64_t seq, int32_t element_bytes, int64_t *out) {
    tpp_cost_model whole, share;
    tpp__count sum = {0};
    const tpp__cost_rule rules[] = {
        {"layers", layers, 0},
        {"tp", tp, 0},
        {"batch", batch, 0},
        {"seq", seq, 0},
        {"element_bytes", element_bytes, 0},
    };
    tpp_status status = tpp__cost_model_read(&whole, model);
    if (status == TPP_OK)
        status = TPP__COST_RULES("", rules);
    if (status == TPP_OK && layers > whole.layers)
        status = tpp__fail(TPP_ERR_INVALID,
                           "layers = %d is more than model.layers = %d; accepted: 0 .. %d", layers,
                           whole.layers, whole.layers);
    if (status == TPP_OK)
        status = tpp__cost_share(&share, &whole, "", tp);
    if (status != TPP_OK)
        return status;
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a number");
    int64_t found = count(&share, layers, batch, seq, element_bytes > 0 ? element_bytes : 2, &sum);
    if (sum.overflow)
        return tpp__cost_overflow("bytes of the K/V cache");
    *out = found;
    return TPP_OK;
}
