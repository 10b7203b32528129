/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SCHED_TWO_CHUNKS_H
#define TPP_SCHED_TWO_CHUNKS_H

#include "sched/generate.h"

/* A rank with two stages, called chunk 0 and 1, whose order is written down in phases. Micro-batches
 * of a chunk take their turns by themselves; beyond the last one there are none, so that an order
 * for more micro-batches than there are serves too: without whole micro-batches it stays right. */
typedef struct tpp__sched_two_chunks {
    tpp__sched_emitter *e;
    int32_t stage[2];
    int32_t first[2];   /* micro-batch */
    int32_t count[2];   /* of micro-batches; each chunk >= 0 */
    int32_t next[2][3]; /* turns taken of F, I, W (a B is both) */
} tpp__sched_two_chunks;

/* V placement: chunk 0 on the way down, chunk 1 on the way up. */
tpp__sched_two_chunks tpp__sched_v_chunks(tpp__sched_emitter *e, const tpp_schedule_desc *d,
                                          int32_t rank);

/* `times` times what `ops` says: operation and chunk each, "F0F1I0W0B1"; "F0&B1" is one atom. */
void tpp__sched_phase(tpp__sched_two_chunks *c, int32_t times, const char *ops);

/* DualPipe's order, of both its forms. Chunk 0 is the one whose first stage is nearer. `from_end`:
 * ranks from here to that stage; `to_turn`: ranks from here to where the other chunk's micro-batches
 * come from; `spare`: micro-batches of a chunk beyond the fewest that fill the pipeline. */
void tpp__sched_dual(tpp__sched_two_chunks *c, int32_t from_end, int32_t to_turn, int32_t spare);

#endif
