/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "turn.h"

#include <string.h>

void turn(void *out, const void *in, int64_t rows, int64_t cols, int64_t width) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++) {
            memcpy((char *)out + (c * rows + r) * width, (const char *)in + (r * cols + c) * width,
                   (size_t)width);
        }
    }
}
