/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_CHART_H
#define TPP_PROGRAM_CHART_H

#include "corpus.h"
#include "history.h"
#include "say.h"

/* The loss over the steps as a picture of letters, with the text's entropies as lines. */
void chart_print(FILE *out, const struct history *history, const struct corpus *corpus);

#endif
