/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tpp/trace.h>

#include "base/thread.h"

#include <math.h>

#define assert_fails(call, status, words)                                                          \
    do {                                                                                           \
        assert_int_equal(call, status);                                                            \
        assert_non_null(strstr(tpp_message(), words));                                             \
    } while (0)

/* An allocator that keeps books. */
typedef struct books {
    uint64_t out;
    int allocs;
    int releases;
    int refuse;
} books;

static void *books_alloc(void *ctx, uint64_t bytes, uint64_t align) {
    books *b = ctx;
    if (b->refuse)
        return NULL;
    b->allocs++;
    b->out += bytes;
    void *memory = aligned_alloc(align, bytes);
    if (memory)
        memset(memory, 0x5a, bytes); /* a trace must not count on zeros */
    return memory;
}

static void books_release(void *ctx, void *memory, uint64_t bytes) {
    books *b = ctx;
    b->releases++;
    b->out -= bytes;
    free(memory);
}

static tpp_event event_at(int32_t row, double start, double end) {
    tpp_event event = {.start = start, .end = end, .row = row, .op = TPP_OP_F, .peer = -1};
    return event;
}

static void test_one_allocation(void **state) {
    (void)state;
    books b = {0};
    tpp_allocator allocator = {sizeof allocator, 0, &b, books_alloc, books_release};
    tpp_trace *trace = NULL;
    assert_int_equal(tpp_trace_create(&trace, 3, 10, &allocator), TPP_OK);
    assert_int_equal(b.allocs, 1);
    assert_true(b.out >= 3 * 11 * 64 && b.out <= 3 * 11 * 64 + 256);
    assert_int_equal(tpp_trace_rows(trace), 3);
    assert_int_equal(tpp_trace_dropped(trace), 0);
    int64_t count = -1;
    assert_non_null(tpp_trace_events(trace, 2, &count));
    assert_int_equal(count, 0);
    tpp_trace_destroy(trace);
    assert_int_equal(b.releases, 1);
    assert_int_equal(b.out, 0);
    tpp_trace_destroy(NULL);
}

static void test_create_refuses(void **state) {
    (void)state;
    tpp_trace *trace = NULL;
    books b = {.refuse = 1};
    tpp_allocator allocator = {sizeof allocator, 0, &b, books_alloc, books_release};
    assert_fails(tpp_trace_create(NULL, 1, 1, NULL), TPP_ERR_INVALID, "out");
    assert_fails(tpp_trace_create(&trace, 0, 1, NULL), TPP_ERR_INVALID, "rows = 0");
    assert_fails(tpp_trace_create(&trace, 1, 0, NULL), TPP_ERR_INVALID, "capacity = 0");
    assert_fails(tpp_trace_create(&trace, 2, INT64_MAX / 64, NULL), TPP_ERR_OVERFLOW, "capacity");
    assert_fails(tpp_trace_create(&trace, INT32_MAX, INT64_MAX, NULL), TPP_ERR_OVERFLOW, "rows");
    assert_fails(tpp_trace_create(&trace, 1, 1, &allocator), TPP_ERR_NO_MEMORY, "NULL");
    allocator.size = 4;
    assert_fails(tpp_trace_create(&trace, 1, 1, &allocator), TPP_ERR_INVALID, "allocator.size");
    assert_null(trace);
}

static void test_add_keeps_order_and_counts_dropped(void **state) {
    (void)state;
    tpp_trace *trace = NULL;
    assert_int_equal(tpp_trace_create(&trace, 2, 3, NULL), TPP_OK);
    for (int i = 0; i < 5; i++) {
        tpp_event event = event_at(1, i, i + 1);
        event.micro = 40 + i;
        event.step = UINT64_MAX - (uint64_t)i;
        assert_int_equal(tpp_trace_add(trace, &event), TPP_OK);
    }
    int64_t count;
    const tpp_event *events = tpp_trace_events(trace, 1, &count);
    assert_int_equal(count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(events[i].micro, 40 + i);
        assert_true(events[i].step == UINT64_MAX - (uint64_t)i);
    }
    assert_int_equal(tpp_trace_dropped(trace), 2);
    tpp_trace_events(trace, 0, &count);
    assert_int_equal(count, 0); /* the neighbour is untouched */
    tpp_trace_reset(trace);
    tpp_trace_events(trace, 1, &count);
    assert_int_equal(count, 0);
    assert_int_equal(tpp_trace_dropped(trace), 0);
    tpp_trace_destroy(trace);
}

