/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* The norm that comes late: the same bits and the same decision on all ranks as a plain loop over all
 * parts gives, whoever holds them and however late a rank is; a failure ends every rank. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tpp/convert.h>
#include <tpp/validation.h>

#include "support/comm_threads.h"
#include "support/comm_user.h"

enum { PARTS = 37, STEPS = 40 };

/* What all ranks know of a test: p pipeline ranks x t lanes. */
typedef struct plan {
    int32_t pipeline, lanes;
    double clip;
    bool user;       /* over a transport of send and receive alone */
    int64_t stop_at; /* step in which stop_rank gives up; -1: none */
    int32_t stop_rank;
    bool other_parts; /* it does so by another number of parts */
} plan;

/* --- Truth ------------------------------------------------------------------------------------ */

static int32_t owner_of(const plan *p, int64_t step, int64_t part) {
    comm_random random = {(uint64_t)(step * 1000 + part) * 77};
    return (int32_t)comm_random_below(&random, (int64_t)p->pipeline * p->lanes);
}

/* Norms from half to twice the limit 1, and now and then one that is none. */
static double part_of(int64_t step, int64_t part) {
    comm_random random = {(uint64_t)(step * 1000 + part) * 99 + 1};
    double size = (double)comm_random_below(&random, 1000000) / 1e6;
    if (step % 8 == 7 && part == step % PARTS)
        return step % 24 == 7 ? (double)NAN : step % 24 == 15 ? (double)INFINITY : DBL_MAX;
    return size * (0.25 + 4 * (double)(step % 5) / 5) / (PARTS / 2.0) *
           (step % 8 == 7 ? DBL_MAX : 1);
}

/* The verdict on the parts of pipeline ranks 0 .. last. */
static tpp_verdict truth(const plan *p, int64_t step, int32_t last) {
    double sum = 0;
    for (int64_t i = 0; i < PARTS; i++)
        sum += owner_of(p, step, i) / p->lanes <= last ? part_of(step, i) : 0;
    tpp_verdict v = {.size = sizeof v, .norm = sqrt(sum), .grad_scale = 1};
    v.skip = !(v.norm <= DBL_MAX);
    if (!v.skip && p->clip > 0 && v.norm > p->clip)
        v.grad_scale = p->clip / v.norm;
    return v;
}

static bool same(const tpp_verdict *a, const tpp_verdict *b) {
    bool norms = a->norm == b->norm || (isnan(a->norm) && isnan(b->norm));
    return norms && a->grad_scale == b->grad_scale && a->skip == b->skip;
}

static bool is_wrong(const tpp_verdict *v) {
    return v->skip || v->grad_scale != 1;
}

/* --- A rank ----------------------------------------------------------------------------------- */

typedef struct side {
    const plan *p;
    tpp_comm *group, *pipeline, *tensor, *over; /* over: `pipeline` as a host's transport */
    int32_t rank;                               /* of the group */
    tpp_validation *validation;
    comm_random random;
} side;

static void open_side(side *s) {
    const plan *p = s->p;
    int32_t lane = s->rank % p->lanes, stage = s->rank / p->lanes;
    COMM_CHECK_OK(tpp_comm_split(s->group, &s->pipeline, lane, stage));
    COMM_CHECK_OK(tpp_comm_split(s->group, &s->tensor, stage, lane));
    if (p->user)
        COMM_CHECK_OK(comm_user_create(&s->over, s->pipeline, 0));
    tpp_validation_desc d = {.size = sizeof d, .tensor = s->tensor, .parts = PARTS};
    d.pipeline = p->user ? s->over : s->pipeline;
    d.clip = p->clip;
    if (p->other_parts && s->rank == p->stop_rank)
        d.parts = PARTS - 1;
    COMM_CHECK_OK(tpp_validation_create(&s->validation, &d));
}

static void close_side(side *s) {
    tpp_validation_destroy(s->validation);
    if (s->over)
        COMM_CHECK(s->p->stop_at >= 0 || comm_user_under_way(s->over) == 0);
    tpp_comm_destroy(s->over);
    tpp_comm_destroy(s->pipeline);
    tpp_comm_destroy(s->tensor);
}

