/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/cost_impl.h"
#include "tp/head_impl.h"
#include "tp/logits.h"
#include "tp/operators.h"

#include <math.h>

const void *tpp__head_table(const tpp_layer *layer, const tpp__work *work) {
    return layer->tied ? work->tied_params : tpp__param_of(layer, work, 0);
}

void *tpp__head_table_grad(const tpp_layer *layer, const tpp__work *work) {
    return layer->tied ? work->tied_grads : tpp__grad_of(layer, work, 0);
}

static void needs_of(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs) {
    tpp__arena split = tpp__arena_counting();
    tpp__room_take(layer, batch * seq, layer->in_cols, &split); /* the input */
    tpp__arena scratch = split;
    tpp__room_take(layer, batch * seq, layer->in_cols, &scratch); /* and its gradient */
    tpp__block_sum_scratch(layer, batch * seq * layer->in_cols, &scratch);
    needs->split = split.used;
    needs->scratch = scratch.used;
    needs->overflow = !tpp__arena_fits(&scratch);
}

static tpp_status forward(const tpp_layer *layer, const tpp__work *work) {
    if (!work->out)
        return TPP_OK;
    tpp__arena scratch = work->scratch;
    void *room = tpp__room_take(layer, work->tokens, layer->in_cols, &scratch);
    const void *in;
    tpp_status status = tpp__gather(layer, work->tokens, layer->in_cols, work->in, room, &in);
    if (status == TPP_OK)
        status = tpp__row_input(layer, tpp__head_shape(layer, work->tokens), in,
                                tpp__head_table(layer, work), work->out);
    if (status == TPP_OK)
        tpp__logits_pad(layer, ((const tpp__head *)layer)->vocab, work->tokens, layer->out_cols,
                        work->out, (double)-INFINITY);
    return status;
}

static tpp_status backward(const tpp_layer *layer, const tpp__work *work, int32_t parts) {
    tpp__linear_shape shape = tpp__head_shape(layer, work->tokens);
    tpp__arena scratch = work->scratch, split = tpp__arena_over(work->split, INT64_MAX);
    void *in = tpp__room_take(layer, shape.tokens, shape.out, &split);
    void *room = tpp__room_take(layer, shape.tokens, shape.out, &scratch);
    void *partial = room ? room : work->grad_in;
    tpp_request gather = {0};
    tpp__sum sum = {0};
    tpp_status status = TPP_OK;
    if (parts & TPP__INPUT) {
        status = tpp__gather_start(layer, shape.tokens, shape.out, work->in, in, &gather);
        if (status == TPP_OK)
            status = tpp__row_forward(layer, shape, work->grad_out, tpp__head_table(layer, work),
                                      partial, scratch);
        if (status == TPP_OK)
            status =
                tpp__f_backward_start(layer, shape.tokens, shape.out, partial, work->grad_in, &sum);
    }
    status = tpp__wait_for(&gather, status);
    if (status == TPP_OK && (parts & TPP__WEIGHT))
        status = tpp__row_weight(layer, shape, work->grad_out, in ? in : work->in,
                                 tpp__head_table_grad(layer, work), NULL);
    return tpp__f_backward_finish(&sum, status);
}

static void cost(const tpp_layer *layer, int32_t parts, tpp__cost *c) {
    for (int32_t part = TPP__INPUT; part <= TPP__FORWARD; part *= 2)
        if (parts & part)
            tpp__cost_product(c, c->tokens, ((const tpp__head *)layer)->rows, layer->in_cols);
    if (parts & (TPP__FORWARD | TPP__INPUT))
        tpp__cost_gather(layer, c, layer->in_cols);
    if (parts & TPP__INPUT)
        tpp__cost_sum(layer, c, layer->in_cols);
}

static const tpp__layer_ops ops = {
    .needs = needs_of, .forward = forward, .backward = backward, .cost = cost};

static const tpp__layer_ops *ops_of(const tpp_head_desc *desc) {
    if (!desc->loss)
        return &ops;
    return desc->flags & TPP_HEAD_EARLY ? &tpp__head_early_ops : &tpp__head_loss_ops;
}

