/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/tp_run.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int64_t tp_width(tpp_dtype dtype) {
    return dtype == TPP_F64 || dtype == TPP_I64 ? 8 : dtype == TPP_BF16 ? 2 : 4;
}

tpp_dtype tp_wide(tpp_dtype dtype) {
    return dtype == TPP_BF16 ? TPP_F32 : dtype;
}

void tp_store(tpp_dtype dtype, void *array, int64_t i, ref_real value) {
    if (dtype == TPP_F64)
        ((double *)array)[i] = (double)value;
    else if (dtype == TPP_BF16)
        ((uint16_t *)array)[i] = tp_bf16(value);
    else
        ((float *)array)[i] = (float)value;
}

static int fill_of(const tp_setup *setup) {
    return setup->fill ? setup->fill : TP_NAN;
}

/* A rank's columns of a matrix: all of them, or its equal part of what is padded to the blocks. */
static int64_t local_cols(int64_t cols, int split, int32_t blocks, int32_t ranks) {
    return split ? (cols + blocks - 1) / blocks * (blocks / ranks) : cols;
}

/* [rows, cols] and the view of it. */
static tpp_mat matrix(tp_memory *memory, int64_t rows, int64_t cols, tpp_dtype dtype, int fill) {
    tpp_mat m = {0};
    *memory = tp_memory_new(rows * cols * tp_width(dtype), fill);
    m.data = memory->data;
    m.rows = rows;
    m.cols = cols;
    m.dtype = dtype;
    return m;
}

/* Rows row .. and columns first .. of the full matrix into m; what lies beyond the full matrix becomes `pad`. */
static void load(const tpp_mat *m, const ref_real *full, int64_t full_cols, int64_t row,
                 int64_t first, ref_real pad) {
    for (int64_t r = 0; r < m->rows; r++) {
        for (int64_t c = 0; c < m->cols; c++) {
            ref_real x = first + c < full_cols ? full[(row + r) * full_cols + first + c] : pad;
            tp_store(m->dtype, m->data, r * m->cols + c, x);
        }
    }
}

/* A checksum (FNV-1a) of what a call may only read. */
static uint64_t sum_of_inputs(const tp_rank *r) {
    const tp_memory *inputs[] = {&r->in, &r->grad_out, &r->params, &r->targets, &r->weights};
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t k = 0; k < sizeof inputs / sizeof *inputs; k++) {
        const unsigned char *bytes = inputs[k]->data;
        for (int64_t i = 0; i < inputs[k]->bytes; i++)
            sum = (sum ^ bytes[i]) * 0x100000001b3u;
    }
    return sum;
}

void tp_rank_seal(tp_rank *r) {
    r->inputs = sum_of_inputs(r);
}

void tp_rank_load(tp_rank *r, const tp_full *full) {
    r->full = full;
    if (full->ids)
        memcpy(r->in.data, full->ids, (size_t)full->tokens * sizeof *full->ids);
    else /* padding of logits must never be looked at; that of other layers is 0 */
        load(&r->call.in, full->in, full->in_cols, r->in_row, r->in_first,
             full->targets_below ? (ref_real)1e30 : 0);
    load(&r->call.grad_out, full->grad_out, full->out_cols, r->out_row, r->out_first, 0);
    if (full->targets)
        memcpy(r->targets.data, full->targets, (size_t)full->tokens * sizeof *full->targets);
    if (full->weights)
        memcpy(r->weights.data, full->weights, (size_t)full->tokens * sizeof *full->weights);
    r->call.weight_sum = full->weight_sum;
    r->call.dropout_seed = full->dropout_seed;
    tp_rank_seal(r);
}

static tpp_status make_env(tp_rank *r, tpp_layer_env *env, tpp_comm *comm) {
    const tp_setup *s = r->setup;
    *env = (tpp_layer_env){0};
    env->size = sizeof *env;
    env->flags = s->flags;
    env->dtype = s->dtype;
    env->blocks = s->blocks;
    env->gemm = s->gemm;
    env->name = s->name;
    if (s->ranks > 1 || s->own_comm) {
        TP_TRY(tpp_comm_traced_create(&r->traced, comm, NULL));
        env->comm = r->traced;
    }
    return TPP_OK;
}

