/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/tied.h"

#include <string.h>
#include <tpp/head.h>

bool tpp__tied_find(const tpp_layer *layer, const tpp_layer *wanted, tpp__tied_place *out) {
    if (layer == wanted)
        return true;
    for (int32_t i = 0; i < layer->child_count; i++) {
        tpp__tied_place inside = {0};
        if (tpp__tied_find(layer->children[i], wanted, &inside)) {
            out->state += layer->child_state[i] + inside.state;
            out->grads += layer->child_grads[i] + inside.grads;
            return true;
        }
    }
    return false;
}

tpp_status tpp__tied_adopt(tpp_layer *chain, const tpp_layer *child) {
    tpp__tied_place place = {0};
    if (!child->tied || tpp__tied_find(chain, child->tied, &place))
        return TPP_OK;
    if (chain->tied && chain->tied != child->tied)
        return tpp__fail(TPP_ERR_INVALID,
                         "two heads of this chain are tied to different embeddings outside of it; "
                         "put one of these into the chain");
    chain->tied = child->tied;
    return TPP_OK;
}

void tpp__tied_point(const tpp_layer *chain, const tpp_layer *child, const tpp__work *work,
                     tpp__work *child_work) {
    tpp__tied_place place = {0};
    if (!child->tied || !tpp__tied_find(chain, child->tied, &place))
        return; /* nothing, or as the caller of the chain has it */
    child_work->tied_params = work->params + place.state;
    child_work->tied_grads = work->grads ? work->grads + place.grads : NULL;
}

static int64_t elements_of(const tpp__param *param) {
    return tpp_shard_rows(&param->shard) * tpp_shard_cols(&param->shard);
}

int64_t tpp__tied_bytes(const tpp_layer *layer) {
    tpp__arena arena = tpp__arena_counting();
    for (int32_t i = 0; i < layer->param_count; i++)
        if (layer->params[i].flags & TPP_PARAM_TIED)
            tpp__arena_take(&arena, elements_of(&layer->params[i]), layer->wide_width);
    return tpp__arena_fits(&arena) ? arena.used : INT64_MAX;
}

/* The arguments of tpp_layer_sum_tied. */
typedef struct ties {
    const tpp_layer *const *layers;
    void *const *grads;
    int32_t count;
} ties;

/* Copy number *at or a later one of the parameter `name`; NULL: no more. Counts over all parameters
 * of all layers. */
static const tpp__param *next_copy(const ties *t, const char *name, int32_t *at, int32_t *layer) {
    int32_t before = 0;
    for (int32_t l = 0; l < t->count; before += t->layers[l++]->param_count)
        for (int32_t i = *at > before ? *at - before : 0; i < t->layers[l]->param_count; i++) {
            const tpp__param *param = &t->layers[l]->params[i];
            if (param->flags & TPP_PARAM_TIED && strcmp(param->name, name) == 0) {
                *at = before + i + 1;
                *layer = l;
                return param;
            }
        }
    return NULL;
}

/* The first name behind `last` in alphabetical order: the same order on every rank. */
static const char *next_name(const ties *t, const char *last) {
    const char *next = NULL;
    for (int32_t l = 0; l < t->count; l++)
        for (int32_t i = 0; i < t->layers[l]->param_count; i++) {
            const tpp__param *param = &t->layers[l]->params[i];
            if (param->flags & TPP_PARAM_TIED && (!last || strcmp(param->name, last) > 0) &&
                (!next || strcmp(param->name, next) < 0))
                next = param->name;
        }
    return next;
}

/* All copies here of one name into `sum` (give), or `sum` to all of them. */
static tpp_status visit(const ties *t, const char *name, char *sum, bool give, int64_t *elements) {
    const tpp__param *first = NULL, *param;
    int32_t at = 0, l = 0;
    while ((param = next_copy(t, name, &at, &l))) {
        char *grad = (char *)t->grads[l] + param->grad_offset;
        tpp_dtype dtype = t->layers[l]->wide;
        if (first && (elements_of(param) != *elements || dtype != t->layers[0]->wide))
            return tpp__fail(TPP_ERR_INVALID,
                             "layers[%d] has %s with %lld elements here, another one %lld; copies "
                             "must be alike",
                             l, name, (long long)elements_of(param), (long long)*elements);
        *elements = elements_of(param);
        size_t bytes = (size_t)(*elements * t->layers[l]->wide_width);
        if (!give)
            memcpy(grad, sum, bytes);
        else if (!first)
            memcpy(sum, grad, bytes);
        else
            tpp__kern_add(dtype, *elements, grad, sum);
        first = param;
    }
    return TPP_OK;
}

static tpp_status visit_all(const ties *t, char *sums, bool give, int64_t *total) {
    tpp_status status = TPP_OK;
    int64_t width = t->count > 0 ? t->layers[0]->wide_width : 0;
    *total = 0;
    for (const char *name = next_name(t, NULL); name && status == TPP_OK;
         name = next_name(t, name)) {
        int64_t elements = 0;
        status = visit(t, name, sums + *total * width, give, &elements);
        *total += elements;
    }
    return status;
}

static tpp_status check(const ties *t, const void *scratch, int64_t scratch_bytes, bool *any) {
    int64_t need = 0;
    if (t->count < 0 || (t->count > 0 && (!t->layers || !t->grads)))
        return tpp__fail(TPP_ERR_INVALID, "layers or grads is NULL, or count = %d is negative",
                         t->count);
    for (int32_t l = 0; l < t->count; l++) {
        if (!t->layers[l])
            return tpp__fail(TPP_ERR_INVALID, "layers[%d] is NULL", l);
        int64_t bytes = tpp__tied_bytes(t->layers[l]);
        if (bytes > 0 && !t->grads[l])
            return tpp__fail(TPP_ERR_INVALID, "grads[%d] is NULL", l);
        if (t->layers[l]->wide != t->layers[0]->wide)
            return tpp__fail(TPP_ERR_INVALID,
                             "layers[%d] has gradients of another type than "
                             "layers[0]; copies must be alike",
                             l);
        if (!tpp__add(need, bytes, &need))
            return tpp__fail(TPP_ERR_OVERFLOW, "tied parameters do not fit into 64 bits");
    }
    *any = need > 0;
    if (scratch_bytes < need)
        return tpp__fail(TPP_ERR_TOO_SMALL,
                         "scratch_bytes = %lld is too small; this call needs %lld",
                         (long long)scratch_bytes, (long long)need);
    if (need > 0 && (!scratch || (uintptr_t)scratch % TPP__ALIGN != 0))
        return tpp__fail(TPP_ERR_INVALID, "scratch is %s; it must be aligned to %d bytes",
                         scratch ? "not aligned" : "NULL", TPP__ALIGN);
    return TPP_OK;
}

tpp_status tpp_layer_sum_tied(const tpp_layer *const *layers, void *const *grads, int32_t count,
                              tpp_comm *comm, void *scratch, int64_t scratch_bytes) {
    const ties t = {layers, grads, count};
    bool any = false;
    int64_t total;
    tpp_status status = check(&t, scratch, scratch_bytes, &any);
    if (status != TPP_OK || !any)
        return status;
    status = visit_all(&t, scratch, true, &total);
    if (status == TPP_OK && comm && tpp_comm_size(comm) > 1)
        status = tpp_comm_all_reduce(comm, scratch, scratch, total, layers[0]->wide, TPP_SUM_TREE);
    return status == TPP_OK ? visit_all(&t, scratch, false, &total) : status;
}
