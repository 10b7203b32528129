/* Learns which letter follows another, on two ranks that are threads of this program. The vocabulary of
 * 27 is split over them (and padded to 28); one table serves the embedding and the output head; the head
 * is fused with the loss, so that the logits of four letters at a time are all that is held. */
#include <stdio.h>
#include <string.h>
#include <tpp/tpp.h>

enum { VOCAB = 27, HIDDEN = 16, STEPS = 150, BYTES = 1 << 16 };
enum { PARAMS, GRADS, MOMENTS, SAVED, SCRATCH, PARTS };
static const char text[] = "the quick brown fox jumps over the lazy dog ";
enum { TOKENS = sizeof text - 2 }; /* each letter but the last has one behind it */

static int32_t letters[TOKENS + 1];
static _Alignas(64) char memory[2][PARTS][BYTES]; /* of each rank */
static tpp_comm *comms[2];

/* Embedding, MLP, norm, head. On success all belong to the model. */
static tpp_status make_model(tpp_layer **out, const tpp_layer_env *env) {
    tpp_layer *layers[4] = {NULL};
    tpp_embedding_desc embedding = {.size = sizeof embedding, .vocab = VOCAB, .hidden = HIDDEN};
    tpp_mlp_desc mlp = {.size = sizeof mlp, .hidden = HIDDEN};
    tpp_norm_desc norm = {.size = sizeof norm, .cols = HIDDEN};
    tpp_loss_desc loss = {.size = sizeof loss, .vocab = VOCAB, .reduction = TPP_LOSS_MEAN};
    tpp_head_desc head = {.size = sizeof head, .hidden = HIDDEN, .vocab = VOCAB};
    embedding.init_std = mlp.init_std = 0.3;
    loss.flags = TPP_LOSS_IGNORE, loss.ignore = -100; /* what follows a blank is not asked */
    head.loss = &loss, head.block = 4;
    tpp_status st = tpp_embedding_create(&layers[0], env, &embedding);
    head.tied = layers[0];
    if (st == TPP_OK && (st = tpp_mlp_create(&layers[1], env, &mlp)) == TPP_OK &&
        (st = tpp_norm_create(&layers[2], env, &norm)) == TPP_OK &&
        (st = tpp_head_create(&layers[3], env, &head)) == TPP_OK)
        st = tpp_chain_create(out, env, layers, 4);
    for (int i = 0; i < 4 && st < 0; i++)
        tpp_layer_destroy(layers[i]);
    return st;
}

static tpp_status rank_main(void *arg, int32_t rank, int32_t lane) {
    char(*own)[BYTES] = memory[lane];
    float loss = 0, one = 1;
    int32_t targets[TOKENS];
    tpp_layer *model = NULL;
    tpp_layer_env env = {.size = sizeof env, .comm = comms[lane]};
    tpp_adamw_desc step = {.size = sizeof step, .rate = 0.02};
    tpp_call call = {.size = sizeof call, .batch = 1, .seq = TOKENS, .targets = targets};
    call.in = (tpp_mat){.data = letters, .rows = TOKENS, .cols = 1, .dtype = TPP_I32};
    call.out = (tpp_mat){.data = &loss, .rows = 1, .cols = 1, .dtype = TPP_F32};
    call.grad_out = call.out, call.grad_out.data = &one;
    call.params = own[PARAMS], call.grads = own[GRADS];
    call.saved = own[SAVED], call.scratch = own[SCRATCH];
    call.saved_bytes = call.scratch_bytes = BYTES;
    for (int i = 0; i < TOKENS; i++)
        targets[i] = letters[i] ? letters[i + 1] : -100;
    tpp_status st = make_model(&model, &env);
    if (st == TPP_OK)
        st = tpp_layer_init(model, own[PARAMS], 1);
    while (st == TPP_OK && ++step.step <= STEPS) {
        memset(own[GRADS], 0, BYTES);
        if ((st = tpp_layer_forward(model, &call)) == TPP_OK &&
            (st = tpp_layer_backward(model, &call)) == TPP_OK)
            st = tpp_layer_adamw(model, &step, own[PARAMS], own[GRADS], own[MOMENTS]);
        if (st == TPP_OK && lane == 0 && (step.step == 1 || step.step == STEPS))
            printf("step %3d: loss %.3f\n", (int)step.step, (double)loss);
    }
    if (st < 0)
        tpp_comm_abort(comms[lane]); /* so that the other rank does not wait */
    tpp_layer_destroy(model);
    return (void)arg, (void)rank, st;
}

int main(void) {
    tpp_executor *threads = NULL; /* 1 pipeline rank x 2 tensor-parallel lanes */
    for (int i = 0; i <= TOKENS; i++)
        letters[i] = text[i] == ' ' ? 0 : text[i] - 'a' + 1;
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
