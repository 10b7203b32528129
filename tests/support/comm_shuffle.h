/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_COMM_SHUFFLE_H
#define TPP_SUPPORT_COMM_SHUFFLE_H

#include <tpp/comm.h>

/* A comm over another one that is as unkind as the contract allows: it posts messages late and in
 * another order (those of equal direction, peer and tag keep theirs), and reports what is over only
 * after some more tests. What it does follows from the seed and the order of calls. inner stays the
 * caller's; at most 1024 operations may be under way. */
tpp_status comm_shuffle_create(tpp_comm **out, tpp_comm *inner, uint64_t seed);

#endif
