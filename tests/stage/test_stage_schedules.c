/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Layers under every built-in schedule, on every executor: the same bits, and the gradients of the
 * unsplit model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/exec_kinds.h"
#include "support/ref_gpt.h"
#include "support/stage_model.h"

static int32_t ids[STAGE_SEQUENCES * STAGE_SEQ], targets[STAGE_SEQUENCES * STAGE_SEQ];
static stage_result want, got;

static int make_data(void **state) {
    (void)state;
    for (int32_t i = 0; i < STAGE_SEQUENCES * STAGE_SEQ; i++) {
        ids[i] = (i * 7 + 3) % STAGE_VOCAB;
        targets[i] = (i * 5 + 1) % STAGE_VOCAB;
    }
    alarm(240);
    return 0;
}

/* Train under schedule `d`; of a schedule without a backward the losses alone are results. */
static void train(const stage_layout *base, const tpp_schedule_desc *d) {
    stage_layout l = *base;
    l.kind = d->kind;
    l.pp = d->ranks;
    l.chunks = d->chunks;
    l.flags = d->flags;
    stage_train(&l, ids, targets, &got);
    assert_int_equal(got.count, want.count);
}

/* --- The same bits ---------------------------------------------------------------------------- */

typedef struct layouts {
    stage_layout base;
    int32_t turn; /* which executor and number of lanes is next */
} layouts;

static void same_bits(const tpp_schedule *s, const tpp_schedule_desc *d, void *arg) {
    layouts *all = arg;
    tpp_schedule_info info = {.size = sizeof info};
    char what[80];
    if (d->micros != all->base.micros)
        return;
    assert_int_equal(tpp_schedule_query(s, &info), TPP_OK);
    all->base.threads = all->turn % 3;
    all->base.tp = all->turn++ / 3 % 2 + 1;
    snprintf(what, sizeof what, "%s p %d v %d m %d, executor %d, tp %d",
             tpp_schedule_kind_name(d->kind), d->ranks, d->chunks, d->micros, all->base.threads,
             all->base.tp);
    train(&all->base, d);
    assert_same_bits(what, got.losses, want.losses, sizeof want.losses);
    if (!info.forward_only)
        assert_same_bits(what, got.grads, want.grads, (uint64_t)want.count * sizeof *want.grads);
}

static void check_bits(const stage_layout *base) {
    static const exec_shapes shapes = {.ranks = 4, .micros = 8, .chunks = 3, .depth = STAGE_PIECES};
    layouts all = {.base = *base};
    stage_layout one = *base;
    one.tp = one.pp = one.chunks = 1;
    one.kind = TPP_SCHEDULE_GPIPE;
    stage_train(&one, ids, targets, &want);
    exec_kinds_each(&shapes, same_bits, &all);
}

static void every_schedule_gives_the_same_bits(void **state) {
    (void)state;
    for (int32_t micros = 1; micros <= 8; micros *= 2) {
        stage_layout l = {.micros = micros, .blocks = 2, .dtype = TPP_F32, .late = 1};
        check_bits(&l);
    }
}

static void tied_copies_too(void **state) {
    (void)state;
    stage_layout l = {.micros = 8, .blocks = 2, .dtype = TPP_F64, .late = 1, .tied = 1};
    check_bits(&l);
    const int64_t table = STAGE_VOCAB * STAGE_HIDDEN;
    assert_same_bits("copies", want.grads, want.grads + want.count - table,
                     (uint64_t)table * sizeof *want.grads);
}

/* bfloat16, rows spread over ranks, dropout, custom layers, recomputation. */
static void whatever_the_layers_do(void **state) {
    (void)state;
    stage_layout l = {.micros = 4, .blocks = 2, .dtype = TPP_BF16, .late = 1, .dropout_seed = 9};
    l.custom = l.recompute = 1;
    check_bits(&l);
    l.custom = 0, l.sequence = 1;
    check_bits(&l);
}

/* O12: micro-batches of different lengths, one of them empty. */
static void lengths_of_each_micro_batch(void **state) {
    static const int32_t lengths[] = {0, 5, 6, 1, 3, 0, 2, 5}, past[] = {0, 1, 0, 4, 0, 0, 4, 1};
    (void)state;
    stage_layout l = {.micros = 8, .blocks = 2, .dtype = TPP_F32, .late = 1};
    l.lengths = lengths, l.past = past;
    check_bits(&l);
    assert_true(want.losses[0] == 0 && want.losses[1] > 0);
}

/* --- The unsplit model ------------------------------------------------------------------------ */

/* Cut parameters, or their gradients, out of `at` in the order that layers have them. */
static ref_real *cut(ref_real **at, int64_t count) {
    ref_real *part = *at;
    *at += count;
    return part;
}

