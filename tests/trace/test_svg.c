/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "support/trace_support.h"
#include "support/trace_svg_reader.h"

#include <math.h>

static const trace_pipeline simple = {4, 1, 8, 1, true, false, 1, 2, 0, 0};

/* The picture of a pipeline; the caller frees it. */
static trace_buffer draw(const trace_pipeline *pipeline, tpp_trace_svg_desc desc,
                         tpp_trace **kept) {
    tpp_trace *trace = trace_pipeline_run(pipeline);
    assert_non_null(trace);
    trace_buffer out = {0};
    desc.size = sizeof desc;
    assert_int_equal(tpp_trace_write_svg(trace, &desc, trace_buffer_write, &out), TPP_OK);
    assert_string_equal(trace_xml_fault(out.text), "");
    if (kept)
        *kept = trace;
    else
        tpp_trace_destroy(trace);
    return out;
}

static int64_t events_of(const tpp_trace *trace) {
    int64_t sum = 0;
    for (int32_t r = 0; r < tpp_trace_rows(trace); r++) {
        int64_t count;
        tpp_trace_events(trace, r, &count);
        sum += count;
    }
    return sum;
}

static void test_a_cell_per_event(void **state) {
    (void)state;
    const trace_pipeline pipelines[] = {simple,
                                        {4, 2, 8, 1, true, false, 1, 2, 0, 0},
                                        {4, 2, 8, 2, false, true, 1, 2, 0.3, 0},
                                        {16, 1, 40, 1, true, true, 0.01, 0.02, 0.001, 777.7}};
    for (int i = 0; i < 4; i++) {
        tpp_trace *trace;
        tpp_trace_svg_desc desc = {.lanes = pipelines[i].lanes};
        trace_buffer out = draw(&pipelines[i], desc, &trace);
        assert_int_equal(trace_count(out.text, "class=\"cell "), events_of(trace));
        assert_int_equal(trace_count(out.text, ">rank "), tpp_trace_rows(trace));
        trace_buffer_free(&out);
        tpp_trace_destroy(trace);
    }
}

/* Follows the elements of the picture: by row, waits before work, each in the order of events. */
typedef struct cursor {
    const char *at;
    double left;
    double pixels; /* of one unit of time */
} cursor;

static void next_row(cursor *c, double span) {
    c->at = strstr(c->at, "<rect fill=\"url(#tpp-idle)\" x=");
    assert_non_null(c->at);
    c->left = trace_number(c->at, "x");
    c->pixels = trace_number(c->at, "width") / span;
    c->at++;
}

static void check_cell(cursor *c, const tpp_event *event, double origin) {
    char class[32], expected[32];
    c->at = strstr(c->at, "<rect class=\"cell ");
    assert_non_null(c->at);
    trace_string(c->at, "class", class, sizeof class);
    snprintf(expected, sizeof expected, "cell %s", tpp_op_name(event->op));
    assert_string_equal(class, expected);
    double x = trace_number(c->at, "x");
    double end = x + trace_number(c->at, "width");
    assert_true(fabs(x - c->left - (event->start - origin) * c->pixels) < 0.006);
    assert_true(fabs(end - c->left - (event->end - origin) * c->pixels) < 0.011);
    c->at++;
}

static void check_geometry(const trace_pipeline *pipeline, double span) {
    tpp_trace *trace;
    trace_buffer out = draw(pipeline, (tpp_trace_svg_desc){.width = 1234.5}, &trace);
    cursor c = {out.text, 0, 0};
    for (int32_t r = 0; r < tpp_trace_rows(trace); r++) {
        int64_t count;
        const tpp_event *events = tpp_trace_events(trace, r, &count);
        next_row(&c, span);
        for (int wait = 1; wait >= 0; wait--) {
            for (int64_t i = 0; i < count; i++) {
                if ((events[i].op >= TPP_OP_SEND_F) == wait)
                    check_cell(&c, &events[i], pipeline->origin);
            }
        }
    }
    trace_buffer_free(&out);
    tpp_trace_destroy(trace);
}

static void test_cells_stand_where_the_times_are(void **state) {
    (void)state;
    check_geometry(&simple, 33);
    check_geometry(&(trace_pipeline){4, 2, 8, 1, true, false, 1, 2, 0, 0}, 57);
    check_geometry(&(trace_pipeline){4, 1, 8, 1, true, false, 0.001, 0.002, 0, 99.5}, 0.033);
}

