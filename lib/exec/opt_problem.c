/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/opt_impl.h"
#include "exec/sim.h"

#include <math.h>

/* One block: the struct, then its arrays. Called twice, first to count. */
static tpp__opt *lay_out(tpp__arena *arena, tpp__opt *o) {
    int64_t ranks = o->ranks, stages = o->stages, cells = stages * o->micros;
    tpp__opt *self = tpp__arena_take(arena, 1, sizeof *self);
    o->rank_of = tpp__arena_take(arena, stages, sizeof *o->rank_of);
    o->chunk_of = tpp__arena_take(arena, stages, sizeof *o->chunk_of);
    o->stage_at = tpp__arena_take(arena, ranks * o->chunks, sizeof *o->stage_at);
    for (int op = 0; op < TPP__OPT_OPS; op++)
        o->time[op] = tpp__arena_take(arena, stages, sizeof(double));
    o->hold = tpp__arena_take(arena, stages, sizeof *o->hold);
    o->hold_weight = tpp__arena_take(arena, stages, sizeof *o->hold_weight);
    o->state = tpp__arena_take(arena, ranks, sizeof *o->state);
    o->latency = tpp__arena_take(arena, stages, sizeof *o->latency);
    for (int op = 0; op < 2; op++) {
        o->send[op] = tpp__arena_take(arena, stages, sizeof(double));
        o->link[op] = tpp__arena_take(arena, stages, sizeof(int32_t));
        o->there[op] = tpp__arena_take(arena, cells, sizeof(double));
    }
    o->head = tpp__arena_take(arena, ranks, sizeof *o->head);
    o->busy = tpp__arena_take(arena, ranks, sizeof *o->busy);
    o->link_free = tpp__arena_take(arena, 2 * stages, sizeof *o->link_free);
    o->count = tpp__arena_take(arena, ranks * o->chunks * TPP__OPT_OPS, sizeof *o->count);
    o->rank = tpp__arena_take(arena, ranks, sizeof *o->rank);
    o->ready = tpp__arena_take(arena, ranks, sizeof *o->ready);
    o->choice = tpp__arena_take(arena, ranks, sizeof *o->choice);
    o->caps = tpp__arena_take(arena, ranks, sizeof *o->caps);
    o->best_caps = tpp__arena_take(arena, ranks, sizeof *o->best_caps);
    o->order = tpp__arena_take(arena, ranks * o->length, sizeof *o->order);
    o->best = tpp__arena_take(arena, ranks * o->length, sizeof *o->best);
    return self;
}

static void place(tpp__opt *o, tpp_placement placement) {
    for (int32_t s = 0; s < o->stages; s++) {
        int32_t turn = s / o->ranks, at = s % o->ranks;
        int32_t rank = placement == TPP_PLACEMENT_V && turn == 1 ? o->ranks - 1 - at : at;
        o->rank_of[s] = rank;
        o->chunk_of[s] = turn;
        o->stage_at[rank * o->chunks + turn] = s;
    }
}

/* Messages of one rank pair and direction share a link: the first stage that uses it names it. */
static int32_t find_link(const tpp__opt *o, int32_t from, int32_t to) {
    for (int32_t s = 0; s + 1 < o->stages; s++) {
        if (o->rank_of[s] == from && o->rank_of[s + 1] == to)
            return s;
        if (o->rank_of[s + 1] == from && o->rank_of[s] == to)
            return o->stages + s + 1;
    }
    return -1;
}

/* With `share` 1/2 the costs are of the edges between ranks, and the way back of V goes down them. */
static void set_links(tpp__opt *o, const tpp_sim_desc *c, double share) {
    for (int32_t s = 0; s < o->stages; s++) {
        bool last = s == o->stages - 1, apart = !last && o->rank_of[s] != o->rank_of[s + 1];
        bool down = share < 1 && s >= o->ranks;
        int32_t edge = down && apart ? o->rank_of[s + 1] : s;
        o->latency[s] = apart ? (c->edge_latency ? c->edge_latency[edge] : c->latency) : 0;
        o->link[TPP__OPT_F][s] = o->link[TPP__OPT_I][s] = -1;
        if (apart && c->send_forward)
            o->link[TPP__OPT_F][s] = find_link(o, o->rank_of[s], o->rank_of[s + 1]);
        if (s > 0 && o->rank_of[s] != o->rank_of[s - 1] && c->send_backward)
            o->link[TPP__OPT_I][s] = find_link(o, o->rank_of[s], o->rank_of[s - 1]);
        const double *send[] = {down ? c->send_backward : c->send_forward,
                                down ? c->send_forward : c->send_backward};
        int32_t as = share < 1 ? o->rank_of[s] : s;
        o->send[TPP__OPT_F][s] = send[TPP__OPT_F] ? send[TPP__OPT_F][as] : 0;
        o->send[TPP__OPT_I][s] = send[TPP__OPT_I] ? send[TPP__OPT_I][as] : 0;
        o->links |= o->link[TPP__OPT_F][s] >= 0 || o->link[TPP__OPT_I][s] >= 0;
    }
}

