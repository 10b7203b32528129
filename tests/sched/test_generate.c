/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/sched_support.h"

#include <stdbool.h>
#include <stdio.h>

static void equals_file(const char *name, tpp_schedule *s) {
    char *text = sched_text(s), *golden = sched_file(name);
    if (!golden)
        fail_msg("%s is not there; run with TPP_SOURCE_DIR", name);
    assert_string_equal(text, golden);
    free(text);
    free(golden);
    tpp_schedule_destroy(s);
}

static void test_golden(void **state) {
    (void)state;
    const tpp_schedule_kind inter = TPP_SCHEDULE_INTERLEAVED, izb = TPP_SCHEDULE_ZB_INTERLEAVED;
    equals_file("gpipe_p4_m8.txt", sched_created(TPP_SCHEDULE_GPIPE, 4, 1, 8, 0));
    equals_file("1f1b_p4_m8.txt", sched_created(TPP_SCHEDULE_1F1B, 4, 1, 8, 0));
    equals_file("interleaved_p2_v2_m4.txt", sched_created(inter, 2, 2, 4, 0));
    equals_file("interleaved_p4_v2_m8.txt", sched_created(inter, 4, 2, 8, 0));
    equals_file("interleaved_p3_v2_m7.txt", sched_created(inter, 3, 2, 7, 0));
    equals_file("interleaved_p2_v2_m5_g3.txt", sched_created(inter, 2, 2, 5, 3));
    equals_file("bfs_p4_v2_m8.txt", sched_created(TPP_SCHEDULE_BFS, 4, 2, 8, 0));
    equals_file("bfs_p3_v3_m2.txt", sched_created(TPP_SCHEDULE_BFS, 3, 3, 2, 0));
    equals_file("eager_1f1b_p4_m8.txt", sched_created(TPP_SCHEDULE_EAGER_1F1B, 4, 1, 8, 0));
    equals_file("forward_only_p3_v2_m7.txt", sched_created(TPP_SCHEDULE_FORWARD_ONLY, 3, 2, 7, 0));
    equals_file("zb_h1_p4_m8.txt", sched_created(TPP_SCHEDULE_ZB_H1, 4, 1, 8, 0));
    equals_file("zb_h1_p4_m2.txt", sched_created(TPP_SCHEDULE_ZB_H1, 4, 1, 2, 0));
    equals_file("zb_h2_p4_m8.txt", sched_created(TPP_SCHEDULE_ZB_H2, 4, 1, 8, 0));
    equals_file("zb_interleaved_p4_v2_m8.txt", sched_created(izb, 4, 2, 8, 0));
    equals_file("zb_interleaved_p3_v2_m7.txt", sched_created(izb, 3, 2, 7, 0));
}

/* In the words of the published orders: B is our I, BW our B. */
static const char *published_name(int32_t op) {
    switch (op) {
    case TPP_OP_F:
        return "F";
    case TPP_OP_B:
        return "BW";
    case TPP_OP_I:
        return "B";
    default:
        return "W";
    }
}

static void equals_published(tpp_schedule_kind kind, int32_t stage, const char *expected) {
    tpp_schedule *s = sched_created(kind, 4, 1, 8, 0);
    int64_t count;
    const tpp_action *a = tpp_schedule_actions(s, stage, &count);
    char got[200] = "";
    for (int64_t i = 0; i < count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s%d", i ? " " : "",
                 published_name(a[i].op), a[i].micro);
    assert_string_equal(got, expected);
    tpp_schedule_destroy(s);
}

/* The published orders: a row is schedule, stages, micro-batches, stage, "F0 F1 BW0 ...". */
static void test_published(void **state) {
    (void)state;
    static const struct {
        const char *name;
        tpp_schedule_kind kind;
    } names[] = {
        {"1F1B", TPP_SCHEDULE_1F1B}, {"ZB-H1", TPP_SCHEDULE_ZB_H1}, {"ZB-H2", TPP_SCHEDULE_ZB_H2}};
    char *csv = sched_file("zb_golden_orders_p4_m8.csv");
    assert_non_null(csv);
    int rows = 0;
    for (char *row = strtok(csv, "\r\n"); row; row = strtok(NULL, "\r\n")) {
        int stage;
        char name[16], order[200];
        if (sscanf(row, "%15[^,],4,8,%d,%199[^\n]", name, &stage, order) != 3)
            continue;
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (strcmp(name, names[k].name) != 0)
                continue;
            equals_published(names[k].kind, stage, order);
            rows++;
        }
    }
    assert_int_equal(rows, 12);
    free(csv);
}

