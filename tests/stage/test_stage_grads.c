/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Gradients of stages: two halves of the micro-batches, two directions, or none at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/close.h"
#include <tpp/tpp.h>

/* Micro-batches 0 to 2 of 5 are the first half: direction 0 of a two-way schedule. */
static void late_gradients_are_joined(void **state) {
    (void)state;
    static _Alignas(64) double params[64], early[64], late[64], whole[64];
    double in[8] = {1, 2, 3, 5}, slope[8] = {0.5, 0.25, 1, 2}, out[8];
    tpp_layer_env env = {.size = sizeof env, .dtype = TPP_F64};
    tpp_norm_desc norm = {.size = sizeof norm, .cols = 4};
    tpp_layer *layer;
    assert_int_equal(tpp_norm_create(&layer, &env, &norm), TPP_OK);
    assert_int_equal(tpp_layer_init(layer, params, 1), TPP_OK);
    const tpp_layer *layers[] = {layer};
    const void *all_params[] = {params};
    void *grads[] = {early}, *later[] = {late}, *sums[] = {whole};
    tpp_stage_desc d = {.size = sizeof d, .layers = layers, .params = all_params};
    d.chunks = d.slots = 1;
    d.micros = 5, d.batch = 1, d.seq = 1;
    const tpp_stage_ops *ops = tpp_stage_ops_get();
    tpp_stage *stage[2];
    d.grads = grads, d.late_grads = later;
    assert_int_equal(tpp_stage_create(&stage[0], &d), TPP_OK);
    d.grads = sums, d.late_grads = NULL;
    assert_int_equal(tpp_stage_create(&stage[1], &d), TPP_OK);
    tpp_stage_call job = {.size = sizeof job, .in = in, .count = 4, .dtype = TPP_F64};
    for (job.micro = 0; job.micro < 5; job.micro++) {
        for (int i = 0; i < 2; i++) {
            job.out = out, job.grad_out = NULL, job.grad_in = NULL;
            assert_int_equal(ops->forward(stage[i], &job), TPP_OK);
            job.out = NULL, job.grad_out = slope, job.grad_in = out;
            assert_int_equal(ops->backward(stage[i], &job), TPP_OK);
        }
        if (job.micro == 2)
            assert_memory_equal(early, whole, sizeof early);
        in[0] += 0.7;
    }
    for (int i = 0; i < 64; i++)
        assert_true(early[i] == 0 || (late[i] != 0 && early[i] != whole[i]));
    double sum[64];
    for (int i = 0; i < 64; i++)
        sum[i] = early[i] + late[i];
    assert_int_equal(tpp_stage_join_grads(stage[1]), TPP_OK); /* nothing to do */
    assert_int_equal(tpp_stage_join_grads(stage[0]), TPP_OK);
    assert_same_bits("joined", early, sum, sizeof sum);
    assert_close_f64("joined", early, whole, 64, 1e-15);
    for (int i = 0; i < 64; i++)
        assert_true(late[i] == 0);
    assert_int_equal(tpp_stage_join_grads(NULL), TPP_ERR_INVALID);
    tpp_stage_destroy(stage[0]);
    tpp_stage_destroy(stage[1]);
    tpp_layer_destroy(layer);
}

/* Without gradients: the outputs are the same, the memory is less, a backward is refused. */
static void stages_without_gradients(void **state) {
    (void)state;
    static _Alignas(64) float params[64], grads[64];
    float in[8] = {1, 2, 3, 5, 7, 11, 13, 17}, out[2][8], back[8];
    tpp_layer_env env = {.size = sizeof env};
    tpp_norm_desc norm = {.size = sizeof norm, .cols = 4};
    tpp_layer *layer;
    assert_int_equal(tpp_norm_create(&layer, &env, &norm), TPP_OK);
    assert_int_equal(tpp_layer_init(layer, params, 1), TPP_OK);
    const tpp_layer *layers[] = {layer};
    const void *all_params[] = {params};
    void *all_grads[] = {grads};
    tpp_stage_desc d = {
        .size = sizeof d, .layers = layers, .params = all_params, .grads = all_grads};
    d.chunks = d.micros = 1;
    d.slots = 3, d.batch = 1, d.seq = 2, d.halves = 1;
    int64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        tpp_stage *stage;
        tpp_stage_call job = {.size = sizeof job, .in = in, .count = 8, .dtype = TPP_F32};
        job.out = out[i], job.slot = 2;
        d.flags = i ? TPP_STAGE_NO_GRAD : 0;
        assert_int_equal(tpp_stage_create(&stage, &d), TPP_OK);
        d.grads = NULL; /* of the second */
        const tpp_stage_ops *ops = tpp_stage_ops_get();
        bytes[i] = tpp_stage_bytes(stage);
        assert_int_equal(ops->forward(stage, &job), TPP_OK);
        job.out = NULL, job.grad_out = in, job.grad_in = back;
        assert_int_equal(ops->backward(stage, &job), i ? TPP_ERR_INVALID : TPP_OK);
        assert_int_equal(ops->backward_input(stage, &job), i ? TPP_ERR_INVALID : TPP_OK);
        if (i)
            assert_non_null(strstr(tpp_message(), "TPP_STAGE_NO_GRAD"));
        tpp_stage_destroy(stage);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    assert_true(bytes[1] < bytes[0]);
    d.flags = 2;
    tpp_stage *stage;
    assert_int_equal(tpp_stage_create(&stage, &d), TPP_ERR_TOO_NEW);
    tpp_layer_destroy(layer);
}

