/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "sched/two_chunks.h"

/* `both` says two steps, `one` the first of them. */
static void alternate(tpp__sched_two_chunks *c, int32_t steps, const char *both, const char *one) {
    tpp__sched_phase(c, steps / 2, both);
    tpp__sched_phase(c, steps % 2, one);
}

/* The directions meet: the first to come back is alone. */
static void steady(tpp__sched_two_chunks *c, int32_t to_turn, int32_t pairs) {
    if (to_turn == 0)
        tpp__sched_phase(c, 1, "F0B1F1&B0");
    tpp__sched_phase(c, to_turn == 0 ? pairs - 1 : pairs, "F0&B1F1&B0");
}

/* The last backwards. Half way through their weight gradients begin to wait; they fill the time until
 * the last gradients arrive, oldest first. Of the first from_end + 1 that wait, the one after k others is
 * of chunk (k + from_end) mod 2, the later ones are of chunk 0. */
static void drain(tpp__sched_two_chunks *c, int32_t from_end, int32_t to_turn) {
    bool odd = from_end % 2 == 1;
    int32_t whole = (from_end + 1) / 2, mixed = to_turn < from_end + 1 ? to_turn : from_end + 1;
    tpp__sched_phase(c, whole, "B1B0");
    if (!odd)
        tpp__sched_phase(c, 1, "B1I0");
    tpp__sched_phase(c, from_end - whole + (odd ? 1 : 0), "I1I0");
    alternate(c, mixed, odd ? "W1I0W0I0" : "W0I0W1I0", odd ? "W1I0" : "W0I0");
    tpp__sched_phase(c, to_turn - mixed, "W0I0");
    odd = (from_end + mixed) % 2 == 1;
    alternate(c, from_end + 1 - mixed, odd ? "W1W0" : "W0W1", odd ? "W1" : "W0");
    tpp__sched_phase(c, mixed, "W0");
}

void tpp__sched_dual(tpp__sched_two_chunks *c, int32_t from_end, int32_t to_turn, int32_t spare) {
    tpp__sched_phase(c, 2 * to_turn, "F0");
    tpp__sched_phase(c, from_end + 1, "F0F1");
    tpp__sched_phase(c, to_turn, "I1W1F1");
    steady(c, to_turn, spare + from_end + 1);
    tpp__sched_phase(c, to_turn, "B1F1&B0");
    drain(c, from_end, to_turn);
}
