/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "cost/cost_model.h"

#include <math.h>
#include <tpp/cost_comm.h>

static const double element = 2; /* bytes of bfloat16 */

static tpp_status positive(const char *field, double value) {
    if (value > 0 && isfinite(value))
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID, "%s = %g is not accepted; accepted: finite numbers above 0",
                     field, value);
}

static tpp_status rates(double flops, double bandwidth) {
    tpp_status status = positive("flops", flops);
    return status == TPP_OK ? positive("bandwidth", bandwidth) : status;
}

/* Operations of a token's forward through an average layer; scores of half of seq tokens. */
static tpp_status per_token(const tpp_cost_model *m, int64_t seq, double *out) {
    tpp__count s = {0};
    tpp__count_add(&s, m->layers, tpp__cost_attention_weights(m, &s));
    tpp__count_add(&s, tpp__cost_plain(m), tpp__cost_mlp_weights(m, m->ffn, &s));
    tpp__count_add(&s, tpp__cost_moe(m), tpp__cost_moe_weights(m, m->experts_per_token, &s));
    if (s.overflow)
        return tpp__cost_overflow("model's parameters");
    *out = 2 * (double)s.value / m->layers + 2 * (double)seq * (double)m->heads * m->head_cols;
    return TPP_OK;
}

/* Checks what the two ratios of a layer share. */
static tpp_status layer_of(const tpp_cost_model *given, int64_t seq, const char *degree,
                           int32_t ranks, double flops, double bandwidth, tpp_cost_model *m,
                           double *operations) {
    const tpp__cost_rule rules[] = {{"seq", seq, 0}, {degree, ranks, 1}};
    tpp_status status = tpp__cost_model_read(m, given);
    if (status == TPP_OK)
        status = TPP__COST_RULES("", rules);
    if (status == TPP_OK)
        status = rates(flops, bandwidth);
    return status == TPP_OK ? per_token(m, seq, operations) : status;
}

double tpp_cost_ratio_tp(const tpp_cost_model *model, int64_t seq, int32_t tp, double flops,
                         double bandwidth) {
    tpp_cost_model m;
    double operations = 0;
    if (layer_of(model, seq, "tp", tp, flops, bandwidth, &m, &operations) != TPP_OK)
        return NAN;
    double reduces = m.flags & TPP_COST_PARALLEL_BLOCK ? 1 : 2;
    double bytes = reduces * 2 * (tp - 1.0) * (double)m.hidden * element; /* times T / t */
    return bytes / bandwidth / (operations / flops);
}

double tpp_cost_ratio_pp(const tpp_cost_model *model, int64_t seq, int32_t copies, int32_t pp,
                         double flops, double bandwidth) {
    tpp_cost_model m;
    double operations = 0;
    if (tpp__cost_at_least("", "copies", copies, 1) != TPP_OK ||
        layer_of(model, seq, "pp", pp, flops, bandwidth, &m, &operations) != TPP_OK)
        return NAN;
    double bytes = copies * (double)m.hidden * element; /* times T / t */
    return bytes / bandwidth / (operations / flops * m.layers / pp);
}

double tpp_cost_ratio_cp(const tpp_cost_model *model, int64_t seq, int32_t cp, tpp_cost_mask mask,
                         double flops, double bandwidth) {
    tpp_cost_model m;
    const tpp__cost_rule rules[] = {{"seq", seq, 1}, {"cp", cp, 1}};
    if (tpp__cost_model_read(&m, model) != TPP_OK || TPP__COST_RULES("", rules) != TPP_OK ||
        rates(flops, bandwidth) != TPP_OK)
        return NAN;
    if (mask != TPP_COST_MASK_HALF && mask != TPP_COST_MASK_FULL) {
        tpp__fail(TPP_ERR_INVALID, "mask = %d is not accepted; accepted: 0 (half), 1 (full)", mask);
        return NAN;
    }
    double seen = mask == TPP_COST_MASK_HALF ? 0.5 : 1, block = (double)seq / cp;
    return element / 2 * m.kv_heads / m.heads * flops / (bandwidth * seen * block);
}

double tpp_cost_ratio_dp(int64_t tokens, int64_t dp, double flops, double bandwidth) {
    const tpp__cost_rule rules[] = {{"tokens", tokens, 1}, {"dp", dp, 1}};
    if (TPP__COST_RULES("", rules) != TPP_OK || rates(flops, bandwidth) != TPP_OK)
        return NAN;
    double n = (double)dp;
    return element / 2 * (n - 1) / n * flops / (bandwidth * (double)tokens);
}

double tpp_cost_utilisation(double flops, double seconds, double peak, int64_t ranks) {
    if (!(flops >= 0 && isfinite(flops))) {
        tpp__fail(TPP_ERR_INVALID,
                  "flops = %g is not accepted; accepted: finite numbers, 0 or more", flops);
        return NAN;
    }
    if (positive("seconds", seconds) != TPP_OK || positive("peak", peak) != TPP_OK ||
        tpp__cost_at_least("", "ranks", ranks, 1) != TPP_OK)
        return NAN;
    return flops / (seconds * peak * (double)ranks);
}

tpp_status tpp_cost_data_volume(int64_t params, int64_t dp, int32_t zero, int64_t reductions,
                                double *out) {
    const tpp__cost_rule rules[] = {
        {"params", params, 0}, {"dp", dp, 1}, {"reductions", reductions, 1}};
    tpp_status status = TPP__COST_RULES("", rules);
    if (status == TPP_OK && (zero < 0 || zero > 3))
        status =
            tpp__fail(TPP_ERR_INVALID, "zero = %d is not accepted; accepted: 0, 1, 2, 3", zero);
    if (status != TPP_OK)
        return status;
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a number");
    double n = (double)dp, r = (double)reductions;
    *out = (n - 1) / n * (double)params * (zero == 3 ? 3 * r : 1 + r);
    return TPP_OK;
}
