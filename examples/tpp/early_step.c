/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "early_step.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "early_player.h"
#include "reserve.h"
#include "say.h"

enum { RECORDS = 16 }; /* that the ranks may be ahead of who takes them */

/* A record that stays until it is taken. */
struct slot {
    struct early_record record;
    double *micro_losses;
};

struct early {
    struct early_shared shared;
    struct early_side *sides; /* [pp][tp] */
    tpp_run_rank *ranks;      /* [pp][tp] */
    struct early_player *players;
    pthread_t *threads;
    int32_t count, started;
    int failed;    /* to start a thread: why */
    double since;  /* end of the step before */
    double *taken; /* micro_losses of the record that was taken */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Under the lock: */
    struct slot slots[RECORDS];
    int64_t noted, used; /* records so far */
    int32_t playing;
    int closed; /* nobody takes any more */
};

/* --- Records ---------------------------------------------------------------------------------- */

static void note(void *ctx, const struct early_record *record) {
    struct early *e = ctx;
    size_t bytes = (size_t)e->shared.team->config->micros * sizeof *record->micro_losses;
    pthread_mutex_lock(&e->lock);
    while (e->noted - e->used == RECORDS && !e->closed) {
        pthread_cond_wait(&e->changed, &e->lock);
    }
    if (!e->closed) {
        struct slot *to = &e->slots[e->noted++ % RECORDS];
        to->record = *record;
        memcpy(to->micro_losses, record->micro_losses, bytes);
    }
    e->shared.team->steps = record->step + 1;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

static void *play(void *arg) {
    struct early_player *player = arg;
    struct early *e = player->shared->ctx;
    early_player_play(player);
    pthread_mutex_lock(&e->lock);
    e->playing--;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* A rank that has no thread must not be waited for. */
static void start(struct early *e) {
    e->since = clock_seconds();
    e->playing = e->count;
    while (e->started < e->count && !e->failed) {
        e->failed = pthread_create(&e->threads[e->started], NULL, play, &e->players[e->started]);
        e->started += !e->failed;
    }
    for (int32_t i = 0; i < e->count && e->failed; i++) {
        early_player_abort(&e->players[i]);
    }
    pthread_mutex_lock(&e->lock);
    e->playing -= e->count - e->started;
    pthread_mutex_unlock(&e->lock);
}

int early_next(struct early *e) {
    if (e->started == 0 && !e->failed) {
        start(e);
    }
    pthread_mutex_lock(&e->lock);
    while (e->noted == e->used && e->playing > 0) {
        pthread_cond_wait(&e->changed, &e->lock);
    }
    int there = e->noted > e->used;
    pthread_mutex_unlock(&e->lock);
    return there;
}

void early_take(struct early *e, struct step_result *out) {
    size_t bytes = (size_t)e->shared.team->config->micros * sizeof *e->taken;
    pthread_mutex_lock(&e->lock);
    const struct slot *from = &e->slots[e->used % RECORDS];
    memcpy(e->taken, from->micro_losses, bytes);
    *out = (struct step_result){.loss = from->record.loss,
                                .norm = from->record.norm,
                                .seconds = from->record.when - e->since,
                                .redone = from->record.redone,
                                .micro_losses = e->taken};
    e->since = from->record.when;
    e->used++;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

/* --- Life ------------------------------------------------------------------------------------- */

static void place_sides(struct early *e) {
    struct team *team = e->shared.team;
    int32_t lanes = team->layout.tp;
    for (int32_t i = 0; i < team->layout.pp * lanes; i++) {
        struct early_side *side = &e->sides[i];
        side->shared = &e->shared;
        side->worker = &team->workers[i];
        side->pipeline = team->ranks[i].comm;
        side->rank = i / lanes;
        side->lane = i % lanes;
    }
}

static tpp_status open_players(struct early *e, const struct corpus *corpus) {
    const struct layout *layout = &e->shared.team->layout;
    tpp_status status = TPP_OK;
    for (int32_t i = 0; i < e->count && status == TPP_OK; i++) {
        struct early_player *p = &e->players[i];
        p->shared = &e->shared;
        p->corpus = corpus;
        p->first = i;
        p->count = layout->pp / e->count; /* each one, or one all */
        p->sides = e->sides + (int64_t)i * layout->tp;
        p->ranks = e->ranks + (int64_t)i * layout->tp;
        status = early_player_open(p);
    }
    for (int32_t i = e->count - 1; i >= 0; i--) {
        e->players[i].later -= e->players[0].later;
    }
    return status;
}

int early_create(struct early **out, struct team *team, const struct corpus *corpus) {
    int32_t rows = team->layout.pp * team->layout.tp;
    struct early *e = reserve(1, sizeof *e);
    *out = e;
    e->shared.team = team;
    e->shared.note = note;
    e->shared.ctx = e;
    atomic_init(&e->shared.last, team->config->steps - 1);
    atomic_init(&e->shared.quit, 0);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    e->taken = reserve(team->config->micros, sizeof *e->taken);
    for (int i = 0; i < RECORDS; i++) {
        e->slots[i].micro_losses = reserve(team->config->micros, sizeof *e->taken);
    }
    for (int i = 0; i < 2; i++) {
        e->shared.losses[i] = reserve(team->config->micros, sizeof *e->taken);
    }
    e->count = team->layout.executor == EXECUTOR_SERIAL ? 1 : team->layout.pp;
    e->sides = reserve(rows, sizeof *e->sides);
    e->ranks = reserve(rows, sizeof *e->ranks);
    e->players = reserve(e->count, sizeof *e->players);
    e->threads = reserve(e->count, sizeof *e->threads);
    place_sides(e);
    tpp_status status = open_players(e, corpus);
    return status == TPP_OK ? 0 : library_error("make the ranks that step early");
}

/* The failure that the others followed. */
static int tell(const struct early *e) {
    const struct early_player *first = NULL;
    for (int32_t i = 0; i < e->count; i++) {
        const struct early_player *p = &e->players[i];
        if (p->status != TPP_OK && (!first || first->status == TPP_ERR_ABORTED)) {
            first = p;
        }
    }
    if (e->failed) {
        return data_error("could not start %d threads: %s", (int)e->count, strerror(e->failed));
    }
    return first ? data_error("could not train a step: %s", first->message) : 0;
}

int early_end(struct early *e) {
    struct team *team = e->shared.team;
    atomic_store(&e->shared.quit, 1);
    pthread_mutex_lock(&e->lock);
    e->closed = 1;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    for (int32_t i = 0; i < e->started; i++) {
        pthread_join(e->threads[i], NULL);
    }
    e->started = 0;
    team->sampler.steps = team->steps;
    for (int32_t i = 0; i < sampler_count(&team->sampler); i++) {
        sampler_trace(&team->sampler, team->steps - 1 - i);
        sampler_report(&team->sampler, team->steps - 1 - i);
    }
    for (int32_t i = 0; i < e->count; i++) {
        early_player_tell(&e->players[i], &team->sampler);
    }
    return tell(e);
}

void early_destroy(struct early *e) {
    if (!e) {
        return;
    }
    for (int32_t i = 0; i < e->count; i++) {
        early_player_close(&e->players[i]);
    }
    for (int i = 0; i < RECORDS; i++) {
        free(e->slots[i].micro_losses);
    }
    free(e->shared.losses[0]);
    free(e->shared.losses[1]);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->changed);
    free(e->taken);
    free(e->sides);
    free(e->ranks);
    free(e->players);
    free(e->threads);
    free(e);
}
