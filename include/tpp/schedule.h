/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_SCHEDULE_H
#define TPP_SCHEDULE_H

/**
 * @file schedule.h
 * A pipeline schedule is data: per rank an ordered list of actions. It is generated (or read from
 * text), lowered (messages and stash slots are added), checked (complete, in order, free of
 * deadlock), finished (immutable), and then followed by any executor (exec.h). No comm, layer or
 * clock is involved: this part of the library is integers only.
 *
 *     tpp_schedule_desc d = {0};
 *     d.size = sizeof d;
 *     d.kind = TPP_SCHEDULE_1F1B;
 *     d.ranks = 4;
 *     d.micros = 8;
 *     tpp_schedule *s;
 *     tpp_schedule_make(&s, &d);                   // generate, lower, check, finish
 *     int64_t n;
 *     const tpp_action *a = tpp_schedule_actions(s, 0, &n);
 *     tpp_schedule_destroy(s);
 *
 * Words. A model is cut into `stages` = ranks * chunks virtual stages; stage s of a looped
 * placement lies on rank s mod ranks, as its chunk s / ranks. A step passes `micros` micro-batches
 * through all stages. F(s, i) needs F(s-1, i); B(s, i) and I(s, i) need F(s, i) and B or I(s+1, i);
 * W(s, i) needs I(s, i). Between F and B (or W) a micro-batch occupies a stash slot of its rank. A
 * schedule with F only (serving, evaluation) is right too: there a slot is free again after F, or
 * some F later where ranks would wait for each other's slots in a ring.
 *
 * Placements. Looped: as above. V: rank r has stages r and 2 * ranks - 1 - r. Two-way: the model's
 * stages stand twice; direction 0 is stages 0 .. ranks - 1, stage r on rank r; direction 1 is stages
 * ranks .. 2 * ranks - 1, the model's stage k as stage ranks + k on rank ranks - 1 - k. Nothing passes
 * between the directions: stages ranks - 1 and ranks are both ends. Direction 0 has the first half of
 * the micro-batches (one more, if their number is odd), direction 1 the others.
 *
 * Overlapped pairs. An F with TPP_ACTION_FUSED and the action after it, a B of the same rank, are one
 * atom: the inputs of both are received before, the results of both sent after, and an executor may
 * run them together. Neither may need the other.
 *
 * Bubbles (makespan less work) of equal stages, times t_f, t_i, t_w of a rank with all its chunks,
 * t_b = t_i + t_w, micros >= ranks, chosen groups: GPIPE, 1F1B, EAGER_1F1B (p - 1)(t_f + t_b);
 * INTERLEAVED, BFS that / v; ZB_H1 (p - 1)(t_f + t_i - t_w), ZB_INTERLEAVED that / v, if t_w <= t_i.
 * Every kind takes any number of micro-batches; with fewer than ranks ask the simulator (exec.h).
 * In all of them the weight gradients of a stage are added in rising order of micro-batches.
 *
 * Text form: one line per rank, actions separated by one blank: "0F0 0F1 0B0", stage, operation,
 * micro-batch; operations F B I W SEND_F RECV_F SEND_B RECV_B. An overlapped pair is
 * "(0F3;7B1)OVERLAP_F_B", a rank without actions "-". Two-way schedules have a line "directions 2"
 * before. (With one micro-batch direction 1 has nothing to do: its stages, which no line names, are
 * taken to lie mirrored.)
 *
 * CSV: what torch.distributed.pipelining writes and reads (tpp_schedule_write_csv).
 *
 * Limits: ranks * chunks <= 2^20, chunks <= 2^16, micros <= 2^20; stages * micros < 2^31 and
 * actions of a rank < 2^31, else TPP_ERR_OVERFLOW.
 */

#include <tpp/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tpp_schedule tpp_schedule;

/** The built-in orders, for any number of ranks and micro-batches. W of a stage come in rising order
 * of micro-batches in all of them. */
