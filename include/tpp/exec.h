/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_EXEC_H
#define TPP_EXEC_H

/**
 * @file exec.h
 * An executor follows a finished schedule. Built in: the simulator (times only), serial (one thread
 * per lane plays all pipeline ranks in a fixed order: for debugging), threads (one thread per
 * pipeline rank and lane), distributed (one pipeline rank alone; the others are other processes, or
 * threads of the host's). A host brings its own as a table of functions.
 *
 *     tpp_executor *e;
 *     tpp_executor_threads_create(&e, 4, 2, NULL);    // 4 pipeline ranks x 2 lanes
 *     tpp_run run = {0};
 *     run.size = sizeof run;
 *     run.schedule = schedule;
 *     run.lanes = 2;
 *     run.ranks = ranks;                              // [4 * 2]: comm, stage callbacks, context
 *     run.message_count = tokens * hidden;
 *     run.message_dtype = TPP_F32;
 *     tpp_executor_query(e, &run, &bytes);
 *     run.memory = my_alloc(bytes);
 *     run.memory_bytes = bytes;
 *     for (run.step = 0; run.step < steps; run.step++)
 *         tpp_executor_run(e, &run, &report);
 *
 * What a step will take and hold, before there is anything to run:
 *
 *     double f[4] = {1, 1, 1, 1}, b[4] = {2, 2, 2, 2}, held[4] = {3e9, 1e9, 1e9, 2e9}, peak[4];
 *     tpp_sim_desc d = {0};
 *     d.size = sizeof d;
 *     d.stages = 4;
 *     d.forward = f;
 *     d.backward = b;
 *     d.memory = held;
 *     tpp_executor *sim;
 *     tpp_executor_sim_create(&sim, &d);
 *     run.ranks = NULL;
 *     run.lanes = 1;
 *     report.row_memory = peak;
 *     tpp_executor_run(sim, &run, &report);           // report.makespan, .bubble_span, peak
 *
 * A pipeline rank has `lanes` lanes: the tensor-parallel ranks that work on the same stages. Lane j
 * of rank r is entry r * lanes + j of run.ranks, and row r * lanes + j of a trace. It sends to and
 * receives from lane j of other ranks, over its own comm (a group of the pipeline's ranks).
 *
 * Which one. Threads is for work; its callbacks of different ranks run at the same time. Serial
 * takes the actions of all ranks in an order that depends on the schedule alone, never on how fast
 * messages travel: the same run again and again. The simulator needs no comms and no callbacks, and
 * takes run.lanes as 1. Distributed is for a rank that has a process to itself: every rank makes one
 * of its own and runs it with the same schedule and step, over a comm whose transport joins them. Its
 * run.ranks, trace and report have the rows of that rank alone: lane j is entry j.
 *
 * What flows. Stage s's output is stage s + 1's input: message_count elements. The executor owns
 * these buffers (in run.memory), one set per stash slot, and stage callbacks get pointers to them:
 * `in` of F stays as it is until B (or W) of the same micro-batch, and so does grad_out between I
 * and W. Between two stages of one rank nothing is copied: the next stage is given the same buffer.
 * So a slot's pointers may differ from one micro-batch to the next.
 *
 * Transports. A message is posted and not awaited until its buffer is needed again; all are awaited
 * before a run ends. While a rank waits for one message, the executors also call tpp_comm_test on
 * its other requests, unless the transport has a wait of its own (tpp_comm_ops.wait): that one must
 * move all messages of the handle. If callbacks wait for other lanes, posted messages must move on
 * without being asked after, as those of local comms do.
 *
 * Times. Events of a trace are in seconds since the executor was created, so that the steps of one
 * executor stand one behind the other; those of the simulator are in units of its costs and start
 * at 0 in every run.
 *
 * Failures. The first callback or comm that fails stops the run: every comm and stage of the run is
 * aborted, so no rank waits for ever (distributed: those of its rank; the comm's abort tells the
 * others), and tpp_executor_run returns that first failure with a
 * message that names rank, lane and action, such as "rank 1 lane 0, 1F3: ..." (stage 1, forward,
 * micro-batch 3). Only a TPP_ERR_ABORTED gives way to a later failure, which then tells why. A
 * callback that returns a positive status fails with TPP_ERR_INVALID. The comms are then of no
 * further use; everything can be destroyed. An executor never allocates while it runs.
 */

