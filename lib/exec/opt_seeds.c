/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "exec/opt_impl.h"

#include <math.h>
#include <stddef.h>

/* Those that are best where they fit come first: a short search of a large case may try no more. */
static const tpp_schedule_kind kinds[] = {
    TPP_SCHEDULE_ZB_H2,       TPP_SCHEDULE_ZB_H1,  TPP_SCHEDULE_ZB_INTERLEAVED, TPP_SCHEDULE_ZB_V,
    TPP_SCHEDULE_DUALPIPEV,   TPP_SCHEDULE_V_HALF, TPP_SCHEDULE_V_MIN,          TPP_SCHEDULE_1F1B,
    TPP_SCHEDULE_INTERLEAVED, TPP_SCHEDULE_V_1F1B, TPP_SCHEDULE_EAGER_1F1B,     TPP_SCHEDULE_BFS,
    TPP_SCHEDULE_GPIPE,
};

/* The same stages on the same ranks. */
static bool agrees(const tpp__opt *o, const tpp_schedule *s) {
    tpp_schedule_info info = {.size = sizeof info};
    tpp_schedule_query(s, &info);
    bool same = info.stages == o->stages && info.chunks == o->chunks;
    for (int32_t i = 0; i < o->stages && same; i++)
        same = tpp_schedule_rank_of(s, i) == o->rank_of[i];
    return same;
}

static void copy(tpp__opt *o, const tpp_schedule *s) {
    for (int32_t r = 0; r < o->ranks; r++) {
        int64_t count;
        const tpp_action *a = tpp_schedule_actions(s, r, &count);
        tpp__opt_code *to = o->order + r * o->length;
        for (int64_t i = 0; i < count; i++) {
            int32_t op = a[i].op == TPP_OP_F   ? TPP__OPT_F
                         : a[i].op == TPP_OP_W ? TPP__OPT_W
                                               : TPP__OPT_I;
            *to++ = tpp__opt_code_of(a[i].chunk, op);
            if (a[i].op == TPP_OP_B)
                *to++ = tpp__opt_code_of(a[i].chunk, TPP__OPT_W);
        }
    }
}

/* One micro-batch after the other: needs no more memory than any order does. */
static void one_by_one(tpp__opt *o) {
    tpp__opt_code *to = o->order;
    for (int64_t i = 0; i < (int64_t)o->ranks * o->micros; i++) {
        for (int32_t c = 0; c < o->chunks; c++)
            *to++ = tpp__opt_code_of(c, TPP__OPT_F);
        for (int32_t c = o->chunks - 1; c >= 0; c--) {
            *to++ = tpp__opt_code_of(c, TPP__OPT_I);
            *to++ = tpp__opt_code_of(c, TPP__OPT_W);
        }
    }
    tpp__opt_offer(o, tpp__opt_evaluate(o, o->order));
}

static void try_kind(tpp__opt *o, tpp_schedule_kind kind) {
    tpp_schedule_desc d = {.size = sizeof d,
                           .kind = kind,
                           .ranks = o->ranks,
                           .chunks = o->chunks,
                           .micros = o->micros,
                           .allocator = &o->allocator};
    tpp_schedule *s;
    if (tpp_schedule_create(&s, &d) < 0)
        return; /* a kind for other numbers */
    if (agrees(o, s)) {
        copy(o, s);
        tpp__opt_offer(o, tpp__opt_evaluate(o, o->order));
    }
    tpp_schedule_destroy(s);
}

void tpp__opt_seeds(tpp__opt *o) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (isfinite(o->best_cost.cost) && !tpp__opt_go_on(o))
            return;
        try_kind(o, kinds[i]);
    }
    if (isinf(o->best_cost.cost))
        one_by_one(o);
}
