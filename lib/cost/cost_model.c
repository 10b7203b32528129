/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "cost/cost_model.h"

tpp_status tpp__cost_at_least(const char *prefix, const char *field, int64_t value, int64_t least) {
    if (value >= least)
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID, "%s%s = %lld is not accepted; accepted: %lld or more", prefix,
                     field, (long long)value, (long long)least);
}

tpp_status tpp__cost_all_at_least(const char *prefix, const tpp__cost_rule *rules, int32_t count) {
    tpp_status status = TPP_OK;
    for (int32_t i = 0; i < count && status == TPP_OK; i++)
        status = tpp__cost_at_least(prefix, rules[i].field, rules[i].value, rules[i].least);
    return status;
}

tpp_status tpp__cost_overflow(const char *what) {
    return tpp__fail(TPP_ERR_OVERFLOW, "the %s do not fit into 64 bits; the sizes are too large",
                     what);
}

static tpp_status check_sizes(const tpp_cost_model *m) {
    const tpp__cost_rule rules[] = {
        {"vocab", m->vocab, 1},
        {"hidden", m->hidden, 1},
        {"ffn", m->ffn, 0},
        {"positions", m->positions, 0},
        {"window", m->window, 0},
        {"expert_ffn", m->expert_ffn, 0},
        {"shared_ffn", m->shared_ffn, 0},
        {"layers", m->layers, 1},
        {"heads", m->heads, 1},
        {"kv_heads", m->kv_heads, 0},
        {"head_cols", m->head_cols, 0},
        {"experts", m->experts, 0},
        {"experts_per_token", m->experts_per_token, 0},
        {"dense_layers", m->dense_layers, 0},
        {"window_first", m->window_first, 0},
    };
    return TPP__COST_RULES("model.", rules);
}

static tpp_status check_heads(const tpp_cost_model *m) {
    char accepted[160];
    if (m->head_cols == 0 && m->hidden % m->heads != 0)
        return tpp__fail(
            TPP_ERR_INVALID,
            "model.heads = %d does not divide model.hidden = %lld; set model.head_cols", m->heads,
            (long long)m->hidden);
    if (m->head_cols == 0 && m->hidden / m->heads > INT32_MAX)
        return tpp__fail(
            TPP_ERR_INVALID,
            "model.hidden = %lld is too large for model.heads = %d; accepted: heads of up "
            "to %d columns",
            (long long)m->hidden, m->heads, INT32_MAX);
    if (m->kv_heads > 0 && m->heads % m->kv_heads != 0) {
        tpp__divisors(m->heads, accepted, sizeof accepted);
        return tpp__fail(TPP_ERR_INVALID,
                         "model.kv_heads = %d does not divide model.heads = %d; accepted: 0 "
                         "(heads), %s",
                         m->kv_heads, m->heads, accepted);
    }
    return TPP_OK;
}

/* Nothing about experts where there are none. */
static tpp_status check_no_experts(const tpp_cost_model *m) {
    const struct {
        const char *field;
        int64_t value;
    } rules[] = {
        {"experts_per_token", m->experts_per_token},
        {"expert_ffn", m->expert_ffn},
        {"shared_ffn", m->shared_ffn},
        {"dense_layers", m->dense_layers},
    };
    for (int32_t i = 0; i < (int32_t)(sizeof rules / sizeof *rules); i++) {
        if (rules[i].value > 0)
            return tpp__fail(TPP_ERR_INVALID,
                             "model.%s = %lld is not accepted with model.experts = 0; accepted: 0",
                             rules[i].field, (long long)rules[i].value);
    }
    return TPP_OK;
}

static tpp_status check_experts(const tpp_cost_model *m) {
    if ((m->flags & TPP_COST_SHARED_GATE) && m->shared_ffn == 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "model.shared_ffn = 0 is not accepted with TPP_COST_SHARED_GATE; "
                         "accepted: 1 or more, with model.experts");
    if (m->experts == 0)
        return check_no_experts(m);
    if (m->experts_per_token < 1 || m->experts_per_token > m->experts)
        return tpp__fail(
            TPP_ERR_INVALID,
            "model.experts_per_token = %d is not accepted; accepted: 1 .. %d (experts)",
            m->experts_per_token, m->experts);
    if (m->dense_layers > m->layers)
        return tpp__fail(TPP_ERR_INVALID,
                         "model.dense_layers = %d is not accepted; accepted: 0 .. %d (layers)",
                         m->dense_layers, m->layers);
    return TPP_OK;
}

