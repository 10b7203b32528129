/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/check.h"
#include "comm/comm_impl.h"
#include "tp/grad_norm.h"

#include <string.h>
#include <tpp/validation.h>

/* Of the tags of built collectives, far from those in use. Messages of different steps stay in order. */
enum { PARTS_TAG = 0xff00, NORM_TAG = 0xff01 };

struct tpp_validation {
    tpp_allocator allocator;
    int64_t bytes; /* of all this */
    tpp_comm *pipeline;
    tpp_comm *tensor;
    int32_t rank, last; /* of the pipeline */
    int64_t parts;
    double clip;
    bool begun;
    double *own;           /* [parts]: this rank's, or its lane's before they are added up */
    double *known;         /* [parts]: of the ranks up to this one */
    double norm;           /* of all, as it goes to and comes from other ranks */
    tpp_request chain;     /* to the next rank */
    tpp_request from_last; /* the norm */
    tpp_request *to_all;   /* the norm; [last] on the last rank */
};

static void cut(tpp_validation *v, tpp__arena *arena) {
    v->own = tpp__arena_take(arena, v->parts, sizeof *v->own);
    v->known = tpp__arena_take(arena, v->parts, sizeof *v->known);
    v->to_all = tpp__arena_take(arena, v->rank == v->last ? v->last : 0, sizeof *v->to_all);
}

static tpp_status read_desc(tpp_validation *v, const tpp_validation_desc *given) {
    tpp_validation_desc desc;
    tpp_status status = tpp__sized_read(&desc, sizeof desc, 0, given, "desc");
    if (status == TPP_OK && desc.parts < 0)
        status = tpp__fail(TPP_ERR_INVALID, "desc.parts = %lld; it must be at least 0",
                           (long long)desc.parts);
    if (status == TPP_OK)
        status = tpp__check_clip("desc.clip", desc.clip);
    if (status == TPP_OK)
        status = tpp__allocator_read(&v->allocator, desc.allocator);
    if (status != TPP_OK)
        return status;
    v->pipeline = desc.pipeline;
    v->tensor = desc.tensor;
    v->rank = desc.pipeline ? tpp_comm_rank(desc.pipeline) : 0;
    v->last = desc.pipeline ? tpp_comm_size(desc.pipeline) - 1 : 0;
    v->parts = desc.parts;
    v->clip = desc.clip;
    return TPP_OK;
}

tpp_status tpp_validation_create(tpp_validation **out, const tpp_validation_desc *desc) {
    if (!out)
        return tpp__fail(TPP_ERR_INVALID, "out is NULL; it must point to a validation");
    *out = NULL;
    tpp_validation read = {0};
    tpp_status status = read_desc(&read, desc);
    if (status != TPP_OK)
        return status;
    tpp__arena arena = tpp__arena_counting();
    tpp__arena_take(&arena, 1, sizeof read);
    cut(&read, &arena);
    if (!tpp__arena_fits(&arena))
        return tpp__fail(TPP_ERR_OVERFLOW, "desc.parts = %lld: their bytes do not fit into 64 bits",
                         (long long)read.parts);
    read.bytes = arena.used;
    char *memory = tpp__alloc(&read.allocator, read.bytes);
    if (!memory)
        return TPP_ERR_NO_MEMORY;
    arena = tpp__arena_over(memory, read.bytes);
    tpp_validation *v = tpp__arena_take(&arena, 1, sizeof *v);
    cut(&read, &arena);
    *v = read;
    *out = v;
    return TPP_OK;
}

double *tpp_validation_parts(tpp_validation *validation) {
    return validation->own;
}

/* --- Messages --------------------------------------------------------------------------------- */

static tpp_status start_send(tpp_validation *v, const double *from, int64_t count, int32_t peer,
                             int tag, tpp_request *request) {
    return tpp_comm_send_start(v->pipeline, from, count, TPP_F64, peer,
                               TPP__COMM_TAG - (uint64_t)tag, request);
}

static tpp_status start_recv(tpp_validation *v, double *to, int64_t count, int32_t peer, int tag,
                             tpp_request *request) {
    return tpp_comm_recv_start(v->pipeline, to, count, TPP_F64, peer, TPP__COMM_TAG - (uint64_t)tag,
                               request);
}

