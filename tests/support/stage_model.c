/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/stage_model.h"

#include "support/tp_custom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HIDDEN = 16, MOST_RANKS = 16, MOST_CHUNKS = 4 };

static void check(tpp_status status) {
    if (status < 0)
        fail_msg("%s: %s", tpp_status_name(status), tpp_message());
}

/* One rank and lane. */
typedef struct seat {
    tpp_comm *tp, *pp;
    const tpp_layer *layers[MOST_CHUNKS];
    const void *params[MOST_CHUNKS];
    void *grads[MOST_CHUNKS];
    tpp_stage *stage;
} seat;

/* The end of a tied model. */
static tpp_layer *make_tied_head(const tpp_layer_env *base) {
    tpp_layer_env env = *base;
    tpp_layer *layer;
    tpp_loss_desc loss = {.size = sizeof loss, .vocab = STAGE_VOCAB};
    tpp_head_desc head = {.size = sizeof head,
                          .flags = TPP_HEAD_COPY,
                          .hidden = HIDDEN,
                          .vocab = STAGE_VOCAB,
                          .loss = &loss,
                          .block = 4};
    env.name = "p0.";
    check(tpp_head_create(&layer, &env, &head));
    return layer;
}

/* A block, and behind it a custom layer. */
static tpp_layer *make_block(const tpp_layer_env *env, const stage_layout *l, int32_t piece) {
    static const tp_custom gate = {HIDDEN, 0, 0};
    tpp_block_desc d = {
        .size = sizeof d, .hidden = HIDDEN, .heads = 4, .init_std = 0.2, .dropout = 0.25};
    tpp_layer *both[2], *layer;
    d.recompute = l->recompute ? piece % 3 : TPP_RECOMPUTE_NONE;
    check(tpp_block_create(&both[0], env, &d));
    if (!l->custom)
        return both[0];
    check(tp_kind_custom_gate.create(&both[1], env, &gate));
    check(tpp_chain_create(&layer, env, both, 2));
    return layer;
}

static tpp_layer *make_piece(const tpp_layer_env *base, const stage_layout *l, int32_t piece) {
    char name[16];
    tpp_layer_env env = *base;
    tpp_layer *layer;
    if (l->tied && piece == STAGE_PIECES - 1)
        return make_tied_head(base);
    snprintf(name, sizeof name, "p%d.", piece);
    env.name = name;
    if (piece == 0) {
        tpp_embedding_desc d = {
            .size = sizeof d, .vocab = STAGE_VOCAB, .hidden = HIDDEN, .positions = STAGE_SEQ};
        d.flags = l->tied ? TPP_EMBEDDING_TIED : 0;
        check(tpp_embedding_create(&layer, &env, &d));
    } else if (piece < STAGE_PIECES - 2) {
        layer = make_block(&env, l, piece);
    } else if (piece == STAGE_PIECES - 2) {
        tpp_norm_desc d = {.size = sizeof d, .cols = HIDDEN};
        check(tpp_norm_create(&layer, &env, &d));
    } else {
        tpp_linear_desc head = {.size = sizeof head,
                                .flags = TPP_LINEAR_PAD | TPP_LINEAR_NO_BIAS,
                                .kind = TPP_LINEAR_COLUMN,
                                .in = HIDDEN,
                                .out = STAGE_VOCAB,
                                .init_std = 0.2};
        tpp_loss_desc loss = {.size = sizeof loss, .vocab = STAGE_VOCAB};
        tpp_layer *both[2];
        check(tpp_linear_create(&both[0], &env, &head));
        check(tpp_loss_create(&both[1], &env, &loss));
        check(tpp_chain_create(&layer, &env, both, 2));
    }
    return layer;
}

static tpp_layer *make_stage(const tpp_layer_env *env, const stage_layout *l, int32_t stage,
                             int32_t stages) {
    tpp_layer *pieces[STAGE_PIECES], *chain;
    int32_t first, count;
    check(tpp_schedule_partition(STAGE_PIECES, stages, stage, &first, &count));
    for (int32_t i = 0; i < count; i++)
        pieces[i] = make_piece(env, l, first + i);
    check(tpp_chain_create(&chain, env, pieces, count));
    return chain;
}

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
    for (int32_t c = 0; c < facts.chunks; c++) {
        tpp_layer_info info = {.size = sizeof info};
        tpp_layer *layer =
            make_stage(&env, l, tpp_schedule_stage_of(schedule, rank, c), facts.stages);
        check(tpp_layer_query(layer, 1, 1, &info));
        void *params = state_memory(info.state_bytes);
        check(tpp_layer_init(layer, params, 7));
        s->layers[c] = layer;
        s->params[c] = params;
        s->grads[c] = state_memory(info.grad_bytes);
    }
    tpp_stage_desc d = {.size = sizeof d,
                        .layers = s->layers,
                        .params = s->params,
                        .grads = s->grads,
                        .chunks = facts.chunks,
                        .micros = l->micros,
                        .slots = facts.slots,
                        .halves = l->text != NULL,
                        .batch = STAGE_SEQUENCES / l->micros,
                        .seq = STAGE_SEQ,
                        .comm = s->tp};
    check(tpp_stage_create(&s->stage, &d));
}

static void to_doubles(const void *from, tpp_dtype dtype, int64_t n, double *to) {
    for (int64_t i = 0; i < n; i++)
        to[i] = dtype == TPP_F32 ? (double)((const float *)from)[i] : ((const double *)from)[i];
}

