/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* AdamW against a plain loop, and sums of squares that add up to the same bits under
 * every split. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/tp_run.h"

/* A block on one rank with its state, and the plain optimizer's state in float64. */
typedef struct adam {
    tp_full *full;
    tp_setup setup;
    tp_rank r;
    tp_memory moments;
    int64_t count; /* of all parameters, in the order of full->param */
    double *p, *m, *v;
} adam;

static int64_t count_of(const tp_full *full, int32_t n) {
    return full->param[n].rows * full->param[n].cols;
}

static double grad_of(const adam *a, int32_t n, int64_t i) {
    const char *at = (const char *)a->r.grads.data + a->r.grad_offset[n];
    return a->setup.dtype == TPP_F64 ? ((const double *)(const void *)at)[i]
                                     : (double)((const float *)(const void *)at)[i];
}

static void adam_init(adam *a, const tp_case *c, tpp_dtype dtype) {
    *a = (adam){0};
    a->full = tp_full_inputs(c, 1, 2, 3);
    a->setup.ranks = 1;
    a->setup.dtype = dtype;
    assert_int_equal(tp_rank_open(&a->r, c, a->full, &a->setup, NULL, 0), TPP_OK);
    a->moments = tp_memory_new(a->r.info.moments_bytes, TP_ZERO);
    for (int32_t n = 0; n < a->full->params; n++)
        a->count += count_of(a->full, n);
    a->p = calloc((size_t)a->count, sizeof *a->p);
    a->m = calloc((size_t)a->count, sizeof *a->m);
    a->v = calloc((size_t)a->count, sizeof *a->v);
    assert_true(a->p && a->m && a->v);
    int64_t k = 0;
    for (int32_t n = 0; n < a->full->params; n++)
        for (int64_t i = 0; i < count_of(a->full, n); i++)
            a->p[k++] = (double)a->full->param[n].value[i];
}

static void adam_free(adam *a) {
    assert_true(tp_memory_intact(&a->moments));
    assert_true(tp_memory_intact(&a->r.params));
    assert_true(tp_memory_intact(&a->r.grads));
    tp_memory_free(&a->moments);
    tp_rank_close(&a->r);
    tp_rank_free(&a->r);
    tp_full_free(a->full);
    free(a->p);
    free(a->m);
    free(a->v);
}

static int is_decayed(const char *name) {
    return !strstr(name, "bias") && !strstr(name, "ln_1") && !strstr(name, "ln_2") &&
           !strstr(name, "ln_f");
}

/* The formula of the header, with the defaults filled in. */
static void plain_step(adam *a, const tpp_adamw_desc *d) {
    double b1 = d->beta1 > 0 ? d->beta1 : 0.9;
    double b2 = d->beta2 > 0 ? d->beta2 : 0.999;
    double epsilon = d->epsilon > 0 ? d->epsilon : 1e-8;
    double scale = d->grad_scale > 0 ? d->grad_scale : 1;
    int64_t k = 0;
    for (int32_t n = 0; n < a->full->params; n++) {
        double decay = is_decayed(a->full->param[n].name) ? d->decay : 0;
        for (int64_t i = 0; i < count_of(a->full, n); i++, k++) {
            double g = grad_of(a, n, i) * scale;
            a->m[k] = b1 * a->m[k] + (1 - b1) * g;
            a->v[k] = b2 * a->v[k] + (1 - b2) * g * g;
            double m = a->m[k] / (1 - pow(b1, (double)d->step));
            double v = a->v[k] / (1 - pow(b2, (double)d->step));
            a->p[k] -= d->rate * (m / (sqrt(v) + epsilon) + decay * a->p[k]);
        }
    }
}

static void random_grads(adam *a, uint64_t seed) {
    for (int32_t n = 0; n < a->full->params; n++) {
        char *at = (char *)a->r.grads.data + a->r.grad_offset[n];
        for (int64_t i = 0; i < count_of(a->full, n); i++)
            tp_store(a->r.info.grad_dtype, at, i, (ref_real)(tp_random(&seed) * 3));
    }
}

