/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/check.h"
#include "sched/sched_impl.h"

tpp_status tpp_schedule_write_text(const tpp_schedule *schedule, tpp_write_fn write, void *ctx) {
    if (!schedule)
        return tpp__fail(TPP_ERR_INVALID, "schedule is NULL; it must not be");
    tpp__text text;
    tpp__text_begin(&text, write, ctx);
    for (int32_t r = 0; r < schedule->ranks; r++) {
        int64_t first = schedule->first[r], end = schedule->first[r + 1];
        for (int64_t i = first; i < end && text.status == TPP_OK; i++) {
            const tpp_action *a = schedule->actions + i;
            tpp__text_f(&text, "%s%d%s%d", i > first ? " " : "", a->stage, tpp__op_name(a->op),
                        a->micro);
        }
        tpp__text_s(&text, "\n");
    }
    return tpp__text_end(&text);
}
