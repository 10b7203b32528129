/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* The parameters of an MLP on two ranks go to four, without the full tensors: cc reshard_mlp.c
 * $(pkg-config --cflags --libs tpp). What arrives is what tpp_layer_init gives on four at once. */
#include <stdio.h>
#include <string.h>
#include <tpp/tpp.h>

enum { OLD = 2, NEW = 4, BYTES = 16384 };

static _Alignas(64) char old_params[OLD][BYTES], new_params[NEW][BYTES], expected[BYTES];

/* The MLP on each of `ranks` ranks; no rank has to run for that. */
static tpp_status make(tpp_layer **layers, tpp_comm **comms, int32_t ranks) {
    tpp_mlp_desc desc = {.size = sizeof desc, .hidden = 16, .act = TPP_ACT_SWIGLU};
    tpp_status st = tpp_comm_local_create(comms, ranks, NULL);
    for (int32_t r = 0; r < ranks && st == TPP_OK; r++) {
        tpp_layer_env env = {.size = sizeof env, .comm = comms[r]};
        st = tpp_mlp_create(&layers[r], &env, &desc);
    }
    return st;
}

/* Parameter `index` of a new rank, from all old ones that hold a part of it. */
static tpp_status move(tpp_layer *const *from, const tpp_layer *to, char *params, int32_t index) {
    tpp_param_info theirs = {.size = sizeof theirs}, mine = theirs;
    tpp_status st = tpp_layer_param(to, index, &mine);
    for (int32_t r = 0; r < OLD && st == TPP_OK; r++) {
        st = tpp_layer_param(from[r], index, &theirs);
        if (st == TPP_OK)
            st = tpp_shard_reshard(&theirs.shard, old_params[r] + theirs.offset, &mine.shard,
                                   params + mine.offset, TPP_F32);
    }
    return st;
}

int main(void) {
    tpp_layer *from[OLD] = {NULL}, *to[NEW] = {NULL};
    tpp_comm *old_comms[OLD] = {NULL}, *new_comms[NEW] = {NULL};
    tpp_layer_info info = {.size = sizeof info};
    tpp_status st = make(from, old_comms, OLD);
    if (st == TPP_OK)
        st = make(to, new_comms, NEW);
    for (int32_t r = 0; r < OLD && st == TPP_OK; r++)
        st = tpp_layer_init(from[r], old_params[r], 1);
    for (int32_t r = 0; r < NEW && st == TPP_OK; r++) {
        st = tpp_layer_query(to[r], 1, 1, &info);
        for (int32_t i = 0; i < info.params && st == TPP_OK; i++)
            st = move(from, to[r], new_params[r], i);
        if (st == TPP_OK && (st = tpp_layer_init(to[r], expected, 1)) == TPP_OK)
            printf("rank %d of %d: %lld bytes, %s\n", r, NEW, (long long)info.state_bytes,
                   memcmp(expected, new_params[r], (size_t)info.state_bytes) ? "WRONG" : "right");
    }
    if (st < 0)
        printf("%s: %s\n", tpp_status_name(st), tpp_message());
    for (int32_t r = 0; r < NEW; r++) {
        tpp_layer_destroy(to[r]);
        tpp_comm_destroy(new_comms[r]);
    }
    for (int32_t r = 0; r < OLD; r++) {
        tpp_layer_destroy(from[r]);
        tpp_comm_destroy(old_comms[r]);
    }
    return st < 0;
}
