/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/cost_impl.h"
#include "tp/operators.h"
#include "tp/sequences.h"

#include <string.h>
#include <tpp/embedding.h>

typedef struct embedding {
    tpp_layer base;
    int64_t vocab;
    int64_t first, rows; /* ids of this rank's part of the table */
    int64_t positions;
} embedding;

enum { TOKENS, POSITIONS };

/* With sequence parallelism forward's scratch holds the output of all tokens, and the weight half needs
 * its gradient. */
static void needs_of(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs) {
    tpp__arena room = tpp__arena_counting();
    int64_t elements;
    tpp__room_take(layer, batch * seq, layer->out_cols, &room);
    needs->split = needs->scratch = room.used;
    needs->overflow = !tpp__mul(batch * seq, layer->out_cols, &elements) || !tpp__arena_fits(&room);
}

static tpp_status check_ids(const tpp_layer *layer, const tpp__work *work) {
    const embedding *self = (const embedding *)layer;
    const int32_t *ids = work->in;
    for (tpp__sequence s = tpp__sequence_first(work); s.index < work->batch && self->positions > 0;
         s = tpp__sequence_next(work, s)) {
        int64_t end = s.past + s.count * layer->context_size;
        if (end > self->positions)
            return tpp__fail(
                TPP_ERR_INVALID,
                "sequence %lld ends at position %lld; the embedding has %lld positions",
                (long long)s.index, (long long)end, (long long)self->positions);
    }
    for (int64_t i = 0; i < work->tokens; i++) {
        if (ids[i] < 0 || ids[i] >= self->vocab)
            return tpp__fail(TPP_ERR_RANGE,
                             "call.in[%lld] = %d is outside the vocabulary; accepted: 0 .. %lld",
                             (long long)i, ids[i], (long long)self->vocab - 1);
    }
    return TPP_OK;
}

/* The row of `id` in this rank's table; negative when another rank has it. */
static int64_t row_of(const embedding *self, int32_t id) {
    int64_t row = id - self->first;
    return row < self->rows ? row : -1;
}

/* Rows of the table of positions that this rank's rows of a sequence meet, added to these. */
static void add_positions(const tpp_layer *layer, const tpp__work *work, const char *table) {
    int64_t bytes = layer->out_cols * layer->width, end = work->first + work->rows;
    for (tpp__sequence s = tpp__sequence_first(work); s.index < work->batch;
         s = tpp__sequence_next(work, s)) {
        int64_t first = s.first > work->first ? s.first : work->first;
        int64_t last = s.first + s.count < end ? s.first + s.count : end;
        for (int64_t row = first; row < last; row++)
            tpp__kern_add(layer->dtype, layer->out_cols,
                          table + tpp__sequence_position(layer, &s, row - s.first) * bytes,
                          (char *)work->out + (row - work->first) * bytes);
    }
}

static void sum_positions(const tpp_layer *layer, const tpp__work *work, const char *grad_out,
                          char *grad) {
    int64_t cols = layer->out_cols;
    for (tpp__sequence s = tpp__sequence_first(work); s.index < work->batch;
         s = tpp__sequence_next(work, s))
        for (int64_t i = 0; i < s.count; i++)
            tpp__kern_collect(layer->dtype, cols, grad_out + (s.first + i) * cols * layer->width,
                              grad +
                                  tpp__sequence_position(layer, &s, i) * cols * layer->wide_width);
}

static tpp_status forward(const tpp_layer *layer, const tpp__work *work) {
    const embedding *self = (const embedding *)layer;
    const int32_t *ids = work->in;
    int64_t cols = layer->out_cols, bytes = cols * layer->width;
    tpp__arena scratch = work->scratch;
    void *room = tpp__room_take(layer, work->tokens, cols, &scratch);
    char *partial = room ? room : work->out;
    tpp_status status = check_ids(layer, work);
    if (status != TPP_OK || !work->out)
        return status;
    for (int64_t i = 0; i < work->tokens; i++) {
        char *to = partial + i * bytes;
        const char *table = tpp__param_of(layer, work, TOKENS);
        int64_t row = row_of(self, ids[i]);
        /* Adding to 0 makes -0 into 0, as the sum over ranks does: the same bits for one rank
         * and for many. */
        memset(to, 0, (size_t)bytes);
        if (row >= 0)
            tpp__kern_add(layer->dtype, cols, table + row * bytes, to);
    }
    status = tpp__g_forward(layer, work->tokens, cols, partial, work->out);
    if (status == TPP_OK && self->positions > 0)
        add_positions(layer, work, tpp__param_of(layer, work, POSITIONS));
    return status;
}

