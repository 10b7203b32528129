/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/cost_impl.h"
#include "tp/part.h"
#include "tp/tied.h"

/* Layers one after the other. What flows between layer i and i + 1 is `flow` i. Its value is saved
 * by forward. Its gradient is kept in `split` for the halves; a whole backward needs only the last
 * two, which alternate in scratch. */

static int64_t flow_elements(const tpp_layer *chain, int32_t i, int64_t tokens) {
    return tpp__out_room(chain->children[i], tokens) * chain->children[i]->out_cols;
}

/* Flow 0 .. count - 2, then each layer's own part. */
static void *take_flow(const tpp_layer *chain, int32_t wanted, int64_t tokens, tpp__arena memory) {
    void *flow = NULL;
    for (int32_t i = 0; i <= wanted; i++)
        flow = tpp__arena_take(&memory, flow_elements(chain, i, tokens), chain->width);
    return flow;
}

static void skip_flows(const tpp_layer *chain, int64_t tokens, tpp__arena *memory) {
    for (int32_t i = 0; i < chain->child_count - 1; i++)
        tpp__arena_take(memory, flow_elements(chain, i, tokens), chain->width);
}

static int64_t largest_flow(const tpp_layer *chain, int64_t tokens) {
    int64_t largest = 0;
    for (int32_t i = 0; i < chain->child_count - 1; i++) {
        int64_t elements = flow_elements(chain, i, tokens);
        largest = elements > largest ? elements : largest;
    }
    return largest;
}

static void needs_of(const tpp_layer *chain, int64_t batch, int64_t seq, tpp__needs *needs) {
    tpp__arena saved = tpp__arena_counting();
    skip_flows(chain, batch * seq, &saved);
    tpp__arena split = saved;
    tpp__arena scratch = tpp__arena_counting();
    tpp__arena_take(&scratch, largest_flow(chain, batch * seq), chain->width);
    tpp__arena_take(&scratch, largest_flow(chain, batch * seq), chain->width);
    int64_t most = 0;
    for (int32_t i = 0; i < chain->child_count; i++) {
        tpp__needs child = tpp__layer_needs(chain->children[i], batch, seq);
        tpp__arena_take(&saved, child.saved, 1);
        tpp__arena_take(&split, child.split, 1);
        most = child.scratch > most ? child.scratch : most;
        tpp__needs_join(needs, &child);
    }
    tpp__arena_take(&scratch, most, 1);
    needs->saved = saved.used;
    needs->split = split.used;
    needs->scratch = scratch.used;
    needs->overflow |=
        !tpp__arena_fits(&saved) || !tpp__arena_fits(&split) || !tpp__arena_fits(&scratch);
}

/* The work of layer i, without matrices of gradients. */
static tpp__work child_work(const tpp_layer *chain, const tpp__work *work, int32_t i) {
    tpp__work child = *work;
    tpp__arena memory = tpp__arena_over(work->saved, INT64_MAX);
    if (i > 0)
        child.in = take_flow(chain, i - 1, work->tokens, memory);
    if (i < chain->child_count - 1)
        child.out = take_flow(chain, i, work->tokens, memory);
    tpp__arena splits = tpp__arena_over(work->split, INT64_MAX);
    skip_flows(chain, work->tokens, &memory);
    skip_flows(chain, work->tokens, &splits);
    for (int32_t j = 0; j <= i; j++) {
        tpp__needs needs = tpp__layer_needs(chain->children[j], work->batch, work->seq);
        child.saved = tpp__arena_take(&memory, needs.saved, 1);
        child.split = tpp__arena_take(&splits, needs.split, 1);
    }
    child.params = work->params + chain->child_state[i];
    child.grads = work->grads ? work->grads + chain->child_grads[i] : NULL;
    tpp__tied_point(chain, chain->children[i], work, &child);
    return child;
}

static void serve(const tpp_layer *chain, int64_t batch, int64_t seq, int64_t cache_seq,
                  tpp__serve *out) {
    tpp__arena scratch = tpp__arena_counting();
    tpp__arena_take(&scratch, largest_flow(chain, batch * seq), chain->width);
    tpp__arena_take(&scratch, largest_flow(chain, batch * seq), chain->width);
    for (int32_t i = 0; i < chain->child_count; i++) {
        tpp__serve child = tpp__layer_serve(chain->children[i], batch, seq, cache_seq);
        tpp__serve_join(out, &child);
    }
    tpp__arena_take(&scratch, out->scratch, 1);
    out->scratch = scratch.used;
    out->overflow |= !tpp__arena_fits(&scratch);
}

/* Without backward: two flows alternate, and each layer has its own part of the cache. */
static tpp_status forward_only(const tpp_layer *chain, const tpp__work *work) {
    tpp__work child = *work;
    tpp__arena cache = tpp__arena_over(work->cache, INT64_MAX);
    tpp_status status = TPP_OK;
    void *pair[2];
    for (int32_t i = 0; i < 2; i++)
        pair[i] = tpp__arena_take(&child.scratch, largest_flow(chain, work->tokens), chain->width);
    for (int32_t i = 0; i < chain->child_count && status == TPP_OK; i++) {
        const tpp_layer *layer = chain->children[i];
        tpp__serve own = tpp__layer_serve(layer, work->batch, work->seq, work->cache_seq);
        child.in = i > 0 ? pair[(i - 1) % 2] : work->in;
        child.out = i < chain->child_count - 1 ? pair[i % 2] : work->out;
        child.params = work->params + chain->child_state[i];
        child.cache = tpp__arena_take(&cache, own.cache, 1);
        child.tied_params = work->tied_params;
        tpp__tied_point(chain, layer, work, &child);
        status = tpp__layer_forward(layer, &child);
    }
    return status;
}

