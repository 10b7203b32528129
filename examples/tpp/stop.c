/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>

/* Written by a signal handler, which may be on any thread; read by several. */
static atomic_int asked;

static void note(int number) {
    atomic_store(&asked, number);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

void stop_watch(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = note;
    action.sa_flags = SA_RESTART; /* the step under way ends as if nothing had happened */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int stop_signal(void) {
    return atomic_load(&asked);
}
