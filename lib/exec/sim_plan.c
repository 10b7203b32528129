/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/sim.h"
#include "sched/deps.h"

#include <stddef.h>

/* What a run needs to know of each stage, found once: the dependency rule says the same of every
 * micro-batch. */

#define AHEAD 8             /* results that a look ahead may pass the end of the table by */
#define PASSED TPP__SCHED_W /* kinds of results that pass between ranks: all but W, the last */

_Static_assert(sizeof(tpp__sim_stage) == TPP__ALIGN, "a stage is a cache line");

void tpp__sim_cut(tpp__sim_run *s, tpp__arena *arena, const tpp_schedule_info *info) {
    int64_t stages = info->stages, ranks = info->ranks;
    s->info = *info;
    s->cells = stages * info->micros;
    s->made = tpp__arena_take(arena, PASSED * s->cells + AHEAD, sizeof *s->made);
    s->ends = tpp__arena_take(arena, TPP__SCHED_RESULTS * s->cells, sizeof *s->ends);
    s->stage = tpp__arena_take(arena, stages, sizeof *s->stage);
    s->edge = tpp__arena_take(arena, stages, sizeof *s->edge);
    s->link = tpp__arena_take(arena, TPP__SIM_WAYS * stages, sizeof *s->link);
    s->row = tpp__arena_take(arena, ranks, sizeof *s->row);
    s->done = tpp__arena_take(arena, ranks, sizeof *s->done);
    s->next = tpp__arena_take(arena, ranks, sizeof *s->next);
    s->ready = tpp__arena_take(arena, ranks, sizeof *s->ready);
}

tpp_status tpp__sim_bytes(const tpp_schedule_info *info, int64_t *bytes) {
    tpp__sim_run counted;
    tpp__arena arena = tpp__arena_counting();
    tpp__sim_cut(&counted, &arena, info);
    *bytes = arena.used; /* the limits of a schedule keep this below 2^46 */
    return TPP_OK;
}

static void set_stage(tpp__sim_run *s, int32_t stage, int32_t chunk) {
    tpp__sim_stage *t = &s->stage[stage];
    for (int op = TPP_OP_F; op < TPP__SIM_OPS; op++)
        t->cost[op - 1] = s->sim->cost[op][stage];
    s->edge[stage] = (tpp__sim_edge){.chunk = chunk, .peer = {-1, -1}};
    for (int way = 0; way < TPP__SIM_WAYS; way++) {
        t->late[way] = 0;
        t->need[way] = TPP__SIM_NONE;
        t->make[way] = TPP__SIM_NONE;
    }
}

/* Join a stage to the one whose results its F, or its B and I, needs from another rank. */
static void join(tpp__sim_run *s, int32_t stage, int way) {
    tpp_action a = {.op = way == TPP__SIM_UP ? TPP_OP_F : TPP_OP_B, .stage = stage};
    tpp__sched_need needs[2];
    int count = tpp__sched_needs(s->info.depth, s->info.stages, &a, needs);
    int32_t rank = tpp_schedule_rank_of(s->run->schedule, stage);
    for (int i = 0; i < count; i++) {
        int32_t from = needs[i].stage;
        if (tpp_schedule_rank_of(s->run->schedule, from) == rank)
            continue;
        uint32_t place = (uint32_t)tpp__sched_index(s->info.stages, s->info.micros, needs[i]);
        s->stage[from].make[way] = place;
        s->stage[stage].need[way] = place;
        s->stage[stage].late[way] = s->sim->latency[from < stage ? from : stage];
        s->edge[from].peer[way] = rank;
        s->edge[stage].dropped[way] =
            (s->sim->flags & TPP_SIM_PAPER_EDGES) && s->edge[from].chunk != s->edge[stage].chunk;
    }
}

/* One link from a rank to each other rank that it sends to. next[] notes the link to a rank. */
static void link_up(tpp__sim_run *s, int32_t rank, int32_t *links) {
    int32_t first = *links, stage;
    for (int32_t c = 0; (stage = tpp_schedule_stage_of(s->run->schedule, rank, c)) >= 0; c++) {
        for (int way = 0; way < TPP__SIM_WAYS; way++) {
            int32_t peer = s->edge[stage].peer[way];
            if (peer < 0)
                continue;
            if (s->next[peer] < first) {
                s->link[*links] = 0;
                s->next[peer] = (*links)++;
            }
            s->edge[stage].link[way] = (int32_t)s->next[peer];
        }
    }
}

static void plan(tpp__sim_run *s) {
    int32_t stage, links = 0;
    for (int32_t r = 0; r < s->info.ranks; r++) {
        s->next[r] = -1;
        for (int32_t c = 0; (stage = tpp_schedule_stage_of(s->run->schedule, r, c)) >= 0; c++)
            set_stage(s, stage, c);
    }
    for (stage = 0; stage < s->info.stages; stage++) {
        for (int way = 0; way < TPP__SIM_WAYS; way++)
            join(s, stage, way);
    }
    for (int32_t r = 0; r < s->info.ranks && s->sim->links; r++)
        link_up(s, r, &links);
}

void tpp__sim_begin(tpp__sim_run *s) {
    plan(s);
    for (int64_t i = 0; i < PASSED * s->cells; i++)
        s->made[i] = tpp__sim_nobody;
    for (int32_t r = 0; r < s->info.ranks; r++) {
        tpp__run_row_clear(&s->row[r], s->info.forward_only);
        s->next[r] = 0;
        s->ready[r] = s->info.ranks - 1 - r;
    }
    s->ready_count = s->info.ranks;
}
