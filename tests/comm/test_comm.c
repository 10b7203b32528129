/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/comm_threads.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The door: what it refuses and how it says so, and the promises to a host's own transport. */

static tpp_comm *ranks[2];
static float x[8], y[16];
static tpp_request request;

static int two_ranks(void **state) {
    (void)state;
    return tpp_comm_local_create(ranks, 2, NULL) == TPP_OK ? 0 : -1;
}

static int no_ranks(void **state) {
    (void)state;
    tpp_comm_destroy(ranks[0]);
    tpp_comm_destroy(ranks[1]);
    return 0;
}

/* The sentence begins with the argument's name. */
#define REFUSED(call, name) refused((call), TPP_ERR_INVALID, (name), __LINE__)
static void refused(tpp_status got, tpp_status want, const char *name, int line) {
    if (got != want || strncmp(tpp_message(), name, strlen(name)) != 0)
        fail_msg("line %d: %s: \"%s\" is not about %s", line, tpp_status_name(got), tpp_message(),
                 name);
}

static void messages(void **state) {
    (void)state;
    tpp_comm *c = ranks[0];
    REFUSED(tpp_comm_send_start(NULL, x, 1, TPP_F32, 1, 0, &request), "comm is NULL");
    REFUSED(tpp_comm_send_start(c, x, 1, TPP_F32, 1, 0, NULL), "request is NULL");
    REFUSED(tpp_comm_send_start(c, NULL, 1, TPP_F32, 1, 0, &request), "in is NULL");
    REFUSED(tpp_comm_recv_start(c, NULL, 1, TPP_F32, 1, 0, &request), "out is NULL");
    REFUSED(tpp_comm_send_start(c, x, -1, TPP_F32, 1, 0, &request), "count = -1");
    REFUSED(tpp_comm_send_start(c, x, 1, 3, 1, 0, &request), "dtype = 3");
    REFUSED(tpp_comm_send_start(c, x, 1, TPP_F32, 2, 0, &request), "peer = 2 is not in 0 .. 1");
    REFUSED(tpp_comm_recv_start(c, x, 1, TPP_F32, -1, 0, &request), "peer = -1");
    REFUSED(tpp_comm_recv_start(c, x, 1, TPP_F32, 0, 0, &request), "peer = 0 is this rank");
    refused(tpp_comm_recv_start(c, x, INT64_MAX / 4, TPP_F64, 1, 0, &request), TPP_ERR_OVERFLOW,
            "count = ", __LINE__);
    REFUSED(tpp_comm_test(NULL), "request is NULL");
    REFUSED(tpp_comm_wait(NULL), "request is NULL");
}

static void reductions(void **state) {
    (void)state;
    tpp_comm *c = ranks[0];
    REFUSED(tpp_comm_all_reduce(NULL, x, y, 1, TPP_F32, TPP_SUM), "comm is NULL");
    REFUSED(tpp_comm_all_reduce_start(c, x, y, 1, TPP_F32, TPP_SUM, NULL), "request is NULL");
    REFUSED(tpp_comm_all_reduce(c, NULL, y, 1, TPP_F32, TPP_SUM), "in is NULL");
    REFUSED(tpp_comm_all_reduce(c, x, NULL, 1, TPP_F32, TPP_SUM), "out is NULL");
    REFUSED(tpp_comm_all_reduce(c, x, y, -7, TPP_F32, TPP_SUM), "count = -7");
    REFUSED(tpp_comm_all_reduce(c, x, y, 1, 0, TPP_SUM), "dtype = 0");
    REFUSED(tpp_comm_all_reduce(c, x, y, 1, TPP_F32, 0), "reduce = 0");
    REFUSED(tpp_comm_all_reduce(c, x, y, 1, TPP_F32, 4), "reduce = 4");
    REFUSED(tpp_comm_all_reduce(c, x, x + 3, 4, TPP_F32, TPP_SUM), "out overlaps in");
    REFUSED(tpp_comm_all_reduce(c, x + 3, x, 4, TPP_F32, TPP_SUM), "out overlaps in");
    refused(tpp_comm_all_reduce(c, x, y, INT64_MAX / 2, TPP_F32, TPP_SUM), TPP_ERR_OVERFLOW,
            "count = ", __LINE__);
}