/* The ranks that this one sent something to have it. */
static tpp_status finish_sends(tpp_validation *v) {
    tpp_status status = tpp_comm_wait(&v->chain);
    for (int32_t r = 0; r < v->last && v->rank == v->last && status == TPP_OK; r++)
        status = tpp_comm_wait(&v->to_all[r]);
    return status;
}

/* Parts of this rank and of those before it into known. Only one of all ranks and lanes has a part
 * that is not 0, so that their sum is exact. */
static tpp_status gather(tpp_validation *v) {
    tpp_request from_before = {0};
    tpp_status status = TPP_OK;
    if (v->rank > 0)
        status = start_recv(v, v->known, v->parts, v->rank - 1, PARTS_TAG, &from_before);
    if (status == TPP_OK && v->tensor && tpp_comm_size(v->tensor) > 1)
        status = tpp_comm_all_reduce(v->tensor, v->own, v->own, v->parts, TPP_F64, TPP_SUM);
    if (status < 0)
        tpp_comm_abort(v->pipeline); /* so that nothing is received into known any more */
    tpp_status received = tpp_comm_wait(&from_before);
    for (int64_t i = 0; i < v->parts; i++) {
        v->known[i] = v->own[i] + (v->rank > 0 ? v->known[i] : 0);
        v->own[i] = 0;
    }
    return status < 0 ? status : received;
}

/* Where the norm is made. */
static tpp_status tell_all(tpp_validation *v) {
    tpp_status status = TPP_OK;
    v->norm = tpp__norm_of(v->known, v->parts);
    for (int32_t r = 0; r < v->last && status == TPP_OK; r++)
        status = start_send(v, &v->norm, 1, r, NORM_TAG, &v->to_all[r]);
    return status;
}

/* The receive comes first: who makes the norm then finds it posted. */
static tpp_status pass_on(tpp_validation *v) {
    tpp_status status = start_recv(v, &v->norm, 1, v->last, NORM_TAG, &v->from_last);
    if (status == TPP_OK)
        status = start_send(v, v->known, v->parts, v->rank + 1, PARTS_TAG, &v->chain);
    return status;
}

static tpp_status stop(const tpp_validation *v, tpp_status status) {
    tpp_comm_abort(v->pipeline);
    tpp_comm_abort(v->tensor);
    return status;
}

/* --- Steps ------------------------------------------------------------------------------------ */

tpp_status tpp_validation_begin(tpp_validation *v, tpp_verdict *known) {
    if (!v)
        return tpp__fail(TPP_ERR_INVALID, "validation is NULL");
    if (v->begun)
        return tpp__fail(TPP_ERR_INVALID,
                         "the step before has no verdict yet; call tpp_validation_end first");
    tpp_status status = finish_sends(v);
    if (status == TPP_OK)
        status = gather(v);
    if (status == TPP_OK)
        status = v->rank == v->last ? tell_all(v) : pass_on(v);
    if (status < 0)
        return stop(v, status);
    v->begun = true;
    if (!known)
        return TPP_OK;
    tpp_verdict verdict = tpp__verdict_of(tpp__norm_of(v->known, v->parts), v->clip);
    return tpp__sized_write(known, &verdict, sizeof verdict, "known");
}

tpp_status tpp_validation_end(tpp_validation *v, tpp_verdict *out) {
    if (!v || !v->begun)
        return tpp__fail(TPP_ERR_INVALID, "%s",
                         v ? "no step was begun; call tpp_validation_begin first"
                           : "validation is NULL");
    tpp_status status = tpp_comm_wait(&v->from_last);
    if (status < 0)
        return stop(v, status);
    tpp_verdict verdict = tpp__verdict_of(v->norm, v->clip);
    status = tpp__sized_write(out, &verdict, sizeof verdict, "out");
    v->begun = status != TPP_OK; /* can be asked for again */
    return status;
}

void tpp_validation_destroy(tpp_validation *v) {
    if (!v)
        return;
    tpp_comm_wait(&v->from_last);
    finish_sends(v);
    tpp_allocator own = v->allocator;
    tpp__free(&own, v, v->bytes);
}
