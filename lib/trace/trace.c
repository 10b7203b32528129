/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <tpp/trace.h>

#include "base/alloc.h"
#include "base/check.h"

#include <math.h>
#include <stddef.h>

_Static_assert(sizeof(tpp_event) == 64, "tpp_event is frozen");

/* The counters of a row. A cache line each: rows are filled by different threads. */
typedef struct row {
    int64_t count;
    int64_t dropped;
    char pad[TPP__ALIGN - 2 * sizeof(int64_t)];
} row;
_Static_assert(sizeof(row) == TPP__ALIGN, "rows must not share a cache line");

struct tpp_trace {
    tpp_allocator allocator;
    int64_t bytes;
    int64_t capacity;
    int32_t rows;
    row *row;
    tpp_event *events; /* row r owns events[r * capacity] and the capacity - 1 behind it */
};

/* Lays the parts of a trace out; the first of them is the object itself. */
static tpp_trace *lay_out(tpp__arena *arena, int32_t rows, int64_t capacity) {
    tpp_trace *trace = tpp__arena_take(arena, 1, sizeof *trace);
    row *counters = tpp__arena_take(arena, rows, sizeof *counters);
    int64_t count;
    if (!tpp__mul(rows, capacity, &count))
        arena->overflow = true;
    tpp_event *events = arena->overflow ? NULL : tpp__arena_take(arena, count, sizeof *events);
    if (!events)
        return NULL;
    trace->row = counters;
    trace->events = events;
    trace->rows = rows;
    trace->capacity = capacity;
    return trace;
}

tpp_status tpp_trace_create(tpp_trace **out, int32_t rows, int64_t capacity,
                            const tpp_allocator *allocator) {
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a pointer");
    if (rows < 1)
        return tpp__fail(TPP_ERR_INVALID, "rows = %d; a trace needs at least 1", (int)rows);
    if (capacity < 1)
        return tpp__fail(TPP_ERR_INVALID, "capacity = %lld; a row needs at least 1",
                         (long long)capacity);
    tpp_allocator own;
    tpp_status status = tpp__allocator_read(&own, allocator);
    if (status < 0)
        return status;

    tpp__arena need = tpp__arena_counting();
    lay_out(&need, rows, capacity);
    if (!tpp__arena_fits(&need))
        return tpp__fail(TPP_ERR_OVERFLOW,
                         "rows = %d times capacity = %lld events do not fit "
                         "into 64 bits",
                         (int)rows, (long long)capacity);
    void *memory = tpp__alloc(&own, need.used);
    if (!memory)
        return TPP_ERR_NO_MEMORY;
    tpp__arena arena = tpp__arena_over(memory, need.used);
    tpp_trace *trace = lay_out(&arena, rows, capacity);
    trace->allocator = own;
    trace->bytes = need.used;
    *out = trace;
    return TPP_OK;
}

static bool is_traced(tpp_op op) {
    switch (op) {
    case TPP_OP_F:
    case TPP_OP_B:
    case TPP_OP_I:
    case TPP_OP_W:
    case TPP_OP_STEP:
    case TPP_OP_RECV_F:
    case TPP_OP_RECV_B:
        return true;
    default:
        return false;
    }
}

/* The writers rely on what is checked here: rows, known operations, and times that are numbers. */
static tpp_status check(const tpp_trace *trace, const tpp_event *event) {
    if (!trace)
        return tpp__fail(TPP_ERR_INVALID, "trace is NULL");
    if (!event)
        return tpp__fail(TPP_ERR_INVALID, "event is NULL");
    if (event->row < 0 || event->row >= trace->rows)
        return tpp__fail(TPP_ERR_INVALID, "event.row = %d; the trace has rows 0 .. %d",
                         (int)event->row, (int)trace->rows - 1);
    if (!is_traced(event->op)) {
        const char *name = tpp_op_name(event->op);
        return tpp__fail(TPP_ERR_INVALID,
                         "event.op = %d (%s); a trace holds F, B, I, W, STEP, RECV_F and RECV_B",
                         (int)event->op, name ? name : "unknown");
    }
    if (event->flags != 0 &&
        (event->flags != TPP_EVENT_FUSED || (event->op != TPP_OP_F && event->op != TPP_OP_B)))
        return tpp__fail(TPP_ERR_INVALID, "event.flags = %u; valid: 0, of F and B also 1 (FUSED)",
                         event->flags);
    if (event->direction != 0 && event->direction != 1)
        return tpp__fail(TPP_ERR_INVALID, "event.direction = %d; valid: 0, 1",
                         (int)event->direction);
    if (!isfinite(event->start) || !isfinite(event->end) || event->end < event->start)
        return tpp__fail(TPP_ERR_INVALID,
                         "event.start = %g, event.end = %g; both must be finite "
                         "and end not before start",
                         event->start, event->end);
    return TPP_OK;
}

tpp_status tpp_trace_add(tpp_trace *trace, const tpp_event *event) {
    tpp_status status = check(trace, event);
    if (status < 0)
        return status;
    row *counters = &trace->row[event->row];
    if (counters->count == trace->capacity)
        counters->dropped++;
    else
        trace->events[event->row * trace->capacity + counters->count++] = *event;
    return TPP_OK;
}

const tpp_event *tpp_trace_events(const tpp_trace *trace, int32_t index, int64_t *count) {
    bool found = trace && index >= 0 && index < trace->rows;
    if (count)
        *count = found ? trace->row[index].count : 0;
    return found ? trace->events + index * trace->capacity : NULL;
}

int32_t tpp_trace_rows(const tpp_trace *trace) {
    return trace ? trace->rows : 0;
}

int64_t tpp_trace_dropped(const tpp_trace *trace) {
    int64_t sum = 0;
    for (int32_t r = 0; r < tpp_trace_rows(trace); r++)
        sum += trace->row[r].dropped;
    return sum;
}

void tpp_trace_reset(tpp_trace *trace) {
    for (int32_t r = 0; r < tpp_trace_rows(trace); r++)
        trace->row[r] = (row){0};
}

void tpp_trace_destroy(tpp_trace *trace) {
    if (!trace)
        return;
    tpp_allocator own = trace->allocator;
    tpp__free(&own, trace, trace->bytes);
}
