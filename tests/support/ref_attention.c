/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/ref_gpt.h"

#include <stdlib.h>

/* One head of one sequence. q is [seq, width] with rows `stride` apart, k and v are [seq, width]
 * with rows `kv_stride` apart; p is [seq, seq]. Query i sees keys first_key(i) .. last_key(i). */
typedef struct head {
    int64_t seq, width, stride, kv_stride, window;
    int full;
    const ref_real *q, *k, *v;
    ref_real *p;
} head;

static int64_t first_key(const head *h, int64_t i) {
    return h->window > 0 && i >= h->window ? i - h->window + 1 : 0;
}

static int64_t last_key(const head *h, int64_t i) {
    return h->full ? h->seq - 1 : i;
}

static ref_real score(const head *h, int64_t i, int64_t j) {
    ref_real sum = 0;
    for (int64_t c = 0; c < h->width; c++)
        sum += h->q[i * h->stride + c] * h->k[j * h->kv_stride + c];
    return sum / sqrtf128((ref_real)h->width);
}

/* p[i, j] = softmax of the scores over the keys that are seen; 0 for the others. */
static void probabilities(const head *h) {
    for (int64_t i = 0; i < h->seq; i++) {
        ref_real *row = h->p + i * h->seq;
        ref_real most = score(h, i, i);
        for (int64_t j = first_key(h, i); j <= last_key(h, i); j++) {
            row[j] = score(h, i, j);
            most = row[j] > most ? row[j] : most;
        }
        ref_real sum = 0;
        for (int64_t j = first_key(h, i); j <= last_key(h, i); j++) {
            row[j] = expf128(row[j] - most);
            sum += row[j];
        }
        for (int64_t j = 0; j < h->seq; j++)
            row[j] = j >= first_key(h, i) && j <= last_key(h, i) ? row[j] / sum : 0;
    }
}

/* o [seq, width], rows `ld` apart, = p v. */
static void mix(const head *h, ref_real *o, int64_t ld) {
    for (int64_t i = 0; i < h->seq; i++) {
        for (int64_t c = 0; c < h->width; c++) {
            ref_real sum = 0;
            for (int64_t j = first_key(h, i); j <= last_key(h, i); j++)
                sum += h->p[i * h->seq + j] * h->v[j * h->kv_stride + c];
            o[i * ld + c] = sum;
        }
    }
}

/* From the gradient of o: added to dq, dk, dv, laid out as q, k, v. */
static void head_gradient(const head *h, const ref_real *d_o, int64_t ld, ref_real *dq,
                          ref_real *dk, ref_real *dv) {
    ref_real *dp = ref_new(h->seq);
    for (int64_t i = 0; i < h->seq; i++) {
        const ref_real *p = h->p + i * h->seq;
        ref_real dot = 0;
        for (int64_t j = first_key(h, i); j <= last_key(h, i); j++) {
            dp[j] = 0;
            for (int64_t c = 0; c < h->width; c++) {
                dp[j] += d_o[i * ld + c] * h->v[j * h->kv_stride + c];
                dv[j * h->kv_stride + c] += p[j] * d_o[i * ld + c];
            }
            dot += p[j] * dp[j];
        }
        for (int64_t j = first_key(h, i); j <= last_key(h, i); j++) {
            ref_real ds = p[j] * (dp[j] - dot) / sqrtf128((ref_real)h->width);
            for (int64_t c = 0; c < h->width; c++) {
                dq[i * h->stride + c] += ds * h->k[j * h->kv_stride + c];
                dk[j * h->kv_stride + c] += ds * h->q[i * h->stride + c];
            }
        }
    }
    free(dp);
}

/* Q, K and V of all rows, each its own matrix; or their gradients. */
typedef struct operands {
    ref_real *of[3];
} operands;

static int64_t kv_heads(const ref_size *size) {
    return size->kv_heads ? size->kv_heads : size->heads;
}

static int64_t cols_of(const ref_size *size, int which) {
    return (which == 0 ? size->heads : kv_heads(size)) * size->head_cols;
}

