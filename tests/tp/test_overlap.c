/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Runs that two maps share against a search over all indices, and parts moved by runs alone against
 * those cut out of the full tensor, for random maps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tpp/tpp.h>

#include "support/close.h"

enum { RANKS = 8 };

static uint64_t seed;

static int64_t draw(int64_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)below);
}

/* A split of a [rows, cols] tensor over some ranks. */
typedef struct split {
    int32_t ranks;
    tpp_shard of[RANKS];
    void *part[RANKS];
} split;

/* Random: any axis, 1 to 3 sections that divide its length, blocks with or without copies, padding
 * where blocks do not divide; ranks of unequal numbers of blocks, also of none. */
static split draw_split(int64_t rows, int64_t cols) {
    split s = {.ranks = 1 + (int32_t)draw(RANKS)};
    tpp_axis axis = (tpp_axis)draw(3);
    tpp_shard map = {rows, cols, rows, axis, 1, 1, 0, 1, 0, {0, 0}};
    if (axis != TPP_AXIS_NONE) {
        int64_t length = axis == TPP_AXIS_ROWS ? rows : cols;
        map.valid = length;
        do
            map.sections = 1 + (int32_t)draw(3);
        while (length % map.sections != 0);
        int64_t pieces = 1 + draw(6), copies = 1 + draw(3);
        map.copies = copies > 1 ? (int32_t)copies : (int32_t)draw(2);
        map.parts = (int32_t)(pieces * copies);
        int64_t each = (length / map.sections + pieces - 1) / pieces + draw(2);
        *(axis == TPP_AXIS_ROWS ? &map.rows : &map.cols) = each * pieces * map.sections;
    }
    for (int32_t r = 0; r < s.ranks; r++) {
        s.of[r] = map;
        if (axis == TPP_AXIS_NONE)
            continue;
        int32_t left = map.parts - map.first;
        s.of[r].count = r + 1 == s.ranks ? left : (int32_t)draw(left + 1);
        map.first += s.of[r].count;
    }
    return s;
}

static void *room(const tpp_shard *shard, int64_t width) {
    int64_t bytes = tpp_shard_rows(shard) * tpp_shard_cols(shard) * width;
    unsigned char *memory = malloc((size_t)bytes + 1);
    assert_non_null(memory);
    memset(memory, 0xee, (size_t)bytes + 1);
    return memory;
}

static void cut(split *s, const void *full, tpp_dtype dtype, int64_t width) {
    for (int32_t r = 0; r < s->ranks; r++) {
        s->part[r] = room(&s->of[r], width);
        assert_int_equal(tpp_shard_split(&s->of[r], full, s->part[r], dtype), TPP_OK);
    }
}

static void drop(split *s) {
    for (int32_t r = 0; r < s->ranks; r++)
        free(s->part[r]);
}

/* What a rank of `from` would send to a rank of `to`: every run of rows with every run of columns. */
static void send(const tpp_shard *from, const char *in, const tpp_shard *to, char *out,
                 int64_t width) {
    tpp_shard_run row = {0, 0, 0, 0}, col;
    int64_t ld_in = tpp_shard_cols(from) * width, ld_out = tpp_shard_cols(to) * width;
    for (;;) {
        assert_int_equal(tpp_shard_overlap(from, to, TPP_AXIS_ROWS, row.to + row.count, &row),
                         TPP_OK);
        if (row.count == 0)
            return;
        for (col = (tpp_shard_run){0, 0, 0, 0};;) {
            assert_int_equal(tpp_shard_overlap(from, to, TPP_AXIS_COLS, col.to + col.count, &col),
                             TPP_OK);
            if (col.count == 0)
                break;
            for (int64_t r = 0; r < row.count; r++)
                memcpy(out + (row.to + r) * ld_out + col.to * width,
                       in + (row.from + r) * ld_in + col.from * width, (size_t)(col.count * width));
        }
    }
}

/* Every part of `to` from those of `from`, also along another axis, equal to what cut made. */
static void move(const split *from, const split *to, int64_t width) {
    for (int32_t r = 0; r < to->ranks; r++) {
        int64_t bytes = tpp_shard_rows(&to->of[r]) * tpp_shard_cols(&to->of[r]) * width;
        char *got = calloc((size_t)bytes + 1, 1);
        assert_non_null(got);
        for (int32_t i = 0; i < from->ranks; i++)
            send(&from->of[i], from->part[i], &to->of[r], got, width);
        assert_same_bits("moved", got, to->part[r], (uint64_t)bytes);
        free(got);
    }
}

