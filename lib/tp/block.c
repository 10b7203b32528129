/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/cost_impl.h"
#include "tp/block_impl.h"

#include <tpp/attention.h>
#include <tpp/block.h>
#include <tpp/mlp.h>
#include <tpp/norm.h>
#include <tpp/recompute.h>

/* r = x + attention(norm1(x)); y = r + mlp(norm2(r)). */

enum { PARTS = TPP__PARTS };

/* Three matrices [rows, hidden] and a piece of memory per part. As values: norm1's output, r,
 * norm2's output. As gradients: of norm1's output, of r, of norm2's output. */
typedef struct block_memory {
    char *normed1, *middle, *normed2;
    char *own[PARTS];
    tpp__arena rest; /* without backward: scratch behind the matrices */
} block_memory;

/* `saved` chooses which of a part's needs lies behind the matrices: saved, or split. */
static block_memory take(const tpp_layer *block, const tpp__needs needs[PARTS], int64_t tokens,
                         bool saved, tpp__arena *arena) {
    block_memory memory;
    int64_t elements = tpp__block_room(block, tokens);
    memory.normed1 = tpp__arena_take(arena, elements, block->width);
    memory.middle = tpp__arena_take(arena, elements, block->width);
    memory.normed2 = tpp__arena_take(arena, elements, block->width);
    for (int32_t i = 0; i < PARTS; i++)
        memory.own[i] = tpp__arena_take(arena, saved ? needs[i].saved : needs[i].split, 1);
    return memory;
}

static void part_needs(const tpp_layer *block, int64_t batch, int64_t seq,
                       tpp__needs needs[PARTS]) {
    for (int32_t i = 0; i < PARTS; i++)
        needs[i] = tpp__layer_needs(block->children[i], batch, seq);
}

static void needs_of(const tpp_layer *block, int64_t batch, int64_t seq, tpp__needs *needs) {
    tpp__needs parts[PARTS];
    tpp__arena saved = tpp__arena_counting(), split = saved, scratch = saved;
    int64_t most = 0;
    part_needs(block, batch, seq, parts);
    take(block, parts, batch * seq, true, &saved);
    take(block, parts, batch * seq, false, &split);
    int32_t own = tpp__block_of(block)->after_mlp.rate > 0 ? 4 : 3;
    for (int32_t i = 0; i < own; i++) /* a whole backward keeps the three gradients in scratch */
        tpp__arena_take(&scratch, tpp__block_room(block, batch * seq), block->width);
    for (int32_t i = 0; i < PARTS; i++) {
        most = parts[i].scratch > most ? parts[i].scratch : most;
        tpp__needs_join(needs, &parts[i]);
    }
    tpp__arena_take(&scratch, most, 1);
    needs->saved = saved.used;
    needs->split = split.used;
    needs->scratch = scratch.used;
    needs->overflow |=
        !tpp__arena_fits(&saved) || !tpp__arena_fits(&split) || !tpp__arena_fits(&scratch);
}

static void serve(const tpp_layer *block, int64_t batch, int64_t seq, int64_t cache_seq,
                  tpp__serve *out) {
    tpp__arena scratch = tpp__arena_counting();
    tpp__needs none[PARTS] = {{0}};
    take(block, none, batch * seq, true, &scratch);
    for (int32_t i = 0; i < PARTS; i++) {
        tpp__serve part = tpp__layer_serve(block->children[i], batch, seq, cache_seq);
        tpp__serve_join(out, &part); /* only the attention has a cache */
    }
    tpp__arena_take(&scratch, out->scratch, 1);
    out->scratch = scratch.used;
    out->overflow |= !tpp__arena_fits(&scratch);
}

tpp__work tpp__block_child(const tpp_layer *block, const tpp__work *work, int32_t child) {
    tpp__work own = *work;
    own.params = work->params + block->child_state[child];
    own.grads = work->grads ? work->grads + block->child_grads[child] : NULL;
    return own;
}

/* The work of a part on `in`, `out` or the gradients of these. */
static tpp__work part_work(const tpp_layer *block, const tpp__work *work, const block_memory *saved,
                           int32_t part) {
    tpp__work own = tpp__block_child(block, work, part);
    const void *ins[PARTS] = {work->in, saved->normed1, saved->middle, saved->normed2};
    own.in = ins[part];
    own.saved = saved->own[part];
    return own;
}

static tpp_status run_forward(const tpp_layer *block, const tpp__work *work,
                              const block_memory *saved, int32_t part, void *out) {
    tpp__work own = part_work(block, work, saved, part);
    own.out = out;
    if (work->no_grad)
        own.scratch = saved->rest;
    return tpp__layer_forward(block->children[part], &own);
}

