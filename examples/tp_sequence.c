/* Sequence parallelism: a transformer block on one rank, and on two ranks that are threads of this
 * program and hold three and two of the five tokens. Same numbers, bit for bit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tpp/tpp.h>

enum { TOKENS = 5, HIDDEN = 16, ALL = TOKENS * HIDDEN };

/* What one run works with; ranks write their own rows of y and dx. */
typedef struct run {
    tpp_comm *comms[2]; /* NULL: one rank */
    float x[ALL], y[ALL], dy[ALL], dx[ALL];
} run;

static tpp_status check(tpp_status status) {
    if (status < 0)
        fprintf(stderr, "%s: %s\n", tpp_status_name(status), tpp_message());
    return status;
}

/* Memory of a multiple of 64 bytes, zero. */
static void *zeros(int64_t bytes) {
    size_t size = ((size_t)bytes + 64) / 64 * 64;
    void *memory = aligned_alloc(64, size);
    return memory ? memset(memory, 0, size) : NULL;
}

static tpp_mat rows_of(float *full, int64_t first, int64_t count) {
    return (tpp_mat){
        .data = full + first * HIDDEN, .rows = count, .cols = HIDDEN, .dtype = TPP_F32};
}

/* One rank: forward and backward on its rows. */
static tpp_status rank_main(void *arg, int32_t rank, int32_t lane) {
    run *r = arg;
    tpp_layer_env env = {.size = sizeof env, .flags = TPP_ENV_SEQUENCE, .comm = r->comms[lane]};
    tpp_block_desc desc = {.size = sizeof desc, .hidden = HIDDEN, .heads = 4};
    tpp_layer_info info = {.size = sizeof info};
    tpp_layer *block = NULL;
    int64_t first = 0, count = 0;
    env.blocks = 2; /* the same bits on one rank and on two */
    tpp_status status = tpp_block_create(&block, &env, &desc);
    if (status == TPP_OK)
        status = tpp_layer_query(block, 1, TOKENS, &info);
    if (status == TPP_OK)
        status = tpp_layer_rows(block, TOKENS, &first, &count);
    tpp_call call = {.size = sizeof call, .batch = 1, .seq = TOKENS};
    call.in = rows_of(r->x, first, count), call.out = rows_of(r->y, first, count);
    call.grad_out = rows_of(r->dy, first, count), call.grad_in = rows_of(r->dx, first, count);
    void *params = zeros(info.state_bytes);
    call.params = params, call.grads = zeros(info.grad_bytes);
    call.saved = zeros(info.saved_bytes), call.saved_bytes = info.saved_bytes;
    call.scratch = zeros(info.scratch_bytes), call.scratch_bytes = info.scratch_bytes;
    if (status == TPP_OK)
        status = tpp_layer_init(block, params, 1);
    if (status == TPP_OK) /* two all-gathers, two reduce-scatters */
        status = tpp_layer_forward(block, &call);
    if (status == TPP_OK)
        status = tpp_layer_backward(block, &call);
    if (check(status) < 0)
        tpp_comm_abort(r->comms[lane]); /* so that the other rank does not wait */
    else
        printf("rank %d of %d: tokens %d .. %d, %d bytes saved\n", lane, r->comms[0] ? 2 : 1,
               (int)first, (int)(first + count) - 1, (int)info.saved_bytes);
    free(params), free(call.grads), free(call.saved), free(call.scratch);
    tpp_layer_destroy(block);
    return (void)rank, status;
}

int main(void) {
    static run one, two;
    tpp_executor *threads = NULL;
    for (int i = 0; i < ALL; i++) {
        one.x[i] = two.x[i] = (float)(i % 7) - 3;
        one.dy[i] = two.dy[i] = (float)(i % 5) - 2;
    }
    tpp_status status = rank_main(&one, 0, 0);
    if (status == TPP_OK && (status = check(tpp_comm_local_create(two.comms, 2, NULL))) == TPP_OK)
        status = check(tpp_executor_threads_create(&threads, 1, 2, NULL));
    if (status == TPP_OK)
        status = tpp_executor_each(threads, 1, 2, rank_main, &two);
    int same = !memcmp(one.y, two.y, sizeof one.y) && !memcmp(one.dx, two.dx, sizeof one.dx);
    printf("y[0] = %.6f, dx[0] = %.6f: %s\n", (double)two.y[0], (double)two.dx[0],
           same ? "the same bits on one rank and on two" : "not the same");
    tpp_executor_destroy(threads);
    tpp_comm_destroy(two.comms[0]);
    tpp_comm_destroy(two.comms[1]);
    return status < 0 || !same;
}
