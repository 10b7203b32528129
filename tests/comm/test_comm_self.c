/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/comm_threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* A group of one: collectives copy. */

enum { MOST = 3000 };

static void collectives_copy(void **state) {
    (void)state;
    static const int64_t counts[] = {0, 1, 50, 64, 65, MOST};
    static double in[MOST], out[MOST];
    tpp_comm *self;
    assert_int_equal(tpp_comm_self_create(&self, NULL), TPP_OK);
    assert_int_equal(tpp_comm_rank(self), 0);
    assert_int_equal(tpp_comm_size(self), 1);
    comm_fill(in, MOST, TPP_F64, 0, 1);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        size_t bytes = (size_t)counts[c] * sizeof *in;
        for (tpp_reduce reduce = TPP_SUM; reduce <= TPP_MAX; reduce++) {
            memset(out, 0, sizeof out);
            assert_int_equal(tpp_comm_all_reduce(self, in, out, counts[c], TPP_F64, reduce),
                             TPP_OK);
            assert_memory_equal(in, out, bytes);
            assert_int_equal(tpp_comm_all_reduce(self, out, out, counts[c], TPP_F64, reduce),
                             TPP_OK);
            assert_memory_equal(in, out, bytes);
        }
        memset(out, 0, sizeof out);
        assert_int_equal(tpp_comm_all_gather(self, in, out, counts[c], TPP_F64), TPP_OK);
        assert_memory_equal(in, out, bytes);
        assert_int_equal(tpp_comm_all_gather(self, out, out, counts[c], TPP_F64), TPP_OK);
        assert_int_equal(tpp_comm_broadcast(self, out, counts[c], TPP_F64, 0), TPP_OK);
        assert_memory_equal(in, out, bytes);
        assert_int_equal(tpp_comm_barrier(self), TPP_OK);
    }
    tpp_comm_destroy(self);
}

static void message_to_itself_is_an_error(void **state) {
    (void)state;
    tpp_comm *self;
    tpp_request request;
    double x = 0;
    assert_int_equal(tpp_comm_self_create(&self, NULL), TPP_OK);
    assert_int_equal(tpp_comm_send_start(self, &x, 1, TPP_F64, 0, 0, &request), TPP_ERR_INVALID);
    assert_string_equal(tpp_message(),
                        "peer = 0 is this rank itself; a message goes to another rank");
    assert_int_equal(tpp_comm_recv_start(self, &x, 1, TPP_F64, 0, 0, &request), TPP_ERR_INVALID);
    tpp_comm_destroy(self);
}

static void splits_and_aborts(void **state) {
    (void)state;
    tpp_comm *self, *child, *none = (tpp_comm *)state;
    assert_int_equal(tpp_comm_self_create(&self, NULL), TPP_OK);
    assert_int_equal(tpp_comm_split(self, &child, 0, 0), TPP_OK);
    assert_int_equal(tpp_comm_split(self, &none, -1, 0), TPP_OK);
    assert_null(none);
    assert_int_equal(tpp_comm_barrier(child), TPP_OK);
    tpp_comm_abort(self);
    assert_int_equal(tpp_comm_barrier(self), TPP_ERR_ABORTED);
    assert_int_equal(tpp_comm_barrier(child), TPP_ERR_ABORTED);
    tpp_comm_destroy(self);
    tpp_comm_destroy(child);
}

static void memory(void **state) {
    (void)state;
    comm_memory memory;
    tpp_comm *self = NULL;
    comm_memory_init(&memory, 1);
    assert_int_equal(tpp_comm_self_create(&self, &memory.allocator), TPP_ERR_NO_MEMORY);
    assert_null(self);
    assert_int_equal(tpp_comm_self_create(&self, &memory.allocator), TPP_OK);
    tpp_comm_destroy(self);
    assert_int_equal(atomic_load(&memory.live), 0);
    assert_int_equal(tpp_comm_self_create(NULL, NULL), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "out"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_copy),
        cmocka_unit_test(message_to_itself_is_an_error),
        cmocka_unit_test(splits_and_aborts),
        cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
