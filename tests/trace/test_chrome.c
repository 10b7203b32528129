/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/trace_support.h"

#include <math.h>

static tpp_trace *one_event(tpp_op op) {
    tpp_trace *trace = NULL;
    assert_int_equal(tpp_trace_create(&trace, 4, 2, NULL), TPP_OK);
    tpp_event event = {.start = 1.5, .end = 1.75, .row = 3, .op = op, .chunk = 1};
    event.stage = 5;
    event.micro = 7;
    event.peer = op == TPP_OP_RECV_B ? 2 : -1;
    event.step = UINT64_MAX;
    assert_int_equal(tpp_trace_add(trace, &event), TPP_OK);
    return trace;
}

static void check_line(tpp_op op, double scale, int32_t lanes, const char *line) {
    tpp_trace *trace = one_event(op);
    trace_buffer out = {0};
    assert_int_equal(tpp_trace_write_chrome(trace, scale, lanes, trace_buffer_write, &out), TPP_OK);
    const char *found = strstr(out.text, "{\"ph\":\"X\"");
    assert_non_null(found);
    assert_memory_equal(found, line, strlen(line));
    assert_string_equal(found + strlen(line), "\n]}\n");
    trace_buffer_free(&out);
    tpp_trace_destroy(trace);
}

static void test_an_event(void **state) {
    (void)state;
    check_line(
        TPP_OP_I, 0, 2,
        "{\"ph\":\"X\",\"pid\":1,\"tid\":2,\"ts\":1500000.000,\"dur\":250000.000,\"name\":\"I 7\","
        "\"cat\":\"compute\",\"args\":{\"stage\":5,\"micro\":7,\"chunk\":1,"
        "\"step\":18446744073709551615}}");
    check_line(
        TPP_OP_RECV_B, 1000, 0,
        "{\"ph\":\"X\",\"pid\":3,\"tid\":1,\"ts\":1500.000,\"dur\":250.000,\"name\":\"RECV_B 7\","
        "\"cat\":\"wait\",\"args\":{\"stage\":5,\"micro\":7,\"chunk\":1,"
        "\"step\":18446744073709551615,\"peer\":2}}");
}

static void test_refuses(void **state) {
    (void)state;
    tpp_trace *trace = one_event(TPP_OP_F);
    trace_buffer out = {0};
    static const struct {
        double scale;
        int32_t lanes;
        const char *words;
    } cases[] = {{-1, 1, "scale = -1"},
                 {NAN, 1, "scale"},
                 {INFINITY, 1, "scale"},
                 {1e16, 1, "1e15"},
                 {0, 3, "lanes = 3 does not divide"},
                 {0, -4, "lanes = -4"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tpp_status status =
            tpp_trace_write_chrome(trace, cases[i].scale, cases[i].lanes, trace_buffer_write, &out);
        assert_int_equal(status, TPP_ERR_INVALID);
        assert_non_null(strstr(tpp_message(), cases[i].words));
    }
    assert_int_equal(tpp_trace_write_chrome(NULL, 0, 1, trace_buffer_write, &out), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "trace"));
    assert_int_equal(tpp_trace_write_chrome(trace, 0, 1, NULL, NULL), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "write"));
    assert_int_equal(out.used, 0);
    tpp_trace_destroy(trace);
}

static tpp_status refuse(void *ctx, const char *bytes, int64_t count) {
    (void)bytes;
    (void)count;
    int *calls = ctx;
    return ++*calls < 2 ? TPP_OK : TPP_ERR_USER - 3;
}

static void test_what_the_sink_returns(void **state) {
    (void)state;
    trace_pipeline pipeline = {4, 1, 64, 1, true, false, 1, 2, 0, 0};
    tpp_trace *trace = trace_pipeline_run(&pipeline);
    int calls = 0;
    assert_int_equal(tpp_trace_write_chrome(trace, 0, 1, refuse, &calls), TPP_ERR_USER - 3);
    assert_int_equal(calls, 2);
    tpp_trace_destroy(trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_event),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_what_the_sink_returns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