void tpp__block_join(const tpp_layer *block, const tpp__work *work, const tpp__drop *drop,
                     const void *x, void *y) {
    if (tpp__drops(drop, work))
        tpp__drop_apply(block, drop, work, block->in_cols, y, y);
    tpp__kern_add(block->dtype, tpp__block_elements(block, work), x, y);
}

static tpp_status forward(const tpp_layer *block, const tpp__work *work) {
    tpp__needs needs[PARTS] = {{0}};
    tpp__arena arena = work->no_grad ? work->scratch : tpp__arena_over(work->saved, INT64_MAX);
    if (!work->no_grad)
        part_needs(block, work->batch, work->seq, needs);
    block_memory saved = take(block, needs, work->tokens, true, &arena);
    saved.rest = arena;
    tpp_status status = run_forward(block, work, &saved, TPP__NORM1, saved.normed1);
    if (status == TPP_OK)
        status = run_forward(block, work, &saved, TPP__ATTENTION, saved.middle);
    if (status == TPP_OK) {
        tpp__block_join(block, work, &tpp__block_of(block)->after_attention, work->in,
                        saved.middle);
        status = run_forward(block, work, &saved, TPP__NORM2, saved.normed2);
    }
    if (status == TPP_OK)
        status = run_forward(block, work, &saved, TPP__MLP, work->out);
    if (status == TPP_OK && work->out)
        tpp__block_join(block, work, &tpp__block_of(block)->after_mlp, saved.middle, work->out);
    return status;
}

/* What a backward works with. */
typedef struct block_back {
    const tpp_layer *block;
    const tpp__work *work;
    block_memory saved, grads;
    char *dropped; /* gradient of a branch's output where something is dropped */
    tpp__arena scratch;
    int32_t parts;
} block_back;

static tpp_status run_backward(const block_back *b, int32_t part, const void *grad_out,
                               void *grad_in) {
    tpp__work own = part_work(b->block, b->work, &b->saved, part);
    own.grad_out = grad_out;
    own.grad_in = grad_in;
    own.split = b->grads.own[part];
    own.scratch = b->scratch;
    return tpp__layer_backward(b->block->children[part], &own, b->parts);
}

/* The gradient of a branch's output from that of the sum. */
static const void *through(const block_back *b, const tpp__drop *drop, const void *grad) {
    if (!tpp__drops(drop, b->work))
        return grad;
    tpp__drop_apply(b->block, drop, b->work, b->block->in_cols, grad, b->dropped);
    return b->dropped;
}

/* grad_out + what a norm gave is the gradient of the residual's other end. */
static void add_residual(const block_back *b, const void *grad_out, void *grad) {
    if (b->parts & TPP__INPUT)
        tpp__kern_add(b->block->dtype, tpp__block_elements(b->block, b->work), grad_out, grad);
}

static tpp_status backward(const tpp_layer *block, const tpp__work *work, int32_t parts) {
    block_back b = {.block = block, .work = work, .scratch = work->scratch, .parts = parts};
    const tpp__block *self = tpp__block_of(block);
    int64_t elements = tpp__block_room(block, work->tokens);
    tpp__needs needs[PARTS];
    part_needs(block, work->batch, work->seq, needs);
    tpp__arena saved = tpp__arena_over(work->saved, INT64_MAX);
    b.saved = take(block, needs, work->tokens, true, &saved);
    if (self->after_mlp.rate > 0)
        b.dropped = tpp__arena_take(&b.scratch, elements, block->width);
    if (parts == TPP__BOTH) {
        b.grads.normed1 = tpp__arena_take(&b.scratch, elements, block->width);
        b.grads.middle = tpp__arena_take(&b.scratch, elements, block->width);
        b.grads.normed2 = tpp__arena_take(&b.scratch, elements, block->width);
    } else {
        tpp__arena split = tpp__arena_over(work->split, INT64_MAX);
        b.grads = take(block, needs, work->tokens, false, &split);
    }
    tpp_status status =
        run_backward(&b, TPP__MLP, through(&b, &self->after_mlp, work->grad_out), b.grads.normed2);
    if (status == TPP_OK)
        status = run_backward(&b, TPP__NORM2, b.grads.normed2, b.grads.middle);
    if (status == TPP_OK) {
        add_residual(&b, work->grad_out, b.grads.middle);
        status = run_backward(&b, TPP__ATTENTION,
                              through(&b, &self->after_attention, b.grads.middle), b.grads.normed1);
    }
    if (status == TPP_OK)
        status = run_backward(&b, TPP__NORM1, b.grads.normed1, work->grad_in);
    if (status == TPP_OK)
        add_residual(&b, b.grads.middle, work->grad_in);
    return status;
}

