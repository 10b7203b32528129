/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "cost/cost_shape.h"

/* Lengths in numbers; a mask is a byte. */
typedef struct kept {
    const tpp_cost_model *m; /* of one rank */
    int64_t tokens;          /* T / c */
    int64_t own;             /* of them, between tensor-parallel regions */
    int64_t e;
    bool masks;
    bool side_by_side;
    bool one_norm;
} kept;

/* tokens numbers of each of `columns` columns, of e bytes. */
static int64_t matrix(const kept *k, int64_t tokens, int64_t columns, tpp__count *s) {
    return tpp__count_times(s, tpp__count_times(s, tokens, columns), k->e);
}

static int64_t mask(const kept *k, tpp__count *s) {
    return k->masks ? tpp__count_times(s, k->own, k->m->hidden) : 0;
}

static int64_t norms(const kept *k, tpp__count *s) {
    return tpp__count_times(s, k->side_by_side ? 1 : 2, matrix(k, k->own, k->m->hidden, s));
}

static int64_t attention(const kept *k, tpp__count *s) {
    int64_t heads = 2 * ((int64_t)k->m->heads + k->m->kv_heads); /* Q, K, V, and what they give */
    if (k->m->flags & TPP_COST_QK_NORM)
        heads += (int64_t)k->m->heads + k->m->kv_heads;
    tpp__count sum = {0};
    tpp__count_add(&sum, 1, matrix(k, k->own, k->m->hidden, &sum));
    tpp__count_add(&sum, 1,
                   matrix(k, k->tokens, tpp__count_times(&sum, heads, k->m->head_cols), &sum));
    tpp__count_add(&sum, 1, mask(k, &sum));
    s->overflow |= sum.overflow;
    return sum.value;
}

/* Scores, or the log-sum-exp of each row in float32. */
static int64_t scores(const kept *k, const tpp_cost_shape *shape, tpp__count *s) {
    int64_t rows = tpp__count_times(s, k->tokens, k->m->heads);
    if (!(shape->flags & TPP_COST_SCORES))
        return tpp__count_times(s, 4, rows);
    return tpp__count_times(s, tpp__count_times(s, rows, shape->seq),
                            k->masks ? 2 * k->e + 1 : k->e);
}

/* Input, unless attention keeps the same one, and mask, unless one serves both. */
static void ends(const kept *k, tpp__count *sum) {
    if (!k->one_norm)
        tpp__count_add(sum, 1, matrix(k, k->own, k->m->hidden, sum));
    if (!k->side_by_side)
        tpp__count_add(sum, 1, mask(k, sum));
}

static int64_t intermediates(const tpp_cost_model *m, uint32_t flags) {
    if (!(m->flags & TPP_COST_GATED))
        return 2;
    return flags & TPP_COST_KEEP_SILU ? 4 : 3;
}

static int64_t mlp(const kept *k, uint32_t flags, tpp__count *s) {
    tpp__count sum = {0};
    int64_t columns = tpp__count_times(&sum, intermediates(k->m, flags), k->m->ffn);
    tpp__count_add(&sum, 1, matrix(k, k->tokens, columns, &sum));
    ends(k, &sum);
    s->overflow |= sum.overflow;
    return sum.value;
}

static int64_t moe(const kept *k, uint32_t flags, tpp__count *s) {
    const tpp_cost_model *m = k->m;
    tpp__count sum = {0}, width = {0};
    tpp__count_add(&width, m->experts_per_token, m->expert_ffn);
    tpp__count_add(&width, 1, m->shared_ffn);
    int64_t columns = tpp__count_times(&width, intermediates(m, flags), width.value);
    int64_t copies = tpp__count_times(&width, m->experts_per_token, m->hidden);
    tpp__count_add(&sum, 1, matrix(k, k->tokens, columns, &sum));
    tpp__count_add(&sum, 1, matrix(k, k->own, copies, &sum));
    tpp__count_add(&sum, tpp__count_times(&sum, 4, k->own), m->experts);
    ends(k, &sum);
    s->overflow |= sum.overflow || width.overflow;
    return sum.value;
}

static int64_t head(const kept *k, int64_t vocab_share, tpp__count *s) {
    tpp__count sum = {0};
    tpp__count_add(&sum, 2, matrix(k, k->own, k->m->hidden, &sum));
    tpp__count_add(&sum, tpp__count_times(&sum, 4, k->tokens), vocab_share);
    s->overflow |= sum.overflow;
    return sum.value;
}

/* What is kept of the `all` bytes of a layer. */
static int64_t layer(const kept *k, const tpp_cost_activations *a, int64_t rest,
                     tpp_recompute recompute, int64_t *work, tpp__count *s) {
    tpp__count all = {0};
    tpp__count_add(&all, 1, a->attention);
    tpp__count_add(&all, 1, a->scores);
    tpp__count_add(&all, 1, a->norms);
    tpp__count_add(&all, 1, rest);
    s->overflow |= all.overflow;
    int64_t again = 0;
    if (recompute == TPP_RECOMPUTE_SELECTIVE)
        again = a->scores;
    if (recompute == TPP_RECOMPUTE_FULL)
        again = all.value - matrix(k, k->own, k->m->hidden, s);
    *work = again > *work ? again : *work;
    return all.value - again;
}

static void count(const kept *k, const tpp_cost_shape *shape, int64_t vocab_share,
                  tpp_cost_activations *out, tpp__count *s) {
    out->attention = attention(k, s);
    out->scores = scores(k, shape, s);
    out->norms = norms(k, s);
    out->embedding = mask(k, s);
    out->head = head(k, vocab_share, s);
    if (tpp__cost_plain(k->m) > 0) {
        out->mlp = mlp(k, shape->flags, s);
        out->layer = layer(k, out, out->mlp, shape->recompute, &out->work, s);
    }
    if (tpp__cost_moe(k->m) > 0) {
        out->moe = moe(k, shape->flags, s);
        out->moe_layer = layer(k, out, out->moe, shape->recompute, &out->work, s);
    }
}

tpp_status tpp_cost_activations_query(const tpp_cost_model *model, const tpp_cost_shape *shape,
                                      tpp_cost_activations *out) {
    tpp_cost_model whole, share;
    tpp_cost_shape given;
    tpp__cost_tokens tokens;
    tpp_cost_activations found = {0};
    tpp__count sum = {0};
    tpp_status status = tpp__cost_model_read(&whole, model);
    if (status == TPP_OK)
        status = tpp__cost_shape_read(&given, &tokens, shape);
    if (status == TPP_OK)
        status = tpp__cost_share(&share, &whole, "shape.", given.tp);
    if (status != TPP_OK)
        return status;
    bool side = share.flags & TPP_COST_PARALLEL_BLOCK;
    const kept k = {.m = &share,
                    .tokens = tokens.rank,
                    .own = tokens.own,
                    .e = given.element_bytes,
                    .masks = !(given.flags & TPP_COST_NO_DROPOUT),
                    .side_by_side = side,
                    .one_norm = side && !(share.flags & TPP_COST_TWO_NORMS)};
    count(&k, &given, (whole.vocab - 1) / given.tp + 1, &found, &sum);
    if (sum.overflow)
        return tpp__cost_overflow("bytes of activations");
    return tpp__sized_write(out, &found, sizeof found, "out");
}
