/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/cost_impl.h"
#include "tp/logits.h"
#include "tp/operators.h"
#include "tp/partition_1d.h"

#include <math.h>
#include <tpp/linear.h>

typedef struct linear {
    tpp_layer base;
    tpp_linear_kind kind;
    int64_t vocab; /* > 0: logits with padding behind so many columns */
} linear;

enum { WEIGHT, BIAS };

static tpp__linear_shape shape_of(const tpp_layer *layer, const tpp__work *work) {
    return (tpp__linear_shape){work->tokens, layer->in_cols, layer->out_cols};
}

/* With sequence parallelism a column's scratch holds all rows of the input, and of its gradient, and
 * what the weight half needs is the former; a row's likewise of the output. */
static void needs_of(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs) {
    int64_t cols = layer->in_part ? layer->in_cols : layer->out_cols;
    int64_t sums =
        ((const linear *)layer)->kind == TPP_LINEAR_COLUMN ? layer->in_cols : layer->out_cols;
    tpp__arena split = tpp__arena_counting();
    tpp__room_take(layer, batch * seq, cols, &split);
    tpp__arena scratch = split;
    tpp__room_take(layer, batch * seq, cols, &scratch);
    tpp__block_sum_scratch(layer, batch * seq * sums, &scratch);
    needs->split = split.used;
    needs->scratch = scratch.used;
    needs->overflow = !tpp__arena_fits(&scratch);
}

static void *split_room(const tpp_layer *layer, const tpp__work *work, int64_t cols) {
    tpp__arena split = tpp__arena_over(work->split, INT64_MAX);
    return tpp__room_take(layer, work->tokens, cols, &split);
}

static tpp_status column_forward(const tpp_layer *layer, const tpp__work *work) {
    const linear *self = (const linear *)layer;
    if (!work->out)
        return TPP_OK;
    tpp__arena scratch = work->scratch;
    void *room = tpp__room_take(layer, work->tokens, layer->in_cols, &scratch);
    const void *in;
    tpp_status status = tpp__gather(layer, work->tokens, layer->in_cols, work->in, room, &in);
    if (status == TPP_OK)
        status =
            tpp__col_forward(layer, shape_of(layer, work), in, tpp__param_of(layer, work, WEIGHT),
                             tpp__param_of(layer, work, BIAS), work->out);
    if (status == TPP_OK && self->vocab > 0)
        tpp__logits_pad(layer, self->vocab, work->tokens, layer->out_cols, work->out,
                        (double)-INFINITY);
    return status;
}

static tpp_status column_backward(const tpp_layer *layer, const tpp__work *work, int32_t parts) {
    tpp__linear_shape shape = shape_of(layer, work);
    tpp__arena scratch = work->scratch;
    void *in = split_room(layer, work, shape.in);
    void *room = tpp__room_take(layer, shape.tokens, shape.in, &scratch);
    void *partial = room ? room : work->grad_in;
    tpp_request gather = {0};
    tpp__sum sum = {0};
    tpp_status status = TPP_OK;
    if (parts & TPP__INPUT) {
        status = tpp__gather_start(layer, shape.tokens, shape.in, work->in, in, &gather);
        if (status == TPP_OK)
            status = tpp__col_input(layer, shape, work->grad_out,
                                    tpp__param_of(layer, work, WEIGHT), partial, scratch);
        if (status == TPP_OK)
            status =
                tpp__f_backward_start(layer, shape.tokens, shape.in, partial, work->grad_in, &sum);
    }
    status = tpp__wait_for(&gather, status);
    if (status == TPP_OK && (parts & TPP__WEIGHT))
        status =
            tpp__col_weight(layer, shape, in ? in : work->in, work->grad_out,
                            tpp__grad_of(layer, work, WEIGHT), tpp__grad_of(layer, work, BIAS));
    return tpp__f_backward_finish(&sum, status);
}

static tpp_status row_forward(const tpp_layer *layer, const tpp__work *work) {
    if (!work->out)
        return TPP_OK;
    tpp__linear_shape shape = shape_of(layer, work);
    tpp__arena scratch = work->scratch;
    void *room = tpp__room_take(layer, shape.tokens, shape.out, &scratch);
    void *partial = room ? room : work->out;
    tpp_status status = tpp__row_forward(layer, shape, work->in, tpp__param_of(layer, work, WEIGHT),
                                         partial, scratch);
    if (status == TPP_OK)
        status = tpp__g_forward(layer, shape.tokens, shape.out, partial, work->out);
    const void *bias = tpp__param_of(layer, work, BIAS);
    if (status == TPP_OK && bias)
        tpp__kern_bias_add(layer->dtype, work->rows, shape.out, bias, work->out, shape.out);
    return status;
}

static tpp_status row_backward(const tpp_layer *layer, const tpp__work *work, int32_t parts) {
    tpp__linear_shape shape = shape_of(layer, work);
    void *room = split_room(layer, work, shape.out);
    const void *grad_out = room ? room : work->grad_out;
    tpp_status status = TPP_OK;
    if (parts & TPP__INPUT) {
        status = tpp__gather(layer, shape.tokens, shape.out, work->grad_out, room, &grad_out);
        if (status == TPP_OK)
            status = tpp__row_input(layer, shape, grad_out, tpp__param_of(layer, work, WEIGHT),
                                    work->grad_in);
    }
    if (status == TPP_OK && (parts & TPP__WEIGHT))
        status =
            tpp__row_weight(layer, shape, work->in, grad_out, tpp__grad_of(layer, work, WEIGHT),
                            tpp__grad_of(layer, work, BIAS));
    return status;
}

