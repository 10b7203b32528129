/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "train_config.h"

#include <tpp/tpp.h>

const struct option_choice schedule_choices[] = {
    {"gpipe", TPP_SCHEDULE_GPIPE, 0},
    {"1f1b", TPP_SCHEDULE_1F1B, 0},
    {"interleaved", TPP_SCHEDULE_INTERLEAVED, 0},
    {"bfs", TPP_SCHEDULE_BFS, 0},
    {"zb-h1", TPP_SCHEDULE_ZB_H1, 0},
    {"zb-h2", TPP_SCHEDULE_ZB_H2, 0},
    {"zb-interleaved", TPP_SCHEDULE_ZB_INTERLEAVED, 0},
    {"zb-v", TPP_SCHEDULE_ZB_V, 0},
    {"v-half", TPP_SCHEDULE_V_HALF, 0},
    {"v-min", TPP_SCHEDULE_V_MIN, 0},
    {"v-1f1b", TPP_SCHEDULE_V_1F1B, 0},
    {"dualpipe", TPP_SCHEDULE_DUALPIPE, 0},
    {"dualpipev", TPP_SCHEDULE_DUALPIPEV, 0},
    {"eager-1f1b", TPP_SCHEDULE_EAGER_1F1B, 0},
    {"Interleaved1F1B", TPP_SCHEDULE_INTERLEAVED, 1},
    {"ScheduleGPipe", TPP_SCHEDULE_GPIPE, 1},
    {"Schedule1F1B", TPP_SCHEDULE_1F1B, 1},
    {"ScheduleInterleaved1F1B", TPP_SCHEDULE_INTERLEAVED, 1},
    {"ScheduleLoopedBFS", TPP_SCHEDULE_BFS, 1},
    {"ScheduleInterleavedZeroBubble", TPP_SCHEDULE_ZB_INTERLEAVED, 1},
    {"ScheduleZBVZeroBubble", TPP_SCHEDULE_ZB_V, 1},
    {"ScheduleDualPipeV", TPP_SCHEDULE_DUALPIPEV, 1},
    {NULL, 0, 0},
};

const struct option_choice executor_choices[] = {
    {"threads", EXECUTOR_THREADS, 0},
    {"serial", EXECUTOR_SERIAL, 0},
    {"distributed", EXECUTOR_DISTRIBUTED, 0},
    {NULL, 0, 0},
};

const struct option_choice dtype_choices[] = {
    {"float32", TPP_F32, 0},
    {"float64", TPP_F64, 0},
    {"bfloat16", TPP_BF16, 0},
    {"f32", TPP_F32, 1},
    {"f64", TPP_F64, 1},
    {"bf16", TPP_BF16, 1},
    {NULL, 0, 0},
};

const struct option_choice family_choices[] = {
    {"gpt2", TPP_FAMILY_GPT2, 0},       {"llama", TPP_FAMILY_LLAMA, 0},
    {"mistral", TPP_FAMILY_MISTRAL, 0}, {"qwen2", TPP_FAMILY_QWEN2, 0},
    {"qwen3", TPP_FAMILY_QWEN3, 0},     {NULL, 0, 0},
};

const struct option_choice act_choices[] = {
    {"gelu", TPP_ACT_GELU_TANH, 0}, {"gelu-erf", TPP_ACT_GELU_ERF, 0},
    {"relu", TPP_ACT_RELU, 0},      {"squared-relu", TPP_ACT_SQUARED_RELU, 0},
    {"silu", TPP_ACT_SILU, 0},      {"swiglu", TPP_ACT_SWIGLU, 0},
    {"geglu", TPP_ACT_GEGLU, 0},    {NULL, 0, 0},
};

const struct option_choice norm_choices[] = {
    {"layer", TPP_NORM_LAYER, 0},
    {"rms", TPP_NORM_RMS, 0},
    {NULL, 0, 0},
};

const struct option_choice recompute_choices[] = {
    {"none", TPP_RECOMPUTE_NONE, 0},
    {"selective", TPP_RECOMPUTE_SELECTIVE, 0},
    {"full", TPP_RECOMPUTE_FULL, 0},
    {NULL, 0, 0},
};

#define OPTIONS struct train_config
#include "option_rows.h"

