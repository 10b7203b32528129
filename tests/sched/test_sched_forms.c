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

/* Text and CSV of every kind of schedule, and of damaged ones. */

static uint32_t way(const tpp_schedule *s) {
    tpp_schedule_info info = {.size = sizeof info};
    assert_ok(tpp_schedule_query(s, &info));
    return info.directions == 2 ? TPP_CSV_TWO_WAY : 0;
}

static void same(const tpp_schedule *a, const tpp_schedule *b) {
    tpp_schedule_info x = {.size = sizeof x}, y = {.size = sizeof y};
    assert_ok(tpp_schedule_query(a, &x));
    assert_ok(tpp_schedule_query(b, &y));
    y.finished = x.finished;
    assert_memory_equal(&x, &y, sizeof x);
    for (int32_t r = 0; r < x.ranks; r++) {
        int64_t n, m;
        const tpp_action *p = tpp_schedule_actions(a, r, &n), *q = tpp_schedule_actions(b, r, &m);
        assert_int_equal(n, m);
        assert_memory_equal(p, q, (size_t)n * sizeof *p);
    }
}

static void text_and_back(const tpp_schedule *s) {
    char *text = sched_text(s);
    tpp_schedule *again = sched_parsed(text);
    if (!again)
        fail_msg("%s\n%s", tpp_message(), text);
    same(s, again);
    char *text_again = sched_text(again);
    assert_string_equal(text, text_again);
    free(text);
    free(text_again);
    tpp_schedule_destroy(again);
}

static tpp_schedule *csv_and_back(const tpp_schedule *s, uint32_t flags) {
    char *csv = sched_csv(s, flags);
    tpp_schedule *again = NULL;
    if (!csv || tpp_schedule_parse_csv(&again, csv, (int64_t)strlen(csv), way(s), NULL) != TPP_OK)
        fail_msg("%s\n%s", tpp_message(), csv ? csv : "");
    char *csv_again = sched_csv(again, flags);
    assert_string_equal(csv, csv_again);
    free(csv);
    free(csv_again);
    return again;
}

/* --- Time slots, held to their definition --- */

enum { CELLS = 16 * 16 };

typedef struct grid {
    int32_t f[CELLS], i[CELLS]; /* slot of F, of B or I; -1: none */
} grid;

static int32_t after(const int32_t *slots, int32_t cell) {
    assert_true(slots[cell] >= 0);
    return slots[cell] + 1;
}

/* The first slot in which the action has what it needs, from the slots of all others. */
static int32_t least_slot(const grid *g, const tpp_schedule_info *info, const tpp_action *a) {
    int32_t cell = a->stage * info->micros + a->micro, place = a->stage % info->depth, t = 0;
    if (a->op == TPP_OP_F)
        return place > 0 ? after(g->f, cell - info->micros) : 0;
    if (a->op == TPP_OP_W)
        return after(g->i, cell);
    if (place + 1 < info->depth)
        t = after(g->i, cell + info->micros);
    return t > after(g->f, cell) ? t : after(g->f, cell);
}

/* Calls `visit` with the slot of every action that the CSV has, in order; idle cells are empty. */
static void each_cell(const tpp_schedule *s, const char *csv,
                      void (*visit)(void *, const tpp_action *, int count, int32_t slot),
                      void *ctx) {
    tpp_schedule_info info = {.size = sizeof info};
    assert_ok(tpp_schedule_query(s, &info));
    for (int32_t r = 0; r < info.ranks; r++) {
        int64_t count, i = 0;
        const tpp_action *a = tpp_schedule_actions(s, r, &count);
        for (int32_t slot = 0; *csv != '\r'; slot++) {
            size_t length = strcspn(csv, ",\r");
            if (length > 0 && *csv != '"') {
                int n = *csv == '(' ? 2 : 1;
                visit(ctx, a + i, n, slot);
                i += n;
            }
            csv += length;
            csv += *csv == ',';
        }
        assert_int_equal(i, count);
        csv += 2;
    }
}

