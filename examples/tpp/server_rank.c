/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "server_rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "reserve.h"

static const struct generate_config *config_of(const struct server_rank *r) {
    return r->server->config;
}

static int is_last(const struct server_rank *r) {
    return r->stage == config_of(r)->pp - 1;
}

static tpp_status make_layer(struct server_rank *r) {
    const struct generate_config *c = config_of(r);
    tpp_layer_env env = {0};
    env.size = sizeof env;
    env.comm = r->tensor;
    env.dtype = c->dtype;
    env.blocks = c->blocks;
    tpp_model_part_desc part = {0};
    part.size = sizeof part;
    part.model = &c->desc;
    tpp_status status =
        tpp_schedule_partition(c->desc.layers, c->pp, r->stage, &part.first, &part.count);
    return status == TPP_OK ? tpp_model_part_create(&r->layer, &env, &part) : status;
}

static void take_prompts(struct server_rank *r) {
    const struct generate_config *c = config_of(r);
    int32_t batch = c->prompts.count;
    r->ids = reserve(batch, sizeof *r->ids);
    r->counts = reserve(batch, sizeof *r->counts);
    r->past = reserve(batch, sizeof *r->past);
    r->lengths = reserve(batch, sizeof *r->lengths);
    r->next = reserve(batch + 1, sizeof *r->next);
    for (int32_t i = 0; i < batch; i++) {
        r->counts[i] = (int32_t)strlen(c->prompts.texts[i]);
        r->ids[i] = reserve((int64_t)r->counts[i] + c->tokens, sizeof **r->ids);
        for (int32_t k = 0; k < r->counts[i]; k++) {
            r->ids[i][k] = (unsigned char)c->prompts.texts[i][k];
        }
    }
}

/* What each text brings to the next step: what the cache does not know yet; when that is too much,
 * the last half of a context, from position 0 on. Returns the longest. */
static int32_t plan(struct server_rank *r) {
    int32_t context = r->server->context;
    int32_t longest = 0;
    for (int32_t i = 0; i < config_of(r)->prompts.count; i++) {
        r->past[i] += r->lengths[i];
        r->lengths[i] = r->past[i] == 0 ? r->counts[i] : 1;
        if (r->past[i] + r->lengths[i] > context) {
            int32_t half = context > 1 ? context / 2 : 1;
            r->past[i] = 0;
            r->lengths[i] = half < r->counts[i] ? half : r->counts[i];
        }
        longest = r->lengths[i] > longest ? r->lengths[i] : longest;
    }
    return longest;
}

/* Memory for the longest step: the first, or one that goes on from half a context. */
static tpp_status make_memory(struct server_rank *r) {
    const struct generate_config *c = config_of(r);
    int32_t batch = c->prompts.count;
    int32_t context = r->server->context;
    int32_t longest = context > 1 ? context / 2 : 1;
    for (int32_t i = 0; i < batch; i++) {
        if (r->counts[i] <= context && r->counts[i] > longest) {
            longest = r->counts[i];
        }
    }
    tpp_serve_info serve = {0};
    serve.size = sizeof serve;
    r->info.size = sizeof r->info;
    tpp_status status = tpp_layer_query(r->layer, batch, longest, &r->info);
    if (status == TPP_OK) {
        status = tpp_layer_serve_query(r->layer, batch, longest, context, &serve);
    }
    if (status != TPP_OK) {
        return status;
    }
    r->params = reserve(r->info.state_bytes, 1);
    r->scratch = reserve(serve.scratch_bytes, 1);
    r->cache = reserve(serve.cache_bytes, 1);
    r->scratch_bytes = serve.scratch_bytes;
    r->cache_bytes = serve.cache_bytes;
    r->in = reserve((int64_t)batch * longest, r->info.in_cols * (int64_t)sizeof(double));
    r->out = reserve((int64_t)batch * longest, r->info.out_cols * (int64_t)sizeof(double));
    r->logits = reserve((int64_t)batch * r->info.out_cols, sizeof *r->logits);
    r->gathered = reserve((int64_t)batch * r->info.out_cols * c->tp, sizeof *r->gathered);
    r->room = reserve(BYTES, sizeof *r->room);
    return TPP_OK;
}

static tpp_status send(struct server_rank *r, const void *data, int64_t count, tpp_dtype dtype,
                       int32_t stage) {
    tpp_request request = {0};
    tpp_status status = tpp_comm_send_start(r->pipeline, data, count, dtype, stage, 0, &request);
    return status == TPP_OK ? tpp_comm_wait(&request) : status;
}

static tpp_status receive(struct server_rank *r, void *data, int64_t count, tpp_dtype dtype,
                          int32_t stage) {
    tpp_request request = {0};
    tpp_status status = tpp_comm_recv_start(r->pipeline, data, count, dtype, stage, 0, &request);
    return status == TPP_OK ? tpp_comm_wait(&request) : status;
}

/* The tokens of a step, or what the stage before made of them. Returns their number in *rows. */
static tpp_status take_input(struct server_rank *r, int64_t *rows) {
    *rows = 0;
    for (int32_t i = 0; i < config_of(r)->prompts.count; i++) {
        const int32_t *from = r->ids[i] + r->counts[i] - r->lengths[i];
        if (r->stage == 0) {
            memcpy((int32_t *)r->in + *rows, from, (size_t)r->lengths[i] * sizeof *from);
        }
        *rows += r->lengths[i];
    }
    return r->stage == 0
               ? TPP_OK
               : receive(r, r->in, *rows * r->info.in_cols, r->info.in_dtype, r->stage - 1);
}

