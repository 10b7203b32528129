/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SUPPORT_ZB_TABLES_H
#define TPP_SUPPORT_ZB_TABLES_H

/* Tables 3, 5 and 9 of the zero-bubble paper (Qi et al. 2023), as files of tests/data/schedules. */

#include <stdint.h>

typedef struct zb_times {
    double f, b, w, comm; /* b is the half that we call I */
} zb_times;

typedef struct zb_model {
    int32_t layers, heads, hidden, seq, chunks;
} zb_model;

/* From the text of zb_profiled_times.csv and of zb_models.csv; fail the test if it is not there. */
zb_times zb_times_of(const char *file, const char *model, int32_t p, int32_t m);
zb_model zb_model_of(const char *file, const char *model);

#endif
