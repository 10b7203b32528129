/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* What recomputation saves: bytes that a model of 12 blocks keeps for each micro-batch in flight, and the
 * scratch of a rank, without, with attention computed again, with everything: cc recompute_memory.c
 * $(pkg-config --cflags --libs tpp) */
#include <stdio.h>
#include <tpp/tpp.h>

enum { BLOCKS = 12, HIDDEN = 768, HEADS = 12, TOKENS = 1024 };

static tpp_status make_chain(tpp_layer **chain, tpp_recompute recompute) {
    tpp_layer_env env = {.size = sizeof env};
    tpp_block_desc desc = {.size = sizeof desc, .hidden = HIDDEN, .heads = HEADS};
    tpp_layer *blocks[BLOCKS];
    char name[16];
    desc.recompute = recompute; /* may differ from block to block */
    env.name = name;
    for (int i = 0; i < BLOCKS; i++) {
        snprintf(name, sizeof name, "h.%d.", i);
        tpp_status st = tpp_block_create(&blocks[i], &env, &desc);
        if (st < 0)
            return st;
    }
    return tpp_chain_create(chain, &env, blocks, BLOCKS);
}

int main(void) {
    static const char *const names[] = {"none", "selective", "full"};
    printf("recompute  saved per micro-batch  scratch\n");
    for (tpp_recompute r = TPP_RECOMPUTE_NONE; r <= TPP_RECOMPUTE_FULL; r++) {
        tpp_layer_info info = {.size = sizeof info};
        tpp_layer *chain = NULL;
        tpp_status st = make_chain(&chain, r);
        if (st == TPP_OK)
            st = tpp_layer_query(chain, 1, TOKENS, &info);
        if (st < 0) {
            printf("%s: %s\n", tpp_status_name(st), tpp_message());
            return 1;
        }
        printf("%-10s %17.1f MiB  %.1f MiB\n", names[r], (double)info.saved_bytes / 1048576,
               (double)info.scratch_bytes / 1048576);
        tpp_layer_destroy(chain);
    }
    return 0;
}
