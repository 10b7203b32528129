/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_ROPE_H
#define TPP_TP_ROPE_H

/* Angles of rotary positions. Position p = 64 q + r turns pair j by p * speed[j]: the turn of 64 q,
 * whose angle is made and brought below a full turn in twice float64's precision, followed by that of
 * r from a table. So an angle is right to float64's last bits at any position, and depends on the position
 * alone. */

#include "kern/twofold.h"
#include "tp/layer_impl.h"

#include <tpp/attention.h>

enum { TPP__ROPE_STEPS = 64 };

typedef struct tpp__rope {
    int64_t half; /* pairs of a head; 0: nothing is turned */
    bool interleaved;
    tpp__twofold *speed; /* [half], radians a position */
    double *steps;       /* [64][2][half]: cosines and sines of r * speed */
} tpp__rope;

/* Reads and checks the caller's struct; `cols` and the defaults are filled in. */
tpp_status tpp__rope_read(const tpp_rope_desc *given, int32_t head_cols, tpp_rope_desc *out);

/* Memory behind a rope, aligned to 64 bytes. */
int64_t tpp__rope_bytes(int32_t cols);
tpp__rope tpp__rope_over(const tpp_rope_desc *desc, void *memory);

/* A walk over positions. `memory` holds tpp__turns_bytes(rope). */
typedef struct tpp__turns {
    const tpp__rope *rope;
    double sign; /* -1: back */
    int64_t base_at;
    double *base, *row; /* [2][half] each */
} tpp__turns;

int64_t tpp__turns_bytes(const tpp__rope *rope);
tpp__turns tpp__turns_over(const tpp__rope *rope, bool back, void *memory);

/* turns->row = cosines and sines at `position` >= 0. */
void tpp__turns_to(tpp__turns *turns, int64_t position);

#endif
