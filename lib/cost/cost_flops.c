/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "cost/cost_model.h"

/* Twice the pairs of tokens of a sequence that attention is counted for. */
static int64_t pairs2(int64_t seq, tpp_cost_mask mask, int64_t window, tpp__count *s) {
    if (mask == TPP_COST_MASK_FULL)
        return tpp__count_times(s, 2, tpp__count_times(s, seq, seq));
    if (mask == TPP_COST_MASK_HALF)
        return tpp__count_times(s, seq, seq);
    tpp__count sum = {0};
    int64_t near = window > 0 && window < seq ? window : seq; /* the first tokens see all before */
    tpp__count_add(&sum, near, near);
    tpp__count_add(&sum, 1, near);
    tpp__count_add(&sum, seq - near, tpp__count_times(&sum, 2, near));
    s->overflow |= sum.overflow;
    return sum.value;
}

/* Of one layer: 4 b pairs a d. */
static int64_t core(const tpp_cost_model *m, int64_t batch, int64_t pairs_twice, tpp__count *s) {
    int64_t columns = (int64_t)m->heads * m->head_cols;
    return tpp__count_times(s, tpp__count_times(s, tpp__count_times(s, 2, batch), pairs_twice),
                            columns);
}

static void count(const tpp_cost_model *m, int64_t batch, int64_t seq, tpp_cost_mask mask,
                  tpp_cost_flops *out, tpp__count *s) {
    int32_t open = m->window > 0 && m->window_first < m->layers ? m->window_first : m->layers;
    int64_t window = open < m->layers ? m->window : 0;
    int64_t twice = tpp__count_times(s, tpp__count_times(s, 2, batch), seq);
    int64_t whole = open > 0 ? core(m, batch, pairs2(seq, mask, 0, s), s) : 0;
    tpp__count cores = {0}, layers = {0};
    out->projections = tpp__count_times(s, twice, tpp__cost_attention_weights(m, s));
    out->attention = core(m, batch, pairs2(seq, mask, window, s), s);
    out->mlp = tpp__count_times(s, twice, tpp__cost_mlp_weights(m, m->ffn, s));
    out->moe = tpp__count_times(s, twice, tpp__cost_moe_weights(m, m->experts_per_token, s));
    out->head = tpp__count_times(s, twice, tpp__count_times(s, m->vocab, m->hidden));
    tpp__count_add(&cores, open, whole);
    tpp__count_add(&cores, m->layers - open, out->attention);
    out->cores = cores.value;
    tpp__count_add(&layers, 1, out->cores);
    tpp__count_add(&layers, m->layers, out->projections);
    tpp__count_add(&layers, tpp__cost_plain(m), out->mlp);
    tpp__count_add(&layers, tpp__cost_moe(m), out->moe);
    out->layers = layers.value;
    tpp__count_add(s, 1, out->layers);
    tpp__count_add(s, 1, out->head);
    out->forward = s->value;
    s->overflow |= cores.overflow || layers.overflow;
}

tpp_status tpp_cost_flops_query(const tpp_cost_model *model, int64_t batch, int64_t seq,
                                tpp_cost_mask mask, tpp_cost_flops *out) {
    tpp_cost_model m;
    tpp_cost_flops found = {0};
    tpp__count sum = {0};
    tpp_status status = tpp__cost_model_read(&m, model);
    if (status == TPP_OK)
        status = tpp__cost_at_least("", "batch", batch, 1);
    if (status == TPP_OK)
        status = tpp__cost_at_least("", "seq", seq, 1);
    if (status == TPP_OK && (mask < TPP_COST_MASK_HALF || mask > TPP_COST_MASK_EXACT))
        status =
            tpp__fail(TPP_ERR_INVALID,
                      "mask = %d is not accepted; accepted: 0 (half), 1 (full), 2 (exact)", mask);
    if (status != TPP_OK)
        return status;
    count(&m, batch, seq, mask, &found, &sum);
    if (sum.overflow)
        return tpp__cost_overflow("model's operations");
    return tpp__sized_write(out, &found, sizeof found, "out");
}
