/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/cost_impl.h"
#include "tp/loss_rule.h"

#include <math.h>
#include <stdio.h>

static tpp_status check_numbers(const tpp_loss_desc *desc, const char *name) {
    if (desc->reduction < TPP_LOSS_TOKENS || desc->reduction > TPP_LOSS_MEAN)
        return tpp__fail(
            TPP_ERR_INVALID,
            "%s.reduction = %d is not accepted; accepted: 0 (tokens), 1 (sum), 2 (mean)", name,
            desc->reduction);
    if (!(desc->smoothing >= 0 && desc->smoothing < 1))
        return tpp__fail(TPP_ERR_INVALID,
                         "%s.smoothing = %g is not accepted; accepted: 0 <= smoothing < 1", name,
                         desc->smoothing);
    if (!(desc->z_loss >= 0 && isfinite(desc->z_loss)))
        return tpp__fail(TPP_ERR_INVALID,
                         "%s.z_loss = %g is not accepted; accepted: a finite number, 0 or more",
                         name, desc->z_loss);
    if (desc->vocab == 1 && desc->smoothing > 0 && desc->flags & TPP_LOSS_SMOOTH_OTHERS)
        return tpp__fail(TPP_ERR_INVALID,
                         "%s.vocab = 1 has no other classes for TPP_LOSS_SMOOTH_OTHERS; accepted: "
                         "2 or more",
                         name);
    return TPP_OK;
}

tpp_status tpp__loss_read(tpp__loss_rule *out, const tpp_loss_desc *given, const char *name) {
    tpp_loss_desc desc;
    char field[32];
    snprintf(field, sizeof field, "%s.vocab", name);
    tpp_status status =
        tpp__sized_read(&desc, sizeof desc, TPP_LOSS_IGNORE | TPP_LOSS_SMOOTH_OTHERS, given, name);
    if (status == TPP_OK)
        status = tpp__check_positive(field, desc.vocab);
    if (status == TPP_OK)
        status = check_numbers(&desc, name);
    if (status != TPP_OK)
        return status;
    bool others = desc.flags & TPP_LOSS_SMOOTH_OTHERS;
    double each = desc.smoothing > 0 ? desc.smoothing / (double)(desc.vocab - (others ? 1 : 0)) : 0;
    *out = (tpp__loss_rule){
        .vocab = desc.vocab,
        .ignores = desc.flags & TPP_LOSS_IGNORE,
        .ignore = desc.ignore,
        .reduction = desc.reduction,
        .ce = {1 - desc.smoothing - (others ? each : 0), each, desc.z_loss},
    };
    return TPP_OK;
}

void tpp__loss_ends(tpp_layer *layer, const tpp__loss_rule *rule) {
    layer->targets = true;
    layer->out_cols = 1;
    layer->out_dtype = layer->wide;
    layer->one_row = rule->reduction != TPP_LOSS_TOKENS;
}

static tpp_status weights_of(const tpp__loss_rule *rule, const int32_t *targets,
                             const double *given, int64_t count, double *weight, double *sum) {
    *sum = 0;
    for (int64_t i = 0; i < count; i++) {
        bool ignored = rule->ignores && targets[i] == rule->ignore;
        if (!ignored && (targets[i] < 0 || targets[i] >= rule->vocab))
            return tpp__fail(TPP_ERR_RANGE,
                             "call.targets[%lld] = %d is outside the vocabulary; accepted: 0 .. "
                             "%lld",
                             (long long)i, targets[i], (long long)rule->vocab - 1);
        double own = given ? given[i] : 1;
        if (!isfinite(own))
            return tpp__fail(TPP_ERR_RANGE, "call.weights[%lld] = %g; it must be a finite number",
                             (long long)i, own);
        own = ignored ? 0 : own;
        if (weight)
            weight[i] = own;
        *sum += own;
    }
    return TPP_OK;
}

