/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/sim_atom.h"

#include "sched/deps.h"

#include <stddef.h>

/* --- Times ------------------------------------------------------------------------------------ */

double tpp__sim_end_of(const tpp__sim_run *s, const tpp_action *a) {
    tpp__sched_need makes[2];
    tpp__sched_makes(a, makes);
    return s->ends[tpp__sched_index(s->info.stages, s->info.micros, makes[0])];
}

bool tpp__sim_sends(const tpp__sim_run *s, const tpp_action *a) {
    return a->op < TPP_OP_W && s->stage[a->stage].make[tpp__sim_way(a->op)] != TPP__SIM_NONE;
}

static double takes(const tpp__sim_run *s, const tpp_action *a) {
    return s->sim->send[tpp__sim_way(a->op)][a->stage];
}

double tpp__sim_left(const tpp__sim_run *s, const tpp__sim_atom *x, int32_t count) {
    double time = tpp__sim_end_of(s, x->a);
    for (int32_t i = 0; i < count; i++)
        time += tpp__sim_sends(s, x->a + i) ? takes(s, x->a + i) : 0;
    return time;
}

double tpp__sim_free_after(const tpp__sim_run *s, const tpp__sim_atom *x) {
    return tpp__sim_left(s, x, s->sim->flags & TPP_SIM_BLOCKING ? x->count : 0);
}

/* --- Places ----------------------------------------------------------------------------------- */

tpp__sim_atom tpp__sim_atom_of(const tpp__sim_run *s, int32_t rank, const tpp_action *a) {
    const tpp_action *first = tpp_schedule_actions(s->run->schedule, rank, NULL);
    if (a > first && a->op < TPP__SIM_OPS && a[-1].flags & TPP_ACTION_FUSED)
        a--;
    return (tpp__sim_atom){a, rank, a->flags & TPP_ACTION_FUSED ? 2 : 1};
}

tpp__sim_atom tpp__sim_previous(const tpp__sim_run *s, int32_t rank) {
    const tpp_action *first = tpp_schedule_actions(s->run->schedule, rank, NULL);
    for (int64_t i = s->next[rank] - 1; i >= 0; i--) {
        if (first[i].op < TPP__SIM_OPS)
            return tpp__sim_atom_of(s, rank, first + i);
    }
    return (tpp__sim_atom){NULL, rank, 0};
}

void tpp__sim_move_to(tpp__sim_run *s, int32_t rank, const tpp_action *a) {
    s->next[rank] = a - tpp_schedule_actions(s->run->schedule, rank, NULL);
}

const tpp_action *tpp__sim_maker(const tpp__sim_run *s, int32_t rank, int way, int32_t stage,
                                 int32_t micro) {
    const tpp_action *a = tpp_schedule_actions(s->run->schedule, rank, NULL) + s->next[rank] - 1;
    while (a->op >= TPP_OP_W || tpp__sim_way(a->op) != way || a->stage != stage ||
           a->micro != micro)
        a--;
    return a;
}

const tpp_action *tpp__sim_before_on_link(const tpp__sim_run *s, int32_t rank,
                                          const tpp_action *a) {
    const tpp_action *first = tpp_schedule_actions(s->run->schedule, rank, NULL);
    int32_t link = s->edge[a->stage].link[tpp__sim_way(a->op)];
    while (a > first) {
        a--;
        if (tpp__sim_sends(s, a) && s->edge[a->stage].link[tpp__sim_way(a->op)] == link)
            return a;
    }
    return NULL;
}

double tpp__sim_made_at(const tpp__sim_run *s, const tpp_action *a) {
    return s->made[(int64_t)s->stage[a->stage].make[tpp__sim_way(a->op)] + a->micro];
}
