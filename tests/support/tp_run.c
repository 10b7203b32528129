/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/tp_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"

/* Columns first .. of the full matrix from a rank's part; what lies beyond is padding. */
static void place(char *full, int64_t full_cols, const tpp_mat *m, int64_t first, int64_t width) {
    const char *part = m->data;
    for (int64_t r = 0; r < m->rows; r++) {
        for (int64_t c = 0; c < m->cols && first + c < full_cols; c++)
            memcpy(full + (r * full_cols + first + c) * width, part + (r * m->cols + c) * width,
                   (size_t)width);
    }
}

static int all_zero(const char *bytes, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (bytes[i] != 0)
            return 0;
    }
    return 1;
}

/* The padding of a split matrix holds zeros, or -infinity. */
static void check_padding(const char *what, const tpp_mat *m, int64_t first, int64_t full_cols,
                          int low) {
    const char *part = m->data;
    int64_t width = tp_width(m->dtype);
    char pad[sizeof(double)];
    double value = low ? (double)-INFINITY : 0;
    assert_int_equal(tpp_convert(pad, m->dtype, &value, TPP_F64, 1), TPP_OK);
    for (int64_t r = 0; r < m->rows; r++) {
        for (int64_t c = 0; c < m->cols; c++) {
            if (first + c >= full_cols &&
                memcmp(part + (r * m->cols + c) * width, pad, (size_t)width) != 0)
                fail_msg("%s: padding is not %g in row %lld, column %lld", what, value,
                         (long long)r, (long long)(first + c));
        }
    }
}

/* Does each rank have rows of its own? */
static int in_parts(const tp_rank *ranks, int grad) {
    const tp_full *f = ranks[0].full;
    int whole = grad ? !f->ids && !f->in_split : !f->targets && !f->out_split;
    return whole && !f->all_rows && ranks[0].setup->flags & TPP_ENV_SEQUENCE;
}

static void *gather_matrix(const char *what, const tp_rank *ranks, int32_t count, int grad) {
    const tp_full *f = ranks[0].full;
    int64_t width = tp_width(grad ? ranks[0].setup->dtype : ranks[0].info.out_dtype);
    int64_t rows = grad ? f->tokens : f->out_rows, done = 0, cols = grad ? f->in_cols : f->out_cols;
    int split = grad ? f->in_split : f->out_split, parted = in_parts(ranks, grad);
    char *full = calloc((size_t)(rows * cols + 1), (size_t)width);
    if (!full)
        abort();
    for (int32_t i = 0; i < count; i++) {
        const tpp_mat *m = grad ? &ranks[i].call.grad_in : &ranks[i].call.out;
        int64_t first = grad ? ranks[i].in_first : ranks[i].out_first;
        int64_t row = grad ? ranks[i].in_row : ranks[i].out_row;
        if (!split && i > 0 && !parted)
            assert_same_bits(what, m->data, full, (uint64_t)(rows * cols * width));
        assert_int_equal(row, parted ? done : 0);
        done += m->rows;
        if (split)
            check_padding(what, m, first, cols, !grad && f->out_low);
        place(full + row * cols * width, cols, m, first, width);
    }
    assert_true(done == (parted ? rows : count * rows));
    return full;
}

/* Every copy of a part has the bits that the full tensor got from one of them. */
static void check_copies(const char *what, const tp_rank *r, int32_t n, const void *full) {
    const tpp_shard *s = &r->shard[n];
    int64_t bytes = tpp_shard_rows(s) * tpp_shard_cols(s) * tp_width(r->info.grad_dtype);
    char *part = malloc((size_t)bytes + 1);
    if (!part)
        abort();
    assert_int_equal(tpp_shard_split(s, full, part, r->info.grad_dtype), TPP_OK);
    assert_same_bits(what, (const char *)r->grads.data + r->grad_offset[n], part, (uint64_t)bytes);
    free(part);
}

/* Gradients of padding are 0, so that it stays 0. */
static void check_param_padding(const tp_rank *r, int32_t n) {
    const tpp_shard *s = &r->shard[n];
    int64_t rows = tpp_shard_rows(s), cols = tpp_shard_cols(s);
    const char *grad = (const char *)r->grads.data + r->grad_offset[n];
    int64_t width = tp_width(r->info.grad_dtype);
    for (int64_t i = 0; s->axis != TPP_AXIS_NONE && i < rows * cols; i++) {
        int64_t at = tpp_shard_index(s, s->axis == TPP_AXIS_ROWS ? i / cols : i % cols);
        if (at >= s->valid && !all_zero(grad + i * width, width))
            fail_msg("grad of %s: padding is not 0 at row %lld, column %lld",
                     r->full->param[n].name, (long long)(i / cols), (long long)(i % cols));
    }
}