tpp_status tpp_loss_weight_sum(const tpp_loss_desc *desc, const int32_t *targets,
                               const double *weights, int64_t count, double *out) {
    tpp__loss_rule rule;
    if (!out || (!targets && count > 0))
        return tpp__fail(TPP_ERR_INVALID, "%s is NULL", out ? "targets" : "out");
    if (count < 0)
        return tpp__fail(TPP_ERR_INVALID, "count = %lld is negative; it must be 0 or more",
                         (long long)count);
    tpp_status status = tpp__loss_read(&rule, desc, "desc");
    return status == TPP_OK ? weights_of(&rule, targets, weights, count, NULL, out) : status;
}

tpp_status tpp__loss_weights(const tpp__loss_rule *rule, const tpp__work *work, double *weight) {
    double sum;
    return weights_of(rule, work->targets, work->weights, work->tokens, weight, &sum);
}

tpp_status tpp__loss_check_largest(const tpp_layer *layer, int64_t first, int64_t tokens,
                                   const void *largest, const double *weight) {
    int64_t row = tpp__kern_ce_lost(layer->wide, tokens, largest, weight);
    if (row < 0)
        return TPP_OK;
    return tpp__fail(TPP_ERR_RANGE,
                     "the logits of token %lld have no loss; their largest must be finite: not all "
                     "of them -infinity, none of them infinity",
                     (long long)first + row);
}

/* What the sum of losses is multiplied by. */
static double scale_of(const tpp__loss_rule *rule, const tpp__work *work) {
    double sum = work->weight_sum;
    if (rule->reduction != TPP_LOSS_MEAN)
        return 1;
    if (sum == 0) /* targets and weights have been checked */
        weights_of(rule, work->targets, work->weights, work->tokens, NULL, &sum);
    return sum != 0 ? 1 / sum : 0;
}

static void store(const tpp_layer *layer, void *array, int64_t i, double value) {
    if (layer->wide == TPP_F32)
        ((float *)array)[i] = (float)value;
    else
        ((double *)array)[i] = value;
}

double tpp__loss_load(const tpp_layer *layer, const void *array, int64_t i) {
    return layer->wide == TPP_F32 ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

void tpp__loss_out(const tpp_layer *layer, const tpp__loss_rule *rule, const tpp__work *work,
                   const double *loss) {
    double sum = 0;
    if (!work->out)
        return;
    for (int64_t i = 0; i < work->tokens; i++) {
        if (rule->reduction == TPP_LOSS_TOKENS)
            store(layer, work->out, i, loss[i]);
        sum += loss[i];
    }
    if (rule->reduction != TPP_LOSS_TOKENS)
        store(layer, work->out, 0, sum * scale_of(rule, work));
}

tpp_status tpp__loss_slopes(const tpp_layer *layer, const tpp__loss_rule *rule,
                            const tpp__work *work, double *weight, void *w) {
    tpp_status status = tpp__loss_weights(rule, work, weight);
    if (status != TPP_OK)
        return status;
    bool tokens = rule->reduction == TPP_LOSS_TOKENS;
    double scale = scale_of(rule, work);
    for (int64_t i = 0; i < work->tokens; i++) {
        double given = work->grad_out ? tpp__loss_load(layer, work->grad_out, tokens ? i : 0) : 1;
        double slope = given * weight[i] * scale;
        store(layer, w, i, weight[i] != 0 ? slope : 0);
    }
    return TPP_OK;
}

tpp_status tpp__loss_reduce(const tpp_layer *layer, void *data, int64_t count, tpp_reduce how) {
    return layer->comm ? tpp_comm_all_reduce(layer->comm, data, data, count, layer->wide, how)
                       : TPP_OK;
}

void tpp__loss_cost(const tpp_layer *layer, const tpp__loss_rule *rule, int64_t tokens,
                    tpp__cost *cost) {
    tpp__cost_comm(layer, cost, TPP_COMM_ALL_REDUCE, tokens, layer->wide);
    tpp__cost_comm(layer, cost, TPP_COMM_ALL_REDUCE, tpp__loss_sums(rule) * tokens, layer->wide);
}