static tpp_status check_desc(tpp_head_desc *desc) {
    tpp_status status = tpp__check_positive("desc.hidden", desc->hidden);
    if (status == TPP_OK)
        status = tpp__check_positive("desc.vocab", desc->vocab);
    if (status == TPP_OK && desc->block != 0)
        status = tpp__check_positive("desc.block", desc->block);
    if (status == TPP_OK)
        status = tpp__check_std("desc.init_std", desc->init_std, 0.02, &desc->init_std);
    if (status == TPP_OK && desc->tied && desc->flags & TPP_HEAD_COPY)
        status =
            tpp__fail(TPP_ERR_INVALID,
                      "desc.flags has TPP_HEAD_COPY, and desc.tied is set; a head that uses an "
                      "embedding's table holds no copy of it");
    if (status == TPP_OK && desc->block != 0 && !desc->loss)
        status =
            tpp__fail(TPP_ERR_INVALID,
                      "desc.block = %lld without desc.loss; only a fused head works in blocks, "
                      "accepted: 0",
                      (long long)desc->block);
    if (status == TPP_OK && desc->flags & TPP_HEAD_EARLY && !desc->loss)
        status =
            tpp__fail(TPP_ERR_INVALID,
                      "desc.flags has TPP_HEAD_EARLY without desc.loss; only a fused head makes "
                      "gradients in forward");
    desc->block = desc->block ? desc->block : 256;
    return status;
}

static tpp_status read_loss(const tpp_head_desc *desc, tpp__loss_rule *rule) {
    if (!desc->loss)
        return TPP_OK;
    tpp_status status = tpp__loss_read(rule, desc->loss, "desc.loss");
    if (status == TPP_OK && desc->flags & TPP_HEAD_EARLY && rule->reduction == TPP_LOSS_TOKENS)
        status =
            tpp__fail(TPP_ERR_INVALID,
                      "desc.loss.reduction = 0 (tokens) with TPP_HEAD_EARLY; accepted: 1 (sum), "
                      "2 (mean), whose gradient is one number");
    if (status == TPP_OK && rule->vocab != desc->vocab)
        status = tpp__fail(TPP_ERR_INVALID, "desc.loss.vocab = %lld; it must be desc.vocab = %lld",
                           (long long)rule->vocab, (long long)desc->vocab);
    return status;
}

/* The embedding must fit; only the chain that is made later can tell whether it is there. */
static tpp_status check_tied(const tpp_layer *layer, const tpp_head_desc *desc) {
    const tpp_layer *tied = desc->tied;
    if (!tied || !tpp__is_embedding(tied))
        return tied ? tpp__fail(TPP_ERR_INVALID, "desc.tied is no embedding") : TPP_OK;
    if (tied->comm != layer->comm || tied->dtype != layer->dtype || tied->blocks != layer->blocks ||
        tied->sequence != layer->sequence)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.tied was made with another comm, dtype, blocks or TPP_ENV_SEQUENCE "
                         "than env");
    const tpp_shard *table = &tied->params[0].shard;
    if (table->valid != desc->vocab || table->cols != desc->hidden)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.tied has a table of [%lld, %lld]; it must be [desc.vocab = %lld, "
                         "desc.hidden = %lld]",
                         (long long)table->valid, (long long)table->cols, (long long)desc->vocab,
                         (long long)desc->hidden);
    return TPP_OK;
}

static void fill(tpp_layer *layer, const tpp_head_desc *desc) {
    tpp__head *self = (tpp__head *)layer;
    int64_t padded = tpp__whole_blocks(layer, desc->vocab);
    bool copy = desc->flags & TPP_HEAD_COPY;
    self->vocab = desc->vocab;
    self->rows = padded / layer->ranks;
    self->block = desc->block;
    layer->in_cols = desc->hidden;
    layer->in_part = layer->sequence;
    layer->out_cols = self->rows;
    layer->tied = desc->tied;
    if (desc->loss)
        tpp__loss_ends(layer, &self->rule);
    if (!desc->tied)
        tpp__layer_add_param(
            layer, copy ? "tokens.weight" : "weight",
            tpp__shard_axis(layer, padded, desc->hidden, TPP_AXIS_ROWS, 1, desc->vocab),
            TPP_INIT_NORMAL, desc->init_std, copy ? TPP_PARAM_TIED | TPP_PARAM_COPY : 0);
}

tpp_status tpp_head_create(tpp_layer **out, const tpp_layer_env *env, const tpp_head_desc *given) {
    tpp_head_desc desc;
    tpp__loss_rule rule = {0};
    tpp_layer *layer;
    tpp_status status =
        tpp__sized_read(&desc, sizeof desc, TPP_HEAD_COPY | TPP_HEAD_EARLY, given, "desc");
    if (status == TPP_OK)
        status = check_desc(&desc);
    if (status == TPP_OK)
        status = read_loss(&desc, &rule);
    if (status == TPP_OK)
        status = tpp__layer_new(&layer, env, sizeof(tpp__head), ops_of(&desc), 1, 0);
    if (status != TPP_OK)
        return tpp__layer_hand_over(out, NULL, status);
    ((tpp__head *)layer)->rule = rule;
    status = check_tied(layer, &desc);
    if (status == TPP_OK)
        fill(layer, &desc);
    return tpp__layer_hand_over(out, layer, status);
}