static void cost(const tpp_layer *block, int32_t parts, tpp__cost *c) {
    for (int32_t i = 0; i < PARTS; i++) {
        bool inner = parts == TPP__AGAIN && i != TPP__MLP;
        tpp__layer_cost(block->children[i], inner ? TPP__FORWARD : parts, c);
    }
}

static const tpp__layer_ops ops = {
    .needs = needs_of, .forward = forward, .backward = backward, .cost = cost, .serve = serve};

static tpp_status make_norm(const tpp_layer *block, const tpp_block_desc *desc, const char *name,
                            tpp_layer **out) {
    char prefix[128];
    tpp_layer_env own = tpp__layer_child_env(block, name, prefix);
    tpp_norm_desc norm = {.size = sizeof norm,
                          .flags = desc->flags & TPP_BLOCK_NO_BIAS ? TPP_NORM_NO_BIAS : 0,
                          .cols = desc->hidden,
                          .epsilon = desc->epsilon,
                          .kind = desc->norm};
    return tpp_norm_create(out, &own, &norm);
}

/* The layer in *out, which is made or not as `status` tells, becomes one that is computed again. */
static tpp_status wrap(tpp_layer **out, tpp_status status) {
    if (status != TPP_OK)
        return status;
    tpp_layer *inner = *out;
    status = tpp_recompute_create(out, inner);
    if (status != TPP_OK)
        tpp_layer_destroy(inner);
    return status;
}

/* `to` where the block has `from`. */
static uint32_t flag(const tpp_block_desc *desc, uint32_t from, uint32_t to) {
    return desc->flags & from ? to : 0;
}

static tpp_status make_attention(const tpp_layer *block, const tpp_block_desc *desc,
                                 tpp_layer **out) {
    char prefix[128];
    tpp_layer_env own = tpp__layer_child_env(block, "attn.", prefix);
    uint32_t bias = desc->flags & TPP_BLOCK_OUT_BIAS
                        ? 0
                        : flag(desc, TPP_BLOCK_NO_BIAS, TPP_ATTENTION_NO_BIAS) |
                              flag(desc, TPP_BLOCK_QKV_BIAS, TPP_ATTENTION_QKV_BIAS);
    tpp_attention_desc attention = {
        .size = sizeof attention,
        .flags = bias | flag(desc, TPP_BLOCK_SEPARATE_QKV, TPP_ATTENTION_SEPARATE_QKV) |
                 flag(desc, TPP_BLOCK_QK_NORM, TPP_ATTENTION_QK_NORM) |
                 flag(desc, TPP_BLOCK_FULL, TPP_ATTENTION_FULL),
        .hidden = desc->hidden,
        .heads = desc->heads,
        .head_cols = desc->head_cols,
        .init_std = desc->init_std,
        .out_std = desc->out_std,
        .kv_heads = desc->kv_heads,
        .rope = desc->rope,
        .window = desc->window,
        .context = desc->context,
        .norm_epsilon = desc->epsilon};
    tpp_status status = tpp_attention_create(out, &own, &attention);
    return desc->recompute == TPP_RECOMPUTE_SELECTIVE ? wrap(out, status) : status;
}

static tpp_status make_mlp(const tpp_layer *block, const tpp_block_desc *desc, tpp_layer **out) {
    char prefix[128];
    tpp_layer_env own = tpp__layer_child_env(block, "mlp.", prefix);
    uint32_t bias =
        desc->flags & TPP_BLOCK_MLP_BIAS ? 0 : flag(desc, TPP_BLOCK_NO_BIAS, TPP_MLP_NO_BIAS);
    tpp_mlp_desc mlp = {.size = sizeof mlp,
                        .flags = bias | flag(desc, TPP_BLOCK_SEPARATE_GATE, TPP_MLP_SEPARATE_GATE),
                        .hidden = desc->hidden,
                        .ffn = desc->ffn,
                        .act = desc->act,
                        .init_std = desc->init_std,
                        .out_std = desc->out_std};
    return tpp_mlp_create(out, &own, &mlp);
}

static tpp_status make_part(const tpp_layer *block, const tpp_block_desc *desc, int32_t part,
                            tpp_layer **out) {
    switch (part) {
    case TPP__NORM1:
        return make_norm(block, desc, "ln_1.", out);
    case TPP__ATTENTION:
        return make_attention(block, desc, out);
    case TPP__NORM2:
        return make_norm(block, desc, "ln_2.", out);
    default:
        return make_mlp(block, desc, out);
    }
}

