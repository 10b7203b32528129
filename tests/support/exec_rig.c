/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/exec_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/exec_ranks.h"

void exec_expect_ok(tpp_status status) {
    if (status != TPP_OK)
        fail_msg("%s: %s", tpp_status_name(status), tpp_message());
}

static const tpp_comm_local_desc fast_to_fail = {.size = sizeof fast_to_fail, .timeout = 20};

static void make_comms(exec_rig *rig, exec_wrap wrap) {
    tpp_comm *group[EXEC_MOST_ROWS];
    for (int32_t lane = 0; lane < rig->lanes && rig->info.ranks > 1; lane++) {
        exec_expect_ok(tpp_comm_local_create(group, rig->info.ranks, &fast_to_fail));
        for (int32_t r = 0; r < rig->info.ranks; r++)
            rig->inner[r * rig->lanes + lane] = group[r];
        for (int32_t r = 0; r < rig->info.ranks; r++)
            rig->comms[r * rig->lanes + lane] = wrap ? wrap(group[r]) : group[r];
    }
    for (int32_t r = 0; r < rig->info.ranks && rig->lanes > 1; r++) {
        exec_expect_ok(tpp_comm_local_create(group, rig->lanes, &fast_to_fail));
        for (int32_t lane = 0; lane < rig->lanes; lane++)
            rig->layers[r * rig->lanes + lane].group = group[lane];
    }
}

void exec_rig_open(exec_rig *rig, const tpp_schedule *schedule, int32_t lanes, exec_kind kind,
                   exec_wrap wrap) {
    memset(rig, 0, sizeof *rig);
    rig->schedule = schedule;
    rig->info.size = sizeof rig->info;
    exec_expect_ok(tpp_schedule_query(schedule, &rig->info));
    rig->lanes = lanes;
    rig->rows = rig->info.ranks * lanes;
    rig->count = 3;
    rig->kind = kind;
    assert_true(rig->rows <= EXEC_MOST_ROWS);
    for (int32_t row = 0; row < rig->rows; row++)
        exec_layer_open(&rig->layers[row], rig, row);
    make_comms(rig, wrap);
    for (int32_t row = 0; row < rig->rows; row++)
        rig->ranks[row] = (tpp_run_rank){rig->comms[row], &exec_layer_ops, &rig->layers[row], 0};
    rig->run = (tpp_run){.size = sizeof rig->run,
                         .schedule = schedule,
                         .ranks = rig->ranks,
                         .lanes = lanes,
                         .message_dtype = TPP_I64,
                         .message_count = rig->count};
    exec_expect_ok(tpp_run_query(&rig->run, &rig->run.memory_bytes));
    rig->run.memory = aligned_alloc(64, (size_t)rig->run.memory_bytes);
    memset(rig->run.memory, 0xff, (size_t)rig->run.memory_bytes);
    rig->report = (tpp_run_report){.size = sizeof rig->report,
                                   .row_work = rig->work,
                                   .row_peak = rig->peak,
                                   .row_first = rig->first,
                                   .row_last = rig->last};
    if (kind == EXEC_SERIAL)
        exec_expect_ok(tpp_executor_serial_create(&rig->executor, lanes, NULL));
    else if (kind == EXEC_DISTRIBUTED)
        exec_expect_ok(exec_ranks_create(&rig->executor, rig->info.ranks, lanes));
    else
        exec_expect_ok(tpp_executor_threads_create(&rig->executor, rig->info.ranks, lanes, NULL));
}

tpp_status exec_rig_step(exec_rig *rig) {
    for (int32_t row = 0; row < rig->rows; row++)
        exec_layer_reset(&rig->layers[row]);
    tpp_status status = tpp_executor_run(rig->executor, &rig->run, &rig->report);
    rig->run.step++;
    return status;
}

/* The model without any schedule: one micro-batch after the other through all stages and back. */
static void direct(const exec_rig *rig, int32_t lane, int32_t micro, uint64_t step, uint64_t *dw,
                   uint64_t *loss) {
    int32_t depth = rig->info.depth;
    uint64_t x[64];
    for (int64_t k = rig->count - 1; k >= 0; k--) {
        x[0] = exec_seed(lane, micro, step, k);
        for (int32_t s = 0; s < depth; s++)
            x[s + 1] = exec_forward(s, lane, micro, x[s]);
        *loss = x[depth];
        uint64_t dy = *loss + 7;
        for (int32_t s = depth - 1; s >= 0; s--) {
            dw[s] += dy * x[s];
            dy = exec_backward(s, x[s], dy);
        }
    }
}

static const exec_layer *layer_of(const exec_rig *rig, int32_t stage, int32_t lane) {
    int32_t rank = tpp_schedule_rank_of(rig->schedule, stage);
    return &rig->layers[rank * rig->lanes + lane];
}

static void check_lane(const exec_rig *rig, int32_t lane, uint64_t step) {
    uint64_t dw[64] = {0}, loss;
    int32_t depth = rig->info.depth, directions = rig->info.directions;
    for (int32_t micro = 0; micro < rig->info.micros; micro++) {
        direct(rig, lane, micro, step, dw, &loss);
        int32_t direction = directions > 1 && micro >= (rig->info.micros + 1) / 2;
        const exec_layer *last = layer_of(rig, (direction + 1) * depth - 1, lane);
        assert_int_equal(last->loss[micro], loss);
    }
    for (int32_t s = 0; s < depth; s++) {
        uint64_t sum = 0;
        for (int32_t d = 0; d < directions; d++)
            sum += layer_of(rig, d * depth + s, lane)->dw[d * depth + s];
        assert_int_equal(sum, rig->info.forward_only ? 0 : dw[s]);
    }
}

void exec_rig_check(const exec_rig *rig, uint64_t step) {
    int32_t peaks[EXEC_MOST_ROWS];
    assert_true(rig->info.stages < 64);
    exec_expect_ok(tpp_schedule_peaks(rig->schedule, peaks));
    for (int32_t lane = 0; lane < rig->lanes; lane++)
        check_lane(rig, lane, step);
    for (int32_t row = 0; row < rig->rows; row++) {
        const exec_layer *l = &rig->layers[row];
        assert_true(exec_layer_idle(l));
        assert_int_equal(l->entered, l->left);
        assert_int_equal(rig->peak[row], peaks[row / rig->lanes]);
        assert_true(rig->work[row] >= 0);
    }
    assert_int_equal(rig->report.failed_rank, -1);
    assert_int_equal(rig->aborts, 0);
}

void exec_rig_close(exec_rig *rig) {
    tpp_executor_destroy(rig->executor);
    for (int32_t row = 0; row < rig->rows; row++) {
        if (rig->comms[row] != rig->inner[row])
            tpp_comm_destroy(rig->comms[row]);
        tpp_comm_destroy(rig->inner[row]);
        exec_layer_close(&rig->layers[row]);
    }
    free(rig->run.memory);
}
