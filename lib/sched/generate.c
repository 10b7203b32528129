/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/generate.h"

#include "base/check.h"

static const struct {
    const char *name;
    tpp__sched_generator *generate;
    bool chunked;
} kinds[] = {
    [TPP_SCHEDULE_GPIPE] = {"GPIPE", tpp__sched_gpipe, false},
    [TPP_SCHEDULE_1F1B] = {"1F1B", tpp__sched_1f1b, false},
    [TPP_SCHEDULE_INTERLEAVED] = {"INTERLEAVED", tpp__sched_interleaved, true},
};

static tpp_status check_range(const char *field, int32_t value, int32_t low, int32_t high) {
    if (value >= low && value <= high)
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID, "desc.%s = %d is out of range; valid: %d .. %d", field, value,
                     low, high);
}

/* chunks and group belong to the kinds that run several chunks on a rank. */
static tpp_status check_chunks(tpp_schedule_desc *d) {
    const char *name = kinds[d->kind].name;
    tpp_status status = check_range("chunks", d->chunks, 0, TPP__SCHED_MAX_CHUNKS);
    if (status < 0)
        return status;
    if (d->chunks == 0)
        d->chunks = 1;
    if (d->chunks > 1 && !kinds[d->kind].chunked)
        return tpp__fail(TPP_ERR_INVALID, "desc.chunks = %d but kind %s has 1 (or 0, the default)",
                         d->chunks, name);
    if (d->group != 0 && !kinds[d->kind].chunked)
        return tpp__fail(TPP_ERR_INVALID, "desc.group = %d but kind %s has no groups; set it to 0",
                         d->group, name);
    if (d->group < 0 || d->group > d->micros)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.group = %d is not within 0 .. micros = %d (0 chooses it)", d->group,
                         d->micros);
    if ((int64_t)d->ranks * d->chunks > TPP__SCHED_MAX_STAGES)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.ranks * desc.chunks = %d * %d is more stages than %d", d->ranks,
                         d->chunks, TPP__SCHED_MAX_STAGES);
    return TPP_OK;
}

static tpp_status read_desc(tpp_schedule_desc *d, const tpp_schedule_desc *in) {
    tpp_status status = tpp__sized_read(d, sizeof *d, 0, in, "desc");
    if (status < 0)
        return status;
    if (d->kind < TPP_SCHEDULE_GPIPE || d->kind > TPP_SCHEDULE_INTERLEAVED)
        return tpp__fail(
            TPP_ERR_INVALID,
            "desc.kind = %d is no schedule; valid: 1 (GPIPE), 2 (1F1B), 3 (INTERLEAVED)", d->kind);
    if (d->reserved0 != 0)
        return tpp__fail(TPP_ERR_INVALID, "desc.reserved0 = %u; must be 0", d->reserved0);
    status = check_range("ranks", d->ranks, 1, TPP__SCHED_MAX_STAGES);
    if (status == TPP_OK)
        status = check_range("micros", d->micros, 1, TPP__SCHED_MAX_MICROS);
    return status < 0 ? status : check_chunks(d);
}

static tpp_status fill(tpp_schedule *s, const tpp_schedule_desc *d) {
    for (int32_t i = 0; i < s->stages; i++)
        s->rank_of[i] = i % s->ranks;
    tpp_status status = tpp__sched_place(s);
    if (status == TPP_OK)
        status = tpp__sched_reserve(s, 2 * (int64_t)s->stages * s->micros);
    if (status < 0)
        return status;
    tpp__sched_emitter e = {s, s->actions};
    for (int32_t r = 0; r < s->ranks; r++) {
        kinds[d->kind].generate(&e, d, r);
        s->first[r + 1] = e.next - s->actions;
    }
    return TPP_OK;
}

tpp_status tpp_schedule_create(tpp_schedule **out, const tpp_schedule_desc *desc) {
    tpp_schedule_desc d;
    tpp_allocator allocator;
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a schedule pointer");
    *out = NULL;
    tpp_status status = read_desc(&d, desc);
    if (status == TPP_OK)
        status = tpp__allocator_read(&allocator, d.allocator);
    tpp_schedule *s = NULL;
    if (status == TPP_OK)
        status = tpp__sched_new(&s, &allocator, d.ranks, d.ranks * d.chunks, d.micros);
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
