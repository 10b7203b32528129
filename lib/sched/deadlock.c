/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched_walk.h"

#include "base/check.h"

#include <stdio.h>

/* Where a rank stands and for whom it waits; returns the length. */
static int describe(const tpp__sched_walk *w, int32_t rank, char *out, size_t bytes) {
    const tpp_action *a = w->s->actions + w->at[rank];
    int n = snprintf(out, bytes, "rank %d waits at %d%s%d for rank %d", rank, a->stage,
                     tpp__op_name(a->op), a->micro, w->waits_for[rank]);
    int32_t cell = tpp__sched_walk_unreceived(w, rank);
    if (cell < 0)
        return n;
    return n + snprintf(out + n, bytes - (size_t)n, " to receive %d%s%d", cell / w->s->micros,
                        a->op == TPP_OP_F ? "SEND_F" : "SEND_B", cell % w->s->micros);
}

/* The witness is a cycle. Every rank that has not ended waits for one that has not, so from any of
 * them a cycle is reached in at most as many steps as there are ranks. */
static tpp_status explain(const tpp__sched_walk *w, int32_t rank) {
    for (int32_t i = 0; i < w->s->ranks; i++)
        rank = w->waits_for[rank];
    int32_t first = rank;
    for (int32_t r = w->waits_for[rank]; r != rank; r = w->waits_for[r])
        first = r < first ? r : first;
    char text[400];
    int used = 0, more = 0;
    int32_t r = first;
    do {
        if (used < 280) {
            used += snprintf(text + used, sizeof text - (size_t)used, "%s", used ? ", " : "");
            used += describe(w, r, text + used, sizeof text - (size_t)used);
        } else {
            more++;
        }
        r = w->waits_for[r];
    } while (r != first);
    if (more > 0)
        return tpp__fail(TPP_ERR_DEADLOCK, "%s, and so on over %d more ranks", text, more);
    return tpp__fail(TPP_ERR_DEADLOCK, "%s", text);
}

tpp_status tpp__sched_prove(const tpp_schedule *s, tpp_channel channel) {
    tpp__sched_walk w;
    tpp_status status = tpp__sched_walk_begin(&w, s, channel);
    if (status < 0)
        return status;
    status = tpp__sched_walk_run(&w);
    for (int32_t r = 0; r < s->ranks && status == TPP__SCHED_WAITS; r++) {
        if (w.at[r] < s->first[r + 1])
            status = explain(&w, r);
    }
    tpp__sched_walk_end(&w);
    return status;
}
