/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/cost_impl.h"
#include "tp/mlp_impl.h"

#include "tp/region.h"

/* saved: what the first matrices give, one behind the other, and what goes into the second. A fused
 * gate lies beside its up block by block, as the shard map orders them. */
typedef struct mlp_saved {
    char *first;
    char *active;
} mlp_saved;

static const mlp *mlp_of(const tpp_layer *layer) {
    return (const mlp *)layer;
}

static char *take_first(const tpp_layer *layer, int64_t tokens, tpp__arena *arena) {
    const mlp *self = mlp_of(layer);
    return tpp__arena_take(arena, tokens * self->first_out * self->matrices, layer->width);
}

static char *take_active(const tpp_layer *layer, int64_t tokens, tpp__arena *arena) {
    return tpp__arena_take(arena, tokens * mlp_of(layer)->ffn, layer->width);
}

static mlp_saved take_saved(const tpp_layer *layer, int64_t tokens, tpp__arena *arena) {
    mlp_saved saved;
    saved.first = take_first(layer, tokens, arena);
    saved.active = take_active(layer, tokens, arena);
    return saved;
}

static void needs_of(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs) {
    int64_t tokens = batch * seq;
    tpp__arena saved = tpp__arena_counting();
    take_saved(layer, tokens, &saved);
    tpp__arena split = tpp__arena_counting(); /* gradient of `first` */
    take_first(layer, tokens, &split);
    tpp__arena active =
        tpp__arena_counting(); /* its gradient, when not written over by `first`'s */
    if (mlp_of(layer)->gated)
        take_active(layer, tokens, &active);
    needs->saved = saved.used;
    needs->split = split.used;
    needs->scratch = active.used;
    needs->overflow =
        !tpp__arena_fits(&saved) || !tpp__arena_fits(&split) || !tpp__arena_fits(&active);
}

static tpp__linear_shape first_shape(const tpp_layer *layer, const tpp__work *work) {
    return (tpp__linear_shape){work->tokens, layer->in_cols, mlp_of(layer)->first_out};
}

static tpp__linear_shape down_shape(const tpp_layer *layer, const tpp__work *work) {
    return (tpp__linear_shape){work->tokens, mlp_of(layer)->ffn, layer->out_cols};
}

/* The part of `first`, or of its gradient, that belongs to one of the first matrices. */
static char *part_of(const tpp_layer *layer, const tpp__work *work, char *first, int32_t matrix) {
    return first + matrix * work->tokens * mlp_of(layer)->first_out * layer->width;
}

/* Piece `piece` of the gated activation: a block of a fused matrix, or all of separate ones. */
static tpp__gated gated_piece(const tpp_layer *layer, const tpp__work *work, mlp_saved saved,
                              int32_t piece) {
    const mlp *self = mlp_of(layer);
    bool fused = self->matrices == 1;
    int64_t cols = fused ? self->ffn / layer->count : self->ffn, w = layer->width;
    const char *gate = saved.first + 2 * piece * cols * w;
    return (tpp__gated){
        .dtype = layer->dtype,
        .act = self->act,
        .rows = work->tokens,
        .cols = cols,
        .gate = gate,
        .up = gate + (fused ? 1 : work->tokens) * cols * w,
        .ld = self->first_out,
        .ldy = self->ffn,
    };
}

static int32_t pieces_of(const tpp_layer *layer) {
    return mlp_of(layer)->matrices == 1 ? layer->count : 1;
}

static void activate(const tpp_layer *layer, const tpp__work *work, mlp_saved saved) {
    const mlp *self = mlp_of(layer);
    if (!self->gated) {
        tpp__kern_act_forward(layer->dtype, self->act, work->tokens * self->ffn, saved.first,
                              saved.active);
        return;
    }
    for (int32_t i = 0; i < pieces_of(layer); i++) {
        tpp__gated piece = gated_piece(layer, work, saved, i);
        piece.y = saved.active + i * piece.cols * layer->width;
        tpp__kern_gated_forward(&piece);
    }
}

