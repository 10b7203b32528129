/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sched/sched_impl.h"
#include "support/sched_faults.h"
#include "support/sched_support.h"

#include <stdbool.h>
#include <stdio.h>

/* Every order in which the ranks of a small schedule can take turns is tried, under every channel:
 * the check calls a schedule right when none of them gets stuck, and a deadlock is one that all of
 * them run into. So what the check finds by following one order holds for all. */

enum { CHANNELS = SCHED_PLAN_RANKS * SCHED_PLAN_RANKS * 2, MOST = SCHED_PLAN_ACTIONS };

typedef struct place {
    int32_t rank, at; /* rank -1: none */
} place;

typedef struct world {
    sched_plan plan;
    tpp_channel channel;
    int32_t capacity;
    place partner[SCHED_PLAN_RANKS][MOST];  /* the other side of a message */
    place received[SCHED_PLAN_RANKS][MOST]; /* POSTED: must be done before this is computed */
    int32_t queue[SCHED_PLAN_RANKS][MOST];  /* that a message takes */
    int32_t passed[SCHED_PLAN_RANKS][MOST + 1][CHANNELS][2]; /* received, sent among the first */
} world;

static bool sends(const tpp_action *a) {
    return a->op == TPP_OP_SEND_F || a->op == TPP_OP_SEND_B;
}

static bool is_message(const tpp_action *a) {
    return a->op >= TPP_OP_SEND_F;
}

static bool is_fifo(tpp_channel channel) {
    return channel == TPP_CHANNEL_FIFO_PAIR || channel == TPP_CHANNEL_FIFO_KIND;
}

static place other_side(const sched_plan *p, const tpp_action *a) {
    for (int32_t i = 0; i < p->count[a->peer]; i++) {
        const tpp_action *b = &p->of[a->peer][i];
        if (is_message(b) && b->tag == a->tag && sends(b) != sends(a))
            return (place){a->peer, i};
    }
    fail_msg("%d has no partner", a->op);
    return (place){-1, 0};
}

/* The receive of what was written last to the slot that an action writes to, and was sent. */
static place last_of_slot(const world *w, int32_t rank, int32_t i) {
    const tpp_action *a = w->plan.of[rank];
    bool forward = a[i].op == TPP_OP_F;
    for (int32_t k = i - 1; k >= 0; k--) {
        bool writes = forward ? a[k].op == TPP_OP_F : a[k].op == TPP_OP_B || a[k].op == TPP_OP_I;
        if (!writes || a[k].slot != a[i].slot)
            continue;
        for (int32_t j = k + 1; j < i; j++) {
            if (a[j].op == (forward ? TPP_OP_SEND_F : TPP_OP_SEND_B) && a[j].stage == a[k].stage &&
                a[j].micro == a[k].micro)
                return w->partner[rank][j];
        }
    }
    return (place){-1, 0};
}

static void prepare(world *w, bool forward_only) {
    sched_plan *p = &w->plan;
    for (int32_t r = 0; r < p->ranks; r++) {
        memset(w->passed[r][0], 0, sizeof w->passed[r][0]);
        for (int32_t i = 0; i < p->count[r]; i++) {
            const tpp_action *a = &p->of[r][i];
            w->received[r][i].rank = w->partner[r][i].rank = -1;
            memcpy(w->passed[r][i + 1], w->passed[r][i], sizeof w->passed[r][i]);
            if (is_message(a)) {
                bool backward = a->op >= TPP_OP_SEND_B && w->channel == TPP_CHANNEL_FIFO_KIND;
                int32_t from = sends(a) ? r : a->peer, to = sends(a) ? a->peer : r;
                w->partner[r][i] = other_side(p, a);
                w->queue[r][i] = (from * SCHED_PLAN_RANKS + to) * 2 + backward;
                w->passed[r][i + 1][w->queue[r][i]][sends(a)]++;
            } else if (w->channel == TPP_CHANNEL_POSTED &&
                       (forward_only ? a->op == TPP_OP_F
                                     : a->op == TPP_OP_B || a->op == TPP_OP_I)) {
                w->received[r][i] = last_of_slot(w, r, i);
            }
        }
    }
}

/* A FIFO gives messages in the order in which they are sent. */
static bool fifo_crosses(const world *w) {
    for (int32_t r = 0; r < w->plan.ranks && is_fifo(w->channel); r++) {
        for (int32_t i = 0; i < w->plan.count[r]; i++) {
            place from = w->partner[r][i];
            int32_t q = w->queue[r][i];
            if (from.rank >= 0 && w->passed[r][i][q][sends(&w->plan.of[r][i])] !=
                                      w->passed[from.rank][from.at][q][!sends(&w->plan.of[r][i])])
                return true;
        }
    }
    return false;
}

/* --- All states --- */

typedef struct search {
    const world *w;
    uint8_t *seen;
    int32_t *stack;
    int32_t size, used;
    int32_t stuck, ended; /* states from which nothing goes on */
} search;

static int32_t number_of(const sched_plan *p, const int32_t *at) {
    int32_t n = 0;
    for (int32_t r = 0; r < p->ranks; r++)
        n = n * (p->count[r] + 1) + at[r];
    return n;
}

static void positions(const sched_plan *p, int32_t n, int32_t *at) {
    for (int32_t r = p->ranks - 1; r >= 0; r--) {
        at[r] = n % (p->count[r] + 1);
        n /= p->count[r] + 1;
    }
}

