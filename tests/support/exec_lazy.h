/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_EXEC_LAZY_H
#define TPP_SUPPORT_EXEC_LAZY_H

#include <tpp/comm.h>

/* A transport that does as little as the contract allows: a message leaves only after its
 * request was asked after a few times, a different number for each, so that messages overtake
 * each other; it cannot block, and nothing moves unless asked. */
typedef struct exec_lazy_desc {
    int32_t
        most_asked;  /* a send or receive begins after 0 .. most_asked calls of test; 0: at once */
    int32_t fail_at; /* this send, counted from 0, fails when it is over; -1: none */
    int32_t drop_at; /* this send, counted from 0, is lost; -1: none */
    double timeout;  /* as tpp_comm_create */
    int32_t cannot_abort; /* the table has no abort */
} exec_lazy_desc;

/* inner stays the caller's. */
tpp_comm *exec_lazy_create(tpp_comm *inner, const exec_lazy_desc *desc);

/* Over all lazy comms since the program began: requests made, and those that were seen to their
 * end. */
int64_t exec_lazy_made(void);
int64_t exec_lazy_ended(void);

#endif
