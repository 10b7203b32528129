/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sched/sched_impl.h"
#include "support/sched_sim.h"
#include "support/sched_support.h"

#include <stdio.h>

/* --- Texts taken apart and put together again --- */

enum { MAX_WORDS = 100, WORD = 40 };

typedef struct words {
    int count;
    char word[MAX_WORDS][WORD]; /* an action, or "\n" */
} words;

static words apart(const char *text) {
    words w = {0};
    for (const char *at = text; *at;) {
        size_t n = *at == '\n' ? 1 : strcspn(at, " \n");
        memcpy(w.word[w.count++], at, n);
        at += n;
        if (*at == ' ')
            at++;
    }
    return w;
}

static void together(const words *w, char *text) {
    *text = 0;
    for (int i = 0; i < w->count; i++) {
        if (i > 0 && *w->word[i] != '\n' && *w->word[i - 1] != '\n')
            strcat(text, " ");
        strcat(text, w->word[i]);
    }
}

/* The verdict on a text: parse, lower if it is not, check. *sim tells what the simulator thinks. */
static tpp_status judge(const words *w, bool *finishes) {
    char text[MAX_WORDS * WORD];
    together(w, text);
    tpp_schedule *s = NULL;
    tpp_status status = tpp_schedule_parse(&s, text, (int64_t)strlen(text), NULL);
    if (status == TPP_OK && s->state == TPP__SCHED_ORDERED)
        status = tpp_schedule_lower(s);
    if (finishes)
        *finishes = s && sched_sim_run(s, 1, 2).finished;
    if (status == TPP_OK)
        status = tpp_schedule_check(s, TPP_CHANNEL_POSTED);
    tpp_schedule_destroy(s);
    return status;
}

static void must_refuse(const words *w, const char *what, int i) {
    tpp_status status = judge(w, NULL);
    if (status != TPP_ERR_SCHEDULE)
        fail_msg("%s %s (word %d): %s", what, w->word[i], i, tpp_status_name(status));
}

/* --- Mutations --- */

static void delete_each(const words *w) {
    for (int i = 0; i < w->count; i++) {
        if (*w->word[i] == '\n')
            continue;
        words x = *w;
        memmove(x.word[i], x.word[i + 1], (size_t)(x.count - i - 1) * WORD);
        x.count--;
        must_refuse(&x, "deleted before", i);
    }
}

static void double_each(const words *w) {
    for (int i = 0; i < w->count; i++) {
        if (*w->word[i] == '\n')
            continue;
        words x = *w;
        memmove(x.word[i + 1], x.word[i], (size_t)(x.count - i) * WORD);
        x.count++;
        must_refuse(&x, "doubled", i);
    }
}

/* Another stage, another micro-batch, another operation. */
static void retarget_each(const words *w) {
    static const char *const ops[] = {"F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B"};
    for (int i = 0; i < w->count; i++) {
        if (*w->word[i] == '\n')
            continue;
        int stage, micro;
        char op[8];
        assert_int_equal(sscanf(w->word[i], "%d%7[A-Z_]%d", &stage, op, &micro), 3);
        for (int by = -2; by <= 2; by++) {
            words x = *w;
            if (by != 0 && stage + by >= 0) {
                snprintf(x.word[i], WORD, "%d%s%d", stage + by, op, micro);
                must_refuse(&x, "stage of", i);
            }
            if (by != 0 && micro + by >= 0) {
                snprintf(x.word[i], WORD, "%d%s%d", stage, op, micro + by);
                must_refuse(&x, "micro-batch of", i);
            }
        }
        for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
            words x = *w;
            if (strcmp(op, ops[k]) == 0)
                continue;
            snprintf(x.word[i], WORD, "%d%s%d", stage, ops[k], micro);
            must_refuse(&x, "operation of", i);
        }
    }
}

