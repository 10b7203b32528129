/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_CLOCK_H
#define TPP_PROGRAM_CLOCK_H

/* Monotonic seconds. */
double clock_seconds(void);

#endif
