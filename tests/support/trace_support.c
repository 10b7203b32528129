/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/trace_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

tpp_status trace_buffer_write(void *ctx, const char *bytes, int64_t count) {
    trace_buffer *buffer = ctx;
    if (buffer->used + count + 1 > buffer->room) {
        int64_t room = 2 * (buffer->used + count + 1);
        char *text = realloc(buffer->text, (size_t)room);
        if (!text)
            return TPP_ERR_NO_MEMORY;
        buffer->text = text;
        buffer->room = room;
    }
    memcpy(buffer->text + buffer->used, bytes, (size_t)count);
    buffer->used += count;
    buffer->text[buffer->used] = 0;
    return TPP_OK;
}

void trace_buffer_free(trace_buffer *buffer) {
    free(buffer->text);
    *buffer = (trace_buffer){0};
}

/* A pipeline on its way: NAN in the tables means not yet. */
typedef struct runner {
    const trace_pipeline *is;
    tpp_trace *trace;
    double *forward;  /* [stage][micro]: end of F */
    double *backward; /* [stage][micro]: end of B or I */
    double *busy;     /* [rank]: until when */
    int32_t *done;    /* [rank]: actions so far */
    int32_t *weights; /* [rank]: W so far */
} runner;

static int32_t warm_up(const trace_pipeline *is, int32_t rank) {
    int32_t all = is->micros * is->chunks;
    int32_t ahead = is->ranks - 1 - rank;
    int32_t want = is->chunks == 1 ? ahead : 2 * ahead + (is->chunks - 1) * is->ranks;
    return want < all ? want : all;
}

typedef struct action {
    tpp_op op;
    int32_t chunk;
    int32_t micro;
} action;

/* The k-th forward or backward of a rank; chunks take turns every `ranks` micro-batches. */
static action nth(const trace_pipeline *is, bool forward, int32_t k) {
    int32_t round = is->ranks * is->chunks;
    int32_t chunk = k % round / is->ranks;
    action a = {forward     ? TPP_OP_F
                : is->split ? TPP_OP_I
                            : TPP_OP_B,
                chunk, k / round * is->ranks + k % is->ranks};
    if (is->chunks == 1)
        a.micro = k;
    if (!forward)
        a.chunk = is->chunks - 1 - chunk;
    return a;
}

static action action_of(const trace_pipeline *is, int32_t rank, int32_t i) {
    int32_t warm = warm_up(is, rank);
    int32_t all = is->micros * is->chunks;
    if (i < warm)
        return nth(is, true, i);
    int32_t steady = 2 * (all - warm);
    if (i - warm < steady)
        return nth(is, (i - warm) % 2 == 0,
                   (i - warm) % 2 == 0 ? warm + (i - warm) / 2 : (i - warm) / 2);
    return nth(is, false, i - all);
}

static double duration(const trace_pipeline *is, tpp_op op) {
    return op == TPP_OP_F ? is->forward : is->split ? is->backward / 2 : is->backward;
}

static void record(runner *run, int32_t rank, action a, double start, double end, int32_t peer) {
    tpp_event event = {.start = start, .end = end, .op = a.op, .chunk = a.chunk, .micro = a.micro};
    event.stage = a.chunk * run->is->ranks + rank;
    event.peer = peer;
    for (int32_t lane = 0; lane < run->is->lanes; lane++) {
        event.row = rank * run->is->lanes + lane;
        tpp_trace_add(run->trace, &event);
    }
}

/* When the input of an action is there, NAN if not known yet; peer sends it, -1 for nobody. */
static double ready_at(const runner *run, int32_t rank, action a, int32_t *peer) {
    const trace_pipeline *is = run->is;
    int32_t stage = a.chunk * is->ranks + rank;
    int32_t last = is->ranks * is->chunks - 1;
    *peer = -1;
    if (a.op == TPP_OP_F && stage == 0)
        return is->origin;
    if (a.op != TPP_OP_F && stage == last)
        return run->forward[stage * is->micros + a.micro];
    int32_t from = a.op == TPP_OP_F ? stage - 1 : stage + 1;
    *peer = from % is->ranks;
    return (a.op == TPP_OP_F ? run->forward : run->backward)[from * is->micros + a.micro] +
           is->latency;
}

static void do_weight(runner *run, int32_t rank) {
    action a = nth(run->is, false, run->weights[rank]++);
    a.op = TPP_OP_W;
    double end = run->busy[rank] + duration(run->is, TPP_OP_W);
    record(run, rank, a, run->busy[rank], end, -1);
    run->busy[rank] = end;
}

static int32_t gradients(const runner *run, int32_t rank) {
    int32_t count = 0;
    for (int32_t i = 0; i < run->done[rank]; i++)
        count += action_of(run->is, rank, i).op == TPP_OP_I;
    return count;
}

static bool advance(runner *run, int32_t rank) {
    const trace_pipeline *is = run->is;
    action a = action_of(is, rank, run->done[rank]);
    int32_t peer;
    double ready = ready_at(run, rank, a, &peer);
    if (isnan(ready))
        return false;
    int32_t stored = is->split ? gradients(run, rank) : 0;
    while (run->weights[rank] < stored && run->busy[rank] + 1e-12 < ready)
        do_weight(run, rank);
    double start = fmax(ready, run->busy[rank]);
    if (is->waits && start > run->busy[rank]) {
        action wait = {a.op == TPP_OP_F ? TPP_OP_RECV_F : TPP_OP_RECV_B, a.chunk, a.micro};
        record(run, rank, wait, run->busy[rank], start, peer);
    }
    double end = start + duration(is, a.op);
    record(run, rank, a, start, end, -1);
    int32_t at = (a.chunk * is->ranks + rank) * is->micros + a.micro;
    (a.op == TPP_OP_F ? run->forward : run->backward)[at] = end;
    run->busy[rank] = end;
    run->done[rank]++;
    return true;
}

static void sweep(runner *run) {
    const trace_pipeline *is = run->is;
    int32_t all = 2 * is->micros * is->chunks;
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t r = 0; r < is->ranks; r++) {
            while (run->done[r] < all && advance(run, r))
                moved = true;
        }
    }
    for (int32_t r = 0; is->split && r < is->ranks; r++) {
        while (run->weights[r] < is->micros * is->chunks)
            do_weight(run, r);
    }
}

tpp_trace *trace_pipeline_run(const trace_pipeline *pipeline) {
    size_t ranks = (size_t)pipeline->ranks;
    size_t cells = ranks * (size_t)pipeline->chunks * (size_t)pipeline->micros;
    runner run = {.is = pipeline};
    run.forward = malloc(cells * sizeof(double));
    run.backward = malloc(cells * sizeof(double));
    run.busy = malloc(ranks * sizeof(double));
    run.done = calloc(ranks, sizeof(int32_t));
    run.weights = calloc(ranks, sizeof(int32_t));
    int64_t capacity = 5 * (int64_t)pipeline->micros * pipeline->chunks;
    if (run.forward && run.backward && run.busy && run.done && run.weights &&
        tpp_trace_create(&run.trace, pipeline->ranks * pipeline->lanes, capacity, NULL) == TPP_OK) {
        for (size_t i = 0; i < cells; i++)
            run.forward[i] = run.backward[i] = NAN;
        for (size_t i = 0; i < ranks; i++)
            run.busy[i] = pipeline->origin;
        sweep(&run);
    }
    free(run.forward);
    free(run.backward);
    free(run.busy);
    free(run.done);
    free(run.weights);
    return run.trace;
}
