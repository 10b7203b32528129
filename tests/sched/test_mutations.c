/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sched/sched_impl.h"
#include "support/sched_faults.h"
#include "support/sched_judge.h"
#include "support/sched_sim.h"
#include "support/sched_support.h"

#include <stdbool.h>
#include <stdio.h>
#include <tpp/deadlock.h>

/* Every built-in order is broken in every way: an action deleted, doubled, exchanged with another,
 * given another operation, stage, micro-batch, rank, peer, tag, chunk or flag, before lowering and
 * after. The check refuses with a reason that is true, or what was made is right after all, which a
 * run of it tells. */

static int refused[SCHED_FAULTS], accepted;

/* --- A schedule of the same sizes with other actions --- */

static tpp_schedule *made_of(const tpp_schedule *like, const sched_plan *p) {
    tpp_schedule *s = NULL;
    assert_ok(tpp__sched_new(&s, &like->allocator, p->ranks, p->stages, p->micros));
    if (p->depth < p->stages)
        tpp__sched_two_way(s);
    memcpy(s->rank_of, p->rank_of, (size_t)p->stages * sizeof *s->rank_of);
    assert_ok(tpp__sched_place(s));
    assert_ok(tpp__sched_reserve(s, p->ranks * SCHED_PLAN_ACTIONS));
    tpp_action *to = s->actions;
    for (int32_t r = 0; r < p->ranks; r++) {
        for (int32_t i = 0; i < p->count[r]; i++)
            *to++ = p->of[r][i];
        s->first[r + 1] = to - s->actions;
    }
    tpp__sched_traits(s);
    return s;
}

/* Lowered as reading its text would. */
static void take_as_lowered(tpp_schedule *s, int64_t messages, bool complete) {
    tpp_status status = TPP_OK;
    s->state = TPP__SCHED_LOWERED;
    s->messages = messages;
    if (complete)
        tpp__sched_slots(s, &status);
    assert_ok(status);
    if (complete && s->forward_only && tpp__sched_complete(s) == TPP_OK)
        assert_ok(tpp__sched_linger(s));
}

/* --- Verdicts --- */

/* What the library says, as one of the faults; 0: nothing. */
static uint32_t said(tpp_status status) {
    static const struct {
        const char *words;
        uint32_t fault;
    } all[] = {{"is missing", SCHED_MISSING},         {"are missing", SCHED_MISSING},
               {"is doubled", SCHED_DOUBLED},         {"foreign", SCHED_FOREIGN},
               {"which is none", SCHED_FOREIGN},      {" stands on rank ", SCHED_MISPLACED},
               {"it must have", SCHED_WRONG_FIELD},   {"fused", SCHED_BAD_PAIR},
               {"has flags", SCHED_BAD_PAIR},         {" stands before ", SCHED_EARLY},
               {" overwrites slot ", SCHED_OVERWRITE}};
    if (status == TPP_OK)
        return 0;
    if (status == TPP_ERR_DEADLOCK)
        return SCHED_STUCK;
    for (size_t i = 0; i < sizeof all / sizeof *all && status == TPP_ERR_SCHEDULE; i++) {
        if (strstr(tpp_message(), all[i].words))
            return all[i].fault;
    }
    fail_msg("%s: '%s' is no reason", tpp_status_name(status), tpp_message());
    return 0;
}

static void note(uint32_t fault) {
    if (fault == 0)
        accepted++;
    for (int i = 0; i < SCHED_FAULTS; i++)
        refused[i] += fault == 1u << i;
}

