/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/sched_judge.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS = 2 };

typedef struct queue {
    uint32_t tag[JUDGE_QUEUE];
    int32_t count;
} queue;

typedef struct world {
    const tpp_schedule *s;
    tpp_schedule_info info;
    tpp_channel channel;
    int32_t capacity;
    queue *queues; /* [ranks][ranks][KINDS] */
    bool f[JUDGE_CELLS], i[JUDGE_CELLS], got_f[JUDGE_CELLS], got_b[JUDGE_CELLS];
    bool unsent_f[JUDGE_CELLS], unsent_b[JUDGE_CELLS]; /* a result that is still to be sent */
    int32_t in_slot[JUDGE_RANKS][JUDGE_CELLS]; /* cell whose result to be sent lies there; -1 */
    int64_t at[JUDGE_RANKS];
} world;

static int32_t rank_of(const world *w, int32_t stage) {
    return tpp_schedule_rank_of(w->s, stage);
}

static bool has(const world *w, int32_t a, int32_t b) {
    return b >= 0 && b < w->info.stages && a / w->info.depth == b / w->info.depth;
}

static bool apart(const world *w, int32_t a, int32_t b) {
    return has(w, a, b) && rank_of(w, a) != rank_of(w, b);
}

static int32_t cell_of(const world *w, int32_t stage, int32_t micro) {
    return stage * w->info.micros + micro;
}

static queue *between(const world *w, int32_t from, int32_t to, bool backward) {
    int kind = w->channel == TPP_CHANNEL_FIFO_KIND && backward;
    return &w->queues[(from * JUDGE_RANKS + to) * KINDS + kind];
}

static bool sends(const tpp_action *a) {
    return a->op == TPP_OP_SEND_F || a->op == TPP_OP_SEND_B;
}

static bool is_message(const tpp_action *a) {
    return a->op >= TPP_OP_SEND_F;
}

static const tpp_action *next_of(const world *w, int32_t rank) {
    int64_t count;
    const tpp_action *a = tpp_schedule_actions(w->s, rank, &count);
    return w->at[rank] < count ? a + w->at[rank] : NULL;
}

/* What an action needs on its own rank; `false` is an order that is wrong. */
static bool prepared(const world *w, const tpp_action *a) {
    int32_t c = cell_of(w, a->stage, a->micro), m = w->info.micros;
    switch (a->op) {
    case TPP_OP_F:
        return !has(w, a->stage, a->stage - 1) ||
               (apart(w, a->stage, a->stage - 1) ? w->got_f[c] : w->f[c - m]);
    case TPP_OP_B:
    case TPP_OP_I:
        return w->f[c] && (!has(w, a->stage, a->stage + 1) ||
                           (apart(w, a->stage, a->stage + 1) ? w->got_b[c] : w->i[c + m]));
    case TPP_OP_W:
        return w->i[c];
    case TPP_OP_SEND_F:
    case TPP_OP_RECV_B:
        return w->f[c];
    case TPP_OP_SEND_B:
        return w->i[c];
    default:
        return true;
    }
}

/* Writing a result over one that was not sent. */
static bool overwrites(world *w, int32_t rank, const tpp_action *a) {
    bool forward = a->op == TPP_OP_F;
    if (is_message(a) || a->op == TPP_OP_W || (forward && !w->info.forward_only))
        return false;
    int32_t *held = &w->in_slot[rank][a->slot], c = cell_of(w, a->stage, a->micro);
    if (*held >= 0 && (forward ? w->unsent_f : w->unsent_b)[*held])
        return true;
    if (apart(w, a->stage, forward ? a->stage + 1 : a->stage - 1)) {
        *held = c;
        (forward ? w->unsent_f : w->unsent_b)[c] = true;
    }
    return false;
}

static void done(world *w, const tpp_action *a) {
    int32_t c = cell_of(w, a->stage, a->micro);
    switch (a->op) {
    case TPP_OP_F:
        w->f[c] = true;
        break;
    case TPP_OP_B:
    case TPP_OP_I:
        w->i[c] = true;
        break;
    case TPP_OP_RECV_F:
        w->got_f[c] = true;
        break;
    case TPP_OP_RECV_B:
        w->got_b[c] = true;
        break;
    case TPP_OP_SEND_F:
        w->unsent_f[c] = false;
        break;
    case TPP_OP_SEND_B:
        w->unsent_b[c] = false;
        break;
    default:
        break;
    }
}

