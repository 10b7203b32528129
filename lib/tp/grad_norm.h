/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_GRAD_NORM_H
#define TPP_TP_GRAD_NORM_H

#include <tpp/optim.h>

/* The one rule of clipping and of skipped steps. clip >= 0, finite. */
tpp_verdict tpp__verdict_of(double norm, double clip);

/* The root of the sum, first to last. */
double tpp__norm_of(const double *parts, int64_t count);

tpp_status tpp__check_clip(const char *field, double clip);

#endif