/* The text of the element with this class, or of its n-th occurrence. */
static void nth_content(const char *text, const char *class, int n, char *out, int room) {
    char key[64];
    snprintf(key, sizeof key, "<text class=\"%s\"", class);
    for (int i = 0; i <= n && text; i++)
        text = strstr(i > 0 ? text + 1 : text, key);
    assert_non_null(text);
    trace_content(text, out, room);
}

static void test_idle_share(void **state) {
    (void)state;
    trace_buffer out = draw(&simple, (tpp_trace_svg_desc){0}, NULL);
    char share[32];
    for (int r = 0; r < 4; r++) {
        nth_content(out.text, "idle", r, share, sizeof share);
        assert_string_equal(share, "27.3%"); /* 3 * (1 + 2) of 33 */
    }
    assert_non_null(strstr(out.text,
                           "idle: share of the drawn time in which the rank computes nothing "
                           "(mean 27.3%)"));
    trace_buffer_free(&out);
    /* Of the first ten units rank 0 computes in 0 .. 4, rank 3 in 3 .. 10. */
    out = draw(&simple, (tpp_trace_svg_desc){.start = 0, .end = 10}, NULL);
    nth_content(out.text, "idle", 0, share, sizeof share);
    assert_string_equal(share, "60.0%");
    nth_content(out.text, "idle", 3, share, sizeof share);
    assert_string_equal(share, "30.0%");
    trace_buffer_free(&out);
    /* Rank 1: F 0 .. 2 in 1 .. 4, half of B 0 in 8 .. 10. */
    out = draw(&simple, (tpp_trace_svg_desc){.start = 0, .end = 9}, NULL);
    nth_content(out.text, "idle", 1, share, sizeof share);
    assert_string_equal(share, "55.6%");
    trace_buffer_free(&out);
}

/* Start and end of the drawn time cut events; what lies outside is not drawn. */
static void test_window_cuts(void **state) {
    (void)state;
    trace_buffer out =
        draw(&simple, (tpp_trace_svg_desc){.start = 4.5, .end = 11, .unit = "u"}, NULL);
    const char *at = strstr(out.text, "<rect fill=\"url(#tpp-idle)\" x=");
    double left = trace_number(at, "x");
    double right = left + trace_number(at, "width");
    int64_t cells = 0;
    for (at = out.text; (at = strstr(at, "<rect class=\"cell ")) != NULL; at++, cells++) {
        double x = trace_number(at, "x");
        assert_true(x >= left - 0.006 && x + trace_number(at, "width") <= right + 0.011);
    }
    /* wait, B0 | wait, B0, F3 | wait, B0, F2, B1 | B0, F1, B1, F2, B2 */
    assert_int_equal(cells, 2 + 3 + 4 + 5);
    assert_non_null(strstr(out.text, "<title>B, stage 0, micro-batch 0: 10 to 12 u</title>"));
    trace_buffer_free(&out);
}

static void test_numbers_are_centred_and_fit(void **state) {
    (void)state;
    trace_buffer out = draw(&simple, (tpp_trace_svg_desc){0}, NULL);
    const char *cell = strstr(out.text, "<rect class=\"cell F\"");
    const char *group = strstr(out.text, "<g text-anchor=\"middle\" pointer-events");
    assert_non_null(cell);
    assert_non_null(group);
    const char *number = strstr(group, "<text x=");
    char digits[8];
    trace_content(number, digits, sizeof digits);
    assert_string_equal(digits, "0");
    double middle = trace_number(cell, "x") + trace_number(cell, "width") / 2;
    assert_true(fabs(trace_number(number, "x") - middle) < 0.011);
    assert_int_equal(trace_count(out.text, "<title>F,") + trace_count(out.text, "<title>B,"), 64);
    assert_int_equal(trace_count(group, "<text x=") >= 64, 1);
    assert_non_null(strstr(out.text, "Numbers in cells"));
    trace_buffer_free(&out);

    out = draw(&simple, (tpp_trace_svg_desc){.width = 200}, NULL); /* some 2 pixels a unit */
    group = strstr(out.text, "<g text-anchor=\"middle\" pointer-events");
    assert_int_equal(strncmp(strchr(group, '>') + 1, "\n</g>", 5), 0);
    assert_null(strstr(out.text, "Numbers in cells"));
    trace_buffer_free(&out);
}