static void place(side *s, int64_t step) {
    double *parts = tpp_validation_parts(s->validation);
    for (int64_t i = 0; i < PARTS; i++) {
        COMM_CHECK(s->p->other_parts || parts[i] == 0);
        if (owner_of(s->p, step, i) == s->rank)
            parts[i] = part_of(step, i);
    }
}

static void check_known(const side *s, int64_t step, const tpp_verdict *known) {
    tpp_verdict want = truth(s->p, step, s->rank / s->p->lanes);
    tpp_verdict all = truth(s->p, step, s->p->pipeline);
    COMM_CHECK(same(known, &want));
    COMM_CHECK(!is_wrong(known) || is_wrong(&all));
}

static void run_steps(tpp_comm *group, int32_t rank, void *arg) {
    side s = {.p = arg, .group = group, .rank = rank, .random = {(uint64_t)rank}};
    open_side(&s);
    for (int64_t step = 0; step < STEPS; step++) {
        tpp_verdict known = {.size = sizeof known}, verdict = known;
        tpp_verdict want = truth(s.p, step, s.p->pipeline);
        comm_delay(&s.random);
        place(&s, step);
        COMM_CHECK_OK(tpp_validation_begin(s.validation, step % 3 ? &known : NULL));
        if (step % 3)
            check_known(&s, step, &known);
        comm_delay(&s.random);
        COMM_CHECK_OK(tpp_validation_end(s.validation, &verdict));
        COMM_CHECK(same(&verdict, &want));
    }
    close_side(&s);
}

static void test_bits(void **state) {
    (void)state;
    for (int k = 0; k < 4; k++) {
        for (int32_t pipeline = 1; pipeline <= 8; pipeline++) {
            for (int32_t lanes = 1; lanes <= (pipeline < 4 ? 3 : 1); lanes++) {
                plan p = {.pipeline = pipeline, .lanes = lanes, .stop_at = -1};
                p.clip = k == 0 ? 0 : k == 1 ? 1e-3 : 1;
                p.user = k == 3;
                comm_threads_run(pipeline * lanes, NULL, run_steps, &p);
            }
        }
    }
}

/* The cases above are of all sorts, else they would prove little. */
static void test_cases(void **state) {
    plan p = {.pipeline = 4, .lanes = 1, .clip = 1, .stop_at = -1};
    int kept = 0, clipped = 0, skipped = 0, known_early = 0;
    (void)state;
    for (int64_t step = 0; step < STEPS; step++) {
        tpp_verdict v = truth(&p, step, p.pipeline), first = truth(&p, step, 1);
        kept += !is_wrong(&v);
        clipped += !v.skip && is_wrong(&v);
        skipped += v.skip != 0;
        known_early += is_wrong(&first);
    }
    assert_true(kept > 5 && clipped > 5 && skipped >= 4);
    assert_true(known_early > 0 && known_early < clipped + skipped);
}

/* The norm of many parts is that of the plain rule. */
static void test_plain_rule(void **state) {
    plan p = {.pipeline = 1, .lanes = 1, .clip = 1};
    (void)state;
    for (int64_t step = 0; step < STEPS; step++) {
        double parts[PARTS];
        tpp_verdict got = {.size = sizeof got}, want = truth(&p, step, 1);
        for (int64_t i = 0; i < PARTS; i++)
            parts[i] = part_of(step, i);
        assert_int_equal(tpp_grad_verdict(parts, PARTS, 1, &got), TPP_OK);
        assert_true(same(&got, &want));
    }
}

/* --- Who waits for whom ----------------------------------------------------------------------- */

/* Begin of a rank waits for the ranks before it alone: played by one thread, in order, nothing waits
 * for itself; and what a rank does between begin and end does not hold up the others' begin. */