/* p 2, group 3, m 5, v 2: the groups are micro-batches 0 1 2 and 3 4. */
static void test_short_group(void **state) {
    (void)state;
    static const int32_t micro[] = {0, 1, 2, 0, 1, 2, 3, 4, 3, 4};
    static const int32_t chunk[] = {0, 0, 0, 1, 1, 1, 0, 0, 1, 1};
    tpp_schedule *s = sched_created(TPP_SCHEDULE_INTERLEAVED, 2, 2, 5, 3);
    for (int32_t rank = 0; rank < 2; rank++) {
        int64_t count;
        const tpp_action *a = tpp_schedule_actions(s, rank, &count);
        int f = 0, b = 0;
        for (int64_t i = 0; i < count; i++) {
            bool forward = a[i].op == TPP_OP_F;
            int k = forward ? f++ : b++;
            assert_int_equal(a[i].micro, micro[k]);
            assert_int_equal(a[i].chunk, forward ? chunk[k] : 1 - chunk[k]);
        }
        assert_int_equal(f, 10);
        assert_int_equal(b, 10);
    }
    tpp_schedule_destroy(s);
}

static int32_t warmup_of(const tpp_schedule *s, int32_t rank) {
    int64_t count;
    const tpp_action *a = tpp_schedule_actions(s, rank, &count);
    int32_t w = 0;
    while (a[w].op == TPP_OP_F)
        w++;
    return w - 1; /* the forward of the first pair is there too */
}

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* The warm-up is the textbook's wherever that cannot make the ranks wait in a ring. */
static void test_warmup(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 6; p++) {
        for (int32_t m = p; m <= 24; m++) {
            for (int32_t v = 2; v <= 3; v++) {
                for (int32_t g = p; g <= m; g++) {
                    if (m % g != 0 && g + m % g < 2 * (p - 1))
                        continue;
                    tpp_schedule *s = sched_created(TPP_SCHEDULE_INTERLEAVED, p, v, m, g);
                    for (int32_t r = 0; r < p; r++)
                        assert_int_equal(warmup_of(s, r),
                                         least(2 * (p - 1 - r) + (v - 1) * g, m * v - 1));
                    tpp_schedule_destroy(s);
                }
            }
        }
    }
}

/* Without a group the micro-batches are dealt evenly: 11 to 4 ranks are groups of 6 and 5. */
static void test_default_group(void **state) {
    (void)state;
    static const struct {
        int32_t p, m, groups, size[4];
    } cases[] = {{4, 8, 2, {4, 4}},  {4, 10, 2, {5, 5}},   {4, 11, 2, {6, 5}},      {4, 3, 1, {3}},
                 {6, 37, 4, {7, 6}}, {2, 7, 3, {3, 2, 2}}, {3, 12, 4, {3, 3, 3, 3}}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        tpp_schedule *s = sched_created(TPP_SCHEDULE_INTERLEAVED, cases[c].p, 2, cases[c].m, 0);
        int64_t count;
        const tpp_action *a = tpp_schedule_actions(s, 0, &count);
        int32_t group = 0, run = 0, chunk = 0;
        for (int64_t i = 0; i < count && group < 4 && cases[c].size[group] > 0; i++) {
            if (a[i].op != TPP_OP_F)
                continue;
            if (a[i].chunk != chunk) {
                assert_int_equal(run, cases[c].size[group]);
                group += chunk;
                chunk = a[i].chunk;
                run = 0;
            }
            run++;
        }
        tpp_schedule_destroy(s);
    }
}

/* Every built-in order is accepted, with every group, and with chunks on a single rank too. */
static void test_all_accepted(void **state) {
    (void)state;
    int made = 0;
    for (int32_t p = 1; p <= 6; p++) {
        for (int32_t m = 1; m <= 12; m++) {
            for (int32_t kind = TPP_SCHEDULE_GPIPE; kind <= TPP_SCHEDULE_INTERLEAVED; kind++) {
                bool inter = kind == TPP_SCHEDULE_INTERLEAVED;
                for (int32_t v = 1; v <= (inter ? 3 : 1); v++) {
                    for (int32_t g = 0; g <= (inter ? m : 0); g++) {
                        tpp_schedule *s = sched_made(kind, p, v, m, g);
                        if (!s)
                            fail_msg("kind %d p %d v %d m %d g %d: %s", kind, p, v, m, g,
                                     tpp_message());
                        tpp_schedule_destroy(s);
                        made++;
                    }
                }
            }
        }
    }
    assert_int_equal(made, 1764);
    static const int32_t larger[][4] = {{8, 2, 73, 0}, {8, 2, 74, 9},   {6, 2, 37, 7},
                                        {5, 4, 12, 5}, {16, 3, 36, 16}, {9, 4, 26, 25}};
    for (size_t i = 0; i < sizeof larger / sizeof *larger; i++) {
        const int32_t *x = larger[i];
        tpp_schedule *s = sched_made(TPP_SCHEDULE_INTERLEAVED, x[0], x[1], x[2], x[3]);
        if (!s)
            fail_msg("p %d v %d m %d g %d: %s", x[0], x[1], x[2], x[3], tpp_message());
        tpp_schedule_destroy(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),        cmocka_unit_test(test_published),
        cmocka_unit_test(test_short_group),   cmocka_unit_test(test_warmup),
        cmocka_unit_test(test_default_group), cmocka_unit_test(test_all_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