/* The gradient of parameter n: joined when it is split, else the same on all ranks. */
static void *gather_grad(const tp_rank *ranks, int32_t count, int32_t n) {
    const tp_full *f = ranks[0].full;
    tpp_dtype dtype = ranks[0].info.grad_dtype;
    int64_t bytes = f->param[n].rows * f->param[n].cols * tp_width(dtype);
    char *full = malloc((size_t)bytes + 1);
    if (!full)
        abort();
    memset(full, TP_NAN, (size_t)bytes);
    for (int32_t i = 0; i < count; i++) {
        const char *part = (const char *)ranks[i].grads.data + ranks[i].grad_offset[n];
        const tpp_shard *s = &ranks[i].shard[n];
        if (s->axis == TPP_AXIS_NONE && i > 0)
            assert_same_bits(f->param[n].name, part, full, (uint64_t)bytes);
        assert_int_equal(tpp_shard_join(s, part, full, dtype), TPP_OK);
        check_param_padding(&ranks[i], n);
    }
    for (int32_t i = 0; i < count; i++)
        if (ranks[i].shard[n].copies > 1)
            check_copies(f->param[n].name, &ranks[i], n, full);
    return full;
}

tp_result *tp_gather(const tp_rank *ranks, int32_t count) {
    const tp_full *f = ranks[0].full;
    tp_result *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->dtype = ranks[0].setup->dtype;
    r->out_dtype = ranks[0].info.out_dtype;
    r->grad_dtype = ranks[0].info.grad_dtype;
    r->params = f->params;
    r->tokens = f->tokens;
    r->in_cols = f->in_cols;
    r->out_rows = f->out_rows;
    r->out_cols = f->out_cols;
    r->out = gather_matrix("out", ranks, count, 0);
    if (!f->ids)
        r->grad_in = gather_matrix("grad_in", ranks, count, 1);
    for (int32_t n = 0; n < f->params; n++) {
        r->grad[n] = gather_grad(ranks, count, n);
        r->count[n] = f->param[n].rows * f->param[n].cols;
        snprintf(r->name[n], sizeof r->name[n], "grad of %.36s", f->param[n].name);
    }
    return r;
}

void tp_result_free(tp_result *result) {
    if (!result)
        return;
    free(result->out);
    free(result->grad_in);
    for (int32_t n = 0; n < result->params; n++)
        free(result->grad[n]);
    free(result);
}

typedef struct job {
    const tp_case *c;
    const tp_full *full;
    const tp_setup *setup;
    tp_rank *ranks;
    tp_counts (*counts)[4];
} job;

static tpp_status backward(tp_rank *r, tp_counts *counts) {
    if (!r->setup->halves) {
        TP_TRY(tpp_layer_backward(r->layer, &r->call));
        return tp_rank_count(r, &counts[1]);
    }
    TP_TRY(tpp_layer_backward_input(r->layer, &r->call));
    TP_TRY(tp_rank_count(r, &counts[1]));
    tp_memory_fill(&r->scratch, TP_NAN);
    TP_TRY(tpp_layer_backward_weight(r->layer, &r->call));
    return tp_rank_count(r, &counts[2]);
}

static tpp_status run_rank(tpp_comm *comm, int32_t rank, void *arg) {
    const job *j = arg;
    tp_rank *r = &j->ranks[rank];
    TP_TRY(tp_rank_open(r, j->c, j->full, j->setup, comm, rank));
    TP_TRY(tpp_layer_forward(r->layer, &r->call));
    TP_TRY(tp_rank_count(r, &j->counts[rank][0]));
    tp_memory_fill(&r->scratch, TP_NAN);
    for (int i = 0; i < (j->setup->backwards ? j->setup->backwards : 1); i++)
        TP_TRY(backward(r, j->counts[rank]));
    TP_TRY(tp_rank_sum_copies(r));
    TP_TRY(tp_rank_count(r, &j->counts[rank][3]));
    TP_TRY(tp_rank_verify(r));
    tp_rank_close(r);
    return TPP_OK;
}

