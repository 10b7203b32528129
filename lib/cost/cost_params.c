/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "cost/cost_model.h"

/* Has a bias: always, or with NO_BIAS as an exception. */
static bool biased(const tpp_cost_model *m, uint32_t exception) {
    return !(m->flags & TPP_COST_NO_BIAS) || (m->flags & exception);
}

static int64_t final_norm(const tpp_cost_model *m, tpp__count *overflow) {
    return tpp__count_times(overflow, m->flags & TPP_COST_RMS_NORM ? 1 : 2, m->hidden);
}

static int64_t norms(const tpp_cost_model *m, tpp__count *overflow) {
    bool one = (m->flags & TPP_COST_PARALLEL_BLOCK) && !(m->flags & TPP_COST_TWO_NORMS);
    return tpp__count_times(overflow, one ? 1 : 2, final_norm(m, overflow));
}

static int64_t attention(const tpp_cost_model *m, tpp__count *overflow) {
    tpp__count s = {0};
    int64_t columns = (int64_t)m->heads + 2 * (int64_t)m->kv_heads;
    tpp__count_add(&s, 1, tpp__cost_attention_weights(m, &s));
    tpp__count_add(&s, biased(m, TPP_COST_QKV_BIAS) ? columns : 0, m->head_cols);
    tpp__count_add(&s, biased(m, TPP_COST_OUT_BIAS), m->hidden);
    tpp__count_add(&s, m->flags & TPP_COST_QK_NORM ? 2 : 0, m->head_cols);
    overflow->overflow |= s.overflow;
    return s.value;
}

/* An MLP or an expert; none of width 0. */
static int64_t mlp(const tpp_cost_model *m, int64_t width, tpp__count *overflow) {
    if (width == 0)
        return 0;
    tpp__count s = {0};
    int64_t ups = m->flags & TPP_COST_GATED ? 2 : 1;
    tpp__count_add(&s, 1, tpp__cost_mlp_weights(m, width, &s));
    tpp__count_add(&s, biased(m, TPP_COST_MLP_BIAS) ? ups : 0, width);
    tpp__count_add(&s, biased(m, TPP_COST_MLP_BIAS), m->hidden);
    overflow->overflow |= s.overflow;
    return s.value;
}

static int64_t moe(const tpp_cost_model *m, tpp__count *overflow) {
    if (tpp__cost_moe(m) == 0)
        return 0;
    tpp__count s = {0};
    tpp__count_add(&s, m->experts, mlp(m, m->expert_ffn, &s));
    tpp__count_add(&s, 1, mlp(m, m->shared_ffn, &s));
    tpp__count_add(&s, m->experts, m->hidden);
    tpp__count_add(&s, m->flags & TPP_COST_SHARED_GATE ? 1 : 0, m->hidden);
    overflow->overflow |= s.overflow;
    return s.value;
}

static int64_t matmul(const tpp_cost_model *m, tpp__count *overflow) {
    tpp__count s = {0};
    tpp__count_add(&s, m->layers, tpp__cost_attention_weights(m, &s));
    tpp__count_add(&s, tpp__cost_plain(m), tpp__cost_mlp_weights(m, m->ffn, &s));
    tpp__count_add(&s, tpp__cost_moe(m), tpp__cost_moe_weights(m, m->experts_per_token, &s));
    tpp__count_add(&s, m->vocab, m->hidden);
    overflow->overflow |= s.overflow;
    return s.value;
}

static void count(const tpp_cost_model *m, tpp_cost_params *out, tpp__count *s) {
    bool tied = m->flags & TPP_COST_TIED;
    int32_t plain = tpp__cost_plain(m), experts = tpp__cost_moe(m);
    tpp__count table = {0};
    tpp__count_add(&table, m->vocab, m->hidden);
    tpp__count_add(&table, m->positions, m->hidden);
    s->overflow |= table.overflow;
    out->embedding = table.value;
    out->head = tied ? 0 : tpp__count_times(s, m->vocab, m->hidden);
    out->final_norm = final_norm(m, s);
    out->attention = attention(m, s);
    out->mlp = mlp(m, m->ffn, s);
    out->moe = moe(m, s);
    out->norms = norms(m, s);
    out->matmul = matmul(m, s);
    tpp__count_add(s, 1, out->embedding);
    tpp__count_add(s, 1, out->head);
    tpp__count_add(s, 1, out->final_norm);
    tpp__count_add(s, m->layers, out->attention);
    tpp__count_add(s, m->layers, out->norms);
    tpp__count_add(s, plain, out->mlp);
    tpp__count_add(s, experts, out->moe);
    out->total = s->value;
    int64_t idle = tpp__count_times(s, m->experts - m->experts_per_token, mlp(m, m->expert_ffn, s));
    out->active = out->total - tpp__count_times(s, experts, idle);
}

