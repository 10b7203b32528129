/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/stage_model.h"

#include "support/exec_ranks.h"
#include "support/stage_pieces.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_RANKS = 16, MOST_CHUNKS = 4 };

static void check(tpp_status status) {
    if (status < 0)
        fail_msg("%s: %s", tpp_status_name(status), tpp_message());
}

/* One rank and lane. */
typedef struct seat {
    tpp_comm *tp, *pp;
    const tpp_layer *layers[MOST_CHUNKS];
    const void *params[MOST_CHUNKS];
    void *grads[MOST_CHUNKS], *late[MOST_CHUNKS];
    int32_t chunks;
    tpp_stage *stage;
} seat;

static void *state_memory(int64_t bytes) {
    void *memory = aligned_alloc(64, (size_t)(bytes + 64) / 64 * 64);
    assert_non_null(memory);
    memset(memory, 0, (size_t)(bytes + 64) / 64 * 64);
    return memory;
}

static void seat_open(seat *s, const stage_layout *l, const tpp_schedule *schedule, int32_t rank) {
    tpp_layer_env env = {.size = sizeof env, .comm = s->tp, .dtype = l->dtype, .blocks = l->blocks};
    env.flags = l->sequence ? TPP_ENV_SEQUENCE : 0;
    tpp_schedule_info facts = {.size = sizeof facts};
    check(tpp_schedule_query(schedule, &facts));
    int32_t stage;
    while ((stage = tpp_schedule_stage_of(schedule, rank, s->chunks)) >= 0) {
        int32_t c = s->chunks++;
        tpp_layer_info info = {.size = sizeof info};
        tpp_layer *layer = stage_make(&env, l, stage % facts.depth, facts.depth);
        check(tpp_layer_query(layer, 1, 1, &info));
        void *params = state_memory(info.state_bytes);
        check(tpp_layer_init(layer, params, 7));
        s->layers[c] = layer;
        s->params[c] = params;
        s->grads[c] = state_memory(info.grad_bytes);
        s->late[c] = state_memory(info.grad_bytes);
    }
    tpp_stage_desc d = {.size = sizeof d,
                        .layers = s->layers,
                        .params = s->params,
                        .grads = s->grads,
                        .chunks = s->chunks,
                        .micros = l->micros,
                        .slots = facts.slots,
                        .halves = facts.halves,
                        .batch = STAGE_SEQUENCES / l->micros,
                        .seq = STAGE_SEQ,
                        .comm = s->tp,
                        .late_grads = l->late && facts.directions == 1 ? s->late : NULL};
    check(tpp_stage_create(&s->stage, &d));
}

static void to_doubles(const void *from, tpp_dtype dtype, int64_t n, double *to) {
    for (int64_t i = 0; i < n; i++)
        to[i] = dtype == TPP_F32 ? (double)((const float *)from)[i] : ((const double *)from)[i];
}

/* Join this layer's gradients over the lanes and append them to the result. */
static void gather(seat *lanes, int32_t tp, int32_t chunk, tpp_dtype dtype, stage_result *result) {
    static double full[STAGE_ROOM], weights[STAGE_ROOM];
    tpp_layer_info info = {.size = sizeof info};
    check(tpp_layer_query(lanes[0].layers[chunk], 1, 1, &info));
    for (int32_t i = 0; i < info.params; i++) {
        tpp_param_info p = {.size = sizeof p};
        for (int32_t j = 0; j < tp; j++) {
            check(tpp_layer_param(lanes[j].layers[chunk], i, &p));
            check(tpp_shard_join(&p.shard, (char *)lanes[j].grads[chunk] + p.grad_offset, full,
                                 info.grad_dtype));
            check(tpp_shard_join(&p.shard, (const char *)lanes[j].params[chunk] + p.offset, weights,
                                 dtype));
        }
        int64_t rows = p.shard.axis == TPP_AXIS_ROWS ? p.shard.valid : p.shard.rows;
        int64_t cols = p.shard.axis == TPP_AXIS_COLS ? p.shard.valid : p.shard.cols;
        assert_true(result->count + rows * cols <= STAGE_ROOM);
        to_doubles(full, info.grad_dtype, rows * cols, result->grads + result->count);
        check(tpp_convert(result->params + result->count, TPP_F64, weights, dtype, rows * cols));
        result->count += rows * cols;
    }
}

static void seat_close(seat *s) {
    tpp_stage_destroy(s->stage);
    for (int32_t c = 0; c < s->chunks; c++) {
        union {
            const void *kept;
            void *mine;
        } params = {s->params[c]}, layer = {s->layers[c]};
        free(params.mine);
        free(s->grads[c]);
        free(s->late[c]);
        tpp_layer_destroy(layer.mine);
    }
    tpp_comm_destroy(s->tp);
    tpp_comm_destroy(s->pp);
}

