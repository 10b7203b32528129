/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/drop.h"

#include <stdio.h>
#include <string.h>
#include <tpp/dropout.h>

typedef struct dropout {
    tpp_layer base;
    tpp__drop drop;
} dropout;

tpp_status tpp__check_rate(const char *field, double rate) {
    if (rate >= 0 && rate < 1)
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID,
                     "%s = %g is out of range; accepted: 0 (none), or a number below 1", field,
                     rate);
}

tpp__drop tpp__drop_make(const tpp_layer *layer, const char *name, double rate) {
    char whole[sizeof layer->prefix + TPP__NAME_MAX];
    snprintf(whole, sizeof whole, "%s%s", layer->prefix, name);
    return (tpp__drop){rate, tpp__name_key(whole)};
}

bool tpp__drops(const tpp__drop *drop, const tpp__work *work) {
    return drop->rate > 0 && work->dropout_seed != 0;
}

/* Row of a whole call that a row of the tokens here is: itself, unless sequences are spread over
 * env.context. */
static int64_t global_row(const tpp_layer *layer, const tpp__work *work, int64_t row) {
    if (!layer->context)
        return row;
    int64_t sequence = row / work->seq, whole = work->seq * layer->context_size;
    return sequence * whole +
           tpp_context_index(layer->context_size, layer->context_rank, work->seq, row % work->seq);
}

void tpp__drop_apply(const tpp_layer *layer, const tpp__drop *drop, const tpp__work *work,
                     int64_t cols, const void *x, void *y) {
    const tpp__dropout d = {.seed = work->dropout_seed,
                            .key = drop->key,
                            .scale = 1 / (1 - drop->rate),
                            .threshold = (uint32_t)(drop->rate * 0x1p32)};
    int64_t step = layer->context ? 1 : work->rows; /* rows that follow each other in the call */
    for (int64_t r = 0; r < work->rows; r += step) {
        int64_t skip = r * cols * layer->width;
        tpp__kern_dropout(layer->dtype, &d, global_row(layer, work, work->first + r), step, cols,
                          (const char *)x + skip, (char *)y + skip);
    }
}

static void needs_of(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs) {
    (void)layer, (void)batch, (void)seq, (void)needs; /* nothing */
}

static void pass(const tpp_layer *layer, const tpp__work *work, const void *x, void *y) {
    const tpp__drop *drop = &((const dropout *)layer)->drop;
    if (tpp__drops(drop, work))
        tpp__drop_apply(layer, drop, work, layer->in_cols, x, y);
    else if (work->rows > 0)
        memcpy(y, x, (size_t)(work->rows * layer->in_cols * layer->width));
}

static tpp_status forward(const tpp_layer *layer, const tpp__work *work) {
    if (work->out)
        pass(layer, work, work->in, work->out);
    return TPP_OK;
}

static tpp_status backward(const tpp_layer *layer, const tpp__work *work, int32_t parts) {
    if (parts & TPP__INPUT)
        pass(layer, work, work->grad_out, work->grad_in);
    return TPP_OK;
}

static const tpp__layer_ops ops = {.needs = needs_of, .forward = forward, .backward = backward};

tpp_status tpp_dropout_create(tpp_layer **out, const tpp_layer_env *env,
                              const tpp_dropout_desc *given) {
    tpp_dropout_desc desc;
    tpp_layer *layer;
    tpp_status status = tpp__sized_read(&desc, sizeof desc, 0, given, "desc");
    if (status == TPP_OK)
        status = tpp__check_positive("desc.cols", desc.cols);
    if (status == TPP_OK)
        status = tpp__check_rate("desc.rate", desc.rate);
    if (status == TPP_OK)
        status = tpp__layer_new(&layer, env, sizeof(dropout), &ops, 0, 0);
    if (status != TPP_OK)
        return tpp__layer_hand_over(out, NULL, status);
    layer->in_cols = layer->out_cols = desc.cols;
    layer->in_part = layer->out_part = layer->sequence;
    ((dropout *)layer)->drop = tpp__drop_make(layer, "", desc.rate);
    return tpp__layer_hand_over(out, layer, TPP_OK);
}