static ref_gpt cut_model(ref_real *at) {
    const int64_t h = STAGE_HIDDEN, f = 4 * h;
    ref_gpt p = {.tokens = cut(&at, STAGE_VOCAB * h)};
    p.positions = cut(&at, STAGE_SEQ * h);
    for (int i = 0; i < 4; i++) {
        ref_block *b = &p.block[i];
        b->norm_1.weight = cut(&at, h), b->norm_1.bias = cut(&at, h);
        b->attention.qkv_weight = cut(&at, h * 3 * h), b->attention.out_weight = cut(&at, h * h);
        b->attention.qkv_bias = cut(&at, 3 * h), b->attention.out_bias = cut(&at, h);
        b->norm_2.weight = cut(&at, h), b->norm_2.bias = cut(&at, h);
        b->mlp.up_weight = cut(&at, h * f), b->mlp.down_weight = cut(&at, f * h);
        b->mlp.up_bias = cut(&at, f), b->mlp.down_bias = cut(&at, h);
    }
    p.norm.weight = cut(&at, h), p.norm.bias = cut(&at, h);
    p.head = cut(&at, h * STAGE_VOCAB);
    return p;
}

/* All sequences through the reference model at once, in 113-bit numbers: `want` gets the gradients of
 * the mean over tokens and each micro-batch's sum of losses. */
static void unsplit(int32_t micros) {
    enum { TOKENS = STAGE_SEQUENCES * STAGE_SEQ };
    const ref_size size = {.batch = STAGE_SEQUENCES,
                           .seq = STAGE_SEQ,
                           .hidden = STAGE_HIDDEN,
                           .ffn = 4 * STAGE_HIDDEN,
                           .heads = 4,
                           .head_cols = STAGE_HIDDEN / 4,
                           .vocab = STAGE_VOCAB,
                           .positions = STAGE_SEQ,
                           .blocks = 4,
                           .act = REF_GELU_TANH,
                           .epsilon = (ref_real)1e-5};
    ref_real *params = ref_new(want.count), *grads = ref_new(want.count);
    ref_real loss[TOKENS], slope[TOKENS];
    for (int64_t i = 0; i < want.count; i++)
        params[i] = want.params[i];
    for (int i = 0; i < TOKENS; i++)
        slope[i] = (ref_real)1 / TOKENS;
    ref_gpt p = cut_model(params), g = cut_model(grads);
    ref_gpt_forward(&size, &p, ids, targets, loss);
    ref_gpt_backward(&size, &p, ids, targets, slope, &g);
    for (int64_t i = 0; i < want.count; i++)
        want.grads[i] = (double)grads[i];
    for (int32_t m = 0; m < micros; m++) {
        ref_real sum = 0;
        for (int i = 0; i < TOKENS / micros; i++)
            sum += loss[m * (TOKENS / micros) + i];
        want.losses[m] = (double)sum;
    }
    free(params);
    free(grads);
}

static void as_unsplit(const tpp_schedule *s, const tpp_schedule_desc *d, void *arg) {
    layouts *all = arg;
    tpp_schedule_info info = {.size = sizeof info};
    if (d->micros != all->base.micros)
        return;
    assert_int_equal(tpp_schedule_query(s, &info), TPP_OK);
    all->base.threads = all->turn % 3;
    all->base.tp = all->turn % 4 == 3 ? 4 : 1;
    all->base.late = all->turn++ % 2;
    train(&all->base, d);
    const char *name = tpp_schedule_kind_name(d->kind);
    assert_close_f64(name, got.losses, want.losses, all->base.micros, 1e-13);
    if (!info.forward_only)
        assert_close_f64(name, got.grads, want.grads, want.count, 1e-13);
}

/* O06 as well: each micro-batch has targets and losses of its own, the gradient is the sum of all. */
static void gradients_are_those_of_the_unsplit_model(void **state) {
    static const exec_shapes shapes = {.ranks = 4, .micros = 8, .chunks = 3, .depth = STAGE_PIECES};
    (void)state;
    for (int32_t micros = 2; micros <= 8; micros *= 4) {
        stage_layout one = {.tp = 1, .pp = 1, .micros = micros, .dtype = TPP_F64};
        one.kind = TPP_SCHEDULE_GPIPE;
        stage_train(&one, ids, targets, &want); /* parameters, and their number */
        unsplit(micros);
        layouts all = {.base = one};
        exec_kinds_each(&shapes, as_unsplit, &all);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_gives_the_same_bits),
        cmocka_unit_test(tied_copies_too),
        cmocka_unit_test(whatever_the_layers_do),
        cmocka_unit_test(lengths_of_each_micro_batch),
        cmocka_unit_test(gradients_are_those_of_the_unsplit_model),
    };
    return cmocka_run_group_tests(tests, make_data, NULL);
}
