/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_MODEL_DESC_H
#define TPP_TP_MODEL_DESC_H

#include <tpp/model.h>

/* Read and check a model, with the defaults of its sizes filled in: ffn, kv_heads, head_cols,
 * init_std, out_std. What only blocks, ranks or rotary positions refuse is left to them. */
tpp_status tpp__model_read(tpp_model_desc *out, const tpp_model_desc *given);

#endif