typedef int32_t tpp_schedule_kind;
enum {
    TPP_SCHEDULE_GPIPE = 1, /**< all forwards, then all backwards (Huang et al. 2019) */
    /** one forward, one backward (PipeDream-Flush, Narayanan et al. 2021) */
    TPP_SCHEDULE_1F1B = 2,
    TPP_SCHEDULE_INTERLEAVED = 3, /**< 1F1B over several chunks per rank (Narayanan et al. 2021) */
    /** all micro-batches through a chunk, then through the next (Lamy-Poirier 2023); backwards in
     * rising order of micro-batches too; for weights that are gathered chunk by chunk */
    TPP_SCHEDULE_BFS = 4,
    /** 1F1B that runs twice as far ahead, so that messages are hidden (Zhuang et al. 2023) */
    TPP_SCHEDULE_EAGER_1F1B = 5,
    TPP_SCHEDULE_FORWARD_ONLY = 6, /**< no backward: serving, evaluation */
    /** I and W apart, W fills the waits; the memory of 1F1B's first rank (Qi et al. 2023) */
    TPP_SCHEDULE_ZB_H1 = 10,
    /** twice that memory less one micro-batch, no wait from first to last action if t_f = t_i = t_w
     * and micros >= 2 ranks - 1 (Qi et al. 2023) */
    TPP_SCHEDULE_ZB_H2 = 11,
    TPP_SCHEDULE_ZB_INTERLEAVED = 12, /**< ZB-H1 over several chunks per rank (PyTorch 2024) */
    /** PyTorch's zero bubble on the V placement: with equal costs no bubble in the span, half of
     * (p - 1) t_f in the step, in the memory of 1F1B on every rank (Qi et al., "Pipeline Parallelism
     * with Controllable Memory", 2024) */
    TPP_SCHEDULE_ZB_V = 20,
    /** the same paper: (p + 2) div 2 micro-batches in flight, with equal costs half of 1F1B's
     * bubble or less */
    TPP_SCHEDULE_V_HALF = 21,
    /** the same paper: (p + 4) div 3 in flight, with equal costs two thirds of 1F1B's bubble or
     * less; unequal costs of F, I and W cost it more than the others */
    TPP_SCHEDULE_V_MIN = 22,
    /** 1F1B on the V placement, no W apart: (2p + 3) div 3 in flight, a bubble below 1F1B's */
    TPP_SCHEDULE_V_1F1B = 23,
    /** two directions with overlapped pairs: m >= 2p, F = I = W and a pair taking t give a bubble of
     * (p/2 - 1) (t - w); p + 1 in flight on every rank; each rank has two stages' parameters
     * (DeepSeek-V3 Technical Report, 2024). An odd m has one fewer in direction 1; an odd p gives the
     * middle rank the same stage of both directions. */
    TPP_SCHEDULE_DUALPIPE = 30,
    /** DualPipe of 2p ranks folded onto p: V placement, each parameter once, p + 1/2 in flight */
    TPP_SCHEDULE_DUALPIPEV = 31
};

/** Which rank a stage lies on. */
typedef int32_t tpp_placement;
enum {
    TPP_PLACEMENT_LOOPED = 1,  /**< stage s on rank s mod ranks */
    TPP_PLACEMENT_V = 2,       /**< down the ranks and up again: 2 stages a rank */
    TPP_PLACEMENT_TWO_WAY = 3, /**< the model twice, in both directions: 2 stages a rank */
    TPP_PLACEMENT_OWN = 4      /**< desc.rank_of */
};

/* tpp_schedule_desc.flags */
#define TPP_SCHEDULE_UNFUSED 1 /* DUALPIPE, DUALPIPEV: F and B of a pair stand apart, F first */

/* tpp_action.flags */
#define TPP_ACTION_FUSED 1 /* of an F: one atom with the next action of the rank, a B */

