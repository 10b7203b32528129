/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/comm_threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The last operations of a rank, as text. */

typedef struct sheet {
    char text[32768];
    int64_t used;
    tpp_status answer;
} sheet;

static tpp_status take(void *ctx, const char *bytes, int64_t count) {
    sheet *s = ctx;
    assert_true(s->used + count < (int64_t)sizeof s->text);
    memcpy(s->text + s->used, bytes, (size_t)count);
    s->used += count;
    s->text[s->used] = 0;
    return s->answer;
}

static sheet written;

static void one_of_each(void **state) {
    (void)state;
    tpp_comm *comms[2], *children[2];
    float x[32] = {0}, y[32];
    tpp_request all[2], send, recv;
    assert_int_equal(tpp_comm_local_create(comms, 2, NULL), TPP_OK);
    written = (sheet){.used = 0};
    assert_int_equal(tpp_comm_history(comms[0], take, &written), TPP_OK);
    assert_int_equal(written.used, 0);
    for (int32_t r = 0; r < 2; r++)
        assert_int_equal(
            tpp_comm_all_reduce_start(comms[r], x + 8 * r, y + 8 * r, 5, TPP_F32, TPP_SUM, &all[r]),
            TPP_OK);
    assert_int_equal(tpp_comm_send_start(comms[0], x, 3, TPP_F64, 1, 18446744073709551614U, &send),
                     TPP_OK);
    assert_int_equal(
        tpp_comm_recv_start(comms[1], y + 20, 3, TPP_F64, 0, 18446744073709551614U, &recv), TPP_OK);
    for (int32_t r = 0; r < 2; r++)
        assert_int_equal(tpp_comm_wait(&all[r]), TPP_OK);
    assert_int_equal(tpp_comm_wait(&send), TPP_OK);
    assert_int_equal(tpp_comm_wait(&recv), TPP_OK);
    for (int32_t r = 0; r < 2; r++)
        assert_int_equal(tpp_comm_all_reduce_start(comms[r], x, NULL, 1, TPP_F32, TPP_SUM, &all[r]),
                         TPP_ERR_INVALID); /* never happened */
    tpp_comm_abort(comms[1]);
    assert_int_equal(tpp_comm_broadcast(comms[0], x, 2, TPP_I32, 1), TPP_ERR_ABORTED);
    assert_int_equal(tpp_comm_barrier(comms[0]),
                     TPP_ERR_ABORTED); /* refused: the handle has failed */
    assert_int_equal(tpp_comm_split(comms[0], children, 0, 0), TPP_ERR_ABORTED);
    assert_int_equal(tpp_comm_history(comms[0], take, &written), TPP_OK);
    assert_string_equal(written.text, "1 all_reduce 5 float32 - #1\n"
                                      "2 send 3 float64 1 18446744073709551614\n"
                                      "3 broadcast 2 int32 1 #2\n");
    written = (sheet){.used = 0};
    assert_int_equal(tpp_comm_history(comms[1], take, &written), TPP_OK);
    assert_string_equal(written.text, "1 all_reduce 5 float32 - #1\n"
                                      "2 recv 3 float64 0 18446744073709551614\n");
    tpp_comm_destroy(comms[0]);
    tpp_comm_destroy(comms[1]);
}

static void keeps_the_last_256(void **state) {
    (void)state;
    tpp_comm *self, *child;
    int64_t x = 0, y[1];
    assert_int_equal(tpp_comm_self_create(&self, NULL), TPP_OK);
    for (int32_t i = 0; i < 300; i++)
        assert_int_equal(tpp_comm_all_gather(self, &x, y, 1, TPP_I64), TPP_OK);
    assert_int_equal(tpp_comm_split(self, &child, 0, 0), TPP_OK);
    assert_int_equal(tpp_comm_barrier(self), TPP_OK);
    written = (sheet){.used = 0};
    assert_int_equal(tpp_comm_history(self, take, &written), TPP_OK);
    assert_true(strncmp(written.text, "47 all_gather 1 int64 - #47\n48 all_gather", 40) == 0);
    int32_t lines = 0;
    for (const char *at = written.text; *at; at++)
        lines += *at == '\n';
    assert_int_equal(lines, 256);
    const char *end =
        "\n300 all_gather 1 int64 - #300\n301 split 0 - - #301\n302 barrier 0 - - #302\n";
    assert_string_equal(written.text + written.used - (int64_t)strlen(end), end);
    tpp_comm_destroy(child);
    tpp_comm_destroy(self);
}

static void bad_arguments_and_sinks(void **state) {
    (void)state;
    tpp_comm *self;
    assert_int_equal(tpp_comm_self_create(&self, NULL), TPP_OK);
    assert_int_equal(tpp_comm_barrier(self), TPP_OK);
    assert_int_equal(tpp_comm_history(NULL, take, &written), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "comm"));
    assert_int_equal(tpp_comm_history(self, NULL, NULL), TPP_ERR_INVALID);
    assert_non_null(strstr(tpp_message(), "write"));
    written = (sheet){.answer = TPP_ERR_USER - 1};
    assert_int_equal(tpp_comm_history(self, take, &written), TPP_ERR_USER - 1);
    tpp_comm_destroy(self);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_each),
        cmocka_unit_test(keeps_the_last_256),
        cmocka_unit_test(bad_arguments_and_sinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
