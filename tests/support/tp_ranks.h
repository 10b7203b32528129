/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_TP_RANKS_H
#define TPP_SUPPORT_TP_RANKS_H

/* Rank threads for tests of layers. Code on a rank never asserts (cmocka must not jump out of a
 * thread): it returns a status, with TP_NEED and TP_TRY, and the main thread fails the test. */

#include <tpp/tpp.h>

/* What a rank does; a negative status aborts the group. */
typedef tpp_status (*tp_rank_fn)(tpp_comm *comm, int32_t rank, void *arg);

/* Return from a rank function when a condition does not hold. */
#define TP_NEED(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return tp_fault(__FILE__, __LINE__, #condition);                                       \
    } while (0)

/* Return from a rank function when a call fails; its own message is kept. */
#define TP_TRY(call)                                                                               \
    do {                                                                                           \
        tpp_status tp_try_status = (call);                                                         \
        if (tp_try_status < 0)                                                                     \
            return tp_failed(__FILE__, __LINE__, #call, tp_try_status);                            \
    } while (0)

tpp_status tp_fault(const char *file, int line, const char *text);
tpp_status tp_failed(const char *file, int line, const char *text, tpp_status status);

/* Run fn on `ranks` threads, each with its handle of a new local comm; fail the test when one
 * fails. A run that hangs ends the process after two minutes. */
void tp_ranks_run(int32_t ranks, tp_rank_fn fn, void *arg);

/* The same, but the statuses and messages (512 bytes each, or NULL) are given back and nothing
 * fails. */
void tp_ranks_try(int32_t ranks, tp_rank_fn fn, void *arg, tpp_status *status, char *messages);

/* Rank `rank` of `size` over a transport that cannot send, for create and query alone. */
tpp_comm *tp_comm_stub(int32_t rank, int32_t size);

#endif
