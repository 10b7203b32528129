/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "exec/sim.h"

#include <math.h>
#include <stddef.h>

/* --- The caller's arrays ---------------------------------------------------------------------- */

static tpp_status check_costs(const char *name, const double *costs, int32_t stages) {
    for (int32_t i = 0; costs && i < stages; i++) {
        if (!isfinite(costs[i]) || costs[i] < 0)
            return tpp__fail(TPP_ERR_INVALID, "desc.%s[%d] = %g; a cost must be finite and >= 0",
                             name, i, costs[i]);
    }
    return TPP_OK;
}

static tpp_status check_arrays(const tpp_sim_desc *d) {
    const struct {
        const char *name;
        const double *costs;
    } arrays[] = {
        {"forward", d->forward},
        {"backward", d->backward},
        {"backward_input", d->backward_input},
        {"backward_weight", d->backward_weight},
        {"memory", d->memory},
        {"memory_weight", d->memory_weight},
        {"memory_state", d->memory_state},
        {"fused", d->fused},
        {"send_forward", d->send_forward},
        {"send_backward", d->send_backward},
        {"edge_latency", d->edge_latency},
        {"optimizer", d->optimizer},
    };
    tpp_status status = TPP_OK;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays && status == TPP_OK; i++)
        status = check_costs(arrays[i].name, arrays[i].costs, d->stages);
    return status;
}

tpp_status tpp__sim_check(const tpp_sim_desc *d) {
    if (d->stages < 1)
        return tpp__fail(TPP_ERR_INVALID, "desc.stages = %d; it must be at least 1", d->stages);
    if (!d->forward)
        return tpp__fail(TPP_ERR_INVALID, "desc.forward is NULL; it must have %d entries",
                         d->stages);
    if (!d->backward && (!d->backward_input || !d->backward_weight))
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.backward and desc.%s are NULL; give backward, or "
                         "backward_input and backward_weight",
                         d->backward_input ? "backward_weight" : "backward_input");
    if (!isfinite(d->latency) || d->latency < 0)
        return tpp__fail(TPP_ERR_INVALID, "desc.latency = %g; it must be finite and >= 0",
                         d->latency);
    return check_arrays(d);
}

/* --- As the simulator keeps them -------------------------------------------------------------- */

tpp__sim *tpp__sim_lay_out(tpp__arena *arena, int32_t stages) {
    tpp__sim unused, *sim = tpp__arena_take(arena, 1, sizeof *sim);
    tpp__sim *to = sim ? sim : &unused; /* counting */
    for (int op = 0; op < TPP__SIM_OPS; op++)
        to->cost[op] = tpp__arena_take(arena, stages, sizeof(double));
    for (int way = 0; way < TPP__SIM_WAYS; way++)
        to->send[way] = tpp__arena_take(arena, stages, sizeof(double));
    to->latency = tpp__arena_take(arena, stages, sizeof(double));
    to->memory = tpp__arena_take(arena, stages, sizeof(double));
    to->memory_weight = tpp__arena_take(arena, stages, sizeof(double));
    to->memory_state = tpp__arena_take(arena, stages, sizeof(double));
    to->optimizer = tpp__arena_take(arena, stages, sizeof(double));
    return sim;
}

static double or_else(const double *given, int32_t stage, double missing) {
    return given ? given[stage] : missing;
}

static void set_stage(tpp__sim *s, const tpp_sim_desc *d, int32_t i) {
    double half = or_else(d->backward, i, 0) / 2;
    double input = or_else(d->backward_input, i, half);
    double weight = or_else(d->backward_weight, i, half);
    s->cost[TPP_OP_F][i] = d->forward[i];
    s->cost[TPP_OP_B][i] = or_else(d->backward, i, input + weight);
    s->cost[TPP_OP_I][i] = input;
    s->cost[TPP_OP_W][i] = weight;
    s->cost[0][i] = or_else(d->fused, i, 0);
    s->latency[i] = or_else(d->edge_latency, i, d->latency);
    s->send[TPP__SIM_UP][i] = or_else(d->send_forward, i, 0);
    s->send[TPP__SIM_DOWN][i] = or_else(d->send_backward, i, 0);
    s->memory[i] = or_else(d->memory, i, 0);
    s->memory_weight[i] = or_else(d->memory_weight, i, s->memory[i]);
    s->memory_state[i] = or_else(d->memory_state, i, 0);
    s->optimizer[i] = or_else(d->optimizer, i, 0);
}

void tpp__sim_set(tpp__sim *sim, const tpp_sim_desc *desc) {
    sim->stages = desc->stages;
    sim->flags = desc->flags;
    sim->pairs = desc->fused != NULL;
    sim->links = desc->send_forward || desc->send_backward;
    sim->steps = desc->optimizer != NULL;
    for (int32_t i = 0; i < desc->stages; i++)
        set_stage(sim, desc, i);
}
