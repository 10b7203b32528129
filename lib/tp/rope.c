/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/rope.h"

static const tpp__twofold TURN = {6.283185307179586, 2.4492935982947064e-16};

static tpp_status check_cols(const tpp_rope_desc *d, int32_t head_cols) {
    if (d->cols >= 2 && d->cols <= head_cols && d->cols % 2 == 0)
        return TPP_OK;
    return tpp__fail(
        TPP_ERR_INVALID,
        "desc.rope.cols = %d is not accepted; accepted: even numbers 2 .. %d (the head's "
        "columns), 0 for all when they are even",
        d->cols, head_cols);
}

static tpp_status check_scaling(const tpp_rope_desc *d) {
    if (d->scaling == TPP_ROPE_PLAIN)
        return TPP_OK;
    if (d->scaling != TPP_ROPE_LINEAR && d->scaling != TPP_ROPE_LLAMA3)
        return tpp__fail(
            TPP_ERR_INVALID,
            "desc.rope.scaling = %d is not accepted; accepted: 0 (plain), 1 (linear), 2 "
            "(Llama 3)",
            d->scaling);
    if (!isfinite(d->factor) || d->factor < 1)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.rope.factor = %g is not accepted; accepted: 1 or more", d->factor);
    if (d->scaling == TPP_ROPE_LINEAR)
        return TPP_OK;
    if (!(d->low_freq_factor > 0 && d->high_freq_factor > d->low_freq_factor &&
          isfinite(d->high_freq_factor)))
        return tpp__fail(
            TPP_ERR_INVALID,
            "desc.rope.low_freq_factor = %g and desc.rope.high_freq_factor = %g are not "
            "accepted; accepted: 0 < low < high",
            d->low_freq_factor, d->high_freq_factor);
    return tpp__check_positive("desc.rope.original_positions", d->original_positions);
}

tpp_status tpp__rope_read(const tpp_rope_desc *given, int32_t head_cols, tpp_rope_desc *out) {
    tpp_status status = tpp__sized_read(out, sizeof *out, TPP_ROPE_INTERLEAVED, given, "desc.rope");
    if (status != TPP_OK)
        return status;
    if (out->cols == 0)
        out->cols = head_cols;
    status = tpp__check_std("desc.rope.theta", out->theta, 10000, &out->theta);
    if (status == TPP_OK && out->theta < 1)
        status = tpp__fail(TPP_ERR_INVALID,
                           "desc.rope.theta = %g is not accepted; accepted: 1 or more", out->theta);
    if (status == TPP_OK)
        status = check_cols(out, head_cols);
    return status == TPP_OK ? check_scaling(out) : status;
}

int64_t tpp__rope_bytes(int32_t cols) {
    int64_t half = cols / 2;
    return half * (int64_t)sizeof(tpp__twofold) +
           2 * TPP__ROPE_STEPS * half * (int64_t)sizeof(double);
}

/* Llama 3's rule for a pair that would turn at `speed`. */
static tpp__twofold stretched(const tpp_rope_desc *d, tpp__twofold speed) {
    const tpp__twofold low = {d->low_freq_factor, 0}, high = {d->high_freq_factor, 0};
    tpp__twofold slow = tpp__twofold_over(speed, (tpp__twofold){d->factor, 0});
    tpp__twofold turns =
        tpp__twofold_over(tpp__twofold_scaled(speed, (double)d->original_positions), TURN);
    if (turns.high < low.high)
        return slow;
    if (turns.high > high.high)
        return speed;
    tpp__twofold smooth =
        tpp__twofold_over(tpp__twofold_minus(turns, low), tpp__twofold_minus(high, low));
    tpp__twofold more = tpp__twofold_times(smooth, tpp__twofold_minus(speed, slow));
    return tpp__twofold_add(slow, more);
}

static tpp__twofold scaled(const tpp_rope_desc *d, tpp__twofold speed) {
    if (d->scaling == TPP_ROPE_LLAMA3)
        return stretched(d, speed);
    if (d->scaling == TPP_ROPE_LINEAR)
        return tpp__twofold_over(speed, (tpp__twofold){d->factor, 0});
    return speed;
}

/* Cosine and sine of position * speed, brought below a full turn first. */
static void angle(tpp__twofold speed, int64_t position, double *cosine, double *sine) {
    tpp__twofold a = tpp__twofold_scaled(speed, (double)position);
    a = tpp__twofold_minus(a, tpp__twofold_scaled(TURN, rint(a.high / TURN.high)));
    double c = cos(a.high), s = sin(a.high);
    *cosine = c - a.low * s;
    *sine = s + a.low * c;
}

tpp__rope tpp__rope_over(const tpp_rope_desc *desc, void *memory) {
    tpp__rope rope = {.half = desc->cols / 2, .interleaved = desc->flags & TPP_ROPE_INTERLEAVED};
    tpp__twofold next = tpp__twofold_inverse_root(desc->theta, rope.half), plain = {1, 0};
    rope.speed = memory;
    rope.steps = (double *)(void *)(rope.speed + rope.half);
    for (int64_t j = 0; j < rope.half; j++, plain = tpp__twofold_times(plain, next)) {
        rope.speed[j] = scaled(desc, plain);
        for (int64_t r = 0; r < TPP__ROPE_STEPS; r++)
            angle(rope.speed[j], r, &rope.steps[2 * r * rope.half + j],
                  &rope.steps[(2 * r + 1) * rope.half + j]);
    }
    return rope;
}

int64_t tpp__turns_bytes(const tpp__rope *rope) {
    return 4 * rope->half * (int64_t)sizeof(double);
}

tpp__turns tpp__turns_over(const tpp__rope *rope, bool back, void *memory) {
    double *numbers = memory;
    return (tpp__turns){.rope = rope,
                        .sign = back ? -1 : 1,
                        .base_at = -1,
                        .base = numbers,
                        .row = numbers + 2 * rope->half};
}

void tpp__turns_to(tpp__turns *turns, int64_t position) {
    const tpp__rope *rope = turns->rope;
    int64_t half = rope->half, step = position % TPP__ROPE_STEPS;
    double *base = turns->base, *row = turns->row;
    if (turns->base_at != position - step) {
        turns->base_at = position - step;
        for (int64_t j = 0; j < half; j++)
            angle(rope->speed[j], turns->base_at, &base[j], &base[half + j]);
    }
    const double *cosine = rope->steps + 2 * step * half, *sine = cosine + half;
    for (int64_t j = 0; j < half; j++) {
        row[j] = base[j] * cosine[j] - base[half + j] * sine[j];
        row[half + j] = turns->sign * (base[half + j] * cosine[j] + base[j] * sine[j]);
    }
}