/* Losses are of the type that sums are kept in. */
static tpp_dtype out_type(const tp_rank *r) {
    return r->full->targets ? tp_wide(r->setup->dtype) : r->setup->dtype;
}

/* With sequence parallelism, what is whole in its columns is cut by rows: as many to each block as fill
 * the first ones. */
static void rows_of(const tp_setup *s, int32_t rank, int whole, int64_t rows, int64_t *first,
                    int64_t *count) {
    int64_t blocks = s->blocks ? s->blocks : s->ranks, end = rows;
    *first = 0;
    if (whole && s->flags & TPP_ENV_SEQUENCE) {
        int64_t each = 0;
        while (each * blocks < rows)
            each++;
        *first = each * blocks / s->ranks * rank;
        end = each * blocks / s->ranks * (rank + 1);
        *first = *first > rows ? rows : *first;
        end = end > rows ? rows : end;
    }
    *count = end - *first;
}

/* Rows of a call of the longest sequences, which the query tells of, and of the real ones. */
static tpp_status check_rows(tp_rank *r) {
    const tp_full *f = r->full;
    int in_whole = !f->all_rows && !f->ids && !f->in_split;
    int out_whole = !f->all_rows && !f->targets && !f->out_split;
    int64_t most = f->batch * f->seq, first, rows, got_first, got_rows;
    rows_of(r->setup, r->rank, in_whole, most, &first, &rows);
    TP_NEED(r->info.in_rows == rows);
    rows_of(r->setup, r->rank, out_whole, f->one_row ? 1 : most, &first, &rows);
    TP_NEED(r->info.out_rows == rows);
    rows_of(r->setup, r->rank, in_whole, f->tokens, &r->in_row, &r->in_rows);
    rows_of(r->setup, r->rank, out_whole, f->out_rows, &r->out_row, &r->out_rows);
    rows_of(r->setup, r->rank, 1, f->tokens, &first, &rows);
    TP_TRY(tpp_layer_rows(r->layer, f->tokens, &got_first, &got_rows));
    TP_NEED(got_first == first && got_rows == rows);
    return TPP_OK;
}

/* The query's facts against what the test knows. */
static tpp_status check_info(tp_rank *r) {
    const tp_full *f = r->full;
    const tp_setup *s = r->setup;
    int32_t blocks = s->blocks ? s->blocks : s->ranks;
    r->info.size = sizeof r->info;
    TP_TRY(tpp_layer_query(r->layer, f->batch, f->seq, &r->info));
    TP_NEED(r->info.blocks == blocks);
    TP_NEED(r->info.params == f->params);
    TP_NEED(r->info.in_dtype == (f->ids ? TPP_I32 : s->dtype));
    TP_NEED(r->info.out_dtype == out_type(r));
    TP_NEED(r->info.grad_dtype == tp_wide(s->dtype));
    TP_NEED(r->info.reserved1 == 0);
    TP_NEED(r->info.targets == (f->targets != NULL));
    TP_TRY(check_rows(r));
    TP_NEED(r->info.in_cols == local_cols(f->in_cols, f->in_split, blocks, s->ranks));
    TP_NEED(r->info.out_cols == local_cols(f->out_cols, f->out_split, blocks, s->ranks));
    TP_NEED(r->info.flags == 0 && r->info.reserved0 == 0);
    r->in_first = f->in_split ? r->rank * r->info.in_cols : 0;
    r->out_first = f->out_split ? r->rank * r->info.out_cols : 0;
    return TPP_OK;
}

/* The number of the parameter of that name in full->param, or -1. */
static int32_t number_of(const tp_full *f, const char *name) {
    for (int32_t i = 0; i < f->params; i++) {
        if (strcmp(f->param[i].name, name) == 0)
            return i;
    }
    return -1;
}

