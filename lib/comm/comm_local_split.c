/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm_local.h"

#include "base/check.h"

/* Sub-groups of a local group: a collective in which every rank says its colour and key. The
 * lowest rank of each colour makes the group; when all have finished, everybody takes its handle
 * from there. */

static const int32_t *said(tpp__local_group *group, int32_t rank, uint64_t number) {
    return tpp__local_slot_of(group, rank, number)->in;
}

void tpp__local_split_work(tpp__local_rank *me, uint64_t number) {
    tpp__local_group *group = me->group;
    tpp__local_slot *mine = tpp__local_slot_of(group, me->rank, number);
    const int32_t color = said(group, me->rank, number)[0];
    int32_t members = 0, lower = 0;
    for (int32_t r = 0; r < group->size; r++) {
        bool same = said(group, r, number)[0] == color;
        members += same;
        lower += same && r < me->rank;
    }
    if (color < 0 || lower > 0)
        return;
    mine->leads = true;
    mine->child =
        tpp__local_group_create(&group->allocator, members, me->comm.timeout, group->spins, group);
}

/* The rank that could not make its group, or -1; every rank finds the same. */
static int32_t without_memory(tpp__local_group *group, uint64_t number) {
    for (int32_t r = 0; r < group->size; r++) {
        const tpp__local_slot *slot = tpp__local_slot_of(group, r, number);
        if (slot->leads && !slot->child)
            return r;
    }
    return -1;
}

/* This rank's handle: its place among the ranks of its colour, by key, then by rank. */
static tpp_comm *handle_of(tpp__local_rank *me, uint64_t number) {
    tpp__local_group *group = me->group, *child = NULL;
    const int32_t *mine = said(group, me->rank, number);
    int32_t place = 0;
    for (int32_t r = 0; r < group->size; r++) {
        const int32_t *theirs = said(group, r, number);
        if (theirs[0] != mine[0])
            continue;
        if (!child)
            child = tpp__local_slot_of(group, r, number)->child;
        place += theirs[1] < mine[1] || (theirs[1] == mine[1] && r < me->rank);
    }
    return &child->ranks[place].comm;
}

tpp_status tpp__local_split(void *ctx, int32_t color, int32_t key, tpp_comm **out) {
    tpp__local_rank *me = ctx;
    int32_t say[2] = {color, key};
    tpp_request request;
    tpp_comm_call call = {.size = sizeof call, .kind = TPP__COMM_SPLIT, .in = say};
    if (tpp__local_full(me))
        return tpp__fail(TPP_ERR_INVALID,
                         "comm: 16 collectives of rank %d are under way, the most there may be; "
                         "wait for one of them before a split",
                         me->rank);
    tpp_status status = tpp__local_collective(me, &call, &request);
    if (status < 0)
        return status;
    const uint64_t number = tpp__local_node_of(&request)->tag;
    tpp__local_slot *mine = tpp__local_slot_of(me->group, me->rank, number);
    status = tpp__local_wait(me, &request, tpp__comm_deadline(&me->comm));
    if (status < 0) { /* for all ranks: nobody has taken a handle */
        if (mine->child)
            tpp__local_group_destroy(mine->child);
        return status;
    }
    int32_t poor = without_memory(me->group, number);
    if (poor >= 0) {
        /* The pointer stays in the slot, where others may still look whether it is NULL. */
        if (mine->child)
            tpp__local_group_destroy(mine->child);
        return tpp__fail(TPP_ERR_NO_MEMORY, "rank %d had no memory for the sub-group of color = %d",
                         poor, said(me->group, poor, number)[0]);
    }
    if (color >= 0)
        *out = handle_of(me, number);
    return TPP_OK;
}
