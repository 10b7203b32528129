/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/step_toy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/comm_threads.h"

enum { RANKS = 8, CHUNKS = 4 };

static const double RATE = 0.05, BIAS = 1.0 / 1024;

/* --- The model -------------------------------------------------------------------------------- */

static double draw(int64_t step, int32_t micro, int which) {
    comm_random random = {(uint64_t)(step * 100 + micro) * 2 + (uint64_t)which};
    return (double)comm_random_below(&random, 2000001) / 1e6 - 1;
}

/* Every fifth step has a number that is none, and there are large and small ones. */
static double input_of(int64_t step, int32_t micro) {
    if (step % 5 == 4 && micro == 0)
        return step % 10 == 4 ? (double)NAN : (double)INFINITY;
    return draw(step, micro, 0) * (step % 3 ? 1 : 0.125);
}

static double target_of(int64_t step, int32_t micro) {
    return draw(step, micro, 1) * (step % 3 ? 1 : 0.125);
}

static double start_of(int32_t stage) {
    return 1 + (stage + 1) / 64.0;
}

static double forward_of(double w, double x) {
    return w * x + BIAS;
}

/* One stage's step of the optimizer. */
static void move(double *w, double *m, double gradient, double scale) {
    *m = 0.5 * *m + 0.5 * (gradient * scale);
    *w -= RATE * *m;
}

void step_toy_plain(int32_t depth, int32_t micros, double clip, step_toy_result *out) {
    memset(out, 0, sizeof *out);
    for (int32_t s = 0; s < depth; s++)
        out->w[s] = start_of(s);
    for (int64_t step = 0; step < TOY_STEPS; step++) {
        double sum[TOY_STAGES] = {0}, x[TOY_STAGES + 1], squares = 0;
        for (int32_t i = 0; i < micros; i++) {
            x[0] = input_of(step, i);
            for (int32_t s = 0; s < depth; s++)
                x[s + 1] = forward_of(out->w[s], x[s]);
            double back = x[depth] - target_of(step, i);
            for (int32_t s = depth - 1; s >= 0; s--) {
                sum[s] += back * x[s];
                back *= out->w[s];
            }
        }
        for (int32_t s = 0; s < depth; s++)
            squares += sum[s] * sum[s];
        double norm = sqrt(squares);
        out->wrong[step] = !isfinite(norm) || norm > clip;
        for (int32_t s = 0; s < depth && isfinite(norm); s++)
            move(&out->w[s], &out->m[s], sum[s], norm > clip ? clip / norm : 1);
    }
}

/* --- A rank ----------------------------------------------------------------------------------- */

typedef struct seat {
    const step_toy *toy;
    tpp_schedule_info info;
    int32_t rank;
    tpp_comm *comm;
    tpp_validation *validation;
    comm_random random;
    int64_t step; /* of the run under way */
    int32_t calls;
    bool pending, stepped, drained;
    double w[CHUNKS], m[CHUNKS], sum[CHUNKS], undo[CHUNKS];
    double last[TOY_MICROS]; /* gradient of the last stage's output */
    double g[CHUNKS][TOY_MICROS];
    int32_t wrong[TOY_STEPS];
    int64_t runs;
    tpp_status status;
    bool told; /* this is the one that failed first */
} seat;

static void settle(seat *s, bool *failed) {
    tpp_verdict v = {.size = sizeof v};
    s->status = tpp_validation_end(s->validation, &v);
    *failed = s->status < 0;
    s->pending = false;
    bool right = v.grad_scale == 1 && !v.skip;
    for (int32_t c = 0; c < s->info.chunks && !*failed; c++) {
        double kept = s->w[c];
        if (s->stepped)
            s->w[c] = s->undo[c];
        if (!v.skip)
            move(&s->w[c], &s->m[c], s->sum[c], v.grad_scale);
        if (right && kept != s->w[c])
            *failed = true;
    }
    int64_t done = s->toy->executor == TOY_RANKS ? s->step - 1 : s->step;
    s->wrong[done] = !right;
    s->drained = !right;
    memset(s->g, 0, sizeof s->g);
}

