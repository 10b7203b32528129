/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "train_config.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <tpp/tpp.h>

#include "say.h"

/* Rules that join several options. Each sentence names the option, its value, the rule and what
 * would do. */

enum { MOST_RANKS = 256, LIST_BYTES = 512 };

/* Divisors of a, none above most: "1, 2, 4". */
static const char *divisors(char out[LIST_BYTES], int32_t a, int32_t most) {
    int used = 0;
    out[0] = 0;
    for (int32_t d = 1; d <= a && d <= most && used < LIST_BYTES - 16; d++) {
        if (a % d == 0) {
            used +=
                snprintf(out + used, LIST_BYTES - (size_t)used, "%s%" PRId32, used ? ", " : "", d);
        }
    }
    return out[0] ? out : "none";
}

static int check_model(const struct train_config *c) {
    char list[LIST_BYTES];
    if (c->desc.head_cols == 0 && c->hidden % c->heads != 0) {
        return usage_error("--hidden %" PRId32 " is not a multiple of --heads %" PRId32
                           "; accepted for --heads: %s",
                           c->hidden, c->heads, divisors(list, c->hidden, 1024));
    }
    if (c->heads % c->kv_heads != 0) {
        return usage_error("--kv-heads %" PRId32 " does not divide --heads %" PRId32
                           "; accepted: %s",
                           c->kv_heads, c->heads, divisors(list, c->heads, 1024));
    }
    if (c->micros < 1 || c->batch % c->micros != 0) {
        return usage_error("--micro-batches %" PRId32 " does not divide --batch %" PRId32
                           "; accepted: %s",
                           c->micros, c->batch, divisors(list, c->batch, c->batch));
    }
    if ((int64_t)c->batch * c->seq > 1 << 28) {
        return usage_error("--batch %" PRId32 " times --seq %" PRId32
                           " is more than %d bytes of text a step",
                           c->batch, c->seq, 1 << 28);
    }
    return 0;
}

static int check_rates(const struct train_config *c) {
    if (c->min_rate > c->rate) {
        return usage_error("--min-lr %g is above --lr %g; accepted: 0 to %g", c->min_rate, c->rate,
                           c->rate);
    }
    if (c->warmup > c->steps) {
        return usage_error("--warmup %" PRId32 " is more than --steps %" PRId32
                           "; accepted: 0 to %" PRId32,
                           c->warmup, c->steps, c->steps);
    }
    return 0;
}

/* What else is cut into as many pieces as there are blocks, or ranks. */
static int check_pieces(const struct train_config *c) {
    char list[LIST_BYTES];
    int32_t pieces = c->blocks ? c->blocks : c->tp;
    const char *option = c->blocks ? "blocks" : "tp";
    if (c->kv_heads % pieces != 0 && pieces % c->kv_heads != 0) {
        return usage_error("--%s %" PRId32 " neither divides --kv-heads %" PRId32
                           " nor is a multiple of it; accepted: its divisors %s, and multiples",
                           option, pieces, c->kv_heads, divisors(list, c->kv_heads, MOST_RANKS));
    }
    if (c->ffn % pieces != 0) {
        return usage_error("--ffn %" PRId32 " is not a multiple of --%s %" PRId32
                           "; accepted for --%s: %s",
                           c->ffn, option, pieces, option, divisors(list, c->ffn, MOST_RANKS));
    }
    return 0;
}

static int check_tensor_parallel(const struct train_config *c) {
    char list[LIST_BYTES];
    if (c->blocks & (c->blocks - 1)) {
        return usage_error("--blocks %" PRId32
                           " is not a power of two; accepted: 0, 1, 2, 4, 8, ..., 1024",
                           c->blocks);
    }
    if (c->blocks && c->heads % c->blocks != 0) {
        return usage_error("--heads %" PRId32 " is not a multiple of --blocks %" PRId32
                           "; accepted for --blocks: 0 and the powers of two among %s",
                           c->heads, c->blocks, divisors(list, c->heads, 1024));
    }
    if (c->blocks && c->blocks % c->tp != 0) {
        return usage_error("--tp %" PRId32 " does not divide --blocks %" PRId32
                           "; accepted for --tp: %s",
                           c->tp, c->blocks, divisors(list, c->blocks, MOST_RANKS));
    }
    if (c->heads % c->tp != 0) {
        return usage_error("--heads %" PRId32 " is not a multiple of --tp %" PRId32
                           "; accepted for --tp: %s",
                           c->heads, c->tp, divisors(list, c->heads, MOST_RANKS));
    }
    return check_pieces(c);
}

