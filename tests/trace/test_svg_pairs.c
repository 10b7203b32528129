/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/trace_support.h"
#include "support/trace_svg_reader.h"

/* Overlapped pairs and two directions in pictures and in Chrome traces. */

#define assert_near(a, b) assert_true((a) - (b) < 1e-6 && (b) - (a) < 1e-6)

static tpp_event event_of(tpp_op op, int32_t micro, double start, double end) {
    return (tpp_event){
        .start = start, .end = end, .op = op, .stage = 3, .micro = micro, .peer = -1};
}

/* F 1 in 0 .. 2, then F 12 of direction 1 over B 0 of direction 0 in 2 .. 6, idle to 8, B 12 to 10. */
static tpp_trace *paired(bool fused) {
    tpp_trace *trace = NULL;
    tpp_event events[] = {event_of(TPP_OP_F, 1, 0, 2), event_of(TPP_OP_F, 12, 2, 6),
                          event_of(TPP_OP_B, 0, 2, 6), event_of(TPP_OP_B, 12, 8, 10)};
    assert_int_equal(tpp_trace_create(&trace, 1, 4, NULL), TPP_OK);
    events[1].flags = events[2].flags = fused ? TPP_EVENT_FUSED : 0;
    events[1].direction = events[3].direction = 1;
    for (int i = 0; i < 4; i++)
        assert_int_equal(tpp_trace_add(trace, &events[i]), TPP_OK);
    return trace;
}

static trace_buffer drawn(const tpp_trace *trace, tpp_trace_svg_desc desc) {
    trace_buffer out = {0};
    desc.size = sizeof desc;
    assert_int_equal(tpp_trace_write_svg(trace, &desc, trace_buffer_write, &out), TPP_OK);
    assert_string_equal(trace_xml_fault(out.text), "");
    return out;
}

/* The nth element that begins so. */
static const char *nth(const char *text, const char *what, int n) {
    for (text = strstr(text, what); text && n > 0; n--)
        text = strstr(text + 1, what);
    assert_non_null(text);
    return text;
}

static const char *cell(const char *text, int n) {
    return nth(text, "<rect class=\"cell ", n);
}

static void test_halves(void **state) {
    (void)state;
    tpp_trace *trace = paired(true);
    trace_buffer out = drawn(trace, (tpp_trace_svg_desc){.row_height = 40});
    const char *f = cell(out.text, 1), *b = cell(out.text, 2);
    double whole = trace_number(cell(out.text, 0), "height");
    assert_int_equal(trace_count(out.text, "class=\"cell "), 4);
    assert_near(whole, trace_number(cell(out.text, 3), "height"));
    assert_near(trace_number(f, "height"), whole / 2);
    assert_near(trace_number(b, "height"), whole / 2);
    assert_near(trace_number(b, "y"), whole / 2);
    assert_near(trace_number(f, "x"), trace_number(b, "x"));
    assert_near(trace_number(f, "width"), trace_number(b, "width"));
    trace_buffer_free(&out);
    tpp_trace_destroy(trace);
}

/* Every half has its number, in the middle of it. */
static void test_numbers(void **state) {
    (void)state;
    tpp_trace *trace = paired(true);
    trace_buffer out = drawn(trace, (tpp_trace_svg_desc){.row_height = 40});
    const char *text = strstr(out.text, "pointer-events=\"none\"");
    const char *const micros[] = {"1", "12", "0", "12"};
    double y[4];
    for (int i = 0; i < 4; i++) {
        char micro[8];
        const char *number = nth(text, "<text", i);
        trace_content(number, micro, sizeof micro);
        assert_string_equal(micro, micros[i]);
        y[i] = trace_number(number, "y");
    }
    double whole = trace_number(cell(out.text, 0), "height");
    assert_near(y[0], y[3]);
    assert_true(y[1] > whole * 0.3 && y[1] < whole * 0.5);
    assert_near(y[2] - y[1], whole / 2);
    trace_buffer_free(&out);
    tpp_trace_destroy(trace);
}

/* Cells of one width have numbers all or none, wherever the rounding of their edges falls. */
static void test_equal_cells(void **state) {
    enum { CELLS = 66 };
    (void)state;
    int all = 0, none = 0, pictures = 0;
    for (double width = 1000; width < 1400; width++) {
        tpp_trace *trace = NULL;
        assert_int_equal(tpp_trace_create(&trace, 1, CELLS, NULL), TPP_OK);
        for (int i = 0; i < CELLS; i++) {
            tpp_event event = event_of(TPP_OP_F, 10 + i, i, i + 1);
            assert_int_equal(tpp_trace_add(trace, &event), TPP_OK);
        }
        trace_buffer out = drawn(trace, (tpp_trace_svg_desc){.width = width});
        int64_t numbers =
            trace_count(strstr(out.text, "pointer-events=\"none\""), "<text x=") -
            trace_count(strstr(out.text, "text-anchor=\"middle\">\n<path"), "<text x=");
        pictures++;
        all += numbers == CELLS;
        none += numbers == 0;
        trace_buffer_free(&out);
        tpp_trace_destroy(trace);
    }
    assert_true(all > 0 && none > 0);
    assert_int_equal(all + none, pictures);
}