#include <tpp/comm.h>
#include <tpp/schedule.h>
#include <tpp/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tpp_executor tpp_executor;

/** What a stage callback works on. */
typedef struct tpp_stage_call {
    uint32_t size;
    uint32_t flags;       /**< 0 */
    uint64_t step;        /**< run.step */
    int32_t rank;         /**< pipeline rank */
    int32_t lane;         /**< lane */
    int32_t stage;        /**< virtual stage */
    int32_t chunk;        /**< which of the rank's chunks that is */
    int32_t micro;        /**< micro-batch */
    int32_t slot;         /**< stash slot, 0 .. slots of this rank - 1; the same from F to B or W */
    const void *in;       /**< the stage's input; NULL for the model's first stage */
    void *out;            /**< F: the stage's output; NULL for the model's last stage */
    const void *grad_out; /**< B, I, W: gradient of the output; NULL for the model's last stage */
    void *grad_in;        /**< B, I: gradient of the input; NULL for the model's first stage */
    int64_t count;        /**< elements of each of these: run.message_count */
    tpp_dtype dtype;      /**< their type: run.message_dtype */
    uint32_t reserved0;   /**< 0 */
    int32_t direction;    /**< 0; of a two-way schedule 0 or 1 */
    int32_t model_stage;  /**< which stage of the model that is: stage mod depth */
} tpp_stage_call;

/** What a stage does. A negative return stops the run. Called on the walker's thread. */
typedef struct tpp_stage_ops {
    uint32_t size;
    uint32_t flags;                                               /**< 0 */
    tpp_status (*forward)(void *ctx, const tpp_stage_call *call); /**< F; required */
    /** B; required if the schedule has B */
    tpp_status (*backward)(void *ctx, const tpp_stage_call *call);
    /** I; required if it has I */
    tpp_status (*backward_input)(void *ctx, const tpp_stage_call *call);
    /** W; required if it has W */
    tpp_status (*backward_weight)(void *ctx, const tpp_stage_call *call);
    /** before the first action of a run, on the walker's thread; NULL: nothing */
    void (*enter)(void *ctx);
    void (*leave)(void *ctx); /**< after the last one, also after a failure; NULL: nothing */
    /** the run has failed: make a running callback fail soon; any thread, also before enter and
     * after leave; NULL: nothing */
    void (*abort)(void *ctx);
    /** F and B of an overlapped pair as one (schedule.h): f with `out`, b with grad_out and grad_in,
     * of two stages or micro-batches; NULL: forward(f), then backward(b) */
    tpp_status (*forward_backward)(void *ctx, const tpp_stage_call *f, const tpp_stage_call *b);
} tpp_stage_ops;

/** One lane of one pipeline rank. Frozen: 32 bytes for ever. */
typedef struct tpp_run_rank {
    /** this rank's handle of the pipeline group; NULL only if there is one rank */
    tpp_comm *comm;
    const tpp_stage_ops *ops; /**< its stages' callbacks */
    void *ctx;                /**< their context */
    uint64_t reserved;        /**< 0 */
} tpp_run_rank;

/** What to run. */
typedef struct tpp_run {
    uint32_t size;
    uint32_t flags;               /**< 0 */
    const tpp_schedule *schedule; /**< finished */
    uint64_t step;                /**< counts the runs; part of every message's tag */
    /** [pipeline ranks * lanes], distributed [lanes]; not used by the simulator */
    const tpp_run_rank *ranks;
    int32_t lanes;           /**< >= 1; 0: 1 */
    tpp_dtype message_dtype; /**< of what flows between stages */
    int64_t message_count;   /**< elements of it, >= 0 */
    void *memory;            /**< tpp_executor_query tells how much; aligned to 64 */
    int64_t memory_bytes;
    /** filled with one event per compute action and per receive that took time (simulator: none of
     * these, but one per optimizer step); at least ranks * lanes rows (simulator: ranks,
     * distributed: lanes); NULL: none */
    tpp_trace *trace;
} tpp_run;