static tpp_status fail_here(seat *s) {
    const step_toy *toy = s->toy;
    comm_delay(&s->random);
    if (s->rank != toy->fail_rank || s->step != toy->fail_step || ++s->calls != toy->fail_call)
        return TPP_OK;
    s->told = true;
    tpp_message_set("told to fail");
    return TPP_ERR_RANGE;
}

static double in_of(const seat *s, const tpp_stage_call *call) {
    return call->in ? *(const double *)call->in : input_of(s->step, call->micro);
}

static tpp_status forward(void *ctx, const tpp_stage_call *call) {
    seat *s = ctx;
    tpp_status status = fail_here(s);
    if (status < 0 || s->drained)
        return status;
    double out = forward_of(s->w[call->chunk], in_of(s, call));
    if (call->out)
        *(double *)call->out = out;
    else
        s->last[call->micro] = out - target_of(s->step, call->micro);
    return TPP_OK;
}

static double grad_of(const seat *s, const tpp_stage_call *call) {
    return call->grad_out ? *(const double *)call->grad_out : s->last[call->micro];
}

static tpp_status backward_input(void *ctx, const tpp_stage_call *call) {
    seat *s = ctx;
    bool failed = false;
    tpp_status status = fail_here(s);
    if (status == TPP_OK && s->pending)
        settle(s, &failed);
    if (failed)
        return s->status < 0 ? s->status : TPP_ERR_INVALID;
    if (call->grad_in && !s->drained)
        *(double *)call->grad_in = grad_of(s, call) * s->w[call->chunk];
    return status;
}

static tpp_status backward_weight(void *ctx, const tpp_stage_call *call) {
    seat *s = ctx;
    if (!s->drained)
        s->g[call->chunk][call->micro] = grad_of(s, call) * in_of(s, call);
    return TPP_OK;
}

static tpp_status backward(void *ctx, const tpp_stage_call *call) {
    tpp_status status = backward_input(ctx, call);
    return status < 0 ? status : backward_weight(ctx, call);
}

/* What the other direction has of the same stages, added to what this one has. */
static tpp_status sum_mirrors(seat *s) {
    enum { TAG = 1 << 20 };
    double theirs[CHUNKS][TOY_MICROS];
    int32_t mirror = s->info.ranks - 1 - s->rank;
    tpp_request send = {0}, recv = {0};
    if (s->info.directions < 2)
        return TPP_OK;
    memcpy(theirs, s->g, sizeof theirs);
    tpp_status status = TPP_OK;
    if (mirror != s->rank)
        status =
            tpp_comm_recv_start(s->comm, theirs, CHUNKS * TOY_MICROS, TPP_F64, mirror, TAG, &recv);
    if (status == TPP_OK && mirror != s->rank)
        status =
            tpp_comm_send_start(s->comm, s->g, CHUNKS * TOY_MICROS, TPP_F64, mirror, TAG, &send);
    tpp_status sent = tpp_comm_wait(&send), got = tpp_comm_wait(&recv);
    for (int32_t i = 0; i < s->info.micros; i++) {
        double one = s->g[0][i], two = s->g[1][i];
        s->g[0][i] = one + theirs[1][i];
        s->g[1][i] = two + theirs[0][i];
    }
    return status < 0 ? status : sent < 0 ? sent : got;
}

static tpp_status take_step(seat *s) {
    tpp_verdict known = {.size = sizeof known};
    double *parts = tpp_validation_parts(s->validation);
    tpp_status status = sum_mirrors(s);
    if (status < 0)
        return status;
    for (int32_t c = 0; c < s->info.chunks; c++) {
        int32_t stage = tpp_schedule_stage_of(s->toy->schedule, s->rank, c);
        s->sum[c] = 0;
        for (int32_t i = 0; i < s->info.micros; i++)
            s->sum[c] += s->g[c][i];
        if (stage < s->info.depth)
            parts[stage] = s->sum[c] * s->sum[c];
    }
    status = tpp_validation_begin(s->validation, &known);
    s->pending = status == TPP_OK;
    s->stepped = s->pending && known.grad_scale == 1 && !known.skip;
    for (int32_t c = 0; c < s->info.chunks && s->stepped; c++) {
        double m = s->m[c];
        s->undo[c] = s->w[c];
        move(&s->w[c], &m, s->sum[c], 1);
    }
    return status;
}