static operands operands_new(const ref_size *size) {
    operands x;
    for (int i = 0; i < 3; i++)
        x.of[i] = ref_new(size->batch * size->seq * cols_of(size, i));
    return x;
}

static void operands_free(operands *x) {
    for (int i = 0; i < 3; i++)
        free(x->of[i]);
}

/* Between three matrices and one that has them side by side, rows of equal width. */
static void side_by_side(const ref_size *size, ref_real *one, const operands *three, int apart) {
    int64_t cols = cols_of(size, 0);
    for (int64_t r = 0; r < size->batch * size->seq; r++) {
        for (int64_t c = 0; c < 3 * cols; c++) {
            ref_real *there = &three->of[c / cols][r * cols + c % cols];
            if (apart)
                *there = one[r * 3 * cols + c];
            else
                one[r * 3 * cols + c] = *there;
        }
    }
}

/* The norms of Q's and K's heads; without one x goes through as it is. */
static void norms_forward(const ref_size *size, const ref_attention *p, const operands *x,
                          operands *y) {
    for (int i = 0; i < 3; i++) {
        int64_t count = size->batch * size->seq * cols_of(size, i);
        ref_norm norm = {i < 2 ? p->norm[i] : NULL, NULL, 1};
        if (norm.weight)
            ref_norm_forward(count / size->head_cols, size->head_cols, size->epsilon, &norm,
                             x->of[i], y->of[i]);
        for (int64_t k = 0; k < count && !norm.weight; k++)
            y->of[i][k] = x->of[i][k];
    }
}

static void norms_backward(const ref_size *size, const ref_attention *p, const operands *x,
                           operands *d, const ref_attention *grad) {
    for (int i = 0; i < 2 && p->norm[i]; i++) {
        int64_t count = size->batch * size->seq * cols_of(size, i);
        ref_norm norm = {p->norm[i], NULL, 1}, norm_grad = {grad->norm[i], NULL, 1};
        ref_real *dx = ref_new(count);
        ref_norm_backward(count / size->head_cols, size->head_cols, size->epsilon, &norm, x->of[i],
                          d->of[i], dx, &norm_grad);
        free(d->of[i]);
        d->of[i] = dx;
    }
}

/* Q, K and V from x; not yet as they meet. */
static void project(const ref_size *size, const ref_attention *p, const ref_real *x, operands *to) {
    int64_t rows = size->batch * size->seq;
    if (p->qkv_weight) {
        int64_t cols = 3 * cols_of(size, 0);
        ref_real *qkv = ref_new(rows * cols);
        ref_linear_forward(rows, size->hidden, cols, x, p->qkv_weight, p->qkv_bias, qkv);
        side_by_side(size, qkv, to, 1);
        free(qkv);
    }
    for (int i = 0; i < 3 && !p->qkv_weight; i++)
        ref_linear_forward(rows, size->hidden, cols_of(size, i), x, p->weight[i], p->bias[i],
                           to->of[i]);
}

/* Q, K and V as they meet: normalised, then turned. `raw` is left as before. */
static void prepare(const ref_size *size, const ref_attention *p, const ref_real *x, operands *raw,
                    operands *to) {
    project(size, p, x, raw);
    norms_forward(size, p, raw, to);
    ref_rope(size, size->heads, to->of[0], 0);
    ref_rope(size, kv_heads(size), to->of[1], 0);
}

