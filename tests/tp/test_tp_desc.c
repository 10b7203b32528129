/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Descriptors out of range: each field gives TPP_ERR_INVALID and a message with its name and its
 * value; where the rule is about ranks or blocks, also what is accepted. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/tp_case.h"
#include "support/tp_ranks.h"

static void assert_says(const char *part) {
    if (!strstr(tpp_message(), part))
        fail_msg("\"%s\" does not say \"%s\"", tpp_message(), part);
}

/* Descriptors and env that are right; tests change one field. */
typedef struct all {
    tpp_layer_env env;
    tpp_linear_desc column, row;
    tpp_mlp_desc mlp;
    tpp_attention_desc attention;
    tpp_norm_desc norm;
    tpp_embedding_desc embedding;
    tpp_loss_desc loss;
    tpp_head_desc head;
    tpp_block_desc block;
} all;

static all right(void) {
    all a = {
        .env = {.size = sizeof a.env},
        .column = {sizeof a.column, 0, TPP_LINEAR_COLUMN, 0, 6, 24, 0},
        .row = {sizeof a.row, 0, TPP_LINEAR_ROW, 0, 24, 6, 0},
        .mlp = {sizeof a.mlp, 0, 6, 24, 0, 0, 0, 0},
        .attention = {.size = sizeof a.attention, .hidden = 24, .heads = 12},
        .norm = {sizeof a.norm, 0, 6, 0, 0, 0},
        .embedding = {sizeof a.embedding, 0, 7, 6, 5, 0},
        .loss = {.size = sizeof a.loss, .vocab = 7},
        .head = {.size = sizeof a.head, .hidden = 6, .vocab = 7},
        .block = {.size = sizeof a.block, .hidden = 24, .heads = 12},
    };
    return a;
}

/* The creation fails with `status`, the message has all of says (ends with NULL), and out
 * is NULL. */
static void refuse(const tp_kind *kind, const all *a, const void *desc, tpp_status status,
                   const char *first, const char *second, const char *third) {
    tpp_layer *layer = NULL;
    tpp_message_set("");
    tpp_status got = kind->create(&layer, &a->env, desc);
    if (got != status)
        fail_msg("%s %s: got %s, want %s (%s)", first, second, tpp_status_name(got),
                 tpp_status_name(status), tpp_message());
    assert_null(layer);
    assert_says(first);
    assert_says(second);
    if (third)
        assert_says(third);
}

