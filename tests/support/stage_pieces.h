/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_STAGE_PIECES_H
#define TPP_SUPPORT_STAGE_PIECES_H

#include "support/stage_model.h"

/* The layers of the small GPT that are stage `stage` of `stages`; fails the test when it cannot. */
tpp_layer *stage_make(const tpp_layer_env *env, const stage_layout *layout, int32_t stage,
                      int32_t stages);

#endif
