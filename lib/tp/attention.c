/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/attention_context.h"
#include "tp/cost_impl.h"
#include "tp/region.h"

static const tpp__attention_layer *attention_of(const tpp_layer *layer) {
    return (const tpp__attention_layer *)layer;
}

int64_t tpp__attention_heads_cols(const tpp_layer *layer) {
    const tpp__attention_layer *self = attention_of(layer);
    return self->heads * self->head_cols;
}

int64_t tpp__attention_cols(const tpp_layer *layer, int32_t index) {
    const tpp__attention_layer *self = attention_of(layer);
    if (self->projections == 1)
        return 3 * tpp__attention_heads_cols(layer);
    return (index == TPP__Q ? self->heads : self->kv_heads) * self->head_cols;
}

tpp__projected tpp__attention_projected(const tpp_layer *layer, int64_t tokens, tpp__arena *arena) {
    tpp__projected projected = {{NULL}};
    for (int32_t i = 0; i < attention_of(layer)->projections; i++)
        projected.matrix[i] =
            tpp__arena_take(arena, tokens * tpp__attention_cols(layer, i), layer->width);
    return projected;
}

static tpp__attention_saved take_saved(const tpp_layer *layer, int64_t tokens, tpp__arena *arena) {
    const tpp__attention_layer *self = attention_of(layer);
    tpp__attention_saved saved = {.qkv = tpp__attention_projected(layer, tokens, arena)};
    saved.raw = saved.qkv;
    for (int32_t i = TPP__Q; i <= TPP__K && self->normed; i++) {
        saved.raw.matrix[i] =
            tpp__arena_take(arena, tokens * tpp__attention_cols(layer, i), layer->width);
        saved.rstd[i] = tpp__arena_take(arena, tokens * tpp__attention_section_heads(layer, i),
                                        layer->wide_width);
    }
    saved.heads = tpp__arena_take(arena, tokens * tpp__attention_heads_cols(layer), layer->width);
    saved.lse = tpp__arena_take(arena, tokens * self->heads, layer->wide_width);
    return saved;
}

/* What the weight half needs of the input half: gradients of qkv, and of the norms' weights. */
typedef struct attention_split {
    tpp__projected grads;
    char *norms;
} attention_split;

static attention_split take_split(const tpp_layer *layer, int64_t tokens, tpp__arena *arena) {
    const tpp__attention_layer *self = attention_of(layer);
    attention_split split = {.grads = tpp__attention_projected(layer, tokens, arena)};
    if (self->normed)
        split.norms = tpp__arena_take(arena, 2 * layer->count * self->head_cols, layer->wide_width);
    return split;
}

static void needs_of(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs) {
    int64_t tokens = batch * seq;
    tpp__arena saved = tpp__arena_counting();
    take_saved(layer, tokens, &saved);
    tpp__arena split = tpp__arena_counting();
    take_split(layer, tokens, &split);
    tpp__arena core = tpp__arena_counting(); /* gradient of heads' outputs, then what heads need */
    tpp__arena_take(&core, tokens * tpp__attention_heads_cols(layer), layer->width);
    tpp__attention_heads_scratch(layer, tokens, seq, &core);
    tpp__arena turn = tpp__arena_counting();
    tpp__attention_turn_scratch(layer, &turn);
    needs->saved = saved.used;
    needs->split = split.used;
    needs->scratch = turn.used > core.used ? turn.used : core.used;
    needs->overflow =
        !tpp__arena_fits(&saved) || !tpp__arena_fits(&split) || !tpp__arena_fits(&core);
}

static tpp__attention_saved saved_of(const tpp_layer *layer, const tpp__work *work) {
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    return take_saved(layer, work->tokens, &memory);
}

static attention_split split_of(const tpp_layer *layer, const tpp__work *work) {
    tpp__arena kept = tpp__arena_over(work->split, INT64_MAX);
    return take_split(layer, work->tokens, &kept);
}