static tpp_status forward(struct server_rank *r, int32_t longest, int64_t rows) {
    tpp_call call = {0};
    call.size = sizeof call;
    call.flags = TPP_CALL_NO_GRAD;
    call.batch = config_of(r)->prompts.count;
    call.seq = longest;
    call.in.data = r->in, call.in.dtype = r->info.in_dtype;
    call.in.rows = rows, call.in.cols = r->info.in_cols;
    call.out.data = r->out, call.out.dtype = r->info.out_dtype;
    call.out.rows = rows, call.out.cols = r->info.out_cols;
    call.params = r->params;
    call.scratch = r->scratch, call.scratch_bytes = r->scratch_bytes;
    call.lengths = r->lengths, call.past = r->past;
    call.cache = r->cache, call.cache_bytes = r->cache_bytes;
    call.cache_seq = r->server->context;
    return tpp_layer_forward(r->layer, &call);
}

/* All ranks of the last stage choose from the same numbers, so they choose the same. */
static tpp_status choose(struct server_rank *r) {
    const struct generate_config *c = config_of(r);
    int64_t cols = r->info.out_cols;
    int64_t each = c->prompts.count * cols;
    int64_t end = 0;
    int64_t bytes = r->info.out_dtype == TPP_F64 ? 8 : r->info.out_dtype == TPP_F32 ? 4 : 2;
    tpp_status status = TPP_OK;
    for (int32_t i = 0; i < c->prompts.count && status == TPP_OK; i++) {
        end += r->lengths[i];
        const char *row = (const char *)r->out + (end - 1) * cols * bytes;
        status = tpp_convert(r->logits + i * cols, TPP_F64, row, r->info.out_dtype, cols);
    }
    if (status == TPP_OK && r->tensor) {
        status = tpp_comm_all_gather(r->tensor, r->logits, r->gathered, each, TPP_F64);
    }
    const double *all = r->tensor ? r->gathered : r->logits;
    for (int32_t i = 0; i < c->prompts.count && status == TPP_OK; i++) {
        double logits[BYTES];
        for (int32_t id = 0; id < BYTES; id++) {
            logits[id] = all[id / cols * each + i * cols + id % cols];
        }
        r->next[i] = pick(&c->rule, logits, BYTES, (uint64_t)i, (uint64_t)r->counts[i], r->room);
    }
    return status;
}

/* From the last stage to all: the next bytes, and whether to go on. */
static tpp_status share(struct server_rank *r, double start) {
    const struct generate_config *c = config_of(r);
    int32_t batch = c->prompts.count;
    if (!is_last(r)) {
        return receive(r, r->next, batch + 1, TPP_I32, c->pp - 1);
    }
    tpp_status status = choose(r);
    if (status == TPP_OK && r->lane == 0) {
        r->next[batch] = r->server->said(r->server->ctx, r->next, clock_seconds() - start) != 0;
    }
    if (status == TPP_OK && r->tensor) {
        status = tpp_comm_broadcast(r->tensor, &r->next[batch], 1, TPP_I32, 0);
    }
    for (int32_t stage = 0; stage < r->stage && status == TPP_OK; stage++) {
        status = send(r, r->next, batch + 1, TPP_I32, stage);
    }
    return status;
}

static tpp_status step(struct server_rank *r) {
    double start = clock_seconds();
    int32_t longest = plan(r);
    int64_t rows = 0;
    tpp_status status = take_input(r, &rows);
    if (status == TPP_OK) {
        status = forward(r, longest, rows);
    }
    if (status == TPP_OK && !is_last(r)) {
        status = send(r, r->out, rows * r->info.out_cols, r->info.out_dtype, r->stage + 1);
    }
    if (status == TPP_OK) {
        status = share(r, start);
    }
    for (int32_t i = 0; i < config_of(r)->prompts.count && status == TPP_OK; i++) {
        r->ids[i][r->counts[i]++] = r->next[i];
    }
    return status;
}

static tpp_status make(struct server_rank *r) {
    take_prompts(r);
    tpp_status status = make_layer(r);
    if (status == TPP_OK) {
        status = make_memory(r);
    }
    if (status != TPP_OK) {
        return status;
    }
    r->phase = PHASE_LOAD;
    status = tpp_weights_load(r->server->weights, config_of(r)->desc.family, r->layer,
                              config_of(r)->dtype, r->params);
    if (status != TPP_OK) {
        return status;
    }
    r->phase = PHASE_RUN;
    if (r->tensor) { /* so that times begin when all are ready */
        status = tpp_comm_barrier(r->tensor);
    }
    return status == TPP_OK && r->pipeline ? tpp_comm_barrier(r->pipeline) : status;
}

void server_rank_run(struct server_rank *r) {
    const struct generate_config *c = config_of(r);
    r->status = make(r);
    for (int32_t i = 0; i < c->tokens && r->status == TPP_OK; i++) {
        r->status = step(r);
        if (r->next[c->prompts.count]) {
            break;
        }
    }
    if (r->status != TPP_OK) {
        snprintf(r->message, sizeof r->message, "%s", tpp_message());
        tpp_comm_abort(r->tensor);
        tpp_comm_abort(r->pipeline);
    }
}

void server_rank_free(struct server_rank *r) {
    for (int32_t i = 0; r->ids && i < config_of(r)->prompts.count; i++) {
        free(r->ids[i]);
    }
    void *const all[] = {r->ids,    r->counts,   r->past,  r->lengths, r->next,
                         r->params, r->scratch,  r->cache, r->in,      r->out,
                         r->logits, r->gathered, r->room};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
    tpp_layer_destroy(r->layer);
}