/* Into how many stages the schedule cuts the model. */
static int check_schedule(const struct train_config *c, int32_t *stages) {
    const char *name = option_choice_name(schedule_choices, c->schedule);
    tpp_schedule_desc d = {0};
    d.size = sizeof d;
    d.kind = c->schedule;
    d.ranks = c->pp;
    d.chunks = c->chunks;
    d.micros = c->micros;
    tpp_schedule *schedule = NULL;
    tpp_schedule_info info = {0};
    info.size = sizeof info;
    tpp_status status = tpp_schedule_create(&schedule, &d);
    if (status == TPP_ERR_INVALID && c->chunks > 1) {
        return usage_error(
            "--chunks %" PRId32
            " needs --schedule interleaved, bfs or zb-interleaved; --schedule %s has a "
            "number of its own: leave --chunks out",
            c->chunks, name);
    }
    if (status == TPP_OK) {
        status = tpp_schedule_query(schedule, &info);
    }
    tpp_schedule_destroy(schedule);
    *stages = info.depth;
    return status == TPP_OK ? 0 : usage_error("--schedule %s: %s", name, tpp_message());
}

static int check_pipeline(const struct train_config *c) {
    int32_t stages = 0;
    if ((int64_t)c->tp * c->pp > MOST_RANKS) {
        return usage_error("--tp %" PRId32 " times --pp %" PRId32 " is %" PRId64
                           " ranks; accepted: at most %d",
                           c->tp, c->pp, (int64_t)c->tp * c->pp, MOST_RANKS);
    }
    int code = check_schedule(c, &stages);
    if (code == 0 && c->layers < stages) {
        return usage_error("--layers %" PRId32 " is less than the %" PRId32
                           " stages of --schedule %s with --pp %" PRId32 " and --chunks %" PRId32
                           ", and every stage needs a layer; accepted: %" PRId32 " or more",
                           c->layers, stages, option_choice_name(schedule_choices, c->schedule),
                           c->pp, c->chunks, stages);
    }
    return code;
}

/* Whether two paths name one file, or would when it is written. Devices may be shared. */
static int is_same_file(const char *a, const char *b) {
    struct stat one, other;
    if (stat(a, &one) == 0 && stat(b, &other) == 0) {
        return S_ISREG(one.st_mode) && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
    }
    while (strncmp(a, "./", 2) == 0) {
        a += 2;
    }
    while (strncmp(b, "./", 2) == 0) {
        b += 2;
    }
    return strcmp(a, b) == 0;
}

/* No two results in one file, and none in the text. Weights may be saved where they came from. */
static int check_files(const struct train_config *c) {
    const char *const paths[] = {c->data, c->trace, c->gantt, c->save, c->save_config};
    static const char *const options[] = {"data", "trace", "gantt", "save", "save-config"};
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < i; j++) {
            if (paths[i] && paths[j] && is_same_file(paths[i], paths[j])) {
                return usage_error("--%s and --%s both name %s; each needs a file of its own",
                                   options[j], options[i], paths[i]);
            }
        }
    }
    return 0;
}

int train_config_check(const struct train_config *c) {
    if (!c->data) {
        return usage_error(
            "--data FILE is missing: the text to learn, any file of more than --seq %" PRId32
            " bytes",
            c->seq);
    }
    int code = check_files(c);
    code = code ? code : check_model(c);
    code = code ? code : check_rates(c);
    code = code ? code : check_tensor_parallel(c);
    return code ? code : check_pipeline(c);
}
