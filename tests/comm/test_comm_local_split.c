/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/comm_threads.h"
#include "support/comm_user.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* Sub-groups of a local group, and their memory. */

enum { N = 8 };

static void nap(int64_t microseconds) {
    struct timespec pause = {0, (long)(1000 * microseconds)};
    nanosleep(&pause, NULL);
}

/* `groups` sub-groups of neighbours; keys turn their order round. */
static void into_groups(tpp_comm *comm, int32_t rank, void *arg) {
    const int32_t groups = *(const int32_t *)arg, each = N / groups;
    tpp_comm *child;
    if (!COMM_CHECK_OK(tpp_comm_split(comm, &child, rank / each, -rank)))
        return;
    COMM_CHECK(tpp_comm_size(child) == each);
    COMM_CHECK(tpp_comm_rank(child) == each - 1 - rank % each);
    int32_t sum = 0, members[N] = {0};
    COMM_CHECK_OK(tpp_comm_all_reduce(child, &rank, &sum, 1, TPP_I32, TPP_SUM));
    COMM_CHECK(sum == each * (rank / each * each) + each * (each - 1) / 2);
    COMM_CHECK_OK(tpp_comm_all_gather(child, &rank, members, 1, TPP_I32));
    for (int32_t i = 0; i < each; i++)
        COMM_CHECK(members[i] == rank / each * each + each - 1 - i);
    COMM_CHECK_OK(tpp_comm_barrier(comm));
    if (rank % 2)
        COMM_CHECK_OK(tpp_comm_barrier(comm));
    tpp_comm_destroy(child);
    if (rank % 2 == 0)
        COMM_CHECK_OK(tpp_comm_barrier(comm));
}

static void two_fours_and_four_twos(void **state) {
    (void)state;
    for (int32_t groups = 1; groups <= N; groups *= 2)
        comm_threads_run(N, NULL, into_groups, &groups);
}

/* Equal keys: by rank. Some in no group, one alone; while other collectives are under way. */
static void some_in_none(tpp_comm *comm, int32_t rank, void *arg) {
    (void)arg;
    static double x[N][500];
    tpp_request request;
    tpp_comm *child = comm;
    for (int32_t i = 0; i < 500; i++)
        x[rank][i] = 1;
    COMM_CHECK_OK(
        tpp_comm_all_reduce_start(comm, x[rank], x[rank], 500, TPP_F64, TPP_SUM, &request));
    int32_t color = rank < 3 ? -1 - rank : (rank == 3 ? 2000000000 : 0);
    COMM_CHECK_OK(tpp_comm_split(comm, &child, color, 5));
    COMM_CHECK_OK(tpp_comm_wait(&request));
    COMM_CHECK(x[rank][499] == N);
    COMM_CHECK((child == NULL) == (rank < 3));
    if (child) {
        COMM_CHECK(tpp_comm_size(child) == (rank == 3 ? 1 : 4));
        COMM_CHECK(tpp_comm_rank(child) == (rank == 3 ? 0 : rank - 4));
    }
    tpp_comm_destroy(child);
}

static void no_group_for_negative_color(void **state) {
    (void)state;
    comm_threads_run(N, NULL, some_in_none, NULL);
}

/* Children outlive their parent, in any order of destroying, and grandchildren both. */
static void lives_on(tpp_comm *comm, int32_t rank, void *arg) {
    comm_memory *memory = arg;
    tpp_comm_local_desc desc = {.size = sizeof desc, .allocator = &memory->allocator};
    static tpp_comm *own[4];
    if (rank == 0)
        COMM_CHECK_OK(tpp_comm_local_create(own, 4, &desc));
    COMM_CHECK_OK(tpp_comm_barrier(comm));
    tpp_comm *parent = own[rank], *child, *grandchild;
    if (!COMM_CHECK_OK(tpp_comm_split(parent, &child, rank / 2, 0)) ||
        !COMM_CHECK_OK(tpp_comm_split(child, &grandchild, 0, -rank)))
        return;
    tpp_comm_destroy(rank % 2 ? child : parent);
    COMM_CHECK_OK(tpp_comm_barrier(grandchild));
    tpp_comm_destroy(rank % 2 ? parent : child);
    COMM_CHECK_OK(tpp_comm_barrier(grandchild));
    tpp_comm_destroy(grandchild);
}

static void children_outlive_parents(void **state) {
    (void)state;
    comm_memory memory;
    comm_memory_init(&memory, 0);
    comm_threads_run(4, NULL, lives_on, &memory);
    assert_int_equal(atomic_load(&memory.calls), 1 + 2 + 2);
    assert_int_equal(atomic_load(&memory.live), 0);
    assert_int_equal(atomic_load(&memory.live_bytes), 0);
}

