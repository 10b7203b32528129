/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/step_toy_seat.h"

/* --- All ranks -------------------------------------------------------------------------------- */

typedef struct crowd {
    step_toy toy;
    tpp_schedule_info info;
    tpp_comm *comms[TOY_RANKS_MOST];
    toy_seat seats[TOY_RANKS_MOST];
    tpp_run_rank ranks[TOY_RANKS_MOST];
    atomic_int ahead;
} crowd;

static void open_crowd(crowd *c, const step_toy *toy) {
    memset(c, 0, sizeof *c);
    c->toy = *toy;
    c->info.size = sizeof c->info;
    assert_int_equal(tpp_schedule_query(toy->schedule, &c->info), TPP_OK);
    assert_true(c->info.ranks <= TOY_RANKS_MOST && c->info.chunks <= TOY_CHUNKS &&
                c->info.micros <= TOY_MICROS && c->info.depth <= TOY_STAGES);
    assert_int_equal(tpp_comm_local_create(c->comms, c->info.ranks, NULL), TPP_OK);
    for (int32_t r = 0; r < c->info.ranks; r++) {
        toy_seat *s = &c->seats[r];
        *s = (toy_seat){
            .toy = &c->toy, .info = c->info, .rank = r, .comm = c->comms[r], .ahead = &c->ahead};
        s->random.state = toy->seed + (uint64_t)r;
        for (int32_t k = 0; k < c->info.chunks; k++)
            s->w[k] = toy_start_of(tpp_schedule_stage_of(toy->schedule, r, k) % c->info.depth);
        tpp_validation_desc d = {
            .size = sizeof d, .pipeline = s->comm, .parts = c->info.depth, .clip = toy->clip};
        assert_int_equal(tpp_validation_create(&s->validation, &d), TPP_OK);
        c->ranks[r] = (tpp_run_rank){.comm = s->comm, .ops = &toy_seat_ops, .ctx = s};
    }
}

static void close_crowd(crowd *c) {
    for (int32_t r = 0; r < c->info.ranks; r++)
        tpp_validation_destroy(c->seats[r].validation);
    for (int32_t r = 0; r < c->info.ranks; r++)
        tpp_comm_destroy(c->comms[r]);
}

static tpp_run run_of(const crowd *c, int32_t first) {
    return (tpp_run){.size = sizeof(tpp_run),
                     .schedule = c->toy.schedule,
                     .ranks = c->ranks + first,
                     .message_dtype = TPP_F64,
                     .message_count = 1};
}

static tpp_status open_run(tpp_executor *executor, tpp_run *run) {
    tpp_status status = tpp_executor_query(executor, run, &run->memory_bytes);
    run->memory = aligned_alloc(64, (size_t)(run->memory_bytes + 64) / 64 * 64);
    return status;
}

/* --- A distributed executor for each rank: steps overlap -------------------------------------- */

static tpp_status play_step(toy_seat *s, tpp_executor *executor, tpp_run *run) {
    tpp_status status;
    do {
        s->drained = s->pending && !s->stepped;
        status = tpp_executor_run(executor, run, NULL);
        run->step++;
        s->runs++;
    } while (status == TPP_OK && s->drained);
    return status == TPP_OK ? toy_seat_step(s) : status;
}

static void rank_main(tpp_comm *comm, int32_t rank, void *arg) {
    crowd *c = arg;
    toy_seat *s = &c->seats[rank];
    tpp_executor *executor = NULL;
    tpp_run run = run_of(c, rank);
    COMM_CHECK_OK(tpp_executor_distributed_create(&executor, rank, 1, NULL));
    COMM_CHECK_OK(open_run(executor, &run));
    tpp_status status = TPP_OK;
    for (s->step = 0; s->step < TOY_STEPS && status == TPP_OK; s->step++)
        status = play_step(s, executor, &run);
    if (status == TPP_OK) {
        COMM_CHECK(toy_seat_settle(s) || s->status < 0);
        status = s->status;
    }
    s->status = status;
    if (status < 0)
        tpp_comm_abort(comm);
    tpp_executor_destroy(executor);
    free(run.memory);
}

