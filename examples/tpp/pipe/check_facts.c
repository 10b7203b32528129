/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "check_facts.h"

#include <stdlib.h>
#include <string.h>

#include "../reserve.h"
#include "../say.h"

const tpp_channel check_queues[QUEUES] = {TPP_CHANNEL_FIFO_PAIR, TPP_CHANNEL_FIFO_KIND,
                                          TPP_CHANNEL_TAGGED};

static tpp_status find_peaks(double **out, const struct pipe_source *source, tpp_op until) {
    int32_t ranks = source->info.ranks;
    int32_t *chunks = reserve(ranks, sizeof *chunks);
    *out = reserve(ranks, sizeof **out);
    tpp_status status = tpp_schedule_peaks_until(source->schedule, until, chunks);
    for (int32_t rank = 0; rank < ranks; rank++) {
        (*out)[rank] = chunks[rank] * pipe_source_unit(source, rank);
    }
    free(chunks);
    return status;
}

static tpp_status find_waits(struct check_facts *out, const struct check_rules *rules) {
    tpp_status status =
        tpp_schedule_wait_cycle(rules->waiting, rules->channel, rules->tried, NULL, 0, &out->count);
    if (status == TPP_OK) {
        out->waits = reserve(out->count, sizeof *out->waits);
        status = tpp_schedule_wait_cycle(rules->waiting, rules->channel, rules->tried, out->waits,
                                         out->count, &out->count);
    }
    return status;
}

static tpp_status find(struct check_facts *out, const struct pipe_source *source,
                       const struct check_rules *rules) {
    tpp_status status = rules->waits ? find_waits(out, rules) : TPP_OK;
    out->known = rules->kept > RULE_MESSAGES;
    if (!out->known || status != TPP_OK) {
        return status;
    }
    for (int i = 0; i < QUEUES && status == TPP_OK; i++) {
        status = tpp_schedule_capacity(source->schedule, check_queues[i], &out->capacity[i]);
    }
    status = status == TPP_OK ? find_peaks(&out->peak_to_w, source, TPP_OP_W) : status;
    return status == TPP_OK ? find_peaks(&out->peak_to_i, source, TPP_OP_I) : status;
}

int check_facts_find(struct check_facts *out, const struct pipe_source *source,
                     const struct check_rules *rules) {
    memset(out, 0, sizeof *out);
    return find(out, source, rules) == TPP_OK ? 0 : library_error("look at the schedule");
}

void check_facts_free(struct check_facts *facts) {
    free(facts->peak_to_w);
    free(facts->peak_to_i);
    free(facts->waits);
    memset(facts, 0, sizeof *facts);
}
