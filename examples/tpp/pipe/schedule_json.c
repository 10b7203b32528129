/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "schedule_json.h"

void schedule_json_facts(struct json *j, const char *schema, const struct pipe_source *source) {
    const tpp_schedule_info *info = &source->info;
    json_string(j, "schema", schema);
    json_string(j, "version", tpp_version_string());
    json_string(j, "schedule", source->name);
    json_int(j, "stages", info->ranks);
    json_int(j, "chunks", info->chunks);
    json_int(j, "micro", info->micros);
    json_int(j, "directions", info->directions);
    json_int(j, "virtual_stages", info->stages);
}

static void write_action(struct json *j, const tpp_action *a) {
    json_object(j, NULL);
    json_string(j, "op", tpp_op_name(a->op));
    json_int(j, "stage", a->stage);
    json_int(j, "micro", a->micro);
    if (a->peer >= 0) {
        json_int(j, "peer", a->peer);
    }
    if (a->flags & TPP_ACTION_FUSED) {
        json_bool(j, "fused", 1);
    }
    json_end_object(j);
}

void schedule_write_json(FILE *out, const struct pipe_source *source) {
    struct json j = {.out = out};
    json_object(&j, NULL);
    schedule_json_facts(&j, "tpp-schedule/1", source);
    json_array(&j, "rank_of");
    for (int32_t stage = 0; stage < source->info.stages; stage++) {
        json_int(&j, NULL, tpp_schedule_rank_of(source->schedule, stage));
    }
    json_end_array(&j);
    json_rows(&j, "ranks");
    for (int32_t rank = 0; rank < source->info.ranks; rank++) {
        int64_t count = 0;
        const tpp_action *actions = tpp_schedule_actions(source->schedule, rank, &count);
        json_array(&j, NULL);
        for (int64_t i = 0; i < count; i++) {
            write_action(&j, &actions[i]);
        }
        json_end_array(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
    fputc('\n', out);
}
