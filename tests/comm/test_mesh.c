/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/comm_threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/sched_support.h"

#include <tpp/mesh.h>

/* Ranks along four axes, against loops one inside the other; groups of comms against those lists. */

enum { AXES = TPP_MESH_AXES, MOST = 4 * 3 * 2 * 3 };

static tpp_mesh_desc mesh_of(int32_t tp, int32_t cp, int32_t pp, int32_t dp) {
    return (tpp_mesh_desc){.size = sizeof(tpp_mesh_desc), .degree = {tp, cp, pp, dp}};
}

/* Coordinates of every rank: the slowest axis is the outermost loop. */
static int32_t walk(const tpp_mesh_desc *m, const int32_t *order, int32_t (*at)[AXES]) {
    int32_t rank = 0, c[AXES];
    const int32_t a = order[0], b = order[1], d = order[2], e = order[3];
    for (c[e] = 0; c[e] < m->degree[e]; c[e]++)
        for (c[d] = 0; c[d] < m->degree[d]; c[d]++)
            for (c[b] = 0; c[b] < m->degree[b]; c[b]++)
                for (c[a] = 0; c[a] < m->degree[a]; c[a]++)
                    memcpy(at[rank++], c, sizeof c);
    return rank;
}

/* The ranks that differ from `rank` in these axes only, found by looking at all. */
static void check_group(const tpp_mesh_desc *m, uint32_t axes, int64_t rank, int32_t ranks,
                        int32_t (*at)[AXES]) {
    int64_t group[MOST], count = 0;
    assert_ok(tpp_mesh_group(m, axes, rank, group));
    for (int32_t r = 0; r < ranks; r++) {
        int same = 1;
        for (int32_t axis = 0; axis < AXES; axis++)
            same &= (axes >> axis & 1) || at[r][axis] == at[rank][axis];
        if (same)
            assert_int_equal(group[count++], r);
    }
}

static void check_order(tpp_mesh_desc m, const int32_t *order) {
    static int32_t at[MOST][AXES];
    int64_t ranks, rank;
    int32_t got[AXES];
    for (int32_t i = 0; i < AXES; i++)
        m.order[i] = order[i] + 1;
    int32_t count = walk(&m, order, at);
    assert_ok(tpp_mesh_ranks(&m, &ranks));
    assert_int_equal(ranks, count);
    for (int32_t r = 0; r < count; r++) {
        assert_ok(tpp_mesh_coordinates(&m, r, got));
        assert_memory_equal(got, at[r], sizeof got);
        assert_ok(tpp_mesh_rank(&m, at[r], &rank));
        assert_int_equal(rank, r);
        for (uint32_t axes = 1; axes < 16; axes++)
            check_group(&m, axes, r, count, at);
    }
}

static void all_orders(void **state) {
    int32_t orders = 0;
    (void)state;
    for (int32_t code = 0; code < 256; code++) {
        const int32_t order[] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6};
        if ((1 << order[0] | 1 << order[1] | 1 << order[2] | 1 << order[3]) != 15)
            continue;
        check_order(mesh_of(4, 3, 2, 3), order);
        orders++;
    }
    assert_int_equal(orders, 24);
}

/* The default order, and degrees that are left out: 64 ranks as 8 x 4 x 2. */
static void defaults(void **state) {
    tpp_mesh_desc m = mesh_of(8, 0, 4, 2);
    int32_t at[AXES];
    int64_t group[8], ranks;
    (void)state;
    assert_ok(tpp_mesh_ranks(&m, &ranks));
    assert_int_equal(ranks, 64);
    assert_ok(tpp_mesh_coordinates(&m, 45, at)); /* 45 = 5 + 8 * 1 + 32 * 1 */
    assert_true(at[0] == 5 && at[1] == 0 && at[2] == 1 && at[3] == 1);
    assert_ok(tpp_mesh_group(&m, TPP_MESH_PP_BIT, 45, group));
    assert_true(group[0] == 37 && group[1] == 45 && group[2] == 53 && group[3] == 61);
    m.degree[TPP_MESH_DP] = 1 << 30, m.degree[TPP_MESH_PP] = 1 << 20;
    assert_ok(tpp_mesh_coordinates(&m, (int64_t)8 << 50 >> 1, at));
    assert_int_equal(at[3], 1 << 29);
}

