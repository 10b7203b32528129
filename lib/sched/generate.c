/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/generate.h"

#include "base/check.h"

static int32_t rank_of(const tpp_schedule_desc *d, int32_t stage) {
    int32_t turn = stage / d->ranks, place = stage % d->ranks;
    switch (d->placement) {
    case TPP_PLACEMENT_OWN:
        return d->rank_of[stage];
    case TPP_PLACEMENT_LOOPED:
        return place;
    default:
        return turn == 0 ? place : d->ranks - 1 - place;
    }
}

static tpp_status fill(tpp_schedule *s, const tpp_schedule_desc *d) {
    const tpp__sched_kind *kind = tpp__sched_kind_find(d->kind);
    for (int32_t i = 0; i < s->stages; i++)
        s->rank_of[i] = rank_of(d, i);
    if (d->placement == TPP_PLACEMENT_TWO_WAY)
        tpp__sched_two_way(s);
    tpp_status status = tpp__sched_place(s);
    if (status == TPP_OK)
        status = tpp__sched_reserve(s, kind->per_cell * (int64_t)s->stages * s->micros);
    if (status < 0)
        return status;
    tpp__sched_emitter e = {s, s->actions, d->flags & TPP_SCHEDULE_UNFUSED};
    for (int32_t r = 0; r < s->ranks && kind->generate; r++) {
        kind->generate(&e, d, r);
        s->first[r + 1] = e.next - s->actions;
    }
    if (kind->whole)
        status = kind->whole(s, d);
    tpp__sched_traits(s);
    return status;
}

tpp_status tpp_schedule_create(tpp_schedule **out, const tpp_schedule_desc *desc) {
    tpp_schedule_desc d;
    tpp_allocator allocator;
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a schedule pointer");
    *out = NULL;
    tpp_status status = tpp__sched_desc_read(&d, desc);
    if (status == TPP_OK)
        status = tpp__allocator_read(&allocator, d.allocator);
    tpp_schedule *s = NULL;
    if (status == TPP_OK)
        status = tpp__sched_new(&s, &allocator, d.ranks, d.stages, d.micros);
    if (status == TPP_OK)
        status = fill(s, &d);
    if (status < 0) {
        tpp_schedule_destroy(s);
        return status;
    }
    *out = s;
    return TPP_OK;
}

tpp_status tpp_schedule_make(tpp_schedule **out, const tpp_schedule_desc *desc) {
    tpp_status status = tpp_schedule_create(out, desc);
    if (status < 0)
        return status;
    status = tpp_schedule_lower(*out);
    if (status == TPP_OK)
        status = tpp_schedule_finish(*out);
    if (status < 0) {
        tpp_schedule_destroy(*out);
        *out = NULL;
    }
    return status;
}