static void test_add_refuses(void **state) {
    (void)state;
    tpp_trace *trace = NULL;
    assert_int_equal(tpp_trace_create(&trace, 2, 3, NULL), TPP_OK);
    tpp_event good = event_at(0, 1, 2);
    tpp_event event = good;
    assert_fails(tpp_trace_add(NULL, &good), TPP_ERR_INVALID, "trace");
    assert_fails(tpp_trace_add(trace, NULL), TPP_ERR_INVALID, "event");
    event.row = 2;
    assert_fails(tpp_trace_add(trace, &event), TPP_ERR_INVALID, "event.row = 2");
    event.row = -1;
    assert_fails(tpp_trace_add(trace, &event), TPP_ERR_INVALID, "rows 0 .. 1");
    event = good;
    event.op = TPP_OP_SEND_F;
    assert_fails(tpp_trace_add(trace, &event), TPP_ERR_INVALID, "SEND_F");
    event.op = 0;
    assert_fails(tpp_trace_add(trace, &event), TPP_ERR_INVALID, "event.op = 0");
    event = good;
    event.end = 0.5;
    assert_fails(tpp_trace_add(trace, &event), TPP_ERR_INVALID, "event.end");
    event.end = NAN;
    assert_fails(tpp_trace_add(trace, &event), TPP_ERR_INVALID, "finite");
    event.end = INFINITY;
    assert_fails(tpp_trace_add(trace, &event), TPP_ERR_INVALID, "finite");
    int64_t count;
    tpp_trace_events(trace, 0, &count);
    assert_int_equal(count, 0);
    assert_int_equal(tpp_trace_dropped(trace), 0);
    tpp_trace_destroy(trace);
}

static void test_no_such_row(void **state) {
    (void)state;
    tpp_trace *trace = NULL;
    assert_int_equal(tpp_trace_create(&trace, 2, 3, NULL), TPP_OK);
    int64_t count = 7;
    assert_null(tpp_trace_events(trace, 2, &count));
    assert_int_equal(count, 0);
    assert_null(tpp_trace_events(trace, -1, NULL));
    assert_null(tpp_trace_events(NULL, 0, &count));
    assert_int_equal(tpp_trace_rows(NULL), 0);
    assert_int_equal(tpp_trace_dropped(NULL), 0);
    tpp_trace_destroy(trace);
}

enum { WRITERS = 8, EVENTS = 20000 };

typedef struct writer {
    tpp__thread thread;
    tpp_trace *trace;
    int32_t row;
    int bad;
} writer;

static void *fill_row(void *arg) {
    writer *w = arg;
    for (int32_t i = 0; i < EVENTS + w->row; i++) {
        tpp_event event = event_at(w->row, i, i + 0.5);
        event.micro = i;
        event.stage = w->row;
        w->bad |= tpp_trace_add(w->trace, &event) != TPP_OK;
    }
    return NULL;
}

static void test_threads_fill_different_rows(void **state) {
    (void)state;
    tpp_trace *trace = NULL;
    assert_int_equal(tpp_trace_create(&trace, WRITERS, EVENTS, NULL), TPP_OK);
    writer writers[WRITERS];
    for (int32_t r = 0; r < WRITERS; r++) {
        writers[r] = (writer){.trace = trace, .row = r};
        assert_int_equal(tpp__thread_start(&writers[r].thread, fill_row, &writers[r]), TPP_OK);
    }
    for (int32_t r = 0; r < WRITERS; r++)
        tpp__thread_join(&writers[r].thread);
    for (int32_t r = 0; r < WRITERS; r++) {
        int64_t count;
        const tpp_event *events = tpp_trace_events(trace, r, &count);
        assert_int_equal(writers[r].bad, 0);
        assert_int_equal(count, EVENTS);
        for (int32_t i = 0; i < EVENTS; i++)
            assert_true(events[i].micro == i && events[i].stage == r && events[i].row == r);
    }
    assert_int_equal(tpp_trace_dropped(trace), WRITERS * (WRITERS - 1) / 2);
    tpp_trace_destroy(trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_allocation),
        cmocka_unit_test(test_create_refuses),
        cmocka_unit_test(test_add_keeps_order_and_counts_dropped),
        cmocka_unit_test(test_add_refuses),
        cmocka_unit_test(test_no_such_row),
        cmocka_unit_test(test_threads_fill_different_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