const struct option_row train_options[] = {
    HEADING("Text and model"),
    PATH("data", data, "text to learn, read as bytes; required"),
    PATH("model", model,
         "config.json of a GPT-2, Llama, Mistral, Qwen2 or Qwen3 model, as Hugging Face has it: "
         "instead of the options from here to --tied"),
    CHOICE("family", family, family_choices,
           "gpt2, llama, mistral, qwen2 or qwen3: norm, activation, positions, biases, and the "
           "names of tensors in files"),
    INT("layers", layers, 1, 1024, "transformer blocks"),
    INT("hidden", hidden, 1, 65536, "width of the model, a multiple of --heads"),
    INT("heads", heads, 1, 1024, "attention heads, a multiple of --tp and --blocks"),
    INT("kv-heads", kv_heads, 1, 1024, "K/V heads, a divisor of --heads (default --heads)"),
    INT("head-cols", head_cols, 1, 65536, "width of a head (default --hidden / --heads)"),
    INT("ffn", ffn, 1, 1 << 20, "width of the MLP (default 4 x --hidden)"),
    CHOICE("act", act, act_choices,
           "gelu, gelu-erf, relu, squared-relu, silu, or gated: swiglu, geglu (default the "
           "family's)"),
    CHOICE("norm", norm, norm_choices, "layer or rms (default the family's)"),
    REAL("rope", rope, 1, 1e12,
         "base of rotary positions, in place of learned ones (default gpt2 none, others 10000)"),
    INT("window", window, 1, 1 << 20, "bytes that a byte sees, itself included (default all)"),
    FLAG("qk-norm", qk_norm, "norm of every head of Q and K (qwen3 has it)"),
    FLAG("no-bias", no_bias, "no biases (only gpt2 and, for Q, K, V, qwen2 have some)"),
    FLAG("parallel-block", parallel,
         "attention and MLP of a block side by side: one sum over ranks for both"),
    FLAG("tied", tied, "one table for embedding and output head"),
    INT("seq", seq, 1, 1 << 20, "bytes of a sequence; the text must be longer"),
    CHOICE("dtype", dtype, dtype_choices,
           "float32, float64, or bfloat16 with float32 sums and optimizer"),

    HEADING("Training (AdamW, cosine rate after a warm-up)"),
    INT("steps", steps, 1, 10000000, "optimizer steps"),
    INT("batch", batch, 1, 1 << 20, "sequences of a step"),
    /* Its range depends on --batch: the check lists what is accepted. */
    INT("micro-batches", micros, INT32_MIN, INT32_MAX,
        "pieces of a step that pass through the pipeline, a divisor of --batch"),
    {OPTION_SEED, "seed", "N", "start of all random numbers: parameters, order of the text",
     AT(seed), 0, 0, NULL},
    REAL("lr", rate, 0, 10, "largest learning rate"),
    REAL("min-lr", min_rate, 0, 10, "learning rate at the end (default a tenth of --lr)"),
    INT("warmup", warmup, 0, 10000000,
        "steps until --lr is reached (default a tenth of --steps, at least 10)"),
    REAL("weight-decay", decay, 0, 10, "of matrices; biases and norms have none"),
    REAL("clip", clip, 0, 1e6, "largest norm of the gradient, 0 for none"),
    REAL("dropout", dropout, 0, 0.99, "share of activations dropped, of embedding and blocks"),
    REAL("label-smoothing", smoothing, 0, 0.99, "share of the target spread over all bytes"),
    PATH("load", load,
         "begin with these weights, saved under any split: a safetensors file with the family's "
         "names "
         "as Hugging Face has them, an index of several (.json), or their folder"),

    HEADING("Split over ranks"),
    INT("tp", tp, 1, 256, "tensor-parallel ranks: every layer is cut into so many pieces"),
    INT("pp", pp, 1, 256, "pipeline ranks: the layers are dealt out to so many"),
    INT("chunks", chunks, 1, 256,
        "pieces of the model on every pipeline rank, more than 1 only with --schedule interleaved, "
        "bfs "
        "or zb-interleaved; the v-kinds and dualpipe always have 2"),
    CHOICE(
        "schedule", schedule, schedule_choices,
        "gpipe, 1f1b, interleaved, bfs, eager-1f1b; backward in halves: zb-h1, zb-h2, "
        "zb-interleaved, zb-v, v-half, v-min; v-1f1b; dualpipev; dualpipe (the model stands twice, "
        "in both directions)"),
    CHOICE("executor", executor, executor_choices,
           "threads: all ranks at once; serial: the pipeline ranks take turns; distributed: an "
           "executor for every pipeline rank, as in processes"),
    INT("blocks", blocks, 0, 1024,
        "a power of two: every --tp and --pp that it allows gives the same bits; 0: fastest, last "
        "bits differ"),

    FLAG(
        "sequence-parallel", sequence,
        "between the layers' products every rank holds its share of the tokens alone: less memory, "
        "the same traffic"),
    CHOICE("recompute", recompute, recompute_choices,
           "what backward computes again instead of keeping it: none, selective (attention), or "
           "full (all of a block)"),

    FLAG(
        "early-step", early,
        "no pipeline rank waits for the others before its optimizer step: it begins the next step "
        "and learns the gradient's norm later; what was wrong by that is done again, with the same "
        "bits"),

    HEADING("Output"),
    FLAG("compare", compare,
         "train the unsplit model beside it, print the differences of losses and parameters"),
    FLAG("report", report,
         "print loss curve, idle times, micro-batches in flight and all-reduces against their "
         "rules at the end"),
    PATH("gantt", gantt, "write a picture of one of the last steps (SVG): who did what and when"),
    PATH("trace", trace, "write the last steps for Perfetto or chrome://tracing (JSON)"),
    PATH("save", save, "write the weights at the end, also after Ctrl-C (safetensors)"),
    PATH("save-config", save_config,
         "write the model's config.json, as Hugging Face has it, before the training"),
    FLAG("json", json, "print one JSON object at the end on stdout, all else on stderr"),
    FLAG("quiet", quiet, "no progress on stderr"),
    FLAG("help", help, "this text"),
    {OPTION_FLAG, NULL, NULL, NULL, 0, 0, 0, NULL},
};

