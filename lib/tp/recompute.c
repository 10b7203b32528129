/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/cost_impl.h"
#include "tp/part.h"
#include "tp/tied.h"

#include <tpp/recompute.h>

/* The only child's saved memory is scratch, in halves a part of split. */

static void *take_out(const tpp_layer *inner, int64_t tokens, tpp__arena *arena) {
    int64_t rows = inner->one_row ? 1 : tpp__out_room(inner, tokens);
    return inner->out_always
               ? tpp__arena_take(arena, rows * inner->out_cols, tpp__dtype_bytes(inner->out_dtype))
               : NULL;
}

static void needs_of(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs) {
    tpp__needs inner = tpp__layer_needs(layer->children[0], batch, seq);
    tpp__arena split = tpp__arena_counting(), scratch = split;
    tpp__arena_take(&split, inner.saved, 1);
    tpp__arena_take(&split, inner.split, 1);
    tpp__arena_take(&scratch, inner.saved, 1);
    take_out(layer->children[0], batch * seq, &scratch);
    tpp__arena_take(&scratch, inner.scratch, 1);
    needs->split = split.used;
    needs->scratch = scratch.used;
    needs->overflow = !tpp__arena_fits(&split) || !tpp__arena_fits(&scratch);
    tpp__needs_join(needs, &inner);
}

static void serve(const tpp_layer *layer, int64_t batch, int64_t seq, int64_t cache_seq,
                  tpp__serve *out) {
    *out = tpp__layer_serve(layer->children[0], batch, seq, cache_seq);
}

static tpp_status forward(const tpp_layer *layer, const tpp__work *work) {
    const tpp_layer *inner = layer->children[0];
    tpp__work own = *work;
    if (!work->out) /* to be computed again inside of another one: nothing of it is kept */
        return TPP_OK;
    if (!work->no_grad)
        own.saved =
            tpp__arena_take(&own.scratch, tpp__layer_needs(inner, work->batch, work->seq).saved, 1);
    return tpp__layer_forward(inner, &own);
}

static tpp_status compute_again(const tpp_layer *inner, const tpp__work *work) {
    tpp__work own = *work;
    own.out = take_out(inner, work->tokens, &own.scratch);
    return tpp__layer_forward(inner, &own);
}

static tpp_status backward(const tpp_layer *layer, const tpp__work *work, int32_t parts) {
    const tpp_layer *inner = layer->children[0];
    tpp__needs needs = tpp__layer_needs(inner, work->batch, work->seq);
    tpp__work own = *work;
    tpp__arena split = tpp__arena_over(work->split, INT64_MAX);
    if (parts == TPP__BOTH) {
        own.saved = tpp__arena_take(&own.scratch, needs.saved, 1);
    } else {
        own.saved = tpp__arena_take(&split, needs.saved, 1);
        own.split = tpp__arena_take(&split, needs.split, 1);
    }
    tpp_status status = parts & TPP__INPUT ? compute_again(inner, &own) : TPP_OK;
    return status == TPP_OK ? tpp__layer_backward(inner, &own, parts) : status;
}

static void cost(const tpp_layer *layer, int32_t parts, tpp__cost *c) {
    const tpp_layer *inner = layer->children[0];
    bool repeated = c->repeated;
    if (parts == TPP__AGAIN)
        return;
    if (parts & TPP__INPUT) {
        c->repeated = true;
        tpp__layer_cost(inner, TPP__AGAIN, c);
        c->repeated = repeated;
    }
    tpp__layer_cost(inner, parts, c);
}

static const tpp__layer_ops ops = {
    .needs = needs_of, .forward = forward, .backward = backward, .cost = cost, .serve = serve};

tpp_status tpp_recompute_create(tpp_layer **out, tpp_layer *inner) {
    char prefix[128];
    tpp_layer *layer;
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a layer pointer");
    *out = NULL;
    if (!inner)
        return tpp__fail(TPP_ERR_INVALID, "layer is NULL");
    tpp_layer_env env = tpp__layer_child_env(inner, "", prefix);
    tpp_status status = tpp__layer_new(&layer, &env, sizeof *layer, &ops, inner->param_count, 1);
    if (status != TPP_OK)
        return status;
    tpp__layer_adopt(layer, inner);
    tpp__layer_take_ends(layer, inner, inner);
    layer->out_always = false;
    return tpp__layer_hand_over(out, layer, tpp__tied_adopt(layer, inner));
}
