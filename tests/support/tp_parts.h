/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_TP_PARTS_H
#define TPP_SUPPORT_TP_PARTS_H

/* What tp_kinds.c and tp_kinds_model.c share: parameters of the parts of a model, listed and looked
 * up. */

#include "support/tp_case.h"

/* tp_value or tp_grad. */
typedef ref_real *(*tp_lookup)(const tp_full *full, const char *prefix, const char *name);

/* Batch, sequence and the defaults of the descriptors. */
ref_size tp_size_of(const tp_full *full);

/* env with TPP_ENV_UNEVEN. */
tpp_layer_env tp_uneven(const tpp_layer_env *env);

void tp_mlp_params(tp_full *full, const char *prefix, const tpp_mlp_desc *desc);
void tp_attention_params(tp_full *full, const char *prefix, const tpp_attention_desc *desc);
ref_size tp_attention_size(const tpp_attention_desc *desc, const tp_full *full);
void tp_norm_params(tp_full *full, const char *prefix, int64_t cols, int bias);

/* REF_... of a tpp_act. */
int tp_act_of(tpp_act act);

ref_mlp tp_mlp_of(const tp_full *full, const char *prefix, tp_lookup get);
ref_attention tp_attention_of(const tp_full *full, const char *prefix, tp_lookup get);
ref_norm tp_norm_of(const tp_full *full, const char *prefix, tp_lookup get);

#endif
