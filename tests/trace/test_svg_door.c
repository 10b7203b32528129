/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */

/* What the picture's writer refuses, its axis, and that it passes on what the sink says. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "support/trace_support.h"
#include "support/trace_svg_reader.h"

#include <locale.h>
#include <math.h>

static tpp_status draw(const tpp_trace *trace, tpp_trace_svg_desc desc, trace_buffer *out) {
    desc.size = sizeof desc;
    return tpp_trace_write_svg(trace, &desc, trace_buffer_write, out);
}

static tpp_trace *simple(double unit, double origin) {
    trace_pipeline pipeline = {4, 1, 8, 1, true, false, unit, 2 * unit, 0, origin};
    tpp_trace *trace = trace_pipeline_run(&pipeline);
    assert_non_null(trace);
    return trace;
}

static void test_refuses_and_names_the_argument(void **state) {
    (void)state;
    static const struct {
        tpp_trace_svg_desc desc;
        const char *words;
    } cases[] = {
        {{.width = 5}, "desc.width = 5; valid: 200 .. 20000"},
        {{.width = 20001}, "desc.width"},
        {{.width = NAN}, "desc.width"},
        {{.row_height = 3}, "desc.row_height = 3"},
        {{.row_height = -1}, "desc.row_height"},
        {{.lanes = 3}, "desc.lanes = 3 does not divide the trace's 4 rows; valid: 1, 2, 4"},
        {{.lanes = -1}, "desc.lanes"},
        {{.chunks = -1}, "desc.chunks = -1"},
        {{.start = 2, .end = 1}, "desc.start = 2, desc.end = 1; end must be after start"},
        {{.start = 0, .end = INFINITY}, "desc.end"},
        {{.start = 5}, "desc.end = 0"},
        {{.start = 0, .end = 1e-9, .unit = "u"}, "drawn time"},
        {{.start = 0, .end = 1e200, .unit = "u"}, "drawn time"},
    };
    tpp_trace *trace = simple(1, 0);
    trace_buffer out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(draw(trace, cases[i].desc, &out), TPP_ERR_INVALID);
        assert_non_null(strstr(tpp_message(), cases[i].words));
    }
    assert_int_equal(draw(NULL, (tpp_trace_svg_desc){0}, &out), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "trace"));
    assert_int_equal(tpp_trace_write_svg(trace, NULL, NULL, NULL), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "write"));
    tpp_trace_reset(trace);
    assert_int_equal(draw(trace, (tpp_trace_svg_desc){0}, &out), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "no events"));
    assert_int_equal(out.used, 0);
    tpp_trace_destroy(trace);
}

static void test_too_few_chunks_or_no_time(void **state) {
    (void)state;
    tpp_trace *trace = NULL;
    trace_buffer out = {0};
    assert_int_equal(tpp_trace_create(&trace, 1, 2, NULL), TPP_OK);
    tpp_event event = {.start = 3, .end = 3, .op = TPP_OP_F, .chunk = 2, .peer = -1};
    assert_int_equal(tpp_trace_add(trace, &event), TPP_OK);
    assert_int_equal(draw(trace, (tpp_trace_svg_desc){0}, &out), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "take no time"));
    assert_int_equal(draw(trace, (tpp_trace_svg_desc){.chunks = 2}, &out), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "at least 3"));
    assert_int_equal(draw(trace, (tpp_trace_svg_desc){.start = 2, .end = 4}, &out), TPP_OK);
    assert_int_equal(trace_count(out.text, "class=\"cell "), 1);
    trace_buffer_free(&out);
    tpp_trace_destroy(trace);
}

static void test_sizes_of_the_struct(void **state) {
    (void)state;
    tpp_trace *trace = simple(1, 0);
    trace_buffer plain = {0}, out = {0};
    assert_int_equal(tpp_trace_write_svg(trace, NULL, trace_buffer_write, &plain), TPP_OK);

    struct {
        tpp_trace_svg_desc known;
        uint64_t later;
    } desc = {0};
    desc.known.size = 4;
    assert_int_equal(tpp_trace_write_svg(trace, &desc.known, trace_buffer_write, &out),
                     TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "desc.size = 4"));
    const uint32_t sizes[] = {8, sizeof desc.known, sizeof desc};
    for (int i = 0; i < 3; i++) {
        desc.known.size = sizes[i];
        assert_int_equal(tpp_trace_write_svg(trace, &desc.known, trace_buffer_write, &out), TPP_OK);
        assert_string_equal(out.text, plain.text);
        out.used = 0;
    }
    desc.later = 1;
    assert_int_equal(tpp_trace_write_svg(trace, &desc.known, trace_buffer_write, &out),
                     TPP_ERR_TOO_NEW);
    desc.later = 0;
    desc.known.flags = 1;
    assert_int_equal(tpp_trace_write_svg(trace, &desc.known, trace_buffer_write, &out),
                     TPP_ERR_TOO_NEW);
    trace_buffer_free(&plain);
    trace_buffer_free(&out);
    tpp_trace_destroy(trace);
}

/* Refuses the n-th piece and wants no further one. */
typedef struct refusal {
    int64_t left;
    tpp_status status;
    int64_t late;
} refusal;