static void other_collectives(void **state) {
    (void)state;
    tpp_comm *c = ranks[0], *out;
    REFUSED(tpp_comm_all_gather(NULL, x, y, 1, TPP_F32), "comm is NULL");
    REFUSED(tpp_comm_all_gather(c, NULL, y, 1, TPP_F32), "in is NULL");
    REFUSED(tpp_comm_all_gather(c, x, NULL, 1, TPP_F32), "out is NULL");
    REFUSED(tpp_comm_all_gather(c, x, y, -1, TPP_F32), "count = -1");
    REFUSED(tpp_comm_all_gather(c, x, y, 1, 9), "dtype = 9");
    REFUSED(tpp_comm_all_gather(c, y + 4, y, 4, TPP_F32), "out overlaps in");
    refused(tpp_comm_all_gather(c, x, y, INT64_MAX / 8 + 1, TPP_F32), TPP_ERR_OVERFLOW,
            "count = ", __LINE__);
    REFUSED(tpp_comm_broadcast(NULL, x, 1, TPP_F32, 0), "comm is NULL");
    REFUSED(tpp_comm_broadcast(c, NULL, 1, TPP_F32, 0), "inout is NULL");
    REFUSED(tpp_comm_broadcast(c, x, -1, TPP_F32, 0), "count = -1");
    REFUSED(tpp_comm_broadcast(c, x, 1, -2, 0), "dtype = -2");
    REFUSED(tpp_comm_broadcast(c, x, 1, TPP_F32, 2), "root = 2 is not in 0 .. 1");
    REFUSED(tpp_comm_broadcast(c, x, 1, TPP_F32, -1), "root = -1");
    REFUSED(tpp_comm_barrier(NULL), "comm is NULL");
    REFUSED(tpp_comm_split(NULL, &out, 0, 0), "comm is NULL");
    REFUSED(tpp_comm_split(c, NULL, 0, 0), "out is NULL");
}

/* None of these refusals has harmed the group: both ranks can still meet. */
static void refusals_leave_the_group_alone(void **state) {
    (void)state;
    tpp_request all[2];
    for (int32_t r = 0; r < 2; r++)
        assert_int_equal(
            tpp_comm_all_reduce_start(ranks[r], x, y + r, 1, TPP_F32, TPP_SUM, &all[r]), TPP_OK);
    for (int32_t r = 0; r < 2; r++)
        assert_int_equal(tpp_comm_wait(&all[r]), TPP_OK);
}

static void local_groups(void **state) {
    (void)state;
    tpp_comm *out[4];
    tpp_comm_local_desc desc = {.size = sizeof desc};
    REFUSED(tpp_comm_local_create(NULL, 2, NULL), "out is NULL");
    REFUSED(tpp_comm_local_create(out, 0, NULL), "n = 0 is not in 1 .. 1024");
    REFUSED(tpp_comm_local_create(out, 1025, NULL), "n = 1025");
    REFUSED(tpp_comm_local_create(out, INT32_MIN, NULL), "n = ");
    desc.size = 4;
    REFUSED(tpp_comm_local_create(out, 2, &desc), "desc.size = 4");
    desc.size = sizeof desc;
    desc.flags = 1;
    refused(tpp_comm_local_create(out, 2, &desc), TPP_ERR_TOO_NEW, "desc.flags", __LINE__);
    desc.flags = 0;
    desc.timeout = NAN;
    REFUSED(tpp_comm_local_create(out, 2, &desc), "desc.timeout is not a number");
    desc.timeout = 0;
    desc.spins = -1;
    REFUSED(tpp_comm_local_create(out, 2, &desc), "desc.spins = -1");
    desc.spins = 0;
    tpp_allocator half = {.size = sizeof half};
    desc.allocator = &half;
    REFUSED(tpp_comm_local_create(out, 2, &desc), "allocator.alloc is NULL");
    desc.allocator = NULL;
    desc.size = 8; /* a program of an older header, which knew no field */
    assert_int_equal(tpp_comm_local_create(out, 2, &desc), TPP_OK);
    assert_int_equal(tpp_comm_rank(out[1]), 1);
    assert_int_equal(tpp_comm_size(out[0]), 2);
    tpp_comm_destroy(out[0]);
    tpp_comm_destroy(out[1]);
    tpp_comm_destroy(NULL);
}

/* A transport of two ranks in one thread's hands: what is sent is there at once, in one cell. */
typedef struct wire {
    float cell;
    int32_t tests; /* until a request is over */
    int32_t waits;
    int32_t aborts;
    int32_t destroys;
    tpp_status answer; /* of test, when over */
    double deadline;   /* that wait saw */
} wire;

static tpp_status wire_send(void *ctx, const tpp_comm_call *call, tpp_request *r) {
    wire *w = ctx;
    assert_true(call->size >= sizeof *call && call->kind == TPP_COMM_SEND && call->peer == 1);
    w->cell = *(const float *)call->in;
    r->reserved[14] = 77;
    return TPP_OK;
}