/* Under a channel the order is right, or the check names what a run runs into. */
static void channels(const tpp_schedule *s, const char *what) {
    for (tpp_channel channel = TPP_CHANNEL_RENDEZVOUS; channel <= TPP_CHANNEL_TAGGED; channel++) {
        for (int32_t capacity = 0; capacity < (channel > TPP_CHANNEL_RENDEZVOUS ? 3 : 1);
             capacity++) {
            judge_verdict run = sched_judge(s, channel, capacity, 7);
            tpp_status status = tpp_schedule_check_channel(s, channel, capacity);
            bool agrees = run == JUDGE_RIGHT ? status == TPP_OK : status < 0;
            bool fifo = status == TPP_ERR_SCHEDULE && strstr(tpp_message(), "FIFO");
            if (status == TPP_ERR_SCHEDULE && !fifo)
                agrees &= (said(status) & (SCHED_EARLY | SCHED_OVERWRITE)) != 0;
            if (!agrees)
                fail_msg("%s, channel %d of %d: %s (%s), but a run says %d", what, channel,
                         capacity, tpp_status_name(status), status ? tpp_message() : "", run);
        }
    }
}

typedef struct subject {
    tpp_schedule *s; /* the right one */
    sched_plan plan;
    const char *name;
    bool lowered;
} subject;

/* The check's verdict on `p` must be one of the faults that are there, and none only if none is. */
static void judge(const subject *of, const sched_plan *p, const char *what, bool all_channels) {
    tpp_schedule *s = made_of(of->s, p);
    uint32_t faults = sched_faults(p);
    bool complete = faults == 0;
    tpp_status status = TPP_OK;
    if (of->lowered)
        take_as_lowered(s, of->s->messages, complete);
    if (complete)
        faults |= sched_early(p) | (sched_sim_run(s, 1, 2).finished ? 0 : SCHED_STUCK);
    if (!of->lowered)
        status = tpp_schedule_lower(s);
    /* That a pair needs the inputs of both is in the messages, else orders finish as they did. */
    if (complete && s->fused && status == TPP_OK)
        faults |= sched_sim_run(s, 1, 2).finished ? 0 : SCHED_STUCK;
    if (status == TPP_OK)
        status = tpp_schedule_check(s, TPP_CHANNEL_POSTED);
    uint32_t got = said(status);
    if (complete && of->lowered) {
        sched_plan with_slots;
        sched_plan_of(&with_slots, s);
        faults |= sched_overwrites(&with_slots);
    }
    if (got == 0 ? faults != 0 : !(got & faults))
        fail_msg("%s, %s: %s (%s), but the faults are %x", of->name, what, tpp_status_name(status),
                 status < 0 ? tpp_message() : "", faults);
    if (complete && all_channels && of->lowered)
        channels(s, what);
    note(got);
    tpp_schedule_destroy(s);
}

/* --- Mutations --- */

static void delete_at(sched_plan *p, int32_t rank, int32_t i) {
    p->count[rank]--;
    memmove(&p->of[rank][i], &p->of[rank][i + 1],
            (size_t)(p->count[rank] - i) * sizeof(tpp_action));
}

static void insert_at(sched_plan *p, int32_t rank, int32_t i, tpp_action a) {
    memmove(&p->of[rank][i + 1], &p->of[rank][i], (size_t)(p->count[rank] - i) * sizeof a);
    p->of[rank][i] = a;
    p->count[rank]++;
}

static void retarget(const subject *of, int32_t rank, int32_t i) {
    static const uint8_t ops[] = {0,
                                  TPP_OP_F,
                                  TPP_OP_B,
                                  TPP_OP_I,
                                  TPP_OP_W,
                                  TPP_OP_SEND_F,
                                  TPP_OP_RECV_F,
                                  TPP_OP_SEND_B,
                                  TPP_OP_RECV_B,
                                  77};
    sched_plan p = of->plan;
    tpp_action *a = &p.of[rank][i], kept = *a;
    for (int32_t by = -2; by <= 2; by++) {
        a->stage += by;
        judge(of, &p, "another stage", false);
        *a = kept;
        a->micro += by;
        judge(of, &p, "another micro-batch", false);
        *a = kept;
        a->peer += by;
        judge(of, &p, "another peer", false);
        *a = kept;
        a->tag += (uint32_t)by;
        judge(of, &p, "another tag", false);
        *a = kept;
    }
    for (size_t k = 0; k < sizeof ops; k++) {
        a->op = ops[k];
        judge(of, &p, "another operation", false);
        *a = kept;
    }
    for (uint8_t flags = 0; flags <= 2; flags++) {
        a->flags = flags;
        judge(of, &p, "another flag", false);
        *a = kept;
    }
    a->chunk ^= 1;
    judge(of, &p, "another chunk", false);
}