static tpp_status refuse(void *ctx, const char *bytes, int64_t count) {
    (void)bytes;
    refusal *r = ctx;
    r->late += r->left < 0;
    return count > 0 && r->left-- > 0 ? TPP_OK : r->status;
}

static void test_what_the_sink_returns(void **state) {
    (void)state;
    const tpp_status statuses[] = {TPP_ERR_USER - 7, TPP_ERR_NO_MEMORY, 5};
    tpp_trace *trace = simple(1, 0);
    for (int i = 0; i < 3; i++) {
        for (int64_t pieces = 0; pieces < 4; pieces++) {
            refusal r = {pieces, statuses[i], 0};
            assert_int_equal(tpp_trace_write_svg(trace, NULL, refuse, &r), statuses[i]);
            assert_int_equal(r.left, -1);
            assert_int_equal(r.late, 0);
        }
    }
    tpp_trace_destroy(trace);
}

static void test_incomplete_traces_say_so(void **state) {
    (void)state;
    tpp_trace *trace = NULL;
    trace_buffer out = {0};
    assert_int_equal(tpp_trace_create(&trace, 1, 1, NULL), TPP_OK);
    tpp_event event = {.end = 1, .op = TPP_OP_F, .peer = -1};
    for (int i = 0; i < 3; i++)
        assert_int_equal(tpp_trace_add(trace, &event), TPP_OK);
    assert_int_equal(draw(trace, (tpp_trace_svg_desc){0}, &out), TPP_OK);
    assert_non_null(strstr(out.text, "Incomplete: 2 events"));
    trace_buffer_free(&out);
    tpp_trace_destroy(trace);
}

/* Ticks are 1, 2 or 5 times a power of ten apart, stand where their time is, and do not touch. */
static void check_ticks(const char *text, double span) {
    const char *area = strstr(text, "<rect fill=\"url(#tpp-idle)\" x=");
    double left = trace_number(area, "x");
    double pixels = trace_number(area, "width") / span;
    double values[64], xs[64];
    int n = 0;
    for (const char *at = text; (at = strstr(at, "<text class=\"tick\"")) != NULL && n < 64;
         at++, n++) {
        char label[32];
        trace_content(at, label, sizeof label);
        values[n] = strtod(label, NULL);
        xs[n] = trace_number(at, "x");
        assert_true(fabs(xs[n] - left - values[n] * pixels) < 0.011);
        assert_true(n == 0 || xs[n] - xs[n - 1] >= 8.0 * (double)strlen(label));
    }
    assert_true(n >= 2);
    double step = values[1] - values[0];
    double mantissa = step / pow(10, floor(log10(step) + 1e-9));
    assert_true(fabs(mantissa - 1) < 1e-9 || fabs(mantissa - 2) < 1e-9 ||
                fabs(mantissa - 5) < 1e-9);
    for (int i = 2; i < n; i++)
        assert_true(fabs(values[i] - values[i - 1] - step) < 1e-9 * span);
}

