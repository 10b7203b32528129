/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_EARLY_PLAYER_H
#define TPP_PROGRAM_EARLY_PLAYER_H

#include "corpus.h"
#include "early_side.h"

/* Pipeline ranks that an executor of their own plays through all steps: one, or with the serial
 * executor all. */
struct early_player {
    struct early_shared *shared;
    const struct corpus *corpus;
    int32_t first, count;     /* its pipeline ranks */
    struct early_side *sides; /* [count][tp] */
    tpp_run_rank *ranks;      /* [count][tp] */
    tpp_executor *executor;
    double later; /* when the executor was made: its times count from then */
    tpp_run run;
    struct sampler sampler; /* of its rows alone */
    int32_t *ids, *targets;
    tpp_status status; /* what ended it */
    char message[512];
};

/* shared, corpus, first, count, sides and ranks are set. Frees nothing when it fails. */
tpp_status early_player_open(struct early_player *player);
void early_player_close(struct early_player *player);

/* All steps; on a thread of its own. A failure stops the other players too. */
void early_player_play(struct early_player *player);

/* Make the player, and all that wait for it, end soon; any thread. */
void early_player_abort(const struct early_player *player);

/* Add the player's last steps to those of the team, which has as many samples or fewer. */
void early_player_tell(const struct early_player *player, struct sampler *out);

#endif
