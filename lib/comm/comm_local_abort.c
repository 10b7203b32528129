/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm_local.h"

#include "base/check.h"

#include <stdio.h>

/* How a local group fails: once, for one reason, on all ranks, without pulling a buffer from
 * under a rank that is using it. */

void tpp__local_wake_all(tpp__local_group *group) {
    for (int32_t r = 0; r < group->size; r++)
        tpp__spot_wake(&group->ranks[r].spot);
}

void tpp__local_fail(tpp__local_group *group, int32_t culprit, tpp_status status,
                     const char *text) {
    tpp__lock_take(&group->lock);
    if (atomic_load(&group->aborted)) {
        tpp__lock_give(&group->lock);
        return;
    }
    group->status = status;
    group->culprit = culprit;
    snprintf(group->text, sizeof group->text, "%s", text);
    atomic_store(&group->aborted, 1);
    /* Under the lock, because a child leaves the list before it is freed. */
    for (tpp__local_group *child = group->children; child; child = child->sibling)
        tpp__local_fail(child, -1, TPP_ERR_ABORTED, "");
    tpp__lock_give(&group->lock);
    tpp__local_wake_all(group);
}

bool tpp__local_enter(tpp__local_rank *me) {
    /* Both sides of this pair are sequentially consistent: either we see aborted, or who aborts
     * sees us. */
    atomic_store(&me->inside, 1);
    if (!atomic_load(&me->group->aborted))
        return true;
    tpp__local_leave(me);
    return false;
}

void tpp__local_leave(tpp__local_rank *me) {
    atomic_store(&me->inside, 0);
    if (atomic_load(&me->group->aborted))
        tpp__local_wake_all(me->group);
}

bool tpp__local_quiet(tpp__local_group *group) {
    if (!atomic_load(&group->aborted))
        return false;
    for (int32_t r = 0; r < group->size; r++) {
        if (atomic_load(&group->ranks[r].inside))
            return false;
    }
    return true;
}

tpp_status tpp__local_failure(tpp__local_rank *me) {
    tpp__local_group *group = me->group;
    if (group->culprit == me->rank && group->status != TPP_ERR_ABORTED)
        return tpp__fail(group->status, "%s", group->text);
    if (group->culprit < 0)
        return tpp__fail(TPP_ERR_ABORTED,
                         "the group was aborted together with the group it was split from");
    return tpp__fail(TPP_ERR_ABORTED, "the group was aborted through rank %d%s%s", group->culprit,
                     group->text[0] ? ": " : "", group->text);
}

tpp_status tpp__local_blocked(tpp__local_rank *me) {
    return tpp__local_quiet(me->group) ? tpp__local_failure(me) : TPP_PENDING;
}
