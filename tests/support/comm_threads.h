/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_COMM_THREADS_H
#define TPP_SUPPORT_COMM_THREADS_H

/* Rank threads for tests of comms. cmocka must not jump out of a thread, so code on a rank
 * counts what does not hold with COMM_CHECK, and the main thread fails the test after the join. */

#include <stdatomic.h>
#include <stdbool.h>
#include <tpp/comm.h>

typedef void (*comm_body)(tpp_comm *comm, int32_t rank, void *arg);

/* Run body on n threads, each with its handle of a fresh local group (desc NULL: the defaults),
 * join, destroy the handles, and fail the test when a check did. A run that hangs ends the
 * process. */
void comm_threads_run(int32_t n, const tpp_comm_local_desc *desc, comm_body body, void *arg);

/* The same over the caller's handles, which are left alone. */
void comm_threads_over(tpp_comm *const *comms, int32_t n, comm_body body, void *arg);

/* End the process when it does not come to comm_guard_end within some seconds. */
void comm_guard_begin(void);
void comm_guard_end(void);

#define COMM_CHECK(condition) comm_check((condition), #condition, __FILE__, __LINE__)
#define COMM_CHECK_OK(call) comm_check_status((call), TPP_OK, #call, __FILE__, __LINE__)
#define COMM_CHECK_STATUS(call, status) comm_check_status((call), status, #call, __FILE__, __LINE__)
bool comm_check(bool holds, const char *text, const char *file, int line);
bool comm_check_status(tpp_status got, tpp_status want, const char *text, const char *file,
                       int line);

/* Numbers that are the same on every machine. */
typedef struct comm_random {
    uint64_t state;
} comm_random;
uint64_t comm_random_next(comm_random *random);
int64_t comm_random_below(comm_random *random, int64_t bound);

/* Often nothing, sometimes a yield, seldom some microseconds of sleep: changes the order of
 * arrival. */
void comm_delay(comm_random *random);

/* Fill with values whose sums depend on the order of adding, different for every rank. */
void comm_fill(void *out, int64_t count, tpp_dtype dtype, int32_t rank, uint64_t seed);

/* An allocator that counts and fails at a chosen call; usable from several threads. */
typedef struct comm_memory {
    tpp_allocator allocator;
    atomic_llong calls;
    atomic_llong live;
    atomic_llong live_bytes;
    long long fail_at; /* number of the call that gets NULL, from 1; 0: none */
} comm_memory;
void comm_memory_init(comm_memory *memory, long long fail_at);

#endif