/* The full shape of a parameter, padding left out along its axis. */
static int has_shape(const tpp_shard *s, const tp_tensor *t) {
    int64_t rows = s->axis == TPP_AXIS_ROWS ? s->valid : s->rows;
    int64_t cols = s->axis == TPP_AXIS_COLS ? s->valid : s->cols;
    return rows == t->rows && cols == t->cols;
}

/* Where the parameters and gradients so far end. */
typedef struct ends {
    int64_t params, grads;
} ends;

/* One parameter: look at its facts, cut this rank's part out of the full tensor, zero
 * its gradient. */
static tpp_status load_param(tp_rank *r, int32_t index, ends *end) {
    const tp_full *f = r->full;
    const char *prefix = r->setup->name ? r->setup->name : "";
    tpp_param_info p = {0};
    p.size = sizeof p;
    TP_TRY(tpp_layer_param(r->layer, index, &p));
    TP_NEED(strncmp(p.name, prefix, strlen(prefix)) == 0);
    int32_t n = number_of(f, p.name + strlen(prefix));
    TP_NEED(n >= 0);
    TP_NEED(r->offset[n] < 0);
    TP_NEED(has_shape(&p.shard, &f->param[n]));
    TP_NEED(p.local_rows == tpp_shard_rows(&p.shard) && p.local_cols == tpp_shard_cols(&p.shard));
    int64_t bytes = p.local_rows * p.local_cols * r->width;
    TP_NEED(p.offset % 64 == 0 && p.offset >= end->params &&
            p.offset + bytes <= r->info.state_bytes);
    end->params = p.offset + bytes;
    int64_t grad_bytes = bytes / r->width * tp_width(r->info.grad_dtype);
    TP_NEED(p.grad_offset % 64 == 0 && p.grad_offset >= end->grads &&
            p.grad_offset + grad_bytes <= r->info.grad_bytes);
    end->grads = p.grad_offset + grad_bytes;
    r->shard[n] = p.shard;
    r->offset[n] = p.offset;
    r->grad_offset[n] = p.grad_offset;
    int64_t count = f->param[n].rows * f->param[n].cols;
    void *full = calloc((size_t)(count > 0 ? count : 1), (size_t)r->width);
    TP_NEED(full);
    for (int64_t i = 0; i < count; i++)
        tp_store(r->setup->dtype, full, i, f->param[n].value[i]);
    tpp_status status =
        tpp_shard_split(&p.shard, full, (char *)r->params.data + p.offset, r->setup->dtype);
    free(full);
    TP_TRY(status);
    memset((char *)r->grads.data + p.grad_offset, 0, (size_t)grad_bytes);
    return TPP_OK;
}

static void make_memory(tp_rank *r) {
    const tp_full *f = r->full;
    const tp_setup *s = r->setup;
    int fill = fill_of(s);
    tpp_call *call = &r->call;
    call->size = sizeof *call;
    call->batch = f->batch;
    call->seq = f->seq;
    call->lengths = f->lengths;
    call->past = f->pasts;
    call->in = matrix(&r->in, r->in_rows, r->info.in_cols, r->info.in_dtype, fill);
    call->out = matrix(&r->out, r->out_rows, r->info.out_cols, r->info.out_dtype, fill);
    call->grad_out = matrix(&r->grad_out, r->out_rows, r->info.out_cols, r->info.out_dtype, fill);
    if (!f->ids)
        call->grad_in = matrix(&r->grad_in, r->in_rows, r->info.in_cols, s->dtype, fill);
    call->saved_bytes = r->info.saved_bytes + (s->halves ? r->info.split_bytes : 0);
    call->scratch_bytes = r->info.scratch_bytes;
    r->params = tp_memory_new(r->info.state_bytes, TP_NAN);
    r->grads = tp_memory_new(r->info.grad_bytes, TP_NAN);
    r->saved = tp_memory_new(call->saved_bytes, fill);
    r->scratch = tp_memory_new(call->scratch_bytes, fill);
    call->params = r->params.data;
    call->grads = r->grads.data;
    call->saved = r->saved.data;
    call->scratch = r->scratch.data;
    if (f->targets) {
        r->targets = tp_memory_new(f->tokens * (int64_t)sizeof *f->targets, fill);
        call->targets = r->targets.data;
    }
    if (f->weights) {
        r->weights = tp_memory_new(f->tokens * (int64_t)sizeof *f->weights, fill);
        call->weights = r->weights.data;
    }
}

