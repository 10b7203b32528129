/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "stage/stage_impl.h"

#include "base/check.h"
#include "tp/layer_impl.h"

/* Sequences of different lengths: how many tokens micro-batches have, and what each counts. */

int64_t tpp__stage_tokens(const tpp_stage *stage, int32_t micro) {
    if (!stage->lengths)
        return stage->batch * stage->seq;
    int64_t tokens = 0;
    for (int64_t i = 0; i < stage->batch; i++)
        tokens += stage->lengths[micro * stage->batch + i];
    return tokens;
}

/* The gradient of what the loss layer gives, by the rule in stage.h. */
static double slope_of(const tpp_stage *stage, const tpp_layer *layer) {
    if (stage->loss_weight != 0)
        return stage->loss_weight;
    if (layer->one_row)
        return 1 / (double)stage->micros;
    double tokens = 0;
    for (int32_t m = 0; m < stage->micros; m++)
        tokens += (double)tpp__stage_tokens(stage, m);
    return tokens > 0 ? 1 / tokens : 0;
}

void tpp__stage_fill_slopes(tpp_stage *stage) {
    for (int32_t c = 0; c < stage->chunks; c++) {
        const tpp_layer_info *info = &stage->infos[c];
        double slope = slope_of(stage, stage->layers[c]);
        for (int64_t i = 0; i < info->out_rows && info->targets; i++) {
            if (info->out_dtype == TPP_F32)
                ((float *)(void *)stage->slopes)[i] = (float)slope;
            else
                ((double *)(void *)stage->slopes)[i] = slope;
        }
    }
}

static tpp_status check_numbers(const tpp_stage *stage, const char *name, const int32_t *numbers,
                                int64_t most) {
    int64_t count = stage->micros * stage->batch;
    for (int64_t i = 0; i < count && numbers; i++) {
        if (numbers[i] < 0 || numbers[i] > most)
            return tpp__fail(TPP_ERR_INVALID,
                             "%s[%lld] = %d, of sequence %lld of micro-batch %lld, is out of "
                             "range; accepted: 0 .. %lld",
                             name, (long long)i, numbers[i], (long long)(i % stage->batch),
                             (long long)(i / stage->batch), (long long)most);
    }
    return TPP_OK;
}

tpp_status tpp_stage_set_lengths(tpp_stage *stage, const int32_t *lengths, const int32_t *past) {
    if (!stage)
        return tpp__fail(TPP_ERR_INVALID, "stage is NULL");
    tpp_status status = check_numbers(stage, "lengths", lengths, stage->seq);
    if (status == TPP_OK)
        status = check_numbers(stage, "past", past, INT32_MAX - stage->seq);
    if (status != TPP_OK)
        return status;
    stage->lengths = lengths;
    stage->past = past;
    tpp__stage_fill_slopes(stage);
    return TPP_OK;
}
