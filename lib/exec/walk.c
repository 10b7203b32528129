/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "exec/run_check.h"
#include "exec/walker.h"

#include <stdio.h>
#include <string.h>

/* --- Memory: the same code counts and cuts ---------------------------------------------------- */

static void cut_slots(const tpp__walk *walk, tpp__arena *arena, tpp__walk_slot *slot,
                      int32_t count) {
    int64_t elements = walk->run.message_count;
    int64_t width = tpp__dtype_bytes(walk->run.message_dtype);
    if (walk->info.stages == 1)
        elements = 0;
    for (int32_t s = 0; s < count; s++) {
        tpp__walk_slot made = {0};
        made.in = tpp__arena_take(arena, elements, width);
        made.out = tpp__arena_take(arena, elements, width);
        made.grad_out = tpp__arena_take(arena, elements, width);
        made.grad_in = tpp__arena_take(arena, elements, width);
        if (slot)
            slot[s] = made;
    }
}

/* The walker of a row whose rank has `slots` stash slots. */
static void cut_walker(tpp__walk *walk, tpp__arena *arena, int32_t row, int32_t slots) {
    const tpp_run *run = &walk->run;
    int64_t cell_count = (int64_t)walk->info.chunks * walk->info.micros;
    tpp__walk_slot *slot = tpp__arena_take(arena, slots, sizeof *slot);
    tpp__walk_cell *cells = tpp__arena_take(arena, cell_count, sizeof *cells);
    cut_slots(walk, arena, slot, slots);
    if (!arena->base)
        return;
    const tpp_run_rank *given = &run->ranks[row];
    tpp__walker *w = &walk->walker[row];
    *w = (tpp__walker){.walk = walk,
                       .comm = given->comm,
                       .ctx = given->ctx,
                       .rank = walk->part.first + row / run->lanes,
                       .lane = row % run->lanes,
                       .slots = slots,
                       .slot = slot,
                       .cells = cells,
                       .row = &walk->row[row]};
    tpp__sized_read(&w->ops, sizeof w->ops, 0, given->ops, "ops"); /* was read once: cannot fail */
    w->actions = tpp_schedule_actions(run->schedule, w->rank, &w->count);
    memset(cells, 0, (size_t)cell_count * sizeof *cells);
    tpp__run_row_clear(w->row, walk->info.forward_only);
}

static void cut(tpp__walk *walk, tpp__arena *arena) {
    const tpp_run *run = &walk->run;
    walk->chunk_of = tpp__arena_take(arena, walk->info.stages, sizeof *walk->chunk_of);
    walk->row = tpp__arena_take(arena, walk->rows, sizeof *walk->row);
    walk->walker = tpp__arena_take(arena, walk->rows, sizeof *walk->walker);
    for (int32_t i = 0; i < walk->part.count; i++) {
        int32_t slots = tpp__run_survey(run->schedule, walk->part.first + i).slots;
        for (int32_t lane = 0; lane < run->lanes; lane++)
            cut_walker(walk, arena, i * run->lanes + lane, slots);
    }
    for (int32_t rank = 0; rank < walk->info.ranks; rank++) {
        for (int32_t c = 0; c < walk->info.chunks && arena->base; c++) {
            int32_t stage = tpp_schedule_stage_of(run->schedule, rank, c);
            if (stage >= 0)
                walk->chunk_of[stage] = c;
        }
    }
}

tpp_status tpp__walk_bytes(const tpp_run *run, const tpp_schedule_info *info, tpp__run_part part,
                           int64_t *bytes) {
    tpp_status status = tpp__run_check_message(run, info);
    if (status < 0)
        return status;
    tpp__walk counted = {.run = *run, .info = *info, .part = part, .rows = part.count * run->lanes};
    tpp__arena arena = tpp__arena_counting();
    cut(&counted, &arena);
    if (!tpp__arena_fits(&arena))
        return tpp__fail(TPP_ERR_OVERFLOW,
                         "run.message_count = %lld: the bytes of all stash slots "
                         "do not fit into 64 bits",
                         (long long)run->message_count);
    *bytes = arena.used;
    return TPP_OK;
}