static void serve(const tpp_layer *layer, int64_t batch, int64_t seq, int64_t cache_seq,
                  tpp__serve *out) {
    int64_t tokens = batch * seq;
    tpp__arena saved = tpp__arena_counting();
    take_saved(layer, tokens, &saved);
    tpp__arena heads = tpp__arena_counting(), turn = heads;
    tpp__attention_heads_scratch(layer, tokens, cache_seq > 0 ? cache_seq : seq, &heads);
    tpp__attention_turn_scratch(layer, &turn);
    int64_t inner = heads.used > turn.used ? heads.used : turn.used;
    tpp__arena_take(&saved, tpp__region_forward_scratch(layer, tokens, inner, &out->overflow), 1);
    out->scratch = saved.used;
    out->cache = tpp__attention_cache_bytes(layer, batch, cache_seq);
    out->overflow |=
        !tpp__arena_fits(&heads) || !tpp__arena_fits(&saved) || out->cache == INT64_MAX;
    if (cache_seq > 0 && attention_of(layer)->full)
        out->failed = tpp__fail(TPP_ERR_UNSUPPORTED,
                                "cache_seq = %lld: attention with TPP_ATTENTION_FULL sees later "
                                "tokens, so it cannot keep earlier ones in a cache",
                                (long long)cache_seq);
    if (cache_seq > 0 && layer->context)
        out->failed = tpp__fail(TPP_ERR_UNSUPPORTED,
                                "cache_seq = %lld with env.context: a cache is of whole sequences, "
                                "and those of this layer are spread over ranks",
                                (long long)cache_seq);
}

static tpp__linear_shape in_shape(const tpp_layer *layer, const tpp__work *work, int32_t index) {
    return (tpp__linear_shape){work->tokens, layer->in_cols, tpp__attention_cols(layer, index)};
}

static tpp__linear_shape out_shape(const tpp_layer *layer, const tpp__work *work) {
    return (tpp__linear_shape){work->tokens, tpp__attention_heads_cols(layer), layer->out_cols};
}

static tpp_status project(const tpp_layer *layer, const tpp__work *work,
                          const tpp__attention_saved *saved) {
    const tpp__attention_layer *self = attention_of(layer);
    tpp_status status = TPP_OK;
    for (int32_t i = 0; i < self->projections && status == TPP_OK; i++)
        status = tpp__col_forward(layer, in_shape(layer, work, i), work->in,
                                  tpp__param_of(layer, work, self->weight[i]),
                                  tpp__param_of(layer, work, self->bias[i]), saved->raw.matrix[i]);
    return status;
}

static tpp_status forward(const tpp_layer *layer, const tpp__work *work) {
    tpp__attention_saved saved = saved_of(layer, work);
    tpp_status status = project(layer, work, &saved);
    if (status != TPP_OK)
        return status;
    tpp__attention_turn_forward(layer, work, &saved);
    if (work->cache)
        tpp__attention_cache_add(layer, work, &saved.qkv);
    return tpp__attention_heads_forward(layer, work, &saved);
}

static tpp__row_operand out_of(const tpp_layer *layer, const tpp__work *work) {
    return (tpp__row_operand){tpp__attention_heads_cols(layer), saved_of(layer, work).heads,
                              tpp__param_of(layer, work, attention_of(layer)->out)};
}

static const void *bias_of(const tpp_layer *layer, const tpp__work *work) {
    return tpp__param_of(layer, work, attention_of(layer)->out_bias);
}

/* Gradients of qkv. */
static tpp_status backward(const tpp_layer *layer, const tpp__work *work) {
    tpp__attention_saved saved = saved_of(layer, work);
    attention_split split = split_of(layer, work);
    tpp__linear_shape out = out_shape(layer, work);
    tpp__arena arena = work->scratch;
    char *grad_heads = tpp__arena_take(&arena, out.tokens * out.in, layer->width);
    tpp_status status =
        tpp__row_input(layer, out, work->grad_out,
                       tpp__param_of(layer, work, attention_of(layer)->out), grad_heads);
    if (status == TPP_OK)
        status =
            tpp__attention_heads_backward(layer, work, &saved, grad_heads, &split.grads, arena);
    if (status == TPP_OK)
        tpp__attention_turn_backward(layer, work, &saved, &split.grads, split.norms, work->scratch);
    return status;
}

