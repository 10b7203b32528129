/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/exec_rig.h"
#include "support/exec_sim.h"

/* Events tell the direction of their stage, and which are halves of an overlapped pair. */

static const char two_way[] = "directions 2\n"
                              "0F0 3F2 (0F1;3B2)OVERLAP_F_B (3F3;0B0)OVERLAP_F_B 3B3 0B1\n"
                              "2F2 1F0 (2F3;1B0)OVERLAP_F_B (1F1;2B2)OVERLAP_F_B 1B1 2B3\n";

/* The compute events of the trace are the actions, in order; `pairs`: as pairs. */
static void check_events(const tpp_trace *trace, const tpp_schedule *s, bool pairs) {
    for (int32_t r = 0; r < 2; r++) {
        int64_t actions, events, e = 0;
        const tpp_action *a = tpp_schedule_actions(s, r, &actions);
        const tpp_event *event = tpp_trace_events(trace, r, &events);
        for (int64_t i = 0; i < actions; i++) {
            if (a[i].op > TPP_OP_W)
                continue;
            while (event[e].op > TPP_OP_W)
                e++; /* waits */
            bool second = pairs && i > 0 && a[i - 1].flags & TPP_ACTION_FUSED;
            assert_int_equal(event[e].op, a[i].op);
            assert_int_equal(event[e].micro, a[i].micro);
            assert_int_equal(event[e].direction, a[i].stage / 2);
            assert_int_equal(event[e].flags, second || (pairs && a[i].flags) ? TPP_EVENT_FUSED : 0);
            assert_true(!second || event[e].start == event[e - 1].start);
            assert_true(!second || event[e].end == event[e - 1].end);
            e++;
        }
        assert_int_equal(e, events);
    }
}

static void test_simulator(void **state) {
    static const double one[] = {1, 1, 1, 1}, pair[] = {1.5, 1.5, 1.5, 1.5};
    tpp_schedule *s = exec_schedule_text(two_way);
    tpp_sim_desc d = {
        .size = sizeof d, .stages = 4, .forward = one, .backward = one, .fused = pair};
    exec_sim sim;
    int halves = 0, back = 0;
    (void)state;
    exec_sim_run(&sim, s, &d);
    check_events(sim.trace, s, true);
    for (int64_t i = 0; i < sim.report.path_count; i++) {
        const tpp_event *event = &sim.path[i];
        assert_int_equal(event->direction, event->stage / 2);
        assert_int_equal(event->flags, event->end - event->start == 1.5 ? TPP_EVENT_FUSED : 0);
        halves += event->flags == TPP_EVENT_FUSED;
        back += event->direction == 1;
    }
    assert_true(halves > 0 && back > 0);
    exec_sim_free(&sim);
    tpp_schedule_destroy(s);
}

/* A pair that runs in one call is one in the trace; F and B called apart are not. */
static void test_executors(void **state) {
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        exec_rig rig;
        tpp_schedule *s = exec_schedule_text(two_way);
        exec_rig_open(&rig, s, 1, EXEC_SERIAL, NULL);
        for (int r = 0; r < 2; r++)
            rig.ranks[r].ops = apart ? &exec_layer_ops : &exec_layer_pair_ops;
        exec_expect_ok(tpp_trace_create(&rig.run.trace, 2, 64, NULL));
        exec_expect_ok(exec_rig_step(&rig));
        check_events(rig.run.trace, s, !apart);
        tpp_trace_destroy(rig.run.trace);
        rig.run.trace = NULL;
        exec_rig_close(&rig);
        tpp_schedule_destroy(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simulator),
        cmocka_unit_test(test_executors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
