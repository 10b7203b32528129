/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_KERN_ADAMW_H
#define TPP_KERN_ADAMW_H

#include <tpp/base.h>

/* One AdamW step on n elements; all factors are worked out by the caller. */
typedef struct tpp__adamw {
    double beta1, beta2;
    double rate_m;     /* rate / (1 - beta1^step) */
    double root_scale; /* 1 / sqrt(1 - beta2^step) */
    double epsilon;
    double shrink; /* 1 - rate * decay */
    double grad_scale;
} tpp__adamw;

/* grad, m and v are of the wide type (tpp__dtype_wide). For TPP_BF16 the parameter is param + rest,
 * a float, of which param is the rounding; other types have no rest. */
void tpp__kern_adamw(tpp_dtype dtype, const tpp__adamw *a, int64_t n, void *param, const void *grad,
                     void *m, void *v, void *rest);

/* The same step in two passes, with the same bits: the parameters first, then m and v. */
void tpp__kern_adamw_params(tpp_dtype dtype, const tpp__adamw *a, int64_t n, void *param,
                            const void *grad, void *m, void *v, void *rest);
void tpp__kern_adamw_moments(tpp_dtype wide, const tpp__adamw *a, int64_t n, const void *grad,
                             void *m, void *v);

#endif
