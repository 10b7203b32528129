/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/exec_rig.h"
#include "support/exec_sim.h"

enum { HANGS = 10 }; /* seconds: then the run is taken to hang, and the alarm ends the program */

/* Two steps on all executors: right values, and the same ones down to the order of summation. */
static void compare(const tpp_schedule *s, int32_t lanes) {
    exec_rig rigs[3];
    alarm(HANGS);
    for (int32_t kind = EXEC_SERIAL; kind <= EXEC_DISTRIBUTED; kind++)
        exec_rig_open(&rigs[kind - EXEC_SERIAL], s, lanes, kind, NULL);
    for (uint64_t step = 0; step < 2; step++) {
        for (int i = 0; i < 3; i++) {
            exec_expect_ok(exec_rig_step(&rigs[i]));
            exec_rig_check(&rigs[i], step);
            for (int32_t row = 0; row < rigs[0].rows; row++)
                assert_memory_equal(rigs[0].layers[row].chain, rigs[i].layers[row].chain,
                                    (size_t)rigs[0].info.stages * 8);
        }
    }
    for (int i = 0; i < 3; i++)
        exec_rig_close(&rigs[i]);
    alarm(0);
}

static void compare_kind(int32_t kind, int32_t p, int32_t v, int32_t m, int32_t group) {
    tpp_schedule *s = exec_schedule(kind, p, v, m, group);
    for (int32_t lanes = 1; lanes <= 2; lanes++)
        compare(s, lanes);
    tpp_schedule_destroy(s);
}

static void test_gpipe(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 6; p++) {
        for (int32_t m = 1; m <= 12; m++)
            compare_kind(TPP_SCHEDULE_GPIPE, p, 1, m, 0);
    }
}

static void test_1f1b(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 6; p++) {
        for (int32_t m = 1; m <= 12; m++)
            compare_kind(TPP_SCHEDULE_1F1B, p, 1, m, 0);
    }
    compare_kind(TPP_SCHEDULE_1F1B, 8, 1, 4, 0);
    compare_kind(TPP_SCHEDULE_1F1B, 8, 1, 1, 0);
}

static void test_interleaved(void **state) {
    (void)state;
    for (int32_t p = 1; p <= 6; p++) {
        for (int32_t m = 1; m <= 12; m++) {
            for (int32_t v = 1; v <= 3; v++)
                compare_kind(TPP_SCHEDULE_INTERLEAVED, p, v, m, 0);
        }
    }
}

/* Groups of all sizes, where receives of gradients may have to be moved. */
static void test_groups(void **state) {
    (void)state;
    for (int32_t p = 2; p <= 4; p++) {
        for (int32_t group = 1; group <= 8; group++)
            compare_kind(TPP_SCHEDULE_INTERLEAVED, p, 2, 8, group);
    }
}

/* I and W apart. ZB-H1 of two ranks; stages that share a rank (the input of W outlives the slot
 * of the stage before); a V: rank 0 has the first and the last stage; uneven placement; messages
 * written out, receives early. */
static const char *const texts[] = {
    "0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2\n1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2\n",
    "0F0 0F1 0I0 0W0 0I1 0W1\n1F0 1I0 1W0 1F1 1I1 1W1\n",
    "0F0 1F0 1I0 0I0 0W0 0F1 1W0 1F1 0F2 1I1 1W1 0I1 1F2 0W1 1I2 0I2 0W2 1W2\n",
    "0F0 1F0 2F0 2I0 1I0 0I0 0W0 0F1 1W0 1F1 2W0 2F1 2I1 1I1 0B1 1W1 2W1\n",
    "0F0 0F1 3F0 3I0 3F1 3W0 0I0 3B1 0W0 0F2 0B1 3F2 3B2 0B2\n"
    "1F0 2F0 1F1 2F1 2I0 1I0 2W0 2B1 1W0 1F2 2F2 1B1 2B2 1B2\n",
    "0F0 0F1 0B0 0B1\n1F0 2F0 2B0 1B0 1F1 2F1 2B1 1B1\n",
    "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0RECV_B1 0B0 0B1\n"
    "1RECV_F0 1RECV_F1 1F0 1F1 1B0 1SEND_B0 1B1 1SEND_B1\n",
};

static tpp_schedule *from_text(const char *text) {
    tpp_schedule *s;
    if (!strstr(text, "SEND"))
        return exec_schedule_text(text);
    exec_expect_ok(tpp_schedule_parse(&s, text, (int64_t)strlen(text), NULL));
    exec_expect_ok(tpp_schedule_finish(s));
    return s;
}

