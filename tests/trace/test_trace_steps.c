/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/trace_support.h"
#include "support/trace_svg_reader.h"

/* Optimizer steps in pictures and in Chrome traces. */

/* F 4 in 0 .. 2, a step in 2 .. 3, idle to 4, F 5 to 8. */
static tpp_trace *stepping(int32_t chunk) {
    const tpp_event events[] = {{.end = 2, .op = TPP_OP_F, .micro = 4, .peer = -1, .chunk = chunk},
                                {.start = 2, .end = 3, .op = TPP_OP_STEP, .micro = -1, .peer = -1},
                                {.start = 4, .end = 8, .op = TPP_OP_F, .micro = 5, .peer = -1}};
    tpp_trace *trace = NULL;
    assert_int_equal(tpp_trace_create(&trace, 1, 3, NULL), TPP_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tpp_trace_add(trace, &events[i]), TPP_OK);
    assert_int_equal(tpp_trace_dropped(trace), 0);
    return trace;
}

static void test_picture(void **state) {
    char fill[2][32], idle[32];
    (void)state;
    for (int32_t chunk = 0; chunk < 2; chunk++) { /* the step has no shade */
        tpp_trace *trace = stepping(chunk);
        trace_buffer out = {0};
        assert_int_equal(tpp_trace_write_svg(trace, NULL, trace_buffer_write, &out), TPP_OK);
        assert_string_equal(trace_xml_fault(out.text), "");
        const char *step = strstr(out.text, "<rect class=\"cell STEP\"");
        assert_non_null(step);
        trace_string(step, "fill", fill[chunk], sizeof fill[chunk]);
        trace_content(strstr(out.text, "<text class=\"idle\""), idle, sizeof idle);
        assert_string_equal(idle, "12.5%"); /* a step is work */
        assert_int_equal(trace_count(out.text, ">optimizer step</text>"), 1);
        assert_int_equal(trace_count(out.text, "<title>STEP: 2 to 3"), 1);
        assert_int_equal(trace_count(out.text, ">-1<"), 0);
        trace_buffer_free(&out);
        tpp_trace_destroy(trace);
    }
    assert_string_equal(fill[0], fill[1]);
}

static void test_chrome(void **state) {
    tpp_trace *trace = stepping(0);
    trace_buffer out = {0};
    (void)state;
    assert_int_equal(tpp_trace_write_chrome(trace, 0, 0, trace_buffer_write, &out), TPP_OK);
    assert_int_equal(trace_count(out.text, "\"name\":\"STEP\",\"cat\":\"compute\""), 1);
    assert_int_equal(trace_count(out.text, "\"name\":\"F 4\""), 1);
    trace_buffer_free(&out);
    tpp_trace_destroy(trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_picture),
        cmocka_unit_test(test_chrome),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
