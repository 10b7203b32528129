/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tpp/schedule.h>

/* What a schedule costs before anything runs: generate, lower and check, each at its best of
 * several times. Memory that was used before is quicker than memory fresh from the system, so the
 * first time is told too. */

enum { REPEATS = 20 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(tpp_status status) {
    if (status == TPP_OK)
        return;
    fprintf(stderr, "%s: %s\n", tpp_status_name(status), tpp_message());
    exit(1);
}

typedef struct timing {
    double part[3]; /* generate, lower, check */
    double total;
    int64_t actions;
} timing;

static timing once(const tpp_schedule_desc *d) {
    tpp_schedule *s;
    double t[4];
    t[0] = now();
    must(tpp_schedule_create(&s, d));
    t[1] = now();
    must(tpp_schedule_lower(s));
    t[2] = now();
    must(tpp_schedule_check(s, TPP_CHANNEL_POSTED));
    t[3] = now();
    tpp_schedule_info info = {.size = sizeof info};
    must(tpp_schedule_query(s, &info));
    tpp_schedule_destroy(s);
    return (timing){{t[1] - t[0], t[2] - t[1], t[3] - t[2]}, t[3] - t[0], info.actions};
}

static void measure(const char *name, const tpp_schedule_desc *d, int repeats) {
    timing first = once(d), best = first;
    for (int i = 1; i < repeats; i++) {
        timing t = once(d);
        best = t.total < best.total ? t : best;
    }
    printf("%-32s %9lld actions: generate %7.2f, lower %7.2f, check %7.2f, in all %7.2f ms "
           "(first time %.2f), %.1f M actions/s\n",
           name, (long long)best.actions, 1e3 * best.part[0], 1e3 * best.part[1],
           1e3 * best.part[2], 1e3 * best.total, 1e3 * first.total,
           1e-6 * (double)best.actions / best.total);
}

int main(void) {
    tpp_schedule_desc d = {.size = sizeof d, .kind = TPP_SCHEDULE_INTERLEAVED};
    d.ranks = 64;
    d.chunks = 2;
    d.micros = 1024;
    measure("interleaved p 64 v 2 m 1024", &d, REPEATS);
    d.group = 256; /* some receives have to be moved */
    measure("interleaved p 64 v 2 m 1024 g 256", &d, REPEATS);
    d.group = 0;
    d.micros = 13500;
    measure("interleaved p 64 v 2 m 13500", &d, 2);
    d.kind = TPP_SCHEDULE_1F1B;
    d.chunks = 1;
    d.micros = 1024;
    measure("1F1B p 64 m 1024", &d, REPEATS);
    d.kind = TPP_SCHEDULE_GPIPE;
    measure("GPipe p 64 m 1024", &d, REPEATS);
    return 0;
}