static void into_comms(tpp_comm *world, int32_t rank, void *arg) {
    const tpp_mesh_desc *m = arg;
    for (uint32_t axes = 1; axes < 16; axes++) {
        int64_t want[12], members[12] = {0}, mine = rank;
        tpp_comm *comm = NULL;
        COMM_CHECK_OK(tpp_mesh_group(m, axes, rank, want));
        if (!COMM_CHECK_OK(tpp_mesh_comm(m, axes, world, &comm)))
            return;
        COMM_CHECK_OK(tpp_comm_all_gather(comm, &mine, members, 1, TPP_I64));
        COMM_CHECK(memcmp(members, want, (size_t)tpp_comm_size(comm) * sizeof *want) == 0);
        COMM_CHECK(want[tpp_comm_rank(comm)] == rank);
        tpp_comm_destroy(comm);
    }
}

static void comms(void **state) {
    tpp_mesh_desc m = mesh_of(2, 1, 3, 2);
    (void)state;
    comm_threads_run(12, NULL, into_comms, &m);
    m.order[0] = 4, m.order[1] = 3, m.order[2] = 2, m.order[3] = 1;
    comm_threads_run(12, NULL, into_comms, &m);
}

static void says(tpp_status got, tpp_status want, const char *words) {
    assert_int_equal(got, want);
    if (!strstr(tpp_message(), words))
        fail_msg("'%s' does not say '%s'", tpp_message(), words);
}

static void refused(void **state) {
    tpp_mesh_desc m = mesh_of(2, 1, 2, 1), bad = m;
    int64_t n = 0, four[4] = {0};
    int32_t at[AXES] = {0, 0, 2, 0};
    tpp_comm *self = NULL, *out = NULL;
    (void)state;
    bad.degree[TPP_MESH_CP] = -2;
    says(tpp_mesh_ranks(&bad, &n), TPP_ERR_INVALID, "mesh.degree[1] (cp) = -2");
    bad = m, bad.order[0] = 1;
    says(tpp_mesh_ranks(&bad, &n), TPP_ERR_INVALID, "mesh.order[1] = 0");
    bad.order[1] = 2, bad.order[2] = 2, bad.order[3] = 4;
    says(tpp_mesh_ranks(&bad, &n), TPP_ERR_INVALID, "mesh.order[2] = 2");
    bad.order[2] = 5;
    says(tpp_mesh_ranks(&bad, &n), TPP_ERR_INVALID, "mesh.order[2] = 5");
    bad = mesh_of(INT32_MAX, INT32_MAX, INT32_MAX, 1);
    says(tpp_mesh_ranks(&bad, &n), TPP_ERR_OVERFLOW, "64 bits");
    says(tpp_mesh_ranks(NULL, &n), TPP_ERR_INVALID, "mesh is NULL");
    says(tpp_mesh_ranks(&m, NULL), TPP_ERR_INVALID, "out is NULL");
    says(tpp_mesh_coordinates(&m, 4, at), TPP_ERR_RANGE,
         "rank = 4 is not accepted; accepted: 0 .. 3");
    says(tpp_mesh_coordinates(&m, -1, at), TPP_ERR_RANGE, "rank = -1");
    says(tpp_mesh_rank(&m, at, &n), TPP_ERR_RANGE, "coordinates[2] (pp) = 2");
    says(tpp_mesh_rank(&m, NULL, &n), TPP_ERR_INVALID, "coordinates is NULL");
    says(tpp_mesh_group(&m, 0, 0, four), TPP_ERR_INVALID, "axes = 0");
    says(tpp_mesh_group(&m, 16, 0, four), TPP_ERR_INVALID, "axes = 16");
    assert_ok(tpp_comm_self_create(&self, NULL));
    says(tpp_mesh_comm(&m, 1, self, &out), TPP_ERR_INVALID, "comm has 1 ranks, but the mesh has 4");
    says(tpp_mesh_comm(&m, 1, NULL, &out), TPP_ERR_INVALID, "comm is NULL");
    tpp_comm_destroy(self);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_orders),
        cmocka_unit_test(defaults),
        cmocka_unit_test(comms),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
