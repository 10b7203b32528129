/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_COMM_USER_H
#define TPP_SUPPORT_COMM_USER_H

#include <tpp/comm.h>

/* A transport as a host would bring it: send, receive and test on top of another comm's, nothing
 * else, so that all collectives are built by the library. inner stays the caller's. */
tpp_status comm_user_create(tpp_comm **out, tpp_comm *inner, double timeout);

/* From the call-th send or receive on (from 1; 0: never), refuse with this status. */
void comm_user_refuse(tpp_comm *comm, int64_t call, tpp_status status);

/* Messages that have not been reported as over. */
int32_t comm_user_under_way(const tpp_comm *comm);

#endif
