/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* A model on two ranks reads a prompt in one call and goes on token by token, with a K/V cache; then
 * the whole text in one call, without: the same. cc kv_cache.c $(pkg-config --cflags --libs tpp) -lm */
#include <math.h>
#include <stdio.h>
#include <tpp/tpp.h>

enum { VOCAB = 32, HIDDEN = 16, PROMPT = 5, TEXT = 12, COLS = VOCAB / 2 };

static _Alignas(64) char memory[2][3][1 << 17]; /* of each rank: params, scratch, cache */
static tpp_comm *comms[2];

/* Logits of the last of `count` tokens, those before them in the cache. All ranks get all. */
static tpp_status last_logits(const tpp_layer *model, tpp_comm *comm, char part[3][1 << 17],
                              int32_t *ids, int32_t past, int32_t count, int cached, float *all) {
    float own[TEXT * COLS];
    tpp_call call = {.size = sizeof call, .flags = TPP_CALL_NO_GRAD, .batch = 1, .seq = count};
    call.in = (tpp_mat){.data = ids + past, .rows = count, .cols = 1, .dtype = TPP_I32};
    call.out = (tpp_mat){.data = own, .rows = count, .cols = COLS, .dtype = TPP_F32};
    call.params = part[0];
    call.scratch = part[1], call.scratch_bytes = sizeof part[1];
    call.past = &past;
    if (cached)
        call.cache = part[2], call.cache_bytes = sizeof part[2], call.cache_seq = TEXT;
    tpp_status st = tpp_layer_forward(model, &call);
    return st ? st : tpp_comm_all_gather(comm, own + (count - 1) * COLS, all, COLS, TPP_F32);
}

static tpp_status write_text(const tpp_layer *model, tpp_comm *comm, char part[3][1 << 17]) {
    int32_t ids[TEXT] = {3, 1, 4, 1, 5}, past = 0;
    float logits[VOCAB], again[VOCAB], off = 0;
    for (int32_t n = PROMPT; n < TEXT; n++) { /* first the prompt, then a token a call */
        tpp_status st = last_logits(model, comm, part, ids, past, n - past, 1, logits);
        if (st)
            return st;
        for (int32_t i = 0; i < VOCAB; i++) /* the likeliest */
            ids[n] = logits[i] > logits[ids[n]] ? i : ids[n];
        past = n;
    }
    tpp_status st = last_logits(model, comm, part, ids, 0, past, 0, again);
    for (int32_t i = 0; i < VOCAB && st == TPP_OK; i++)
        off = fmaxf(off, fabsf(logits[i] - again[i]));
    if (st == TPP_OK && tpp_comm_rank(comm) == 0) {
        for (int32_t i = 0; i < TEXT; i++)
            printf("%s%d", i == PROMPT ? " | " : " ", ids[i]);
        printf("\nwith and without a cache: %s\n", off < 1e-5F ? "the same" : "not the same");
    }
    return st;
}

static tpp_status rank_main(void *arg, int32_t rank, int32_t lane) {
    tpp_layer_env env = {.size = sizeof env, .comm = comms[lane]};
    tpp_model_desc desc = {.size = sizeof desc, .vocab = VOCAB, .hidden = HIDDEN};
    desc.heads = 4, desc.layers = 2, desc.positions = TEXT;
    tpp_model_part_desc whole = {.size = sizeof whole, .model = &desc, .count = 2};
    tpp_layer *model = NULL;
    tpp_status st = tpp_model_part_create(&model, &env, &whole);
    if (st == TPP_OK && (st = tpp_layer_init(model, memory[lane][0], 1)) == TPP_OK)
        st = write_text(model, comms[lane], memory[lane]);
    if (st < 0)
        tpp_comm_abort(comms[lane]);
    tpp_layer_destroy(model);
    return (void)arg, (void)rank, st;
}

int main(void) {
    tpp_executor *threads = NULL;
    tpp_status st = tpp_comm_local_create(comms, 2, NULL);
    if (st == TPP_OK && (st = tpp_executor_threads_create(&threads, 1, 2, NULL)) == TPP_OK)
        st = tpp_executor_each(threads, 1, 2, rank_main, NULL);
    if (st < 0)
        printf("%s: %s\n", tpp_status_name(st), tpp_message());
    tpp_executor_destroy(threads);
    tpp_comm_destroy(comms[0]);
    tpp_comm_destroy(comms[1]);
    return st < 0;
}