/* Any two actions of a rank change places: refused exactly when the simulator gets stuck. */
static void swap_each(const words *w) {
    int refused = 0, accepted = 0;
    for (int i = 0; i < w->count; i++) {
        for (int j = i + 1; j < w->count && *w->word[i] != '\n' && *w->word[j] != '\n'; j++) {
            words x = *w;
            bool finishes;
            memcpy(x.word[i], w->word[j], WORD);
            memcpy(x.word[j], w->word[i], WORD);
            tpp_status status = judge(&x, &finishes);
            if (finishes ? status != TPP_OK
                         : status != TPP_ERR_SCHEDULE && status != TPP_ERR_DEADLOCK)
                fail_msg("%s and %s swapped: %s, but the simulator %s", w->word[i], w->word[j],
                         tpp_status_name(status), finishes ? "finishes" : "gets stuck");
            *(finishes ? &accepted : &refused) += 1;
        }
    }
    assert_true(refused > 0);
    assert_true(accepted > 0);
}

static void mutate(const char *text) {
    words w = apart(text);
    assert_int_equal(judge(&w, NULL), TPP_OK);
    delete_each(&w);
    double_each(&w);
    retarget_each(&w);
    swap_each(&w);
}

static void mutate_kind(tpp_schedule_kind kind, int32_t p, int32_t v, int32_t m, int32_t g) {
    tpp_schedule *s = sched_created(kind, p, v, m, g);
    for (int lowered = 0; lowered < 2; lowered++) {
        char *text = sched_text(s);
        mutate(text);
        free(text);
        if (!lowered)
            assert_ok(tpp_schedule_lower(s));
    }
    tpp_schedule_destroy(s);
}

static void test_mutations(void **state) {
    (void)state;
    mutate_kind(TPP_SCHEDULE_GPIPE, 2, 1, 2, 0);
    mutate_kind(TPP_SCHEDULE_1F1B, 2, 1, 3, 0);
    mutate_kind(TPP_SCHEDULE_1F1B, 3, 1, 4, 0);
    mutate_kind(TPP_SCHEDULE_INTERLEAVED, 2, 2, 3, 2);
    mutate_kind(TPP_SCHEDULE_INTERLEAVED, 1, 2, 3, 2);
    mutate("0F0 0F1 0I0 0W0 0I1 0W1\n1F0 1I0 1F1 1I1 1W0 1W1\n");
    mutate("0F0 0F1 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0I1 0W0 0W1\n"
           "1F0 2F0 1F1 2F1 2I0 1I0 2I1 1I1 1W0 2W0 1W1 2W1\n");
}

/* --- What no text can say --- */

static tpp_action *find(tpp_schedule *s, int32_t rank, int32_t op) {
    for (int64_t i = s->first[rank]; i < s->first[rank + 1]; i++) {
        if (s->actions[i].op == op)
            return s->actions + i;
    }
    return NULL;
}