static void mutate_at(const subject *of, int32_t rank, int32_t i) {
    sched_plan p = of->plan;
    tpp_action a = p.of[rank][i];
    delete_at(&p, rank, i);
    judge(of, &p, "deleted", false);
    for (int32_t other = 0; other < p.ranks; other++) {
        if (other == rank)
            continue;
        insert_at(&p, other, p.count[other] / 2, a);
        judge(of, &p, "on another rank", false);
        delete_at(&p, other, p.count[other] / 2);
    }
    p = of->plan;
    insert_at(&p, rank, i, a);
    judge(of, &p, "doubled", false);
    p = of->plan;
    insert_at(&p, rank, p.count[rank], a);
    judge(of, &p, "again at the end", false);
    for (int32_t j = i + 1; j < of->plan.count[rank]; j++) {
        p = of->plan;
        p.of[rank][i] = p.of[rank][j];
        p.of[rank][j] = a;
        judge(of, &p, "exchanged", j == i + 1 || j % 7 == 0);
    }
    retarget(of, rank, i);
}

static void mutate(tpp_schedule_kind kind, int32_t p, int32_t m, uint32_t flags) {
    tpp_schedule_desc d = sched_desc(kind, p, 0, m, 0);
    d.flags = flags;
    if (kind == TPP_SCHEDULE_INTERLEAVED || kind == TPP_SCHEDULE_ZB_INTERLEAVED ||
        kind == TPP_SCHEDULE_BFS)
        d.chunks = 2;
    for (int lowered = 0; lowered < 2; lowered++) {
        char name[80];
        snprintf(name, sizeof name, "%s p %d m %d%s", tpp_schedule_kind_name(kind), p, m,
                 lowered ? " lowered" : "");
        subject of = {.name = name, .lowered = lowered};
        assert_ok(tpp_schedule_create(&of.s, &d));
        if (lowered)
            assert_ok(tpp_schedule_lower(of.s));
        sched_plan_of(&of.plan, of.s);
        judge(&of, &of.plan, "nothing", true);
        for (int32_t r = 0; r < p; r++) {
            for (int32_t i = 0; i < of.plan.count[r]; i++)
                mutate_at(&of, r, i);
        }
        tpp_schedule_destroy(of.s);
    }
}

static void test_every_kind(void **state) {
    (void)state;
    int kinds = 0;
    for (tpp_schedule_kind kind = 1; kind < 40; kind++) {
        if (!tpp_schedule_kind_name(kind))
            continue;
        kinds++;
        mutate(kind, 1, 2, 0);
        mutate(kind, 2, 1, 0);
        mutate(kind, 2, 3, 0);
        mutate(kind, 3, 2, 0);
        mutate(kind, 3, 3, 0);
    }
    mutate(TPP_SCHEDULE_DUALPIPE, 2, 4, 0);
    mutate(TPP_SCHEDULE_DUALPIPE, 2, 4, TPP_SCHEDULE_UNFUSED);
    mutate(TPP_SCHEDULE_DUALPIPEV, 2, 4, 0);
    mutate(TPP_SCHEDULE_ZB_V, 3, 3, 0);
    assert_int_equal(kinds, 15);
    for (int i = 0; i < SCHED_FAULTS; i++) {
        if (refused[i] == 0)
            fail_msg("no mutation was refused for fault %x", 1 << i);
    }
    assert_true(accepted > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_kind)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
