/* One long sequence over two ranks that are threads of this program: each holds half of its tokens, K
 * and V go round, and attention sees them all. Forward and backward against the same on one rank. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tpp/tpp.h>

enum { TOKENS = 64, HIDDEN = 32, RANKS = 2, BYTES = 1 << 18 };
enum { PARAMS, GRADS, SAVED, SCRATCH, PARTS };

/* The whole sequence: what goes in, and what came out of one rank [0] and of two [1]. */
static float x[TOKENS * HIDDEN], y[2][TOKENS * HIDDEN], dx[2][TOKENS * HIDDEN];
static _Alignas(64) char memory[RANKS][PARTS][BYTES];
static float weight_grad[2];
static tpp_comm *comms[RANKS];

/* Between the rows of a rank and their places in the sequence. */
static void copy_rows(int32_t size, int32_t rank, float *rows, float *whole, int collect) {
    for (int64_t i = 0; i < TOKENS / size; i++) {
        float *place = whole + tpp_context_index(size, rank, TOKENS / size, i) * HIDDEN;
        memcpy(collect ? place : rows + i * HIDDEN, collect ? rows + i * HIDDEN : place,
               HIDDEN * sizeof(float));
    }
}

static tpp_status run(int32_t size, int32_t rank) {
    char(*own)[BYTES] = memory[rank];
    float in[TOKENS * HIDDEN], out[TOKENS * HIDDEN], grad[TOKENS * HIDDEN];
    tpp_layer_env env = {.size = sizeof env, .context = size > 1 ? comms[rank] : NULL};
    tpp_rope_desc rope = {.size = sizeof rope};
    tpp_attention_desc desc = {.size = sizeof desc, .hidden = HIDDEN, .heads = 4, .rope = &rope};
    tpp_call call = {.size = sizeof call, .batch = 1, .seq = TOKENS / size};
    call.in = (tpp_mat){.data = in, .rows = call.seq, .cols = HIDDEN, .dtype = TPP_F32};
    call.out = call.grad_out = call.grad_in = call.in;
    call.out.data = call.grad_out.data = out; /* the gradient of |y|^2 / 2 */
    call.grad_in.data = grad;
    call.params = own[PARAMS], call.grads = own[GRADS];
    call.saved = own[SAVED], call.scratch = own[SCRATCH];
    call.saved_bytes = call.scratch_bytes = BYTES;
    copy_rows(size, rank, in, x, 0);
    memset(own[GRADS], 0, BYTES);
    tpp_layer *attention = NULL;
    tpp_status st = tpp_attention_create(&attention, &env, &desc);
    if (st == TPP_OK && (st = tpp_layer_init(attention, own[PARAMS], 1)) == TPP_OK &&
        (st = tpp_layer_forward(attention, &call)) == TPP_OK &&  /* K and V: one message */
        (st = tpp_layer_backward(attention, &call)) == TPP_OK && /* and their gradients: three */
        (st = tpp_layer_sum_context(attention, own[GRADS])) == TPP_OK) { /* one all-reduce */
        copy_rows(size, rank, out, y[size > 1], 1);
        copy_rows(size, rank, grad, dx[size > 1], 1);
        weight_grad[size > 1] = *(float *)(void *)own[GRADS];
    }
    if (st < 0 && size > 1)
        tpp_comm_abort(comms[rank]); /* so that the other rank does not wait */
    tpp_layer_destroy(attention);
    return st;
}

static tpp_status rank_main(void *arg, int32_t rank, int32_t lane) {
    return (void)arg, (void)rank, run(RANKS, lane);
}

static double off(const float *a, const float *b) {
    double most = 0;
    for (int i = 0; i < TOKENS * HIDDEN; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

int main(void) {
    tpp_executor *threads = NULL;
    for (int i = 0; i < TOKENS * HIDDEN; i++)
        x[i] = (float)(i * 37 % 101) / 101 - 0.5f;
    tpp_status st = run(1, 0);
    if (st == TPP_OK && (st = tpp_comm_local_create(comms, RANKS, NULL)) == TPP_OK &&
        (st = tpp_executor_threads_create(&threads, 1, RANKS, NULL)) == TPP_OK)
        st = tpp_executor_each(threads, 1, RANKS, rank_main, NULL);
    if (st < 0)
        printf("%s: %s\n", tpp_status_name(st), tpp_message());
    for (int i = 0; i < RANKS; i++)
        tpp_comm_destroy(comms[i]);
    tpp_executor_destroy(threads);
    if (st < 0)
        return 1;
    printf("rank 0 holds tokens 0 .. 15 and 48 .. 63, rank 1 those between\n");
    printf("against one rank: y off by %.1e, dx by %.1e, a weight's gradient by %.1e\n",
           off(y[0], y[1]), off(dx[0], dx[1]), fabs((double)weight_grad[0] - weight_grad[1]));
    return off(y[0], y[1]) > 1e-6 || off(dx[0], dx[1]) > 1e-6;
}