static void test_halves_and_placements(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tpp_schedule *s = from_text(texts[i]);
        for (int32_t lanes = 1; lanes <= 3; lanes++)
            compare(s, lanes);
        tpp_schedule_destroy(s);
    }
}

/* Without backwards a slot is used again at once, also by the next stage of the same rank. */
static void test_forward_only(void **state) {
    static const char *const orders[] = {
        "0F0 0F1 1F0 1F1\n",
        "0F0 1F0 0F1 1F1\n2F0 2F1\n",
        "0F0 0F1 2F0 2F1\n1F0 1F1 3F0 3F1\n",
        "0F0 2F0 0F1 2F1\n1F0 3F0 1F1 3F1\n",
        "0F0 0F1 0F2 3F0 3F1 3F2\n1F0 2F0 1F1 2F1 1F2 2F2\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        tpp_schedule *s = exec_schedule_text(orders[i]);
        for (int32_t lanes = 1; lanes <= 2; lanes++)
            compare(s, lanes);
        int32_t peaks[8];
        exec_sim sim;
        exec_expect_ok(tpp_schedule_peaks(s, peaks));
        exec_sim_equal(&sim, s, 1, 1, 1, 0);
        for (int32_t r = 0; r < tpp_trace_rows(sim.trace); r++)
            assert_int_equal(sim.peak[r], peaks[r]);
        exec_sim_free(&sim);
        tpp_schedule_destroy(s);
    }
    for (int32_t p = 1; p <= 6; p++) {
        for (int32_t m = 1; m <= 7; m++)
            compare_kind(TPP_SCHEDULE_FORWARD_ONLY, p, 1, m, 0);
    }
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_FORWARD_ONLY, 2, 1, 3, 0);
    tpp_stage_ops ops = exec_layer_ops;
    exec_rig rig;
    ops.backward = ops.backward_input = ops.backward_weight = NULL;
    exec_rig_open(&rig, s, 1, EXEC_THREADS, NULL);
    rig.ranks[0].ops = rig.ranks[1].ops = &ops; /* nobody asks for more */
    exec_expect_ok(exec_rig_step(&rig));
    exec_rig_check(&rig, 0);
    exec_rig_close(&rig);
    tpp_schedule_destroy(s);
}

/* Messages of no elements are messages, too. */
static void test_empty_messages(void **state) {
    (void)state;
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_1F1B, 3, 1, 5, 0);
    for (int32_t kind = EXEC_SERIAL; kind <= EXEC_DISTRIBUTED; kind++) {
        exec_rig rig;
        exec_rig_open(&rig, s, 1, kind, NULL);
        rig.count = rig.run.message_count = 0;
        exec_expect_ok(exec_rig_step(&rig));
        for (int32_t row = 0; row < rig.rows; row++)
            assert_int_equal(rig.layers[row].calls, 10);
        exec_rig_close(&rig);
    }
    tpp_schedule_destroy(s);
}

/* A slot's four buffers are there only when something flows, and one lane more costs as much
 * again. */
static void test_memory(void **state) {
    int64_t one, large, lanes;
    tpp_run_rank none = {0};
    (void)state;
    tpp_schedule *s = exec_schedule(TPP_SCHEDULE_1F1B, 1, 1, 4, 0);
    tpp_run run = {.size = sizeof run, .schedule = s, .ranks = &none, .message_count = 1};
    exec_expect_ok(tpp_run_query(&run, &one));
    run.message_count = 1000000;
    run.message_dtype = TPP_F64;
    exec_expect_ok(tpp_run_query(&run, &large));
    assert_int_equal(one, large);
    tpp_schedule_destroy(s);

    s = exec_schedule(TPP_SCHEDULE_1F1B, 2, 1, 4, 0);
    run.schedule = s;
    run.message_count = 16;
    exec_expect_ok(tpp_run_query(&run, &one));
    run.message_count = 16 + 8 * 100;
    exec_expect_ok(tpp_run_query(&run, &large));
    assert_int_equal(large - one, (2 + 1) * 4 * 100 * 64); /* slots of both ranks */
    run.lanes = 2;
    exec_expect_ok(tpp_run_query(&run, &lanes));
    assert_true(lanes > 2 * large - 1000 && lanes < 2 * large + 1000);
    run.message_count = INT64_MAX / 4;
    assert_int_equal(tpp_run_query(&run, &lanes), TPP_ERR_OVERFLOW);
    tpp_schedule_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpipe),
        cmocka_unit_test(test_1f1b),
        cmocka_unit_test(test_interleaved),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_halves_and_placements),
        cmocka_unit_test(test_forward_only),
        cmocka_unit_test(test_empty_messages),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