/* --- All ranks -------------------------------------------------------------------------------- */

typedef struct crowd {
    step_toy toy;
    tpp_schedule_info info;
    tpp_comm *comms[RANKS];
    seat seats[RANKS];
    tpp_run_rank ranks[RANKS];
} crowd;

static const tpp_stage_ops ops = {.size = sizeof ops,
                                  .forward = forward,
                                  .backward = backward,
                                  .backward_input = backward_input,
                                  .backward_weight = backward_weight};

static void open_crowd(crowd *c, const step_toy *toy) {
    memset(c, 0, sizeof *c);
    c->toy = *toy;
    c->info.size = sizeof c->info;
    assert_int_equal(tpp_schedule_query(toy->schedule, &c->info), TPP_OK);
    assert_true(c->info.ranks <= RANKS && c->info.chunks <= CHUNKS &&
                c->info.micros <= TOY_MICROS && c->info.depth <= TOY_STAGES);
    assert_int_equal(tpp_comm_local_create(c->comms, c->info.ranks, NULL), TPP_OK);
    for (int32_t r = 0; r < c->info.ranks; r++) {
        seat *s = &c->seats[r];
        *s = (seat){.toy = &c->toy, .info = c->info, .rank = r, .comm = c->comms[r]};
        s->random.state = toy->seed + (uint64_t)r;
        for (int32_t k = 0; k < c->info.chunks; k++)
            s->w[k] = start_of(tpp_schedule_stage_of(toy->schedule, r, k) % c->info.depth);
        tpp_validation_desc d = {
            .size = sizeof d, .pipeline = s->comm, .parts = c->info.depth, .clip = toy->clip};
        assert_int_equal(tpp_validation_create(&s->validation, &d), TPP_OK);
        c->ranks[r] = (tpp_run_rank){.comm = s->comm, .ops = &ops, .ctx = s};
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

static tpp_status play_step(seat *s, tpp_executor *executor, tpp_run *run) {
    tpp_status status;
    do {
        s->drained = s->pending && !s->stepped;
        status = tpp_executor_run(executor, run, NULL);
        run->step++;
        s->runs++;
    } while (status == TPP_OK && s->drained);
    return status == TPP_OK ? take_step(s) : status;
}

static void rank_main(tpp_comm *comm, int32_t rank, void *arg) {
    crowd *c = arg;
    seat *s = &c->seats[rank];
    tpp_executor *executor = NULL;
    tpp_run run = run_of(c, rank);
    bool failed = false;
    COMM_CHECK_OK(tpp_executor_distributed_create(&executor, rank, 1, NULL));
    COMM_CHECK_OK(open_run(executor, &run));
    tpp_status status = TPP_OK;
    for (s->step = 0; s->step < TOY_STEPS && status == TPP_OK; s->step++)
        status = play_step(s, executor, &run);
    if (status == TPP_OK) {
        settle(s, &failed);
        status = s->status;
    }
    COMM_CHECK(!failed || status < 0);
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
    return take_step(&c->seats[rank]);
}

static tpp_status settle_one(void *arg, int32_t rank, int32_t lane) {
    crowd *c = arg;
    bool failed = false;
    (void)lane;
    settle(&c->seats[rank], &failed);
    c->seats[rank].drained = false;
    return failed ? TPP_ERR_INVALID : TPP_OK;
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
        const seat *s = &c->seats[r];
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
        const seat *s = &c.seats[r];
        assert_int_equal(s->status, s->told ? TPP_ERR_RANGE : TPP_ERR_ABORTED);
        told += s->told;
    }
    assert_int_equal(told, 1);
    close_crowd(&c);
}
