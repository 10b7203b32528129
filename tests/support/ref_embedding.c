/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/ref_gpt.h"

void ref_embedding_forward(const ref_size *size, const ref_real *tokens, const ref_real *positions,
                           const int32_t *ids, ref_real *y) {
    for (int64_t r = 0; r < size->batch * size->seq; r++) {
        for (int64_t c = 0; c < size->hidden; c++) {
            y[r * size->hidden + c] = tokens[ids[r] * size->hidden + c];
            if (positions)
                y[r * size->hidden + c] +=
                    positions[(size->past + r % size->seq) * size->hidden + c];
        }
    }
}

void ref_embedding_backward(const ref_size *size, const int32_t *ids, const ref_real *dy,
                            ref_real *dtokens, ref_real *dpositions) {
    for (int64_t i = 0; i < size->vocab * size->hidden; i++)
        dtokens[i] = 0;
    for (int64_t i = 0; dpositions && i < size->positions * size->hidden; i++)
        dpositions[i] = 0;
    for (int64_t r = 0; r < size->batch * size->seq; r++) {
        for (int64_t c = 0; c < size->hidden; c++) {
            dtokens[ids[r] * size->hidden + c] += dy[r * size->hidden + c];
            if (dpositions)
                dpositions[(size->past + r % size->seq) * size->hidden + c] +=
                    dy[r * size->hidden + c];
        }
    }
}
