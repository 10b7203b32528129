/* A block as in Llama 3, forward and backward, first on one rank and then on two that are threads of this
 * program: RMSNorm, SwiGLU, two query heads for each K/V head, rotary positions, no biases. Its ten
 * tokens are two sequences, of seven and of three. Fixed blocks give one rank and two the same bits. */
#include <stdio.h>
#include <string.h>
#include <tpp/tpp.h>

enum { TOKENS = 10, HIDDEN = 64, BYTES = 1 << 18 };
enum { PARAMS, GRADS, SAVED, SCRATCH, PARTS };
static const int32_t lengths[2] = {7, 3};

static float x[TOKENS * HIDDEN];                                  /* the same on all ranks */
static float y[2][TOKENS * HIDDEN], dx[2][TOKENS * HIDDEN];       /* of each rank */
static float y_alone[TOKENS * HIDDEN], dx_alone[TOKENS * HIDDEN]; /* of the run on one rank */
static _Alignas(64) char memory[2][PARTS][BYTES];
static tpp_comm *comms[2];

static tpp_status make_block(tpp_layer **out, const tpp_layer_env *env) {
    tpp_rope_desc rope = {.size = sizeof rope, .theta = 500000, .scaling = TPP_ROPE_LLAMA3};
    tpp_block_desc block = {.size = sizeof block, .hidden = HIDDEN, .ffn = 3 * HIDDEN};
    rope.factor = 8, rope.low_freq_factor = 1, rope.high_freq_factor = 4; /* as in Llama 3.1 */
    rope.original_positions = 8192;
    block.flags = TPP_BLOCK_NO_BIAS;
    block.norm = TPP_NORM_RMS, block.act = TPP_ACT_SWIGLU;
    block.heads = 4, block.kv_heads = 2, block.rope = &rope;
    return tpp_block_create(out, env, &block);
}

static tpp_status rank_main(void *arg, int32_t rank, int32_t lane) {
    char(*own)[BYTES] = memory[lane];
    tpp_layer *block = NULL;
    tpp_layer_env env = {.size = sizeof env, .comm = comms[lane], .blocks = 2};
    tpp_layer_info info = {.size = sizeof info};
    tpp_call call = {.size = sizeof call, .batch = 2, .seq = 7, .lengths = lengths};
    call.in = (tpp_mat){.data = x, .rows = TOKENS, .cols = HIDDEN, .dtype = TPP_F32};
    call.out = call.grad_out = call.grad_in = call.in;
    call.out.data = call.grad_out.data = y[lane]; /* the gradient of |y|^2 / 2 */
    call.grad_in.data = dx[lane];
    call.params = own[PARAMS], call.grads = own[GRADS];
    call.saved = own[SAVED], call.scratch = own[SCRATCH];
    call.saved_bytes = call.scratch_bytes = BYTES;
    memset(own[GRADS], 0, BYTES);
    tpp_status st = make_block(&block, &env);
    if (st == TPP_OK && (st = tpp_layer_query(block, 2, 7, &info)) == TPP_OK &&
        (st = tpp_layer_init(block, own[PARAMS], 1)) == TPP_OK &&
        (st = tpp_layer_forward(block, &call)) == TPP_OK && /* two all-reduces */
        (st = tpp_layer_backward(block, &call)) == TPP_OK)  /* two all-reduces */
        printf("rank %d: %lld bytes of parameters, %lld saved; y[0] = %.6f, dx[0] = %.6f\n", lane,
               (long long)info.state_bytes, (long long)info.saved_bytes, (double)y[lane][0],
               (double)dx[lane][0]);
    if (st < 0 && comms[lane])
        tpp_comm_abort(comms[lane]); /* so that the other rank does not wait */
    tpp_layer_destroy(block);
    return (void)arg, (void)rank, st;
}

/* On two threads. */
static tpp_status run_split(void) {
    tpp_executor *threads = NULL; /* 1 pipeline rank x 2 tensor-parallel lanes */
    tpp_status st = tpp_comm_local_create(comms, 2, NULL);
    if (st == TPP_OK && (st = tpp_executor_threads_create(&threads, 1, 2, NULL)) == TPP_OK)
        st = tpp_executor_each(threads, 1, 2, rank_main, NULL);
    tpp_executor_destroy(threads);
    tpp_comm_destroy(comms[0]);
    tpp_comm_destroy(comms[1]);
    return st;
}

int main(void) {
    for (int i = 0; i < TOKENS * HIDDEN; i++)
        x[i] = (float)(i * 37 % 101) / 101;
    tpp_status st = rank_main(NULL, 0, 0);
    memcpy(y_alone, y[0], sizeof y_alone);
    memcpy(dx_alone, dx[0], sizeof dx_alone);
    if (st == TPP_OK)
        st = run_split();
    if (st < 0) {
        printf("%s: %s\n", tpp_status_name(st), tpp_message());
        return 1;
    }
    int same = !memcmp(y_alone, y[1], sizeof y_alone) && !memcmp(dx_alone, dx[1], sizeof dx_alone);
    printf("one rank and two: %s bits\n", same ? "the same" : "other");
    return !same;
}
