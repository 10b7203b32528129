/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_PIPE_CONFIG_H
#define TPP_COMMAND_PIPE_CONFIG_H

#include <stdint.h>

#include "../options.h"

enum {
    FORM_TEXT = 1,
    FORM_CSV,
    FORM_JSON,
    FORM_SVG,
    FORM_CHROME,
    FORM_SLOTS /* csv with --slots */
};

/* What `tpp schedule`, `simulate`, `check` and `optimize` were asked: each has some of these. Times
 * are in any one unit, and of a full stage: all chunks of a rank, one micro-batch. A cost below 0
 * was not given. */
struct pipe_config {
    const char *source; /* name of a built-in order, or a file ("-": standard input) */
    int32_t stages, chunks, micro, group, split, two_way; /* 0: not given */
    double tf, ti, tw, tb, fused;
    double p2p, link, bytes, bandwidth, optimizer;
    int32_t blocking, barrier, paper_edges;
    double mem_b, mem_w, mem_state;
    const char *costs; /* a JSON file: costs of each stage */
    int32_t messages, slots, format;
    int32_t channel, capacity;                 /* capacity < 0: not given */
    int32_t placement, objective, evaluations; /* evaluations 0: any number */
    double memory_limit, seconds;
    uint64_t seed;
    int32_t json, quiet, help;
    const char *out, *svg, *chrome;
};

extern const struct option_row schedule_options[];
extern const struct option_row simulate_options[];
extern const struct option_row check_options[];
extern const struct option_row optimize_options[];
extern const struct option_choice placement_choices[];
extern const struct option_choice channel_choices[];
extern const struct option_choice form_choices[];

struct pipe_config pipe_config_default(void);

/* Options that do not go together. Returns 0 or EXIT_USAGE, after one sentence. */
int pipe_config_check(const struct pipe_config *config);

/* The same for commands that a schedule is named to. */
int pipe_config_check_source(const struct pipe_config *config);

/* Does a channel of this kind have a --capacity? */
int pipe_config_has_capacity(int32_t channel);

/* Sizes, with the defaults in the place of those that were not given. */
int32_t pipe_config_stages(const struct pipe_config *config);
int32_t pipe_config_micro(const struct pipe_config *config);

/* Time that a message occupies its link. */
double pipe_config_link(const struct pipe_config *config);

#endif
