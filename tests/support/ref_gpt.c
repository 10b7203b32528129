/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/ref_gpt.h"

#include <stdlib.h>

/* What flows between the parts: x[i] goes into block i, x[blocks] into the last norm. */
typedef struct flow {
    ref_real *x[REF_BLOCKS + 1];
    ref_real *normed;
    ref_real *logits;
} flow;

static flow flow_of(const ref_size *size, const ref_gpt *p, const int32_t *ids) {
    int64_t rows = size->batch * size->seq;
    flow f;
    for (int64_t i = 0; i <= size->blocks; i++)
        f.x[i] = ref_new(rows * size->hidden);
    f.normed = ref_new(rows * size->hidden);
    f.logits = ref_new(rows * size->vocab);
    ref_embedding_forward(size, p->tokens, p->positions, ids, f.x[0]);
    for (int64_t i = 0; i < size->blocks; i++)
        ref_block_forward(size, &p->block[i], f.x[i], f.x[i + 1]);
    ref_norm_forward(rows, size->hidden, size->epsilon, &p->norm, f.x[size->blocks], f.normed);
    ref_linear_forward(rows, size->hidden, size->vocab, f.normed, p->head, NULL, f.logits);
    return f;
}

static void flow_free(const ref_size *size, flow *f) {
    for (int64_t i = 0; i <= size->blocks; i++)
        free(f->x[i]);
    free(f->normed);
    free(f->logits);
}

void ref_gpt_forward(const ref_size *size, const ref_gpt *p, const int32_t *ids,
                     const int32_t *targets, ref_real *loss) {
    flow f = flow_of(size, p, ids);
    ref_loss_forward(size->batch * size->seq, &(ref_loss){.vocab = size->vocab}, f.logits, targets,
                     loss);
    flow_free(size, &f);
}

void ref_gpt_backward(const ref_size *size, const ref_gpt *p, const int32_t *ids,
                      const int32_t *targets, const ref_real *dloss, const ref_gpt *grad) {
    int64_t rows = size->batch * size->seq;
    flow f = flow_of(size, p, ids);
    ref_real *dlogits = ref_new(rows * size->vocab);
    ref_real *dnormed = ref_new(rows * size->hidden);
    ref_real *dx = ref_new(rows * size->hidden);
    ref_real *dy = ref_new(rows * size->hidden);
    ref_loss_backward(rows, &(ref_loss){.vocab = size->vocab}, f.logits, targets, dloss, dlogits);
    ref_linear_backward(rows, size->hidden, size->vocab, f.normed, p->head, dlogits, dnormed,
                        grad->head, NULL);
    ref_norm_backward(rows, size->hidden, size->epsilon, &p->norm, f.x[size->blocks], dnormed, dx,
                      &grad->norm);
    for (int64_t i = size->blocks - 1; i >= 0; i--) {
        ref_real *swap = dy;
        dy = dx;
        dx = swap;
        ref_block_backward(size, &p->block[i], f.x[i], dy, dx, &grad->block[i]);
    }
    ref_embedding_backward(size, ids, dx, grad->tokens, grad->positions);
    flow_free(size, &f);
    free(dlogits);
    free(dnormed);
    free(dx);
    free(dy);
}
