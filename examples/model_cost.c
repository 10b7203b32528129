/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Does a model fit, and what would wait for messages? Memory of a rank and ratios of communication
 * to computing, for 64 ranks as 8 tensor-parallel x 4 pipeline x 2 data-parallel, from the model's
 * numbers alone: cc model_cost.c $(pkg-config --cflags --libs tpp) -o model_cost && ./model_cost
 * llama2-70b */
#include <stdio.h>
#include <tpp/tpp.h>

enum {
    TP = 8,
    PP = 4,
    DP = 2,
    SEQ = 4096,
    IN_FLIGHT = PP
}; /* 1F1B: the first stage holds PP micro-batches */

static int failed(tpp_status st) {
    if (st < 0)
        printf("%s: %s\n", tpp_status_name(st), tpp_message());
    return st < 0;
}

static int print_model(const tpp_cost_model *m) {
    tpp_cost_params p = {.size = sizeof p};
    tpp_cost_flops f = {.size = sizeof f};
    if (failed(tpp_cost_params_query(m, &p)) ||
        failed(tpp_cost_flops_query(m, 1, SEQ, TPP_COST_MASK_HALF, &f)))
        return 1;
    printf("%lld parameters, %lld of them used for a token\n", (long long)p.total,
           (long long)p.active);
    printf("%.1f TFLOP to train on a sequence of %d tokens, %.0f %% of them for attention's "
           "scores\n\n",
           3e-12 * (double)f.forward, SEQ, 100 * (double)f.cores / (double)f.forward);
    return 0;
}

/* GB of a rank of the first stage. */
static int print_memory(const tpp_cost_model *m, int32_t zero, tpp_recompute recompute) {
    tpp_cost_part part = {.size = sizeof part, .flags = TPP_COST_PART_EMBEDDING, .tp = TP};
    tpp_cost_shape shape = {.size = sizeof shape, .batch = 1, .seq = SEQ, .tp = TP};
    tpp_cost_states s = {.size = sizeof s};
    tpp_cost_activations a = {.size = sizeof a};
    part.layers = m->layers / PP;
    part.dense_layers = m->dense_layers < part.layers ? m->dense_layers : part.layers;
    shape.flags = TPP_COST_SEQUENCE | TPP_COST_NO_DROPOUT;
    shape.recompute = recompute;
    if (failed(tpp_cost_states_query(m, &part, NULL, DP, zero, &s)) ||
        failed(tpp_cost_activations_query(m, &shape, &a)))
        return 1;
    int32_t plain = m->experts > 0 ? part.dense_layers : part.layers; /* the others have experts */
    int64_t layers = plain * a.layer + (part.layers - plain) * a.moe_layer;
    double kept = (double)(IN_FLIGHT * (layers + a.embedding) + a.work);
    printf("%4d  %-9s  %7.1f  %9.1f  %9.1f  %11.1f  %9.1f\n", zero, recompute ? "full" : "none",
           (double)s.weights / 1e9, (double)s.grads / 1e9, (double)s.optimizer / 1e9, kept / 1e9,
           ((double)s.total + kept) / 1e9);
    return 0;
}

/* Of H100s: 989 TFLOP/s in bfloat16, to other ranks 450 GB/s in a node and 50 between nodes. */
static void print_ratios(const tpp_cost_model *m) {
    const double flops = 989e12, near = 450e9, far = 50e9;
    printf("\nseconds of messages for each second of computing   in a node  between nodes\n");
    printf("tensor parallel, forward                           %9.3f  %13.3f\n",
           tpp_cost_ratio_tp(m, SEQ, TP, flops, near), tpp_cost_ratio_tp(m, SEQ, TP, flops, far));
    printf("pipeline, forward                                  %9.3f  %13.3f\n",
           tpp_cost_ratio_pp(m, SEQ, 1, PP, flops, near),
           tpp_cost_ratio_pp(m, SEQ, 1, PP, flops, far));
    printf("data parallel, backward of 128 micro-batches       %9.3f  %13.3f\n",
           tpp_cost_ratio_dp(128 * SEQ, DP, flops, near),
           tpp_cost_ratio_dp(128 * SEQ, DP, flops, far));
}

int main(int argc, char **argv) {
    tpp_cost_model m = {.size = sizeof m};
    if (failed(tpp_cost_model_preset(&m, argc > 1 ? argv[1] : "llama2-70b")) || print_model(&m))
        return 1;
    printf("ZeRO  recompute  weights  gradients  optimizer  activations  GB in all\n");
    for (int32_t zero = 0; zero <= 1; zero++) {
        for (tpp_recompute r = TPP_RECOMPUTE_NONE; r <= TPP_RECOMPUTE_FULL; r += 2) {
            if (print_memory(&m, zero, r))
                return 1;
        }
    }
    print_ratios(&m);
    return 0;
}