tpp_status tp_rank_open(tp_rank *r, const tp_case *c, const tp_full *full, const tp_setup *setup,
                        tpp_comm *comm, int32_t rank) {
    tpp_layer_env env;
    ends end = {0, 0};
    *r = (tp_rank){0};
    r->full = full;
    r->setup = setup;
    r->rank = rank;
    r->width = tp_width(setup->dtype);
    TP_TRY(make_env(r, &env, comm));
    TP_TRY(c->kind->create(&r->layer, &env, c->desc));
    TP_TRY(check_info(r));
    make_memory(r);
    for (int32_t i = 0; i < full->params; i++)
        r->offset[i] = -1;
    for (int32_t i = 0; i < full->params; i++)
        TP_TRY(load_param(r, i, &end));
    tp_rank_load(r, full);
    return TPP_OK;
}

tpp_status tp_rank_count(tp_rank *r, tp_counts *out) {
    *out = (tp_counts){{0}, {0}, {0}};
    if (!r->traced)
        return TPP_OK;
    for (tpp_comm_kind kind = TPP_COMM_SEND; kind < TPP_COMM_KINDS; kind++) {
        tpp_comm_count count;
        TP_TRY(tpp_comm_traced_get(r->traced, kind, &count));
        if (kind == TPP_COMM_ALL_REDUCE)
            out->reduce = count;
        else if (kind == TPP_COMM_ALL_GATHER)
            out->gather = count;
        else if (kind == TPP_COMM_REDUCE_SCATTER)
            out->scatter = count;
        else
            TP_NEED(count.calls == 0);
    }
    TP_TRY(tpp_comm_traced_reset(r->traced));
    return TPP_OK;
}

tpp_status tp_rank_sum_copies(tp_rank *r) {
    tp_memory scratch = tp_memory_new(r->info.copies_bytes, TP_NAN);
    tpp_status status = tpp_layer_sum_copies(r->layer, r->grads.data, scratch.data, scratch.bytes);
    TP_NEED(tp_memory_intact(&scratch));
    tp_memory_free(&scratch);
    TP_TRY(status);
    return TPP_OK;
}

tpp_status tp_rank_verify(const tp_rank *r) {
    TP_NEED(tp_memory_intact(&r->in) && tp_memory_intact(&r->grad_out));
    TP_NEED(tp_memory_intact(&r->out));
    TP_NEED(tp_memory_intact(&r->grad_in));
    TP_NEED(tp_memory_intact(&r->params));
    TP_NEED(tp_memory_intact(&r->grads));
    TP_NEED(tp_memory_intact(&r->saved));
    TP_NEED(tp_memory_intact(&r->scratch));
    TP_NEED(sum_of_inputs(r) == r->inputs);
    return TPP_OK;
}

void tp_rank_close(tp_rank *r) {
    tpp_layer_destroy(r->layer);
    tpp_comm_destroy(r->traced);
    r->layer = NULL;
    r->traced = NULL;
}

void tp_rank_free(tp_rank *r) {
    tp_memory_free(&r->in);
    tp_memory_free(&r->out);
    tp_memory_free(&r->grad_out);
    tp_memory_free(&r->grad_in);
    tp_memory_free(&r->params);
    tp_memory_free(&r->grads);
    tp_memory_free(&r->saved);
    tp_memory_free(&r->scratch);
    tp_memory_free(&r->targets);
    tp_memory_free(&r->weights);
}