static tpp_status wire_recv(void *ctx, const tpp_comm_call *call, tpp_request *r) {
    wire *w = ctx;
    *(float *)call->out = w->cell;
    r->reserved[14] = 77;
    return TPP_OK;
}

static tpp_status wire_test(void *ctx, tpp_request *r) {
    wire *w = ctx;
    assert_int_equal(r->reserved[14], 77);
    return --w->tests > 0 ? TPP_PENDING : w->answer;
}

static tpp_status wire_wait(void *ctx, tpp_request *r, double deadline) {
    wire *w = ctx;
    (void)r;
    w->waits++;
    w->deadline = deadline;
    return w->answer;
}

static tpp_status wire_all(void *ctx, const tpp_comm_call *call, tpp_request *r) {
    wire *w = ctx;
    r->reserved[14] = 77;
    w->cell = (float)call->kind;
    return w->answer < 0 ? w->answer : TPP_OK;
}

static void wire_abort(void *ctx) {
    wire *w = ctx;
    w->aborts++;
}

static void wire_destroy(void *ctx) {
    wire *w = ctx;
    w->destroys++;
}

static void transports(void **state) {
    (void)state;
    tpp_comm *out = ranks[0];
    tpp_comm_ops ops = {
        .size = sizeof ops, .send = wire_send, .recv = wire_recv, .test = wire_test};
    tpp_comm_ops bad = ops;
    comm_memory memory;
    REFUSED(tpp_comm_create(NULL, &ops, NULL, 0, 2, 0, NULL), "out is NULL");
    REFUSED(tpp_comm_create(&out, NULL, NULL, 0, 2, 0, NULL), "ops is NULL");
    assert_null(out);
    bad.send = NULL;
    REFUSED(tpp_comm_create(&out, &bad, NULL, 0, 2, 0, NULL), "ops.send is NULL");
    bad = ops;
    bad.recv = NULL;
    REFUSED(tpp_comm_create(&out, &bad, NULL, 0, 2, 0, NULL), "ops.recv is NULL");
    bad = ops;
    bad.test = NULL;
    REFUSED(tpp_comm_create(&out, &bad, NULL, 0, 2, 0, NULL), "ops.test is NULL");
    bad = ops;
    bad.size = 7;
    REFUSED(tpp_comm_create(&out, &bad, NULL, 0, 2, 0, NULL), "ops.size = 7");
    bad = ops;
    bad.flags = 2;
    refused(tpp_comm_create(&out, &bad, NULL, 0, 2, 0, NULL), TPP_ERR_TOO_NEW, "ops.flags",
            __LINE__);
    REFUSED(tpp_comm_create(&out, &ops, NULL, 0, 0, 0, NULL), "size = 0");
    REFUSED(tpp_comm_create(&out, &ops, NULL, 2, 2, 0, NULL), "rank = 2 is not in 0 .. 1");
    REFUSED(tpp_comm_create(&out, &ops, NULL, -1, 2, 0, NULL), "rank = -1");
    REFUSED(tpp_comm_create(&out, &ops, NULL, 0, 2, NAN, NULL), "timeout is not a number");
    comm_memory_init(&memory, 1);
    wire w = {0};
    ops.destroy = wire_destroy;
    assert_int_equal(tpp_comm_create(&out, &ops, &w, 0, 2, 0, &memory.allocator),
                     TPP_ERR_NO_MEMORY);
    assert_int_equal(w.destroys, 0); /* ctx is still the caller's */
    assert_int_equal(tpp_comm_create(&out, &ops, &w, 0, 2, 0, &memory.allocator), TPP_OK);
    tpp_comm_destroy(out);
    assert_int_equal(w.destroys, 1);
    assert_int_equal(atomic_load(&memory.live_bytes), 0);
}