/** What to generate. */
typedef struct tpp_schedule_desc {
    uint32_t size;
    uint32_t flags;         /**< 0 or TPP_SCHEDULE_UNFUSED */
    tpp_schedule_kind kind; /**< which order */
    int32_t ranks;          /**< p, >= 1 */
    /** v, virtual stages per rank; 0: what the kind has, of those that have any number 1 */
    int32_t chunks;
    int32_t micros; /**< m, >= 1 */
    /** INTERLEAVED, ZB_INTERLEAVED, FORWARD_ONLY: micro-batches that pass a chunk before the next
     * chunk's turn, 1 .. micros; the last group may be short. 0: the micro-batches are dealt evenly
     * to max(1, micros div ranks) groups, larger ones first; this keeps the bubble smallest for any
     * micros >= ranks. A last group shorter than the pipeline costs time, above all if
     * group + its size < 2 (ranks - 1), of ZB_INTERLEAVED < ranks - 1. */
    int32_t group;
    uint32_t reserved0;             /**< 0 */
    const tpp_allocator *allocator; /**< NULL: malloc */
    tpp_placement placement;        /**< 0: the kind's own; another one must be one it knows */
    int32_t stages;                 /**< placement OWN: virtual stages of the model; else 0 */
    /** placement OWN: [stages], the rank of each; a rank may have none; else NULL */
    const int32_t *rank_of;
} tpp_schedule_desc;

/** One thing that a rank does. Frozen: 24 bytes for ever. */
typedef struct tpp_action {
    uint8_t op;     /**< TPP_OP_... (base.h) */
    uint8_t flags;  /**< 0 or TPP_ACTION_FUSED */
    uint16_t chunk; /**< chunk of this rank that `stage` is */
    /** virtual stage, 0 .. stages - 1; of a message: the stage that sends or receives here */
    int32_t stage;
    int32_t micro; /**< micro-batch, 0 .. micros - 1 */
    int32_t peer;  /**< rank of the other side of a message; -1 for compute */
    int32_t slot;  /**< stash slot of (stage, micro) on this rank; -1 before lower */
    uint32_t tag;  /**< of a message: equal on both sides, unique among all messages of a step */
} tpp_action;

/** Facts of a schedule. */
typedef struct tpp_schedule_info {
    uint32_t size;
    uint32_t flags;       /**< 0 */
    int32_t ranks;        /**< p */
    int32_t chunks;       /**< v; of a schedule read from text, the most of any rank */
    int32_t stages;       /**< p * v if every rank has v */
    int32_t micros;       /**< m */
    int32_t slots;        /**< most stash slots of any rank; 0 before lower */
    int32_t finished;     /**< 1 after finish */
    int64_t actions;      /**< of all ranks */
    int64_t messages;     /**< of a step, forwards and backwards; 0 before lower */
    int32_t directions;   /**< 1; 2 of a two-way placement */
    int32_t depth;        /**< stages of the model: stages / directions */
    int32_t forward_only; /**< 1: no B, I, W at all */
    int32_t halves;       /**< 1: it has I and W */
    int32_t fused;        /**< 1: it has overlapped pairs */
    uint32_t reserved0;   /**< 0 */
} tpp_schedule_info;

/** How messages travel, for tpp_schedule_check. */
typedef int32_t tpp_channel;
enum {
    /** What the executors do: a send is posted and not awaited, until its buffer (the stash slot's)
     * is needed again; messages are told apart by tag. */
    TPP_CHANNEL_POSTED = 0,
    /** A send blocks until its receive is reached; nothing is buffered; messages are told apart by
     * tag. */
    TPP_CHANNEL_RENDEZVOUS = 1,
    /** One queue from a rank to another: a receive takes the oldest message, whatever it is. */
    TPP_CHANNEL_FIFO_PAIR = 2,
    /** Two queues from a rank to another, for outputs and for gradients. */
    TPP_CHANNEL_FIFO_KIND = 3,
    /** One buffer from a rank to another, from which a receive takes its message by tag. */
    TPP_CHANNEL_TAGGED = 4
};

/**
 * Generate compute actions only. The next steps are lower, check, finish.
 *
 * @param out  receives the schedule.
 * @param desc what to generate.
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value and the rule); TPP_ERR_TOO_NEW;
 *         TPP_ERR_OVERFLOW; TPP_ERR_NO_MEMORY.
 *
 * Memory: destroy with tpp_schedule_destroy; about 24 bytes an action. V_HALF, V_MIN and V_1F1B take
 * about ranks * (72 * micros + 64 * ranks) bytes more until they are made. Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_create(tpp_schedule **out, const tpp_schedule_desc *desc);

/**
 * tpp_schedule_create, _lower, _check (posted), _finish in one: what most callers want.
 *
 * @return as these. Memory, Threads: as tpp_schedule_create. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_make(tpp_schedule **out, const tpp_schedule_desc *desc);

/** Name of a kind: "1f1b", "zb-h1", ...; NULL when there is none. Memory: static. Since: 0.1. */
TPP_API const char *tpp_schedule_kind_name(tpp_schedule_kind kind);

