/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_PIPE_ROWS_H
#define TPP_COMMAND_PIPE_ROWS_H

/* The options that several of the pipeline's commands have, each written once. */

#include "pipe_config.h"

#define OPTIONS struct pipe_config
#include "../option_rows.h"

#define MOST_COST 1e18

#define SIZE_ROWS                                                                                  \
    INT("stages", stages, 1, 1 << 20, "ranks of the pipeline, p (default 4)"),                     \
        INT("micro", micro, 1, 1 << 20, "micro-batches of a step, m (default 8)")

#define SHAPE_ROWS                                                                                 \
    SIZE_ROWS,                                                                                     \
        INT("chunks", chunks, 1, 65536,                                                            \
            "pieces of the model on each rank, v (default what the order has, else 1)"),           \
        INT("group", group, 1, 1 << 20,                                                            \
            "interleaved orders: micro-batches that pass a chunk before the next chunk's turn "    \
            "(default the best even parts)"),                                                      \
        FLAG("split", split, "dualpipe, dualpipev: forward and backward of a pair apart"),         \
        FLAG("two-way", two_way, "the CSV file has the stages of a two-way schedule (dualpipe)")

#define TIME_ROWS                                                                                  \
    REAL("tf", tf, 0, MOST_COST, "time of a forward"),                                             \
        REAL("ti", ti, 0, MOST_COST, "time of a backward's gradient of the input"),                \
        REAL("tw", tw, 0, MOST_COST, "time of its gradient of the weights")

#define COSTS_ROW                                                                                  \
    PATH("costs", costs,                                                                           \
         "JSON object with costs of each stage, in place of these options: see below")

#define P2P_ROW REAL("p2p", p2p, 0, MOST_COST, "time that a message is under way; occupies nobody")

#define MESSAGE_ROWS                                                                               \
    P2P_ROW,                                                                                       \
        REAL("link", link, 0, MOST_COST,                                                           \
             "time that a message occupies its link, or --bytes and --bandwidth"),                 \
        REAL("bytes", bytes, 0, MOST_COST, "of a message"),                                        \
        REAL("bandwidth", bandwidth, 0, MOST_COST, "of a link, bytes in a unit of time")

#define MEMORY_ROWS                                                                                \
    REAL("mem-b", mem_b, 0, MOST_COST,                                                             \
         "what a micro-batch of a full stage holds from its forward until the gradient of its "    \
         "input is there"),                                                                        \
        REAL("mem-w", mem_w, 0, MOST_COST,                                                         \
             "and from then until that of its weights (default --mem-b)"),                         \
        REAL("mem-state", mem_state, 0, MOST_COST, "what a full stage holds always")

#define FORM_ROWS(what)                                                                            \
    CHOICE("format", format, form_choices, what),                                                  \
        PATH("out", out, "write it there instead of to standard output")

#define PICTURE_ROWS                                                                               \
    PATH("svg", svg, "draw the step: who does what and when"),                                     \
        PATH("chrome", chrome,                                                                     \
             "the same for Perfetto and chrome://tracing; a unit of time is "                      \
             "shown as a millisecond")

#define HELP_ROWS                                                                                  \
    FLAG("help", help, "this text"), {                                                             \
        OPTION_FLAG, NULL, NULL, NULL, 0, 0, 0, NULL                                               \
    }

#define SOURCE_ROW                                                                                 \
    ARGUMENT("NAME", source,                                                                       \
             "of a built-in order (listed below, or PyTorch's class), or of a file in text or "    \
             "CSV form, which has its own sizes; -: standard input")

#endif
