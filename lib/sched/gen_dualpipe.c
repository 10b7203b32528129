/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/two_chunks.h"

/* For an even number of micro-batches, at least 2p, and ranks in mirrored pairs (of an odd number the
 * middle one is its own mirror). With fewer micro-batches it is the order for that many, without
 * those that there are not. */
void tpp__sched_dualpipe(tpp__sched_emitter *e, const tpp_schedule_desc *d, int32_t rank) {
    int32_t p = d->ranks, mirror = p - 1 - rank, pairs = (p + 1) / 2;
    int32_t from_end = rank < mirror ? rank : mirror;
    int32_t half = d->micros - d->micros / 2; /* of direction 0; direction 1 has the rest */
    int32_t spare = half > 2 * pairs ? half - 2 * pairs : 0;
    tpp__sched_two_chunks c = {.e = e};
    for (int32_t direction = 0; direction < 2; direction++) {
        int32_t chunk = rank <= mirror ? direction : 1 - direction;
        c.stage[chunk] = direction == 0 ? rank : p + mirror;
        c.first[chunk] = direction == 0 ? 0 : half;
        c.count[chunk] = direction == 0 ? half : d->micros - half;
    }
    tpp__sched_dual(&c, from_end, pairs - 1 - from_end, spare);
}