/** The kind of a name: as tpp_schedule_kind_name gives it, or the name of PyTorch's class, such as
 * "Schedule1F1B"; 0 when there is none. Since: 0.1. */
TPP_API tpp_schedule_kind tpp_schedule_kind_of(const char *name);

/** An empty schedule, to be built by hand. */
typedef struct tpp_schedule_build_desc {
    uint32_t size;
    uint32_t flags;     /**< 0 */
    int32_t ranks;      /**< p, >= 1 */
    int32_t stages;     /**< virtual stages of all ranks and directions, >= 1 */
    int32_t micros;     /**< m, >= 1 */
    int32_t directions; /**< 0: 1; 2: two-way, stages 0 .. stages / 2 - 1 and the others */
    /** [stages]: the rank of each, copied; a rank may have none. NULL: looped, in direction 1 from
     * the last rank to the first */
    const int32_t *rank_of;
    const tpp_allocator *allocator; /**< NULL: malloc */
} tpp_schedule_build_desc;

/**
 * Begin a schedule of your own: an empty one, to be filled by tpp_schedule_add, then lowered,
 * checked, finished like any other (lower refuses one that is not complete, by name).
 *
 * @param out receives the schedule.
 * @return TPP_OK; TPP_ERR_INVALID (names the field, its value and the rule); TPP_ERR_TOO_NEW;
 *         TPP_ERR_OVERFLOW; TPP_ERR_NO_MEMORY.
 *
 * Memory: destroy with tpp_schedule_destroy; about 24 bytes an action, at most twice that until it
 * is lowered. Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_build(tpp_schedule **out, const tpp_schedule_build_desc *desc);

/**
 * Append a compute action to those of a rank. Ranks may be filled in any order.
 *
 * @param schedule of tpp_schedule_build, not lowered yet.
 * @param rank     the rank of the stage.
 * @param op       TPP_OP_F, _B, _I or _W; lower adds the messages.
 * @param stage    0 .. stages - 1. @param micro of the stage's direction.
 * @param flags    0; TPP_ACTION_FUSED: an F, and the rank's next action must be a B.
 * @return TPP_OK; TPP_ERR_INVALID (names the argument, its value and the rule); TPP_ERR_OVERFLOW
 *         (too many actions); TPP_ERR_NO_MEMORY. After a failure the schedule is as it was.
 *
 * Threads: one at a time. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_add(tpp_schedule *schedule, int32_t rank, tpp_op op, int32_t stage,
                                    int32_t micro, uint32_t flags);

/**
 * Read the text form, compute actions only or with messages. Placement is taken from the lines: a
 * stage lies on the rank whose line names it, its chunk is its place among that rank's stages in
 * rising order. Stages are 0 .. largest named, micro-batches 0 .. largest named.
 *
 * @param out       receives the schedule: to be lowered when it holds compute actions only, else
 *                  lowered as it is; whether it is right, tpp_schedule_check tells.
 * @param text      `bytes` bytes; lines end in LF or CRLF; blank lines at the end are ignored.
 * @param allocator NULL: malloc.
 * @return TPP_OK; TPP_ERR_PARSE (names line, column and the text found); TPP_ERR_SCHEDULE (a stage
 *         on two ranks, or on none); TPP_ERR_INVALID; TPP_ERR_OVERFLOW (beyond the limits above);
 *         TPP_ERR_NO_MEMORY.
 *
 * Memory, Threads: as tpp_schedule_create. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_parse(tpp_schedule **out, const char *text, int64_t bytes,
                                      const tpp_allocator *allocator);

/* Flags of CSV: the first two of tpp_schedule_write_csv, the others of tpp_schedule_parse_csv. */
#define TPP_CSV_MESSAGES 1 /* with messages; the schedule must be lowered */
/* Compute actions in time slots: each takes one, an overlapped pair one for both, and stands in the
 * first in which its rank is free and all that it needs has ended; cells of idle slots are empty. */
