/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/tp_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64 */
static uint64_t next(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double tp_random(uint64_t *state) {
    return (double)(int64_t)(next(state) >> 48) / 32768.0 - 1;
}

void tp_add_param(tp_full *full, const char *prefix, const char *name, int64_t rows, int64_t cols) {
    if (full->params == TP_PARAMS)
        abort();
    tp_tensor *t = &full->param[full->params++];
    snprintf(t->name, sizeof t->name, "%s%s", prefix, name);
    t->rows = rows;
    t->cols = cols;
}

static const tp_tensor *find(const tp_full *full, const char *prefix, const char *name) {
    char whole[TP_NAME];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    for (int32_t i = 0; i < full->params; i++) {
        if (strcmp(full->param[i].name, whole) == 0)
            return &full->param[i];
    }
    return NULL;
}

ref_real *tp_value(const tp_full *full, const char *prefix, const char *name) {
    const tp_tensor *t = find(full, prefix, name);
    return t ? t->value : NULL;
}

ref_real *tp_grad(const tp_full *full, const char *prefix, const char *name) {
    const tp_tensor *t = find(full, prefix, name);
    return t ? t->grad : NULL;
}

static ref_real *random_numbers(int64_t count, double scale, uint64_t *state) {
    ref_real *x = ref_new(count);
    for (int64_t i = 0; i < count; i++)
        x[i] = (ref_real)(tp_random(state) * scale);
    return x;
}

static int32_t *random_ids(int64_t count, int64_t below, uint64_t *state) {
    int32_t *ids = calloc((size_t)(count > 0 ? count : 1), sizeof *ids);
    if (!ids)
        abort();
    for (int64_t i = 0; i < count; i++)
        ids[i] = (int32_t)(next(state) % (uint64_t)below);
    return ids;
}

/* 0, 0.5 .. 3.5: also tokens that do not count. */
static double *random_weights(int64_t count, uint64_t *state) {
    double *weights = calloc((size_t)(count > 0 ? count : 1), sizeof *weights);
    if (!weights)
        abort();
    for (int64_t i = 0; i < count; i++)
        weights[i] = (double)(next(state) % 8) / 2;
    return weights;
}

uint16_t tp_bf16(ref_real value) {
    float x = (float)value; /* inputs have few digits: the number itself */
    uint32_t bits;
    int exponent;
    frexpf(x, &exponent);
    float unit = ldexpf(1, exponent - 8); /* of the last place */
    x = rintf(x / unit) * unit;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static void round_all(ref_real *x, int64_t count) {
    for (int64_t i = 0; x && i < count; i++) {
        uint32_t bits = (uint32_t)tp_bf16(x[i]) << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        x[i] = value;
    }
}

void tp_full_round(tp_full *full) {
    round_all(full->in, full->tokens * full->in_cols);
    round_all(full->grad_out, full->out_rows * full->out_cols);
    for (int32_t i = 0; i < full->params; i++)
        round_all(full->param[i].value, full->param[i].rows * full->param[i].cols);
}

/* Sequence i of a packed call as a call of its own, with gradients of its own. */
static tp_full one_sequence(const tp_full *full, int64_t i, int64_t first) {
    tp_full one = *full;
    one.batch = 1;
    one.seq = one.tokens = one.out_rows = full->lengths[i];
    one.past = full->pasts ? full->pasts[i] : 0;
    one.lengths = one.pasts = NULL;
    one.in = full->in ? full->in + first * full->in_cols : NULL;
    one.ids = full->ids ? full->ids + first : NULL;
    one.targets = full->targets ? full->targets + first : NULL;
    one.out = full->out + first * full->out_cols;
    one.grad_out = full->grad_out + first * full->out_cols;
    one.grad_in = full->grad_in + first * full->in_cols;
    for (int32_t n = 0; n < full->params; n++)
        one.param[n].grad = ref_new(full->param[n].rows * full->param[n].cols);
    return one;
}

static void clear_grads(tp_full *full) {
    for (int32_t n = 0; n < full->params; n++)
        memset(full->param[n].grad, 0,
               (size_t)(full->param[n].rows * full->param[n].cols) * sizeof(ref_real));
}

static void answer_packed(const tp_case *c, tp_full *full) {
    clear_grads(full);
    for (int64_t i = 0, first = 0; i < full->batch; first += full->lengths[i++]) {
        if (full->lengths[i] == 0)
            continue;
        tp_full one = one_sequence(full, i, first);
        c->kind->reference(c->desc, &one);
        for (int32_t n = 0; n < full->params; n++) {
            for (int64_t k = 0; k < full->param[n].rows * full->param[n].cols; k++)
                full->param[n].grad[k] += one.param[n].grad[k];
            free(one.param[n].grad);
        }
    }
}

void tp_full_answer(const tp_case *c, tp_full *full) {
    if (full->lengths)
        answer_packed(c, full);
    else
        c->kind->reference(c->desc, full);
}

tp_full *tp_full_packed_inputs(const tp_case *c, int64_t batch, int64_t seq, const int32_t *lengths,
                               const int32_t *pasts, uint64_t seed) {
    tp_full *f = calloc(1, sizeof *f);
    uint64_t state = seed;
    if (!f)
        abort();
    f->batch = batch;
    f->seq = seq;
    f->tokens = lengths ? 0 : batch * seq;
    for (int64_t i = 0; lengths && i < batch; i++)
        f->tokens += lengths[i];
    f->lengths = lengths;
    f->pasts = pasts;
    c->kind->describe(c->desc, f);
    if (f->ids_below)
        f->ids = random_ids(f->tokens, f->ids_below, &state);
    else
        f->in = random_numbers(f->tokens * f->in_cols, 1, &state);
    if (f->targets_below)
        f->targets = random_ids(f->tokens, f->targets_below, &state);
    for (int64_t i = 0; f->ignores && i < f->tokens; i += 3)
        f->targets[i] = f->ignore;
    f->out_rows = f->one_row ? 1 : f->tokens;
    f->out = ref_new(f->out_rows * f->out_cols);
    f->grad_in = ref_new(f->tokens * f->in_cols);
    f->grad_out = random_numbers(f->out_rows * f->out_cols, 1, &state);
    f->weights = f->weighted ? random_weights(f->tokens, &state) : NULL;
    for (int32_t i = 0; i < f->params; i++) {
        int64_t count = f->param[i].rows * f->param[i].cols;
        f->param[i].value = random_numbers(count, 0.5, &state);
        f->param[i].grad = ref_new(count);
    }
    return f;
}

tp_full *tp_full_inputs(const tp_case *c, int64_t batch, int64_t seq, uint64_t seed) {
    return tp_full_packed_inputs(c, batch, seq, NULL, NULL, seed);
}

tp_full *tp_full_packed(const tp_case *c, int64_t batch, int64_t seq, const int32_t *lengths,
                        const int32_t *pasts, uint64_t seed) {
    tp_full *f = tp_full_packed_inputs(c, batch, seq, lengths, pasts, seed);
    tp_full_answer(c, f);
    return f;
}

tp_full *tp_full_new(const tp_case *c, int64_t batch, int64_t seq, uint64_t seed) {
    tp_full *f = tp_full_inputs(c, batch, seq, seed);
    tp_full_answer(c, f);
    return f;
}

void tp_full_free(tp_full *full) {
    if (!full)
        return;
    for (int32_t i = 0; i < full->params; i++) {
        free(full->param[i].value);
        free(full->param[i].grad);
    }
    free(full->in);
    free(full->out);
    free(full->grad_out);
    free(full->grad_in);
    free(full->ids);
    free(full->targets);
    free(full->weights);
    free(full);
}

const tp_case *tp_case_find(const char *name) {
    const tp_case *c = tp_cases;
    while (c->name && strcmp(c->name, name) != 0)
        c++;
    if (!c->name) {
        fprintf(stderr, "there is no case %s\n", name);
        abort();
    }
    return c;
}
