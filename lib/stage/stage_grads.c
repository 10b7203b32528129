/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "stage/stage_impl.h"

#include "base/check.h"
#include "kern/kern.h"

#include <string.h>

/* Gradients after the last backward: both halves of the micro-batches, both directions. */

static int64_t elements_of(const tpp_layer_info *info) {
    return info->grad_bytes / tpp__dtype_bytes(info->grad_dtype);
}

tpp_status tpp_stage_join_grads(tpp_stage *stage) {
    if (!stage)
        return tpp__fail(TPP_ERR_INVALID, "stage is NULL");
    for (int32_t c = 0; c < stage->chunks; c++) {
        const tpp_layer_info *info = &stage->infos[c];
        if (!stage->late[c] || info->grad_bytes == 0)
            continue;
        tpp__kern_add(info->grad_dtype, elements_of(info), stage->late[c], stage->grads[c]);
        memset(stage->late[c], 0, (size_t)info->grad_bytes);
    }
    return TPP_OK;
}

/* --- Mirrors ---------------------------------------------------------------------------------- */

/* The arguments of tpp_stage_sum_mirrors. */
typedef struct mirrors {
    tpp_stage *const *stages;
    int32_t first, count; /* ranks that are here */
    int32_t depth;
    const tpp_schedule *schedule;
    tpp_comm *comm;
    void *scratch;
    int64_t scratch_bytes;
} mirrors;

/* A virtual stage that is here. */
typedef struct place {
    const tpp_layer_info *info; /* NULL: it is elsewhere */
    void *grads;
} place;

static place find(const mirrors *m, int32_t stage) {
    int32_t at = tpp_schedule_rank_of(m->schedule, stage) - m->first, chunk = 0;
    if (at < 0 || at >= m->count)
        return (place){NULL, NULL};
    while (tpp_schedule_stage_of(m->schedule, m->first + at, chunk) != stage)
        chunk++;
    const tpp_stage *holder = m->stages[at];
    return (place){&holder->infos[chunk], holder->grads[chunk]};
}

static tpp_status sum_here(int32_t stage, const place *a, const place *b) {
    if (a->info->grad_bytes != b->info->grad_bytes || a->info->grad_dtype != b->info->grad_dtype)
        return tpp__fail(
            TPP_ERR_INVALID,
            "stages of both directions that are the model's stage %d have gradients of "
            "%lld and %lld bytes; they must be alike",
            stage, (long long)a->info->grad_bytes, (long long)b->info->grad_bytes);
    tpp__kern_add(a->info->grad_dtype, elements_of(a->info), b->grads, a->grads);
    memcpy(b->grads, a->grads, (size_t)a->info->grad_bytes);
    return TPP_OK;
}

/* Between runs no message of a schedule is under way, and a rank's next step begins after this. */
static uint64_t tag_of(int32_t stage) {
    return UINT64_MAX - (1u << 22) + (uint64_t)stage;
}

static tpp_status sum_with(const mirrors *m, int32_t stage, const place *own, int32_t peer) {
    const tpp_layer_info *info = own->info;
    tpp_request out = {0}, in = {0};
    if (m->scratch_bytes < info->grad_bytes)
        return tpp__fail(TPP_ERR_TOO_SMALL,
                         "scratch_bytes = %lld is too small; this call needs %lld",
                         (long long)m->scratch_bytes, (long long)info->grad_bytes);
    tpp_status sent = tpp_comm_send_start(m->comm, own->grads, elements_of(info), info->grad_dtype,
                                          peer, tag_of(stage), &out);
    if (sent < 0)
        return sent;
    tpp_status got = tpp_comm_recv_start(m->comm, m->scratch, elements_of(info), info->grad_dtype,
                                         peer, tag_of(stage), &in);
    if (got == TPP_OK)
        got = tpp_comm_wait(&in);
    if (got < 0)
        tpp_comm_abort(m->comm); /* the message has to come back */
    sent = tpp_comm_wait(&out);
    if (got == TPP_OK && sent == TPP_OK)
        tpp__kern_add(info->grad_dtype, elements_of(info), m->scratch, own->grads);
    return got < 0 ? got : sent;
}

/* The pairs are taken in the order of the model: the first that is not done never waits. */
static tpp_status sum_pair(const mirrors *m, int32_t stage) {
    place a = find(m, stage), b = find(m, stage + m->depth);
    if (!a.info && !b.info)
        return TPP_OK;
    if (a.info && b.info)
        return sum_here(stage, &a, &b);
    int32_t other = a.info ? stage + m->depth : stage;
    return sum_with(m, stage, a.info ? &a : &b, tpp_schedule_rank_of(m->schedule, other));
}

static tpp_status check_stages(const mirrors *m, const tpp_schedule_info *info) {
    for (int32_t i = 0; i < m->count; i++) {
        int32_t rank = m->first + i, chunks = 0;
        while (tpp_schedule_stage_of(m->schedule, rank, chunks) >= 0)
            chunks++;
        if (!m->stages[i])
            return tpp__fail(TPP_ERR_INVALID, "stages[%d] is NULL", i);
        if (m->stages[i]->chunks != chunks || m->stages[i]->no_grad)
            return tpp__fail(TPP_ERR_INVALID,
                             "stages[%d] has %d chunks%s; rank %d of the schedule has %d", i,
                             m->stages[i]->chunks,
                             m->stages[i]->no_grad ? " without gradients" : "", rank, chunks);
    }
    if (m->count < info->ranks && (!m->scratch || (uintptr_t)m->scratch % TPP__ALIGN != 0))
        return tpp__fail(TPP_ERR_INVALID, "scratch is %s; it must be aligned to %d bytes",
                         m->scratch ? "not aligned" : "NULL", TPP__ALIGN);
    return TPP_OK;
}

static tpp_status check(mirrors *m, tpp_schedule_info *info) {
    if (!m->stages)
        return tpp__fail(TPP_ERR_INVALID, "stages is NULL");
    tpp_status status = tpp_schedule_query(m->schedule, info);
    if (status < 0)
        return status;
    bool alone = m->comm && m->count == 1 && info->ranks > 1;
    if (alone && tpp_comm_size(m->comm) != info->ranks)
        return tpp__fail(TPP_ERR_INVALID, "comm has %d ranks; the schedule has %d",
                         tpp_comm_size(m->comm), info->ranks);
    if (!alone && m->count != info->ranks)
        return tpp__fail(TPP_ERR_INVALID,
                         "count = %d; it must be %d, the schedule's ranks, or 1 with comm",
                         m->count, info->ranks);
    m->first = alone ? tpp_comm_rank(m->comm) : 0;
    m->depth = info->depth;
    return info->directions > 1 ? check_stages(m, info) : TPP_OK;
}

tpp_status tpp_stage_sum_mirrors(tpp_stage *const *stages, int32_t count,
                                 const tpp_schedule *schedule, tpp_comm *comm, void *scratch,
                                 int64_t scratch_bytes) {
    mirrors m = {.stages = stages,
                 .count = count,
                 .schedule = schedule,
                 .comm = comm,
                 .scratch = scratch,
                 .scratch_bytes = scratch_bytes};
    tpp_schedule_info info = {.size = sizeof info};
    tpp_status status = check(&m, &info);
    for (int32_t s = 0; s < m.depth && info.directions > 1 && status == TPP_OK; s++)
        status = sum_pair(&m, s);
    return status;
}