static void test_one_thread(void **state) {
    enum { P = 5 };
    tpp_comm *comms[P];
    tpp_validation *v[P];
    (void)state;
    tpp_comm_local_desc soon = {.size = sizeof soon, .timeout = 5};
    assert_int_equal(tpp_comm_local_create(comms, P, &soon), TPP_OK);
    for (int32_t r = 0; r < P; r++) {
        tpp_validation_desc d = {.size = sizeof d, .pipeline = comms[r], .parts = P, .clip = 1};
        assert_int_equal(tpp_validation_create(&v[r], &d), TPP_OK);
    }
    for (int step = 0; step < 6; step++) {
        tpp_verdict known = {.size = sizeof known};
        double size = step % 2 ? 0.01 : 1;
        for (int32_t r = 0; r < P; r++) {
            tpp_validation_parts(v[r])[r] = size;
            assert_int_equal(tpp_validation_begin(v[r], &known), TPP_OK);
            assert_int_equal(known.grad_scale != 1, size * (r + 1) > 1);
        }
        for (int32_t i = 0; i < P; i++) { /* in any order */
            assert_int_equal(tpp_validation_end(v[(i + step) % P], &known), TPP_OK);
            assert_int_equal(known.grad_scale != 1, size * P > 1);
        }
    }
    for (int32_t r = 0; r < P; r++) {
        tpp_validation_destroy(v[r]);
        tpp_comm_destroy(comms[r]);
    }
}

static int64_t messages(const tpp_comm *comm, tpp_comm_kind kind) {
    tpp_comm_count count = {0};
    COMM_CHECK_OK(tpp_comm_traced_get(comm, kind, &count));
    return count.calls;
}

/* The header's "Comm:" lines. */
static void count_messages(tpp_comm *group, int32_t rank, void *arg) {
    tpp_comm *traced = NULL;
    tpp_verdict verdict = {.size = sizeof verdict};
    tpp_validation *v = NULL;
    int32_t last = tpp_comm_size(group) - 1;
    (void)arg;
    COMM_CHECK_OK(tpp_comm_traced_create(&traced, group, NULL));
    tpp_validation_desc d = {.size = sizeof d, .pipeline = traced, .parts = PARTS, .clip = 1};
    COMM_CHECK_OK(tpp_validation_create(&v, &d));
    for (int step = 0; step < 3; step++) {
        COMM_CHECK_OK(tpp_validation_begin(v, NULL));
        COMM_CHECK_OK(tpp_validation_end(v, &verdict));
    }
    COMM_CHECK(messages(traced, TPP_COMM_SEND) == 3 * (rank == last ? last : 1));
    COMM_CHECK(messages(traced, TPP_COMM_RECV) == 3 * ((rank > 0) + (rank < last)));
    tpp_validation_destroy(v);
    tpp_comm_destroy(traced);
}

static void test_messages(void **state) {
    (void)state;
    for (int32_t n = 1; n <= 6; n++)
        comm_threads_run(n, NULL, count_messages, NULL);
}

/* --- Failures --------------------------------------------------------------------------------- */

/* All ranks end with a failure soon after one has given up, wherever they are. */
static void run_until_stop(tpp_comm *group, int32_t rank, void *arg) {
    side s = {.p = arg, .group = group, .rank = rank, .random = {(uint64_t)rank}};
    tpp_status status = TPP_OK;
    open_side(&s);
    for (int64_t step = 0; step < STEPS && status == TPP_OK; step++) {
        tpp_verdict verdict = {.size = sizeof verdict};
        comm_delay(&s.random);
        if (step == s.p->stop_at && rank == s.p->stop_rank && !s.p->other_parts) {
            tpp_comm_abort(s.pipeline);
            tpp_comm_abort(s.tensor);
        }
        if (!s.p->other_parts)
            place(&s, step);
        status = tpp_validation_begin(s.validation, NULL);
        if (status == TPP_OK)
            status = tpp_validation_end(s.validation, &verdict);
    }
    COMM_CHECK(status == TPP_ERR_ABORTED || (s.p->other_parts && status == TPP_ERR_MISMATCH));
    close_side(&s);
}

