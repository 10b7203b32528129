/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_TEAM_H
#define TPP_PROGRAM_TEAM_H

#include "sample.h"
#include "update.h"
#include "worker.h"

/* How a model is laid out over ranks. */
struct layout {
    int32_t tp, pp, chunks;
    tpp_schedule_kind schedule;
    int32_t executor;
    int32_t samples; /* of the last steps, kept for pictures and the report; may be 0 */
};

/* A model being trained by tp * pp ranks. The unsplit model is a team of one. */
struct team {
    const struct train_config *config;
    struct layout layout;
    int32_t stages;     /* of the model; virtual stages are `directions` times as many */
    int32_t directions; /* 2: the model stands twice */
    int32_t params;     /* of the whole model */
    int32_t blocks;     /* of each parameter */
    int64_t steps;      /* done */
    tpp_schedule *schedule;
    tpp_comm **tensor;      /* [pp][tp] */
    tpp_comm **pipeline;    /* [tp][pp] */
    struct worker *workers; /* [pp][tp] */
    tpp_run_rank *ranks;    /* [pp][tp] */
    tpp_executor *executor;
    tpp_run run;
    struct sampler sampler;
    double *squares;      /* [params][blocks]: of the step's gradients */
    double *micro_losses; /* [micros]: of the last step */
};

/* What a step came to. */
struct step_result {
    double loss; /* mean over the step's bytes */
    double norm; /* of the gradient, before clipping */
    double seconds;
    int redone; /* with --early-step: the optimizer step was taken back and done again */
    const double *micro_losses; /* [micros]: sum over each one's bytes; until the next step */
};

/* Returns 0 or EXIT_FAILED, after one sentence; then destroy what there is. */
int team_create(struct team *team, const struct train_config *config, const struct layout *layout);

/* One step: pipeline, gradient norm, update. Returns 0 or EXIT_FAILED, after one sentence. */
int team_step(struct team *team, const int32_t *ids, const int32_t *targets, double rate,
              struct step_result *out);

/* Give a rank the data of its next run, which is that of `step`. */
tpp_status team_set_data(const struct team *team, struct worker *worker, int64_t step,
                         const int32_t *ids, const int32_t *targets);

/* Losses of the micro-batches whose last stage lies on a rank, of the run that it has ended. */
void team_losses_of(const struct team *team, int32_t rank, double *micro_losses);

/* Mean over the step's bytes. */
double team_mean_loss(const struct team *team, const double *micro_losses);

/* The piece that holds a parameter of the whole model, on a lane. */
const struct piece *team_piece(const struct team *team, int32_t param, int32_t lane);

/* The piece that is a virtual stage, on a lane: 0 .. stages - 1, and with two directions as many more,
 * which are the same stages of the model. */
const struct piece *team_stage_piece(const struct team *team, int32_t stage, int32_t lane);

void team_destroy(struct team *team);

#endif
