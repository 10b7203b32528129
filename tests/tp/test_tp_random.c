/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* Random configurations against the unsplit reference: outputs, all gradients, memory of exactly the
 * query's size, inputs untouched.
 *
 *     test_tp_random                        all
 *     test_tp_random 'kind=mlp ranks=2 ..'  one, as a failure prints it
 *
 * Every configuration runs in a child process, so that one that fails, crashes or hangs can be made
 * smaller: as long as a smaller one fails too, that one is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/tp_draw.h"

#ifdef __SANITIZE_ADDRESS__
enum { DRAWS = 1500 };
#else
enum { DRAWS = 10500 };
#endif

/* Configurations that a child does one after the other. */
enum { BATCH = 250 };

static void check(const tp_draw *draw) {
    tp_draw_desc room;
    tp_case c = tp_draw_case(draw, &room);
    tp_setup setup = tp_draw_setup(draw);
    tp_full *full = tp_draw_full(draw, &c, &room);
    tp_result *result = tp_run(&c, full, &setup);
    if (setup.dtype == TPP_BF16)
        tp_check_beside(result, full, 8.0 / 256, 1.0 / 8);
    else
        tp_check(result, full, setup.dtype == TPP_F64 ? 1e-13 : 1e-5);
    tp_result_free(result);
    tp_full_free(full);
}

/* How many of the draws a child found good before one failed. It tells by bytes in a pipe. */
static int good_ones(const tp_draw *draws, int count) {
    int ends[2];
    fflush(NULL);
    if (pipe(ends) != 0)
        abort();
    pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        alarm(120);
        for (int i = 0; i < count; i++) {
            check(&draws[i]); /* outside of a cmocka test a failure ends the process */
            if (write(ends[1], "", 1) != 1)
                _exit(1);
        }
        _exit(0);
    }
    close(ends[1]);
    int good = 0;
    char byte;
    while (read(ends[0], &byte, 1) == 1)
        good++;
    close(ends[0]);
    waitpid(child, NULL, 0);
    return good;
}

/* The smallest failing configuration that single steps lead to. */
static tp_draw shrink(tp_draw failing) {
    tp_draw smaller;
    for (int attempt = 0; tp_draw_smaller(&failing, attempt, &smaller); attempt++) {
        if (!memcmp(&smaller, &failing, sizeof smaller) || !tp_draw_legal(&smaller))
            continue;
        if (good_ones(&smaller, 1) == 0) {
            failing = smaller;
            attempt = -1;
        }
    }
    return failing;
}

static void report(const tp_draw *failing, const char *program) {
    char text[TP_DRAW_TEXT];
    tp_draw_tell(failing, text);
    printf("FAILED:  %s '%s'\n", program, text);
    fflush(stdout);
    tp_draw small = shrink(*failing);
    tp_draw_tell(&small, text);
    printf("smaller: %s '%s'\n", program, text);
}

static int run_all(const char *program) {
    tp_draw draws[BATCH];
    for (int first = 0; first < DRAWS; first += BATCH) {
        for (int i = 0; i < BATCH; i++)
            draws[i] = tp_draw_new((uint64_t)(first + i));
        int good = good_ones(draws, BATCH);
        if (good < BATCH) {
            report(&draws[good], program);
            return 1;
        }
    }
    printf("%d configurations agree with the reference\n", DRAWS);
    return 0;
}

static void test_one(void **state) {
    check(*state);
}

int main(int argc, char **argv) {
    tp_draw draw;
    if (argc < 2)
        return run_all(argv[0]);
    if (!tp_draw_read(&draw, argv[1])) {
        fprintf(stderr, "%s: not a legal configuration: %s\n", argv[0], argv[1]);
        return 2;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_one, &draw)};
    return cmocka_run_group_tests_name("test_tp_random", tests, NULL, NULL);
}