#define TPP_CSV_SLOTS 2
/* Leave out UNSHARD, RESHARD and REDUCE_GRAD, which tell when parameters that data-parallel ranks
 * share are gathered; PyTorch writes them together with messages. */
#define TPP_CSV_SKIP_SHARDING 4
#define TPP_CSV_TWO_WAY 8 /* the stages are those of a two-way schedule; PyTorch has none */

/**
 * Read PyTorch's CSV: a row per rank, in every cell an action as in the text form, or nothing: an
 * idle slot. Placement, stages and micro-batches as in tpp_schedule_parse, and so what `out` is.
 *
 * Read is what PyTorch 2.6 and later write, compute_only or compute_comms. (Before, B was what is I
 * today. The check refuses such files where they have W: "a B stands for I and W already".) Cells
 * are cut as Python's csv module does it: cells may be quoted, rows end in LF, CRLF or CR; blanks
 * around a cell's text do not count. An empty line is a rank without actions, those at the end are
 * ignored.
 *
 * @param text  `bytes` bytes; a UTF-8 byte order mark is passed over.
 * @param flags 0, or of TPP_CSV_SKIP_SHARDING, TPP_CSV_TWO_WAY.
 * @return as tpp_schedule_parse; TPP_ERR_PARSE names row, column (from 1) and text of the cell.
 *
 * Memory, Threads: as tpp_schedule_create. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_parse_csv(tpp_schedule **out, const char *text, int64_t bytes,
                                          uint32_t flags, const tpp_allocator *allocator);

/**
 * Add messages and stash slots. A receive stands just before its consumer, a send just after its
 * producer; the smallest free slot is taken at F and is free again after B or W. Where ranks would
 * wait for each other's slots (a posted gradient lies in its slot until it is received; large
 * groups, 4 ranks - 2 and more, can do that), receives of gradients stand earlier.
 *
 * Between stages of one rank there is no message: F reads the output that the slot of the stage
 * before holds, and B or I leaves its gradient in that slot, which is held until its own B or W.
 *
 * @return TPP_OK; TPP_ERR_INVALID (finished, or lowered already); TPP_ERR_SCHEDULE (an action is
 *         missing, doubled, foreign or before its F, so that slots cannot be given);
 *         TPP_ERR_NO_MEMORY. After a failure the schedule is as it was.
 *
 * Threads: one at a time. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_lower(tpp_schedule *schedule);

/**
 * Prove that a lowered schedule is complete (each stage and micro-batch has one F and one B, or one
 * I and one W, on the rank of the stage), pairs its messages, keeps every dependency, and finishes
 * under `channel`.
 *
 * @return TPP_OK; TPP_ERR_INVALID (not lowered); TPP_ERR_SCHEDULE; TPP_ERR_DEADLOCK: the message
 *         names the ranks that wait for each other and their actions.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_check(const tpp_schedule *schedule, tpp_channel channel);

/**
 * The same under a channel that holds `capacity` messages from one rank to another: a send copies its
 * message into the channel and goes on, or blocks while the channel is full of messages that are not
 * received; with capacity 0 it blocks until its receive is reached. Stash slots are free at once. FIFO
 * channels also need that messages are received in the order in which they are sent: a FIFO would
 * deliver wrong data else, at any capacity.
 *
 * @param capacity >= 0; of POSTED and RENDEZVOUS 0.
 * @return as tpp_schedule_check; TPP_ERR_SCHEDULE names the first message out of order.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_check_channel(const tpp_schedule *schedule, tpp_channel channel,
                                              int32_t capacity);

/**
 * The smallest capacity that a schedule finishes with.
 *
 * @param channel FIFO_PAIR, FIFO_KIND or TAGGED.
 * @param out     receives it; 0: rendezvous suffices; -1: none does, because messages are received in
 *                another order than they are sent, or ranks wait for each other whatever is buffered.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_SCHEDULE (incomplete, or an action stands before what it
 *         needs on its rank); TPP_ERR_NO_MEMORY. Takes a few checks. Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_capacity(const tpp_schedule *schedule, tpp_channel channel,
                                         int32_t *out);

/**
 * Make a lowered schedule immutable, after a check with TPP_CHANNEL_POSTED. Executors accept only
 * finished ones.
 *
 * @return TPP_OK; as tpp_schedule_check. Threads: one at a time; afterwards any. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_finish(tpp_schedule *schedule);

/**
 * Facts of a schedule.
 *
 * @param out size must be set. @return TPP_OK; TPP_ERR_INVALID. Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_query(const tpp_schedule *schedule, tpp_schedule_info *out);

/**
 * The actions of a rank, in order.
 *
 * @param rank  0 .. ranks - 1, else NULL is returned and *count is 0.
 * @param count receives their number.
 *
 * Memory: borrowed until destroy (or lower). Threads: any. Since: 0.1.
 */
