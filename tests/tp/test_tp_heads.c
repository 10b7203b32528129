/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Every number of heads up to 16, of K/V heads that divide it, and of ranks up to 16: a layer that is
 * made gives every query head to one rank and every K/V head to those that need it; what is refused
 * lists degrees that work, and does not with TPP_ENV_UNEVEN. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/tp_run.h"

enum { MOST = 16 };

static tpp_status create(tpp_layer **layer, tpp_comm *comm, int32_t heads, int32_t kv,
                         uint32_t flags) {
    tpp_layer_env env = {.size = sizeof env, .comm = comm, .flags = flags};
    tpp_attention_desc d = {.size = sizeof d,
                            .flags = TPP_ATTENTION_SEPARATE_QKV | TPP_ATTENTION_NO_BIAS,
                            .hidden = 3,
                            .heads = heads,
                            .head_cols = 1,
                            .kv_heads = kv};
    return tpp_attention_create(layer, &env, &d);
}

static tpp_shard map_of(const tpp_layer *layer, const char *name) {
    tpp_param_info p = {.size = sizeof p};
    for (int32_t i = 0; tpp_layer_param(layer, i, &p) == TPP_OK; i++)
        if (!strcmp(p.name, name))
            return p.shard;
    fail_msg("no parameter %s", name);
    return p.shard;
}

/* The K/V heads of this rank hold those of its query heads, in order. */
static void check_rank(const tpp_layer *layer, int32_t heads, int32_t kv, int *owners) {
    tpp_shard q = map_of(layer, "q.weight"), k = map_of(layer, "k.weight");
    int64_t mine = tpp_shard_cols(&q), mine_kv = tpp_shard_cols(&k);
    assert_true(mine_kv > 0 && mine % mine_kv == 0);
    for (int64_t i = 0; i < mine; i++) {
        int64_t head = tpp_shard_index(&q, i);
        if (head >= heads) /* padding */
            continue;
        owners[head]++;
        assert_int_equal(tpp_shard_index(&k, i / (mine / mine_kv)), head / (heads / kv));
    }
}

/* 1: ranks can be given whole query heads, and whole K/V heads or one together. */
static int possible(int32_t heads, int32_t kv, int32_t ranks) {
    return heads % ranks == 0 && (kv % ranks == 0 || ranks % kv == 0);
}

static void check_split(int32_t heads, int32_t kv, int32_t ranks, uint32_t flags) {
    int owners[MOST] = {0};
    for (int32_t r = 0; r < ranks; r++) {
        tpp_comm *comm = tp_comm_stub(r, ranks);
        tpp_layer *layer;
        tpp_status status = create(&layer, comm, heads, kv, flags);
        int fits = possible(heads, kv, ranks) || flags & TPP_ENV_UNEVEN;
        assert_int_equal(status, fits ? TPP_OK : TPP_ERR_INVALID);
        if (fits)
            check_rank(layer, heads, kv, owners);
        tpp_layer_destroy(layer);
        tpp_comm_destroy(comm);
    }
    for (int32_t h = 0; h < heads && (possible(heads, kv, ranks) || flags & TPP_ENV_UNEVEN); h++)
        assert_int_equal(owners[h], 1);
}

static void all_splits(void **state) {
    (void)state;
    for (int32_t heads = 1; heads <= MOST; heads++)
        for (int32_t kv = 1; kv <= heads; kv++)
            for (int32_t ranks = 1; heads % kv == 0 && ranks <= MOST; ranks++) {
                check_split(heads, kv, ranks, 0);
                check_split(heads, kv, ranks, TPP_ENV_UNEVEN);
            }
}

/* 8 heads and 2 K/V heads: 4 ranks, each K/V head on two. 6 and 2: refused before anything runs. */
static void known(void **state) {
    (void)state;
    tpp_comm *comm = tp_comm_stub(1, 4);
    tpp_layer *layer;
    assert_int_equal(create(&layer, comm, 8, 2, 0), TPP_OK);
    tpp_shard k = map_of(layer, "k.weight");
    assert_int_equal(k.copies, 2);
    assert_int_equal(tpp_shard_index(&k, 0), 0);
    tpp_layer_destroy(layer);
    assert_int_equal(create(&layer, comm, 6, 2, 0), TPP_ERR_INVALID);
    assert_null(layer);
    assert_string_equal(tpp_message(), "desc.heads = 6 with desc.kv_heads = 2 cannot be split into "
                                       "tp = 4; they allow: 1, 2, 6");
    tpp_comm_destroy(comm);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_splits), cmocka_unit_test(known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
