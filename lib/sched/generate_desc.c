/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "sched/generate.h"

static tpp_status check_range(const char *field, int32_t value, int32_t low, int32_t high) {
    if (value >= low && value <= high)
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID, "desc.%s = %d is out of range; valid: %d .. %d", field, value,
                     low, high);
}

static tpp_status check_group(const tpp_schedule_desc *d, const tpp__sched_kind *kind) {
    if (d->group != 0 && !kind->grouped)
        return tpp__fail(TPP_ERR_INVALID, "desc.group = %d but kind %s has no groups; set it to 0",
                         d->group, kind->name);
    if (d->group < 0 || d->group > d->micros)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.group = %d is not within 0 .. micros = %d (0 chooses it)", d->group,
                         d->micros);
    return TPP_OK;
}

static tpp_status check_chunks(tpp_schedule_desc *d, const tpp__sched_kind *kind) {
    tpp_status status = check_range("chunks", d->chunks, 0, TPP__SCHED_MAX_CHUNKS);
    if (status < 0)
        return status;
    if (d->chunks == 0)
        d->chunks = kind->chunks > 0 ? kind->chunks : 1;
    if (kind->chunks > 0 && d->chunks != kind->chunks)
        return tpp__fail(TPP_ERR_INVALID, "desc.chunks = %d but kind %s has %d (or 0, the default)",
                         d->chunks, kind->name, kind->chunks);
    if ((int64_t)d->ranks * d->chunks > TPP__SCHED_MAX_STAGES)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.ranks * desc.chunks = %d * %d is more stages than %d", d->ranks,
                         d->chunks, TPP__SCHED_MAX_STAGES);
    return TPP_OK;
}

static const char *placement_name(tpp_placement placement) {
    static const char *const names[] = {"LOOPED", "V", "TWO_WAY", "OWN"};
    return names[placement - TPP_PLACEMENT_LOOPED];
}

static tpp_status check_own(const tpp_schedule_desc *d, const tpp__sched_kind *kind) {
    if (!kind->anywhere)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.placement = 4 (OWN) but kind %s stands on placement %s only",
                         kind->name, placement_name(kind->placement));
    if (d->group != 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.group = %d but placement OWN has no groups; set it to 0", d->group);
    if (!d->rank_of)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.rank_of is NULL; placement OWN needs [stages] ranks");
    tpp_status status = check_range("stages", d->stages, d->ranks, TPP__SCHED_MAX_STAGES);
    for (int32_t i = 0; i < d->stages && status == TPP_OK; i++) {
        if (d->rank_of[i] < 0 || d->rank_of[i] >= d->ranks)
            status = tpp__fail(TPP_ERR_INVALID, "desc.rank_of[%d] = %d; valid: 0 .. %d", i,
                               d->rank_of[i], d->ranks - 1);
    }
    return status;
}

static tpp_status check_placement(tpp_schedule_desc *d, const tpp__sched_kind *kind) {
    tpp_status status = check_range("placement", d->placement, 0, TPP_PLACEMENT_OWN);
    if (status < 0)
        return status;
    if (d->placement == TPP_PLACEMENT_OWN)
        return check_own(d, kind);
    if (d->placement != 0 && d->placement != kind->placement)
        return tpp__fail(TPP_ERR_INVALID, "desc.placement = %d (%s) but kind %s stands on %s",
                         d->placement, placement_name(d->placement), kind->name,
                         placement_name(kind->placement));
    if (d->stages != 0 || d->rank_of)
        return tpp__fail(TPP_ERR_INVALID, "desc.%s is set; it belongs to placement 4 (OWN)",
                         d->rank_of ? "rank_of" : "stages");
    d->placement = kind->placement;
    d->stages = d->ranks * d->chunks;
    return TPP_OK;
}

tpp_status tpp__sched_desc_read(tpp_schedule_desc *d, const tpp_schedule_desc *in) {
    tpp_status status = tpp__sized_read(d, sizeof *d, TPP_SCHEDULE_UNFUSED, in, "desc");
    if (status < 0)
        return status;
    const tpp__sched_kind *kind = tpp__sched_kind_find(d->kind);
    if (!kind) {
        char list[320];
        tpp__sched_kinds_list(list, sizeof list);
        return tpp__fail(TPP_ERR_INVALID, "desc.kind = %d is no schedule; valid: %s", d->kind,
                         list);
    }
    if (d->flags != 0 && !kind->fuses)
        return tpp__fail(
            TPP_ERR_INVALID,
            "desc.flags = 1 (UNFUSED) but kind %s has no overlapped pairs; set it to 0",
            kind->name);
    if (d->reserved0 != 0)
        return tpp__fail(TPP_ERR_INVALID, "desc.reserved0 = %u; must be 0", d->reserved0);
    status = check_range("ranks", d->ranks, 1, TPP__SCHED_MAX_STAGES);
    if (status == TPP_OK)
        status = check_range("micros", d->micros, 1, TPP__SCHED_MAX_MICROS);
    if (status == TPP_OK)
        status = check_chunks(d, kind);
    if (status == TPP_OK)
        status = check_group(d, kind);
    return status < 0 ? status : check_placement(d, kind);
}
