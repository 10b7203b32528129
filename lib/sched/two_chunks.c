/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/two_chunks.h"

enum { F = 0, I = 1, W = 2 };

tpp__sched_two_chunks tpp__sched_v_chunks(tpp__sched_emitter *e, const tpp_schedule_desc *d,
                                          int32_t rank) {
    return (tpp__sched_two_chunks){
        .e = e, .stage = {rank, 2 * d->ranks - 1 - rank}, .count = {d->micros, d->micros}};
}

/* The turn that an operation takes. */
static int32_t take(tpp__sched_two_chunks *c, char op, int32_t chunk) {
    int32_t *next = c->next[chunk];
    switch (op) {
    case 'F':
        return next[F]++;
    case 'W':
        return next[W]++;
    case 'B':
        next[W]++;
        return next[I]++;
    default:
        return next[I]++;
    }
}

static int32_t op_of(char op) {
    return op == 'F' ? TPP_OP_F : op == 'B' ? TPP_OP_B : op == 'I' ? TPP_OP_I : TPP_OP_W;
}

/* The operation `ops` begins with, and the one fused to it; returns where the rest begins. */
static const char *one(tpp__sched_two_chunks *c, const char *ops) {
    int32_t chunk = ops[1] - '0', turn = take(c, ops[0], chunk);
    bool there = turn < c->count[chunk];
    if (ops[2] != '&') {
        if (there)
            tpp__sched_emit(c->e, op_of(ops[0]), c->stage[chunk], c->first[chunk] + turn);
        return ops + 2;
    }
    int32_t other = ops[4] - '0', back = take(c, ops[3], other);
    bool back_there = back < c->count[other];
    if (there && back_there)
        tpp__sched_emit_fused(c->e, c->stage[chunk], c->first[chunk] + turn, c->stage[other],
                              c->first[other] + back);
    else if (there)
        tpp__sched_emit(c->e, TPP_OP_F, c->stage[chunk], c->first[chunk] + turn);
    else if (back_there)
        tpp__sched_emit(c->e, TPP_OP_B, c->stage[other], c->first[other] + back);
    return ops + 5;
}

/* One of the operations has a micro-batch left. */
static bool any_left(const tpp__sched_two_chunks *c, const char *ops) {
    for (; *ops; ops += ops[2] == '&' ? 3 : 2) {
        int32_t chunk = ops[1] - '0';
        int kind = ops[0] == 'F' ? F : ops[0] == 'W' ? W : I;
        if (c->next[chunk][kind] < c->count[chunk])
            return true;
    }
    return false;
}

void tpp__sched_phase(tpp__sched_two_chunks *c, int32_t times, const char *ops) {
    for (; times > 0 && any_left(c, ops); times--) {
        for (const char *at = ops; *at;)
            at = one(c, at);
    }
    /* All that is left are turns beyond the last micro-batch, which need not be counted: they are
     * beyond it in every later phase too. */
}