static tpp_status forward(const tpp_layer *chain, const tpp__work *work) {
    tpp_status status = TPP_OK;
    if (work->no_grad)
        return forward_only(chain, work);
    for (int32_t i = 0; i < chain->child_count && status == TPP_OK; i++) {
        tpp__work child = child_work(chain, work, i);
        status = tpp__layer_forward(chain->children[i], &child);
    }
    return status;
}

/* Gradient of flow i. */
static void *flow_grad(const tpp_layer *chain, const tpp__work *work, int32_t i, int32_t parts,
                       void *const pair[2]) {
    if (parts == TPP__BOTH)
        return pair[i % 2];
    return take_flow(chain, i, work->tokens, tpp__arena_over(work->split, INT64_MAX));
}

static tpp_status backward(const tpp_layer *chain, const tpp__work *work, int32_t parts) {
    tpp__arena scratch = work->scratch;
    void *pair[2];
    for (int32_t i = 0; i < 2; i++)
        pair[i] = tpp__arena_take(&scratch, largest_flow(chain, work->tokens), chain->width);
    tpp_status status = TPP_OK;
    for (int32_t i = chain->child_count - 1; i >= 0 && status == TPP_OK; i--) {
        tpp__work child = child_work(chain, work, i);
        child.scratch = scratch;
        if (i < chain->child_count - 1)
            child.grad_out = flow_grad(chain, work, i, parts, pair);
        if (i > 0)
            child.grad_in = flow_grad(chain, work, i - 1, parts, pair);
        status = tpp__layer_backward(chain->children[i], &child, parts);
    }
    return status;
}

static const char *rows_text(bool part) {
    return part ? "this rank's rows alone" : "the rows of all tokens";
}

/* Done again, only the last layer's output is not needed. */
static void cost(const tpp_layer *chain, int32_t parts, tpp__cost *c) {
    for (int32_t i = 0; i < chain->child_count; i++) {
        bool inner = parts == TPP__AGAIN && i < chain->child_count - 1;
        tpp__layer_cost(chain->children[i], inner ? TPP__FORWARD : parts, c);
    }
}

static tpp_status check_fit(const tpp_layer *chain, tpp_layer *const *layers, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        const tpp_layer *layer = layers[i];
        if (!layer)
            return tpp__fail(TPP_ERR_INVALID, "layers[%d] is NULL", i);
        if (layer->comm != chain->comm || layer->context != chain->context ||
            layer->dtype != chain->dtype || layer->blocks != chain->blocks ||
            layer->sequence != chain->sequence)
            return tpp__fail(TPP_ERR_INVALID,
                             "layers[%d] was made with another comm, context, dtype, blocks or "
                             "TPP_ENV_SEQUENCE than env",
                             i);
        for (int32_t j = 0; j < i; j++) {
            if (layers[j] == layer)
                return tpp__fail(TPP_ERR_INVALID,
                                 "layers[%d] is layers[%d]; a chain owns each of its layers once",
                                 i, j);
        }
        if (i == 0)
            continue;
        if (layer->in_cols != layers[i - 1]->out_cols ||
            layer->in_dtype != layers[i - 1]->out_dtype)
            return tpp__fail(
                TPP_ERR_INVALID,
                "layers[%d] takes %lld columns of %s, but layers[%d] gives %lld columns of %s", i,
                (long long)layer->in_cols, tpp__dtype_name(layer->in_dtype), i - 1,
                (long long)layers[i - 1]->out_cols, tpp__dtype_name(layers[i - 1]->out_dtype));
        if (layer->in_part != layers[i - 1]->out_part)
            return tpp__fail(TPP_ERR_INVALID,
                             "layers[%d] takes %s, but layers[%d] gives %s (TPP_ENV_SEQUENCE)", i,
                             rows_text(layer->in_part), i - 1, rows_text(layers[i - 1]->out_part));
        if (layers[i - 1]->targets)
            return tpp__fail(TPP_ERR_INVALID,
                             "layers[%d] is a loss; only the last layer of a chain can be one",
                             i - 1);
    }
    return TPP_OK;
}

static const tpp__layer_ops ops = {
    .needs = needs_of, .forward = forward, .backward = backward, .cost = cost, .serve = serve};

static int32_t count_params(tpp_layer *const *layers, int32_t count) {
    int32_t params = 0;
    for (int32_t i = 0; i < count; i++)
        params += layers[i] ? layers[i]->param_count : 0;
    return params;
}

tpp_status tpp_chain_create(tpp_layer **out, const tpp_layer_env *env, tpp_layer *const *layers,
                            int32_t count) {
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a layer pointer");
    *out = NULL;
    if (!layers || count < 1)
        return tpp__fail(TPP_ERR_INVALID,
                         "count = %d with layers %s; a chain needs one layer or more", count,
                         layers ? "given" : "NULL");
    tpp_layer *chain;
    tpp_status status =
        tpp__layer_new(&chain, env, sizeof *chain, &ops, count_params(layers, count), count);
    if (status != TPP_OK)
        return status;
    status = check_fit(chain, layers, count);
    for (int32_t i = 0; i < count && status == TPP_OK; i++)
        tpp__layer_adopt(chain, layers[i]);
    for (int32_t i = 0; i < count && status == TPP_OK; i++)
        status = tpp__tied_adopt(chain, layers[i]);
    if (status == TPP_OK)
        tpp__layer_take_ends(chain, layers[0], layers[count - 1]);
    if (status != TPP_OK || chain->state_overflow)
        chain->child_count = 0; /* they stay the caller's */
    return tpp__layer_hand_over(out, chain, status);
}