/* Whether a rank can go on; *along is another that goes with it, or -1. */
static bool can(const world *w, const int32_t *at, int32_t r, int32_t *along) {
    *along = -1;
    if (at[r] == w->plan.count[r])
        return false;
    const tpp_action *a = &w->plan.of[r][at[r]];
    place other = w->partner[r][at[r]], had = w->received[r][at[r]];
    if (!is_message(a))
        return had.rank < 0 || at[had.rank] > had.at;
    if (w->channel != TPP_CHANNEL_POSTED && w->capacity == 0) {
        *along = other.rank;
        return at[other.rank] == other.at;
    }
    if (!sends(a))
        return at[other.rank] > other.at;
    int32_t q = w->queue[r][at[r]];
    return w->channel == TPP_CHANNEL_POSTED ||
           w->passed[r][at[r]][q][1] - w->passed[other.rank][at[other.rank]][q][0] < w->capacity;
}

static void visit(search *s, int32_t n) {
    int32_t at[SCHED_PLAN_RANKS], along;
    bool moved = false;
    positions(&s->w->plan, n, at);
    for (int32_t r = 0; r < s->w->plan.ranks; r++) {
        if (!can(s->w, at, r, &along))
            continue;
        moved = true;
        at[r]++;
        if (along >= 0)
            at[along]++;
        int32_t next = number_of(&s->w->plan, at);
        at[r]--;
        if (along >= 0)
            at[along]--;
        if (!s->seen[next]) {
            s->seen[next] = 1;
            s->stack[s->used++] = next;
        }
    }
    if (!moved && n == s->size - 1)
        s->ended++;
    if (!moved && n < s->size - 1)
        s->stuck++;
}

static search all_states(const world *w) {
    search s = {.w = w, .size = 1};
    for (int32_t r = 0; r < w->plan.ranks; r++)
        s.size *= w->plan.count[r] + 1;
    s.seen = calloc((size_t)s.size, 1);
    s.stack = malloc((size_t)s.size * sizeof *s.stack);
    s.stack[s.used++] = 0;
    s.seen[0] = 1;
    while (s.used > 0)
        visit(&s, s.stack[--s.used]);
    free(s.seen);
    free(s.stack);
    return s;
}

/* --- Held against the check --- */

static int explored, stuck;

static void explore(const tpp_schedule *s, tpp_channel channel, int32_t capacity,
                    const char *name) {
    static world w;
    w.channel = channel;
    w.capacity = capacity;
    sched_plan_of(&w.plan, s);
    bool order = sched_early(&w.plan) != 0 || sched_overwrites(&w.plan) != 0;
    tpp_status status = tpp_schedule_check_channel(s, channel, capacity);
    prepare(&w, s->forward_only);
    if (order || fifo_crosses(&w)) {
        if (status != TPP_ERR_SCHEDULE && status != TPP_ERR_DEADLOCK)
            fail_msg("%s, channel %d of %d: %s", name, channel, capacity, tpp_status_name(status));
        return;
    }
    search all = all_states(&w);
    explored++;
    stuck += all.stuck;
    if (all.stuck + all.ended != 1 || status != (all.stuck ? TPP_ERR_DEADLOCK : TPP_OK))
        fail_msg("%s, channel %d of %d: %s (%s), but %d states end and %d are stuck", name, channel,
                 capacity, tpp_status_name(status), status < 0 ? tpp_message() : "", all.ended,
                 all.stuck);
}

static void explore_channels(const tpp_schedule *s, const char *name) {
    explore(s, TPP_CHANNEL_POSTED, 0, name);
    explore(s, TPP_CHANNEL_RENDEZVOUS, 0, name);
    for (tpp_channel channel = TPP_CHANNEL_FIFO_PAIR; channel <= TPP_CHANNEL_TAGGED; channel++) {
        for (int32_t capacity = 0; capacity <= 3; capacity++)
            explore(s, channel, capacity, name);
    }
}

/* As it is, and with any two neighbours of a rank exchanged. */
static void explore_around(tpp_schedule *s, const char *name, bool exchanged) {
    explore_channels(s, name);
    for (int32_t r = 0; r < s->ranks && exchanged; r++) {
        for (int64_t i = s->first[r]; i + 1 < s->first[r + 1]; i++) {
            tpp_action *a = s->actions + i, kept = a[0];
            tpp_status status;
            if (a[0].flags || a[1].flags || (i > s->first[r] && a[-1].flags))
                continue;
            a[0] = a[1];
            a[1] = kept;
            if (!tpp__sched_slots(s, &status))
                explore_channels(s, name);
            a[1] = a[0];
            a[0] = kept;
        }
    }
}

static void test_every_turn(void **state) {
    (void)state;
    for (tpp_schedule_kind kind = 1; kind < 40; kind++) {
        for (int32_t p = 1; p <= 3 && tpp_schedule_kind_name(kind); p++) {
            for (int32_t m = 1; m <= (p < 3 ? 4 : 3); m++) {
                tpp_schedule_desc d = sched_desc(kind, p, 0, m, 0);
                if (kind == TPP_SCHEDULE_INTERLEAVED || kind == TPP_SCHEDULE_ZB_INTERLEAVED ||
                    kind == TPP_SCHEDULE_BFS)
                    d.chunks = 2;
                tpp_schedule *s;
                char name[64];
                snprintf(name, sizeof name, "%s p %d m %d", tpp_schedule_kind_name(kind), p, m);
                assert_ok(tpp_schedule_create(&s, &d));
                assert_ok(tpp_schedule_lower(s));
                explore_around(s, name, p == 2);
                tpp_schedule_destroy(s);
            }
        }
    }
    assert_true(explored > 5000);
    assert_true(stuck > 500);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_turn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
