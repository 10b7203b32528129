/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SCHED_ASSEMBLE_H
#define TPP_SCHED_ASSEMBLE_H

#include "sched/action_scan.h"
#include "sched/sched_impl.h"

/* Rows of actions that are read from somewhere, a row per rank, become a schedule. They are read
 * twice: once to count and to know the largest stage and micro-batch, once to fill. */

enum { TPP__SCHED_ATOM = 1, TPP__SCHED_ROW_END = 2, TPP__SCHED_TEXT_END = 3 };

typedef struct tpp__sched_source {
    /* Begin again. */
    void (*rewind)(void *ctx);
    /* What comes next: TPP__SCHED_ATOM (in *out), _ROW_END, _TEXT_END (after a row end), or a
     * status below 0. */
    int32_t (*next)(void *ctx, tpp__sched_atom *out);
    /* Where the atom just read stands, in words. */
    void (*where)(void *ctx, char *out, size_t bytes);
    void *ctx;
    int32_t directions;
} tpp__sched_source;

/* `text`, `bytes` and `out` of a public call are fit to begin with: *out is NULL afterwards. */
tpp_status tpp__sched_check_text(tpp_schedule **out, const char *text, int64_t bytes);

/* Ordered when there are compute actions only, else lowered; what is wrong in it is found by the
 * check. */
tpp_status tpp__sched_assemble(tpp_schedule **out, const tpp__sched_source *from,
                               const tpp_allocator *allocator);

#endif