static tpp_status check_recompute(const tpp_block_desc *desc) {
    if (desc->recompute < 0 || desc->recompute > TPP_RECOMPUTE_FULL)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.recompute = %d is not accepted; accepted: 0 (none), 1 (selective), "
                         "2 (full)",
                         desc->recompute);
    if (desc->recompute == TPP_RECOMPUTE_SELECTIVE && (desc->flags & TPP_BLOCK_PARALLEL))
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.recompute = 1 (selective) with TPP_BLOCK_PARALLEL, whose attention "
                         "is one with the MLP; accepted: 0 (none), 2 (full)");
    return TPP_OK;
}

static tpp_status check_desc(const tpp_block_desc *desc) {
    const uint32_t exceptions = TPP_BLOCK_QKV_BIAS | TPP_BLOCK_OUT_BIAS | TPP_BLOCK_MLP_BIAS;
    tpp_status status = tpp__check_positive("desc.hidden", desc->hidden);
    if (status == TPP_OK)
        status = tpp__check_rate("desc.dropout", desc->dropout);
    if (status == TPP_OK)
        status = check_recompute(desc);
    if (status == TPP_OK && desc->norm != TPP_NORM_LAYER && desc->norm != TPP_NORM_RMS)
        status = tpp__fail(TPP_ERR_INVALID,
                           "desc.norm = %d is not accepted; accepted: 0 (LayerNorm), 1 (RMSNorm)",
                           desc->norm);
    if (status == TPP_OK && (desc->flags & exceptions) && !(desc->flags & TPP_BLOCK_NO_BIAS))
        status = tpp__fail(TPP_ERR_INVALID, "desc.flags has QKV_BIAS, OUT_BIAS or MLP_BIAS without "
                                            "TPP_BLOCK_NO_BIAS, whose exceptions they are");
    if (status == TPP_OK && (desc->flags & TPP_BLOCK_OUT_BIAS) &&
        !(desc->flags & TPP_BLOCK_QKV_BIAS))
        status = tpp__fail(TPP_ERR_INVALID,
                           "desc.flags has TPP_BLOCK_OUT_BIAS without TPP_BLOCK_QKV_BIAS");
    if (status == TPP_OK && (desc->flags & TPP_BLOCK_TWO_NORMS) &&
        !(desc->flags & TPP_BLOCK_PARALLEL))
        status = tpp__fail(TPP_ERR_INVALID, "desc.flags has TPP_BLOCK_TWO_NORMS without "
                                            "TPP_BLOCK_PARALLEL; other blocks always have two");
    return status;
}

static void fill(tpp_layer *layer, const tpp_block_desc *desc) {
    tpp__block *block = (tpp__block *)layer;
    layer->in_cols = layer->out_cols = desc->hidden;
    layer->in_part = layer->out_part = layer->sequence;
    bool parallel = desc->flags & TPP_BLOCK_PARALLEL;
    bool one_norm = parallel && !(desc->flags & TPP_BLOCK_TWO_NORMS);
    block->parts = one_norm ? PARTS - 1 : PARTS;
    block->after_attention =
        tpp__drop_make(layer, parallel ? "dropout" : "attn.dropout", desc->dropout);
    block->after_mlp = tpp__drop_make(layer, "mlp.dropout", desc->dropout);
}

tpp_status tpp_block_create(tpp_layer **out, const tpp_layer_env *env,
                            const tpp_block_desc *given) {
    tpp_block_desc desc;
    tpp_layer *block;
    tpp_status status =
        tpp__sized_read(&desc, sizeof desc, 2 * TPP_BLOCK_TWO_NORMS - 1, given, "desc");
    if (status == TPP_OK)
        status = check_desc(&desc);
    bool parallel = status == TPP_OK && desc.flags & TPP_BLOCK_PARALLEL;
    if (status == TPP_OK)
        status = tpp__layer_new(&block, env, sizeof(tpp__block),
                                parallel ? &tpp__block_parallel_ops : &ops, 20, PARTS);
    if (status != TPP_OK)
        return tpp__layer_hand_over(out, NULL, status);
    fill(block, &desc);
    for (int32_t i = 0; i < tpp__block_of(block)->parts && status == TPP_OK; i++) {
        tpp_layer *part;
        status =
            make_part(block, &desc, i + 1 == tpp__block_of(block)->parts ? TPP__MLP : i, &part);
        if (status == TPP_OK)
            tpp__layer_adopt(block, part);
    }
    status = tpp__layer_hand_over(out, block, status);
    return desc.recompute == TPP_RECOMPUTE_FULL ? wrap(out, status) : status;
}