/* --- Life of a walk --------------------------------------------------------------------------- */

tpp_status tpp__walk_begin(tpp__walk *walk, const tpp_run *run, const tpp_schedule_info *info,
                           tpp__run_part part) {
    int64_t need = 0;
    tpp_status status = tpp__run_check_ranks(run, info, part);
    if (status == TPP_OK)
        status = tpp__run_check_trace(run, part.count * run->lanes);
    if (status == TPP_OK)
        status = tpp__walk_bytes(run, info, part, &need);
    if (status == TPP_OK)
        status = tpp__run_check_memory(run, need);
    if (status < 0)
        return status;
    walk->run = *run;
    walk->info = *info;
    walk->part = part;
    walk->rows = part.count * run->lanes;
    tpp__arena arena = tpp__arena_over(run->memory, need);
    cut(walk, &arena);
    return TPP_OK;
}

/* As in the text form. */
static void name_action(const tpp__walk_failure *failure, char *out, size_t bytes) {
    const tpp_action *a = &failure->action, *b = &failure->second;
    if (b->op)
        snprintf(out, bytes, "(%dF%d;%dB%d)OVERLAP_F_B", a->stage, a->micro, b->stage, b->micro);
    else
        snprintf(out, bytes, "%d%s%d", a->stage, tpp_op_name(a->op), a->micro);
}

tpp_status tpp__walk_end(tpp__walk *walk, tpp_run_report *report) {
    tpp__walk_failure *failure = &walk->failure;
    tpp__run_report_fill(report, walk->row, walk->rows, walk->origin);
    if (!atomic_load(&failure->happened))
        return TPP_OK;
    report->failed_rank = failure->rank;
    report->failed_lane = failure->lane;
    report->failed_stage = failure->action.stage;
    report->failed_micro = failure->action.micro;
    report->failed_op = failure->action.op;
    char name[64];
    name_action(failure, name, sizeof name);
    return tpp__fail(failure->status, "rank %d lane %d, %s: %s", failure->rank, failure->lane, name,
                     failure->message);
}

/* --- Failure ---------------------------------------------------------------------------------- */

bool tpp__walk_failed(tpp__walk *walk) {
    return atomic_load_explicit(&walk->failure.happened, memory_order_acquire);
}

static void stop_all(const tpp__walk *walk) {
    for (int32_t row = 0; row < walk->rows; row++) {
        const tpp__walker *w = &walk->walker[row];
        tpp_comm_abort(w->comm);
        if (w->ops.abort)
            w->ops.abort(w->ctx);
    }
}

static void describe(tpp__walk_failure *f, const tpp__walker *w, const tpp_action *a,
                     tpp_status status) {
    f->status = status;
    f->rank = w->rank;
    f->lane = w->lane;
    f->action = *a;
    f->second = a->flags & TPP_ACTION_FUSED ? a[1] : (tpp_action){0};
    if (tpp_message()[0] != 0)
        snprintf(f->message, sizeof f->message, "%s", tpp_message());
    else
        snprintf(f->message, sizeof f->message, "the callback returned %d (%s) without a message",
                 status, tpp_status_name(status));
}

tpp_status tpp__walk_fail(tpp__walk *walk, const tpp__walker *walker, const tpp_action *action,
                          tpp_status status) {
    tpp__walk_failure *f = &walk->failure;
    tpp__lock_take(&f->lock);
    bool first = !atomic_load(&f->happened);
    /* A comm that fails on one rank aborts the others at once, and one of these may get here before
     * the one that knows why. */
    if (first || (f->status == TPP_ERR_ABORTED && status != TPP_ERR_ABORTED))
        describe(f, walker, action, status);
    atomic_store(&f->happened, true);
    tpp__lock_give(&f->lock);
    if (first)
        stop_all(walk);
    return status;
}
