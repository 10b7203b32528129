/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_SIM_SECOND_H
#define TPP_SUPPORT_SIM_SECOND_H

/* A second simulator that shares no code and no method with the library's: all actions, messages
 * and optimizer steps are nodes of a graph, all that one has to wait for are arcs, and times are the
 * longest ways into the nodes, taken in topological order. What a rank holds is counted by
 * intervals. It knows all of tpp_sim_desc. */

#include <tpp/exec.h>

enum { SECOND_RANKS = 16 };

typedef struct second_node {
    double takes, start, end;
    int32_t arcs_in, arcs_out; /* first arc of a list; -1: none */
    int32_t open;              /* arcs whose other end is not done */
} second_node;

typedef struct second_arc {
    int32_t from, to;
    double lag; /* between the end of one and the start of the other */
    int32_t next_in, next_out;
} second_arc;

typedef struct second {
    const tpp_schedule *schedule;
    const tpp_sim_desc *desc;
    tpp_schedule_info info;
    second_node *nodes;
    second_arc *arcs;
    int32_t node_count, arc_count, node_room, arc_room;
    int32_t *node_of;  /* [5 * stages * micros]: F, I or B, W, SEND_F, SEND_B of a cell; -1 */
    int32_t *place_of; /* [3 * ...]: places of F, of B or I, of B or W in their rank's order */
    int32_t *order;
    int32_t done;               /* nodes that have times; less than all: they wait for each other */
    int32_t last[SECOND_RANKS]; /* last node of a rank */
    int32_t step[SECOND_RANKS]; /* its optimizer step; -1 */
    double makespan, period, work, bubble_global, bubble_span;
    double row_work[SECOND_RANKS], row_memory[SECOND_RANKS];
    int32_t row_peak[SECOND_RANKS], row_peak_input[SECOND_RANKS];
} second;

/* What the simulator should say. The same struct can be used again, zeroed at first. */
void second_run(second *w, const tpp_schedule *schedule, const tpp_sim_desc *desc);
void second_free(second *w);

/* The node of an action, of a message (SEND_F, SEND_B; -1: it stays on its rank) or of a step. */
int32_t second_find(const second *w, tpp_op op, int32_t stage, int32_t micro);

/* The arc between two nodes; NULL when there is none. */
const second_arc *second_between(const second *w, int32_t from, int32_t to);

#endif