static void table_is_used_as_promised(void **state) {
    (void)state;
    tpp_comm_ops ops = {.size = sizeof ops,
                        .send = wire_send,
                        .recv = wire_recv,
                        .test = wire_test,
                        .collective = wire_all,
                        .abort = wire_abort};
    wire w = {.tests = 3};
    tpp_comm *c;
    float out = 5, in = 0;
    assert_int_equal(tpp_comm_create(&c, &ops, &w, 0, 2, 0, NULL), TPP_OK);
    memset(&ops, 0, sizeof ops); /* it was copied */
    assert_int_equal(tpp_comm_send_start(c, &out, 1, TPP_F32, 1, 0, &request), TPP_OK);
    assert_int_equal(tpp_comm_test(&request), TPP_PENDING);
    assert_int_equal(tpp_comm_test(&request), TPP_PENDING);
    assert_int_equal(tpp_comm_test(&request), TPP_OK);
    assert_int_equal(tpp_comm_test(&request), TPP_OK); /* empty now: not asked again */
    assert_int_equal(w.tests, 0);
    w.tests = 300;
    assert_int_equal(tpp_comm_recv_start(c, &in, 1, TPP_F32, 1, 0, &request), TPP_OK);
    assert_int_equal(tpp_comm_wait(&request), TPP_OK);
    assert_true(in == 5 && w.tests == 0);
    assert_int_equal(tpp_comm_barrier(c), TPP_OK);
    assert_true(w.cell == TPP_COMM_BARRIER);
    w.answer = TPP_ERR_USER - 3;
    tpp_message_set("no carrier");
    assert_int_equal(tpp_comm_barrier(c), TPP_ERR_USER - 3);
    assert_string_equal(tpp_message(), "no carrier");
    assert_true(w.aborts > 0);
    assert_int_equal(tpp_comm_barrier(c), TPP_ERR_USER - 3);
    tpp_comm_destroy(c);
}

static void wait_slot_and_deadline(void **state) {
    (void)state;
    tpp_comm_ops ops = {.size = sizeof ops,
                        .send = wire_send,
                        .recv = wire_recv,
                        .test = wire_test,
                        .wait = wire_wait};
    wire w = {.tests = 1000000};
    tpp_comm *c;
    assert_int_equal(tpp_comm_create(&c, &ops, &w, 0, 2, -1, NULL), TPP_OK);
    assert_int_equal(tpp_comm_recv_start(c, x, 1, TPP_F32, 1, 0, &request), TPP_OK);
    assert_int_equal(tpp_comm_wait(&request), TPP_OK);
    assert_true(w.waits == 1 && w.deadline == 0);
    tpp_comm_destroy(c);
    assert_int_equal(tpp_comm_create(&c, &ops, &w, 0, 2, 0.5, NULL), TPP_OK);
    assert_int_equal(tpp_comm_recv_start(c, x, 1, TPP_F32, 1, 0, &request), TPP_OK);
    w.answer = TPP_PENDING; /* which means that the deadline has passed */
    assert_int_equal(tpp_comm_wait(&request), TPP_ERR_TIMEOUT);
    assert_non_null(strstr(tpp_message(), "rank 0 of 2 waited 500 ms"));
    assert_true(w.deadline > 0);
    assert_null(request.comm);
    tpp_comm_destroy(c);
    ops.wait = NULL; /* the same by polling */
    w.tests = 1000000000;
    assert_int_equal(tpp_comm_create(&c, &ops, &w, 0, 2, 0.05, NULL), TPP_OK);
    assert_int_equal(tpp_comm_recv_start(c, x, 1, TPP_F32, 1, 0, &request), TPP_OK);
    assert_int_equal(tpp_comm_wait(&request), TPP_ERR_TIMEOUT);
    assert_true(w.tests > 1000000000 - 5000); /* it slept between the tests */
    tpp_comm_destroy(c);
}

/* Without an abort of its own, a transport's handle fails alone, and its requests end with it. */
static void abort_without_slot(void **state) {
    (void)state;
    tpp_comm_ops ops = {
        .size = sizeof ops, .send = wire_send, .recv = wire_recv, .test = wire_test};
    wire w = {.tests = 1000000};
    tpp_comm *c;
    assert_int_equal(tpp_comm_create(&c, &ops, &w, 0, 2, 0, NULL), TPP_OK);
    assert_int_equal(tpp_comm_recv_start(c, x, 1, TPP_F32, 1, 0, &request), TPP_OK);
    tpp_comm_abort(c);
    assert_int_equal(tpp_comm_wait(&request), TPP_ERR_ABORTED);
    assert_int_equal(tpp_comm_barrier(c), TPP_ERR_ABORTED);
    tpp_comm_destroy(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages, two_ranks, no_ranks),
        cmocka_unit_test_setup_teardown(reductions, two_ranks, no_ranks),
        cmocka_unit_test_setup_teardown(other_collectives, two_ranks, no_ranks),
        cmocka_unit_test_setup_teardown(refusals_leave_the_group_alone, two_ranks, no_ranks),
        cmocka_unit_test(local_groups),
        cmocka_unit_test(transports),
        cmocka_unit_test(table_is_used_as_promised),
        cmocka_unit_test(wait_slot_and_deadline),
        cmocka_unit_test(abort_without_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
