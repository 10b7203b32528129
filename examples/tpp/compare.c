/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gather.h"
#include "reserve.h"

static double entry(const struct full_param *full, tpp_dtype dtype, int64_t i) {
    double value = 0;
    int64_t width = full->bytes / (full->rows * full->cols); /* of a number */
    tpp_convert(&value, TPP_F64, (const char *)full->data + i * width, dtype, 1);
    return value;
}

static struct param_diff compare_param(const struct team *split, const struct team *whole,
                                       int32_t param) {
    struct full_param a = gather_param(split, param);
    struct full_param b = gather_param(whole, param);
    struct param_diff diff = {.name = b.name, .rows = b.rows, .cols = b.cols};
    tpp_dtype dtype = whole->config->dtype;
    diff.equal_bits = a.lanes_agree && memcmp(a.data, b.data, (size_t)b.bytes) == 0;
    for (int64_t i = 0; i < b.rows * b.cols; i++) {
        diff.largest = fmax(diff.largest, fabs(entry(&b, dtype, i)));
        diff.difference = fmax(diff.difference, fabs(entry(&a, dtype, i) - entry(&b, dtype, i)));
    }
    diff.relative = diff.difference > 0 ? diff.difference / diff.largest : 0;
    gather_free(&a);
    gather_free(&b);
    return diff;
}

static void compare_losses(struct comparison *out, const struct history *history) {
    for (int64_t i = 0; i < history->count; i++) {
        const struct step_record *record = &history->records[i];
        double difference = fabs(record->loss - record->whole_loss);
        if (difference > out->loss_difference) {
            out->loss_difference = difference;
            out->loss_step = i + 1;
        }
    }
}

void compare(struct comparison *out, const struct team *split, const struct team *whole,
             const struct history *history) {
    memset(out, 0, sizeof *out);
    out->count = whole->params;
    out->params = reserve(out->count, sizeof *out->params);
    out->worst = -1;
    for (int32_t i = 0; i < out->count; i++) {
        out->params[i] = compare_param(split, whole, i);
        int differs = !out->params[i].equal_bits;
        if (differs &&
            (out->worst < 0 || out->params[i].relative > out->params[out->worst].relative)) {
            out->worst = i;
        }
    }
    compare_losses(out, history);
}

void compare_print(FILE *out, const struct comparison *comparison) {
    fprintf(out, "%-24s %13s %11s %14s %9s\n", "parameter", "shape", "largest", "max |diff|",
            "relative");
    for (int32_t i = 0; i < comparison->count; i++) {
        const struct param_diff *p = &comparison->params[i];
        char shape[48];
        snprintf(shape, sizeof shape, "%" PRId64 " x %" PRId64, p->rows, p->cols);
        fprintf(out, "%-24s %13s %11.4g ", p->name, shape, p->largest);
        if (p->equal_bits) {
            fprintf(out, "%14s %9s\n", "equal bits", "0");
        } else {
            fprintf(out, "%14.3e %9.1e\n", p->difference, p->relative);
        }
    }
    if (comparison->worst < 0) {
        fprintf(out, "all parameters: equal bits\n");
    } else {
        const struct param_diff *p = &comparison->params[comparison->worst];
        fprintf(out, "all parameters: largest relative difference %.1e, in %s\n", p->relative,
                p->name);
    }
}

void compare_free(struct comparison *comparison) {
    free(comparison->params);
    memset(comparison, 0, sizeof *comparison);
}

uint64_t compare_fingerprint(const struct team *team) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (int32_t param = 0; param < team->params; param++) {
        struct full_param full = gather_param(team, param);
        for (int64_t i = 0; i < full.bytes; i++) {
            hash = (hash ^ ((const unsigned char *)full.data)[i]) * 0x100000001b3u;
        }
        gather_free(&full);
    }
    return hash;
}