static void compare(const adam *a, double bound) {
    int64_t k = 0;
    for (int32_t n = 0; n < a->full->params; n++) {
        const char *at = (const char *)a->r.params.data + a->r.offset[n];
        assert_close_each(a->full->param[n].name, a->setup.dtype, at, TPP_F64, a->p + k,
                          count_of(a->full, n), bound, 0.1);
        k += count_of(a->full, n);
    }
}

static void check_steps(const char *name, const tpp_adamw_desc *given, tpp_dtype dtype) {
    adam a;
    tpp_adamw_desc d = *given;
    adam_init(&a, tp_case_find(name), dtype);
    for (d.step = 1; d.step <= 5; d.step++) {
        random_grads(&a, (uint64_t)d.step);
        assert_int_equal(
            tpp_layer_adamw(a.r.layer, &d, a.r.params.data, a.r.grads.data, a.moments.data),
            TPP_OK);
        plain_step(&a, &d);
        compare(&a, dtype == TPP_F64 ? 2e-15 : 1e-5);
    }
    adam_free(&a);
}

static void test_adamw(void **state) {
    static const tpp_adamw_desc descs[] = {
        {sizeof(tpp_adamw_desc), 0, 1e-2, 0, 0, 0, 0, 0, 1},
        {sizeof(tpp_adamw_desc), 0, 1e-2, 0, 0, 0, 0.125, 0, 1},
        {sizeof(tpp_adamw_desc), 0, 3e-3, 0.8, 0.95, 1e-3, 0.5, 0.25, 1},
        {sizeof(tpp_adamw_desc), 0, 0, 0, 0, 0, 0.5, 0, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof descs / sizeof *descs; i++) {
        check_steps("block", &descs[i], TPP_F64);
        check_steps("block", &descs[i], TPP_F32);
        check_steps("gpt", &descs[i], TPP_F64);
    }
}

/* bfloat16 parameters follow float32 ones: params + what is kept behind the moments is what AdamW makes
 * in float32, so that steps far below bfloat16's last place add up; params is that, rounded. */
static void test_small_steps(void **state) {
    enum { STEPS = 200 };
    tpp_adamw_desc d = {.size = sizeof d, .rate = 2e-5, .decay = 0.01};
    adam a;
    (void)state;
    adam_init(&a, tp_case_find("block"), TPP_BF16);
    tp_full_round(a.full);
    for (int32_t n = 0, k = 0; n < a.full->params; n++)
        for (int64_t i = 0; i < count_of(a.full, n); i++, k++)
            a.p[k] = (double)a.full->param[n].value[i];
    for (d.step = 1; d.step <= STEPS; d.step++) {
        random_grads(&a, (uint64_t)(d.step % 3)); /* the same direction on the whole */
        assert_int_equal(
            tpp_layer_adamw(a.r.layer, &d, a.r.params.data, a.r.grads.data, a.moments.data),
            TPP_OK);
        plain_step(&a, &d);
    }
    compare(&a, 1.01 / 256);
    double *want = a.p;
    for (int32_t n = 0; n < a.full->params; n++) {
        const uint16_t *param = (const void *)((const char *)a.r.params.data + a.r.offset[n]);
        float *rest =
            (void *)((char *)a.moments.data + 2 * a.r.info.grad_bytes + a.r.grad_offset[n]);
        for (int64_t i = 0; i < count_of(a.full, n); i++) {
            float value;
            uint16_t nearest;
            assert_int_equal(tpp_convert(&value, TPP_F32, &param[i], TPP_BF16, 1), TPP_OK);
            rest[i] += value;
            assert_int_equal(tpp_convert(&nearest, TPP_BF16, &rest[i], TPP_F32, 1), TPP_OK);
            assert_int_equal(nearest, param[i]);
        }
        assert_close_each(a.full->param[n].name, TPP_F32, rest, TPP_F64, want, count_of(a.full, n),
                          2e-5, 0.1);
        want += count_of(a.full, n);
    }
    adam_free(&a);
}

/* The flags that decide on decay, by name. */
static void test_flags(void **state) {
    adam a;
    (void)state;
    adam_init(&a, tp_case_find("gpt"), TPP_F32);
    for (int32_t n = 0; n < a.full->params; n++) {
        tpp_param_info p = {0};
        p.size = sizeof p;
        assert_int_equal(tpp_layer_param(a.r.layer, n, &p), TPP_OK);
        assert_int_equal(!(p.flags & TPP_PARAM_NO_DECAY), is_decayed(p.name));
    }
    adam_free(&a);
}

/* What is refused, by field. */
static void refuse(adam *a, const tpp_adamw_desc *d, tpp_status want, const char *says) {
    tpp_message_set("");
    assert_int_equal(
        tpp_layer_adamw(a->r.layer, d, a->r.params.data, a->r.grads.data, a->moments.data), want);
    if (!strstr(tpp_message(), says))
        fail_msg("\"%s\" does not say %s", tpp_message(), says);
}

static void test_refused(void **state) {
    static const tpp_adamw_desc good = {sizeof good, 0, 1e-3, 0, 0, 0, 0, 0, 1};
    tpp_adamw_desc d;
    adam a;
    (void)state;
    adam_init(&a, tp_case_find("mlp"), TPP_F32);
    d = good, d.rate = -1, refuse(&a, &d, TPP_ERR_INVALID, "rate");
    d = good, d.rate = (double)NAN, refuse(&a, &d, TPP_ERR_INVALID, "rate");
    d = good, d.beta1 = 1, refuse(&a, &d, TPP_ERR_INVALID, "beta1");
    d = good, d.beta1 = -0.5, refuse(&a, &d, TPP_ERR_INVALID, "beta1");
    d = good, d.beta2 = 1.5, refuse(&a, &d, TPP_ERR_INVALID, "beta2");
    d = good, d.epsilon = -1e-8, refuse(&a, &d, TPP_ERR_INVALID, "epsilon");
    d = good, d.decay = (double)INFINITY, refuse(&a, &d, TPP_ERR_INVALID, "decay");
    d = good, d.grad_scale = (double)NAN, refuse(&a, &d, TPP_ERR_INVALID, "grad_scale");
    d = good, d.step = 0, refuse(&a, &d, TPP_ERR_INVALID, "step");
    d = good, d.step = -3, refuse(&a, &d, TPP_ERR_INVALID, "-3");
    d = good, d.size = 4, refuse(&a, &d, TPP_ERR_INVALID, "size");
    d = good, d.flags = 1, refuse(&a, &d, TPP_ERR_TOO_NEW, "flags");
    refuse(&a, NULL, TPP_ERR_INVALID, "NULL");
    assert_int_equal(tpp_layer_adamw(NULL, &good, a.r.params.data, a.r.grads.data, a.moments.data),
                     TPP_ERR_INVALID);
    assert_int_equal(tpp_layer_adamw(a.r.layer, &good, NULL, a.r.grads.data, a.moments.data),
                     TPP_ERR_INVALID);
    assert_int_equal(tpp_layer_adamw(a.r.layer, &good, a.r.params.data, NULL, a.moments.data),
                     TPP_ERR_INVALID);
    assert_int_equal(tpp_layer_adamw(a.r.layer, &good, a.r.params.data, a.r.grads.data, NULL),
                     TPP_ERR_INVALID);
    assert_int_equal(tpp_layer_grad_squares(NULL, a.r.grads.data, a.p), TPP_ERR_INVALID);
    assert_int_equal(tpp_layer_grad_squares(a.r.layer, NULL, a.p), TPP_ERR_INVALID);
    assert_int_equal(tpp_layer_grad_squares(a.r.layer, a.r.grads.data, NULL), TPP_ERR_INVALID);
    adam_free(&a);
}

/* Squares of all ranks: [rank][param in the order of full->param][block]. */
enum { RANKS = 8, BLOCKS = 8 };
typedef struct squares {
    const tp_case *c;
    const tp_full *full;
    tp_setup setup;
    double of[RANKS][TP_PARAMS][BLOCKS];
} squares;

static tpp_status square_rank(tpp_comm *comm, int32_t rank, void *arg) {
    squares *s = arg;
    tp_rank r;
    TP_TRY(tp_rank_open(&r, s->c, s->full, &s->setup, comm, rank));
    tp_memory out = tp_memory_new((int64_t)sizeof(double) * r.info.params * r.info.blocks, TP_NAN);
    for (int32_t n = 0; n < s->full->params; n++) /* any tensors will do */
        TP_TRY(tpp_convert((char *)r.grads.data + r.grad_offset[n], r.info.grad_dtype,
                           (char *)r.params.data + r.offset[n], s->setup.dtype,
                           tpp_shard_rows(&r.shard[n]) * tpp_shard_cols(&r.shard[n])));
    TP_TRY(tpp_layer_grad_squares(r.layer, r.grads.data, out.data));
    TP_NEED(tp_memory_intact(&out));
    for (int32_t i = 0; i < r.info.params; i++) {
        tpp_param_info p = {0};
        p.size = sizeof p;
        TP_TRY(tpp_layer_param(r.layer, i, &p));
        int32_t n = 0;
        while (n < s->full->params && strcmp(s->full->param[n].name, p.name) != 0)
            n++;
        TP_NEED(n < s->full->params);
        memcpy(s->of[rank][n], (double *)out.data + i * r.info.blocks,
               sizeof(double) * (size_t)r.info.blocks);
    }
    tp_memory_free(&out);
    tp_rank_close(&r);
    tp_rank_free(&r);
    return TPP_OK;
}

/* Parts of parameter n added over the ranks; at most one rank has one that is not 0. */
static void add_ranks(const squares *s, int32_t n, double sum[BLOCKS]) {
    int32_t blocks = s->setup.blocks ? s->setup.blocks : s->setup.ranks;
    for (int32_t b = 0; b < blocks; b++) {
        int holders = 0;
        sum[b] = 0;
        for (int32_t r = 0; r < s->setup.ranks; r++) {
            sum[b] += s->of[r][n][b];
            holders += s->of[r][n][b] != 0;
        }
        assert_in_range(holders, 0, 1);
    }
}

static ref_real exact(const tp_tensor *t) {
    ref_real sum = 0;
    for (int64_t i = 0; i < t->rows * t->cols; i++)
        sum += t->value[i] * t->value[i];
    return sum;
}

static void check_squares(squares *s, double (*first)[BLOCKS]) {
    tp_ranks_run(s->setup.ranks, square_rank, s);
    for (int32_t n = 0; n < s->full->params; n++) {
        double sum[BLOCKS] = {0};
        double total = 0;
        add_ranks(s, n, sum);
        for (int b = 0; b < BLOCKS; b++)
            total += sum[b];
        double want = (double)exact(&s->full->param[n]);
        assert_near(total, want, want * 1e-14);
        if (s->setup.ranks == 1)
            memcpy(first[n], sum, sizeof sum);
        else if (s->setup.blocks)
            assert_same_bits(s->full->param[n].name, first[n], sum, sizeof sum);
    }
}

static void test_squares(void **state) {
    static double first[TP_PARAMS][BLOCKS];
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        tp_full *full = tp_full_inputs(c, 1, 1, 2);
        for (int k = 0; k < 5; k++) {
            if (k == 4)
                tp_full_round(full);
            for (int32_t ranks = 1; ranks <= 8; ranks *= 2) {
                squares s = {0};
                s.c = c;
                s.full = full;
                s.setup.ranks = ranks;
                s.setup.blocks = k < 2 ? 0 : 8;
                s.setup.dtype = k == 4 ? TPP_BF16 : k % 2 ? TPP_F64 : TPP_F32;
                check_squares(&s, first);
            }
        }
        tp_full_free(full);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adamw),   cmocka_unit_test(test_small_steps),
        cmocka_unit_test(test_flags),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_squares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