enum { LEAST_WARMUP = 10 }; /* AdamW overshoots in its first steps */

struct train_config train_config_default(void) {
    return (struct train_config){
        .family = TPP_FAMILY_GPT2,
        .layers = 4,
        .hidden = 128,
        .heads = 4,
        .norm = -1,
        .rope = -1,
        .seq = 64,
        .dtype = TPP_F32,
        .batch = 16,
        .micros = 4,
        .steps = 450,
        .seed = 1,
        .rate = 5e-3,
        .min_rate = -1,
        .warmup = -1,
        .decay = 0.1,
        .clip = 1,
        .tp = 1,
        .pp = 1,
        .chunks = 1,
        .schedule = TPP_SCHEDULE_1F1B,
        .executor = EXECUTOR_THREADS,
    };
}

void train_config_clear_model(struct train_config *config) {
    config->layers = config->hidden = config->heads = 0;
    config->family = config->norm = -1;
}

int64_t train_config_rows(const struct train_config *config, int32_t tp) {
    int64_t tokens = (int64_t)(config->batch / config->micros) * config->seq;
    int64_t blocks = config->blocks ? config->blocks : tp;
    return config->sequence ? (tokens + blocks - 1) / blocks * (blocks / tp) : tokens;
}

int32_t train_config_width(const struct train_config *config) {
    return config->dtype == TPP_F64 ? 8 : config->dtype == TPP_BF16 ? 2 : 4;
}

/* What the schedule has when nothing else is asked for. */
static int32_t own_chunks(const struct train_config *config) {
    tpp_schedule_desc d = {0};
    d.size = sizeof d;
    d.kind = config->schedule;
    d.ranks = config->pp;
    d.micros = 1;
    tpp_schedule *schedule = NULL;
    tpp_schedule_info info = {0};
    info.size = sizeof info;
    if (tpp_schedule_create(&schedule, &d) == TPP_OK) {
        tpp_schedule_query(schedule, &info);
    }
    tpp_schedule_destroy(schedule);
    return info.chunks > 1 ? info.chunks : 1;
}

void train_config_complete(struct train_config *config) {
    if (config->min_rate < 0) {
        config->min_rate = config->rate / 10;
    }
    if (config->chunks == 1) {
        config->chunks = own_chunks(config);
    }
    if (config->warmup < 0) {
        int32_t tenth = config->steps / 10 > LEAST_WARMUP ? config->steps / 10 : LEAST_WARMUP;
        config->warmup = tenth < config->steps ? tenth : config->steps;
    }
}
