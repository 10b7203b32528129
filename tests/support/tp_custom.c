/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/tp_custom.h"

#include <math.h>
#include <stdlib.h>

/* Layers of callbacks, as an embedder would write them, and their references. */

static double load(tpp_dtype dtype, const void *array, int64_t i) {
    double value = 0;
    int64_t width = dtype == TPP_F64 ? 8 : dtype == TPP_BF16 ? 2 : 4;
    tpp_convert(&value, TPP_F64, (const char *)array + i * width, dtype, 1);
    return value;
}

static void store(tpp_dtype dtype, void *array, int64_t i, double value) {
    int64_t width = dtype == TPP_F64 ? 8 : dtype == TPP_BF16 ? 2 : 4;
    tpp_convert((char *)array + i * width, dtype, &value, TPP_F64, 1);
}

static tpp_dtype wide(tpp_dtype dtype) {
    return dtype == TPP_BF16 ? TPP_F32 : dtype;
}

/* The sums of columns of `rows` x `cols` numbers, added to a gradient. */
static void add_columns(tpp_dtype dtype, int64_t rows, int64_t cols, const double *x, void *grad) {
    for (int64_t c = 0; c < cols; c++) {
        double sum = 0;
        for (int64_t r = 0; r < rows; r++)
            sum += x[r * cols + c];
        store(dtype, grad, c, sum);
    }
}

/* gate: y = silu(x) * w, w a number per column, columns split or not. saved: sigmoid(x) as float64;
 * split: dy * silu(x) likewise; scratch: the columns' sums. */

static tpp_status gate_query(void *ctx, const tpp_custom_call *c, tpp_custom_needs *out) {
    int64_t cols = ((const tp_custom *)ctx)->split ? c->ranks : 1;
    cols = ((const tp_custom *)ctx)->cols / cols;
    out->saved_bytes = c->call->batch * c->call->seq * cols * (int64_t)sizeof(double);
    out->split_bytes = out->saved_bytes;
    out->scratch_bytes = cols * (int64_t)sizeof(double);
    return TPP_OK;
}

static tpp_status gate_forward(void *ctx, const tpp_custom_call *c) {
    const tpp_mat *in = &c->call->in;
    const char *weight = (const char *)c->call->params + c->offsets[0];
    double *sigmoid = c->call->saved;
    (void)ctx;
    for (int64_t i = 0; i < in->rows * in->cols; i++) {
        double x = load(in->dtype, in->data, i);
        sigmoid[i] = 1 / (1 + exp(-x));
        store(in->dtype, c->call->out.data, i,
              x * sigmoid[i] * load(in->dtype, weight, i % in->cols));
    }
    return TPP_OK;
}

static tpp_status gate_input(void *ctx, const tpp_custom_call *c) {
    const tpp_mat *in = &c->call->in;
    const char *weight = (const char *)c->call->params + c->offsets[0];
    const double *sigmoid = c->call->saved;
    double *split = c->split;
    (void)ctx;
    for (int64_t i = 0; i < in->rows * in->cols; i++) {
        double x = load(in->dtype, in->data, i), s = sigmoid[i];
        double dy = load(in->dtype, c->call->grad_out.data, i);
        store(in->dtype, c->call->grad_in.data, i,
              dy * load(in->dtype, weight, i % in->cols) * s * (1 + x * (1 - s)));
        split[i] = dy * x * s;
    }
    return TPP_OK;
}

static tpp_status gate_weight(void *ctx, const tpp_custom_call *c) {
    const tpp_mat *in = &c->call->in;
    tpp_dtype dtype = wide(in->dtype);
    char *grad = (char *)c->call->grads + c->grad_offsets[0];
    (void)ctx;
    add_columns(dtype, in->rows, in->cols, c->split, c->call->scratch);
    for (int64_t i = 0; i < in->cols; i++)
        store(dtype, grad, i, load(dtype, grad, i) + load(dtype, c->call->scratch, i));
    return TPP_OK;
}

static const tpp_custom_ops gate_ops = {.size = sizeof gate_ops,
                                        .query = gate_query,
                                        .forward = gate_forward,
                                        .backward_input = gate_input,
                                        .backward_weight = gate_weight};

static tpp_status gate_create(tpp_layer **out, const tpp_layer_env *env, const void *desc) {
    const tp_custom *d = desc;
    int32_t ranks = env->comm && d->split ? tpp_comm_size(env->comm) : 1;
    tpp_custom_param param = {.size = sizeof param,
                              .name = "weight",
                              .rows = 1,
                              .cols = d->cols,
                              .axis = d->split ? TPP_AXIS_COLS : TPP_AXIS_NONE,
                              .init = TPP_INIT_NORMAL};
    tpp_custom_desc custom = {.size = sizeof custom,
                              .ops = &gate_ops,
                              .ctx = (void *)(size_t)d,
                              .in_cols = d->cols / ranks,
                              .out_cols = d->cols / ranks,
                              .param_count = 1,
                              .params = &param};
    return tpp_custom_create(out, env, &custom);
}

