/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_EXEC_SIM_ATOM_H
#define TPP_EXEC_SIM_ATOM_H

#include "exec/sim.h"

/* Where and when things happened in a run that is over, for the way back. */

/* What a rank does at once: an action, or an overlapped pair. */
typedef struct tpp__sim_atom {
    const tpp_action *a;
    int32_t rank;
    int32_t count; /* 1 or 2; 0: none, the run begins here */
} tpp__sim_atom;

/* The atom that an action is part of; what the rank did before place next[rank]; set that place. */
tpp__sim_atom tpp__sim_atom_of(const tpp__sim_run *s, int32_t rank, const tpp_action *a);
tpp__sim_atom tpp__sim_previous(const tpp__sim_run *s, int32_t rank);
void tpp__sim_move_to(tpp__sim_run *s, int32_t rank, const tpp_action *a);

/* The action before place next[rank] that sends results this way, of a stage and micro-batch. */
const tpp_action *tpp__sim_maker(const tpp__sim_run *s, int32_t rank, int way, int32_t stage,
                                 int32_t micro);

/* The action before `a` whose result took the same link; NULL: none. */
const tpp_action *tpp__sim_before_on_link(const tpp__sim_run *s, int32_t rank, const tpp_action *a);

/* True when the result of an action goes to another rank; when it had left. */
bool tpp__sim_sends(const tpp__sim_run *s, const tpp_action *a);
double tpp__sim_made_at(const tpp__sim_run *s, const tpp_action *a);

/* When an action ended; when its rank was free after an atom. */
double tpp__sim_end_of(const tpp__sim_run *s, const tpp_action *a);
double tpp__sim_free_after(const tpp__sim_run *s, const tpp__sim_atom *x);

/* When the results of the first `count` actions of an atom had left, if sending blocks. */
double tpp__sim_left(const tpp__sim_run *s, const tpp__sim_atom *x, int32_t count);

#endif
