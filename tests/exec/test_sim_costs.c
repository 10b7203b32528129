/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/exec_sim.h"

/* What the simulator can be asked beyond the times of actions, on cases worked out by hand. */

static const char zb_h1[] = "0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2\n"
                            "1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2\n";

static const double one[8] = {1, 1, 1, 1, 1, 1, 1, 1}, two[8] = {2, 2, 2, 2, 2, 2, 2, 2};

static tpp_sim_desc costs(int32_t stages) {
    return (tpp_sim_desc){
        .size = sizeof(tpp_sim_desc), .stages = stages, .forward = one, .backward = two};
}

static void test_memory(void **state) {
    static const double held[] = {10, 20, 30, 40}, always[] = {1, 2, 3, 4};
    static const double want[] = {4 * 10 + 1, 3 * 20 + 2, 2 * 30 + 3, 1 * 40 + 4};
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_1F1B, 4, 1, 8, 0);
    tpp_sim_desc d = costs(4);
    exec_sim sim;
    (void)state;
    exec_sim_run(&sim, s, &d);
    for (int r = 0; r < 4; r++)
        assert_near(sim.memory[r], 0, 0);
    exec_sim_free(&sim);
    d.memory = held;
    d.memory_state = always;
    exec_sim_run(&sim, s, &d);
    for (int r = 0; r < 4; r++)
        assert_near(sim.memory[r], want[r], 0);
    exec_sim_free(&sim);
    tpp_schedule_destroy(s);
}

/* Between I and W another amount is held, less than before or more; it counts from the end of I. */
static void test_memory_of_halves(void **state) {
    static const double held[] = {10, 10}, less[] = {4, 4}, more[] = {25, 25};
    tpp_schedule *s = exec_schedule_text(zb_h1);
    tpp_sim_desc d = costs(2);
    exec_sim sim;
    (void)state;
    d.memory = held;
    const struct {
        const double *weight;
        double want[2];
    } cases[] = {{NULL, {20, 20}}, {less, {20, 14}}, {more, {35, 50}}};
    for (int i = 0; i < 3; i++) {
        d.memory_weight = cases[i].weight;
        exec_sim_run(&sim, s, &d);
        assert_near(sim.memory[0], cases[i].want[0], 0);
        assert_near(sim.memory[1], cases[i].want[1], 0);
        assert_int_equal(sim.peak[0], 2);
        assert_int_equal(sim.peak[1], 2);
        assert_int_equal(sim.peak_input[0], 2);
        assert_int_equal(sim.peak_input[1], 1);
        exec_sim_free(&sim);
    }
    tpp_schedule_destroy(s);
}

static void test_forward_only(void **state) {
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_FORWARD_ONLY, 4, 1, 6, 0);
    tpp_sim_desc d = costs(4);
    exec_sim sim;
    (void)state;
    d.memory = two;
    exec_sim_run(&sim, s, &d);
    assert_near(sim.report.makespan, 9, 0);
    for (int r = 0; r < 4; r++) {
        assert_near(sim.memory[r], 2, 0);
        assert_int_equal(sim.peak[r], 1);
        assert_int_equal(sim.peak_input[r], 1);
    }
    exec_sim_free(&sim);
    tpp_schedule_destroy(s);
}

/* Three outputs of stage 0 follow each other over a link that each occupies for 3; with blocking
 * sends the rank waits too. */
static void test_links(void **state) {
    static const double three[] = {3, 0};
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_GPIPE, 2, 1, 3, 0);
    tpp_sim_desc d = costs(2);
    exec_sim sim;
    (void)state;
    d.latency = 0.5;
    d.send_forward = three;
    for (int blocking = 0; blocking < 2; blocking++) {
        d.flags = blocking ? TPP_SIM_BLOCKING : 0;
        exec_sim_run(&sim, s, &d);
        for (int i = 0; i < 3; i++) {
            double step = blocking ? 4 : 3;
            assert_near(exec_sim_end(&sim, TPP_OP_F, 0, i), 1 + i * (blocking ? 4 : 1), 0);
            assert_near(exec_sim_end(&sim, TPP_OP_F, 1, i), 5.5 + i * step, 0);
        }
        assert_near(sim.report.makespan, blocking ? 22 : 20, 0);
        assert_near(sim.report.work, 9, 0);
        exec_sim_free(&sim);
    }
    tpp_schedule_destroy(s);
}

