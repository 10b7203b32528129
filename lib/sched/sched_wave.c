/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched_wave.h"

#include <stdlib.h>

/* The turn of an action stands in its tag meanwhile. Where two of a rank have the same turn neither
 * needs the other, for the turn grows with every stage. */
static int by_turn(const void *left, const void *right) {
    const tpp_action *a = left, *b = right;
    if (a->tag != b->tag)
        return a->tag < b->tag ? -1 : 1;
    return (a->stage > b->stage) - (a->stage < b->stage);
}

void tpp__sched_wave(tpp__sched_emitter *e, int32_t rank, int32_t op) {
    const tpp_schedule *s = e->schedule;
    tpp_action *first = e->next;
    for (int32_t k = s->stage_first[rank]; k < s->stage_first[rank + 1]; k++) {
        int32_t stage = s->stages_at[k];
        int32_t turn = op == TPP_OP_F ? stage : s->stages - 1 - stage;
        for (int32_t i = 0; i < s->micros; i++, turn += s->chunks) {
            tpp__sched_emit(e, op, stage, i);
            e->next[-1].tag = (uint32_t)turn;
        }
    }
    if (s->stage_first[rank + 1] - s->stage_first[rank] > 1)
        qsort(first, (size_t)(e->next - first), sizeof *first, by_turn);
    for (; first < e->next; first++)
        first->tag = 0;
}
