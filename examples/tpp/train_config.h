/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_TRAIN_CONFIG_H
#define TPP_PROGRAM_TRAIN_CONFIG_H

#include <stdint.h>
#include <tpp/tpp.h>

#include "options.h"

enum { VOCAB = 256 }; /* bytes; a model from a file may have more */

enum { EXECUTOR_THREADS = 1, EXECUTOR_SERIAL = 2, EXECUTOR_DISTRIBUTED = 3 };

/* What `tpp train` was asked to do. */
struct train_config {
    const char *data;
    const char *model; /* its config.json; NULL: the options from here to tied describe it */
    int32_t family, layers, hidden, heads, kv_heads, head_cols, ffn, act, norm, window;
    int32_t qk_norm, no_bias, parallel, tied;
    double rope;         /* base of rotary positions; < 0: as the family has it */
    tpp_model_desc desc; /* what all of these come to */
    int32_t seq, dtype;
    double dropout, smoothing;
    int32_t batch, micros; /* sequences of a step, and pieces that they are cut into */
    int32_t steps;
    uint64_t seed;
    double rate, min_rate; /* min_rate < 0: a tenth of rate */
    int32_t warmup;        /* < 0: a tenth of the steps, at least 10 */
    double decay, clip;    /* clip 0: none */
    int32_t tp, pp, chunks, schedule, executor, blocks, sequence, recompute, early;
    int32_t compare, report, json, quiet, help;
    const char *trace, *gantt, *save, *save_config, *load;
};

extern const struct option_row train_options[];
extern const struct option_choice schedule_choices[];
extern const struct option_choice executor_choices[];
extern const struct option_choice dtype_choices[];
extern const struct option_choice family_choices[];
extern const struct option_choice act_choices[];
extern const struct option_choice norm_choices[];
extern const struct option_choice recompute_choices[];

struct train_config train_config_default(void);

/* Make the options that describe a model "not given"; train_model_make fills them in. */
void train_config_clear_model(struct train_config *config);

/* Tokens of a micro-batch that pass between layers on one of tp ranks: all, or its share. */
int64_t train_config_rows(const struct train_config *config, int32_t tp);

/* Bytes of a parameter's or activation's number. */
int32_t train_config_width(const struct train_config *config);

/* Replace "< 0: derived" by the number. */
void train_config_complete(struct train_config *config);

/* Everything that can be known before the text is read. Returns 0 or EXIT_USAGE, after one
 * sentence. */
int train_config_check(const struct train_config *config);

#endif
