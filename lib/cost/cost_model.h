/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COST_COST_MODEL_H
#define TPP_COST_COST_MODEL_H

#include "base/check.h"

#include <tpp/cost.h>

#define TPP__COST_MODEL_FLAGS (2 * TPP_COST_SHARED_GATE - 1)

/* Read and check a model, with its defaults filled in. Widths that no layer has are 0: ffn where
 * all layers have experts, expert_ffn and shared_ffn where none has. */
tpp_status tpp__cost_model_read(tpp_cost_model *out, const tpp_cost_model *given);

/* What one of tp ranks has of a model that was read, as a model: fewer heads, narrower MLPs. tp 0
 * is 1; `prefix` is that of tp's name, such as "part.". */
tpp_status tpp__cost_share(tpp_cost_model *out, const tpp_cost_model *model, const char *prefix,
                           int32_t tp);

/* Layers with a plain MLP, and with experts. */
static inline int32_t tpp__cost_plain(const tpp_cost_model *m) {
    return m->experts > 0 ? m->dense_layers : m->layers;
}
static inline int32_t tpp__cost_moe(const tpp_cost_model *m) {
    return m->layers - tpp__cost_plain(m);
}

/* Weights of products that a token meets in a layer: attention's, a plain MLP's, the experts' (0 where
 * no layer has some). */
int64_t tpp__cost_attention_weights(const tpp_cost_model *m, tpp__count *overflow);
int64_t tpp__cost_mlp_weights(const tpp_cost_model *m, int64_t width, tpp__count *overflow);
int64_t tpp__cost_moe_weights(const tpp_cost_model *m, int64_t experts, tpp__count *overflow);

/* value >= least, or a sentence that names prefix and field. */
typedef struct tpp__cost_rule {
    const char *field;
    int64_t value, least;
} tpp__cost_rule;

tpp_status tpp__cost_at_least(const char *prefix, const char *field, int64_t value, int64_t least);
tpp_status tpp__cost_all_at_least(const char *prefix, const tpp__cost_rule *rules, int32_t count);
#define TPP__COST_RULES(prefix, rules)                                                             \
    tpp__cost_all_at_least(prefix, rules, (int32_t)(sizeof(rules) / sizeof *(rules)))

/* The one sentence of counts that do not fit. */
tpp_status tpp__cost_overflow(const char *what);

#endif