static tpp_status fill(tpp_cost_model *m) {
    if (m->ffn == 0 && !tpp__mul(4, m->hidden, &m->ffn))
        return tpp__fail(TPP_ERR_OVERFLOW,
                         "model.hidden = %lld is too large for an MLP of 4 hidden; set model.ffn",
                         (long long)m->hidden);
    if (m->kv_heads == 0)
        m->kv_heads = m->heads;
    if (m->head_cols == 0)
        m->head_cols = (int32_t)(m->hidden / m->heads);
    if (m->experts > 0 && m->expert_ffn == 0)
        m->expert_ffn = m->ffn;
    if (tpp__cost_plain(m) == 0)
        m->ffn = 0;
    if (tpp__cost_moe(m) == 0)
        m->expert_ffn = m->shared_ffn = 0;
    return TPP_OK;
}

tpp_status tpp__cost_model_read(tpp_cost_model *out, const tpp_cost_model *given) {
    tpp_status status = tpp__sized_read(out, sizeof *out, TPP__COST_MODEL_FLAGS, given, "model");
    if (status == TPP_OK)
        status = check_sizes(out);
    if (status == TPP_OK)
        status = check_heads(out);
    if (status == TPP_OK)
        status = check_experts(out);
    return status == TPP_OK ? fill(out) : status;
}

/* Widths must be whole. */
static tpp_status divide(int64_t *width, const char *field, const char *prefix, int32_t tp) {
    if (*width % tp != 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "%stp = %d does not divide model.%s = %lld; accepted: its divisors",
                         prefix, tp, field, (long long)*width);
    *width /= tp;
    return TPP_OK;
}

static tpp_status share_heads(tpp_cost_model *m, const char *prefix, int32_t tp) {
    char accepted[160];
    tpp__divisors(m->heads, accepted, sizeof accepted);
    if (m->heads % tp != 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "%stp = %d does not divide model.heads = %d; accepted: %s", prefix, tp,
                         m->heads, accepted);
    if (m->kv_heads % tp != 0 && tp % m->kv_heads != 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "%stp = %d does not divide model.kv_heads = %d, nor is it a multiple; "
                         "accepted: one of both",
                         prefix, tp, m->kv_heads);
    m->heads /= tp;
    m->kv_heads = m->kv_heads > tp ? m->kv_heads / tp : 1;
    return TPP_OK;
}

tpp_status tpp__cost_share(tpp_cost_model *out, const tpp_cost_model *model, const char *prefix,
                           int32_t tp) {
    *out = *model;
    tpp_status status = tpp__cost_at_least(prefix, "tp", tp, 0);
    if (status != TPP_OK || tp < 2)
        return status;
    status = share_heads(out, prefix, tp);
    if (status == TPP_OK)
        status = divide(&out->ffn, "ffn", prefix, tp);
    if (status == TPP_OK)
        status = divide(&out->expert_ffn, "expert_ffn", prefix, tp);
    if (status == TPP_OK)
        status = divide(&out->shared_ffn, "shared_ffn", prefix, tp);
    return status;
}

int64_t tpp__cost_attention_weights(const tpp_cost_model *m, tpp__count *overflow) {
    int64_t heads = 2 * ((int64_t)m->heads + m->kv_heads);
    return tpp__count_times(overflow, tpp__count_times(overflow, heads, m->head_cols), m->hidden);
}

int64_t tpp__cost_mlp_weights(const tpp_cost_model *m, int64_t width, tpp__count *overflow) {
    int64_t matrices = m->flags & TPP_COST_GATED ? 3 : 2;
    return tpp__count_times(overflow, tpp__count_times(overflow, matrices, width), m->hidden);
}

int64_t tpp__cost_moe_weights(const tpp_cost_model *m, int64_t experts, tpp__count *overflow) {
    if (tpp__cost_moe(m) == 0)
        return 0;
    tpp__count sum = {.overflow = overflow->overflow};
    tpp__count_add(&sum, experts, tpp__cost_mlp_weights(m, m->expert_ffn, &sum));
    tpp__count_add(&sum, 1, tpp__cost_mlp_weights(m, m->shared_ffn, &sum));
    tpp__count_add(&sum, m->experts, m->hidden);
    tpp__count_add(&sum, m->flags & TPP_COST_SHARED_GATE ? 1 : 0, m->hidden);
    overflow->overflow = sum.overflow;
    return sum.value;
}
