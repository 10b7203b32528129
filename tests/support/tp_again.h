/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_TP_AGAIN_H
#define TPP_SUPPORT_TP_AGAIN_H

/* A layer of another case inside tpp_recompute_create; the descriptor is that case. */

#include "support/tp_case.h"

extern const tp_kind tp_kind_again;

#endif
