/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Angles of rotary positions: sines and cosines right to the last bits of float64 at every position that a
 * call can name; pairs and their direction; descriptors that are refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tpp/tpp.h>

#include "support/ref_gpt.h"
#include "tp/rope.h"

enum { HEAD = 128 };

static const tpp_rope_desc descs[] = {
    {.size = sizeof descs[0]},
    {.size = sizeof descs[0], .theta = 500000},
    {.size = sizeof descs[0], .theta = 1e7, .cols = 64},
    {.size = sizeof descs[0], .theta = 1e300, .cols = 6},
    {.size = sizeof descs[0], .theta = 3, .cols = 126},
    {.size = sizeof descs[0], .theta = 1, .cols = 2},
    {.size = sizeof descs[0], .scaling = TPP_ROPE_LINEAR, .factor = 3},
    {.size = sizeof descs[0],
     .theta = 500000,
     .scaling = TPP_ROPE_LLAMA3,
     .factor = 8,
     .low_freq_factor = 1,
     .high_freq_factor = 4,
     .original_positions = 8192},
};
enum { DESCS = sizeof descs / sizeof *descs, LLAMA3 = DESCS - 1 };

static const int64_t positions[] = {0,    1,      63,         64,        65,
                                    4095, 131071, 1000003,    16777217,  1000000007,
                                    127,  8192,   2147483646, INT32_MAX, 3};
enum { POSITIONS = sizeof positions / sizeof *positions };

/* The turns of a descriptor, and their memory. */
typedef struct walk {
    tpp_rope_desc desc;
    void *memory, *room;
    tpp__rope rope;
    tpp__turns turns;
} walk;

static void *take(int64_t bytes) {
    void *memory = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
    if (!memory)
        abort();
    return memory;
}

static void open(walk *w, const tpp_rope_desc *given, bool back) {
    assert_int_equal(tpp__rope_read(given, HEAD, &w->desc), TPP_OK);
    w->memory = take(tpp__rope_bytes(w->desc.cols));
    w->rope = tpp__rope_over(&w->desc, w->memory);
    w->room = take(tpp__turns_bytes(&w->rope));
    w->turns = tpp__turns_over(&w->rope, back, w->room);
}

static void end(walk *w) {
    free(w->memory);
    free(w->room);
}

/* The reference turns (1, 0) of each pair. */
static ref_real *truth(const tpp_rope_desc *d, int64_t position) {
    ref_size s = {.batch = 1, .seq = 1, .heads = 1, .head_cols = d->cols};
    s.rope_theta = (ref_real)d->theta;
    s.past = position;
    s.rope_factor = d->scaling == TPP_ROPE_PLAIN ? 0 : (ref_real)d->factor;
    s.rope_low = (ref_real)d->low_freq_factor;
    s.rope_high = (ref_real)d->high_freq_factor;
    s.rope_original = (ref_real)d->original_positions;
    ref_real *x = ref_new(d->cols);
    for (int32_t j = 0; j < d->cols / 2; j++)
        x[j] = 1;
    ref_rope(&s, 1, x, 0);
    return x;
}

static void check_near(const char *what, int64_t position, int32_t number, double got, double want,
                       double off) {
    if (!(off < 3.5e-16 && off > -3.5e-16))
        fail_msg("%s, position %lld, number %d: %.17g, want %.17g, off by %.3g", what,
                 (long long)position, number, got, want, off);
}

static void test_far(void **state) {
    (void)state;
    for (int i = 0; i < DESCS; i++) {
        walk w;
        char what[32];
        snprintf(what, sizeof what, "descriptor %d", i);
        open(&w, &descs[i], false);
        for (int k = 0; k < POSITIONS; k++) {
            ref_real *want = truth(&w.desc, positions[k]);
            tpp__turns_to(&w.turns, positions[k]);
            for (int32_t n = 0; n < w.desc.cols; n++)
                check_near(what, positions[k], n, w.turns.row[n], (double)want[n],
                           (double)((ref_real)w.turns.row[n] - want[n]));
            free(want);
        }
        end(&w);
    }
}

/* Llama 3.1's at position 131071, by another program with 50 digits: pairs that keep their speed, that
 * lie between, and that are slowed. */
static void test_known(void **state) {
    static const struct {
        int32_t pair;
        double cosine, sine;
    } known[] = {
        {0, -0.81798349938794908071, -0.57524168375478937114},
        {1, -0.81731615002386427279, 0.57618947483459656553},
        {28, 0.99894321620414300976, -0.045961405545553048956},
        {29, 0.33305207599903164853, 0.94290843387506893534},
        {32, 0.94831054976305878577, -0.31734382175817635779},
        {36, -0.7118640354631270985, -0.70231730365565657525},
        {63, 0.99919109503539745081, 0.040213873252440378861},
    };
    walk w;
    (void)state;
    open(&w, &descs[LLAMA3], false);
    tpp__turns_to(&w.turns, 131071);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double cosine = w.turns.row[known[i].pair], sine = w.turns.row[known[i].pair + HEAD / 2];
        check_near("cosine", 131071, known[i].pair, cosine, known[i].cosine,
                   cosine - known[i].cosine);
        check_near("sine", 131071, known[i].pair, sine, known[i].sine, sine - known[i].sine);
    }
    end(&w);
}