/* --- One executor of all ranks: nothing overlaps ---------------------------------------------- */

static tpp_status step_one(void *arg, int32_t rank, int32_t lane) {
    crowd *c = arg;
    (void)lane;
    return toy_seat_step(&c->seats[rank]);
}

static tpp_status settle_one(void *arg, int32_t rank, int32_t lane) {
    crowd *c = arg;
    (void)lane;
    bool good = toy_seat_settle(&c->seats[rank]);
    c->seats[rank].drained = false;
    return good ? TPP_OK : TPP_ERR_INVALID;
}

static tpp_status play_together(crowd *c) {
    tpp_executor *e = NULL;
    tpp_run run = run_of(c, 0);
    int32_t p = c->info.ranks;
    tpp_status status = c->toy.executor == TOY_SERIAL ? tpp_executor_serial_create(&e, 1, NULL)
                                                      : tpp_executor_threads_create(&e, p, 1, NULL);
    if (status == TPP_OK)
        status = open_run(e, &run);
    for (int64_t step = 0; step < TOY_STEPS && status == TPP_OK; step++) {
        for (int32_t r = 0; r < p; r++) {
            c->seats[r].step = step;
            c->seats[r].runs++;
        }
        run.step = (uint64_t)step;
        status = tpp_executor_run(e, &run, NULL);
        if (status == TPP_OK)
            status = tpp_executor_each(e, p, 1, step_one, c);
        if (status == TPP_OK)
            status = tpp_executor_each(e, p, 1, settle_one, c);
    }
    tpp_executor_destroy(e);
    free(run.memory);
    return status;
}

/* --- Results ---------------------------------------------------------------------------------- */

static void collect(const crowd *c, step_toy_result *out) {
    bool seen[TOY_STAGES] = {false};
    memset(out, 0, sizeof *out);
    memcpy(out->wrong, c->seats[0].wrong, sizeof out->wrong);
    out->runs = c->seats[0].runs;
    for (int32_t r = 0; r < c->info.ranks; r++) {
        const toy_seat *s = &c->seats[r];
        assert_memory_equal(s->wrong, out->wrong, sizeof out->wrong);
        assert_int_equal(s->runs, out->runs);
        for (int32_t k = 0; k < c->info.chunks; k++) {
            int32_t stage = tpp_schedule_stage_of(c->toy.schedule, r, k) % c->info.depth;
            assert_true(!seen[stage] || (out->w[stage] == s->w[k] && out->m[stage] == s->m[k]));
            seen[stage] = true;
            out->w[stage] = s->w[k];
            out->m[stage] = s->m[k];
        }
    }
}

void step_toy_train(const step_toy *toy, step_toy_result *out) {
    static crowd c;
    open_crowd(&c, toy);
    if (toy->executor == TOY_RANKS) {
        comm_threads_over(c.comms, c.info.ranks, rank_main, &c);
        for (int32_t r = 0; r < c.info.ranks; r++)
            assert_int_equal(c.seats[r].status, TPP_OK);
    } else {
        assert_int_equal(play_together(&c), TPP_OK);
    }
    collect(&c, out);
    close_crowd(&c);
}

void step_toy_fail(const step_toy *toy) {
    static crowd c;
    int told = 0;
    open_crowd(&c, toy);
    comm_threads_over(c.comms, c.info.ranks, rank_main, &c);
    for (int32_t r = 0; r < c.info.ranks; r++) {
        const toy_seat *s = &c.seats[r];
        assert_int_equal(s->status, s->told ? TPP_ERR_RANGE : TPP_ERR_ABORTED);
        told += s->told;
    }
    assert_int_equal(told, 1);
    close_crowd(&c);
}