/* With `share` 1/2 a stage of V has half of what its rank's stage has. */
static void set_costs(tpp__opt *o, const tpp_sim_desc *c, double share) {
    for (int32_t s = 0; s < o->stages; s++) {
        int32_t as = share < 1 ? o->rank_of[s] : s;
        double half = c->backward ? c->backward[as] / 2 : 0;
        o->time[TPP__OPT_F][s] = share * c->forward[as];
        o->time[TPP__OPT_I][s] = share * (c->backward_input ? c->backward_input[as] : half);
        o->time[TPP__OPT_W][s] = share * (c->backward_weight ? c->backward_weight[as] : half);
        o->hold[s] = share * (c->memory ? c->memory[as] : 0);
        o->hold_weight[s] = c->memory_weight ? share * c->memory_weight[as] : o->hold[s];
        o->state[o->rank_of[s]] += share * (c->memory_state ? c->memory_state[as] : 0);
    }
    set_links(o, c, share);
    double chain = 0;
    for (int32_t s = 0; s < o->ranks; s++) {
        o->head[s] = chain;
        chain += o->time[TPP__OPT_F][s] + o->latency[s];
        chain += o->link[TPP__OPT_F][s] >= 0 ? o->send[TPP__OPT_F][s] : 0;
    }
}

/* One micro-batch must fit with all its chunks on each rank, and go back: when a chunk's W is left,
 * those above it hold nothing any more. */
static tpp_status check_limit(const tpp__opt *o) {
    for (int32_t r = 0; r < o->ranks; r++) {
        double held = o->state[r], need = 0;
        for (int32_t c = 0; c < o->chunks; c++) {
            int32_t s = o->stage_at[r * o->chunks + c];
            need = fmax(need, held + o->hold_weight[s]);
            held += o->hold[s];
        }
        need = fmax(need, held);
        if (need > o->limit)
            return tpp__fail(TPP_ERR_INVALID,
                             "desc.memory_limit = %g, but rank %d needs %g for one micro-batch",
                             o->limit, r, need);
    }
    return TPP_OK;
}

/* No order's times, nor what a rank may hold, are beyond a double. */
static tpp_status check_sums(const tpp__opt *o) {
    double time = 0, memory = 0;
    for (int32_t s = 0; s < o->stages; s++) {
        for (int op = 0; op < TPP__OPT_OPS; op++)
            time += o->micros * o->time[op][s];
        time += o->micros * (o->send[TPP__OPT_F][s] + o->send[TPP__OPT_I][s] + 2 * o->latency[s]);
        memory += o->micros * (o->hold[s] + o->hold_weight[s]) + o->state[o->rank_of[s]];
    }
    if (isfinite(time) && isfinite(memory))
        return TPP_OK;
    return tpp__fail(TPP_ERR_OVERFLOW, "the %s of desc.costs add up to more than a double holds",
                     isfinite(time) ? "memories" : "times");
}

static tpp_status check_sizes(const tpp_optimize_desc *d, const tpp_sim_desc *c, int32_t chunks,
                              int64_t given) {
    if (c->flags != 0 || c->fused || c->optimizer)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.costs has flags, fused or optimizer set; they must be 0");
    if (c->stages != given)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.costs.stages = %d; it must be ranks * chunks = %lld", c->stages,
                         (long long)given);
    int64_t stages = (int64_t)d->ranks * chunks;
    if (stages * d->micros > INT32_MAX / 4)
        return tpp__fail(TPP_ERR_OVERFLOW,
                         "%lld stages of %d micro-batches are more than 2^29 to search over",
                         (long long)stages, d->micros);
    return TPP_OK;
}

tpp_status tpp__opt_new(tpp__opt **out, const tpp_optimize_desc *d, tpp_placement placement,
                        int32_t chunks) {
    tpp_sim_desc costs;
    double share = d->placement == 0 && placement == TPP_PLACEMENT_V ? 0.5 : 1;
    int64_t given = share < 1 ? d->ranks : (int64_t)d->ranks * chunks;
    tpp_status status = tpp__sized_read(&costs, sizeof costs, 0, d->costs, "desc.costs");
    if (status == TPP_OK)
        status = check_sizes(d, &costs, chunks, given);
    if (status == TPP_OK)
        status = tpp__sim_check(&costs);
    tpp__opt start = {.desc = *d, .ranks = d->ranks, .chunks = chunks, .micros = d->micros};
    if (status == TPP_OK)
        status = tpp__allocator_read(&start.allocator, d->allocator);
    if (status < 0)
        return status;
    start.stages = d->ranks * chunks;
    start.length = (int64_t)TPP__OPT_OPS * chunks * d->micros;
    start.makespan = d->objective == TPP_OPTIMIZE_MAKESPAN;
    start.limit = d->memory_limit > 0 ? d->memory_limit * (1 + 1e-12) : INFINITY;
    start.best_cost = (tpp__opt_cost){INFINITY, INFINITY};
    start.random = d->seed;
    tpp__arena arena = tpp__arena_counting();
    lay_out(&arena, &start);
    start.bytes = arena.used;
    void *memory = tpp__alloc(&start.allocator, start.bytes);
    if (!memory)
        return TPP_ERR_NO_MEMORY;
    arena = tpp__arena_over(memory, start.bytes);
    tpp__opt *o = lay_out(&arena, &start);
    *o = start;
    place(o, placement);
    set_costs(o, &costs, share);
    status = check_sums(o);
    if (status == TPP_OK)
        status = check_limit(o);
    if (status < 0) {
        tpp__opt_free(o);
        return status;
    }
    *out = o;
    return TPP_OK;
}

void tpp__opt_free(tpp__opt *o) {
    if (!o)
        return;
    tpp_allocator allocator = o->allocator;
    tpp__free(&allocator, o, o->bytes);
}
