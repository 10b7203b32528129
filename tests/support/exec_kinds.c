/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "support/exec_kinds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { KINDS = 64 };

typedef struct visit {
    const exec_shapes *shapes;
    void (*fn)(const tpp_schedule *s, const tpp_schedule_desc *d, void *arg);
    void *arg;
    int32_t seen, called; /* shapes of the kind */
} visit;

static tpp_schedule *make(const tpp_schedule_desc *d, tpp_schedule_info *info) {
    tpp_schedule *s = NULL;
    tpp_status status = tpp_schedule_make(&s, d);
    if (status < 0 && status != TPP_ERR_INVALID)
        fail_msg("%s p %d v %d m %d: %s", tpp_schedule_kind_name(d->kind), d->ranks, d->chunks,
                 d->micros, tpp_message());
    *info = (tpp_schedule_info){.size = sizeof *info};
    if (s)
        tpp_schedule_query(s, info);
    return s;
}

static void show(visit *v, const tpp_schedule_desc *d, tpp_schedule *s,
                 const tpp_schedule_info *info) {
    const exec_shapes *most = v->shapes;
    bool fits = s && (most->depth == 0 || info->depth <= most->depth);
    if (fits && (most->every == 0 || v->seen++ % most->every == 0)) {
        v->fn(s, d, v->arg);
        v->called++;
    }
    tpp_schedule_destroy(s);
}

static void visit_shape(visit *v, const tpp_schedule_desc *shape) {
    tpp_schedule_desc d = *shape;
    tpp_schedule_info own, info;
    tpp_schedule *s = make(&d, &own);
    show(v, &d, s, &own);
    if (own.fused) {
        d.flags = TPP_SCHEDULE_UNFUSED;
        s = make(&d, &info);
        assert_non_null(s);
        assert_false(info.fused);
        show(v, &d, s, &info);
        d.flags = 0;
    }
    for (d.chunks = 2; d.chunks <= v->shapes->chunks; d.chunks++) {
        if (d.chunks == own.chunks)
            continue; /* the one that it has */
        s = make(&d, &info);
        show(v, &d, s, &info);
    }
}

void exec_kinds_each(const exec_shapes *shapes,
                     void (*fn)(const tpp_schedule *s, const tpp_schedule_desc *d, void *arg),
                     void *arg) {
    for (int32_t kind = 1; kind < KINDS; kind++) {
        visit v = {.shapes = shapes, .fn = fn, .arg = arg};
        if (!tpp_schedule_kind_name(kind))
            continue;
        for (int32_t p = shapes->ranks; p >= 1; p--) {
            for (int32_t m = shapes->micros; m >= 1; m--) {
                const tpp_schedule_desc d = {
                    .size = sizeof d, .kind = kind, .ranks = p, .micros = m};
                visit_shape(&v, &d);
            }
        }
        if (v.called == 0)
            fail_msg("%s was never shown", tpp_schedule_kind_name(kind));
    }
}