static int32_t in_of(const tpp_layer *layer, const tpp__work *work, tpp__col_operand *operands) {
    const tpp__attention_layer *self = attention_of(layer);
    attention_split split = split_of(layer, work);
    for (int32_t i = 0; i < self->projections; i++)
        operands[i] = (tpp__col_operand){tpp__attention_cols(layer, i), split.grads.matrix[i],
                                         tpp__param_of(layer, work, self->weight[i])};
    return self->projections;
}

static tpp_status weight(const tpp_layer *layer, const tpp__work *work) {
    const tpp__attention_layer *self = attention_of(layer);
    attention_split split = split_of(layer, work);
    tpp_status status = TPP_OK;
    for (int32_t i = 0; i < self->projections && status == TPP_OK; i++)
        status = tpp__col_weight(layer, in_shape(layer, work, i), work->in, split.grads.matrix[i],
                                 tpp__grad_of(layer, work, self->weight[i]),
                                 tpp__grad_of(layer, work, self->bias[i]));
    int64_t sums = layer->count * self->head_cols;
    for (int32_t i = TPP__Q; i <= TPP__K && self->normed; i++)
        tpp__kern_add(layer->wide, sums, split.norms + i * sums * layer->wide_width,
                      tpp__grad_of(layer, work, self->norm[i]));
    if (status == TPP_OK)
        status = tpp__row_weight(layer, out_shape(layer, work), saved_of(layer, work).heads,
                                 work->grad_out, tpp__grad_of(layer, work, self->out),
                                 tpp__grad_of(layer, work, self->out_bias));
    return status;
}

/* Scores, and what is made of them. */
static void core_cost(const tpp_layer *layer, int32_t parts, tpp__cost *c) {
    const tpp__attention_layer *self = attention_of(layer);
    double tiles, seen, each = 2 * (double)(c->batch * self->heads) * (double)self->head_cols;
    double all = (double)c->seq * (double)c->seq * layer->context_size;
    tpp__attention_pairs(layer, c->seq, &tiles, &seen);
    int32_t done = parts & TPP__FORWARDS ? 2 : parts & TPP__INPUT ? 5 : 0; /* products */
    int32_t asked = c->repeated ? 0 : done == 5 ? 4 : done;
    c->sum.gemm_flops += done * each * tiles;
    c->sum.attention_flops += asked * each * seen;
    c->sum.attention_flops_full += asked * each * all;
    if (layer->context && parts & TPP__FORWARDS)
        tpp__attention_context_cost(layer, false, c);
    if (layer->context && parts & TPP__INPUT)
        tpp__attention_context_cost(layer, true, c);
}

static void cost(const tpp_layer *layer, int32_t parts, tpp__cost *c) {
    const tpp__attention_layer *self = attention_of(layer);
    core_cost(layer, parts, c);
    for (int32_t part = TPP__INPUT; part <= TPP__AGAIN; part *= 2) {
        for (int32_t i = 0; i < self->projections && (parts & part); i++)
            tpp__cost_product(c, c->tokens, tpp__attention_cols(layer, i), layer->in_cols);
        if (parts & part && part != TPP__AGAIN)
            tpp__cost_product(c, c->tokens, layer->out_cols, tpp__attention_heads_cols(layer));
    }
}

static const struct tpp__region_ops region = {needs_of, forward, out_of, bias_of,
                                              backward, in_of,   weight, cost};

const tpp__layer_ops tpp__attention_ops = {.needs = tpp__region_layer_needs,
                                           .forward = tpp__region_layer_forward,
                                           .backward = tpp__region_layer_backward,
                                           .serve = serve,
                                           .cost = tpp__region_layer_cost,
                                           .region = &region};
