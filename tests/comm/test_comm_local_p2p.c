/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/comm_threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Messages of a local group. */

static void no_clock_needed(tpp_request *request, tpp_status want) {
    tpp_status status = tpp_comm_wait(request);
    assert_int_equal(status, want);
    assert_null(request->comm);
}

/* Behaviour O02: with two ranks, next and previous are the same peer; only the tag tells the
 * forward message from the backward one, whatever the order of posting. */
static void o02_tags_decide(void **state) {
    (void)state;
    tpp_comm *comms[2];
    assert_int_equal(tpp_comm_local_create(comms, 2, NULL), TPP_OK);
    for (int32_t order = 0; order < 4; order++) {
        float activation = 1, gradient = 2, got[2] = {0, 0};
        tpp_request sends[2], recvs[2];
        for (int32_t i = 0; i < 2; i++) {
            bool forward = i == (order & 1);
            assert_int_equal(tpp_comm_send_start(comms[0], forward ? &activation : &gradient, 1,
                                                 TPP_F32, 1, forward ? 5 : 6, &sends[i]),
                             TPP_OK);
        }
        for (int32_t i = 0; i < 2; i++) {
            bool forward = i == (order >> 1);
            assert_int_equal(tpp_comm_recv_start(comms[1], &got[forward ? 0 : 1], 1, TPP_F32, 0,
                                                 forward ? 5 : 6, &recvs[i]),
                             TPP_OK);
        }
        for (int32_t i = 0; i < 2; i++) {
            no_clock_needed(&sends[i], TPP_OK);
            no_clock_needed(&recvs[i], TPP_OK);
        }
        assert_true(got[0] == 1 && got[1] == 2);
    }
    tpp_comm_destroy(comms[0]);
    tpp_comm_destroy(comms[1]);
}

/* Equal tags stay in order, for receives that wait and for sends that wait; the source decides
 * too. */
static void equal_tags_stay_in_order(void **state) {
    (void)state;
    enum { N = 3, EACH = 10 };
    tpp_comm *comms[N];
    assert_int_equal(tpp_comm_local_create(comms, N, NULL), TPP_OK);
    for (int32_t receive_first = 0; receive_first < 2; receive_first++) {
        int64_t sent[2][EACH], got[2][EACH];
        tpp_request sends[2][EACH], recvs[2][EACH];
        memset(got, 0, sizeof got);
        for (int32_t half = 0; half < 2; half++) {
            for (int32_t i = 0; i < EACH; i++) {
                for (int32_t source = 0; source < 2; source++) {
                    sent[source][i] = 100 * source + i;
                    bool receive = (half == 0) == (receive_first == 1);
                    tpp_status status =
                        receive ? tpp_comm_recv_start(comms[2], &got[source][i], 1, TPP_I64, source,
                                                      7, &recvs[source][i])
                                : tpp_comm_send_start(comms[source], &sent[source][i], 1, TPP_I64,
                                                      2, 7, &sends[source][i]);
                    assert_int_equal(status, TPP_OK);
                }
            }
        }
        for (int32_t i = 0; i < EACH; i++) {
            for (int32_t source = 0; source < 2; source++) {
                no_clock_needed(&sends[source][i], TPP_OK);
                no_clock_needed(&recvs[source][i], TPP_OK);
                assert_int_equal(got[source][i], 100 * source + i);
            }
        }
    }
    for (int32_t r = 0; r < N; r++)
        tpp_comm_destroy(comms[r]);
}

enum { RANKS = 4, MESSAGES = 40 };

static int64_t letter(int32_t from, int32_t to, int32_t number) {
    return from * 1000000 + to * 1000 + number;
}

/* A permutation of 0 .. n - 1. */
static void shuffled(int32_t *out, int32_t n, comm_random *random) {
    for (int32_t i = 0; i < n; i++)
        out[i] = i;
    for (int32_t i = n - 1; i > 0; i--) {
        int32_t other = (int32_t)comm_random_below(random, i + 1), held = out[i];
        out[i] = out[other];
        out[other] = held;
    }
}

typedef struct letters {
    int64_t out[RANKS][MESSAGES][40], in[RANKS][MESSAGES][40];
    tpp_request sends[RANKS][MESSAGES], recvs[RANKS][MESSAGES];
} letters;

