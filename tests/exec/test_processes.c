/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/comm_socket.h"
#include "support/exec_rig.h"
#include "support/exec_sim.h"

/* A process for each pipeline rank, over sockets: the distributed executor where nothing is shared. */

enum { MOST_LANES = 2, MOST_STAGES = 16, MOST_MICROS = 16, STEPS = 2, SCHEDULES = 5 };

/* What a process tells of one of its lanes. */
typedef struct told {
    uint64_t dw[MOST_STAGES], loss[MOST_MICROS];
    int32_t entered, left, peak, idle;
} told;

/* What a process tells. */
typedef struct report {
    tpp_status status;
    char message[256];
    int32_t failed_rank, failed_stage, failed_micro, failed_op;
    atomic_int done; /* its runs are over */
    told lanes[MOST_LANES];
} report;

static report *reports;                   /* [ranks], shared by all processes */
static int32_t fail_rank = -1, fail_call; /* the callback that fails */
static int32_t quit_rank = -1;            /* the rank that dies in its first callback */

static void die(exec_rig *rig, exec_layer *l) {
    (void)rig;
    if (l->rank == quit_rank)
        _exit(0);
}

static void tell(const exec_rig *rig, int32_t rank, report *out) {
    for (int32_t lane = 0; lane < rig->lanes; lane++) {
        const exec_layer *l = &rig->layers[rank * rig->lanes + lane];
        told *t = &out->lanes[lane];
        memcpy(t->dw, l->dw, (size_t)rig->info.stages * sizeof *t->dw);
        memcpy(t->loss, l->loss, (size_t)rig->info.micros * sizeof *t->loss);
        t->entered = l->entered;
        t->left = l->left;
        t->idle = exec_layer_idle(l);
        t->peak = rig->peak[rank * rig->lanes + lane];
    }
}

/* The whole life of a rank's process: its comms, its executor, its steps. */
static void be_rank(exec_rig *rig, comm_mesh *meshes, int32_t rank) {
    report *out = &reports[rank];
    tpp_executor *e = NULL;
    int32_t first = rank * rig->lanes;
    alarm(30);
    for (int32_t lane = 0; lane < rig->lanes; lane++) {
        comm_mesh_keep(&meshes[lane], rank);
        comm_socket_create(&rig->ranks[first + lane].comm, &meshes[lane], rank, 20);
    }
    rig->run.ranks = rig->ranks + first;
    rig->report.row_work = rig->work + first;
    rig->report.row_peak = rig->peak + first;
    rig->layers[first].fail_at = rank == fail_rank ? fail_call : -1;
    rig->layers[first].fail_with = TPP_ERR_RANGE;
    rig->layers[first].fail_text = "the pump is out of order";
    rig->hook = die;
    out->status = tpp_executor_distributed_create(&e, rank, rig->lanes, NULL);
    for (int step = 0; step < STEPS && out->status == TPP_OK; step++, rig->run.step++) {
        for (int32_t lane = 0; lane < rig->lanes; lane++)
            exec_layer_reset(&rig->layers[first + lane]);
        out->status = tpp_executor_run(e, &rig->run, &rig->report);
    }
    snprintf(out->message, sizeof out->message, "%s", tpp_message());
    out->failed_rank = rig->report.failed_rank;
    out->failed_stage = rig->report.failed_stage;
    out->failed_micro = rig->report.failed_micro;
    out->failed_op = rig->report.failed_op;
    tell(rig, rank, out);
    atomic_store(&out->done, 1);
    for (int32_t r = 0; r < rig->info.ranks && rank == fail_rank; r++) {
        while (!atomic_load(&reports[r].done))
            sched_yield(); /* its abort ends the others, not its end */
    }
    tpp_executor_destroy(e);
    for (int32_t lane = 0; lane < rig->lanes; lane++)
        tpp_comm_destroy(rig->ranks[first + lane].comm);
    _exit(0);
}

/* Fork a process for each rank and wait for all of them. */
static void run_processes(exec_rig *rig) {
    comm_mesh meshes[MOST_LANES];
    pid_t pids[EXEC_MOST_ROWS];
    for (int32_t lane = 0; lane < rig->lanes; lane++)
        assert_int_equal(comm_mesh_open(&meshes[lane], rig->info.ranks), 0);
    for (int32_t rank = 0; rank < rig->info.ranks; rank++) {
        pids[rank] = fork();
        assert_true(pids[rank] >= 0);
        if (pids[rank] == 0)
            be_rank(rig, meshes, rank);
    }
    for (int32_t lane = 0; lane < rig->lanes; lane++)
        comm_mesh_keep(&meshes[lane], -1);
    for (int32_t rank = 0; rank < rig->info.ranks; rank++) {
        int how;
        assert_int_equal(waitpid(pids[rank], &how, 0), pids[rank]);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
}

static void open_rig(exec_rig *rig, const tpp_schedule *s, int32_t lanes) {
    exec_rig_open(rig, s, lanes, EXEC_SERIAL, NULL);
    tpp_executor_destroy(rig->executor); /* no threads before the forks */
    rig->executor = NULL;
    assert_true(rig->info.stages <= MOST_STAGES && rig->info.micros <= MOST_MICROS);
    size_t bytes = (size_t)rig->info.ranks * sizeof *reports;
    FILE *f = tmpfile();
    assert_true(f && ftruncate(fileno(f), (off_t)bytes) == 0);
    reports = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(f), 0);
    assert_true(reports != MAP_FAILED);
    fclose(f);
}