static tpp_status backward(const tpp_layer *layer, const tpp__work *work, int32_t parts) {
    const embedding *self = (const embedding *)layer;
    const int32_t *ids = work->in;
    int64_t cols = layer->out_cols, bytes = cols * layer->wide_width;
    tpp__arena split = tpp__arena_over(work->split, INT64_MAX);
    void *room = tpp__room_take(layer, work->tokens, cols, &split);
    const char *grad_out = room ? room : work->grad_out;
    const void *whole;
    tpp_status status = check_ids(layer, work);
    if (status == TPP_OK && (parts & TPP__INPUT))
        status = tpp__gather(layer, work->tokens, cols, work->grad_out, room, &whole);
    if (status != TPP_OK || !(parts & TPP__WEIGHT))
        return status;
    for (int64_t i = 0; i < work->tokens; i++) {
        char *table = tpp__grad_of(layer, work, TOKENS);
        int64_t row = row_of(self, ids[i]);
        if (row >= 0)
            tpp__kern_collect(layer->dtype, cols, grad_out + i * cols * layer->width,
                              table + row * bytes);
    }
    if (self->positions > 0)
        sum_positions(layer, work, grad_out, tpp__grad_of(layer, work, POSITIONS));
    return TPP_OK;
}

static void cost(const tpp_layer *layer, int32_t parts, tpp__cost *c) {
    if (parts & TPP__FORWARD)
        tpp__cost_sum(layer, c, layer->out_cols);
    if (parts & TPP__INPUT)
        tpp__cost_gather(layer, c, layer->out_cols);
}

static const tpp__layer_ops ops = {
    .needs = needs_of, .forward = forward, .backward = backward, .cost = cost};

bool tpp__is_embedding(const tpp_layer *layer) {
    return layer->ops == &ops;
}

static tpp_status check_desc(tpp_embedding_desc *desc) {
    tpp_status status = tpp__check_positive("desc.vocab", desc->vocab);
    if (status == TPP_OK)
        status = tpp__check_positive("desc.hidden", desc->hidden);
    if (status == TPP_OK && desc->positions != 0)
        status = tpp__check_positive("desc.positions", desc->positions);
    if (status == TPP_OK)
        status = tpp__check_std("desc.init_std", desc->init_std, 0.02, &desc->init_std);
    return status;
}

tpp_status tpp_embedding_create(tpp_layer **out, const tpp_layer_env *env,
                                const tpp_embedding_desc *given) {
    tpp_embedding_desc desc;
    tpp_layer *layer;
    tpp_status status = tpp__sized_read(&desc, sizeof desc, TPP_EMBEDDING_TIED, given, "desc");
    if (status == TPP_OK)
        status = check_desc(&desc);
    if (status == TPP_OK)
        status = tpp__layer_new(&layer, env, sizeof(embedding), &ops, 2, 0);
    if (status != TPP_OK)
        return tpp__layer_hand_over(out, NULL, status);
    embedding *self = (embedding *)layer;
    int64_t padded = tpp__whole_blocks(layer, desc.vocab);
    self->vocab = desc.vocab;
    self->rows = padded / layer->ranks;
    self->first = self->rows * layer->rank;
    self->positions = desc.positions;
    layer->in_dtype = TPP_I32;
    layer->in_cols = 1;
    layer->out_cols = desc.hidden;
    layer->out_part = layer->sequence;
    tpp__layer_add_param(layer, "tokens.weight",
                         tpp__shard_axis(layer, padded, desc.hidden, TPP_AXIS_ROWS, 1, desc.vocab),
                         TPP_INIT_NORMAL, desc.init_std,
                         desc.flags & TPP_EMBEDDING_TIED ? TPP_PARAM_TIED : 0);
    if (desc.positions > 0)
        tpp__layer_add_param(layer, "positions.weight",
                             tpp__shard_whole(desc.positions, desc.hidden), TPP_INIT_NORMAL,
                             desc.init_std, 0);
    return tpp__layer_hand_over(out, layer, TPP_OK);
}
