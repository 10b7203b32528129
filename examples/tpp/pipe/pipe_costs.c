/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "pipe_costs.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../reserve.h"
#include "../say.h"

static const struct {
    const char *name;
    size_t offset; /* of the field in tpp_sim_desc */
} fields[COST_LISTS] = {
#define FIELD(name)                                                                                \
    { #name, offsetof(tpp_sim_desc, name) }
    [COST_FORWARD] = FIELD(forward),
    [COST_BACKWARD] = FIELD(backward),
    [COST_INPUT] = FIELD(backward_input),
    [COST_WEIGHT] = FIELD(backward_weight),
    [COST_FUSED] = FIELD(fused),
    [COST_MEMORY] = FIELD(memory),
    [COST_MEMORY_WEIGHT] = FIELD(memory_weight),
    [COST_MEMORY_STATE] = FIELD(memory_state),
    [COST_SEND_FORWARD] = FIELD(send_forward),
    [COST_SEND_BACKWARD] = FIELD(send_backward),
    [COST_EDGE_LATENCY] = FIELD(edge_latency),
    [COST_OPTIMIZER] = FIELD(optimizer),
};

const char *pipe_costs_name(int list) {
    return fields[list].name;
}

void pipe_costs_set(struct pipe_costs *costs, int list, double *numbers) {
    const double **field = (const double **)(void *)((char *)&costs->desc + fields[list].offset);
    free(costs->lists[list]);
    costs->lists[list] = numbers;
    *field = numbers;
}

/* What the options give for a full stage, below 0: nothing; and for every message. */
static void spread(struct pipe_costs *out, const struct pipe_config *c, const double *shares) {
    const double values[COST_LISTS] = {
        [COST_FORWARD] = c->tf,
        [COST_BACKWARD] = c->tb,
        [COST_INPUT] = c->ti,
        [COST_WEIGHT] = c->tw,
        [COST_FUSED] = c->fused,
        [COST_MEMORY] = c->mem_b,
        [COST_MEMORY_WEIGHT] = c->mem_w,
        [COST_MEMORY_STATE] = c->mem_state,
        [COST_SEND_FORWARD] = pipe_config_link(c),
        [COST_SEND_BACKWARD] = pipe_config_link(c),
        [COST_EDGE_LATENCY] = -1,
        [COST_OPTIMIZER] = c->optimizer,
    };
    for (int list = 0; list < COST_LISTS; list++) {
        int message = list == COST_SEND_FORWARD || list == COST_SEND_BACKWARD;
        double *numbers = values[list] < 0 ? NULL : reserve(out->desc.stages, sizeof *numbers);
        for (int32_t i = 0; i < out->desc.stages && numbers; i++) {
            numbers[i] = message ? values[list] : values[list] * shares[i];
        }
        pipe_costs_set(out, list, numbers);
    }
}

int pipe_costs_make(struct pipe_costs *out, const struct pipe_config *c, const double *shares,
                    int32_t stages) {
    memset(out, 0, sizeof *out);
    out->desc.size = sizeof out->desc;
    out->desc.flags = (c->blocking ? TPP_SIM_BLOCKING : 0U) | (c->barrier ? TPP_SIM_BARRIER : 0U) |
                      (c->paper_edges ? TPP_SIM_PAPER_EDGES : 0U);
    out->desc.stages = stages;
    out->desc.latency = c->p2p;
    spread(out, c, shares);
    return c->costs ? costs_file_read(out, c->costs) : 0;
}

int pipe_costs_of(struct pipe_costs *out, const struct pipe_config *c,
                  const struct pipe_source *source) {
    const tpp_schedule_info *info = &source->info;
    double *shares = reserve(info->stages, sizeof *shares);
    for (int32_t i = 0; i < info->stages; i++) {
        shares[i] = pipe_source_unit(source, tpp_schedule_rank_of(source->schedule, i));
    }
    int code = pipe_costs_make(out, c, shares, info->stages);
    free(shares);
    return code;
}

void pipe_costs_free(struct pipe_costs *costs) {
    for (int list = 0; list < COST_LISTS; list++) {
        free(costs->lists[list]);
    }
    memset(costs, 0, sizeof *costs);
}
