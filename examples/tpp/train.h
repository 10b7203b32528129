/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_TRAIN_H
#define TPP_PROGRAM_TRAIN_H

#include "compare.h"
#include "corpus.h"
#include "early_step.h"
#include "history.h"
#include "measure.h"
#include "team.h"
#include "train_config.h"

/* A run of `tpp train`, with what came of it. */
struct training {
    const struct train_config *config;
    struct corpus corpus;
    struct team split;
    struct team whole;   /* only with --compare */
    struct early *early; /* only with --early-step */
    struct history history;
    struct comparison comparison; /* only with --compare */
    struct measure measure;
    uint64_t fingerprint; /* of all parameters at the end */
    int64_t numbers;      /* entries of all parameters */
    int stopped;          /* the signal that ended it early, or 0 */
    double seconds;
    int32_t *ids, *targets; /* of the step under way */
};

/* The subcommand; argv[0] is its name. Returns the program's exit code. */
int train_main(int argc, char **argv);

#endif