/* Each part is one product. Without the output forward does nothing. */
static void cost(const tpp_layer *layer, int32_t parts, tpp__cost *c) {
    bool column = ((const linear *)layer)->kind == TPP_LINEAR_COLUMN;
    for (int32_t part = TPP__INPUT; part <= TPP__FORWARD; part *= 2)
        if (parts & part)
            tpp__cost_product(c, c->tokens, layer->out_cols, layer->in_cols);
    if (column && (parts & (TPP__FORWARD | TPP__INPUT)))
        tpp__cost_gather(layer, c, layer->in_cols);
    if (column && (parts & TPP__INPUT))
        tpp__cost_sum(layer, c, layer->in_cols);
    if (!column && (parts & TPP__FORWARD))
        tpp__cost_sum(layer, c, layer->out_cols);
    if (!column && (parts & TPP__INPUT))
        tpp__cost_gather(layer, c, layer->out_cols);
}

static tpp_status check_desc(const tpp_linear_desc *desc) {
    if (desc->kind != TPP_LINEAR_COLUMN && desc->kind != TPP_LINEAR_ROW)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.kind = %d is not accepted; accepted: 1 (column), 2 (row)",
                         desc->kind);
    if (desc->kind == TPP_LINEAR_ROW && (desc->flags & TPP_LINEAR_PAD))
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.flags has TPP_LINEAR_PAD, which is for desc.kind = 1 (column) only");
    tpp_status status = tpp__check_positive("desc.in", desc->in);
    return status == TPP_OK ? tpp__check_positive("desc.out", desc->out) : status;
}

static tpp_status fill_column(tpp_layer *layer, const tpp_linear_desc *desc, double std) {
    int64_t out = desc->flags & TPP_LINEAR_PAD ? tpp__whole_blocks(layer, desc->out)
                                               : tpp__padded(layer, desc->out);
    tpp_status status = tpp__check_blocks(layer, "desc.out", out);
    if (status != TPP_OK)
        return status;
    if (desc->flags & TPP_LINEAR_PAD)
        ((linear *)layer)->vocab = desc->out;
    layer->in_cols = desc->in;
    layer->out_cols = out / layer->ranks;
    tpp__layer_add_param(layer, "weight",
                         tpp__shard_axis(layer, desc->in, out, TPP_AXIS_COLS, 1, desc->out),
                         TPP_INIT_NORMAL, std, 0);
    if (!(desc->flags & TPP_LINEAR_NO_BIAS))
        tpp__layer_add_param(layer, "bias",
                             tpp__shard_axis(layer, 1, out, TPP_AXIS_COLS, 1, desc->out),
                             TPP_INIT_ZERO, 0, TPP_PARAM_NO_DECAY);
    return TPP_OK;
}

static tpp_status fill_row(tpp_layer *layer, const tpp_linear_desc *desc, double std) {
    int64_t in = tpp__padded(layer, desc->in);
    tpp_status status = tpp__check_blocks(layer, "desc.in", in);
    if (status != TPP_OK)
        return status;
    layer->in_cols = in / layer->ranks;
    layer->out_cols = desc->out;
    tpp__layer_add_param(layer, "weight",
                         tpp__shard_axis(layer, in, desc->out, TPP_AXIS_ROWS, 1, desc->in),
                         TPP_INIT_NORMAL, std, 0);
    if (!(desc->flags & TPP_LINEAR_NO_BIAS))
        tpp__layer_add_param(layer, "bias", tpp__shard_whole(1, desc->out), TPP_INIT_ZERO, 0,
                             TPP_PARAM_NO_DECAY);
    return TPP_OK;
}

static const tpp__layer_ops column_ops = {
    .needs = needs_of, .forward = column_forward, .backward = column_backward, .cost = cost};
static const tpp__layer_ops row_ops = {
    .needs = needs_of, .forward = row_forward, .backward = row_backward, .cost = cost};

tpp_status tpp_linear_create(tpp_layer **out, const tpp_layer_env *env,
                             const tpp_linear_desc *given) {
    tpp_linear_desc desc;
    double std;
    tpp_status status =
        tpp__sized_read(&desc, sizeof desc, TPP_LINEAR_NO_BIAS | TPP_LINEAR_PAD, given, "desc");
    if (status == TPP_OK)
        status = check_desc(&desc);
    if (status == TPP_OK)
        status = tpp__check_std("desc.init_std", desc.init_std, 0.02, &std);
    if (status != TPP_OK)
        return tpp__layer_hand_over(out, NULL, status);
    bool column = desc.kind == TPP_LINEAR_COLUMN;
    tpp_layer *layer;
    status = tpp__layer_new(&layer, env, sizeof(linear), column ? &column_ops : &row_ops, 2, 0);
    if (status != TPP_OK)
        return tpp__layer_hand_over(out, NULL, status);
    ((linear *)layer)->kind = desc.kind;
    layer->in_part = column && layer->sequence;
    layer->out_part = !column && layer->sequence;
    status = column ? fill_column(layer, &desc, std) : fill_row(layer, &desc, std);
    return tpp__layer_hand_over(out, layer, status);
}
