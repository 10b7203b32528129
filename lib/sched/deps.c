/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/deps.h"

int tpp__sched_needs(int32_t depth, int32_t stages, const tpp_action *a, tpp__sched_need out[2]) {
    int n = 0;
    switch (a->op) {
    case TPP_OP_F:
        if (a->stage != 0 && a->stage != depth)
            out[n++] = (tpp__sched_need){TPP__SCHED_F, a->stage - 1, a->micro};
        return n;
    case TPP_OP_B:
    case TPP_OP_I:
        out[n++] = (tpp__sched_need){TPP__SCHED_F, a->stage, a->micro};
        if (a->stage != depth - 1 && a->stage != stages - 1)
            out[n++] = (tpp__sched_need){TPP__SCHED_I, a->stage + 1, a->micro};
        return n;
    case TPP_OP_W:
        out[n++] = (tpp__sched_need){TPP__SCHED_I, a->stage, a->micro};
        return n;
    default:
        return 0;
    }
}

int tpp__sched_makes(const tpp_action *a, tpp__sched_need out[2]) {
    int n = 0;
    if (a->op == TPP_OP_F)
        out[n++] = (tpp__sched_need){TPP__SCHED_F, a->stage, a->micro};
    if (a->op == TPP_OP_B || a->op == TPP_OP_I)
        out[n++] = (tpp__sched_need){TPP__SCHED_I, a->stage, a->micro};
    if (a->op == TPP_OP_B || a->op == TPP_OP_W)
        out[n++] = (tpp__sched_need){TPP__SCHED_W, a->stage, a->micro};
    return n;
}