static void random_splits(void **state) {
    static const struct {
        tpp_dtype dtype;
        int64_t width;
    } types[] = {{TPP_F32, 4}, {TPP_F64, 8}, {TPP_BF16, 2}};
    (void)state;
    for (int k = 0; k < 4000; k++) {
        seed = (uint64_t)k;
        int64_t rows = draw(25), cols = draw(25), width = types[k % 3].width;
        unsigned char *full = malloc((size_t)(rows * cols * width) + 1);
        assert_non_null(full);
        for (int64_t i = 0; i < rows * cols * width; i++)
            full[i] = (unsigned char)draw(256);
        split s[3];
        for (int i = 0; i < 3; i++) {
            s[i] = draw_split(rows, cols);
            cut(&s[i], full, types[k % 3].dtype, width);
        }
        move(&s[0], &s[1], width);
        move(&s[1], &s[2], width);
        move(&s[2], &s[0], width);
        for (int i = 0; i < 3; i++)
            drop(&s[i]);
        free(full);
    }
}

/* Global index along an axis by tpp_shard_index; -1 for padding. */
static int64_t global_of(const tpp_shard *s, tpp_axis axis, int64_t local) {
    if (s->axis != axis)
        return local;
    int64_t at = tpp_shard_index(s, local);
    return at < s->valid ? at : -1;
}

static int64_t length_of(const tpp_shard *s, tpp_axis axis) {
    return axis == TPP_AXIS_ROWS ? tpp_shard_rows(s) : tpp_shard_cols(s);
}

/* The first local index of the source with that global one; -1: none. */
static int64_t find(const tpp_shard *source, tpp_axis axis, int64_t global) {
    for (int64_t i = 0; global >= 0 && i < length_of(source, axis); i++)
        if (global_of(source, axis, i) == global)
            return i;
    return -1;
}

static void check_runs(const tpp_shard *source, const tpp_shard *target, tpp_axis axis) {
    tpp_shard_run run = {0, 0, 0, 0}, last = {0, 0, 0, 0};
    int64_t at = 0, length = length_of(target, axis);
    for (;;) {
        assert_int_equal(tpp_shard_overlap(source, target, axis, at, &run), TPP_OK);
        int64_t end = run.count > 0 ? run.to : length;
        for (; at < end; at++) /* in between nothing is shared */
            assert_int_equal(find(source, axis, global_of(target, axis, at)), -1);
        if (run.count == 0)
            break;
        if (last.count > 0) /* else it would have been longer */
            assert_true(run.to > last.to + last.count || run.from != last.from + last.count);
        for (int64_t i = 0; i < run.count; i++, at++)
            assert_int_equal(find(source, axis, global_of(target, axis, at)), run.from + i);
        last = run;
    }
}

static void random_runs(void **state) {
    (void)state;
    for (int k = 0; k < 3000; k++) {
        seed = (uint64_t)k + 100000;
        int64_t rows = draw(25), cols = draw(25);
        split a = draw_split(rows, cols), b = draw_split(rows, cols);
        const tpp_shard *s = &a.of[draw(a.ranks)], *t = &b.of[draw(b.ranks)];
        check_runs(s, t, TPP_AXIS_ROWS);
        check_runs(s, t, TPP_AXIS_COLS);
    }
}

static void bad_arguments_get_a_sentence(void **state) {
    const tpp_shard whole = {4, 6, 4, TPP_AXIS_NONE, 1, 1, 0, 1, 0, {0, 0}};
    const tpp_shard other = {4, 5, 4, TPP_AXIS_NONE, 1, 1, 0, 1, 0, {0, 0}};
    const tpp_shard broken = {4, 6, 4, TPP_AXIS_ROWS, 1, 3, 0, 1, 0, {0, 0}};
    tpp_shard_run run;
    (void)state;
    assert_int_equal(tpp_shard_overlap(&whole, &other, TPP_AXIS_COLS, 0, &run), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "6 and 5 along the axis"));
    assert_int_equal(tpp_shard_overlap(&broken, &whole, 1, 0, &run), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "from is NULL or breaks"));
    assert_int_equal(tpp_shard_overlap(&whole, NULL, 1, 0, &run), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "to is NULL or breaks"));
    assert_int_equal(tpp_shard_overlap(&whole, &whole, 0, 0, &run), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "axis = 0"));
    assert_int_equal(tpp_shard_overlap(&whole, &whole, 1, -1, &run), TPP_ERR_INVALID);
    assert_int_equal(tpp_shard_overlap(&whole, &whole, 1, 0, NULL), TPP_ERR_INVALID);
    assert_int_equal(tpp_shard_overlap(&whole, &whole, 1, 4, &run), TPP_OK);
    assert_int_equal(run.count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_splits),
        cmocka_unit_test(random_runs),
        cmocka_unit_test(bad_arguments_get_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