/* Gradients of x and of the projections from that of Q, K and V before they meet. */
static void project_backward(const ref_size *size, const ref_attention *p, const ref_real *x,
                             operands *d, ref_real *dx, const ref_attention *grad) {
    int64_t rows = size->batch * size->seq;
    if (p->qkv_weight) {
        int64_t cols = 3 * cols_of(size, 0);
        ref_real *dqkv = ref_new(rows * cols);
        side_by_side(size, dqkv, d, 0);
        ref_linear_backward(rows, size->hidden, cols, x, p->qkv_weight, dqkv, dx, grad->qkv_weight,
                            grad->qkv_bias);
        free(dqkv);
        return;
    }
    ref_real *part = ref_new(rows * size->hidden);
    for (int i = 0; i < 3; i++) {
        ref_linear_backward(rows, size->hidden, cols_of(size, i), x, p->weight[i], d->of[i], part,
                            grad->weight[i], grad->bias[i]);
        for (int64_t k = 0; k < rows * size->hidden; k++)
            dx[k] = i == 0 ? part[k] : dx[k] + part[k];
    }
    free(part);
}

/* Where head number `a` of sequence `b` starts in operand `which`. */
static int64_t place_of(const ref_size *size, int64_t b, int64_t a, int which) {
    int64_t number = which == 0 ? a : a * kv_heads(size) / size->heads;
    return b * size->seq * cols_of(size, which) + number * size->head_cols;
}

static head head_of(const ref_size *size, const operands *x, int64_t b, int64_t a, ref_real *p) {
    return (head){size->seq,
                  size->head_cols,
                  cols_of(size, 0),
                  cols_of(size, 1),
                  size->window,
                  size->full,
                  x->of[0] + place_of(size, b, a, 0),
                  x->of[1] + place_of(size, b, a, 1),
                  x->of[2] + place_of(size, b, a, 2),
                  p};
}

/* o [rows, heads * width] = all heads side by side; or, with d_o, the gradients of Q, K and V. */
static void each_head(const ref_size *size, const operands *x, ref_real *o, const ref_real *d_o,
                      const operands *d) {
    int64_t cols = cols_of(size, 0);
    ref_real *square = ref_new(size->seq * size->seq);
    for (int64_t b = 0; b < size->batch; b++) {
        for (int64_t a = 0; a < size->heads; a++) {
            head h = head_of(size, x, b, a, square);
            int64_t at = place_of(size, b, a, 0);
            probabilities(&h);
            if (o)
                mix(&h, o + at, cols);
            else
                head_gradient(&h, d_o + at, cols, d->of[0] + at, d->of[1] + place_of(size, b, a, 1),
                              d->of[2] + place_of(size, b, a, 2));
        }
    }
    free(square);
}

void ref_attention_forward(const ref_size *size, const ref_attention *p, const ref_real *x,
                           ref_real *y) {
    int64_t rows = size->batch * size->seq;
    operands raw = operands_new(size), qkv = operands_new(size);
    ref_real *o = ref_new(rows * cols_of(size, 0));
    prepare(size, p, x, &raw, &qkv);
    each_head(size, &qkv, o, NULL, NULL);
    ref_linear_forward(rows, cols_of(size, 0), size->hidden, o, p->out_weight, p->out_bias, y);
    operands_free(&raw);
    operands_free(&qkv);
    free(o);
}

void ref_attention_backward(const ref_size *size, const ref_attention *p, const ref_real *x,
                            const ref_real *dy, ref_real *dx, const ref_attention *grad) {
    int64_t rows = size->batch * size->seq;
    int64_t cols = cols_of(size, 0);
    operands raw = operands_new(size), qkv = operands_new(size);
    operands d = operands_new(size);
    ref_real *o = ref_new(rows * cols);
    ref_real *d_o = ref_new(rows * cols);
    prepare(size, p, x, &raw, &qkv);
    each_head(size, &qkv, o, NULL, NULL);
    ref_linear_backward(rows, cols, size->hidden, o, p->out_weight, dy, d_o, grad->out_weight,
                        grad->out_bias);
    each_head(size, &qkv, NULL, d_o, &d);
    ref_rope(size, size->heads, d.of[0], 1);
    ref_rope(size, kv_heads(size), d.of[1], 1);
    norms_backward(size, p, &raw, &d, grad);
    project_backward(size, p, x, &d, dx, grad);
    operands_free(&raw);
    operands_free(&qkv);
    operands_free(&d);
    free(o);
    free(d_o);
}