static void make_comms(seat *seats, const stage_layout *l) {
    tpp_comm *group[MOST_RANKS];
    for (int32_t r = 0; r < l->pp; r++) {
        check(tpp_comm_local_create(group, l->tp, NULL));
        for (int32_t j = 0; j < l->tp; j++)
            seats[r * l->tp + j].tp = group[j];
    }
    for (int32_t j = 0; j < l->tp; j++) {
        check(tpp_comm_local_create(group, l->pp, NULL));
        for (int32_t r = 0; r < l->pp; r++)
            seats[r * l->tp + j].pp = group[r];
    }
}

static tpp_schedule *make_schedule(const stage_layout *l) {
    tpp_schedule *schedule;
    tpp_schedule_desc d = {.size = sizeof d,
                           .kind = l->kind,
                           .ranks = l->pp,
                           .chunks = l->chunks,
                           .micros = l->micros,
                           .flags = l->flags};
    if (!l->text) {
        check(tpp_schedule_make(&schedule, &d));
        return schedule;
    }
    check(tpp_schedule_parse(&schedule, l->text, (int64_t)strlen(l->text), NULL));
    check(tpp_schedule_lower(schedule));
    check(tpp_schedule_finish(schedule));
    return schedule;
}

static void run_steps(const stage_layout *l, tpp_run *run, stage_result *result) {
    tpp_executor *executor;
    if (l->threads == 2)
        check(exec_ranks_create(&executor, l->pp, l->tp));
    else if (l->threads)
        check(tpp_executor_threads_create(&executor, l->pp, l->tp, NULL));
    else
        check(tpp_executor_serial_create(&executor, l->tp, NULL));
    check(tpp_run_query(run, &run->memory_bytes));
    run->memory = state_memory(run->memory_bytes);
    for (int32_t i = 0; i < (l->steps ? l->steps : 1); i++, run->step++) {
        tpp_run_report report = {.size = sizeof report, .row_peak = result->peaks};
        check(tpp_executor_run(executor, run, &report));
    }
    free(run->memory);
    tpp_executor_destroy(executor);
}

/* What joins gradients after a step; of one rank and lane, or of all ranks of a lane. */
typedef struct after {
    seat *seats;
    const stage_layout *layout;
    const tpp_schedule *schedule;
    tpp_schedule_info info;
} after;

/* One rank after the other, as ranks in processes of their own do it, at once. */
static tpp_status join(void *arg, int32_t rank, int32_t lane) {
    const after *a = arg;
    seat *s = &a->seats[rank * a->layout->tp + lane];
    int64_t most = 0;
    for (int32_t c = 0; c < s->chunks; c++) {
        tpp_layer_info info = {.size = sizeof info};
        check(tpp_layer_query(s->layers[c], 1, 1, &info));
        most = info.grad_bytes > most ? info.grad_bytes : most;
    }
    void *scratch = state_memory(most);
    tpp_status status = tpp_stage_join_grads(s->stage);
    if (status == TPP_OK && a->layout->threads == 2)
        status = tpp_stage_sum_mirrors(&s->stage, 1, a->schedule, s->pp, scratch, most);
    free(scratch);
    return status;
}

static void join_all(after *a) {
    tpp_executor *threads;
    check(tpp_executor_threads_create(&threads, a->layout->pp, a->layout->tp, NULL));
    check(tpp_executor_each(threads, a->layout->pp, a->layout->tp, join, a));
    tpp_executor_destroy(threads);
    for (int32_t lane = 0; a->layout->threads != 2 && lane < a->layout->tp; lane++) {
        tpp_stage *stages[MOST_RANKS];
        for (int32_t r = 0; r < a->layout->pp; r++)
            stages[r] = a->seats[r * a->layout->tp + lane].stage;
        check(tpp_stage_sum_mirrors(stages, a->layout->pp, a->schedule, NULL, NULL, 0));
    }
}

/* Sums over copies, on all lanes at once. */
static tpp_status sum_copies(void *arg, int32_t rank, int32_t lane) {
    const after *a = arg;
    seat *s = &a->seats[rank * a->layout->tp + lane];
    tpp_status status = TPP_OK;
    for (int32_t c = 0; c < s->chunks && status == TPP_OK; c++) {
        tpp_layer_info info = {.size = sizeof info};
        status = tpp_layer_query(s->layers[c], 1, 1, &info);
        void *scratch = aligned_alloc(64, (size_t)(info.copies_bytes + 64) / 64 * 64);
        if (status == TPP_OK)
            status = tpp_layer_sum_copies(s->layers[c], s->grads[c], scratch, info.copies_bytes);
        free(scratch);
    }
    return status;
}

static void sum_all_copies(after *a) {
    tpp_executor *threads;
    check(tpp_executor_threads_create(&threads, a->layout->pp, a->layout->tp, NULL));
    check(tpp_executor_each(threads, a->layout->pp, a->layout->tp, sum_copies, a));
    tpp_executor_destroy(threads);
}