typedef struct checker {
    grid g;
    tpp_schedule_info info;
    int32_t last; /* slot of the action before on this rank */
} checker;

static void note(void *ctx, const tpp_action *a, int count, int32_t slot) {
    checker *c = ctx;
    for (int k = 0; k < count; k++) {
        int32_t cell = a[k].stage * c->info.micros + a[k].micro;
        if (a[k].op == TPP_OP_F)
            c->g.f[cell] = slot;
        if (a[k].op == TPP_OP_B || a[k].op == TPP_OP_I)
            c->g.i[cell] = slot;
    }
}

static void check(void *ctx, const tpp_action *a, int count, int32_t slot) {
    checker *c = ctx;
    int32_t right = slot > c->last ? c->last + 1 : 0; /* else a new rank begins */
    for (int k = 0; k < count; k++) {
        int32_t t = least_slot(&c->g, &c->info, a + k);
        right = t > right ? t : right;
    }
    assert_int_equal(slot, right);
    c->last = slot;
}

static void slots_are_right(const tpp_schedule *s) {
    checker c = {.info = {.size = sizeof c.info}, .last = INT32_MAX};
    memset(&c.g, -1, sizeof c.g);
    assert_ok(tpp_schedule_query(s, &c.info));
    assert_true(c.info.stages * c.info.micros <= CELLS);
    char *csv = sched_csv(s, TPP_CSV_SLOTS);
    each_cell(s, csv, note, &c);
    each_cell(s, csv, check, &c);
    free(csv);
}

/* --- All kinds --- */

static void all_forms(tpp_schedule *s) {
    static const uint32_t plain[] = {0, TPP_CSV_SLOTS};
    text_and_back(s);
    slots_are_right(s);
    for (int i = 0; i < 2; i++) {
        tpp_schedule *again = csv_and_back(s, plain[i]);
        same(s, again);
        tpp_schedule_destroy(again);
    }
    char *before = sched_csv(s, 0), *slots = sched_csv(s, TPP_CSV_SLOTS);
    assert_ok(tpp_schedule_lower(s));
    char *then = sched_csv(s, 0), *then_slots = sched_csv(s, TPP_CSV_SLOTS);
    assert_string_equal(before, then);
    assert_string_equal(slots, then_slots);
    tpp_schedule_info info = {.size = sizeof info};
    assert_ok(tpp_schedule_query(s, &info));
    if (info.messages > 0) { /* without any it reads as not lowered */
        text_and_back(s);
        tpp_schedule *again = csv_and_back(s, TPP_CSV_MESSAGES);
        same(s, again);
        assert_ok(tpp_schedule_finish(again));
        tpp_schedule_destroy(again);
    }
    free(before), free(slots), free(then), free(then_slots);
}

static void test_all_kinds(void **state) {
    (void)state;
    for (tpp_schedule_kind kind = 1; kind < 64; kind++) {
        int made = 0;
        for (int i = 0; i < 4 * 9 * 2 && tpp_schedule_kind_name(kind); i++) {
            tpp_schedule *s = sched_created(kind, 1 + i % 4, i / 36 * 2, 1 + i / 4 % 9, 0);
            if (!s) /* dualpipe wants even ranks, and so on */
                continue;
            made++;
            all_forms(s);
            tpp_schedule_destroy(s);
        }
        assert_true(made > 0 || !tpp_schedule_kind_name(kind));
    }
}

/* --- By hand --- */

static const char pairs[] =
    "0F0 3F0 (0F1;3B0)OVERLAP_F_B 3F1 0B0 3B1 0B1\n1F0 2F0 1F1 2B0 (2F1;1B0)OVERLAP_F_B 2B1 1B1\n";

