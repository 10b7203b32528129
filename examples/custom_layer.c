/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* A layer of callbacks, y = x * scale with a learned scale per column, in a chain behind a built-in
 * norm, trained to give zeros: cc custom_layer.c $(pkg-config --cflags --libs tpp) */
#include <stdio.h>
#include <tpp/tpp.h>

enum { TOKENS = 4, COLS = 8 };

static tpp_status scale_query(void *ctx, const tpp_custom_call *c, tpp_custom_needs *out) {
    /* backward_input leaves dy for backward_weight, which may come much later */
    out->split_bytes = c->call->batch * c->call->seq * COLS * (int64_t)sizeof(float);
    return (void)ctx, TPP_OK;
}

static tpp_status scale_forward(void *ctx, const tpp_custom_call *c) {
    const float *x = c->call->in.data, *scale = c->call->params;
    float *y = c->call->out.data;
    for (int64_t i = 0; i < c->call->in.rows * COLS; i++)
        y[i] = x[i] * scale[i % COLS];
    return (void)ctx, TPP_OK;
}

static tpp_status scale_backward_input(void *ctx, const tpp_custom_call *c) {
    const float *dy = c->call->grad_out.data, *scale = c->call->params;
    float *dx = c->call->grad_in.data, *kept = c->split;
    for (int64_t i = 0; i < c->call->in.rows * COLS; i++) {
        dx[i] = dy[i] * scale[i % COLS];
        kept[i] = dy[i];
    }
    return (void)ctx, TPP_OK;
}

static tpp_status scale_backward_weight(void *ctx, const tpp_custom_call *c) {
    const float *x = c->call->in.data, *dy = c->split;
    float *grad = c->call->grads;
    for (int64_t i = 0; i < c->call->in.rows * COLS; i++)
        grad[i % COLS] += dy[i] * x[i]; /* gradients accumulate */
    return (void)ctx, TPP_OK;
}

static tpp_status make(tpp_layer **chain, const tpp_layer_env *base) {
    static const tpp_custom_ops ops = {.size = sizeof ops,
                                       .query = scale_query,
                                       .forward = scale_forward,
                                       .backward_input = scale_backward_input,
                                       .backward_weight = scale_backward_weight};
    tpp_custom_param scale = {.size = sizeof scale, .name = "scale", .rows = 1, .cols = COLS};
    scale.init = TPP_INIT_ONE;
    tpp_custom_desc desc = {.size = sizeof desc, .ops = &ops, .in_cols = COLS, .out_cols = COLS};
    desc.params = &scale;
    desc.param_count = 1;
    tpp_norm_desc norm = {.size = sizeof norm, .cols = COLS};
    tpp_layer_env env = *base;
    tpp_layer *layers[2] = {NULL, NULL};
    env.name = "norm.";
    tpp_status st = tpp_norm_create(&layers[0], &env, &norm);
    env.name = "scale.";
    if (st == TPP_OK && (st = tpp_custom_create(&layers[1], &env, &desc)) == TPP_OK)
        st = tpp_chain_create(chain, &env, layers, 2); /* owns both from now on */
    return st;
}

int main(void) {
    static _Alignas(64) char params[1024], grads[1024], saved[1024], scratch[1024], moments[2048];
    float x[TOKENS * COLS], y[TOKENS * COLS], dx[TOKENS * COLS];
    tpp_mat of_x = {.data = x, .rows = TOKENS, .cols = COLS, .dtype = TPP_F32};
    tpp_mat of_y = of_x, of_dx = of_x;
    of_y.data = y, of_dx.data = dx;
    for (int i = 0; i < TOKENS * COLS; i++)
        x[i] = (float)(i * 7 % 11);
    tpp_layer_env env = {.size = sizeof env};
    tpp_call call = {.size = sizeof call, .batch = 1, .seq = TOKENS, .in = of_x, .out = of_y};
    call.grad_out = of_y, call.grad_in = of_dx; /* of sum(y^2) / 2: y itself */
    call.params = params, call.grads = grads, call.saved = saved, call.scratch = scratch;
    call.saved_bytes = sizeof saved, call.scratch_bytes = sizeof scratch;
    tpp_adamw_desc adamw = {.size = sizeof adamw, .rate = 0.1};
    tpp_layer *model = NULL;
    tpp_status st = make(&model, &env);
    if (st == TPP_OK)
        st = tpp_layer_init(model, params, 1);
    for (adamw.step = 1; adamw.step <= 5 && st == TPP_OK; adamw.step++) {
        for (size_t i = 0; i < sizeof grads; i++)
            grads[i] = 0;
        if ((st = tpp_layer_forward(model, &call)) == TPP_OK &&
            (st = tpp_layer_backward(model, &call)) == TPP_OK)
            st = tpp_layer_adamw(model, &adamw, params, grads, moments);
        printf("step %d: y[0] = %.4f\n", (int)adamw.step, (double)y[0]);
    }
    if (st < 0)
        printf("%s: %s\n", tpp_status_name(st), tpp_message());
    tpp_layer_destroy(model);
    return st < 0;
}
