/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_DEADLOCK_H
#define TPP_DEADLOCK_H

/**
 * @file deadlock.h
 * Why ranks wait for each other: the cycle of waits that tpp_schedule_check and
 * tpp_schedule_check_channel refuse a schedule for, as data and as a drawing.
 *
 *     tpp_wait waits[16];
 *     int32_t count;
 *     tpp_schedule_wait_cycle(schedule, TPP_CHANNEL_RENDEZVOUS, 0, waits, 16, &count);
 *     for (int32_t i = 0; i < count && i < 16; i++)
 *         printf("rank %d waits for rank %d\n", waits[i].rank, waits[i].peer);
 *     tpp_schedule_write_wait_svg(schedule, TPP_CHANNEL_RENDEZVOUS, 0, my_write, file);
 */

#include <tpp/schedule.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a rank waits for. */
typedef int32_t tpp_wait_reason;
enum {
    TPP_WAIT_MESSAGE = 1, /**< it receives, and the peer has not sent yet */
    TPP_WAIT_RECEIVER =
        2, /**< it sends without a buffer, and the peer has not come to its receive */
    TPP_WAIT_CHANNEL = 3, /**< it sends, and the channel is full until the peer receives */
    /** it computes into a stash slot whose result, sent earlier, the peer has not received yet */
    TPP_WAIT_SLOT = 4
};

/** One rank of a cycle. Frozen: 40 bytes for ever. */
typedef struct tpp_wait {
    int32_t rank; /**< who waits */
    int32_t peer; /**< for whom: the rank of the next entry, of the last one the first's */
    int64_t at;   /**< at its action of this index (tpp_schedule_actions) */
    tpp_wait_reason reason; /**< why */
    tpp_op until_op;        /**< until the peer has done this; 0 (CHANNEL): any receive */
    int32_t until_stage;    /**< its stage and micro-batch; -1 with until_op 0 */
    int32_t until_micro;
    uint64_t reserved; /**< 0 */
} tpp_wait;

/**
 * Find a cycle of waits. The cycle begins with its lowest rank.
 *
 * @param schedule         lowered.
 * @param channel,capacity as tpp_schedule_check_channel takes them.
 * @param out              [room]; NULL with room 0: only the length is asked.
 * @param count            receives the length of the cycle, 0 when all ranks come to their end; of
 *                         more than `room`, out has the first ones.
 * @return TPP_OK, also when there is a cycle; TPP_ERR_INVALID; TPP_ERR_SCHEDULE (incomplete, or an
 *         action stands before what it needs); TPP_ERR_NO_MEMORY.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_wait_cycle(const tpp_schedule *schedule, tpp_channel channel,
                                           int32_t capacity, tpp_wait *out, int32_t room,
                                           int32_t *count);

/**
 * Draw a cycle of waits: a row for each of its ranks (the first 24) with the actions around the one
 * where it stands, what is done, where it stands and what never comes in three tones, and an arrow
 * from every waiting action to what it waits for. One self-contained SVG, no script.
 *
 * @param write the sink.
 * @return as tpp_schedule_wait_cycle; TPP_ERR_INVALID when there is no cycle; what the sink returned.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_write_wait_svg(const tpp_schedule *schedule, tpp_channel channel,
                                               int32_t capacity, tpp_write_fn write, void *ctx);

#ifdef __cplusplus
}
#endif

#endif