/* Abort goes down, not up. */
static void abort_down(tpp_comm *comm, int32_t rank, void *arg) {
    (void)arg;
    tpp_comm *child, *grandchild;
    if (!COMM_CHECK_OK(tpp_comm_split(comm, &child, rank / 2, 0)) ||
        !COMM_CHECK_OK(tpp_comm_split(child, &grandchild, 0, 0)))
        return;
    if (rank == 3) {
        nap(10000);
        tpp_comm_abort(comm);
    } else if (rank < 2) {
        /* waits in a grandchild for nobody who aborts: its partner comes only after the abort */
        tpp_status status = rank == 0 ? tpp_comm_barrier(grandchild) : TPP_ERR_ABORTED;
        COMM_CHECK(status == TPP_ERR_ABORTED);
    }
    COMM_CHECK_STATUS(tpp_comm_barrier(comm), TPP_ERR_ABORTED);
    COMM_CHECK_STATUS(tpp_comm_barrier(child), TPP_ERR_ABORTED);
    COMM_CHECK_STATUS(tpp_comm_barrier(grandchild), TPP_ERR_ABORTED);
    COMM_CHECK_STATUS(tpp_comm_split(comm, &comm, 0, 0), TPP_ERR_ABORTED);
    tpp_comm_destroy(child);
    tpp_comm_destroy(grandchild);
}

static void abort_of_parent_fails_children(void **state) {
    (void)state;
    comm_threads_run(4, NULL, abort_down, NULL);
}

static void abort_up(tpp_comm *comm, int32_t rank, void *arg) {
    (void)arg;
    tpp_comm *child;
    if (!COMM_CHECK_OK(tpp_comm_split(comm, &child, rank / 2, 0)))
        return;
    if (rank == 0)
        tpp_comm_abort(child);
    COMM_CHECK_STATUS(tpp_comm_barrier(child), rank < 2 ? TPP_ERR_ABORTED : TPP_OK);
    COMM_CHECK_OK(tpp_comm_barrier(comm));
    tpp_comm_destroy(child);
}

static void abort_of_child_leaves_parent(void **state) {
    (void)state;
    comm_threads_run(4, NULL, abort_up, NULL);
}

/* All ranks get the same answer, and the parent goes on. */
static void split_in_need(tpp_comm *comm, int32_t rank, void *arg) {
    atomic_int *made = arg;
    tpp_comm *child = comm;
    tpp_status status = tpp_comm_split(comm, &child, rank % 3, 0);
    COMM_CHECK(status == TPP_OK || status == TPP_ERR_NO_MEMORY);
    COMM_CHECK((child != NULL) == (status == TPP_OK));
    if (status < 0)
        COMM_CHECK(strstr(tpp_message(), "had no memory for the sub-group of color = ") != NULL);
    atomic_fetch_add(made, status == TPP_OK);
    COMM_CHECK_OK(tpp_comm_barrier(comm));
    tpp_comm_destroy(child);
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    enum { RANKS = 6, COLORS = 3 }; /* one allocation for the group, one for each colour */
    for (int32_t fail_at = 1; fail_at <= 2 + COLORS; fail_at++) {
        comm_memory memory;
        comm_memory_init(&memory, fail_at);
        tpp_comm_local_desc desc = {
            .size = sizeof desc, .allocator = &memory.allocator, .timeout = 10};
        tpp_comm *comms[RANKS] = {0};
        tpp_status status = tpp_comm_local_create(comms, RANKS, &desc);
        assert_int_equal(status, fail_at == 1 ? TPP_ERR_NO_MEMORY : TPP_OK);
        assert_true((comms[0] != NULL && comms[RANKS - 1] != NULL) == (fail_at > 1));
        if (status == TPP_OK) {
            atomic_int made = 0;
            comm_threads_over(comms, RANKS, split_in_need, &made);
            assert_int_equal(atomic_load(&made), fail_at <= 1 + COLORS ? 0 : RANKS);
        }
        for (int32_t r = 0; r < RANKS; r++)
            tpp_comm_destroy(comms[r]);
        assert_int_equal(atomic_load(&memory.live), 0);
        assert_int_equal(atomic_load(&memory.live_bytes), 0);
    }
}

static void any_creation_may_fail(void **state) {
    (void)state;
    tpp_comm *self, *out;
    assert_int_equal(tpp_comm_self_create(&self, NULL), TPP_OK);
    comm_memory memory;
    comm_memory_init(&memory, 1);
    assert_int_equal(tpp_comm_traced_create(&out, self, &memory.allocator), TPP_ERR_NO_MEMORY);
    assert_null(out);
    assert_int_equal(tpp_comm_traced_create(&out, self, &memory.allocator), TPP_OK);
    tpp_comm_destroy(out);
    assert_int_equal(atomic_load(&memory.calls), 2);
    assert_int_equal(atomic_load(&memory.live_bytes), 0);
    tpp_comm_destroy(self);
}

/* An abort at any moment of a split: whoever has made a group must not lose it. */
static void abort_in_split(tpp_comm *comm, int32_t rank, void *arg) {
    const uint64_t *seed = arg;
    comm_random random = {*seed * 10 + (uint64_t)rank};
    tpp_comm *child = NULL;
    for (int32_t i = 0; i < 20; i++) {
        comm_delay(&random);
        if (rank == 0 && i == (int32_t)(*seed % 20))
            tpp_comm_abort(comm);
        tpp_status status = tpp_comm_split(comm, &child, rank % 2, 0);
        COMM_CHECK((status == TPP_OK) == (child != NULL));
        COMM_CHECK(status == TPP_OK || status == TPP_ERR_ABORTED);
        tpp_comm_destroy(child);
    }
}