TPP_API const tpp_action *tpp_schedule_actions(const tpp_schedule *schedule, int32_t rank,
                                               int64_t *count);

/** The rank that a virtual stage lies on; -1 when there is no such stage. Cannot fail otherwise.
 * Since: 0.1. */
TPP_API int32_t tpp_schedule_rank_of(const tpp_schedule *schedule, int32_t stage);

/** The virtual stage that is chunk `chunk` of a rank; -1 when there is none. Cannot fail
 * otherwise. Since: 0.1. */
TPP_API int32_t tpp_schedule_stage_of(const tpp_schedule *schedule, int32_t rank, int32_t chunk);

/**
 * Most micro-batches (chunk forwards, if chunks > 1) that a rank holds at once, from F to B or W.
 *
 * @param out receives one number per rank. @return TPP_OK; TPP_ERR_INVALID (not lowered). Threads:
 *         any. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_peaks(const tpp_schedule *schedule, int32_t *out);

/**
 * The same up to another end: most chunk forwards that a rank holds at once from F to the end of B or
 * I (the activations that I needs), or to the end of B or W. Needs no lowering.
 *
 * @param op  TPP_OP_I or TPP_OP_W.
 * @param out receives one number per rank. @return TPP_OK; TPP_ERR_INVALID. Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_peaks_until(const tpp_schedule *schedule, tpp_op op, int32_t *out);

/**
 * Write the text form; of a lowered schedule with its messages. Reading it gives the same schedule.
 *
 * @param write the sink. @return TPP_OK; what the sink returned. Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_write_text(const tpp_schedule *schedule, tpp_write_fn write,
                                           void *ctx);

/**
 * Write PyTorch's CSV: rows end in CRLF. Reading it gives the same schedule (TPP_CSV_TWO_WAY for a
 * two-way one); without TPP_CSV_MESSAGES, the one before it was lowered. PyTorch's format argument
 * is then "compute_comms", else "compute_only".
 *
 * @param flags 0, TPP_CSV_MESSAGES or TPP_CSV_SLOTS. @param write the sink.
 * @return TPP_OK; TPP_ERR_INVALID (messages of a schedule that is not lowered, both flags);
 *         TPP_ERR_DEADLOCK and TPP_ERR_SCHEDULE (no time slots: an action never has what it needs);
 *         TPP_ERR_NO_MEMORY; what the sink returned.
 *
 * Memory: with TPP_CSV_SLOTS 12 bytes a stage and micro-batch and 4 an action, until it returns.
 * Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_write_csv(const tpp_schedule *schedule, uint32_t flags,
                                          tpp_write_fn write, void *ctx);

/**
 * Split `items` layers over `parts` stages: contiguous, in order, each item exactly once, the first
 * `items mod parts` parts one larger.
 *
 * @param items        >= 0. @param parts >= 1. @param part 0 .. parts - 1.
 * @param first,count  receive the part's first item and number of items.
 * @return TPP_OK; TPP_ERR_INVALID.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_schedule_partition(int32_t items, int32_t parts, int32_t part,
                                          int32_t *first, int32_t *count);

/** Free a schedule; NULL is fine. Threads: none may use it. Since: 0.1. */
TPP_API void tpp_schedule_destroy(tpp_schedule *schedule);

#ifdef __cplusplus
}
#endif

#endif