tpp_status tpp_cost_params_query(const tpp_cost_model *model, tpp_cost_params *out) {
    tpp_cost_model m;
    tpp_cost_params found = {0};
    tpp__count sum = {0};
    tpp_status status = tpp__cost_model_read(&m, model);
    if (status != TPP_OK)
        return status;
    count(&m, &found, &sum);
    if (sum.overflow)
        return tpp__cost_overflow("model's parameters");
    return tpp__sized_write(out, &found, sizeof found, "out");
}

static tpp_status check_layers(const tpp_cost_part *part, const tpp_cost_model *m) {
    tpp_status status = tpp__cost_at_least("part.", "layers", part->layers, 0);
    if (status == TPP_OK)
        status = tpp__cost_at_least("part.", "dense_layers", part->dense_layers, 0);
    if (status != TPP_OK)
        return status;
    if (part->layers > m->layers)
        return tpp__fail(TPP_ERR_INVALID,
                         "part.layers = %d is more than model.layers = %d; accepted: 0 .. %d",
                         part->layers, m->layers, m->layers);
    int32_t dense = m->experts > 0 ? m->dense_layers : 0;
    int32_t most = part->layers < dense ? part->layers : dense;
    int32_t least = part->layers - tpp__cost_moe(m);
    least = m->experts > 0 && least > 0 ? least : 0;
    if (part->dense_layers < least || part->dense_layers > most)
        return tpp__fail(TPP_ERR_INVALID,
                         "part.dense_layers = %d is not accepted with part.layers = %d; accepted: "
                         "%d .. %d (model.dense_layers = %d of %d)",
                         part->dense_layers, part->layers, least, most, dense, m->layers);
    return TPP_OK;
}

static tpp_status read_part(tpp_cost_part *out, const tpp_cost_part *given,
                            const tpp_cost_model *m) {
    tpp_status status = tpp__sized_read(
        out, sizeof *out, TPP_COST_PART_EMBEDDING | TPP_COST_PART_HEAD, given, "part");
    if (status == TPP_OK)
        status = tpp__cost_at_least("part.", "vocab_multiple", out->vocab_multiple, 0);
    if (status == TPP_OK)
        status = check_layers(out, m);
    return status;
}

/* Rows of a table on a rank: the vocabulary padded and divided. */
static int64_t rows(const tpp_cost_part *part, int64_t vocab) {
    int64_t multiple = part->vocab_multiple > 0 ? part->vocab_multiple : 1;
    int64_t whole = multiple * (part->tp > 0 ? part->tp : 1);
    return ((vocab - 1) / whole + 1) * multiple;
}

static int64_t part_params(const tpp_cost_model *m, const tpp_cost_part *part, int64_t table_rows,
                           tpp__count *s) {
    bool embedding = part->flags & TPP_COST_PART_EMBEDDING;
    bool head = part->flags & TPP_COST_PART_HEAD;
    bool again = head && !(embedding && (m->flags & TPP_COST_TIED));
    int32_t plain = m->experts > 0 ? part->dense_layers : part->layers;
    tpp__count_add(s, (int64_t)embedding + again, tpp__count_times(s, table_rows, m->hidden));
    tpp__count_add(s, embedding ? m->positions : 0, m->hidden);
    tpp__count_add(s, head, final_norm(m, s));
    tpp__count_add(s, part->layers, attention(m, s));
    tpp__count_add(s, part->layers, norms(m, s));
    tpp__count_add(s, plain, mlp(m, m->ffn, s));
    tpp__count_add(s, part->layers - plain, moe(m, s));
    return s->value;
}

tpp_status tpp_cost_part_params(const tpp_cost_model *model, const tpp_cost_part *part,
                                int64_t *out) {
    tpp_cost_model whole, share;
    tpp_cost_part p;
    tpp__count sum = {0};
    tpp_status status = tpp__cost_model_read(&whole, model);
    if (status == TPP_OK)
        status = read_part(&p, part, &whole);
    if (status == TPP_OK)
        status = tpp__cost_share(&share, &whole, "part.", p.tp);
    if (status != TPP_OK)
        return status;
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a number");
    int64_t params = part_params(&share, &p, rows(&p, whole.vocab), &sum);
    if (sum.overflow)
        return tpp__cost_overflow("part's parameters");
    *out = params;
    return TPP_OK;
}