/* A pair's time is counted once: 8 of 10. */
static void test_idle(void **state) {
    (void)state;
    for (int fused = 0; fused < 2; fused++) {
        tpp_trace *trace = paired(fused == 1);
        trace_buffer out = drawn(trace, (tpp_trace_svg_desc){0});
        char share[16];
        trace_content(strstr(out.text, "<text class=\"idle\""), share, sizeof share);
        assert_string_equal(share, fused ? "20.0%" : "0.0%");
        trace_buffer_free(&out);
        tpp_trace_destroy(trace);
    }
}

static void test_colours_and_legend(void **state) {
    (void)state;
    tpp_trace *trace = paired(true);
    trace_buffer out = drawn(trace, (tpp_trace_svg_desc){0});
    char fills[4][16];
    for (int i = 0; i < 4; i++) {
        trace_string(cell(out.text, i), "fill", fills[i], sizeof fills[i]);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(fills[i], fills[j]);
    }
    const char *legend = strstr(out.text, "F: forward, by direction");
    assert_non_null(legend);
    assert_non_null(strstr(legend, "B: backward, by direction"));
    assert_non_null(strstr(legend, "overlapped pair: F above, B below"));
    assert_null(strstr(out.text, "by chunk"));
    assert_near(trace_number(cell(out.text, 0), "height"), 38 * 0.86); /* a higher row */
    trace_buffer_free(&out);
    tpp_trace_destroy(trace);
    trace = paired(false);
    out = drawn(trace, (tpp_trace_svg_desc){0});
    assert_null(strstr(out.text, "overlapped"));
    assert_near(trace_number(cell(out.text, 0), "height"), 28 * 0.86);
    trace_buffer_free(&out);
    tpp_trace_destroy(trace);
}

static void test_chrome(void **state) {
    (void)state;
    tpp_trace *trace = paired(true);
    trace_buffer out = {0};
    assert_int_equal(tpp_trace_write_chrome(trace, 1, 0, trace_buffer_write, &out), TPP_OK);
    assert_non_null(strstr(out.text,
                           "\"ts\":2.000,\"dur\":4.000,\"name\":\"F 12\",\"cat\":\"compute\","
                           "\"args\":{\"stage\":3,\"micro\":12,\"chunk\":0,\"step\":0,"
                           "\"direction\":1,\"overlapped\":true}}"));
    assert_non_null(strstr(out.text,
                           "\"ts\":2.000,\"dur\":4.000,\"name\":\"B 0\",\"cat\":\"compute\","
                           "\"args\":{\"stage\":3,\"micro\":0,\"chunk\":0,\"step\":0,"
                           "\"direction\":0,\"overlapped\":true}}"));
    assert_int_equal(trace_count(out.text, "overlapped"), 2);
    trace_buffer_free(&out);
    tpp_trace_destroy(trace);
}

static void refuses(tpp_event event, const char *words) {
    tpp_trace *trace = NULL;
    assert_int_equal(tpp_trace_create(&trace, 1, 1, NULL), TPP_OK);
    assert_int_equal(tpp_trace_add(trace, &event), TPP_ERR_INVALID);
    if (!strstr(tpp_message(), words))
        fail_msg("'%s' does not say '%s'", tpp_message(), words);
    tpp_trace_destroy(trace);
}

static void test_add_refuses(void **state) {
    (void)state;
    tpp_event event = event_of(TPP_OP_W, 0, 0, 1);
    event.flags = TPP_EVENT_FUSED;
    refuses(event, "event.flags = 1; valid: 0, of F and B also 1 (FUSED)");
    event = event_of(TPP_OP_F, 0, 0, 1);
    event.flags = 2;
    refuses(event, "event.flags = 2");
    event.flags = 0;
    event.direction = 2;
    refuses(event, "event.direction = 2; valid: 0, 1");
    event.direction = -1;
    refuses(event, "event.direction = -1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_equal_cells),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_colours_and_legend),
        cmocka_unit_test(test_chrome),
        cmocka_unit_test(test_add_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