static void aborting_body(tpp_comm *comm, int32_t rank, void *arg) {
    if (rank < 4) {
        abort_in_split(comm, rank, arg);
        return;
    }
    /* a rank that aborts while the others are inside */
    const uint64_t *seed = arg;
    comm_random random = {*seed};
    tpp_comm *child = NULL;
    int64_t last = comm_random_below(&random, 10);
    for (int64_t i = 0; i < last; i++) {
        tpp_comm_split(comm, &child, 2, 0);
        tpp_comm_destroy(child);
    }
    nap(comm_random_below(&random, 100));
    tpp_comm_abort(comm);
}

static void abort_in_split_loses_nothing(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        comm_memory memory;
        comm_memory_init(&memory, 0);
        tpp_comm_local_desc desc = {.size = sizeof desc, .allocator = &memory.allocator};
        comm_threads_run(seed % 2 ? 5 : 4, &desc, aborting_body, &seed);
        assert_int_equal(atomic_load(&memory.live), 0);
    }
}

/* An allocator that aborts the group at its n-th call, in the middle of a split. */
typedef struct treacherous {
    comm_memory memory;
    tpp_allocator allocator;
    tpp_comm *victim;
    atomic_int calls;
    int32_t abort_at;
} treacherous;

static void *abort_and_allocate(void *ctx, uint64_t bytes, uint64_t align) {
    treacherous *t = ctx;
    void *block = t->memory.allocator.alloc(&t->memory, bytes, align);
    if (atomic_fetch_add(&t->calls, 1) + 1 == t->abort_at)
        tpp_comm_abort(t->victim);
    return block;
}

static void release(void *ctx, void *block, uint64_t bytes) {
    treacherous *t = ctx;
    t->memory.allocator.release(&t->memory, block, bytes);
}

static void split_once(tpp_comm *comm, int32_t rank, void *arg) {
    atomic_int *made = arg;
    tpp_comm *child = NULL;
    tpp_status status = tpp_comm_split(comm, &child, rank % 2, 0);
    COMM_CHECK(status == TPP_ERR_ABORTED || status == TPP_OK);
    COMM_CHECK((status == TPP_OK) == (child != NULL));
    atomic_fetch_add(made, child != NULL);
    if (child) /* born after the abort of its parent, or before */
        COMM_CHECK_STATUS(tpp_comm_barrier(child), TPP_ERR_ABORTED);
    tpp_comm_destroy(child);
}

static void abort_inside_a_split(void **state) {
    (void)state;
    for (int32_t trial = 0; trial < 400; trial++) {
        const int32_t n = 1 + trial % 6;
        treacherous t = {.abort_at = trial % 2 && n > 1 ? 3 : 2};
        tpp_comm *comms[6];
        atomic_int made = 0;
        comm_memory_init(&t.memory, 0);
        t.allocator = (tpp_allocator){sizeof t.allocator, 0, &t, abort_and_allocate, release};
        tpp_comm_local_desc desc = {.size = sizeof desc, .allocator = &t.allocator};
        assert_int_equal(tpp_comm_local_create(comms, n, &desc), TPP_OK);
        t.victim = comms[0];
        comm_threads_over(comms, n, split_once, &made);
        assert_true(atomic_load(&made) == 0 || atomic_load(&made) == n);
        for (int32_t r = 0; r < n; r++)
            tpp_comm_destroy(comms[r]);
        assert_int_equal(atomic_load(&t.memory.live), 0);
    }
}

static void user_transport_may_not_split(tpp_comm *local, int32_t rank, void *arg) {
    (void)arg;
    (void)rank;
    tpp_comm *user, *child = local;
    if (!COMM_CHECK_OK(comm_user_create(&user, local, 0)))
        return;
    COMM_CHECK_STATUS(tpp_comm_split(user, &child, 0, 0), TPP_ERR_UNSUPPORTED);
    COMM_CHECK(child == NULL);
    COMM_CHECK_OK(tpp_comm_barrier(user));
    tpp_comm_destroy(user);
}

static void unsupported_leaves_the_group_alive(void **state) {
    (void)state;
    comm_threads_run(2, NULL, user_transport_may_not_split, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_fours_and_four_twos),
        cmocka_unit_test(no_group_for_negative_color),
        cmocka_unit_test(children_outlive_parents),
        cmocka_unit_test(abort_of_parent_fails_children),
        cmocka_unit_test(abort_of_child_leaves_parent),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(any_creation_may_fail),
        cmocka_unit_test(abort_in_split_loses_nothing),
        cmocka_unit_test(abort_inside_a_split),
        cmocka_unit_test(unsupported_leaves_the_group_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
