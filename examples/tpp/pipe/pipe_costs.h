/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_PIPE_COSTS_H
#define TPP_COMMAND_PIPE_COSTS_H

#include "pipe_source.h"

/* The lists of tpp_sim_desc. */
enum {
    COST_FORWARD,
    COST_BACKWARD,
    COST_INPUT,
    COST_WEIGHT,
    COST_FUSED,
    COST_MEMORY,
    COST_MEMORY_WEIGHT,
    COST_MEMORY_STATE,
    COST_SEND_FORWARD,
    COST_SEND_BACKWARD,
    COST_EDGE_LATENCY,
    COST_OPTIMIZER,
    COST_LISTS
};

/* Costs of every virtual stage, from those of a full stage or from a file. */
struct pipe_costs {
    tpp_sim_desc desc;
    double *lists[COST_LISTS]; /* [stages] each, or NULL; desc has them too */
};

/* Of stages that are these shares of a full one. Returns 0, EXIT_USAGE or EXIT_FAILED, after one
 * sentence. */
int pipe_costs_make(struct pipe_costs *out, const struct pipe_config *config, const double *shares,
                    int32_t stages);

/* Of a schedule's stages. Returns as above. */
int pipe_costs_of(struct pipe_costs *out, const struct pipe_config *config,
                  const struct pipe_source *source);
void pipe_costs_free(struct pipe_costs *costs);

/* The field's name in tpp_sim_desc, and in files. */
const char *pipe_costs_name(int list);

/* Replace a list; `numbers` are from reserve() and the struct's own from now on. */
void pipe_costs_set(struct pipe_costs *costs, int list, double *numbers);

/* Replace lists by those of a JSON file. Returns as above. */
int costs_file_read(struct pipe_costs *costs, const char *path);

#endif
