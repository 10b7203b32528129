/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_STATUS_H
#define TPP_STATUS_H

/**
 * @file status.h
 * Status codes and the message that explains the last failure.
 *
 *     tpp_status st = tpp_mlp_create(&mlp, &env, &desc);
 *     if (st < 0)
 *         fprintf(stderr, "%s: %s\n", tpp_status_name(st), tpp_message());
 *
 * The message is one sentence that names the argument, its value, the rule and the accepted values.
 * It belongs to the calling thread and stays until the next failing call of that thread. Nothing is
 * allocated for it, and the library never prints it.
 */

#include <tpp/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TPP_OK = 0,
    TPP_PENDING = 1, /**< not an error: the operation is under way, ask again */

    TPP_ERR_INVALID = -1,     /**< an argument breaks its rule */
    TPP_ERR_NO_MEMORY = -2,   /**< the allocator returned NULL */
    TPP_ERR_TOO_NEW = -3,     /**< a sized struct uses a field that this library does not know */
    TPP_ERR_OVERFLOW = -4,    /**< a size does not fit into 64 bits (or into BLAS's 32) */
    TPP_ERR_TOO_SMALL = -5,   /**< memory that the caller passed is less than the query says */
    TPP_ERR_UNSUPPORTED = -6, /**< valid, but not offered by this object */
    TPP_ERR_RANGE = -7,       /**< data out of range, such as a token id >= vocabulary */

    TPP_ERR_ABORTED = -100,  /**< the group was aborted, here or by another rank */
    TPP_ERR_TIMEOUT = -101,  /**< a wait passed its deadline */
    TPP_ERR_MISMATCH = -102, /**< ranks disagree on a collective or on a message's size */
    TPP_ERR_COMM = -103,     /**< the transport failed */

    TPP_ERR_SCHEDULE = -200, /**< a schedule is incomplete or breaks a dependency */
    TPP_ERR_DEADLOCK = -201, /**< a schedule cannot finish: ranks wait for each other */
    TPP_ERR_PARSE = -202,    /**< text does not follow its grammar */

    TPP_ERR_IO = -400,     /**< the system refused a file */
    TPP_ERR_FORMAT = -401, /**< a file breaks a rule of its format */

    /** First of the values that the library never makes itself: a callback's own refusal, all
     * values <= TPP_ERR_USER, comes back to the caller unchanged. */
    TPP_ERR_USER = -1000
};

/**
 * The name of a status, such as "TPP_ERR_INVALID"; "TPP_ERR_USER" for all values at or below it;
 * "unknown status" for others. Never NULL.
 *
 * Memory: static text. Threads: any. Since: 0.1.
 */
TPP_API const char *tpp_status_name(tpp_status status);

/** Name of a pipeline operation such as "F" or "SEND_F" (tpp_op); NULL when there is none. Memory:
 * static. Threads: any. Since: 0.1. */
TPP_API const char *tpp_op_name(tpp_op op);

/**
 * The sentence of this thread's last failing call; "" when none has failed.
 *
 * Memory: borrowed, overwritten by this thread's next failing call. Threads: any. Since: 0.1.
 */
TPP_API const char *tpp_message(void);

/**
 * Set this thread's message: for callbacks that refuse (their status passes through the library,
 * and so does their sentence). A callback that sets none leaves the sentence of an earlier failure. Cut to
 * 511 bytes.
 *
 * @param text a sentence, zero-terminated; NULL is taken as "".
 *
 * Threads: any. Since: 0.1.
 */
TPP_API void tpp_message_set(const char *text);

#ifdef __cplusplus
}
#endif

#endif
