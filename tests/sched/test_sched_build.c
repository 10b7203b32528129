/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/sched_support.h"

#include <stdio.h>

#define F TPP_OP_F
#define B TPP_OP_B
#define I TPP_OP_I
#define W TPP_OP_W

static tpp_schedule_build_desc desc_of(int32_t ranks, int32_t stages, int32_t micros) {
    return (tpp_schedule_build_desc){.size = sizeof(tpp_schedule_build_desc),
                                     .ranks = ranks,
                                     .stages = stages,
                                     .micros = micros};
}

static tpp_schedule *begun(const tpp_schedule_build_desc *d) {
    tpp_schedule *s;
    assert_ok(tpp_schedule_build(&s, d));
    return s;
}

static tpp_schedule *begin(int32_t ranks, int32_t stages, int32_t micros) {
    tpp_schedule_build_desc d = desc_of(ranks, stages, micros);
    return begun(&d);
}

static void same_text(const tpp_schedule *s, const char *text) {
    char *written = sched_text(s);
    assert_string_equal(written, text);
    free(written);
}

/* Ranks are filled in any order, and what is there can be seen before it is lowered. */
static void test_any_order(void **state) {
    (void)state;
    tpp_schedule *s = begin(2, 2, 2);
    same_text(s, "-\n-\n");
    static const int32_t calls[][4] = {
        {1, F, 1, 0}, {0, F, 0, 0}, {0, F, 0, 1}, {1, B, 1, 0},
        {1, F, 1, 1}, {0, B, 0, 0}, {1, B, 1, 1}, {0, B, 0, 1},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        assert_ok(tpp_schedule_add(s, calls[i][0], calls[i][1], calls[i][2], calls[i][3], 0));
    tpp_schedule_info info = {.size = sizeof info};
    assert_ok(tpp_schedule_query(s, &info));
    assert_int_equal(info.actions, 8);
    assert_int_equal(info.forward_only, 0);
    same_text(s, "0F0 0F1 0B0 0B1\n1F0 1B0 1F1 1B1\n");
    assert_ok(tpp_schedule_lower(s));
    assert_ok(tpp_schedule_finish(s));
    tpp_schedule *made = sched_made(TPP_SCHEDULE_1F1B, 2, 1, 2, 0);
    for (int32_t r = 0; r < 2; r++) {
        int64_t n, m;
        const tpp_action *x = tpp_schedule_actions(s, r, &n),
                         *y = tpp_schedule_actions(made, r, &m);
        assert_int_equal(n, m);
        assert_memory_equal(x, y, (size_t)n * sizeof *x);
    }
    assert_fails(tpp_schedule_add(s, 0, F, 0, 0, 0), TPP_ERR_INVALID, "is not being built");
    assert_fails(tpp_schedule_add(made, 0, F, 0, 0, 0), TPP_ERR_INVALID, "is not being built");
    tpp_schedule_destroy(made);
    tpp_schedule_destroy(s);
}

/* What lower refuses goes on being built. */
static void test_goes_on_after_lower(void **state) {
    (void)state;
    tpp_schedule *s = begin(1, 1, 2);
    assert_fails(tpp_schedule_lower(s), TPP_ERR_SCHEDULE, "holds no action");
    assert_ok(tpp_schedule_add(s, 0, F, 0, 0, 0));
    assert_ok(tpp_schedule_add(s, 0, F, 0, 1, 0));
    assert_ok(tpp_schedule_add(s, 0, I, 0, 1, 0));
    assert_ok(tpp_schedule_add(s, 0, W, 0, 1, 0));
    for (int i = 0; i < 2; i++)
        assert_fails(tpp_schedule_lower(s), TPP_ERR_SCHEDULE, "0B0 is missing on rank 0");
    same_text(s, "0F0 0F1 0I1 0W1\n");
    assert_ok(tpp_schedule_add(s, 0, B, 0, 0, 0));
    assert_ok(tpp_schedule_lower(s));
    assert_ok(tpp_schedule_finish(s));
    same_text(s, "0F0 0F1 0I1 0W1 0B0\n");
    tpp_schedule_destroy(s);
}

static void test_lower_names_the_fault(void **state) {
    (void)state;
    tpp_schedule *s = begin(1, 1, 1);
    assert_ok(tpp_schedule_add(s, 0, B, 0, 0, 0));
    assert_ok(tpp_schedule_add(s, 0, F, 0, 0, 0));
    assert_fails(tpp_schedule_lower(s), TPP_ERR_SCHEDULE, "rank 0: 0B0 stands before 0F0");
    assert_ok(tpp_schedule_add(s, 0, B, 0, 0, 0));
    assert_fails(tpp_schedule_lower(s), TPP_ERR_SCHEDULE, "0B0 is doubled on rank 0");
    tpp_schedule_destroy(s);
}

/* --- Placements --- */

static void test_placements(void **state) {
    (void)state;
    const int32_t own[] = {2, 0, 0, 2};
    tpp_schedule_build_desc d = desc_of(3, 4, 1);
    tpp_schedule *s = begun(&d);
    for (int32_t i = 0; i < 4; i++)
        assert_int_equal(tpp_schedule_rank_of(s, i), i % 3);
    tpp_schedule_destroy(s);
    d.rank_of = own;
    s = begun(&d);
    for (int32_t i = 0; i < 4; i++)
        assert_int_equal(tpp_schedule_rank_of(s, i), own[i]);
    assert_int_equal(tpp_schedule_stage_of(s, 2, 1), 3);
    assert_int_equal(tpp_schedule_stage_of(s, 1, 0), -1);
    for (int32_t i = 0; i < 4; i++)
        assert_ok(tpp_schedule_add(s, own[i], F, i, 0, 0));
    for (int32_t i = 3; i >= 0; i--)
        assert_ok(tpp_schedule_add(s, own[i], B, i, 0, 0));
    assert_ok(tpp_schedule_lower(s));
    assert_ok(tpp_schedule_finish(s));
    same_text(s, "1RECV_F0 1F0 2F0 2SEND_F0 2RECV_B0 2B0 1B0 1SEND_B0\n-\n"
                 "0F0 0SEND_F0 3RECV_F0 3F0 3B0 3SEND_B0 0RECV_B0 0B0\n");
    tpp_schedule_destroy(s);
}

static void test_two_directions(void **state) {
    (void)state;
    tpp_schedule_build_desc d = desc_of(2, 4, 3);
    d.directions = 2;
    tpp_schedule *s = begun(&d);
    const int32_t ranks[] = {0, 1, 1, 0};
    tpp_schedule_info info = {.size = sizeof info};
    assert_ok(tpp_schedule_query(s, &info));
    assert_int_equal(info.directions, 2);
    assert_int_equal(info.depth, 2);
    for (int32_t i = 0; i < 4; i++)
        assert_int_equal(tpp_schedule_rank_of(s, i), ranks[i]);
    assert_fails(tpp_schedule_add(s, 0, F, 0, 2, 0), TPP_ERR_INVALID,
                 "micro = 2 is out of range for stage 0 of direction 0; valid: 0 .. 1");
    assert_fails(tpp_schedule_add(s, 1, F, 2, 1, 0), TPP_ERR_INVALID,
                 "micro = 1 is out of range for stage 2 of direction 1; valid: 2 .. 2");
    for (int32_t i = 0; i < 4; i++) {
        for (int32_t m = i < 2 ? 0 : 2; m < (i < 2 ? 2 : 3); m++)
            assert_ok(tpp_schedule_add(s, ranks[i], F, i, m, 0));
    }
    same_text(s, "directions 2\n0F0 0F1 3F2\n1F0 1F1 2F2\n");
    assert_ok(tpp_schedule_lower(s));
    assert_ok(tpp_schedule_finish(s));
    assert_ok(tpp_schedule_query(s, &info));
    assert_int_equal(info.forward_only, 1);
    assert_int_equal(info.messages, 3);
    tpp_schedule_destroy(s);
}

static void test_fused(void **state) {
    (void)state;
    tpp_schedule *s = begin(1, 1, 2);
    assert_ok(tpp_schedule_add(s, 0, F, 0, 0, 0));
    assert_ok(tpp_schedule_add(s, 0, F, 0, 1, TPP_ACTION_FUSED));
    same_text(s, "0F0 0F1\n"); /* half a pair is none */
    assert_fails(tpp_schedule_lower(s), TPP_ERR_SCHEDULE,
                 "0F1 of rank 0 is fused, but the next action of the rank is no B");
    assert_fails(tpp_schedule_add(s, 0, W, 0, 0, 0), TPP_ERR_INVALID,
                 "op = 4 (W), but rank 0's last action, 0F1, is fused: its next must be a B");
    assert_ok(tpp_schedule_add(s, 0, B, 0, 0, 0));
    assert_ok(tpp_schedule_add(s, 0, B, 0, 1, 0));
    same_text(s, "0F0 (0F1;0B0)OVERLAP_F_B 0B1\n");
    tpp_schedule_info info = {.size = sizeof info};
    assert_ok(tpp_schedule_query(s, &info));
    assert_int_equal(info.fused, 1);
    assert_ok(tpp_schedule_lower(s));
    assert_ok(tpp_schedule_finish(s));
    same_text(s, "0F0 (0F1;0B0)OVERLAP_F_B 0B1\n");
    tpp_schedule_destroy(s);
}

/* --- Refusals --- */

static void refuses_desc(tpp_schedule_build_desc d, tpp_status status, const char *words) {
    tpp_schedule *s = (tpp_schedule *)&d;
    assert_fails(tpp_schedule_build(&s, &d), status, words);
    assert_null(s);
}

static void test_descs(void **state) {
    (void)state;
    const tpp_status bad = TPP_ERR_INVALID;
    const int32_t own[] = {0, 2};
    tpp_schedule_build_desc d = desc_of(0, 1, 1);
    refuses_desc(d, bad, "desc.ranks = 0 is out of range; valid: 1 .. 1048576");
    d = desc_of(1, 0, 1);
    refuses_desc(d, bad, "desc.stages = 0 is out of range");
    d = desc_of(1, 1, -1);
    refuses_desc(d, bad, "desc.micros = -1 is out of range");
    d = desc_of(1, 2, 1);
    d.directions = 3;
    refuses_desc(d, bad, "desc.directions = 3 is out of range; valid: 0 .. 2");
    d = desc_of(1, 3, 1);
    d.directions = 2;
    refuses_desc(d, bad, "desc.stages = 3; two directions need an even number");
    d = desc_of(2, 2, 1);
    d.rank_of = own;
    refuses_desc(d, bad, "desc.rank_of[1] = 2; valid: 0 .. 1");
    d = desc_of(1, 1, 1);
    d.flags = 2;
    refuses_desc(d, TPP_ERR_TOO_NEW, "flags");
    d = desc_of(1, 1 << 20, 1 << 20);
    refuses_desc(d, TPP_ERR_OVERFLOW, "1048576 stages of 1048576 micro-batches");
    d = desc_of(1, (1 << 16) + 1, 1);
    refuses_desc(d, TPP_ERR_OVERFLOW, "rank 0 has 65537 stages");
    assert_fails(tpp_schedule_build(NULL, &d), bad, "out is NULL");
    tpp_schedule *s;
    assert_fails(tpp_schedule_build(&s, NULL), bad, "desc is NULL");
}

static void test_adds(void **state) {
    (void)state;
    const tpp_status bad = TPP_ERR_INVALID;
    tpp_schedule *s = begin(2, 4, 3);
    assert_fails(tpp_schedule_add(NULL, 0, F, 0, 0, 0), bad, "schedule is NULL");
    assert_fails(tpp_schedule_add(s, 2, F, 0, 0, 0), bad,
                 "rank = 2 is out of range; valid: 0 .. 1");
    assert_fails(tpp_schedule_add(s, -1, F, 0, 0, 0), bad, "rank = -1");
    assert_fails(tpp_schedule_add(s, 0, F, 4, 0, 0), bad,
                 "stage = 4 is out of range; valid: 0 .. 3");
    assert_fails(tpp_schedule_add(s, 0, F, -1, 0, 0), bad, "stage = -1");
    assert_fails(tpp_schedule_add(s, 0, F, 3, 0, 0), bad, "rank = 0, but stage 3 lies on rank 1");
    assert_fails(tpp_schedule_add(s, 0, F, 2, 3, 0), bad,
                 "micro = 3 is out of range for stage 2 of direction 0; valid: 0 .. 2");
    assert_fails(tpp_schedule_add(s, 0, F, 2, -1, 0), bad, "micro = -1");
    assert_fails(tpp_schedule_add(s, 0, 0, 2, 0, 0), bad, "op = 0; valid: 1 (F)");
    assert_fails(tpp_schedule_add(s, 0, TPP_OP_SEND_F, 2, 0, 0), bad,
                 "op = 16; valid: 1 (F), 2 (B), 3 (I), 4 (W); messages are added by");
    assert_fails(tpp_schedule_add(s, 0, F, 2, 0, 2), bad, "flags = 2");
    assert_fails(tpp_schedule_add(s, 0, B, 2, 0, TPP_ACTION_FUSED), bad,
                 "flags = 1; valid: 0, of an F also 1 (FUSED)");
    same_text(s, "-\n-\n");
    tpp_schedule_destroy(s);
}

/* --- Memory --- */

typedef struct counted {
    int64_t held, left;
} counted;

static void *take(void *ctx, uint64_t bytes, uint64_t align) {
    counted *c = ctx;
    if (c->left-- == 0)
        return NULL;
    c->held += (int64_t)bytes;
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void give(void *ctx, void *memory, uint64_t bytes) {
    counted *c = ctx;
    c->held -= (int64_t)bytes;
    free(memory);
}

/* Wherever memory ends, the call fails, all is as before, and nothing is lost. */
static void test_memory(void **state) {
    (void)state;
    int finished = 0;
    for (int64_t limit = 0; limit < 40; limit++) {
        counted c = {0, limit};
        tpp_allocator a = {.size = sizeof a, .ctx = &c, .alloc = take, .release = give};
        tpp_schedule_build_desc d = desc_of(2, 2, 20);
        d.allocator = &a;
        tpp_schedule *s;
        tpp_status status = tpp_schedule_build(&s, &d);
        for (int32_t i = 0; i < 80 && status == TPP_OK; i++)
            status = tpp_schedule_add(s, i / 2 % 2, i < 40 ? F : B, i / 2 % 2,
                                      i / 4 * 2 % 20 + i % 2, 0);
        if (status == TPP_OK) {
            status = tpp_schedule_lower(s);
            if (status == TPP_ERR_NO_MEMORY) {
                c.left = -1;
                assert_ok(tpp_schedule_lower(s));
            }
        }
        assert_true(status == TPP_OK || status == TPP_ERR_NO_MEMORY);
        finished += status == TPP_OK;
        tpp_schedule_destroy(s);
        assert_int_equal(c.held, 0);
    }
    assert_true(finished > 0 && finished < 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_goes_on_after_lower),
        cmocka_unit_test(test_lower_names_the_fault),
        cmocka_unit_test(test_placements),
        cmocka_unit_test(test_two_directions),
        cmocka_unit_test(test_fused),
        cmocka_unit_test(test_descs),
        cmocka_unit_test(test_adds),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
