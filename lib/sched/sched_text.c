/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "sched/action_scan.h"

tpp_status tpp_schedule_write_text(const tpp_schedule *schedule, tpp_write_fn write, void *ctx) {
    if (!schedule)
        return tpp__fail(TPP_ERR_INVALID, "schedule is NULL; it must not be");
    tpp_schedule_info info = {.size = sizeof info};
    tpp__text text;
    tpp_schedule_query(schedule, &info);
    tpp__text_begin(&text, write, ctx);
    if (info.directions == 2)
        tpp__text_s(&text, "directions 2\n");
    for (int32_t r = 0; r < info.ranks; r++) {
        int64_t count;
        const tpp_action *a = tpp_schedule_actions(schedule, r, &count);
        for (int64_t i = 0; i < count && text.status == TPP_OK;) {
            tpp__text_s(&text, i > 0 ? " " : "");
            i += tpp__sched_put_atom(&text, a + i, count - i);
        }
        tpp__text_s(&text, count > 0 ? "\n" : "-\n");
    }
    return tpp__text_end(&text);
}
