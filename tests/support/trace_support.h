/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TEST_TRACE_SUPPORT_H
#define TPP_TEST_TRACE_SUPPORT_H

#include <stdbool.h>
#include <tpp/trace.h>

/* A sink into memory, with a terminating zero for the string functions. */
typedef struct trace_buffer {
    char *text;
    int64_t used;
    int64_t room;
} trace_buffer;

tpp_status trace_buffer_write(void *ctx, const char *bytes, int64_t count);
void trace_buffer_free(trace_buffer *buffer);

/* A pipeline whose times follow from the order alone; costs are per chunk. */
typedef struct trace_pipeline {
    int32_t ranks;
    int32_t chunks;
    int32_t micros;
    int32_t lanes;   /* rows of a rank, all alike */
    bool waits;      /* the time before a message comes is an event, else it is empty */
    bool split;      /* I and W in the place of B, W when there is nothing else to do */
    double forward;  /* duration of an F */
    double backward; /* of a B; half of it each for I and W */
    double latency; /* from the end of an action to the earliest start of its successor elsewhere */
    double origin;  /* moment at which all begins */
} trace_pipeline;

/* A trace of 1F1B (one chunk) or interleaved 1F1B; the caller destroys it. NULL on failure. */
tpp_trace *trace_pipeline_run(const trace_pipeline *pipeline);

#endif