/* --- Mirrors ---------------------------------------------------------------------------------- */

static void expect(tpp_status got, tpp_status status, const char *says) {
    if (got != status || !strstr(tpp_message(), says))
        fail_msg("%s, \"%s\"; want %s, \"%s\"", tpp_status_name(got), tpp_message(),
                 tpp_status_name(status), says);
}

enum { RANKS = 2, CHUNKS = 2, COLS = 4, ROOM = 64 };

/* Two ranks of a two-way pipeline, whose stages are a norm each. */
typedef struct pipeline {
    tpp_schedule *schedule;
    tpp_layer *norm;
    _Alignas(64) double params[ROOM], grads[RANKS][CHUNKS][ROOM];
    tpp_stage *stages[RANKS];
} pipeline;

static void open_pipeline(pipeline *p, tpp_schedule_kind kind) {
    tpp_schedule_desc way = {.size = sizeof way, .kind = kind, .ranks = RANKS, .micros = 4};
    tpp_layer_env env = {.size = sizeof env, .dtype = TPP_F64};
    tpp_norm_desc norm = {.size = sizeof norm, .flags = TPP_NORM_NO_BIAS, .cols = COLS};
    memset(p, 0, sizeof *p);
    assert_int_equal(tpp_schedule_make(&p->schedule, &way), TPP_OK);
    assert_int_equal(tpp_norm_create(&p->norm, &env, &norm), TPP_OK);
    for (int r = 0; r < RANKS; r++) {
        const tpp_layer *layers[] = {p->norm, p->norm};
        const void *params[] = {p->params, p->params};
        void *grads[] = {p->grads[r][0], p->grads[r][1]};
        tpp_stage_desc d = {.size = sizeof d, .layers = layers, .params = params, .grads = grads};
        d.chunks = CHUNKS, d.micros = 4, d.slots = 1;
        d.batch = d.seq = 1;
        assert_int_equal(tpp_stage_create(&p->stages[r], &d), TPP_OK);
        for (int c = 0; c < CHUNKS; c++)
            for (int i = 0; i < COLS; i++)
                p->grads[r][c][i] = 100 * r + 10 * c + i;
    }
}

static void close_pipeline(pipeline *p) {
    for (int r = 0; r < RANKS; r++)
        tpp_stage_destroy(p->stages[r]);
    tpp_layer_destroy(p->norm);
    tpp_schedule_destroy(p->schedule);
}

/* Model stage r: chunk 0 of rank r and chunk 1 of the other rank. */
static void check_sums(const pipeline *p) {
    for (int r = 0; r < RANKS; r++) {
        for (int i = 0; i < COLS; i++) {
            double sum = 100 * r + i + 100 * (1 - r) + 10 + i;
            assert_true(p->grads[r][0][i] == sum && p->grads[1 - r][1][i] == sum);
        }
    }
}

static void mirrors_of_one_process(void **state) {
    static pipeline p;
    (void)state;
    open_pipeline(&p, TPP_SCHEDULE_DUALPIPE);
    assert_int_equal(tpp_stage_sum_mirrors(p.stages, RANKS, p.schedule, NULL, NULL, 0), TPP_OK);
    check_sums(&p);
    close_pipeline(&p);
    open_pipeline(&p, TPP_SCHEDULE_DUALPIPEV); /* one direction: nothing is summed */
    assert_int_equal(tpp_stage_sum_mirrors(p.stages, RANKS, p.schedule, NULL, NULL, 0), TPP_OK);
    assert_true(p.grads[0][0][1] == 1 && p.grads[1][1][1] == 111);
    close_pipeline(&p);
}

/* Each rank brings its own stages and its handle of the group, which counts what passes. */
static pipeline shared;
static tpp_comm *handles[RANKS];
static int32_t silent; /* a rank that fails instead of taking part; -1: none */

static tpp_status sum_own(void *arg, int32_t rank, int32_t lane) {
    _Alignas(64) double scratch[ROOM];
    (void)arg, (void)lane;
    if (rank == silent)
        return tpp_comm_abort(handles[rank]), TPP_ERR_USER;
    return tpp_stage_sum_mirrors(&shared.stages[rank], 1, shared.schedule, handles[rank], scratch,
                                 64);
}

