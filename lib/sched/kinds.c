/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/generate.h"

#include <stdio.h>
#include <string.h>

#define LOOPED TPP_PLACEMENT_LOOPED
#define V TPP_PLACEMENT_V
#define TWO_WAY TPP_PLACEMENT_TWO_WAY
#define ANY 0 /* number of chunks */

/* THE table of built-in orders: a row each. The last four: overlapped pairs, groups, any
 * placement; made as a whole. */
static const tpp__sched_kind kinds[] = {
    {TPP_SCHEDULE_GPIPE, "gpipe", "ScheduleGPipe", tpp__sched_gpipe, 2, LOOPED, 1, 0, 0, 1, NULL},
    {TPP_SCHEDULE_1F1B, "1f1b", "Schedule1F1B", tpp__sched_1f1b, 2, LOOPED, 1, 0, 0, 0, NULL},
    {TPP_SCHEDULE_INTERLEAVED, "interleaved", "ScheduleInterleaved1F1B", tpp__sched_interleaved, 2,
     LOOPED, ANY, 0, 1, 0, NULL},
    {TPP_SCHEDULE_BFS, "bfs", "ScheduleLoopedBFS", tpp__sched_bfs, 2, LOOPED, ANY, 0, 0, 1, NULL},
    {TPP_SCHEDULE_EAGER_1F1B, "eager-1f1b", NULL, tpp__sched_eager_1f1b, 2, LOOPED, 1, 0, 0, 0,
     NULL},
    {TPP_SCHEDULE_FORWARD_ONLY, "forward-only", NULL, tpp__sched_forward_only, 1, LOOPED, ANY, 0, 1,
     1, NULL},
    {TPP_SCHEDULE_ZB_H1, "zb-h1", NULL, tpp__sched_zb_h1, 3, LOOPED, 1, 0, 0, 0, NULL},
    {TPP_SCHEDULE_ZB_H2, "zb-h2", NULL, tpp__sched_zb_h2, 3, LOOPED, 1, 0, 0, 0, NULL},
    {TPP_SCHEDULE_ZB_INTERLEAVED, "zb-interleaved", "ScheduleInterleavedZeroBubble",
     tpp__sched_zb_interleaved, 3, LOOPED, ANY, 0, 1, 0, NULL},
    {TPP_SCHEDULE_ZB_V, "zb-v", "ScheduleZBVZeroBubble", tpp__sched_zb_v, 3, V, 2, 0, 0, 0, NULL},
    {TPP_SCHEDULE_V_HALF, "v-half", NULL, NULL, 3, V, 2, 0, 0, 0, tpp__sched_v_half},
    {TPP_SCHEDULE_V_MIN, "v-min", NULL, NULL, 3, V, 2, 0, 0, 0, tpp__sched_v_min},
    {TPP_SCHEDULE_V_1F1B, "v-1f1b", NULL, NULL, 2, V, 2, 0, 0, 0, tpp__sched_v_1f1b},
    {TPP_SCHEDULE_DUALPIPE, "dualpipe", NULL, tpp__sched_dualpipe, 3, TWO_WAY, 2, 1, 0, 0, NULL},
    {TPP_SCHEDULE_DUALPIPEV, "dualpipev", "ScheduleDualPipeV", tpp__sched_dualpipev, 3, V, 2, 1, 0,
     0, NULL},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

const tpp__sched_kind *tpp__sched_kind_find(tpp_schedule_kind kind) {
    for (int i = 0; i < KINDS; i++) {
        if (kinds[i].kind == kind)
            return &kinds[i];
    }
    return NULL;
}

const char *tpp_schedule_kind_name(tpp_schedule_kind kind) {
    const tpp__sched_kind *found = tpp__sched_kind_find(kind);
    return found ? found->name : NULL;
}

tpp_schedule_kind tpp_schedule_kind_of(const char *name) {
    for (int i = 0; i < KINDS && name; i++) {
        const char *also = kinds[i].pytorch;
        if (strcmp(kinds[i].name, name) == 0 || (also && strcmp(also, name) == 0))
            return kinds[i].kind;
    }
    return 0;
}

int tpp__sched_kinds_list(char *out, size_t bytes) {
    int n = 0;
    for (int i = 0; i < KINDS && (size_t)n < bytes; i++)
        n += snprintf(out + n, bytes - (size_t)n, "%s%d (%s)", i ? ", " : "", kinds[i].kind,
                      kinds[i].name);
    return n;
}
