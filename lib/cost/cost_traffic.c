/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "cost/cost_shape.h"

#include <tpp/cost_comm.h>

/* Of one phase: how often a region's input is gathered, and an output summed; both of [T, h]. */
typedef struct calls {
    int32_t gathers; /* with sequence parallelism alone */
    int32_t sums;
    int32_t forwards, backwards; /* of attention's context */
    bool loss;
} calls;

static calls layer_forward(int32_t sides, int32_t norms) {
    return (calls){.gathers = norms, .sums = sides, .forwards = 1};
}

/* What comes again is without the last sum, that of the MLP or of both sides. */
static calls layer_backward(int32_t sides, int32_t norms, tpp_recompute recompute) {
    calls c = {.gathers = norms + sides, .sums = norms, .backwards = 1};
    c.forwards = recompute != TPP_RECOMPUTE_NONE;
    if (recompute == TPP_RECOMPUTE_FULL) {
        c.gathers += norms;
        c.sums += sides - 1;
    }
    if (recompute == TPP_RECOMPUTE_SELECTIVE)
        c.gathers += sides - 1;
    return c;
}

static calls calls_of(const tpp_cost_model *m, tpp_cost_phase phase, tpp_recompute recompute) {
    bool parallel = m->flags & TPP_COST_PARALLEL_BLOCK;
    int32_t sides = parallel ? 1 : 2;
    int32_t norms = parallel && !(m->flags & TPP_COST_TWO_NORMS) ? 1 : 2;
    switch (phase) {
    case TPP_COST_LAYER_FORWARD:
        return layer_forward(sides, norms);
    case TPP_COST_LAYER_BACKWARD:
        return layer_backward(sides, norms, recompute);
    case TPP_COST_EMBEDDING_FORWARD:
        return (calls){.sums = 1};
    case TPP_COST_EMBEDDING_BACKWARD:
        return (calls){.gathers = 1};
    case TPP_COST_HEAD_FORWARD:
        return (calls){.gathers = 1, .loss = true};
    default:
        return (calls){.gathers = 1, .sums = 1};
    }
}

static void tensor(const tpp_cost_shape *shape, const tpp__cost_tokens *tokens, int64_t hidden,
                   const calls *c, tpp_cost_traffic *out, tpp__count *s) {
    bool parted = shape->flags & TPP_COST_SEQUENCE;
    int64_t rows = parted ? tpp__count_times(s, tokens->own, shape->tp) : tokens->rank;
    int64_t matrix = tpp__count_times(s, rows, hidden);
    if (parted) {
        out->gather_calls = c->gathers;
        out->scatter_calls = c->sums;
    } else {
        out->reduce_calls = c->sums;
    }
    out->gather = tpp__count_times(s, out->gather_calls, matrix);
    out->scatter = tpp__count_times(s, out->scatter_calls, matrix);
    tpp__count_add(s, out->reduce_calls, matrix);
    if (c->loss) {
        out->reduce_calls += 2;
        tpp__count_add(s, 3, tokens->rank);
    }
    out->reduce = s->value;
}

/* Elements of [T / c] tokens of `heads` heads, cut into `parts`. */
static int64_t heads_of(const tpp_cost_model *m, int64_t tokens, int64_t heads, int32_t parts,
                        tpp__count *s) {
    return tpp__count_times(s, tokens, tpp__count_times(s, heads, m->head_cols)) / parts;
}

static void ring(const tpp_cost_model *m, int64_t tokens, int32_t cp, const calls *c,
                 tpp_cost_traffic *out, tpp__count *s) {
    int64_t messages = c->forwards * ((int64_t)cp - 1) + c->backwards * (2 * (int64_t)cp - 1);
    out->context_calls = messages;
    tpp__count_add(s, messages, heads_of(m, tokens, 2 * (int64_t)m->kv_heads, 1, s));
    out->context = s->value;
}

static void exchange(const tpp_cost_model *m, int64_t tokens, int32_t cp, const calls *c,
                     tpp_cost_traffic *out, tpp__count *s) {
    int64_t q = heads_of(m, tokens, m->heads, cp, s), k = heads_of(m, tokens, m->kv_heads, cp, s);
    int64_t forward = (int64_t)c->forwards * (cp - 1), backward = (int64_t)c->backwards * (cp - 1);
    out->context_calls = 2 * (forward + backward);
    tpp__count_add(s, tpp__count_times(s, 2, forward), q);
    tpp__count_add(s, tpp__count_times(s, 2, forward), k);
    tpp__count_add(s, tpp__count_times(s, 4, backward), q);
    tpp__count_add(s, tpp__count_times(s, 4, backward), k);
    out->context = s->value;
}

static tpp_status check(const tpp_cost_model *share, const tpp_cost_shape *shape,
                        tpp_cost_phase phase) {
    if (phase < TPP_COST_LAYER_FORWARD || phase > TPP_COST_HEAD_BACKWARD)
        return tpp__fail(TPP_ERR_INVALID, "phase = %d is not accepted; accepted: 1 .. %d", phase,
                         TPP_COST_HEAD_BACKWARD);
    if ((shape->flags & TPP_COST_EXCHANGE) && share->kv_heads % shape->cp != 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "shape.cp = %d does not divide the %d K/V heads of a rank, as "
                         "TPP_COST_EXCHANGE needs; accepted: its divisors",
                         shape->cp, share->kv_heads);
    return TPP_OK;
}

tpp_status tpp_cost_traffic_query(const tpp_cost_model *model, const tpp_cost_shape *given,
                                  tpp_cost_phase phase, tpp_cost_traffic *out) {
    tpp_cost_model whole, share;
    tpp_cost_shape shape;
    tpp__cost_tokens tokens;
    tpp_cost_traffic found = {0};
    tpp__count group = {0}, context = {0};
    tpp_status status = tpp__cost_model_read(&whole, model);
    if (status == TPP_OK)
        status = tpp__cost_shape_read(&shape, &tokens, given);
    if (status == TPP_OK)
        status = tpp__cost_share(&share, &whole, "shape.", shape.tp);
    if (status == TPP_OK)
        status = check(&share, &shape, phase);
    if (status != TPP_OK)
        return status;
    const calls c = calls_of(&whole, phase, shape.recompute);
    if (shape.tp > 1)
        tensor(&shape, &tokens, whole.hidden, &c, &found, &group);
    bool attends = shape.cp > 1 && c.forwards + c.backwards > 0;
    if (attends && (shape.flags & TPP_COST_EXCHANGE))
        exchange(&share, tokens.rank, shape.cp, &c, &found, &context);
    else if (attends)
        ring(&share, tokens.rank, shape.cp, &c, &found, &context);
    if (group.overflow || context.overflow)
        return tpp__cost_overflow("elements of collectives");
    return tpp__sized_write(out, &found, sizeof found, "out");
}