/* The seats and the chunk of a virtual stage. */
static seat *holders(const after *a, int32_t stage, int32_t *chunk) {
    int32_t rank = tpp_schedule_rank_of(a->schedule, stage);
    *chunk = 0;
    while (tpp_schedule_stage_of(a->schedule, rank, *chunk) != stage)
        ++*chunk;
    return &a->seats[rank * a->layout->tp];
}

/* The copies of a direction and lane, which here are all in one process. */
static void sum_tied(const after *a, int32_t direction, int32_t lane) {
    const tpp_layer *layers[MOST_RANKS * MOST_CHUNKS];
    void *grads[MOST_RANKS * MOST_CHUNKS];
    int64_t bytes = 0;
    for (int32_t s = 0; s < a->info.depth; s++) {
        tpp_layer_info info = {.size = sizeof info};
        int32_t chunk;
        const seat *holder = holders(a, direction * a->info.depth + s, &chunk) + lane;
        layers[s] = holder->layers[chunk];
        grads[s] = holder->grads[chunk];
        check(tpp_layer_query(layers[s], 1, 1, &info));
        bytes += info.tied_bytes;
    }
    void *scratch = state_memory(bytes);
    check(tpp_layer_sum_tied(layers, grads, a->info.depth, NULL, scratch, bytes));
    free(scratch);
}

/* Both directions have the same gradients now. */
static void check_mirrors(const after *a) {
    for (int32_t s = 0; s < a->info.depth; s++) {
        int32_t chunk, other;
        const seat *one = holders(a, s, &chunk), *two = holders(a, s + a->info.depth, &other);
        for (int32_t j = 0; j < a->layout->tp; j++) {
            tpp_layer_info info = {.size = sizeof info};
            check(tpp_layer_query(one[j].layers[chunk], 1, 1, &info));
            assert_memory_equal(one[j].grads[chunk], two[j].grads[other], (size_t)info.grad_bytes);
        }
    }
}

static void finish_grads(after *a) {
    join_all(a);
    if (a->layout->sequence)
        sum_all_copies(a);
    for (int32_t d = 0; d < a->info.directions && a->layout->tied; d++)
        for (int32_t j = 0; j < a->layout->tp; j++)
            sum_tied(a, d, j);
    if (a->info.directions > 1)
        check_mirrors(a);
}

static void take_results(const after *a, stage_result *result) {
    int32_t chunk, depth = a->info.depth;
    for (int32_t s = 0; s < depth; s++) {
        seat *holder = holders(a, s, &chunk);
        gather(holder, a->layout->tp, chunk, a->layout->dtype ? a->layout->dtype : TPP_F32, result);
    }
    for (int32_t m = 0; m < a->layout->micros; m++) {
        int32_t direction = a->info.directions > 1 && m >= (a->layout->micros + 1) / 2;
        const double *losses =
            tpp_stage_losses(holders(a, (direction + 1) * depth - 1, &chunk)->stage);
        assert_non_null(losses);
        result->losses[m] = losses[m];
    }
}

void stage_train(const stage_layout *l, const int32_t *ids, const int32_t *targets,
                 stage_result *result) {
    static seat seats[MOST_RANKS];
    tpp_run_rank ranks[MOST_RANKS] = {{0}};
    tpp_schedule *schedule = make_schedule(l);
    after a = {seats, l, schedule, {.size = sizeof a.info}};
    check(tpp_schedule_query(schedule, &a.info));
    memset(seats, 0, sizeof seats);
    memset(result, 0, sizeof *result);
    make_comms(seats, l);
    for (int32_t i = 0; i < l->pp * l->tp; i++) {
        seat_open(&seats[i], l, schedule, i / l->tp);
        check(tpp_stage_set_data(seats[i].stage, ids, targets));
        check(tpp_stage_set_dropout(seats[i].stage, l->dropout_seed));
        check(tpp_stage_set_lengths(seats[i].stage, l->lengths, l->past));
        ranks[i] =
            (tpp_run_rank){.comm = seats[i].pp, .ops = tpp_stage_ops_get(), .ctx = seats[i].stage};
    }
    tpp_run run = {.size = sizeof run,
                   .schedule = schedule,
                   .ranks = ranks,
                   .lanes = l->tp,
                   .message_dtype = l->dtype ? l->dtype : TPP_F32,
                   .message_count = STAGE_SEQUENCES / l->micros * STAGE_SEQ * STAGE_HIDDEN};
    if (l->sequence) { /* whole blocks of rows */
        int64_t tokens = STAGE_SEQUENCES / l->micros * STAGE_SEQ;
        int64_t blocks = l->blocks ? l->blocks : l->tp;
        run.message_count = (tokens + blocks - 1) / blocks * blocks / l->tp * STAGE_HIDDEN;
    }
    run_steps(l, &run, result);
    finish_grads(&a);
    take_results(&a, result);
    for (int32_t i = 0; i < l->pp * l->tp; i++)
        seat_close(&seats[i]);
    tpp_schedule_destroy(schedule);
}
