/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* From one split to another: t -> t' -> t'' gives the bytes that cutting the full tensor gives, for
 * every parameter of every kind of layer and for random maps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"
#include "support/tp_case.h"
#include "support/tp_memory.h"
#include "support/tp_ranks.h"

/* The parts of all ranks of a split. */
typedef struct parts {
    int32_t ranks;
    tpp_shard map[16];
    double *part[16];
} parts;

static int64_t count_of(const tpp_shard *s) {
    return tpp_shard_rows(s) * tpp_shard_cols(s);
}

static void new_parts(parts *p) {
    for (int32_t r = 0; r < p->ranks; r++) {
        int64_t bytes = count_of(&p->map[r]) * (int64_t)sizeof(double);
        p->part[r] = malloc((size_t)bytes + 1);
        assert_non_null(p->part[r]);
        memset(p->part[r], TP_NAN, (size_t)bytes);
    }
}

static void free_parts(parts *p) {
    for (int32_t r = 0; r < p->ranks; r++)
        free(p->part[r]);
}

static void cut(parts *p, const double *full) {
    new_parts(p);
    for (int32_t r = 0; r < p->ranks; r++)
        assert_int_equal(tpp_shard_split(&p->map[r], full, p->part[r], TPP_F64), TPP_OK);
}

static void convert(const parts *from, parts *to) {
    new_parts(to);
    for (int32_t r = 0; r < to->ranks; r++)
        for (int32_t q = 0; q < from->ranks; q++)
            assert_int_equal(
                tpp_shard_reshard(&from->map[q], from->part[q], &to->map[r], to->part[r], TPP_F64),
                TPP_OK);
}

/* a -> b -> c against the full tensor cut by c. */
static void check(parts *a, parts *b, parts *c, int64_t count) {
    double *full = malloc((size_t)count * sizeof *full + 1);
    assert_non_null(full);
    for (int64_t i = 0; i < count; i++)
        full[i] = (double)i + 1;
    cut(a, full);
    convert(a, b);
    convert(b, c);
    parts want = *c;
    cut(&want, full);
    for (int32_t r = 0; r < c->ranks; r++)
        assert_same_bits("part", c->part[r], want.part[r],
                         (uint64_t)count_of(&c->map[r]) * sizeof(double));
    free_parts(a), free_parts(b), free_parts(c), free_parts(&want);
    free(full);
}

static tpp_shard map_of(const tp_case *c, const char *name, int32_t rank, int32_t ranks,
                        int32_t blocks) {
    tpp_comm *comm = ranks > 1 ? tp_comm_stub(rank, ranks) : NULL;
    tpp_layer_env env = {.size = sizeof env, .comm = comm, .blocks = blocks};
    tpp_param_info p = {.size = sizeof p};
    tpp_layer *layer;
    assert_int_equal(c->kind->create(&layer, &env, c->desc), TPP_OK);
    for (int32_t i = 0; tpp_layer_param(layer, i, &p) == TPP_OK && strcmp(p.name, name); i++)
        continue;
    tpp_layer_destroy(layer);
    tpp_comm_destroy(comm);
    return p.shard;
}

static parts parts_of(const tp_case *c, const char *name, int32_t ranks, int32_t blocks) {
    parts p = {.ranks = ranks};
    for (int32_t r = 0; r < ranks; r++)
        p.map[r] = map_of(c, name, r, ranks, blocks);
    return p;
}

static void every_parameter(void **state) {
    (void)state;
    for (const tp_case *c = tp_cases; c->name; c++) {
        tp_full *full = tp_full_inputs(c, 1, 1, 1);
        for (int32_t n = 0; n < full->params; n++) {
            const char *name = full->param[n].name;
            parts a = parts_of(c, name, 2, n % 2 ? 8 : 0), b = parts_of(c, name, 8, 0),
                  d = parts_of(c, name, 1 + n % 4 / 3 * 3, 0);
            check(&a, &b, &d, full->param[n].rows * full->param[n].cols);
        }
        tp_full_free(full);
    }
}