/* The first four of six columns at position 7, in both pairings, by that program; then back. */
static void test_pairings(void **state) {
    static const double want[2][4] = {
        {-0.304264385453265658, -0.261796593595446841, 0.729673340437175751, 1.08695103090333395},
        {-0.140017735773568386, 0.541197776851349592, -0.070586046774324734, 1.24800545271275672}};
    (void)state;
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        tpp_rope_desc d = {.size = sizeof d, .theta = 100, .cols = 4};
        double x[6] = {0.25, 0.5, 0.75, 1, 1.25, 1.5};
        d.flags = interleaved ? TPP_ROPE_INTERLEAVED : 0;
        for (int back = 0; back < 2; back++) {
            walk w;
            open(&w, &d, back);
            tpp__turns_to(&w.turns, 7);
            tpp__kern_rotate(TPP_F64, w.rope.half, w.rope.interleaved, w.turns.row,
                             w.turns.row + w.rope.half, x);
            for (int32_t n = 0; n < 6; n++) {
                double y = n < 4 && !back ? want[interleaved][n] : 0.25 * (n + 1);
                check_near(back ? "back" : "there", 7, n, x[n], y, x[n] - y);
            }
            end(&w);
        }
    }
}

/* An angle does not depend on where the walk came from. */
static void test_order(void **state) {
    (void)state;
    for (int i = 0; i < DESCS; i++) {
        walk w, fresh;
        open(&w, &descs[i], false);
        for (int k = 0; k < POSITIONS; k++) {
            open(&fresh, &descs[i], false);
            tpp__turns_to(&w.turns, positions[k]);
            tpp__turns_to(&fresh.turns, positions[k]);
            assert_memory_equal(w.turns.row, fresh.turns.row,
                                (size_t)w.desc.cols * sizeof *w.turns.row);
            end(&fresh);
        }
        end(&w);
    }
}

static void refuse(const tpp_rope_desc *rope, const char *says) {
    tpp_layer_env env = {.size = sizeof env};
    tpp_attention_desc d = {.size = sizeof d, .hidden = 12, .heads = 2, .rope = rope};
    tpp_layer *layer;
    assert_int_equal(tpp_attention_create(&layer, &env, &d), TPP_ERR_INVALID);
    assert_null(layer);
    if (!strstr(tpp_message(), says))
        fail_msg("\"%s\" does not say \"%s\"", tpp_message(), says);
    tpp_block_desc block = {.size = sizeof block, .hidden = 12, .heads = 2, .rope = rope};
    assert_int_equal(tpp_block_create(&layer, &env, &block), TPP_ERR_INVALID);
    assert_null(layer);
}

#define REFUSE(field, value, says)                                                                 \
    do {                                                                                           \
        tpp_rope_desc rope_ = descs[LLAMA3];                                                       \
        rope_.field = (value);                                                                     \
        refuse(&rope_, says);                                                                      \
    } while (0)

static void test_refused(void **state) {
    (void)state;
    REFUSE(size, 4, "desc.rope.size = 4");
    REFUSE(theta, 0.5, "desc.rope.theta = 0.5 is not accepted; accepted: 1 or more");
    REFUSE(theta, -1.0, "desc.rope.theta = -1");
    REFUSE(theta, (double)NAN, "desc.rope.theta = nan");
    REFUSE(theta, (double)INFINITY, "desc.rope.theta = inf");
    REFUSE(cols, 8, "desc.rope.cols = 8 is not accepted; accepted: even numbers 2 .. 6");
    REFUSE(cols, 3, "desc.rope.cols = 3");
    REFUSE(cols, -2, "desc.rope.cols = -2");
    REFUSE(scaling, 3, "desc.rope.scaling = 3");
    REFUSE(scaling, -1, "desc.rope.scaling = -1");
    REFUSE(factor, 0.0, "desc.rope.factor = 0");
    REFUSE(factor, (double)NAN, "desc.rope.factor = nan");
    REFUSE(low_freq_factor, 0.0, "desc.rope.low_freq_factor = 0");
    REFUSE(low_freq_factor, 4.0, "desc.rope.high_freq_factor = 4 are not accepted");
    REFUSE(high_freq_factor, (double)INFINITY, "desc.rope.high_freq_factor = inf");
    REFUSE(original_positions, 0, "desc.rope.original_positions = 0");
    tpp_layer_env env = {.size = sizeof env};
    tpp_attention_desc odd = {.size = sizeof odd, .hidden = 6, .heads = 2, .rope = &descs[0]};
    tpp_layer *layer;
    assert_int_equal(tpp_attention_create(&layer, &env, &odd), TPP_ERR_INVALID);
    assert_string_equal(tpp_message(),
                        "desc.rope.cols = 3 is not accepted; accepted: even numbers 2 .. "
                        "3 (the head's columns), 0 for all when they are even");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_far),      cmocka_unit_test(test_known),
        cmocka_unit_test(test_pairings), cmocka_unit_test(test_order),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
