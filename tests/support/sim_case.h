/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_SIM_CASE_H
#define TPP_SUPPORT_SIM_CASE_H

/* Random schedules and costs to try simulators on. */

#include <tpp/exec.h>

enum { SIM_CASE_STAGES = 128 };

uint64_t sim_random(uint64_t *state);
int32_t sim_between(uint64_t *state, int32_t low, int32_t high); /* both included */

/* A right order that no generator would write: random placement, halves, pairs; finished. At most
 * 16 ranks of 8 stages. NULL: a forward-only one whose ranks would wait for each other's slots,
 * which are taken again right after F. */
tpp_schedule *sim_order(uint64_t *state, int32_t ranks, int32_t chunks, int32_t micros);

/* Costs with every feature now and then. */
typedef struct sim_costs {
    tpp_sim_desc desc;
    double numbers[12][SIM_CASE_STAGES];
} sim_costs;

/* `exact`: numbers that double arithmetic adds up without rounding. */
void sim_costs_draw(sim_costs *out, uint64_t *state, int32_t stages, int exact);

#endif
