/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SCHED_GENERATE_H
#define TPP_SCHED_GENERATE_H

#include "sched/sched_impl.h"

/* Where a generator puts its actions. */
typedef struct tpp__sched_emitter {
    const tpp_schedule *schedule;
    tpp_action *next;
    bool unfused; /* TPP_SCHEDULE_UNFUSED */
} tpp__sched_emitter;

static inline void tpp__sched_emit(tpp__sched_emitter *e, int32_t op, int32_t stage,
                                   int32_t micro) {
    uint16_t chunk = (uint16_t)e->schedule->chunk_of[stage];
    *e->next++ = (tpp_action){(uint8_t)op, 0, chunk, stage, micro, -1, -1, 0};
}

/* F of one cell and B of another as one atom. */
static inline void tpp__sched_emit_fused(tpp__sched_emitter *e, int32_t f_stage, int32_t f_micro,
                                         int32_t b_stage, int32_t b_micro) {
    tpp__sched_emit(e, TPP_OP_F, f_stage, f_micro);
    e->next[-1].flags = e->unfused ? 0 : TPP_ACTION_FUSED;
    tpp__sched_emit(e, TPP_OP_B, b_stage, b_micro);
}

/* The compute actions of one rank, in order. All fields of `d` are valid, chunks is not 0. */
typedef void tpp__sched_generator(tpp__sched_emitter *e, const tpp_schedule_desc *d, int32_t rank);

/* The same of all ranks, for orders that are made together. The schedule is empty, with room. */
typedef tpp_status tpp__sched_whole(tpp_schedule *s, const tpp_schedule_desc *d);

/* A built-in order. */
typedef struct tpp__sched_kind {
    tpp_schedule_kind kind;
    const char *name;
    const char *pytorch; /* its class; NULL: none */
    tpp__sched_generator *generate;
    int32_t per_cell;        /* at most so many actions of a (stage, micro-batch) */
    tpp_placement placement; /* its own */
    int32_t chunks;          /* that it has; 0: any number */
    bool fuses;              /* has overlapped pairs */
    bool grouped;            /* desc.group means something */
    bool anywhere;           /* takes TPP_PLACEMENT_OWN */
    tpp__sched_whole *whole; /* instead of generate */
} tpp__sched_kind;

const tpp__sched_kind *tpp__sched_kind_find(tpp_schedule_kind kind);

/* "1 (gpipe), 2 (1f1b), ..."; returns the length. */
int tpp__sched_kinds_list(char *out, size_t bytes);

/* Make a copy of the caller's description, with defaults filled in; a fault is told. */
tpp_status tpp__sched_desc_read(tpp_schedule_desc *d, const tpp_schedule_desc *in);

tpp__sched_generator tpp__sched_gpipe;
tpp__sched_generator tpp__sched_1f1b;
tpp__sched_generator tpp__sched_interleaved;
tpp__sched_generator tpp__sched_bfs;
tpp__sched_generator tpp__sched_eager_1f1b;
tpp__sched_generator tpp__sched_forward_only;
tpp__sched_generator tpp__sched_zb_h1;
tpp__sched_generator tpp__sched_zb_h2;
tpp__sched_generator tpp__sched_zb_interleaved;
tpp__sched_generator tpp__sched_zb_v;
tpp__sched_whole tpp__sched_v_half;
tpp__sched_whole tpp__sched_v_min;
tpp__sched_whole tpp__sched_v_1f1b;
tpp__sched_generator tpp__sched_dualpipe;
tpp__sched_generator tpp__sched_dualpipev;

/* 1F1B and ZB-H1 with `reach` 1, eager 1F1B and ZB-H2 with 2: forwards that a rank runs ahead of
 * the next one (and W that it runs behind the one before). */
void tpp__sched_in_turn(tpp__sched_emitter *e, const tpp_schedule_desc *d, int32_t rank,
                        int32_t reach);
void tpp__sched_zb_h(tpp__sched_emitter *e, const tpp_schedule_desc *d, int32_t rank,
                     int32_t reach);

#endif