/** What came of it. All times in seconds, or units of the simulator's costs. */
typedef struct tpp_run_report {
    uint32_t size;
    uint32_t flags;       /**< 0 */
    double makespan;      /**< first start to last end over all ranks */
    double work;          /**< largest sum of compute times of a row */
    double bubble_global; /**< largest (makespan - work of the row) over rows */
    double bubble_span;   /**< largest (last end - first start - work) over rows */
    /** caller's array [ranks * lanes], filled (simulator: the first `ranks`), distributed [lanes];
     * NULL: not wanted */
    double *row_work;
    /** caller's array, as long: most stash slots in use at once; NULL: not wanted */
    int32_t *row_peak;
    int32_t failed_rank; /**< of a run that failed in an action: where; else -1 */
    int32_t failed_lane; /**< -1 likewise, as the next two */
    int32_t failed_stage;
    int32_t failed_micro;
    tpp_op failed_op;   /**< 0 likewise */
    uint32_t reserved0; /**< 0 */
    /** caller's array [ranks * lanes]: most bytes held at once, tpp_sim_desc.memory_state included;
     * 0 from executors other than the simulator; NULL: not wanted */
    double *row_memory;
    /** caller's array [ranks * lanes]: most chunk forwards held at once from F to B or I, as
     * row_peak counts them to B or W; NULL: not wanted */
    int32_t *row_peak_input;
    /** caller's array: a critical path, from the first moment to the makespan (simulator only; see
     * tpp_executor_sim_create); NULL: not wanted */
    tpp_event *path;
    int64_t path_room;  /**< entries of path; tpp_schedule_info.actions + ranks always suffice */
    int64_t path_count; /**< events of the path; of more than path_room, path has the first ones */
    /** from one step to the next: the makespan if ranks wait for each other before the optimizer
     * step (TPP_SIM_BARRIER), else the longest span of a row, first start to last end, as
     * zero-bubble papers count; 0 when nothing ran */
    double period;
    /** caller's arrays [ranks * lanes]: when the row began its first action, and ended its last one
     * or its optimizer step, by the clock of traces; both 0 of a row without any; NULL: not wanted */
    double *row_first;
    double *row_last;
} tpp_run_report;

/* tpp_sim_desc.flags */
/** A message occupies its rank as well as its link: what the rank does next begins when the message
 * has left. Without send_forward and send_backward it changes nothing. */
#define TPP_SIM_BLOCKING 1
/** The optimizer steps begin when all ranks have ended (and sent, if that blocks): ranks wait for
 * each other, as for the norm of all gradients. Without it a rank steps when it has ended. */
#define TPP_SIM_BARRIER 2
/** Between two stages that are different chunks of their ranks, only micro-batches whose number the
 * ranks divide wait for each other. Not a machine that can be built: it is how the published
 * figures of interleaved 1F1B in the zero-bubble paper (Qi et al. 2023) were computed. */
#define TPP_SIM_PAPER_EDGES 4

/**
 * Costs for the simulator. Arrays have one number per virtual stage, >= 0, and are copied; so a
 * chunk of a rank has its own. Time is in any unit, memory in bytes or any other one.
 */
typedef struct tpp_sim_desc {
    uint32_t size;
    uint32_t flags;                /**< TPP_SIM_... or 0 */
    int32_t stages;                /**< entries of the arrays */
    uint32_t reserved0;            /**< 0 */
    const double *forward;         /**< time of F, >= 0; required */
    const double *backward;        /**< time of B; NULL: input + weight, then required */
    const double *backward_input;  /**< time of I; NULL: half of backward */
    const double *backward_weight; /**< time of W; NULL: half of backward */
    /** time that a message is under way, from its end on the sender's link to its arrival; occupies
     * neither rank nor link; 0: none */
    double latency;
    const tpp_allocator *allocator; /**< NULL: malloc */
    /** what a micro-batch holds from the start of F to the end of B or I, of a schedule without
     * backwards to the end of F; NULL: nothing */
    const double *memory;
    /** what it holds from the end of I to the end of W; NULL: as `memory` */
    const double *memory_weight;
    const double *memory_state; /**< what a stage holds always; NULL: nothing */
    /** time of an overlapped pair (TPP_ACTION_FUSED) whose F is of this stage; NULL: the F's and
     * the B's time together */
    const double *fused;
    /** time that the output of a stage occupies the link to the rank of the next one, bytes by
     * bandwidth. From one rank to another there is one link (there and back are two), which carries
     * one message after the other in the order of the actions that made them. NULL: 0 */
    const double *send_forward;
    const double *send_backward; /**< the same of the gradient that a stage sends back; NULL: 0 */
    /** latency between a stage and the next one, both ways; the last stage's is not used; NULL:
     * `latency` everywhere, else that is not used */
    const double *edge_latency;
    /** time of a stage's optimizer step, after all actions of its rank; NULL: there is none, and a
     * run ends with its last action */
    const double *optimizer;
} tpp_sim_desc;

