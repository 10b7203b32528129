/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/run_check.h"

#include "base/alloc.h"
#include "base/check.h"

#include <stdio.h>

_Static_assert(sizeof(tpp_run_rank) == 32, "tpp_run_rank is frozen");

tpp_status tpp__run_read(tpp_run *out, tpp_schedule_info *info, const tpp_run *in) {
    tpp_status status = tpp__sized_read(out, sizeof *out, 0, in, "run");
    if (status < 0)
        return status;
    out->size = sizeof *out;
    if (!out->schedule)
        return tpp__fail(TPP_ERR_INVALID, "run.schedule is NULL; it must be a finished schedule");
    *info = (tpp_schedule_info){.size = sizeof *info};
    status = tpp_schedule_query(out->schedule, info);
    if (status < 0)
        return status;
    if (!info->finished)
        return tpp__fail(TPP_ERR_INVALID,
                         "run.schedule is not finished; call tpp_schedule_lower and _finish first");
    if (out->lanes < 0)
        return tpp__fail(TPP_ERR_INVALID, "run.lanes = %d; it must be at least 1 (0 means 1)",
                         out->lanes);
    if (out->lanes == 0)
        out->lanes = 1;
    if (out->lanes > INT32_MAX / info->ranks)
        return tpp__fail(TPP_ERR_OVERFLOW, "run.lanes = %d times %d ranks do not fit into 32 bits",
                         out->lanes, info->ranks);
    if (out->message_count < 0)
        return tpp__fail(TPP_ERR_INVALID, "run.message_count = %lld; it must be at least 0",
                         (long long)out->message_count);
    return TPP_OK;
}

tpp__run_facts tpp__run_survey(const tpp_schedule *schedule, int32_t rank) {
    tpp__run_facts facts = {0, 0};
    int64_t count;
    const tpp_action *a = tpp_schedule_actions(schedule, rank, &count);
    for (int64_t i = 0; i < count; i++) {
        facts.ops |= 1u << a[i].op;
        if (a[i].slot >= facts.slots)
            facts.slots = a[i].slot + 1;
    }
    return facts;
}

tpp_status tpp__run_check_message(const tpp_run *run, const tpp_schedule_info *info) {
    /* A model of one stage passes nothing on, so it need not say of what type. */
    if (info->stages > 1 && tpp__dtype_bytes(run->message_dtype) == 0)
        return tpp__fail(
            TPP_ERR_INVALID,
            "run.message_dtype = %d; valid: TPP_F32, TPP_F64, TPP_BF16, TPP_I32, TPP_I64",
            run->message_dtype);
    return TPP_OK;
}

static tpp_status check_ops(const tpp_run *run, int32_t row, int32_t rank, uint32_t used) {
    char name[64];
    tpp_stage_ops ops;
    snprintf(name, sizeof name, "run.ranks[%d].ops", row);
    tpp_status status = tpp__sized_read(&ops, sizeof ops, 0, run->ranks[row].ops, name);
    if (status < 0)
        return status;
    const struct {
        const char *field;
        int32_t op;
        bool set;
    } slots[] = {
        {"forward", TPP_OP_F, ops.forward != NULL},
        {"backward", TPP_OP_B, ops.backward != NULL},
        {"backward_input", TPP_OP_I, ops.backward_input != NULL},
        {"backward_weight", TPP_OP_W, ops.backward_weight != NULL},
    };
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        if ((used & (1u << slots[i].op)) && !slots[i].set)
            return tpp__fail(TPP_ERR_INVALID, "%s->%s is NULL; the schedule of rank %d has %s",
                             name, slots[i].field, rank, tpp_op_name(slots[i].op));
    }
    return TPP_OK;
}

static tpp_status check_comm(const tpp_run *run, int32_t row, int32_t rank, int32_t ranks) {
    const tpp_comm *comm = run->ranks[row].comm;
    if (ranks == 1)
        return TPP_OK;
    if (!comm)
        return tpp__fail(TPP_ERR_INVALID,
                         "run.ranks[%d].comm is NULL; it must be rank %d of a group of %d", row,
                         rank, ranks);
    if (tpp_comm_size(comm) != ranks || tpp_comm_rank(comm) != rank)
        return tpp__fail(TPP_ERR_INVALID,
                         "run.ranks[%d].comm is rank %d of a group of %d; it must be rank %d of %d",
                         row, tpp_comm_rank(comm), tpp_comm_size(comm), rank, ranks);
    return TPP_OK;
}

tpp_status tpp__run_check_ranks(const tpp_run *run, const tpp_schedule_info *info,
                                tpp__run_part part) {
    if (!run->ranks)
        return tpp__fail(TPP_ERR_INVALID,
                         "run.ranks is NULL; it must have %d entries (%d ranks x %d lanes)",
                         part.count * run->lanes, part.count, run->lanes);
    for (int32_t i = 0; i < part.count; i++) {
        int32_t rank = part.first + i;
        uint32_t used = tpp__run_survey(run->schedule, rank).ops;
        for (int32_t row = i * run->lanes; row < (i + 1) * run->lanes; row++) {
            tpp_status status = check_ops(run, row, rank, used);
            if (status == TPP_OK)
                status = check_comm(run, row, rank, info->ranks);
            if (status < 0)
                return status;
        }
    }
    return TPP_OK;
}

tpp_status tpp__run_check_trace(const tpp_run *run, int32_t rows) {
    if (run->trace && tpp_trace_rows(run->trace) < rows)
        return tpp__fail(TPP_ERR_INVALID, "run.trace has %d rows; this run fills %d",
                         tpp_trace_rows(run->trace), rows);
    return TPP_OK;
}

tpp_status tpp__run_check_memory(const tpp_run *run, int64_t need) {
    if (run->memory_bytes < need)
        return tpp__fail(TPP_ERR_TOO_SMALL,
                         "run.memory_bytes = %lld; this run needs %lld (tpp_run_query)",
                         (long long)run->memory_bytes, (long long)need);
    if (!run->memory)
        return tpp__fail(TPP_ERR_INVALID, "run.memory is NULL; this run needs %lld bytes",
                         (long long)need);
    if ((uintptr_t)run->memory % TPP__ALIGN != 0)
        return tpp__fail(TPP_ERR_INVALID, "run.memory = %p is not aligned to %d bytes", run->memory,
                         TPP__ALIGN);
    return TPP_OK;
}