static void test_text_of_pairs_and_directions(void **state) {
    (void)state;
    static const char *const texts[] = {
        pairs,
        "directions 2\n0F0 3F1 0B0 3B1\n1F0 2F1 1B0 2B1\n",
        "directions 2\n0F0 3F1\n1F0 2F1\n",
        "-\n0F0 0I0 0W0\n-\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tpp_schedule *s = sched_parsed(texts[i]);
        if (!s)
            fail_msg("%s: %s", texts[i], tpp_message());
        char *text = sched_text(s);
        assert_string_equal(text, texts[i]);
        free(text);
        all_forms(s);
        assert_ok(tpp_schedule_finish(s));
        tpp_schedule_destroy(s);
    }
}

static void refuses(const char *text, tpp_status status, const char *words) {
    tpp_schedule *s = (tpp_schedule *)&status;
    assert_fails(tpp_schedule_parse(&s, text, (int64_t)strlen(text), NULL), status, words);
    assert_null(s);
}

static void test_text_refusals(void **state) {
    (void)state;
    const tpp_status bad = TPP_ERR_PARSE;
    refuses("directions 3\n0F0\n", bad,
            "line 1, column 12: found '3', expected 2 and the end of the line");
    refuses("directions 1\n0F0\n", bad, "line 1, column 12: found '1', expected 2");
    refuses("directions 2", bad, "line 1, column 12: found '2', expected 2 and the end of the");
    refuses("directions 2 0F0\n", bad, "line 1, column 12: found '2', expected 2 and");
    refuses("directions 2\n0F0 0X0\n", bad, "line 2, column 6: found 'X0', expected an operation");
    refuses("0F0\ndirections 2\n", bad, "line 2, column 1: found 'directions', expected a stage");
    refuses("directions 2\n0F0 0F1\n", TPP_ERR_SCHEDULE, "two directions of 1 stages");
    refuses("directions 2\n1F0\n", TPP_ERR_SCHEDULE, "stage 0 is on no rank");
    refuses("-", bad, "the text holds no action");
    refuses("0F0\n- 1F0\n", bad, "line 2, column 1: found '-', expected a stage");
    refuses("0F0 -\n", bad, "line 1, column 5: found '-', expected a stage");
    refuses("0F0 (0F1;0B0)\n", bad, "line 1, column 14: found the end of the line, expected OVER");
    refuses("(0F1; 0B0)OVERLAP_F_B", bad, "line 1, column 6: found ' 0B0)OVERLAP_F_B', expected a");
    refuses("(0F1;0B0)OVERLAP_F_BX", bad, "line 1, column 10: found 'OVERLAP_F_BX', expected OVER");
    refuses("0UNSHARD", bad, "line 1, column 2: found 'UNSHARD', expected an operation");
}

/* Stages of a direction without micro-batches are there, though no line names them. */
static void test_one_micro_batch(void **state) {
    (void)state;
    static const int32_t ranks[] = {1, 0, 2, 1, 2, 0};
    tpp_schedule *s = sched_parsed("directions 2\n1F0\n0F0\n2F0\n");
    for (int32_t i = 0; i < 6; i++)
        assert_int_equal(tpp_schedule_rank_of(s, i), ranks[i]);
    assert_int_equal(tpp_schedule_rank_of(s, 6), -1);
    assert_ok(tpp_schedule_lower(s));
    assert_ok(tpp_schedule_finish(s));
    tpp_schedule_destroy(s);
}

/* PyTorch before 2.6 wrote B and W for what are I and W today. */
static void test_old_names(void **state) {
    (void)state;
    tpp_schedule *s;
    assert_ok(tpp_schedule_parse_csv(&s, "0F0,0B0,0W0\n", 12, 0, NULL));
    assert_fails(tpp_schedule_lower(s), TPP_ERR_SCHEDULE, "a B stands for I and W already");
    tpp_schedule_destroy(s);
}

/* --- Damaged --- */

