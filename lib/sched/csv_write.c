/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "sched/action_scan.h"
#include "sched/time_slots.h"

static tpp_status check(const tpp_schedule *s, uint32_t flags) {
    if (!s)
        return tpp__fail(TPP_ERR_INVALID, "schedule is NULL; it must not be");
    if (flags > TPP_CSV_SLOTS)
        return tpp__fail(TPP_ERR_INVALID,
                         "flags = %u; valid: 0, 1 (MESSAGES), 2 (SLOTS); messages have no slots",
                         flags);
    if (flags == TPP_CSV_MESSAGES && s->state < TPP__SCHED_LOWERED)
        return tpp__fail(TPP_ERR_INVALID, "flags = 1 (MESSAGES), but schedule is not lowered; call "
                                          "tpp_schedule_lower first");
    return TPP_OK;
}

static void begin_cell(tpp__text *text, int64_t *cells) {
    tpp__text_s(text, (*cells)++ > 0 ? "," : "");
}

/* `slot`: of the rank's actions; NULL: no idle cells. */
static void write_row(tpp__text *text, const tpp_schedule *s, int32_t rank, bool messages,
                      const int32_t *slot) {
    int64_t count, cells = 0;
    const tpp_action *a = tpp_schedule_actions(s, rank, &count);
    for (int64_t i = 0; i < count && text->status == TPP_OK;) {
        if (tpp__sched_is_message(a[i].op) && !messages) {
            i++;
            continue;
        }
        while (slot && cells < slot[i])
            begin_cell(text, &cells);
        begin_cell(text, &cells);
        i += tpp__sched_put_atom(text, a + i, count - i);
    }
    /* A row without cells must not read as an empty line at the end. */
    tpp__text_s(text, cells > 0 ? "\r\n" : "\"\"\r\n");
}

tpp_status tpp_schedule_write_csv(const tpp_schedule *schedule, uint32_t flags, tpp_write_fn write,
                                  void *ctx) {
    tpp__time_slots slots = {0};
    tpp__text text;
    tpp_status status = check(schedule, flags);
    if (status < 0)
        return status;
    tpp__text_begin(&text, write, ctx);
    status = text.status;
    if (status == TPP_OK && flags == TPP_CSV_SLOTS)
        status = tpp__time_slots_begin(&slots, schedule);
    if (status < 0)
        return status;
    for (int32_t r = 0; r < schedule->ranks && text.status == TPP_OK; r++) {
        const int32_t *slot = slots.slot ? slots.slot + slots.first[r] : NULL;
        write_row(&text, schedule, r, flags == TPP_CSV_MESSAGES, slot);
    }
    tpp__time_slots_end(&slots);
    return tpp__text_end(&text);
}