/* From the gradient of `active` to that of `first`, in work->split. Not gated: in place. */
static void activate_back(const tpp_layer *layer, const tpp__work *work, mlp_saved saved,
                          const char *grad) {
    const mlp *self = mlp_of(layer);
    if (!self->gated) {
        tpp__kern_act_backward(layer->dtype, self->act, work->tokens * self->ffn, saved.first, grad,
                               work->split);
        return;
    }
    for (int32_t i = 0; i < pieces_of(layer); i++) {
        tpp__gated piece = gated_piece(layer, work, saved, i);
        piece.dy = grad + i * piece.cols * layer->width;
        piece.dgate = work->split + ((const char *)piece.gate - saved.first);
        piece.dup = work->split + ((const char *)piece.up - saved.first);
        tpp__kern_gated_backward(&piece);
    }
}

static mlp_saved saved_of(const tpp_layer *layer, const tpp__work *work) {
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    return take_saved(layer, work->tokens, &memory);
}

static tpp_status forward(const tpp_layer *layer, const tpp__work *work) {
    const mlp *self = mlp_of(layer);
    mlp_saved saved = saved_of(layer, work);
    tpp_status status = TPP_OK;
    for (int32_t i = 0; i < self->matrices && status == TPP_OK; i++)
        status = tpp__col_forward(
            layer, first_shape(layer, work), work->in, tpp__param_of(layer, work, self->first[i]),
            tpp__param_of(layer, work, self->first_bias[i]), part_of(layer, work, saved.first, i));
    if (status == TPP_OK)
        activate(layer, work, saved);
    return status;
}

static tpp__row_operand out_of(const tpp_layer *layer, const tpp__work *work) {
    const mlp *self = mlp_of(layer);
    return (tpp__row_operand){self->ffn, saved_of(layer, work).active,
                              tpp__param_of(layer, work, self->down)};
}

static const void *bias_of(const tpp_layer *layer, const tpp__work *work) {
    return tpp__param_of(layer, work, mlp_of(layer)->down_bias);
}

/* The gradient of `first`. */
static tpp_status backward(const tpp_layer *layer, const tpp__work *work) {
    const mlp *self = mlp_of(layer);
    tpp__arena scratch = work->scratch;
    char *grad = self->gated ? take_active(layer, work->tokens, &scratch) : work->split;
    tpp_status status = tpp__row_input(layer, down_shape(layer, work), work->grad_out,
                                       tpp__param_of(layer, work, self->down), grad);
    if (status == TPP_OK)
        activate_back(layer, work, saved_of(layer, work), grad);
    return status;
}

static int32_t in_of(const tpp_layer *layer, const tpp__work *work, tpp__col_operand *operands) {
    const mlp *self = mlp_of(layer);
    for (int32_t i = 0; i < self->matrices; i++)
        operands[i] = (tpp__col_operand){self->first_out, part_of(layer, work, work->split, i),
                                         tpp__param_of(layer, work, self->first[i])};
    return self->matrices;
}

static tpp_status weight(const tpp_layer *layer, const tpp__work *work) {
    const mlp *self = mlp_of(layer);
    tpp_status status = TPP_OK;
    for (int32_t i = 0; i < self->matrices && status == TPP_OK; i++)
        status = tpp__col_weight(layer, first_shape(layer, work), work->in,
                                 part_of(layer, work, work->split, i),
                                 tpp__grad_of(layer, work, self->first[i]),
                                 tpp__grad_of(layer, work, self->first_bias[i]));
    if (status == TPP_OK)
        status = tpp__row_weight(layer, down_shape(layer, work), saved_of(layer, work).active,
                                 work->grad_out, tpp__grad_of(layer, work, self->down),
                                 tpp__grad_of(layer, work, self->down_bias));
    return status;
}

static void cost(const tpp_layer *layer, int32_t parts, tpp__cost *c) {
    const mlp *self = mlp_of(layer);
    int64_t first = self->first_out * self->matrices;
    for (int32_t part = TPP__INPUT; part <= TPP__AGAIN; part *= 2) {
        if (!(parts & part))
            continue;
        tpp__cost_product(c, c->tokens, first, layer->in_cols);
        if (part != TPP__AGAIN)
            tpp__cost_product(c, c->tokens, layer->out_cols, self->ffn);
    }
}

static const struct tpp__region_ops region = {needs_of, forward, out_of, bias_of,
                                              backward, in_of,   weight, cost};

const tpp__layer_ops tpp__mlp_ops = {.needs = tpp__region_layer_needs,
                                     .forward = tpp__region_layer_forward,
                                     .backward = tpp__region_layer_backward,
                                     .cost = tpp__region_layer_cost,
                                     .region = &region};
