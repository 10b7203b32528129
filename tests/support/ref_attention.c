/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/ref_gpt.h"

#include <stdlib.h>

/* One head of one sequence. q, k and v are [seq, width] with rows `stride` apart; p is
 * [seq, seq]. */
typedef struct head {
    int64_t seq, width, stride;
    const ref_real *q, *k, *v;
    ref_real *p;
} head;

static ref_real score(const head *h, int64_t i, int64_t j) {
    ref_real sum = 0;
    for (int64_t c = 0; c < h->width; c++)
        sum += h->q[i * h->stride + c] * h->k[j * h->stride + c];
    return sum / sqrtf128((ref_real)h->width);
}

/* p[i, j] = softmax over j <= i of the scores; 0 for j > i. */
static void probabilities(const head *h) {
    for (int64_t i = 0; i < h->seq; i++) {
        ref_real *row = h->p + i * h->seq;
        ref_real most = score(h, i, 0);
        for (int64_t j = 0; j <= i; j++) {
            row[j] = score(h, i, j);
            most = row[j] > most ? row[j] : most;
        }
        ref_real sum = 0;
        for (int64_t j = 0; j <= i; j++) {
            row[j] = expf128(row[j] - most);
            sum += row[j];
        }
        for (int64_t j = 0; j < h->seq; j++)
            row[j] = j <= i ? row[j] / sum : 0;
    }
}

/* o [seq, width], rows `ld` apart, = p v. */
static void mix(const head *h, ref_real *o, int64_t ld) {
    for (int64_t i = 0; i < h->seq; i++) {
        for (int64_t c = 0; c < h->width; c++) {
            ref_real sum = 0;
            for (int64_t j = 0; j <= i; j++)
                sum += h->p[i * h->seq + j] * h->v[j * h->stride + c];
            o[i * ld + c] = sum;
        }
    }
}

/* From the gradient of o: dq, dk, dv, laid out as q, k, v, which start at zero. */
static void head_gradient(const head *h, const ref_real *d_o, int64_t ld, ref_real *dq,
                          ref_real *dk, ref_real *dv) {
    ref_real *dp = ref_new(h->seq);
    for (int64_t i = 0; i < h->seq; i++) {
        const ref_real *p = h->p + i * h->seq;
        ref_real dot = 0;
        for (int64_t j = 0; j <= i; j++) {
            dp[j] = 0;
            for (int64_t c = 0; c < h->width; c++) {
                dp[j] += d_o[i * ld + c] * h->v[j * h->stride + c];
                dv[j * h->stride + c] += p[j] * d_o[i * ld + c];
            }
            dot += p[j] * dp[j];
        }
        for (int64_t j = 0; j <= i; j++) {
            ref_real ds = p[j] * (dp[j] - dot) / sqrtf128((ref_real)h->width);
            for (int64_t c = 0; c < h->width; c++) {
                dq[i * h->stride + c] += ds * h->k[j * h->stride + c];
                dk[j * h->stride + c] += ds * h->q[i * h->stride + c];
            }
        }
    }
    free(dp);
}

/* Head number `a` of sequence `b` in qkv [batch * seq, 3 * heads * width]. */
static head head_of(const ref_size *size, const ref_real *qkv, int64_t b, int64_t a, ref_real *p) {
    int64_t section = size->heads * size->head_cols;
    const ref_real *q = qkv + b * size->seq * 3 * section + a * size->head_cols;
    return (head){size->seq, size->head_cols, 3 * section, q, q + section, q + 2 * section, p};
}

/* qkv = x W + bias, and o [rows, heads * width] = all heads side by side. */
static void run_heads(const ref_size *size, const ref_attention *p, const ref_real *x,
                      ref_real *qkv, ref_real *o) {
    int64_t section = size->heads * size->head_cols;
    ref_linear_forward(size->batch * size->seq, size->hidden, 3 * section, x, p->qkv_weight,
                       p->qkv_bias, qkv);
    ref_real *square = ref_new(size->seq * size->seq);
    for (int64_t b = 0; b < size->batch; b++) {
        for (int64_t a = 0; a < size->heads; a++) {
            head h = head_of(size, qkv, b, a, square);
            probabilities(&h);
            mix(&h, o + b * size->seq * section + a * size->head_cols, section);
        }
    }
    free(square);
}

void ref_attention_forward(const ref_size *size, const ref_attention *p, const ref_real *x,
                           ref_real *y) {
    int64_t rows = size->batch * size->seq;
    int64_t section = size->heads * size->head_cols;
    ref_real *qkv = ref_new(rows * 3 * section);
    ref_real *o = ref_new(rows * section);
    run_heads(size, p, x, qkv, o);
    ref_linear_forward(rows, section, size->hidden, o, p->out_weight, p->out_bias, y);
    free(qkv);
    free(o);
}

/* Gradient of qkv from that of o. */
static void heads_gradient(const ref_size *size, const ref_real *qkv, const ref_real *d_o,
                           ref_real *dqkv) {
    int64_t section = size->heads * size->head_cols;
    ref_real *square = ref_new(size->seq * size->seq);
    for (int64_t b = 0; b < size->batch; b++) {
        for (int64_t a = 0; a < size->heads; a++) {
            head h = head_of(size, qkv, b, a, square);
            ref_real *dq = dqkv + (h.q - qkv);
            probabilities(&h);
            head_gradient(&h, d_o + b * size->seq * section + a * size->head_cols, section, dq,
                          dq + section, dq + 2 * section);
        }
    }
    free(square);
}

void ref_attention_backward(const ref_size *size, const ref_attention *p, const ref_real *x,
                            const ref_real *dy, ref_real *dx, const ref_attention *grad) {
    int64_t rows = size->batch * size->seq;
    int64_t section = size->heads * size->head_cols;
    ref_real *qkv = ref_new(rows * 3 * section);
    ref_real *o = ref_new(rows * section);
    ref_real *d_o = ref_new(rows * section);
    ref_real *dqkv = ref_new(rows * 3 * section);
    run_heads(size, p, x, qkv, o);
    ref_linear_backward(rows, section, size->hidden, o, p->out_weight, dy, d_o, grad->out_weight,
                        grad->out_bias);
    heads_gradient(size, qkv, d_o, dqkv);
    ref_linear_backward(rows, size->hidden, 3 * section, x, p->qkv_weight, dqkv, dx,
                        grad->qkv_weight, grad->qkv_bias);
    free(qkv);
    free(o);
    free(d_o);
    free(dqkv);
}