/* A random way to hold `real` rows or columns in `sections`, maybe with padding or copies. */
static parts random_parts(tpp_axis axis, int64_t real, int64_t across, int32_t sections,
                          uint64_t *state) {
    parts p = {.ranks = 1 + (int32_t)((tp_random(state) + 1) * 4)};
    int32_t per_rank = 1 + (int32_t)((tp_random(state) + 1) * 1.5);
    int32_t blocks = p.ranks * per_rank, copies = tp_random(state) > 0.5 ? p.ranks : 1;
    int64_t pieces = blocks / copies, section = real / sections;
    int64_t length = (section + pieces - 1) / pieces * pieces * sections;
    for (int32_t r = 0; r < p.ranks; r++)
        p.map[r] = (tpp_shard){.rows = axis == TPP_AXIS_ROWS ? length : across,
                               .cols = axis == TPP_AXIS_ROWS ? across : length,
                               .valid = real,
                               .axis = axis,
                               .sections = sections,
                               .parts = blocks,
                               .first = r * per_rank,
                               .count = per_rank,
                               .copies = copies};
    return p;
}

static void random_maps(void **state) {
    uint64_t seed = 1;
    (void)state;
    for (int i = 0; i < 2000; i++) {
        tpp_axis axis = i % 2 ? TPP_AXIS_ROWS : TPP_AXIS_COLS;
        int32_t sections = 1 + (int32_t)((tp_random(&seed) + 1) * 1.5);
        int64_t real = sections * (1 + (int64_t)((tp_random(&seed) + 1) * 10));
        parts a = random_parts(axis, real, 3, sections, &seed);
        parts b = random_parts(axis, real, 3, sections, &seed);
        parts c = random_parts(axis, real, 3, sections, &seed);
        for (int64_t k = 0; k < real; k++) { /* the two index maps are each other's inverse */
            int64_t local = tpp_shard_local(&a.map[0], k, axis);
            assert_true(local < 0 || tpp_shard_index(&a.map[0], local) == k);
        }
        check(&a, &b, &c, real * 3);
    }
}

static void refused(void **state) {
    double x[64] = {0};
    tpp_shard a = {4, 4, 4, TPP_AXIS_ROWS, 1, 2, 0, 1, 0, {0, 0}}, b = a;
    (void)state;
    assert_int_equal(tpp_shard_reshard(&a, x, &b, x + 32, TPP_F64), TPP_OK);
    assert_int_equal(tpp_shard_reshard(NULL, x, &b, x, TPP_F64), TPP_ERR_INVALID);
    assert_int_equal(tpp_shard_reshard(&a, x, &b, x, 99), TPP_ERR_INVALID);
    assert_int_equal(tpp_shard_reshard(&a, NULL, &b, x, TPP_F64), TPP_ERR_INVALID);
    b.parts = 3;
    assert_int_equal(tpp_shard_reshard(&a, x, &b, x, TPP_F64), TPP_ERR_INVALID);
    assert_string_equal(tpp_message(), "to breaks the rules of a map (see tpp_shard)");
    /* a rank without blocks of a tensor without columns: nothing, but no breach */
    const tpp_shard none = {4, 0, 4, TPP_AXIS_ROWS, 1, 2, 0, 0, 0, {0, 0}};
    assert_int_equal(tpp_shard_reshard(&none, NULL, &none, NULL, TPP_F64), TPP_OK);
    b = a;
    b.axis = TPP_AXIS_COLS;
    assert_int_equal(tpp_shard_reshard(&a, x, &b, x, TPP_F64), TPP_ERR_INVALID);
    assert_string_equal(tpp_message(),
                        "from is split by rows and to by columns; both must split the same axis");
    b = a, b.rows = 6, b.valid = 6;
    assert_int_equal(tpp_shard_reshard(&a, x, &b, x, TPP_F64), TPP_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_parameter),
        cmocka_unit_test(random_maps),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
