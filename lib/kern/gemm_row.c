/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "kern/kern.h"
#include "kern/vector.h"

/* One row times B, at the speed at which B can be read: BLAS's product of matrices is made for many
 * rows and takes three times as long, and the bits of its product with a vector depend on the
 * distance between B's rows, which is another one under every split. */

/* Rows of B taken at a time, columns whose sums stay in the first-level cache; of B turned: rows side by
 * side, partial sums of each. */
enum { ROWS = 8, COLS = 2048, SIDE = 4, LANES = 16 };

#define REAL float
#define FN(name) name##_f32
#include "kern/gemm_row.inc"
#undef REAL
#undef FN

#define REAL double
#define FN(name) name##_f64
#include "kern/gemm_row.inc"

bool tpp__kern_gemm_row(const tpp_gemm_call *g) {
    if (g->m != 1 || g->beta != 0 || (g->trans_a && g->trans_b)) /* none of these is a decoding's */
        return false;
    tpp__kern_gemm_scale(g);
    if (g->dtype == TPP_F32 && g->trans_b)
        along_rows_f32(g);
    else if (g->dtype == TPP_F32)
        over_rows_f32(g);
    else if (g->trans_b)
        along_rows_f64(g);
    else
        over_rows_f64(g);
    return true;
}