#define REFUSE(kind, part, field, value, shown)                                                    \
    do {                                                                                           \
        all a_ = right();                                                                          \
        a_.part.field = (value);                                                                   \
        refuse(&tp_kind_##kind, &a_, &a_.part, TPP_ERR_INVALID, "." #field, shown, NULL);          \
    } while (0)

/* With the field, what is refused although each number alone is right, and what the message must
 * list. */
#define REFUSE_ON(ranks, blocks_, kind, part, field, value, shown, accepted)                       \
    do {                                                                                           \
        all a_ = right();                                                                          \
        a_.part.field = (value);                                                                   \
        a_.env.blocks = (blocks_);                                                                 \
        a_.env.comm = tp_comm_stub(0, ranks);                                                      \
        refuse(&tp_kind_##kind, &a_, &a_.part, TPP_ERR_INVALID, "." #field, shown, accepted);      \
        tpp_comm_destroy(a_.env.comm);                                                             \
    } while (0)

static void test_right(void **state) {
    all a = right();
    tpp_layer *layer = NULL;
    (void)state;
    assert_int_equal(tpp_linear_create(&layer, &a.env, &a.column), TPP_OK);
    tpp_layer_destroy(layer);
    assert_int_equal(tpp_linear_create(&layer, &a.env, &a.row), TPP_OK);
    tpp_layer_destroy(layer);
    assert_int_equal(tpp_mlp_create(&layer, &a.env, &a.mlp), TPP_OK);
    tpp_layer_destroy(layer);
    assert_int_equal(tpp_attention_create(&layer, &a.env, &a.attention), TPP_OK);
    tpp_layer_destroy(layer);
    assert_int_equal(tpp_norm_create(&layer, &a.env, &a.norm), TPP_OK);
    tpp_layer_destroy(layer);
    assert_int_equal(tpp_embedding_create(&layer, &a.env, &a.embedding), TPP_OK);
    tpp_layer_destroy(layer);
    assert_int_equal(tpp_loss_create(&layer, &a.env, &a.loss), TPP_OK);
    tpp_layer_destroy(layer);
    assert_int_equal(tpp_head_create(&layer, &a.env, &a.head), TPP_OK);
    tpp_layer_destroy(layer);
    a.head.loss = &a.loss;
    assert_int_equal(tpp_head_create(&layer, &a.env, &a.head), TPP_OK);
    tpp_layer_destroy(layer);
    assert_int_equal(tpp_block_create(&layer, &a.env, &a.block), TPP_OK);
    tpp_layer_destroy(layer);
    tpp_layer_destroy(NULL);
}

static void test_linear(void **state) {
    (void)state;
    REFUSE(linear, column, kind, 0, "0");
    REFUSE(linear, column, kind, 3, "3");
    REFUSE(linear, column, in, 0, "0");
    REFUSE(linear, column, in, -4, "-4");
    REFUSE(linear, column, out, 0, "0");
    REFUSE(linear, row, in, -24, "-24");
    REFUSE(linear, row, out, 0, "0");
    REFUSE(linear, column, init_std, -1.0, "-1");
    REFUSE(linear, column, init_std, (double)NAN, "nan");
    REFUSE(linear, row, init_std, (double)INFINITY, "inf");
    REFUSE(linear, row, flags, TPP_LINEAR_PAD, "");
    REFUSE_ON(8, 0, linear, column, out, 12, "12", "1, 2, 3, 4, 6, 12");
    REFUSE_ON(8, 0, linear, row, in, 12, "12", "1, 2, 3, 4, 6, 12");
    REFUSE_ON(2, 8, linear, column, out, 12, "12", "8");
    REFUSE_ON(2, 8, linear, row, in, 12, "12", "8");
}

static void test_mlp(void **state) {
    all wide = right();
    (void)state;
    wide.mlp.hidden = INT64_MAX;
    wide.mlp.ffn = 0; /* four times as wide */
    refuse(&tp_kind_mlp, &wide, &wide.mlp, TPP_ERR_INVALID, ".hidden", "9223372036854775807", NULL);
    REFUSE(mlp, mlp, hidden, 0, "0");
    REFUSE(mlp, mlp, hidden, -1, "-1");
    REFUSE(mlp, mlp, ffn, -8, "-8");
    REFUSE(mlp, mlp, act, 6, "6");
    REFUSE(mlp, mlp, act, 15, "16 (SwiGLU), 17 (GeGLU)");
    REFUSE(mlp, mlp, act, 18, "18");
    REFUSE(mlp, mlp, flags, TPP_MLP_SEPARATE_GATE, "act = 1 has no gate");
    wide.mlp.hidden = 6;
    wide.mlp.ffn = (int64_t)1 << 30; /* twice that is no BLAS size */
    wide.mlp.act = TPP_ACT_SWIGLU;
    refuse(&tp_kind_mlp, &wide, &wide.mlp, TPP_ERR_INVALID, ".ffn", "1073741824", "1073741823");
    REFUSE(mlp, mlp, act, -1, "-1");
    REFUSE(mlp, mlp, init_std, -0.5, "-0.5");
    REFUSE(mlp, mlp, out_std, (double)NAN, "nan");
    REFUSE_ON(8, 0, mlp, mlp, ffn, 12, "12", "1, 2, 3, 4, 6, 12");
    REFUSE_ON(5, 0, mlp, mlp, ffn, 0, "24", "1, 2, 3, 4, 6, 8, 12, 24");
    REFUSE_ON(1, 16, mlp, mlp, ffn, 24, "24", "16");
}

static void test_attention(void **state) {
    (void)state;
    REFUSE(attention, attention, hidden, 0, "0");
    REFUSE(attention, attention, hidden, -24, "-24");
    REFUSE(attention, attention, heads, 0, "0");
    REFUSE(attention, attention, heads, -3, "-3");
    REFUSE(attention, attention, heads, 5, "5");
    REFUSE(attention, attention, head_cols, -2, "-2 is negative; accepted: 0 (desc.hidden");
    REFUSE(attention, attention, kv_heads, -1, "-1");
    REFUSE(attention, attention, kv_heads, 24, "24");
    REFUSE(attention, attention, kv_heads, 5, "1, 2, 3, 4, 6, 12");
    REFUSE(attention, attention, init_std, (double)-INFINITY, "-inf");
    REFUSE(attention, attention, out_std, -2.0, "-2");
    REFUSE(attention, attention, window, -1, "-1 is negative; accepted: 0 (none), 1 or more");
    REFUSE(attention, attention, window, INT64_MIN, "-9223372036854775808");
    REFUSE(attention, attention, norm_epsilon, -1e-5, "-1e-05");
    REFUSE(attention, attention, norm_epsilon, (double)NAN, "nan");
    REFUSE(attention, attention, flags, TPP_ATTENTION_QKV_BIAS, "without TPP_ATTENTION_NO_BIAS");
    REFUSE_ON(8, 0, attention, attention, heads, 12, "12", "1, 2, 3, 4, 6, 12");
    REFUSE_ON(4, 0, attention, attention, heads, 6, "6", "1, 2, 3, 6");
    REFUSE_ON(2, 8, attention, attention, heads, 12, "12", "8");
    REFUSE_ON(8, 0, attention, attention, kv_heads, 4, "tp = 8", "allow: 1, 2, 4, 12");
    REFUSE_ON(3, 0, attention, attention, kv_heads, 2, "tp = 3", "allow: 1, 2, 4, 6, 12");
    REFUSE_ON(1, 2, attention, attention, kv_heads, 3, "blocks = 2", "allow: 1, 3, 6, 12");
}

static void test_others(void **state) {
    (void)state;
    REFUSE(norm, norm, cols, 0, "0");
    REFUSE(norm, norm, cols, -1, "-1");
    REFUSE(norm, norm, epsilon, -1e-5, "-1e-05");
    REFUSE(norm, norm, epsilon, (double)NAN, "nan");
    REFUSE(norm, norm, kind, 2, "2");
    REFUSE(norm, norm, kind, -1, "1 (RMSNorm)");
    REFUSE(embedding, embedding, vocab, 0, "0");
    REFUSE(embedding, embedding, vocab, (int64_t)1 << 31, "2147483648");
    REFUSE(embedding, embedding, hidden, -6, "-6");
    REFUSE(embedding, embedding, positions, -1, "-1");
    REFUSE(embedding, embedding, init_std, -1.0, "-1");
    REFUSE(loss, loss, vocab, 0, "0");
    REFUSE(loss, loss, vocab, -7, "-7");
    REFUSE(loss, loss, reduction, 3, "3");
    REFUSE(loss, loss, reduction, -1, "-1");
    REFUSE(loss, loss, smoothing, 1, "1");
    REFUSE(loss, loss, smoothing, -0.5, "-0.5");
    REFUSE(loss, loss, smoothing, NAN, "nan");
    REFUSE(loss, loss, z_loss, -0.25, "-0.25");
    REFUSE(loss, loss, z_loss, INFINITY, "inf");
    REFUSE(head, head, hidden, 0, "0");
    REFUSE(head, head, vocab, -7, "-7");
    REFUSE(head, head, block, -2, "-2");
    REFUSE(head, head, block, 5, "5"); /* not fused */
    REFUSE(head, head, init_std, -1, "-1");
    REFUSE(head, head, flags, TPP_HEAD_EARLY, "TPP_HEAD_EARLY"); /* not fused */
    all a = right();
    a.head.loss = &a.loss; /* of each token */
    a.head.flags = TPP_HEAD_EARLY;
    refuse(&tp_kind_head, &a, &a.head, TPP_ERR_INVALID, "reduction = 0", "TPP_HEAD_EARLY", NULL);
    REFUSE(block, block, hidden, 0, "0");
    REFUSE(block, block, ffn, -1, "-1");
    REFUSE(block, block, heads, 0, "0");
    REFUSE(block, block, heads, 7, "7");
    REFUSE(block, block, act, 9, "9");
    REFUSE(block, block, norm, 2, "2");
    REFUSE(block, block, flags, TPP_BLOCK_SEPARATE_GATE, "act = 1 has no gate");
    REFUSE(block, block, flags, TPP_BLOCK_QKV_BIAS, "without TPP_BLOCK_NO_BIAS");
    REFUSE(block, block, flags, TPP_BLOCK_MLP_BIAS, "without TPP_BLOCK_NO_BIAS");
    REFUSE(block, block, flags, TPP_BLOCK_NO_BIAS | TPP_BLOCK_OUT_BIAS, "TPP_BLOCK_QKV_BIAS");
    REFUSE(block, block, window, -1, "-1");
    REFUSE(block, block, head_cols, -8, "-8");
    REFUSE(block, block, flags, TPP_BLOCK_TWO_NORMS, "TPP_BLOCK_PARALLEL");
    REFUSE(block, block, dropout, 1, "= 1 is out of range");
    REFUSE(block, block, kv_heads, 5, "5");
    REFUSE(block, block, epsilon, -1.0, "-1");
    REFUSE(block, block, init_std, -1.0, "-1");
    REFUSE(block, block, out_std, (double)NAN, "nan");
    REFUSE_ON(8, 0, block, block, heads, 12, "12", "1, 2, 3, 4, 6, 12");
    REFUSE_ON(4, 0, block, block, ffn, 6, "6", "1, 2, 3, 6");
}

/* env, for every kind. */
static void refuse_env(int which, const char *first, const char *second) {
    for (const tp_case *c = tp_cases; c->name; c++) {
        static const tpp_gemm_ops empty = {sizeof empty, 0, NULL, NULL};
        static const tpp_allocator half = {sizeof half, 0, NULL, NULL, NULL};
        all a = right();
        tpp_comm *comm = tp_comm_stub(0, 3);
        switch (which) {
        case 0:
            a.env.dtype = TPP_I32;
            break;
        case 1:
            a.env.dtype = -1;
            break;
        case 2:
            a.env.blocks = 3;
            break;
        case 3:
            a.env.blocks = -4;
            break;
        case 4:
            a.env.blocks = 4, a.env.comm = comm;
            break;
        case 5:
            a.env.gemm = &empty;
            break;
        default:
            a.env.allocator = &half;
            break;
        }
        refuse(c->kind, &a, c->desc, TPP_ERR_INVALID, first, second, NULL);
        tpp_comm_destroy(comm);
    }
}

static void test_env(void **state) {
    (void)state;
    refuse_env(0, "env.dtype", "16");
    refuse_env(1, "env.dtype", "-1");
    refuse_env(2, "env.blocks", "3");
    refuse_env(3, "env.blocks", "-4");
    refuse_env(4, "env.blocks", "3 ranks");
    refuse_env(5, "gemm", "NULL");
    refuse_env(6, "alloc", "NULL");
}

/* O13: heads that ranks do not divide are refused at creation. K/V heads: test_copies.c. */
static void test_heads(void **state) {
    (void)state;
    for (int32_t heads = 1; heads <= 16; heads++) {
        for (int32_t ranks = 1; ranks <= 16; ranks++) {
            all a = right();
            tpp_layer *layer = NULL;
            a.env.comm = tp_comm_stub(ranks - 1, ranks);
            a.attention.heads = heads;
            a.attention.head_cols = 2;
            tpp_status status = tpp_attention_create(&layer, &a.env, &a.attention);
            assert_int_equal(status, heads % ranks ? TPP_ERR_INVALID : TPP_OK);
            tpp_layer_destroy(layer);
            tpp_comm_destroy(a.env.comm);
        }
    }
}

/* Sized structs: shorter reads as zero, too short, longer with zeros, longer with a number, unknown
 * flags. */
static void check_sized(const tp_kind *kind, const void *desc, uint32_t bytes, const char *what) {
    unsigned char room[512] = {0};
    all a = right();
    tpp_layer *layer = NULL;
    uint32_t size;
    uint32_t flags = 0x40000000u;
    memcpy(room, desc, bytes);
    size = 4;
    memcpy(room, &size, sizeof size);
    refuse(kind, &a, room, TPP_ERR_INVALID, what, "4", NULL);
    size = 0;
    memcpy(room, &size, sizeof size);
    refuse(kind, &a, room, TPP_ERR_INVALID, what, "0", NULL);
    size = bytes + 24;
    memcpy(room, &size, sizeof size);
    assert_int_equal(kind->create(&layer, &a.env, room), TPP_OK);
    tpp_layer_destroy(layer);
    room[bytes + 23] = 1;
    refuse(kind, &a, room, TPP_ERR_TOO_NEW, what, "", NULL);
    memcpy(room, desc, bytes);
    memcpy(room + 4, &flags, sizeof flags);
    refuse(kind, &a, room, TPP_ERR_TOO_NEW, what, "flags", NULL);
    refuse(kind, &a, NULL, TPP_ERR_INVALID, what, "NULL", NULL);
    assert_int_equal(kind->create(NULL, &a.env, desc), TPP_ERR_INVALID);
    assert_says("out");
    assert_int_equal(kind->create(&layer, NULL, desc), TPP_ERR_INVALID);
    assert_says("env");
}

static void test_sized(void **state) {
    all a = right();
    tpp_layer *layer = NULL;
    (void)state;
    check_sized(&tp_kind_linear, &a.column, sizeof a.column, "desc");
    check_sized(&tp_kind_mlp, &a.mlp, sizeof a.mlp, "desc");
    check_sized(&tp_kind_attention, &a.attention, sizeof a.attention, "desc");
    check_sized(&tp_kind_norm, &a.norm, sizeof a.norm, "desc");
    check_sized(&tp_kind_embedding, &a.embedding, sizeof a.embedding, "desc");
    check_sized(&tp_kind_loss, &a.loss, sizeof a.loss, "desc");
    check_sized(&tp_kind_head, &a.head, sizeof a.head, "desc");
    check_sized(&tp_kind_block, &a.block, sizeof a.block, "desc");
    /* an older program's shorter descriptor: the missing fields are zero */
    a.mlp.size = offsetof(tpp_mlp_desc, act);
    a.mlp.act = 77;
    assert_int_equal(tpp_mlp_create(&layer, &a.env, &a.mlp), TPP_OK);
    tpp_layer_destroy(layer);
    a = right();
    a.env.size = 4;
    refuse(&tp_kind_mlp, &a, &a.mlp, TPP_ERR_INVALID, "env", "4", NULL);
    a = right();
    a.env.flags = 2;
    refuse(&tp_kind_mlp, &a, &a.mlp, TPP_ERR_TOO_NEW, "env", "flags", NULL);
    a = right();
    a.env.size = offsetof(tpp_layer_env, gemm);
    a.env.name = (const char *)1; /* not read */
    assert_int_equal(tpp_mlp_create(&layer, &a.env, &a.mlp), TPP_OK);
    tpp_layer_destroy(layer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right),     cmocka_unit_test(test_linear), cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_attention), cmocka_unit_test(test_others), cmocka_unit_test(test_env),
        cmocka_unit_test(test_heads),     cmocka_unit_test(test_sized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