static uint32_t next(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Some bytes changed, left out, put in, or copied from elsewhere; returns the length. */
static size_t damage(char *x, size_t length, uint32_t *seed) {
    static const char alphabet[] = "0123456789FBIWSENDRCVOLAP_();,\"- \r\n\tU";
    for (uint32_t k = next(seed) % 3 + 1; k > 0 && length > 4; k--) {
        size_t at = next(seed) % (length - 1), other = next(seed) % (length - 1);
        size_t run = next(seed) % 6, room = length - (at > other ? at : other);
        run = run < room ? run : room;
        switch (next(seed) % 4) {
        case 0:
            x[at] = alphabet[next(seed) % (sizeof alphabet - 1)];
            break;
        case 1:
            memmove(x + at, x + at + 1, length - at - 1);
            length--;
            break;
        case 2:
            memmove(x + at + 1, x + at, length - at);
            x[at] = (char)next(seed);
            length++;
            break;
        default:
            memmove(x + at, x + other, run);
            break;
        }
    }
    return length;
}

/* Damaged texts are refused, or are schedules that can be written, read, lowered and checked. */
static bool survive(const char *x, size_t length, bool csv, uint32_t flags) {
    char *exact = malloc(length + 1); /* so that a sanitizer sees what is read beyond */
    memcpy(exact, x, length);
    tpp_schedule *s = (tpp_schedule *)exact;
    tpp_status status = csv ? tpp_schedule_parse_csv(&s, exact, (int64_t)length, flags, NULL)
                            : tpp_schedule_parse(&s, exact, (int64_t)length, NULL);
    free(exact);
    if (status < 0) {
        assert_null(s);
        assert_true(status == TPP_ERR_PARSE || status == TPP_ERR_SCHEDULE);
        return false;
    }
    text_and_back(s);
    tpp_schedule_info info = {.size = sizeof info};
    assert_ok(tpp_schedule_query(s, &info));
    tpp_schedule_destroy(csv_and_back(s, info.messages > 0 ? TPP_CSV_MESSAGES : 0));
    free(sched_csv(s, TPP_CSV_SLOTS));
    if (info.messages == 0 && tpp_schedule_lower(s) == TPP_OK) {
        assert_ok(tpp_schedule_query(s, &info));
        if (info.messages > 0)
            text_and_back(s);
    }
    bool right = tpp_schedule_finish(s) == TPP_OK;
    tpp_schedule_destroy(s);
    return right;
}

static void fuzz(const char *text, bool csv, uint32_t flags) {
    size_t length = strlen(text);
    uint32_t seed = 7;
    int right = 0;
    char *x = malloc(length + 8);
    assert_true(survive(text, length, csv, flags));
    for (int i = 0; i < 4000; i++) {
        memcpy(x, text, length);
        right += survive(x, damage(x, length, &seed), csv, flags);
    }
    assert_true(right > 0 && right < 4000);
    free(x);
}

static void test_damaged(void **state) {
    (void)state;
    static const char *const texts[] = {
        pairs,
        "directions 2\n0F0 3F1 0I0 3B1 0W0\n-\n1F0 2F1 1I0 2B1 1W0\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tpp_schedule *s = sched_parsed(texts[i]);
        assert_non_null(s);
        char *csv = sched_csv(s, TPP_CSV_SLOTS);
        fuzz(texts[i], false, 0);
        fuzz(csv, true, way(s));
        free(csv);
        assert_ok(tpp_schedule_lower(s));
        char *text = sched_text(s);
        csv = sched_csv(s, TPP_CSV_MESSAGES);
        fuzz(text, false, 0);
        fuzz(csv, true, way(s));
        free(text);
        free(csv);
        tpp_schedule_destroy(s);
    }
    fuzz("\"0UNSHARD\",\" 0F0\",,0F1,\"0B0\",,0B1,0RESHARD\r\n,1F0,1F1,1B0,1B1\r", true,
         TPP_CSV_SKIP_SHARDING);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_kinds),       cmocka_unit_test(test_text_of_pairs_and_directions),
        cmocka_unit_test(test_text_refusals),   cmocka_unit_test(test_old_names),
        cmocka_unit_test(test_one_micro_batch), cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