static void gate_describe(const void *desc, tp_full *full) {
    const tp_custom *d = desc;
    full->all_rows = 1;
    full->in_cols = full->out_cols = d->cols;
    full->in_split = full->out_split = d->split;
    tp_add_param(full, "", "weight", 1, d->cols);
}

static void gate_reference(const void *desc, tp_full *full) {
    const tp_custom *d = desc;
    const ref_real *w = tp_value(full, "", "weight");
    ref_real *dw = tp_grad(full, "", "weight");
    for (int64_t i = 0; i < full->tokens * d->cols; i++) {
        ref_real x = full->in[i], dy = full->grad_out[i];
        full->out[i] = ref_act(REF_SILU, x) * w[i % d->cols];
        full->grad_in[i] = dy * w[i % d->cols] * ref_act_slope(REF_SILU, x);
        dw[i % d->cols] += dy * ref_act(REF_SILU, x);
    }
}

const tp_kind tp_kind_custom_gate = {gate_create, gate_describe, gate_reference};

/* sum: y = the sum over all columns, which are split; one all-reduce forward. Blocks are summed by
 * themselves, then along the binary tree, rounded as the library's sums are. No parameters. */

static tpp_status sum_query(void *ctx, const tpp_custom_call *c, tpp_custom_needs *out) {
    (void)ctx;
    out->scratch_bytes = c->blocks * (int64_t)sizeof(double);
    return TPP_OK;
}

static double rounded(tpp_dtype dtype, double value) {
    char room[sizeof value];
    store(dtype, room, 0, (double)(dtype == TPP_F64 ? value : (float)value));
    return load(dtype, room, 0);
}

static double row_sum(const tpp_custom_call *c, int64_t row) {
    const tpp_mat *in = &c->call->in;
    int32_t count = c->blocks / c->ranks;
    int64_t cols = in->cols / count;
    double *part = c->call->scratch;
    for (int32_t b = 0; b < count; b++) {
        part[b] = 0;
        for (int64_t i = 0; i < cols; i++)
            part[b] += load(in->dtype, in->data, row * in->cols + b * cols + i);
        part[b] = rounded(in->dtype, part[b]);
    }
    for (int32_t far = 1; far < count; far *= 2)
        for (int32_t b = 0; b + far < count; b += 2 * far)
            part[b] = rounded(in->dtype, part[b] + part[b + far]);
    return part[0];
}

static tpp_status sum_forward(void *ctx, const tpp_custom_call *c) {
    tpp_mat out = c->call->out;
    (void)ctx;
    for (int64_t r = 0; r < out.rows; r++)
        store(out.dtype, out.data, r, row_sum(c, r));
    return c->comm
               ? tpp_comm_all_reduce(c->comm, out.data, out.data, out.rows, out.dtype, TPP_SUM_TREE)
               : TPP_OK;
}

static tpp_status sum_input(void *ctx, const tpp_custom_call *c) {
    tpp_mat to = c->call->grad_in;
    (void)ctx;
    for (int64_t i = 0; i < to.rows * to.cols; i++)
        store(to.dtype, to.data, i, load(to.dtype, c->call->grad_out.data, i / to.cols));
    return TPP_OK;
}

static tpp_status sum_cost(void *ctx, const tpp_custom_call *c, tpp_cost_call kind,
                           tpp_layer_cost *out) {
    int64_t tokens = c->call->batch * c->call->seq, width = *(const int64_t *)ctx;
    if (kind == TPP_COST_FORWARD && c->comm)
        out->comm[TPP_COMM_ALL_REDUCE] = (tpp_comm_count){1, tokens, tokens * width, 0};
    return TPP_OK;
}

static const tpp_custom_ops sum_ops = {.size = sizeof sum_ops,
                                       .query = sum_query,
                                       .forward = sum_forward,
                                       .backward_input = sum_input,
                                       .cost = sum_cost};

static tpp_status sum_create(tpp_layer **out, const tpp_layer_env *env, const void *desc) {
    const tp_custom *d = desc;
    static const int64_t widths[] = {4, 8, 2}; /* the ctx: bytes of an element */
    int i = env->dtype == TPP_F64 ? 1 : env->dtype == TPP_BF16 ? 2 : 0;
    tpp_custom_desc custom = {.size = sizeof custom,
                              .ops = &sum_ops,
                              .ctx = (void *)(size_t)&widths[i],
                              .in_cols = d->cols / (env->comm ? tpp_comm_size(env->comm) : 1),
                              .out_cols = 1};
    return tpp_custom_create(out, env, &custom);
}

static void sum_describe(const void *desc, tp_full *full) {
    full->in_cols = ((const tp_custom *)desc)->cols;
    full->all_rows = 1;
    full->out_cols = 1;
    full->in_split = 1;
}

static void sum_reference(const void *desc, tp_full *full) {
    int64_t cols = ((const tp_custom *)desc)->cols;
    for (int64_t i = 0; i < full->tokens * cols; i++) {
        full->out[i / cols] += full->in[i];
        full->grad_in[i] = full->grad_out[i / cols];
    }
}

const tp_kind tp_kind_custom_sum = {sum_create, sum_describe, sum_reference};
