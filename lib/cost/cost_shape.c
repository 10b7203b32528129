/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "cost/cost_shape.h"

static tpp_status check(const tpp_cost_shape *s) {
    const tpp__cost_rule rules[] = {
        {"batch", s->batch, 1},
        {"seq", s->seq, 1},
        {"tp", s->tp, 0},
        {"cp", s->cp, 0},
        {"element_bytes", s->element_bytes, 0},
    };
    tpp_status status = TPP__COST_RULES("shape.", rules);
    if (status != TPP_OK)
        return status;
    if (s->recompute < TPP_RECOMPUTE_NONE || s->recompute > TPP_RECOMPUTE_FULL)
        return tpp__fail(TPP_ERR_INVALID,
                         "shape.recompute = %d is not accepted; accepted: 0 (none), 1 (selective), "
                         "2 (full)",
                         s->recompute);
    if (s->cp > 1 && s->seq % s->cp != 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "shape.cp = %d does not divide shape.seq = %lld; accepted: its divisors",
                         s->cp, (long long)s->seq);
    return TPP_OK;
}

tpp_status tpp__cost_shape_read(tpp_cost_shape *out, tpp__cost_tokens *tokens,
                                const tpp_cost_shape *given) {
    tpp_status status = tpp__sized_read(out, sizeof *out, TPP__COST_SHAPE_FLAGS, given, "shape");
    if (status == TPP_OK)
        status = check(out);
    if (status != TPP_OK)
        return status;
    out->tp = out->tp > 0 ? out->tp : 1;
    out->cp = out->cp > 0 ? out->cp : 1;
    out->element_bytes = out->element_bytes > 0 ? out->element_bytes : 2;
    if (!tpp__mul(out->batch, out->seq / out->cp, &tokens->rank))
        return tpp__cost_overflow("tokens of a micro-batch");
    tokens->own = out->flags & TPP_COST_SEQUENCE ? (tokens->rank - 1) / out->tp + 1 : tokens->rank;
    return TPP_OK;
}