/** Work for tpp_executor_each; returns TPP_OK or a failure. */
typedef tpp_status (*tpp_each_fn)(void *arg, int32_t rank, int32_t lane);

/** Flags of tpp_executor_ops. */
enum {
    /** run.ranks, run.trace and the report's arrays have run.lanes rows, those of one rank. */
    TPP_EXECUTOR_OWN_ROWS = 1
};

/** An executor of the host. */
typedef struct tpp_executor_ops {
    uint32_t size;
    uint32_t flags; /**< TPP_EXECUTOR_... */
    /** Follow run->schedule. It, run->lanes (>= 1) and run->message_count were checked before; the
     * rest is as the caller gave it. Fill *report, which the library has set to zero (failed_rank
     * to failed_micro to -1; the caller's arrays to zero as well). */
    tpp_status (*run)(void *ctx, const tpp_run *run, tpp_run_report *report);
    /** Call fn(arg, rank, lane) once for each, on the thread that would walk it; NULL: one
     * after the other on the caller's thread (fn must then not communicate at all). */
    tpp_status (*each)(void *ctx, int32_t ranks, int32_t lanes, tpp_each_fn fn, void *arg);
    void (*destroy)(void *ctx); /**< NULL: nothing to free */
    /** Bytes of run->memory that run needs, into *bytes; NULL: none. */
    tpp_status (*query)(void *ctx, const tpp_run *run, int64_t *bytes);
} tpp_executor_ops;

/**
 * The simulator: follows the schedule with given costs. Linear in the number of actions. It knows
 * every schedule that can be finished: halves, overlapped pairs, two directions, forward alone.
 *
 * An action starts when its rank is free and all it needs has arrived; an overlapped pair when all
 * that both need has, and its two events have the same times. A result leaves when its action ends,
 * wherever the SEND stands. Optimizer steps are part of makespan, spans and work.
 *
 * Bubbles are idle time of the rank that idles longest: bubble_global within the makespan,
 * bubble_span within the rank's own span. A fraction of the total is bubble_global / makespan or
 * bubble_span / period (no barrier), a fraction of the ideal is either / work.
 *
 * Path: events one after the other without a gap, from 0 to the makespan, each the reason why the
 * next one starts no earlier. F, B, I, W stand for actions (of an overlapped pair both events);
 * SEND_F and SEND_B for messages, with the sending stage and rank and the peer, from when the link
 * is theirs to their arrival, or to when the link, or the rank, is free again, if that is the
 * reason; TPP_OP_STEP for the optimizer step of a rank. Messages that take no time are left out.
 * Where there are several such paths, the one that stays longest on the rank, from the end.
 *
 * @return TPP_OK; TPP_ERR_INVALID (a cost negative or not finite: names it); TPP_ERR_TOO_NEW;
 *         TPP_ERR_NO_MEMORY.
 *
 * Running it needs memory as tpp_run_query says for run.ranks = NULL: 40 bytes a stage and
 * micro-batch (of which 24 are touched only for report.path), 104 a stage, 84 a rank, and less than
 * 1 KB more. Ten million F and B thus need 200 MB, beside the schedule's own 24 bytes an action,
 * messages among them. A run with another number of stages is TPP_ERR_INVALID.
 * Memory: destroy with tpp_executor_destroy. Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_executor_sim_create(tpp_executor **out, const tpp_sim_desc *desc);

/**
 * One thread per lane plays all pipeline ranks in a fixed order. Lane 0 runs on the caller's
 * thread.
 *
 * @param lanes >= 1; runs must have as many.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_NO_MEMORY (also when the system has no more threads).
 *
 * Memory: threads live until destroy and sleep between runs. Since: 0.1.
 */