static void test_axis(void **state) {
    (void)state;
    static const struct {
        double unit; /* seconds of a forward; the picture spans 33 */
        double origin;
        double shown; /* length of the axis */
        const char *name;
    } cases[] = {
        {1, 0, 33, "time (s)"},
        {0.04, 1e6, 1.32, "time (s)"},
        {0.03, 12345.678, 990, "time (ms)"},
        {1e-4, -7, 3.3, "time (ms)"},
        {1e-5, 0, 330, "time (\xc2\xb5s)"},
        {1e-8, 5, 0.33, "time (\xc2\xb5s)"},
        {1e9, 0, 33e9, "time (s)"},
    };
    const double widths[] = {0, 300, 5000};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tpp_trace *trace = simple(cases[i].unit, cases[i].origin);
        for (int w = 0; w < 3; w++) {
            trace_buffer out = {0};
            assert_int_equal(draw(trace, (tpp_trace_svg_desc){.width = widths[w]}, &out), TPP_OK);
            assert_non_null(strstr(out.text, cases[i].name));
            if (widths[w] != 300 || cases[i].shown < 1e9)
                check_ticks(out.text, cases[i].shown);
            trace_buffer_free(&out);
        }
        tpp_trace_destroy(trace);
    }
}

static void test_height_of_many_rows(void **state) {
    (void)state;
    for (int32_t ranks = 1; ranks <= 64; ranks *= 8) {
        trace_pipeline pipeline = {ranks, 1, 2, 1, false, false, 1, 2, 0, 0};
        tpp_trace *trace = trace_pipeline_run(&pipeline);
        trace_buffer out = {0};
        assert_int_equal(draw(trace, (tpp_trace_svg_desc){0}, &out), TPP_OK);
        double height = trace_number(strstr(out.text, "<svg "), "height");
        assert_true(height < 850 && height > fmin(672, 28 * ranks));
        assert_string_equal(trace_xml_fault(out.text), "");
        trace_buffer_free(&out);
        tpp_trace_destroy(trace);
    }
}

static tpp_status write_number(trace_buffer *out, double value, int decimals) {
    tpp__text text;
    out->used = 0;
    tpp__text_begin(&text, trace_buffer_write, out);
    tpp__text_fixed(&text, value, decimals);
    return tpp__text_end(&text);
}

/* Tried in a locale with a decimal comma where one is installed. */
static void test_locale_changes_nothing(void **state) {
    (void)state;
    const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8"};
    tpp_trace *trace = simple(0.0317, 0);
    trace_buffer plain = {0}, out = {0};
    assert_int_equal(draw(trace, (tpp_trace_svg_desc){.width = 777.25}, &plain), TPP_OK);
    for (int i = 0; i < 4; i++) {
        if (setlocale(LC_NUMERIC, names[i]))
            break;
    }
    char host[16];
    snprintf(host, sizeof host, "%.1f", 0.5);
    print_message("the host writes one half as %s\n", host);
    assert_int_equal(write_number(&out, 1234567.5, 2), TPP_OK);
    assert_string_equal(out.text, "1234567.50");
    assert_int_equal(write_number(&out, -0.0004, 3), TPP_OK);
    assert_string_equal(out.text, "0.000");
    out.used = 0;
    assert_int_equal(draw(trace, (tpp_trace_svg_desc){.width = 777.25}, &out), TPP_OK);
    assert_string_equal(out.text, plain.text);
    setlocale(LC_NUMERIC, "C");
    trace_buffer_free(&plain);
    trace_buffer_free(&out);
    tpp_trace_destroy(trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refuses_and_names_the_argument),
        cmocka_unit_test(test_too_few_chunks_or_no_time),
        cmocka_unit_test(test_sizes_of_the_struct),
        cmocka_unit_test(test_what_the_sink_returns),
        cmocka_unit_test(test_incomplete_traces_say_so),
        cmocka_unit_test(test_axis),
        cmocka_unit_test(test_height_of_many_rows),
        cmocka_unit_test(test_locale_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