static void test_tooltips(void **state) {
    (void)state;
    trace_pipeline pipeline = {4, 2, 8, 1, true, false, 1, 2, 0.25, 0};
    trace_buffer out = draw(&pipeline, (tpp_trace_svg_desc){.unit = "t"}, NULL);
    assert_non_null(
        strstr(out.text, "<title>F, stage 1 (chunk 0), micro-batch 2: 3.25 to 4.25 t</title>"));
    assert_non_null(strstr(out.text,
                           "<title>RECV_F, stage 1 (chunk 0), micro-batch 0: waited from 0 to "
                           "1.25 t for rank 0</title>"));
    trace_buffer_free(&out);
    out = draw(&simple, (tpp_trace_svg_desc){.unit = "<&>"}, NULL);
    assert_non_null(strstr(out.text, "time (&lt;&amp;&gt;)"));
    trace_buffer_free(&out);
}

static void fill_of(const char *text, const char *title, char out[16]) {
    const char *at = strstr(text, title);
    assert_non_null(at);
    while (*at != '<' || strncmp(at, "<rect", 5) != 0)
        at--;
    trace_string(at, "fill", out, 16);
}

static void test_colours_tell_operations_and_chunks_apart(void **state) {
    (void)state;
    trace_pipeline pipeline = {2, 2, 2, 1, true, true, 1, 2, 0, 0};
    trace_buffer out = draw(&pipeline, (tpp_trace_svg_desc){0}, NULL);
    char fills[8][16];
    const char *const titles[] = {"<title>F, stage 0 (chunk 0)", "<title>F, stage 2 (chunk 1)",
                                  "<title>I, stage 0 (chunk 0)", "<title>I, stage 2 (chunk 1)",
                                  "<title>W, stage 0 (chunk 0)", "<title>W, stage 2 (chunk 1)",
                                  "<title>RECV_F, stage 1"};
    for (int i = 0; i < 7; i++) {
        fill_of(out.text, titles[i], fills[i]);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(fills[i], fills[j]);
    }
    assert_string_equal(fills[6], "url(#tpp-wait)");
    const char *legend = strstr(out.text, "F: forward, by chunk");
    assert_non_null(legend);
    assert_non_null(strstr(legend, "I: input gradient, by chunk"));
    assert_non_null(strstr(legend, "W: weight gradient, by chunk"));
    assert_non_null(strstr(legend, "waiting for message"));
    assert_null(strstr(out.text, "B: backward"));
    trace_buffer_free(&out);

    out = draw(&simple, (tpp_trace_svg_desc){.chunks = 12}, NULL);
    assert_non_null(strstr(out.text, "B: backward, chunk 0 (dark) to 11"));
    trace_buffer_free(&out);
}

static void test_title_is_escaped(void **state) {
    (void)state;
    const char *title = "a <b> & \"c\" 'd' \x01\xff\xc3\xa9 \xed\xa0\x80 \xef\xbf\xbf";
    trace_buffer out = draw(&simple, (tpp_trace_svg_desc){.title = title}, NULL);
    const char *safe = "a &lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;  ?\xc3\xa9 ?\?\? ?\?\?<";
    assert_int_equal(trace_count(out.text, safe), 2); /* of the document, and drawn */
    trace_buffer_free(&out);

    char long_title[4001];
    memset(long_title, '&', 4000);
    long_title[4000] = 0;
    out = draw(&simple, (tpp_trace_svg_desc){.title = long_title}, NULL);
    assert_int_equal(trace_count(out.text, "&amp;"), 8000);
    trace_buffer_free(&out);
}

static void test_names_of_lanes(void **state) {
    (void)state;
    trace_pipeline pipeline = {2, 1, 2, 3, true, false, 1, 2, 0, 0};
    trace_buffer out = draw(&pipeline, (tpp_trace_svg_desc){.lanes = 3}, NULL);
    assert_non_null(strstr(out.text, ">rank 0 tp 0<"));
    assert_non_null(strstr(out.text, ">rank 1 tp 2<"));
    assert_null(strstr(out.text, ">rank 2"));
    trace_buffer_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cell_per_event),
        cmocka_unit_test(test_cells_stand_where_the_times_are),
        cmocka_unit_test(test_idle_share),
        cmocka_unit_test(test_window_cuts),
        cmocka_unit_test(test_numbers_are_centred_and_fit),
        cmocka_unit_test(test_tooltips),
        cmocka_unit_test(test_colours_tell_operations_and_chunks_apart),
        cmocka_unit_test(test_title_is_escaped),
        cmocka_unit_test(test_names_of_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