TPP_API tpp_status tpp_executor_serial_create(tpp_executor **out, int32_t lanes,
                                              const tpp_allocator *allocator);

/**
 * One thread per pipeline rank and lane. Rank 0, lane 0 runs on the caller's thread.
 *
 * @param ranks,lanes >= 1; runs must have as many.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_OVERFLOW; TPP_ERR_NO_MEMORY (also when the system has no
 *         more threads).
 *
 * Memory: threads live until destroy and sleep between runs. Since: 0.1.
 */
TPP_API tpp_status tpp_executor_threads_create(tpp_executor **out, int32_t ranks, int32_t lanes,
                                               const tpp_allocator *allocator);

/**
 * One pipeline rank; the others run executors of their own, over comms of the same group. Lane 0
 * runs on the caller's thread, each other lane on a thread of its own.
 *
 * @param rank  >= 0, the rank of run.ranks[].comm; runs must have more ranks.
 * @param lanes >= 1; runs must have as many.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_NO_MEMORY (also when the system has no more threads).
 *
 * Memory: threads live until destroy and sleep between runs. Comm: a failure on this rank ends the
 * others as soon as the transport's abort reaches them, else by the deadline of their waits.
 * Since: 0.1.
 */
TPP_API tpp_status tpp_executor_distributed_create(tpp_executor **out, int32_t rank, int32_t lanes,
                                                   const tpp_allocator *allocator);

/**
 * The host's executor.
 *
 * @param ops copied; run must be set. @param ctx first argument of its functions.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_TOO_NEW; TPP_ERR_NO_MEMORY (ctx then stays the
 *         caller's). Since: 0.1.
 */
TPP_API tpp_status tpp_executor_create(tpp_executor **out, const tpp_executor_ops *ops, void *ctx,
                                       const tpp_allocator *allocator);

/**
 * Bytes of run.memory that this executor needs. run.ranks, run.memory and run.trace are not looked at.
 *
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_OVERFLOW; the failure of the host's ops.query. Threads: any.
 *         Since: 0.1.
 */
TPP_API tpp_status tpp_executor_query(const tpp_executor *executor, const tpp_run *run,
                                      int64_t *bytes);

/**
 * Bytes of run.memory that suffice for serial and threads, without an executor. run.memory and
 * run.trace are not looked at; with run.ranks NULL the answer is for the simulator.
 *
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_OVERFLOW. Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_run_query(const tpp_run *run, int64_t *bytes);

/**
 * Run one step.
 *
 * @param report size must be set; filled also when the run fails; NULL: not wanted.
 * @return TPP_OK; TPP_ERR_INVALID (schedule not finished, lanes differ, a callback missing, ...);
 *         TPP_ERR_TOO_SMALL (names the need); TPP_ERR_OVERFLOW (the simulator: costs that add up to
 *         more than a double holds); else the first failure of a callback or comm.
 *
 * Threads: one run of an executor at a time. Comm: the schedule's messages. Since: 0.1.
 */
TPP_API tpp_status tpp_executor_run(tpp_executor *executor, const tpp_run *run,
                                    tpp_run_report *report);

/**
 * Call fn once per rank and lane, on the thread that would walk it: for optimizer steps, for
 * initialisation, or to run layers without a pipeline. The lanes of a rank run at the same time and
 * may talk over their tensor-parallel group; fn must not wait for another pipeline rank's call, unless
 * all have threads of their own (threads). Distributed calls fn for its own rank alone, which may
 * wait for the others.
 *
 * @param ranks,lanes >= 1, and those that the executor was made for (distributed: ranks > its rank).
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_OVERFLOW; else the failure of the lowest rank and lane
 *         that failed, with its message (all are called; nothing is aborted). Since: 0.1.
 */
TPP_API tpp_status tpp_executor_each(tpp_executor *executor, int32_t ranks, int32_t lanes,
                                     tpp_each_fn fn, void *arg);

/** Free an executor, end its threads; NULL is fine. Since: 0.1. */
TPP_API void tpp_executor_destroy(tpp_executor *executor);

#ifdef __cplusplus
}
#endif

#endif