/* --- One action ----------------------------------------------------------------------------------- */

typedef enum outcome { WENT, WAITS, WRONG_ORDER, WRONG_MESSAGE } outcome;

static outcome take(queue *q, uint32_t tag, bool fifo) {
    for (int32_t k = 0; k < q->count; k++) {
        if (q->tag[k] == tag) {
            if (fifo && k > 0)
                return WRONG_MESSAGE;
            memmove(q->tag + k, q->tag + k + 1, (size_t)(--q->count - k) * sizeof *q->tag);
            return WENT;
        }
    }
    return fifo && q->count > 0 ? WRONG_MESSAGE : WAITS;
}

/* Both ranks stand at the two ends of one message. */
static outcome meet(world *w, const tpp_action *a) {
    const tpp_action *b = next_of(w, a->peer);
    bool fifo = w->channel == TPP_CHANNEL_FIFO_PAIR || w->channel == TPP_CHANNEL_FIFO_KIND;
    if (!b || !is_message(b) || sends(a) == sends(b) || b->peer != rank_of(w, a->stage))
        return WAITS;
    bool same_queue =
        w->channel != TPP_CHANNEL_FIFO_KIND || (a->op >= TPP_OP_SEND_B) == (b->op >= TPP_OP_SEND_B);
    if (a->tag != b->tag)
        return fifo && same_queue ? WRONG_MESSAGE : WAITS;
    if (!prepared(w, b))
        return WRONG_ORDER;
    done(w, b);
    w->at[a->peer]++;
    return WENT;
}

static outcome pass(world *w, int32_t rank, const tpp_action *a) {
    bool backward = a->op >= TPP_OP_SEND_B;
    bool fifo = w->channel == TPP_CHANNEL_FIFO_PAIR || w->channel == TPP_CHANNEL_FIFO_KIND;
    if (w->capacity == 0)
        return meet(w, a);
    if (!sends(a))
        return take(between(w, a->peer, rank, backward), a->tag, fifo);
    queue *q = between(w, rank, a->peer, backward);
    if (q->count >= w->capacity)
        return WAITS;
    q->tag[q->count++] = a->tag;
    return WENT;
}

static outcome step(world *w, int32_t rank) {
    const tpp_action *a = next_of(w, rank);
    if (!a)
        return WAITS;
    if (!prepared(w, a) || overwrites(w, rank, a))
        return WRONG_ORDER;
    outcome got = is_message(a) ? pass(w, rank, a) : WENT;
    if (got == WENT) {
        done(w, a);
        w->at[rank]++;
    }
    return got;
}

static judge_verdict run(world *w, uint32_t seed) {
    for (int32_t idle = 0; idle < 64 * w->info.ranks;) {
        seed = seed * 1664525u + 1013904223u;
        switch (step(w, (int32_t)((seed >> 8) % (uint32_t)w->info.ranks))) {
        case WENT:
            idle = 0;
            break;
        case WAITS:
            idle++;
            break;
        case WRONG_ORDER:
            return JUDGE_WRONG_ORDER;
        default:
            return JUDGE_WRONG_MESSAGE;
        }
    }
    for (int32_t r = 0; r < w->info.ranks; r++) {
        if (next_of(w, r))
            return JUDGE_STUCK;
    }
    return JUDGE_RIGHT;
}

judge_verdict sched_judge(const tpp_schedule *schedule, tpp_channel channel, int32_t capacity,
                          uint32_t seed) {
    world *w = calloc(1, sizeof *w);
    *w = (world){
        .s = schedule, .info.size = sizeof w->info, .channel = channel, .capacity = capacity};
    w->queues = calloc((size_t)JUDGE_RANKS * JUDGE_RANKS * KINDS, sizeof *w->queues);
    tpp_schedule_query(schedule, &w->info);
    memset(w->in_slot, 0xff, sizeof w->in_slot);
    judge_verdict verdict = run(w, seed);
    free(w->queues);
    free(w);
    return verdict;
}
