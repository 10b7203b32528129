/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/assemble.h"

#include "base/check.h"

typedef struct extent {
    int32_t ranks, stages, micros;
    int64_t actions, messages;
} extent;

static void include(extent *e, const tpp_action *a) {
    e->stages = a->stage >= e->stages ? a->stage + 1 : e->stages;
    e->micros = a->micro >= e->micros ? a->micro + 1 : e->micros;
    e->actions++;
    e->messages += tpp__sched_is_message(a->op);
}

static tpp_status measure(const tpp__sched_source *from, extent *e) {
    tpp__sched_atom atom = {0};
    from->rewind(from->ctx);
    for (;;) {
        int32_t what = from->next(from->ctx, &atom);
        if (what < 0 || what == TPP__SCHED_TEXT_END)
            return what < 0 ? what : TPP_OK;
        for (int32_t i = 0; i < atom.count && what == TPP__SCHED_ATOM; i++)
            include(e, &atom.actions[i]);
        e->ranks += what == TPP__SCHED_ROW_END;
        if (e->ranks > TPP__SCHED_MAX_STAGES)
            return tpp__fail(TPP_ERR_PARSE, "the text has more than %d ranks",
                             TPP__SCHED_MAX_STAGES);
    }
}

static tpp_status check_extent(extent *e, int32_t directions) {
    if (e->actions == 0)
        return tpp__fail(TPP_ERR_PARSE, "the text holds no action");
    if (e->micros == 1) /* direction 1 has none, so no action names its stages */
        e->stages *= directions;
    if (e->stages % directions != 0)
        return tpp__fail(TPP_ERR_SCHEDULE,
                         "two directions of %d stages: stages 0 .. %d must be an even number",
                         e->stages, e->stages - 1);
    return TPP_OK;
}

static tpp_status own(tpp_schedule *s, const tpp__sched_source *from, int32_t stage, int32_t rank) {
    int32_t *owner = s->rank_of + stage;
    if (*owner >= 0 && *owner != rank) {
        char where[64];
        from->where(from->ctx, where, sizeof where);
        return tpp__fail(TPP_ERR_SCHEDULE, "%s: stage %d is on rank %d already, so not on rank %d",
                         where, stage, *owner, rank);
    }
    *owner = rank;
    return TPP_OK;
}

static tpp_status fill(tpp_schedule *s, const tpp__sched_source *from) {
    tpp__sched_atom atom = {0};
    tpp_action *to = s->actions;
    int32_t rank = 0;
    for (int32_t i = 0; i < s->stages; i++)
        s->rank_of[i] = -1;
    from->rewind(from->ctx);
    for (;;) {
        int32_t what = from->next(from->ctx, &atom);
        if (what == TPP__SCHED_ROW_END)
            s->first[++rank] = to - s->actions;
        if (what < 0 || what == TPP__SCHED_TEXT_END)
            return what < 0 ? what : TPP_OK;
        for (int32_t i = 0; i < atom.count && what == TPP__SCHED_ATOM; i++) {
            *to++ = atom.actions[i];
            tpp_status status = own(s, from, atom.actions[i].stage, rank);
            if (status < 0)
                return status;
        }
    }
}

static tpp_status place(tpp_schedule *s) {
    for (int32_t i = s->depth; i < s->stages && s->micros == 1; i++) {
        int32_t mirrored = s->rank_of[i - s->depth];
        s->rank_of[i] = mirrored < 0 ? -1 : s->ranks - 1 - mirrored;
    }
    for (int32_t i = 0; i < s->stages; i++) {
        if (s->rank_of[i] < 0)
            return tpp__fail(TPP_ERR_SCHEDULE, "stage %d is on no rank, but stage %d is there", i,
                             s->stages - 1);
    }
    tpp_status status = tpp__sched_place(s);
    if (status < 0)
        return status;
    for (int64_t i = 0; i < s->first[s->ranks]; i++)
        tpp__sched_address(s, s->actions + i);
    return TPP_OK;
}

static tpp_status build(tpp_schedule *s, const tpp__sched_source *from, const extent *e) {
    if (from->directions == 2)
        tpp__sched_two_way(s);
    tpp_status status = tpp__sched_reserve(s, e->actions);
    if (status == TPP_OK)
        status = fill(s, from);
    if (status == TPP_OK)
        status = place(s);
    if (status < 0)
        return status;
    tpp__sched_traits(s);
    if (e->messages == 0)
        return TPP_OK;
    s->state = TPP__SCHED_LOWERED;
    s->messages = e->messages / 2;
    /* With fewer actions it is incomplete, and not worth its tables. */
    if (e->actions >= (int64_t)s->stages * s->micros / s->directions)
        tpp__sched_slots(s, &status);
    if (status == TPP_OK && s->forward_only && tpp__sched_complete(s) == TPP_OK)
        status = tpp__sched_linger(s);
    return status;
}

tpp_status tpp__sched_check_text(tpp_schedule **out, const char *text, int64_t bytes) {
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a schedule pointer");
    *out = NULL;
    if (!text || bytes < 0)
        return tpp__fail(TPP_ERR_INVALID, "text is %s and bytes = %lld; valid: text and its length",
                         text ? "there" : "NULL", (long long)bytes);
    return TPP_OK;
}

tpp_status tpp__sched_assemble(tpp_schedule **out, const tpp__sched_source *from,
                               const tpp_allocator *allocator) {
    extent e = {0};
    tpp_allocator kept;
    tpp_schedule *s = NULL;
    tpp_status status = tpp__allocator_read(&kept, allocator);
    if (status == TPP_OK)
        status = measure(from, &e);
    if (status == TPP_OK)
        status = check_extent(&e, from->directions);
    if (status == TPP_OK)
        status = tpp__sched_new(&s, &kept, e.ranks, e.stages, e.micros);
    if (status == TPP_OK)
        status = build(s, from, &e);
    if (status < 0) {
        tpp_schedule_destroy(s);
        return status;
    }
    *out = s;
    return TPP_OK;
}