/* Join this layer's gradients over the lanes and append them to the result. */
static void gather(seat *lanes, int32_t tp, int32_t chunk, stage_result *result) {
    static double full[STAGE_ROOM];
    tpp_layer_info info = {.size = sizeof info};
    check(tpp_layer_query(lanes[0].layers[chunk], 1, 1, &info));
    for (int32_t i = 0; i < info.params; i++) {
        tpp_param_info p = {.size = sizeof p};
        for (int32_t j = 0; j < tp; j++) {
            check(tpp_layer_param(lanes[j].layers[chunk], i, &p));
            check(tpp_shard_join(&p.shard, (char *)lanes[j].grads[chunk] + p.grad_offset, full,
                                 info.grad_dtype));
        }
        int64_t rows = p.shard.axis == TPP_AXIS_ROWS ? p.shard.valid : p.shard.rows;
        int64_t cols = p.shard.axis == TPP_AXIS_COLS ? p.shard.valid : p.shard.cols;
        assert_true(result->count + rows * cols <= STAGE_ROOM);
        to_doubles(full, info.grad_dtype, rows * cols, result->grads + result->count);
        result->count += rows * cols;
    }
}

static void seat_close(seat *s, int32_t chunks) {
    tpp_stage_destroy(s->stage);
    for (int32_t c = 0; c < chunks; c++) {
        union {
            const void *kept;
            void *mine;
        } params = {s->params[c]}, layer = {s->layers[c]};
        free(params.mine);
        free(s->grads[c]);
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
                           .micros = l->micros};
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
    if (l->threads)
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

/* Of one lane; here all its stages are in one process. */
/* Sums over copies, on all lanes at once. */
typedef struct copies {
    seat *seats;
    int32_t tp, chunks;
} copies;

static tpp_status sum_copies(void *arg, int32_t rank, int32_t lane) {
    const copies *all = arg;
    seat *s = &all->seats[rank * all->tp + lane];
    tpp_status status = TPP_OK;
    for (int32_t c = 0; c < all->chunks && status == TPP_OK; c++) {
        tpp_layer_info info = {.size = sizeof info};
        status = tpp_layer_query(s->layers[c], 1, 1, &info);
        void *scratch = aligned_alloc(64, (size_t)(info.copies_bytes + 64) / 64 * 64);
        if (status == TPP_OK)
            status = tpp_layer_sum_copies(s->layers[c], s->grads[c], scratch, info.copies_bytes);
        free(scratch);
    }
    return status;
}

static void sum_all_copies(seat *seats, const stage_layout *l) {
    copies all = {seats, l->tp, l->chunks ? l->chunks : 1};
    tpp_executor *threads;
    check(tpp_executor_threads_create(&threads, l->pp, l->tp, NULL));
    check(tpp_executor_each(threads, l->pp, l->tp, sum_copies, &all));
    tpp_executor_destroy(threads);
}

static void sum_tied(seat *lane, const stage_layout *l) {
    const tpp_layer *layers[MOST_RANKS * MOST_CHUNKS];
    void *grads[MOST_RANKS * MOST_CHUNKS];
    int32_t count = 0, chunks = l->chunks ? l->chunks : 1;
    int64_t bytes = 0;
    for (int32_t r = 0; r < l->pp; r++)
        for (int32_t c = 0; c < chunks; c++) {
            tpp_layer_info info = {.size = sizeof info};
            layers[count] = lane[r * l->tp].layers[c];
            grads[count] = lane[r * l->tp].grads[c];
            check(tpp_layer_query(layers[count++], 1, 1, &info));
            bytes += info.tied_bytes;
        }
    void *scratch = state_memory(bytes);
    check(tpp_layer_sum_tied(layers, grads, count, NULL, scratch, bytes));
    free(scratch);
}

void stage_train(const stage_layout *l, const int32_t *ids, const int32_t *targets,
                 stage_result *result) {
    static seat seats[MOST_RANKS];
    tpp_run_rank ranks[MOST_RANKS] = {{0}};
    tpp_schedule *schedule = make_schedule(l);
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
                   .message_count = STAGE_SEQUENCES / l->micros * STAGE_SEQ * HIDDEN};
    if (l->sequence) { /* whole blocks of rows */
        int64_t tokens = STAGE_SEQUENCES / l->micros * STAGE_SEQ;
        int64_t blocks = l->blocks ? l->blocks : l->tp;
        run.message_count = (tokens + blocks - 1) / blocks * blocks / l->tp * HIDDEN;
    }
    run_steps(l, &run, result);
    if (l->sequence)
        sum_all_copies(seats, l);
    for (int32_t j = 0; l->tied && j < l->tp; j++)
        sum_tied(seats + j, l);
    int32_t stages = l->pp * (l->chunks ? l->chunks : 1);
    for (int32_t s = 0; s < stages; s++)
        gather(&seats[s % l->pp * l->tp], l->tp, s / l->pp, result);
    const double *losses = tpp_stage_losses(seats[(l->pp - 1) * l->tp].stage);
    assert_non_null(losses);
    memcpy(result->losses, losses, (size_t)l->micros * sizeof *losses);
    for (int32_t i = 0; i < l->pp * l->tp; i++)
        seat_close(&seats[i], l->chunks ? l->chunks : 1);
    tpp_schedule_destroy(schedule);
}
