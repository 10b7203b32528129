/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/ref_gpt.h"

/* Radians per token of pair j. Llama 3's scaling divides slow turns by a factor and leaves fast ones
 * alone, with a straight line between the two. */
static ref_real speed_of(const ref_size *size, int64_t cols, int64_t j) {
    ref_real speed = powf128(size->rope_theta, -2 * (ref_real)j / (ref_real)cols);
    if (!(size->rope_factor > 0))
        return speed;
    if (size->rope_original == 0)
        return speed / size->rope_factor;
    ref_real turns = size->rope_original * speed / (2 * acosf128(-1)); /* in the original length */
    if (turns < size->rope_low)
        return speed / size->rope_factor;
    if (turns > size->rope_high)
        return speed;
    ref_real smooth = (turns - size->rope_low) / (size->rope_high - size->rope_low);
    return (1 - smooth) * speed / size->rope_factor + smooth * speed;
}

static void turn(ref_real *first, ref_real *second, ref_real angle) {
    ref_real a = *first, b = *second;
    *first = a * cosf128(angle) - b * sinf128(angle);
    *second = b * cosf128(angle) + a * sinf128(angle);
}

void ref_rope(const ref_size *size, int64_t heads, ref_real *x, int back) {
    int64_t cols = size->rope_cols ? size->rope_cols : size->head_cols;
    if (!(size->rope_theta > 0))
        return;
    for (int64_t r = 0; r < size->batch * size->seq; r++) {
        for (int64_t a = 0; a < heads; a++) {
            for (int64_t j = 0; j < cols / 2; j++) {
                ref_real *head = x + (r * heads + a) * size->head_cols;
                ref_real place = (ref_real)(size->past + r % size->seq);
                ref_real angle = (back ? -1 : 1) * place * speed_of(size, cols, j);
                if (size->rope_interleaved)
                    turn(head + 2 * j, head + 2 * j + 1, angle);
                else
                    turn(head + j, head + cols / 2 + j, angle);
            }
        }
    }
}