static void mirrors_over_a_comm(void **state) {
    (void)state;
    for (silent = -1; silent < RANKS; silent++) {
        tpp_comm *group[RANKS];
        tpp_executor *threads;
        assert_int_equal(tpp_comm_local_create(group, RANKS, NULL), TPP_OK);
        for (int r = 0; r < RANKS; r++)
            assert_int_equal(tpp_comm_traced_create(&handles[r], group[r], NULL), TPP_OK);
        open_pipeline(&shared, TPP_SCHEDULE_DUALPIPE);
        assert_int_equal(tpp_executor_threads_create(&threads, RANKS, 1, NULL), TPP_OK);
        tpp_status status = tpp_executor_each(threads, RANKS, 1, sum_own, NULL);
        assert_int_equal(status, silent < 0    ? TPP_OK
                                 : silent == 0 ? TPP_ERR_USER
                                               : TPP_ERR_ABORTED);
        tpp_comm_count sent = {0};
        assert_int_equal(tpp_comm_traced_get(handles[0], TPP_COMM_SEND, &sent), TPP_OK);
        if (silent < 0) {
            check_sums(&shared);
            assert_true(sent.calls == 2 && sent.elements == 2 * 8); /* 64 bytes each */
        }
        tpp_executor_destroy(threads);
        close_pipeline(&shared);
        for (int r = 0; r < RANKS; r++) {
            tpp_comm_destroy(handles[r]);
            tpp_comm_destroy(group[r]);
        }
    }
}

static void refused_mirrors(void **state) {
    static pipeline p;
    _Alignas(64) double scratch[ROOM];
    tpp_comm *group[RANKS], *three[3];
    (void)state;
    open_pipeline(&p, TPP_SCHEDULE_DUALPIPE);
    assert_int_equal(tpp_comm_local_create(group, RANKS, NULL), TPP_OK);
    assert_int_equal(tpp_comm_local_create(three, 3, NULL), TPP_OK);
    expect(tpp_stage_sum_mirrors(NULL, 2, p.schedule, NULL, NULL, 0), TPP_ERR_INVALID, "stages");
    expect(tpp_stage_sum_mirrors(p.stages, 2, NULL, NULL, NULL, 0), TPP_ERR_INVALID, "schedule");
    expect(tpp_stage_sum_mirrors(p.stages, 1, p.schedule, NULL, NULL, 0), TPP_ERR_INVALID,
           "count = 1; it must be 2");
    expect(tpp_stage_sum_mirrors(p.stages, 1, p.schedule, three[0], scratch, 64), TPP_ERR_INVALID,
           "comm has 3 ranks; the schedule has 2");
    expect(tpp_stage_sum_mirrors(p.stages, 1, p.schedule, group[0], NULL, 64), TPP_ERR_INVALID,
           "scratch is NULL");
    expect(tpp_stage_sum_mirrors(p.stages, 1, p.schedule, group[0], scratch + 1, 64),
           TPP_ERR_INVALID, "not aligned");
    expect(tpp_stage_sum_mirrors(p.stages, 1, p.schedule, group[0], scratch, 63), TPP_ERR_TOO_SMALL,
           "needs 64");
    tpp_stage *none[] = {p.stages[0], NULL};
    expect(tpp_stage_sum_mirrors(none, 2, p.schedule, NULL, NULL, 0), TPP_ERR_INVALID,
           "stages[1] is NULL");
    /* a rank with one chunk, and one whose layers are others */
    tpp_layer_env env = {.size = sizeof env, .dtype = TPP_F64};
    tpp_norm_desc wide = {.size = sizeof wide, .cols = 40};
    tpp_layer *norm;
    assert_int_equal(tpp_norm_create(&norm, &env, &wide), TPP_OK);
    const tpp_layer *layers[] = {norm, norm};
    static _Alignas(64) double memory[2][128];
    const void *params[] = {memory[0], memory[0]};
    void *grads[] = {memory[0], memory[1]};
    tpp_stage_desc d = {.size = sizeof d, .layers = layers, .params = params, .grads = grads};
    d.micros = 4, d.slots = 1;
    d.batch = d.seq = 1;
    for (d.chunks = 1; d.chunks <= 2; d.chunks++) {
        assert_int_equal(tpp_stage_create(&none[1], &d), TPP_OK);
        expect(tpp_stage_sum_mirrors(none, 2, p.schedule, NULL, NULL, 0), TPP_ERR_INVALID,
               d.chunks == 1 ? "stages[1] has 1 chunks; rank 1 of the schedule has 2"
                             : "must be alike");
        tpp_stage_destroy(none[1]);
    }
    tpp_layer_destroy(norm);
    for (int r = 0; r < RANKS; r++)
        tpp_comm_destroy(group[r]);
    for (int r = 0; r < 3; r++)
        tpp_comm_destroy(three[r]);
    close_pipeline(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_gradients_are_joined), cmocka_unit_test(stages_without_gradients),
        cmocka_unit_test(mirrors_of_one_process),    cmocka_unit_test(mirrors_over_a_comm),
        cmocka_unit_test(refused_mirrors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