tp_result *tp_run(const tp_case *c, const tp_full *full, const tp_setup *setup) {
    tp_rank ranks[32];
    tp_counts counts[32][4];
    job j = {c, full, setup, ranks, counts};
    memset(counts, 0, sizeof counts);
    tp_ranks_run(setup->ranks, run_rank, &j);
    tp_result *r = tp_gather(ranks, setup->ranks);
    for (int32_t i = 1; i < setup->ranks; i++)
        assert_memory_equal(counts[i], counts[0], sizeof counts[0]);
    r->forward = counts[0][0];
    r->backward = counts[0][1];
    r->weight = counts[0][2];
    r->copies = counts[0][3];
    for (int32_t i = 0; i < setup->ranks; i++)
        tp_rank_free(&ranks[i]);
    return r;
}

/* "q.", "k." or "v." (with `norms` also "q_norm.", "k_norm.") before the last word of a name: where
 * that begins, else -1. */
static int64_t letter_at(const char *name, int norms) {
    static const char *const words[] = {"q.", "k.", "v.", "q_norm.", "k_norm."};
    for (int i = 0; i < (norms ? 5 : 3); i++) {
        const char *at = strstr(name, words[i]);
        const char *last = at ? at + strlen(words[i]) : NULL;
        if (at && (at == name || at[-1] == '.') && !strchr(last, '.'))
            return at - name;
    }
    return -1;
}

/* What the distance of a gradient is measured by: its own largest number; of Q, K and V and of the
 * norms of Q and K, which may be 0 by themselves (one key, biases of keys), the largest of Q, K and
 * V, as in one matrix. */
static double scale_of(const tp_full *full, int32_t n) {
    const char *name = full->param[n].name;
    int64_t at = letter_at(name, 1);
    ref_real most = 0;
    for (int32_t i = 0; i < full->params; i++) {
        const tp_tensor *t = &full->param[i];
        int kin = at >= 0 && letter_at(t->name, 0) == at && !strncmp(t->name, name, (size_t)at) &&
                  !strcmp(strrchr(t->name, '.'), strrchr(name, '.'));
        for (int64_t k = 0; (kin || i == n) && k < t->rows * t->cols; k++)
            most = t->grad[k] > most ? t->grad[k] : -t->grad[k] > most ? -t->grad[k] : most;
    }
    return (double)most;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double largest_of(const ref_real *x, int64_t count) {
    ref_real most = 0;
    for (int64_t i = 0; i < count; i++)
        most = x[i] > most ? x[i] : -x[i] > most ? -x[i] : most;
    return (double)most;
}

void tp_check_beside(const tp_result *result, const tp_full *full, double bound, double share) {
    int64_t outs = result->out_rows * result->out_cols, ins = result->tokens * result->in_cols;
    double most = result->grad_in ? largest_of(full->grad_in, ins) : 0;
    for (int32_t n = 0; n < result->params; n++)
        most = larger(most, scale_of(full, n));
    assert_close("out", result->out_dtype, result->out, CLOSE_QUAD, full->out, outs, bound);
    if (result->grad_in)
        assert_close_each("grad_in", result->dtype, result->grad_in, CLOSE_QUAD, full->grad_in, ins,
                          bound, larger(share * most, largest_of(full->grad_in, ins)));
    for (int32_t n = 0; n < result->params; n++)
        assert_close_each(result->name[n], result->grad_dtype, result->grad[n], CLOSE_QUAD,
                          full->param[n].grad, result->count[n], bound,
                          larger(share * most, scale_of(full, n)));
}

void tp_check(const tp_result *result, const tp_full *full, double bound) {
    tp_check_beside(result, full, bound, 0);
}

static void same(const char *what, const char *tensor, const void *a, const void *b,
                 int64_t bytes) {
    char text[160];
    snprintf(text, sizeof text, "%.80s: %.60s", what, tensor);
    assert_same_bits(text, a, b, (uint64_t)bytes);
}

void tp_same(const char *what, const tp_result *a, const tp_result *b) {
    int64_t width = tp_width(a->dtype);
    same(what, "out", a->out, b->out, a->out_rows * a->out_cols * tp_width(a->out_dtype));
    if (a->grad_in)
        same(what, "grad_in", a->grad_in, b->grad_in, a->tokens * a->in_cols * width);
    for (int32_t n = 0; n < a->params; n++)
        same(what, a->name[n], a->grad[n], b->grad[n], a->count[n] * tp_width(a->grad_dtype));
}

void tp_near(const char *file, int line, double got, double want, double bound) {
    double off = got - want;
    if (off <= bound && off >= -bound)
        return;
    print_error("got %.17g, want %.17g; off by %.3g, bound %.3g\n", got, want, off, bound);
    _fail(file, line);
}