static void close_rig(exec_rig *rig) {
    munmap(reports, (size_t)rig->info.ranks * sizeof *reports);
    exec_rig_close(rig);
}

/* Put what the processes tell into the rig, which knows what is right. */
static void check_told(exec_rig *rig) {
    for (int32_t row = 0; row < rig->rows; row++) {
        const report *r = &reports[row / rig->lanes];
        const told *t = &r->lanes[row % rig->lanes];
        exec_layer *l = &rig->layers[row];
        if (r->status != TPP_OK)
            fail_msg("rank %d: %s", row / rig->lanes, r->message);
        memcpy(l->dw, t->dw, (size_t)rig->info.stages * sizeof *t->dw);
        memcpy(l->loss, t->loss, (size_t)rig->info.micros * sizeof *t->loss);
        l->entered = t->entered;
        l->left = t->left;
        rig->peak[row] = t->peak;
        assert_true(t->idle);
    }
    rig->report.failed_rank = -1;
    exec_rig_check(rig, STEPS - 1);
}

static tpp_schedule *const *schedules(void) {
    static tpp_schedule *made[SCHEDULES];
    made[0] = exec_schedule(TPP_SCHEDULE_1F1B, 3, 1, 5, 0);
    made[1] = exec_schedule(TPP_SCHEDULE_INTERLEAVED, 2, 2, 4, 0);
    made[2] = exec_schedule_text("0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2\n"
                                 "1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2\n");
    made[3] = exec_schedule(TPP_SCHEDULE_ZB_V, 3, 0, 6, 0);
    made[4] = exec_schedule(TPP_SCHEDULE_DUALPIPE, 4, 0, 8, 0);
    return made;
}

static void test_steps(void **state) {
    tpp_schedule *const *made = schedules();
    (void)state;
    for (int i = 0; i < SCHEDULES; i++) {
        for (int32_t lanes = 1; lanes <= MOST_LANES; lanes++) {
            exec_rig rig;
            open_rig(&rig, made[i], lanes);
            run_processes(&rig);
            check_told(&rig);
            close_rig(&rig);
        }
        tpp_schedule_destroy(made[i]);
    }
}

/* The rank that fails says why, the others that it is over; none hangs. */
static void test_failure(void **state) {
    tpp_schedule *const *made = schedules();
    (void)state;
    for (int i = 0; i < SCHEDULES; i++) {
        for (int32_t lanes = 1; lanes <= MOST_LANES; lanes++) {
            exec_rig rig;
            open_rig(&rig, made[i], lanes);
            fail_rank = rig.info.ranks - 1, fail_call = 1;
            run_processes(&rig);
            for (int32_t r = 0; r < rig.info.ranks; r++) {
                const report *it = &reports[r];
                assert_int_equal(it->status, r == fail_rank ? TPP_ERR_RANGE : TPP_ERR_ABORTED);
                assert_int_equal(it->failed_rank, r);
                if (r == fail_rank)
                    assert_non_null(strstr(it->message, ": the pump is out of order"));
                for (int32_t lane = 0; lane < lanes; lane++)
                    assert_int_equal(it->lanes[lane].entered, it->lanes[lane].left);
            }
            close_rig(&rig);
        }
        tpp_schedule_destroy(made[i]);
    }
    fail_rank = -1;
}

/* A process that dies ends the others, too. */
static void test_death(void **state) {
    tpp_schedule *const *made = schedules();
    (void)state;
    for (int i = 0; i < SCHEDULES; i++) {
        exec_rig rig;
        open_rig(&rig, made[i], 1);
        quit_rank = 1;
        run_processes(&rig);
        for (int32_t r = 0; r < rig.info.ranks; r++)
            assert_int_equal(reports[r].status, r == quit_rank ? TPP_OK : TPP_ERR_ABORTED);
        close_rig(&rig);
        tpp_schedule_destroy(made[i]);
    }
    quit_rank = -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_death),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
