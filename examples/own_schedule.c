/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* A pipeline schedule of one's own: a small greedy scheduler decides what each rank does, unit of
 * time by unit of time. What it decided becomes a schedule, which is proved, simulated and drawn.
 *
 *     own_schedule [picture.svg]
 */
#include <stdio.h>
#include <tpp/tpp.h>

enum { RANKS = 4, STAGES = 2 * RANKS, MICROS = 8, IN_FLIGHT = RANKS + 1 };

/* Stages go down the ranks and up again, so that the first rank also has the loss. */
static const int32_t rank_of[STAGES] = {0, 1, 2, 3, 3, 2, 1, 0};

/* Units of time in which F and I of each stage and micro-batch ended; 0: not done yet. */
static int forward[STAGES][MICROS], backward[STAGES][MICROS], weights[STAGES][MICROS];

static int may_forward(int s, int i, int now) {
    if (forward[s][i])
        return 0;
    if (s > 0)
        return forward[s - 1][i] && forward[s - 1][i] <= now;
    /* A new micro-batch begins when enough of the others have left. */
    return i < IN_FLIGHT || weights[0][i - IN_FLIGHT];
}

static int may_backward(int s, int i, int now) {
    if (backward[s][i] || !forward[s][i])
        return 0;
    return s == STAGES - 1 || (backward[s + 1][i] && backward[s + 1][i] <= now);
}

/* What the rank does from `now` to now + 1: an I if it can, else an F of its later stage, else one
 * of its first, else a W that is left over. Returns 1, and the action, or 0: nothing. */
static int choose(int rank, int now, tpp_op *op, int *stage, int *micro) {
    static const tpp_op wishes[] = {TPP_OP_I, TPP_OP_F, TPP_OP_W};
    for (int w = 0; w < 3; w++) {
        for (int s = STAGES - 1; s >= 0; s--) {
            for (int i = 0; i < MICROS && rank_of[s] == rank; i++) {
                *op = wishes[w], *stage = s, *micro = i;
                if ((*op == TPP_OP_I && may_backward(s, i, now)) ||
                    (*op == TPP_OP_F && may_forward(s, i, now)) ||
                    (*op == TPP_OP_W && backward[s][i] && !weights[s][i]))
                    return 1;
            }
        }
    }
    return 0;
}

static tpp_status decide(tpp_schedule *schedule) {
    int left = 3 * STAGES * MICROS;
    for (int now = 0; left > 0; now++) {
        for (int rank = 0; rank < RANKS; rank++) {
            tpp_op op;
            int stage, micro;
            if (!choose(rank, now, &op, &stage, &micro))
                continue;
            int(*done)[MICROS] = op == TPP_OP_F ? forward : op == TPP_OP_I ? backward : weights;
            done[stage][micro] = now + 1;
            left--;
            tpp_status st = tpp_schedule_add(schedule, rank, op, stage, micro, 0);
            if (st < 0)
                return st;
        }
    }
    return TPP_OK;
}

static tpp_status to_file(void *ctx, const char *bytes, int64_t count) {
    return fwrite(bytes, 1, (size_t)count, ctx) == (size_t)count ? TPP_OK : TPP_ERR_USER;
}

/* Every action takes half a unit, a chunk being half of a rank's part of the model. */
static tpp_status simulate(const tpp_schedule *schedule, tpp_trace *trace) {
    static _Alignas(64) char memory[1 << 16];
    double half[STAGES], whole[STAGES];
    for (int s = 0; s < STAGES; s++)
        half[s] = 0.5, whole[s] = 1;
    tpp_sim_desc costs = {.size = sizeof costs, .stages = STAGES, .forward = half};
    costs.backward = whole, costs.backward_input = half, costs.backward_weight = half;
    int32_t peak[RANKS];
    tpp_run_report report = {.size = sizeof report, .row_peak = peak};
    tpp_run run = {.size = sizeof run, .schedule = schedule, .trace = trace};
    run.memory = memory, run.memory_bytes = sizeof memory;
    tpp_executor *simulator = NULL;
    tpp_status st = tpp_executor_sim_create(&simulator, &costs);
    if (st == TPP_OK)
        st = tpp_executor_run(simulator, &run, &report);
    tpp_executor_destroy(simulator);
    if (st < 0)
        return st;
    printf("makespan %.1f, idle %.1f of it; chunk forwards held at most:", report.makespan,
           report.bubble_global);
    for (int r = 0; r < RANKS; r++)
        printf(" %d", (int)peak[r]);
    printf("\n");
    return TPP_OK;
}

static tpp_status draw(const tpp_trace *trace, const char *path) {
    FILE *file = fopen(path, "w");
    if (!file)
        return TPP_ERR_USER;
    tpp_trace_svg_desc desc = {.size = sizeof desc, .title = "A schedule of one's own", .unit = ""};
    tpp_status st = tpp_trace_write_svg(trace, &desc, to_file, file);
    return fclose(file) == 0 ? st : TPP_ERR_USER;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "own_schedule.svg";
    tpp_schedule_build_desc desc = {.size = sizeof desc, .ranks = RANKS, .rank_of = rank_of};
    desc.stages = STAGES, desc.micros = MICROS;
    tpp_schedule *schedule = NULL;
    tpp_trace *trace = NULL;
    tpp_status st = tpp_schedule_build(&schedule, &desc);
    if (st == TPP_OK && (st = decide(schedule)) == TPP_OK)
        st = tpp_schedule_write_csv(schedule, TPP_CSV_SLOTS, to_file, stdout); /* for PyTorch */
    if (st == TPP_OK && (st = tpp_schedule_lower(schedule)) == TPP_OK)
        st = tpp_schedule_finish(schedule); /* complete, in order, free of deadlock */
    if (st == TPP_OK && (st = tpp_trace_create(&trace, RANKS, 6 * MICROS, NULL)) == TPP_OK)
        st = simulate(schedule, trace);
    if (st == TPP_OK)
        st = draw(trace, path);
    if (st < 0)
        printf("%s: %s\n", tpp_status_name(st), tpp_message());
    tpp_trace_destroy(trace);
    tpp_schedule_destroy(schedule);
    return st < 0;
}