static void test_abort(void **state) {
    (void)state;
    for (int32_t rank = 0; rank < 8; rank++) {
        for (int64_t step = 0; step < 3; step++) {
            plan p = {.pipeline = 4, .lanes = 2, .clip = 1, .stop_at = step, .stop_rank = rank};
            comm_threads_run(8, NULL, run_until_stop, &p);
            p.lanes = 1;
            p.pipeline = 8;
            p.user = step == 2;
            comm_threads_run(8, NULL, run_until_stop, &p);
        }
        plan other = {.pipeline = 4, .lanes = 2, .clip = 1, .stop_rank = rank, .other_parts = true};
        comm_threads_run(8, NULL, run_until_stop, &other);
    }
}

static void says(tpp_status got, tpp_status want, const char *text) {
    assert_int_equal(got, want);
    if (!strstr(tpp_message(), text))
        fail_msg("\"%s\" does not say %s", tpp_message(), text);
}

static void refuse(tpp_validation_desc d, tpp_status want, const char *text) {
    tpp_validation *v = (void *)&d;
    says(tpp_validation_create(&v, &d), want, text);
    assert_null(v);
}

static void test_refused(void **state) {
    tpp_validation *v = NULL;
    tpp_verdict verdict = {.size = sizeof verdict};
    tpp_validation_desc good = {.size = sizeof good, .parts = 3, .clip = 1}, d;
    (void)state;
    says(tpp_validation_create(NULL, &good), TPP_ERR_INVALID, "out");
    says(tpp_validation_create(&v, NULL), TPP_ERR_INVALID, "desc");
    d = good, d.parts = -1, refuse(d, TPP_ERR_INVALID, "-1");
    d = good, d.parts = INT64_MAX / 8, refuse(d, TPP_ERR_OVERFLOW, "parts");
    d = good, d.clip = -1, refuse(d, TPP_ERR_INVALID, "desc.clip");
    d = good, d.clip = (double)NAN, refuse(d, TPP_ERR_INVALID, "desc.clip");
    d = good, d.flags = 1, refuse(d, TPP_ERR_TOO_NEW, "flags");
    d = good, d.size = 4, refuse(d, TPP_ERR_INVALID, "size");
    assert_int_equal(tpp_validation_create(&v, &good), TPP_OK);
    says(tpp_validation_begin(NULL, NULL), TPP_ERR_INVALID, "NULL");
    says(tpp_validation_end(NULL, &verdict), TPP_ERR_INVALID, "NULL");
    says(tpp_validation_end(v, &verdict), TPP_ERR_INVALID, "begin");
    assert_int_equal(tpp_validation_begin(v, NULL), TPP_OK);
    says(tpp_validation_begin(v, NULL), TPP_ERR_INVALID, "end");
    says(tpp_validation_end(v, NULL), TPP_ERR_INVALID, "out");
    assert_int_equal(tpp_validation_end(v, &verdict), TPP_OK);
    tpp_validation_destroy(v);
    tpp_validation_destroy(NULL);
}

static void test_no_memory(void **state) {
    comm_memory memory;
    tpp_validation *v = NULL;
    (void)state;
    for (long long fail = 1; fail >= 0; fail--) {
        comm_memory_init(&memory, fail);
        tpp_validation_desc d = {
            .size = sizeof d, .parts = 3, .clip = 1, .allocator = &memory.allocator};
        assert_int_equal(tpp_validation_create(&v, &d), fail ? TPP_ERR_NO_MEMORY : TPP_OK);
        for (int i = 0; i < 3 && v; i++)
            assert_true(tpp_validation_parts(v)[i] == 0);
        tpp_validation_destroy(v);
        assert_int_equal(atomic_load(&memory.live), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),       cmocka_unit_test(test_cases),
        cmocka_unit_test(test_plain_rule), cmocka_unit_test(test_one_thread),
        cmocka_unit_test(test_messages),   cmocka_unit_test(test_abort),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