/* All chunks of a rank send over one link. */
static void test_shared_link(void **state) {
    static const double send[] = {1, 5, 1, 0};
    tpp_schedule *s = exec_schedule_text("0F0 2F0 2B0 0B0\n1F0 3F0 3B0 1B0\n");
    tpp_sim_desc d = costs(4);
    exec_sim sim;
    (void)state;
    d.send_backward = send; /* 3's gradient takes none, 2's 1, 1's 5 */
    exec_sim_run(&sim, s, &d);
    assert_near(exec_sim_end(&sim, TPP_OP_B, 3, 0), 6, 0);
    assert_near(exec_sim_end(&sim, TPP_OP_B, 2, 0), 8, 0);
    assert_near(exec_sim_end(&sim, TPP_OP_B, 1, 0), 8 + 1 + 2, 0);
    assert_near(exec_sim_end(&sim, TPP_OP_B, 0, 0), 11 + 5 + 2, 0);
    exec_sim_free(&sim);
    tpp_schedule_destroy(s);
    s = exec_schedule_text("0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1\n1F0 1F1 3F0 3F1 3B0 3B1 1B0 1B1\n");
    d.send_backward = NULL;
    d.send_forward = send; /* 1F1's output leaves at 4 + 5, after 1F0's at 3 + 5 */
    d.edge_latency = two;
    exec_sim_run(&sim, s, &d);
    assert_near(exec_sim_end(&sim, TPP_OP_F, 1, 0), 5, 0);
    assert_near(exec_sim_end(&sim, TPP_OP_F, 2, 0), 5 + 5 + 2 + 1, 0);
    assert_near(exec_sim_end(&sim, TPP_OP_F, 2, 1), 5 + 10 + 2 + 1, 0);
    assert_near(exec_sim_end(&sim, TPP_OP_F, 3, 0), 13 + 1 + 2 + 1, 0);
    exec_sim_free(&sim);
    tpp_schedule_destroy(s);
}

static void test_edge_latency(void **state) {
    static const double late[] = {1, 10, 100};
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_GPIPE, 3, 1, 1, 0);
    tpp_sim_desc d = costs(3);
    exec_sim sim;
    (void)state;
    d.latency = 7; /* not used */
    d.edge_latency = late;
    exec_sim_run(&sim, s, &d);
    assert_near(sim.report.makespan, 9 + 2 * 11, 0);
    exec_sim_free(&sim);
    tpp_schedule_destroy(s);
}

static void test_optimizer(void **state) {
    static const double step[] = {0.5, 1};
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_1F1B, 2, 1, 2, 0);
    tpp_sim_desc d = costs(2);
    exec_sim sim;
    (void)state;
    d.optimizer = step;
    exec_sim_run(&sim, s, &d);
    assert_near(sim.report.makespan, 9.5, 0);
    assert_near(sim.report.period, 9.5, 0);
    assert_near(sim.last[0], 9.5, 0);
    assert_near(sim.first[1], 1, 0);
    assert_near(sim.last[1], 8, 0);
    assert_near(sim.report.bubble_global, 3, 0);
    assert_near(sim.report.bubble_span, 3, 0);
    assert_int_equal(sim.path[sim.report.path_count - 1].op, TPP_OP_STEP);
    exec_sim_free(&sim);
    d.flags = TPP_SIM_BARRIER; /* rank 1 ended at 7 and waits until 9 */
    exec_sim_run(&sim, s, &d);
    assert_near(sim.report.makespan, 10, 0);
    assert_near(sim.report.period, 10, 0);
    assert_near(sim.report.bubble_global, 3.5, 0);
    assert_near(sim.last[0], 9.5, 0);
    assert_near(sim.last[1], 10, 0);
    assert_near(sim.work[1], 7, 0);
    assert_int_equal(sim.path[sim.report.path_count - 1].row, 1);
    assert_int_equal(sim.path[sim.report.path_count - 2].row, 0);
    exec_sim_free(&sim);
    tpp_schedule_destroy(s);
}

/* The period is the longest span where nothing waits for all ranks. */
static void test_period(void **state) {
    tpp_schedule *s = exec_schedule_text("0F0 0F1 0F2 0I0 0I1 0I2 0W0 0W1 0W2\n"
                                         "1F0 1I0 1F1 1I1 1F2 1I2 1W0 1W1 1W2\n");
    tpp_sim_desc d = costs(2);
    exec_sim sim;
    (void)state;
    d.backward_input = one;
    d.backward_weight = one;
    exec_sim_run(&sim, s, &d);
    assert_near(sim.report.makespan, 11, 0);
    assert_near(sim.report.period, 11, 0);
    exec_sim_free(&sim);
    tpp_schedule_destroy(s);
    s = exec_schedule_text("0F0 0F1 0F2 0I0 0W0 0I1 0W1 0I2 0W2\n"
                           "1F0 1I0 1F1 1I1 1F2 1I2 1W0 1W1 1W2\n");
    exec_sim_run(&sim, s, &d);
    assert_near(sim.report.makespan, 10, 0);
    assert_near(sim.report.period, 9, 0);
    assert_near(sim.report.bubble_span, 0, 0);
    assert_near(sim.report.bubble_global, 1, 0);
    exec_sim_free(&sim);
    tpp_schedule_destroy(s);
}

