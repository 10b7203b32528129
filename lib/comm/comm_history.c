/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm_impl.h"

#include "base/check.h"
#include "base/text.h"

/* What a rank has done lately: the first question when ranks wait for each other. */

const char *tpp__comm_kind_name(tpp_comm_kind kind) {
    static const char *const names[] = {"?",          "send",           "recv",
                                        "all_reduce", "all_gather",     "broadcast",
                                        "barrier",    "reduce_scatter", "split"};
    return names[kind > 0 && kind <= TPP__COMM_SPLIT ? kind : 0];
}

const char *tpp__comm_reduce_name(tpp_reduce reduce) {
    switch (reduce) {
    case TPP_SUM:
        return "TPP_SUM";
    case TPP_SUM_TREE:
        return "TPP_SUM_TREE";
    case TPP_MAX:
        return "TPP_MAX";
    default:
        return "unknown reduction";
    }
}

static bool is_message(tpp_comm_kind kind) {
    return kind == TPP_COMM_SEND || kind == TPP_COMM_RECV;
}

void tpp__comm_note_add(tpp_comm *comm, const tpp_comm_call *call) {
    tpp__comm_note *note = &comm->history[comm->operations++ % TPP__COMM_HISTORY];
    bool message = is_message(call->kind);
    bool peer = message || call->kind == TPP_COMM_BROADCAST;
    note->kind = call->kind;
    note->dtype = call->dtype;
    note->count = call->count;
    note->peer = peer ? call->peer : -1;
    note->tag = message ? call->tag : ++comm->collectives;
}

static void write_note(tpp__text *text, uint64_t number, const tpp__comm_note *note) {
    tpp__text_f(text, "%llu %s %lld %s ", (unsigned long long)number,
                tpp__comm_kind_name(note->kind), (long long)note->count,
                note->dtype ? tpp__dtype_name(note->dtype) : "-");
    if (note->peer >= 0)
        tpp__text_f(text, "%d ", note->peer);
    else
        tpp__text_s(text, "- ");
    tpp__text_f(text, "%s%llu\n", is_message(note->kind) ? "" : "#", (unsigned long long)note->tag);
}

tpp_status tpp_comm_history(const tpp_comm *comm, tpp_write_fn write, void *ctx) {
    if (!comm)
        return tpp__fail(TPP_ERR_INVALID, "comm is NULL; it must be a handle");
    if (!write)
        return tpp__fail(TPP_ERR_INVALID, "write is NULL; it must be a function");
    tpp__text text;
    tpp__text_begin(&text, write, ctx);
    uint64_t kept = comm->operations < TPP__COMM_HISTORY ? comm->operations : TPP__COMM_HISTORY;
    for (uint64_t i = comm->operations - kept; i < comm->operations; i++)
        write_note(&text, i + 1, &comm->history[i % TPP__COMM_HISTORY]);
    return tpp__text_end(&text);
}
