/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TRACE_H
#define TPP_TRACE_H

/**
 * @file trace.h
 * A trace is what a run did and when: one event per action, simulated or measured. Executors fill
 * it; the writers draw it, as a Gantt picture (SVG) that people put into a paper, or as Chrome
 * trace JSON that Perfetto and chrome://tracing open.
 *
 *     tpp_trace *t;
 *     tpp_trace_create(&t, 4, 64, NULL);       // 4 rows, at most 64 events each
 *     // ... run an executor with run.trace = t ...
 *     tpp_trace_write_svg(t, NULL, my_write, file);
 *     tpp_trace_destroy(t);
 */

#include <tpp/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tpp_trace tpp_trace;

/* tpp_event.flags */
#define TPP_EVENT_FUSED 1 /* half of an overlapped pair, an F or a B: they share their time */

/** One event. Frozen: 64 bytes for ever. */
typedef struct tpp_event {
    double start;      /**< seconds, or units of the simulator's costs */
    double end;        /**< >= start */
    int32_t row;       /**< which row of the trace: pipeline rank * lanes + lane */
    tpp_op op;         /**< F, B, I, W, STEP; RECV_F and RECV_B: a wait for a message */
    int32_t chunk;     /**< chunk of the rank */
    int32_t stage;     /**< virtual stage */
    int32_t micro;     /**< micro-batch; -1: none, the cell has no number */
    int32_t peer;      /**< of a wait: the rank waited for; else -1 */
    uint64_t step;     /**< which step */
    uint32_t flags;    /**< 0 or TPP_EVENT_FUSED */
    int32_t direction; /**< of `stage`, in a two-way schedule 0 or 1; else 0 */
    uint64_t reserved; /**< 0 */
} tpp_event;

/** How a picture looks. Moments are those of the events; the axis counts from the first event's
 * start. */
typedef struct tpp_trace_svg_desc {
    uint32_t size;
    uint32_t flags;    /**< 0 */
    const char *title; /**< drawn on top, UTF-8; NULL: none */
    const char *unit;  /**< of time; NULL: seconds, shown as s, ms or us */
    double width;      /**< of the picture in pixels; 0: 1200 */
    double
        row_height; /**< in pixels, 4 .. 200; 0: 28 (38 if pairs overlap), less, down to 9, from 25 (18) rows on */
    double start;   /**< first moment drawn; 0 together with end 0: the whole trace */
    double end;     /**< last moment drawn; events are cut there */
    int32_t lanes;  /**< rows of a pipeline rank; 0: 1. More: named "rank 1 tp 0" */
    int32_t chunks; /**< chunks of a rank, for shades and legend; 0: found from the events */
} tpp_trace_svg_desc;

/**
 * An empty trace.
 *
 * @param out       receives it.
 * @param rows      ranks (times lanes), >= 1.
 * @param capacity  most events of a row, >= 1; further ones are counted, not kept. For one step the
 *                  longest count of tpp_schedule_actions suffices, with optimizer steps 1 more.
 * @param allocator NULL: malloc.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_TOO_NEW (allocator); TPP_ERR_OVERFLOW;
 *         TPP_ERR_NO_MEMORY.
 *
 * Memory: about rows * (capacity + 1) * 64 bytes, allocated here. Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_trace_create(tpp_trace **out, int32_t rows, int64_t capacity,
                                    const tpp_allocator *allocator);

/**
 * Append an event to its row.
 *
 * @return TPP_OK; TPP_ERR_INVALID (row out of range, an operation that tpp_event.op does not list,
 *         a time that is not finite, end before start, flags that are not for this operation, a
 *         direction that is neither 0 nor 1). A full row counts the event as dropped and returns
 *         TPP_OK.
 *
 * Memory: none allocated. Threads: different rows at the same time, one thread per row. Since: 0.1.
 */
TPP_API tpp_status tpp_trace_add(tpp_trace *trace, const tpp_event *event);

/**
 * The events of a row, in the order in which they were added.
 *
 * @param count receives their number; may be NULL. @return NULL when there is no such row.
 *
 * Memory: borrowed until reset or destroy. Threads: none may add. Since: 0.1.
 */
TPP_API const tpp_event *tpp_trace_events(const tpp_trace *trace, int32_t row, int64_t *count);

/** Number of rows. Cannot fail. Threads: any. Since: 0.1. */
TPP_API int32_t tpp_trace_rows(const tpp_trace *trace);

/** Events that found their row full, of all rows. Cannot fail. Threads: none may add. Since:
 * 0.1. */
TPP_API int64_t tpp_trace_dropped(const tpp_trace *trace);

/** Forget all events, and how many were dropped. Threads: none may add. Since: 0.1. */
TPP_API void tpp_trace_reset(tpp_trace *trace);

/**
 * Draw a Gantt picture: a row per rank, time to the right, forwards and backwards in two colours
 * (chunks in shades, or the directions of a two-way schedule; I and W apart from B), overlapped
 * pairs as two cells of half the height, micro-batch numbers in the cells, optimizer steps grey, idle
 * time hatched (waits for a message in another tone), a legend, an axis, and per row the share of
 * idle time. One self-contained SVG, no script; every cell has a tooltip.
 *
 * @param desc NULL: the defaults. @param write the sink.
 * @return TPP_OK; TPP_ERR_INVALID (no events, width out of 200 .. 20000, ...); TPP_ERR_TOO_NEW;
 *         what the sink returned.
 *
 * Memory: none allocated. Threads: none may add. Since: 0.1.
 */
TPP_API tpp_status tpp_trace_write_svg(const tpp_trace *trace, const tpp_trace_svg_desc *desc,
                                       tpp_write_fn write, void *ctx);

/**
 * Write Chrome trace JSON: a process per pipeline rank; in it, for every lane, thread 2 * lane is
 * what the rank computed and thread 2 * lane + 1 what it waited for. Times in microseconds, as the
 * events have them; the two halves of an overlapped pair have the same and are shown one below the
 * other. A trace without events gives valid JSON too.
 *
 * @param scale microseconds of one time unit; 0: 1e6 (times are seconds).
 * @param lanes as tpp_trace_svg_desc.lanes. @param write the sink.
 * @return TPP_OK; TPP_ERR_INVALID; what the sink returned.
 *
 * Memory: none allocated. Threads: none may add. Since: 0.1.
 */
TPP_API tpp_status tpp_trace_write_chrome(const tpp_trace *trace, double scale, int32_t lanes,
                                          tpp_write_fn write, void *ctx);

/** Free a trace; NULL is fine. Since: 0.1. */
TPP_API void tpp_trace_destroy(tpp_trace *trace);

#ifdef __cplusplus
}
#endif

#endif