/* Three messages of test_links wait for each other; the gradient of micro-batch 0 comes late, then
 * rank 0 is busy to the end. */
static void test_path(void **state) {
    static const double three[] = {3, 0};
    static const struct {
        tpp_op op;
        int32_t row, micro, peer;
        double end;
    } want[] = {
        {TPP_OP_F, 0, 0, -1, 1},        {TPP_OP_SEND_F, 0, 0, 1, 4}, {TPP_OP_SEND_F, 0, 1, 1, 7},
        {TPP_OP_SEND_F, 0, 2, 1, 10.5}, {TPP_OP_F, 1, 2, -1, 11.5},  {TPP_OP_B, 1, 0, -1, 13.5},
        {TPP_OP_SEND_B, 1, 0, 0, 14},   {TPP_OP_B, 0, 0, -1, 16},    {TPP_OP_B, 0, 1, -1, 18},
        {TPP_OP_B, 0, 2, -1, 20},
    };
    enum { EVENTS = sizeof want / sizeof *want };
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_GPIPE, 2, 1, 3, 0);
    tpp_sim_desc d = costs(2);
    tpp_event path[EVENTS + 1];
    (void)state;
    d.latency = 0.5;
    d.send_forward = three;
    for (int64_t room = EVENTS + 1; room >= 0; room--) {
        tpp_run_report report = {.size = sizeof report, .path = path, .path_room = room};
        for (int i = 0; i <= EVENTS; i++)
            path[i] = (tpp_event){.end = -1};
        exec_sim_report(s, &d, &report);
        assert_int_equal(report.path_count, EVENTS);
        for (int i = 0; i <= EVENTS; i++) {
            bool there = i < room && i < EVENTS;
            assert_near(path[i].end, there ? want[i].end : -1, 0);
            if (!there)
                continue;
            assert_near(path[i].start, i > 0 ? want[i - 1].end : 0, 0);
            assert_int_equal(path[i].op, want[i].op);
            assert_int_equal(path[i].row, want[i].row);
            assert_int_equal(path[i].stage, want[i].row);
            assert_int_equal(path[i].micro, want[i].micro);
            assert_int_equal(path[i].peer, want[i].peer);
        }
    }
    tpp_schedule_destroy(s);
}

/* What run.memory must hold can be worked out without the library, as the header tells. */
static void test_memory_of_runs(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 33; p += 8) {
        for (int32_t v = 1; v <= 3; v++) {
            for (int32_t m = 1; m <= 1000; m += 111) {
                tpp_schedule *s = exec_schedule(TPP_SCHEDULE_INTERLEAVED, p, v, m, 0);
                tpp_run run = {.size = sizeof run, .schedule = s};
                int64_t bytes, told = 40L * p * v * m + 104 * p * v + 84 * p;
                assert_int_equal(tpp_run_query(&run, &bytes), TPP_OK);
                assert_true(bytes >= told && bytes < told + 1024);
                tpp_schedule_destroy(s);
            }
        }
    }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MANY = 1000 };
#else
enum { MANY = 13500 };
#endif

/* Ten million actions, messages among them. */
static void test_many_actions(void **state) {
    double ones[128];
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_INTERLEAVED, 64, 2, MANY, 64);
    tpp_schedule_info info = {.size = sizeof info};
    tpp_run_report report = {.size = sizeof report};
    (void)state;
    for (int i = 0; i < 128; i++)
        ones[i] = 1;
    tpp_sim_desc d = {.size = sizeof d, .stages = 128, .forward = ones, .backward = ones};
    assert_int_equal(tpp_schedule_query(s, &info), TPP_OK);
    assert_int_equal(info.actions, MANY * (64 * 2 * 2 + 127 * 4L));
    exec_sim_report(s, &d, &report);
    assert_near(report.work, 4.0 * MANY, 0);
    assert_true(report.makespan >= 4.0 * MANY + 2 * 63);
    tpp_schedule_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),       cmocka_unit_test(test_memory_of_halves),
        cmocka_unit_test(test_forward_only), cmocka_unit_test(test_links),
        cmocka_unit_test(test_shared_link),  cmocka_unit_test(test_edge_latency),
        cmocka_unit_test(test_optimizer),    cmocka_unit_test(test_period),
        cmocka_unit_test(test_path),         cmocka_unit_test(test_memory_of_runs),
        cmocka_unit_test(test_many_actions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