/* Everybody sends everybody many messages of several sizes, posted and awaited in any order. */
static void all_to_all(tpp_comm *comm, int32_t rank, void *arg) {
    const uint64_t *seed = arg;
    comm_random random = {*seed + (uint64_t)rank};
    letters *l = calloc(1, sizeof *l);
    int32_t order[2 * RANKS * MESSAGES];
    if (!COMM_CHECK(l))
        return;
    shuffled(order, 2 * RANKS * MESSAGES, &random);
    for (int32_t k = 0; k < 2 * RANKS * MESSAGES; k++) {
        int32_t peer = order[k] / 2 / MESSAGES, number = order[k] / 2 % MESSAGES;
        if (peer == rank)
            continue;
        int64_t count = number % 40;
        comm_delay(&random);
        if (order[k] % 2) {
            for (int64_t i = 0; i < count; i++)
                l->out[peer][number][i] = letter(rank, peer, number) + i;
            COMM_CHECK_OK(tpp_comm_send_start(comm, l->out[peer][number], count, TPP_I64, peer,
                                              (uint64_t)number, &l->sends[peer][number]));
        } else {
            COMM_CHECK_OK(tpp_comm_recv_start(comm, l->in[peer][number], count, TPP_I64, peer,
                                              (uint64_t)number, &l->recvs[peer][number]));
        }
    }
    shuffled(order, 2 * RANKS * MESSAGES, &random);
    for (int32_t k = 0; k < 2 * RANKS * MESSAGES; k++) {
        int32_t peer = order[k] / 2 / MESSAGES, number = order[k] / 2 % MESSAGES;
        COMM_CHECK_OK(
            tpp_comm_wait(order[k] % 2 ? &l->sends[peer][number] : &l->recvs[peer][number]));
        for (int64_t i = 0; i < number % 40 && peer != rank && order[k] % 2 == 0; i++)
            COMM_CHECK(l->in[peer][number][i] == letter(peer, rank, number) + i);
    }
    free(l);
}

static void many_in_shuffled_order(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 10; seed++)
        comm_threads_run(RANKS, NULL, all_to_all, &seed);
}

static void misfit(int64_t sent, tpp_dtype sent_type, int64_t awaited, tpp_dtype awaited_type,
                   bool swap) {
    double x[4] = {0}, y[4] = {9, 9, 9, 9};
    tpp_comm *comms[2];
    tpp_request send, recv, later;
    assert_int_equal(tpp_comm_local_create(comms, 2, NULL), TPP_OK);
    for (int32_t k = 0; k < 2; k++) {
        if ((k == 0) != swap)
            assert_int_equal(tpp_comm_send_start(comms[0], x, sent, sent_type, 1, 3, &send),
                             TPP_OK);
        else
            assert_int_equal(tpp_comm_recv_start(comms[1], y, awaited, awaited_type, 0, 3, &recv),
                             TPP_OK);
    }
    no_clock_needed(&send, TPP_ERR_MISMATCH);
    assert_non_null(strstr(tpp_message(), "rank 0 sends"));
    no_clock_needed(&recv, TPP_ERR_MISMATCH);
    assert_non_null(strstr(tpp_message(), "rank 1 receives"));
    assert_true(y[0] == 9 && y[3] == 9);
    assert_int_equal(tpp_comm_send_start(comms[0], x, 1, TPP_F64, 1, 4, &later), TPP_ERR_MISMATCH);
    tpp_comm_destroy(comms[1]);
    tpp_comm_destroy(comms[0]);
}

static void size_and_type_must_fit(void **state) {
    (void)state;
    for (int32_t swap = 0; swap < 2; swap++) {
        misfit(4, TPP_F32, 3, TPP_F32, swap);
        misfit(3, TPP_F32, 4, TPP_F32, swap);
        misfit(2, TPP_F32, 1, TPP_F64, swap);
        misfit(2, TPP_F32, 2, TPP_I32, swap);
        misfit(0, TPP_F32, 1, TPP_F32, swap);
    }
}

