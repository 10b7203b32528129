/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* A tensor-parallel MLP, forward and backward, on two ranks that are threads of this program. */
#include <stdio.h>
#include <tpp/tpp.h>

static _Alignas(64) char memory[2][4][8192]; /* of each rank: params, grads, saved, scratch */
static tpp_comm *comms[2];

static tpp_status rank_main(void *arg, int32_t rank, int32_t lane) {
    float x[4 * 8] = {1, 2, 3, 4}, y[4 * 8], dx[4 * 8];
    tpp_mat of_x = {.data = x, .rows = 4, .cols = 8, .dtype = TPP_F32}, of_y = of_x, of_dx = of_x;
    of_y.data = y, of_dx.data = dx;
    tpp_layer_env env = {.size = sizeof env, .comm = comms[lane]};
    tpp_mlp_desc desc = {.size = sizeof desc, .hidden = 8}; /* 8 -> 32 -> 8, GeLU */
    tpp_call call = {.size = sizeof call, .batch = 1, .seq = 4, .in = of_x, .out = of_y};
    call.grad_out = of_y, call.grad_in = of_dx;
    call.params = memory[lane][0], call.grads = memory[lane][1];
    call.saved = memory[lane][2], call.scratch = memory[lane][3];
    call.saved_bytes = call.scratch_bytes = sizeof memory[lane][2];
    tpp_layer *mlp = NULL;
    tpp_status st = tpp_mlp_create(&mlp, &env, &desc);
    if (st == TPP_OK && (st = tpp_layer_init(mlp, memory[lane][0], 1)) == TPP_OK &&
        (st = tpp_layer_forward(mlp, &call)) == TPP_OK) /* one all-reduce: y */
        st = tpp_layer_backward(mlp, &call);            /* one all-reduce: dx */
    if (st < 0)
        tpp_comm_abort(comms[lane]); /* so that the other rank does not wait */
    printf("rank %d of 2: y[0] = %.6f, dx[0] = %.7f\n", lane, (double)y[0], (double)dx[0]);
    tpp_layer_destroy(mlp);
    return (void)arg, (void)rank, st;
}

int main(void) {
    tpp_executor *threads = NULL; /* 1 pipeline rank x 2 tensor-parallel lanes */
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