static void test_fields(void **state) {
    (void)state;
    tpp_schedule *s = sched_created(TPP_SCHEDULE_INTERLEAVED, 2, 2, 2, 0);
    assert_ok(tpp_schedule_lower(s));
    const struct {
        int32_t op;
        tpp_action to;
        const char *words;
    } cases[] = {
        {TPP_OP_F, {.op = 9, .peer = -1}, "rank 0 has an action with op = 9, which is none"},
        {TPP_OP_F, {.op = 0, .peer = -1}, "rank 0 has an action with op = 0"},
        {TPP_OP_F, {.op = TPP_OP_F, .stage = 4, .peer = -1}, "4F0 of rank 0 is foreign"},
        {TPP_OP_F, {.op = TPP_OP_F, .stage = -1, .peer = -1}, "-1F0 of rank 0 is foreign"},
        {TPP_OP_F, {.op = TPP_OP_F, .micro = 2, .peer = -1}, "0F2 of rank 0 is foreign"},
        {TPP_OP_F, {.op = TPP_OP_F, .micro = -1, .peer = -1}, "0F-1 of rank 0 is foreign"},
        {TPP_OP_F,
         {.op = TPP_OP_F, .stage = 1, .peer = -1},
         "1F0 stands on rank 0, but stage 1 lies on rank 1"},
        {TPP_OP_F, {.op = TPP_OP_F, .chunk = 1, .peer = -1}, "it must have 0, -1, 0"},
        {TPP_OP_SEND_F,
         {.op = TPP_OP_SEND_F, .peer = 0},
         "has chunk 0, peer 0, tag 0; it must have 0, 1, 0"},
        {TPP_OP_SEND_F, {.op = TPP_OP_SEND_F, .peer = 1, .tag = 3}, "tag 3; it must have 0, 1, 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tpp_action *a = find(s, 0, cases[i].op), kept = *a;
        *a = cases[i].to;
        assert_fails(tpp_schedule_check(s, TPP_CHANNEL_POSTED), TPP_ERR_SCHEDULE, cases[i].words);
        *a = kept;
    }
    assert_ok(tpp_schedule_check(s, TPP_CHANNEL_POSTED));
    tpp_schedule_destroy(s);
}

/* --- Texts with messages --- */

static void refuses(const char *text, const char *words_said) {
    tpp_schedule *s = sched_parsed(text);
    if (!s)
        fail_msg("%s", tpp_message());
    assert_fails(tpp_schedule_check(s, TPP_CHANNEL_POSTED), TPP_ERR_SCHEDULE, words_said);
    assert_int_equal(tpp_schedule_finish(s), TPP_ERR_SCHEDULE);
    tpp_schedule_destroy(s);
}

static void test_messages(void **state) {
    (void)state;
    const char *one = "1RECV_F0 1F0 1B0 1SEND_B0\n";
    char text[200];
    snprintf(text, sizeof text, "%s%s", "0F0 0RECV_B0 0B0\n", one);
    refuses(text, "0SEND_F0 is missing on rank 0");
    snprintf(text, sizeof text, "%s%s", "0F0 0SEND_F0 0B0\n", one);
    refuses(text, "0RECV_B0 is missing on rank 0");
    snprintf(text, sizeof text, "%s%s", "0F0 0SEND_F0 0SEND_F0 0RECV_B0 0B0\n", one);
    refuses(text, "0SEND_F0 is doubled on rank 0");
    snprintf(text, sizeof text, "%s%s", "0RECV_F0 0F0 0SEND_F0 0RECV_B0 0B0\n", one);
    refuses(text, "0RECV_F0 of rank 0 is foreign: there is no message");
    refuses("0F0 0SEND_F0 1RECV_F0 1F0 1B0 1SEND_B0 0RECV_B0 0B0\n",
            "0SEND_F0 of rank 0 is foreign: there is no message between stages of one rank");
    snprintf(text, sizeof text, "%s%s", "0SEND_F0 0F0 0RECV_B0 0B0\n", one);
    refuses(text, "rank 0: 0SEND_F0 stands before 0F0");
    snprintf(text, sizeof text, "%s%s", "0RECV_B0 0F0 0SEND_F0 0B0\n", one);
    refuses(text, "rank 0: 0RECV_B0 stands before 0F0");
    snprintf(text, sizeof text, "%s%s", "0F0 0SEND_F0 0B0 0RECV_B0\n", one);
    refuses(text, "rank 0: 0B0 stands before 0RECV_B0");
    refuses("0F0 0SEND_F0 0RECV_B0 0B0\n1F0 1RECV_F0 1B0 1SEND_B0\n",
            "rank 1: 1F0 stands before 1RECV_F0");
    refuses("0F0 0SEND_F0 0RECV_B0 0B0\n1RECV_F0 1F0 1SEND_B0 1B0\n",
            "rank 1: 1SEND_B0 stands before 1B0");
    refuses("0F0 0SEND_F0 0RECV_B0 0B0\n1RECV_F0 1B0 1F0 1SEND_B0\n",
            "rank 1: 1B0 stands before 1F0");
    refuses("0F0 0SEND_F0 0RECV_B0 0I0 0W0\n1RECV_F0 1F0 1W0 1I0 1SEND_B0\n",
            "rank 1: 1W0 stands before 1I0");
    refuses("0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
            "1RECV_F0 1F0 1B0 1RECV_F1 1F1 1B1 1SEND_B0 1SEND_B1\n",
            "rank 1: 1B1 overwrites slot 0 before 1SEND_B0");
    refuses("1F0 1SEND_F0 0F0 0B0 1RECV_B0 1B0\n2RECV_F0 2F0 2B0 2SEND_B0\n",
            "rank 0: 1F0 stands before 0F0");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutations),
                                       cmocka_unit_test(test_fields),
                                       cmocka_unit_test(test_messages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