static void says_both_sizes(void **state) {
    (void)state;
    double x[4] = {0};
    tpp_comm *comms[2];
    tpp_request send, recv;
    assert_int_equal(tpp_comm_local_create(comms, 2, NULL), TPP_OK);
    assert_int_equal(tpp_comm_send_start(comms[0], x, 4, TPP_F32, 1, 3, &send), TPP_OK);
    assert_int_equal(tpp_comm_recv_start(comms[1], x, 3, TPP_F64, 0, 3, &recv), TPP_OK);
    no_clock_needed(&send, TPP_ERR_MISMATCH);
    assert_string_equal(tpp_message(),
                        "rank 0 sends 4 float32 to rank 1 with tag 3, which receives 3 float64");
    no_clock_needed(&recv, TPP_ERR_MISMATCH);
    tpp_comm_destroy(comms[0]);
    tpp_comm_destroy(comms[1]);
}

/* A ring of four ranks, driven by one thread that only tests: nothing may block. */
static void one_thread_drives_four(void **state) {
    (void)state;
    enum { N = 4, COUNT = 100 };
    tpp_comm *comms[N];
    static double out[N][COUNT], in[N][COUNT];
    tpp_request sends[N], recvs[N];
    comm_guard_begin();
    assert_int_equal(tpp_comm_local_create(comms, N, NULL), TPP_OK);
    for (int32_t round = 0; round < 50; round++) {
        for (int32_t r = 0; r < N; r++) {
            for (int32_t i = 0; i < COUNT; i++)
                out[r][i] = 1000 * r + i + round;
            assert_int_equal(tpp_comm_recv_start(comms[r], in[r], COUNT, TPP_F64, (r + N - 1) % N,
                                                 (uint64_t)round, &recvs[r]),
                             TPP_OK);
            assert_int_equal(tpp_comm_test(&recvs[r]), TPP_PENDING);
        }
        for (int32_t r = N - 1; r >= 0; r--) {
            assert_int_equal(tpp_comm_send_start(comms[r], out[r], COUNT, TPP_F64, (r + 1) % N,
                                                 (uint64_t)round, &sends[r]),
                             TPP_OK);
            assert_int_equal(tpp_comm_test(&sends[r]), TPP_OK);
        }
        for (int32_t r = 0; r < N; r++) {
            assert_int_equal(tpp_comm_test(&recvs[r]), TPP_OK);
            assert_memory_equal(in[r], out[(r + N - 1) % N], sizeof in[r]);
        }
    }
    for (int32_t r = 0; r < N; r++)
        tpp_comm_destroy(comms[r]);
    comm_guard_end();
}

/* Requests that were given up after an abort vanish with their handle from every mailbox:
 * AddressSanitizer sees who still looks at them. */
static void destroy_takes_messages_back(void **state) {
    (void)state;
    tpp_comm *comms[3];
    double x[1] = {1};
    assert_int_equal(tpp_comm_local_create(comms, 3, NULL), TPP_OK);
    tpp_request *given_up = malloc(2 * sizeof *given_up), others[2];
    assert_non_null(given_up);
    assert_int_equal(tpp_comm_send_start(comms[0], x, 1, TPP_F64, 1, 7, &given_up[0]), TPP_OK);
    assert_int_equal(tpp_comm_send_start(comms[2], x, 1, TPP_F64, 1, 8, &others[0]), TPP_OK);
    assert_int_equal(tpp_comm_recv_start(comms[0], x, 1, TPP_F64, 1, 6, &given_up[1]), TPP_OK);
    assert_int_equal(tpp_comm_recv_start(comms[1], x, 1, TPP_F64, 2, 5, &others[1]), TPP_OK);
    tpp_comm_abort(comms[2]);
    tpp_comm_destroy(comms[0]);
    free(given_up);
    no_clock_needed(&others[0], TPP_ERR_ABORTED);
    no_clock_needed(&others[1], TPP_ERR_ABORTED);
    tpp_comm_destroy(comms[1]);
    tpp_comm_destroy(comms[2]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(o02_tags_decide),
        cmocka_unit_test(equal_tags_stay_in_order),
        cmocka_unit_test(many_in_shuffled_order),
        cmocka_unit_test(size_and_type_must_fit),
        cmocka_unit_test(says_both_sizes),
        cmocka_unit_test(one_thread_drives_four),
        cmocka_unit_test(destroy_takes_messages_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
