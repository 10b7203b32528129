/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/step_toy_seat.h"

#include <math.h>
#include <string.h>
#include <time.h>

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

double toy_start_of(int32_t stage) {
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
        out->w[s] = toy_start_of(s);
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

bool toy_seat_settle(toy_seat *s) {
    tpp_verdict v = {.size = sizeof v};
    s->status = tpp_validation_end(s->validation, &v);
    bool good = s->status == TPP_OK;
    s->pending = false;
    bool right = v.grad_scale == 1 && !v.skip;
    for (int32_t c = 0; c < s->info.chunks && good; c++) {
        double kept = s->w[c];
        if (s->stepped)
            s->w[c] = s->undo[c];
        if (!v.skip)
            move(&s->w[c], &s->m[c], s->sum[c], v.grad_scale);
        good = !right || kept == s->w[c];
    }
    int64_t done = s->toy->executor == TOY_RANKS ? s->step - 1 : s->step;
    s->wrong[done] = !right;
    s->drained = !right;
    memset(s->g, 0, sizeof s->g);
    return good;
}

static tpp_status fail_here(toy_seat *s) {
    const step_toy *toy = s->toy;
    comm_delay(&s->random);
    if (s->rank != toy->fail_rank || s->step != toy->fail_step || ++s->calls != toy->fail_call)
        return TPP_OK;
    s->told = true;
    tpp_message_set("told to fail");
    return TPP_ERR_RANGE;
}

static double in_of(const toy_seat *s, const tpp_stage_call *call) {
    return call->in ? *(const double *)call->in : input_of(s->step, call->micro);
}

static tpp_status forward(void *ctx, const tpp_stage_call *call) {
    toy_seat *s = ctx;
    tpp_status status = fail_here(s);
    if (status < 0 || s->drained)
        return status;
    if (s->rank == 0 && s->step == 1)
        atomic_store(s->ahead, 1);
    double out = forward_of(s->w[call->chunk], in_of(s, call));
    if (call->out)
        *(double *)call->out = out;
    else
        s->last[call->micro] = out - target_of(s->step, call->micro);
    return TPP_OK;
}

static double grad_of(const toy_seat *s, const tpp_stage_call *call) {
    return call->grad_out ? *(const double *)call->grad_out : s->last[call->micro];
}

static tpp_status backward_input(void *ctx, const tpp_stage_call *call) {
    toy_seat *s = ctx;
    tpp_status status = fail_here(s);
    if (status == TPP_OK && s->pending && !toy_seat_settle(s))
        return s->status < 0 ? s->status : TPP_ERR_INVALID;
    if (call->grad_in && !s->drained)
        *(double *)call->grad_in = grad_of(s, call) * s->w[call->chunk];
    return status;
}

/* The last rank's last W of the first step waits until the first rank has begun the second. */
static tpp_status wait_at_gate(const toy_seat *s, const tpp_stage_call *call) {
    bool here = s->toy->gate && s->rank == s->info.ranks - 1 && s->step == 0 &&
                call->micro == s->info.micros - 1;
    for (int ms = 0; here && atomic_load(s->ahead) == 0; ms++) {
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
        if (ms > 10000)
            return TPP_ERR_TIMEOUT;
    }
    return TPP_OK;
}

static tpp_status backward_weight(void *ctx, const tpp_stage_call *call) {
    toy_seat *s = ctx;
    if (!s->drained)
        s->g[call->chunk][call->micro] = grad_of(s, call) * in_of(s, call);
    return wait_at_gate(s, call);
}

static tpp_status backward(void *ctx, const tpp_stage_call *call) {
    tpp_status status = backward_input(ctx, call);
    return status < 0 ? status : backward_weight(ctx, call);
}

/* What the other direction has of the same stages, added to what this one has. */
static tpp_status sum_mirrors(toy_seat *s) {
    enum { TAG = 1 << 20 };
    double theirs[TOY_CHUNKS][TOY_MICROS];
    int32_t mirror = s->info.ranks - 1 - s->rank;
    tpp_request send = {0}, recv = {0};
    if (s->info.directions < 2)
        return TPP_OK;
    memcpy(theirs, s->g, sizeof theirs);
    tpp_status status = TPP_OK;
    if (mirror != s->rank)
        status = tpp_comm_recv_start(s->comm, theirs, TOY_CHUNKS * TOY_MICROS, TPP_F64, mirror, TAG,
                                     &recv);
    if (status == TPP_OK && mirror != s->rank)
        status = tpp_comm_send_start(s->comm, s->g, TOY_CHUNKS * TOY_MICROS, TPP_F64, mirror, TAG,
                                     &send);
    tpp_status sent = tpp_comm_wait(&send), got = tpp_comm_wait(&recv);
    for (int32_t i = 0; i < s->info.micros; i++) {
        double one = s->g[0][i], two = s->g[1][i];
        s->g[0][i] = one + theirs[1][i];
        s->g[1][i] = two + theirs[0][i];
    }
    return status < 0 ? status : sent < 0 ? sent : got;
}

tpp_status toy_seat_step(toy_seat *s) {
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

const tpp_stage_ops toy_seat_ops = {.size = sizeof toy_seat_ops,
                                    .forward = forward,
                                    .backward = backward,
                                    .backward_input = backward_input,
                                    .backward_weight = backward_weight};
