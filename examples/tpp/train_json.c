/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "train_json.h"

#include <inttypes.h>

#include "json_out.h"
#include "say.h"
#include "traffic.h"

static void write_blas(struct json *j) {
    tpp_blas_info info = {0};
    info.size = sizeof info;
    if (tpp_blas_query(&info) == TPP_OK) {
        json_string(j, "blas", info.config);
    }
}

static void write_model(struct json *j, const struct train_config *c) {
    const tpp_model_desc *m = &c->desc;
    json_string(j, "family", option_choice_name(family_choices, m->family));
    json_int(j, "layers", c->layers);
    json_int(j, "hidden", c->hidden);
    json_int(j, "heads", c->heads);
    json_int(j, "kv_heads", c->kv_heads);
    json_int(j, "head_cols", c->head_cols);
    json_int(j, "ffn", c->ffn);
    json_string(j, "act", option_choice_name(act_choices, m->act));
    json_string(j, "norm", option_choice_name(norm_choices, m->norm));
    json_real(j, "rope", m->rope_theta);
    json_int(j, "window", m->window);
    json_bool(j, "qk_norm", (m->block_flags & TPP_BLOCK_QK_NORM) != 0);
    json_bool(j, "no_bias", (m->block_flags & TPP_BLOCK_NO_BIAS) != 0);
    json_bool(j, "parallel_block", (m->block_flags & TPP_BLOCK_PARALLEL) != 0);
    json_bool(j, "tied", (m->flags & TPP_MODEL_TIED) != 0);
    json_int(j, "vocab", m->vocab);
}

static void write_options(struct json *j, const struct train_config *c) {
    json_object(j, "options");
    json_string(j, "data", c->data);
    if (c->model) {
        json_string(j, "model", c->model);
    }
    write_model(j, c);
    json_int(j, "seq", c->seq);
    json_string(j, "dtype", option_choice_name(dtype_choices, c->dtype));
    json_int(j, "steps", c->steps);
    json_int(j, "batch", c->batch);
    json_int(j, "micro_batches", c->micros);
    json_real(j, "lr", c->rate);
    json_real(j, "min_lr", c->min_rate);
    json_int(j, "warmup", c->warmup);
    json_real(j, "weight_decay", c->decay);
    json_real(j, "clip", c->clip);
    json_real(j, "dropout", c->dropout);
    json_real(j, "label_smoothing", c->smoothing);
    json_int(j, "tp", c->tp);
    json_int(j, "pp", c->pp);
    json_int(j, "chunks", c->chunks);
    json_string(j, "schedule", option_choice_name(schedule_choices, c->schedule));
    json_string(j, "executor", option_choice_name(executor_choices, c->executor));
    json_int(j, "blocks", c->blocks);
    json_bool(j, "sequence_parallel", c->sequence);
    json_string(j, "recompute", option_choice_name(recompute_choices, c->recompute));
    json_bool(j, "early_step", c->early);
    char seed[GROUPED_BYTES]; /* as text: many readers keep only 53 bits of a number */
    snprintf(seed, sizeof seed, "%" PRIu64, c->seed);
    json_string(j, "seed", seed);
    json_end_object(j);
}

static void write_text(struct json *j, const struct corpus *corpus) {
    json_object(j, "text");
    json_int(j, "bytes", corpus->count);
    json_int(j, "distinct", corpus->distinct);
    json_real(j, "unigram_entropy_nats", corpus->unigram);
    json_real(j, "bigram_entropy_nats", corpus->bigram);
    json_end_object(j);
}

/* One number of every step, in decimals or in hexadecimal. */
static void write_column(struct json *j, const char *key, const struct history *h, size_t offset,
                         void (*write)(struct json *json, const char *key, double value)) {
    json_array(j, key);
    for (int64_t i = 0; i < h->count; i++) {
        const char *record = (const char *)&h->records[i];
        write(j, NULL, *(const double *)(const void *)(record + offset));
    }
    json_end_array(j);
}

static void write_micro_losses(struct json *j, const struct history *h) {
    json_array(j, "micro_loss_hex");
    for (int64_t i = 0; i < h->count; i++) {
        json_array(j, NULL);
        for (int32_t m = 0; m < h->micros; m++) {
            json_hex(j, NULL, history_micro_losses(h, i)[m]);
        }
        json_end_array(j);
    }
    json_end_array(j);
}

static void write_steps(struct json *j, const struct training *t) {
    json_object(j, "steps");
    write_column(j, "loss", &t->history, offsetof(struct step_record, loss), json_real);
    write_column(j, "loss_hex", &t->history, offsetof(struct step_record, loss), json_hex);
    write_micro_losses(j, &t->history);
    write_column(j, "grad_norm", &t->history, offsetof(struct step_record, norm), json_real);
    write_column(j, "grad_norm_hex", &t->history, offsetof(struct step_record, norm), json_hex);
    write_column(j, "lr", &t->history, offsetof(struct step_record, rate), json_real);
    write_column(j, "time_s", &t->history, offsetof(struct step_record, seconds), json_real);
    if (t->config->early) {
        json_array(j, "redone");
        for (int64_t i = 0; i < t->history.count; i++) {
            json_bool(j, NULL, t->history.records[i].redone);
        }
        json_end_array(j);
    }
    if (t->config->compare) {
        write_column(j, "unsplit_loss_hex", &t->history, offsetof(struct step_record, whole_loss),
                     json_hex);
        write_column(j, "unsplit_grad_norm_hex", &t->history,
                     offsetof(struct step_record, whole_norm), json_hex);
        write_column(j, "unsplit_time_s", &t->history, offsetof(struct step_record, whole_seconds),
                     json_real);
    }
    json_end_object(j);
}

static void write_param(struct json *j, const struct param_diff *p) {
    json_object(j, NULL);
    json_string(j, "name", p->name);
    json_int(j, "rows", p->rows);
    json_int(j, "cols", p->cols);
    json_bool(j, "equal_bits", p->equal_bits);
    json_real(j, "max_abs_diff", p->difference);
    json_real(j, "largest", p->largest);
    json_real(j, "relative", p->relative);
    json_end_object(j);
}

static void write_comparison(struct json *j, const struct comparison *c) {
    json_object(j, "compare");
    json_bool(j, "losses_equal_bits", c->loss_step == 0);
    json_real(j, "loss_max_abs_diff", c->loss_difference);
    json_int(j, "loss_max_diff_step", c->loss_step);
    json_bool(j, "params_equal_bits", c->worst < 0);
    json_real(j, "param_max_relative", c->worst < 0 ? 0 : c->params[c->worst].relative);
    json_array(j, "params");
    for (int32_t i = 0; i < c->count; i++) {
        write_param(j, &c->params[i]);
    }
    json_end_array(j);
    json_end_object(j);
}

static void write_numbers(struct json *j, const char *key, const double *numbers, int32_t count) {
    json_array(j, key);
    for (int32_t i = 0; i < count; i++) {
        json_real(j, NULL, numbers[i]);
    }
    json_end_array(j);
}

static void write_pipeline(struct json *j, const struct training *t) {
    const struct measure *m = &t->measure;
    json_object(j, "pipeline");
    json_int(j, "measured_steps", m->steps);
    json_real(j, "bubble_share_measured", m->bubble);
    json_real(j, "bubble_share_simulated", m->bubble_simulated);
    json_real(j, "bubble_share_equal_stages", m->bubble_equal);
    json_real(j, "step_measured_s", m->makespan);
    json_real(j, "step_simulated_s", m->makespan_simulated);
    write_numbers(j, "forward_s", m->forward, m->stages);
    write_numbers(j, "backward_s", m->backward, m->stages);
    write_numbers(j, "idle_share_measured", m->idle, m->ranks);
    write_numbers(j, "idle_share_simulated", m->idle_simulated, m->ranks);
    json_array(j, "peak_in_flight");
    for (int32_t rank = 0; rank < m->ranks; rank++) {
        json_int(j, NULL, t->split.sampler.row_peak[rank * t->config->tp]);
    }
    json_end_array(j);
    json_end_object(j);
}

static void write_direction(struct json *j, const char *key, const struct traffic_row *row) {
    json_object(j, key);
    json_real(j, "calls", row->calls);
    json_real(j, "elements", row->elements);
    json_real(j, "bytes", row->bytes);
    json_int(j, "rule_calls", row->rule_calls);
    json_int(j, "rule_elements", row->rule_elements);
    json_bool(j, "as_rule", row->as_rule);
    json_end_object(j);
}

static void write_traffic(struct json *j, const struct team *team) {
    static const char *const names[] = {
        [TRAFFIC_FORWARD] = "forward", [TRAFFIC_BACKWARD] = "backward"};
    json_object(j, team->config->sequence ? "collectives_per_micro_batch"
                                          : "all_reduces_per_micro_batch");
    json_object(j, "layer");
    for (int direction = TRAFFIC_FORWARD; direction <= TRAFFIC_BACKWARD; direction++) {
        struct traffic_row row = traffic_per_block(team, direction);
        write_direction(j, names[direction], &row);
    }
    json_end_object(j);
    json_array(j, "stages");
    for (int32_t stage = 0; stage < team->stages; stage++) {
        json_object(j, NULL);
        for (int direction = TRAFFIC_FORWARD; direction <= TRAFFIC_BACKWARD; direction++) {
            struct traffic_row row = traffic_of(team, stage, direction);
            write_direction(j, names[direction], &row);
        }
        json_end_object(j);
    }
    json_end_array(j);
    json_end_object(j);
}

static void write_results(struct json *j, const struct training *t) {
    char fingerprint[GROUPED_BYTES];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, t->fingerprint);
    json_int(j, "steps_done", t->history.count);
    json_bool(j, "stopped", t->stopped != 0);
    json_real(j, "time_s", t->seconds);
    json_int(j, "parameters", t->numbers);
    json_string(j, "parameters_fnv1a", fingerprint);
    double median = history_median_seconds(&t->history, 0);
    double tokens = (double)t->config->batch * t->config->seq;
    json_real(j, "tokens_per_s", median > 0 ? tokens / median : 0);
    if (t->config->early) {
        json_int(j, "rollbacks", history_redone(&t->history));
    }
    write_steps(j, t);
    if (t->config->compare) {
        write_comparison(j, &t->comparison);
    }
    if (t->history.count > 0) {
        write_pipeline(j, t);
        if (t->config->tp > 1) {
            write_traffic(j, &t->split);
        }
    }
}

int train_write_json(FILE *out, const struct training *t) {
    struct json j = {.out = out};
    json_object(&j, NULL);
    json_string(&j, "schema", "tpp-train/1");
    json_string(&j, "version", tpp_version_string());
    write_blas(&j);
    write_options(&j, t->config);
    write_text(&j, &t->corpus);
    write_results(&j, t);
    json_end_object(&j);
    fputc('\n', out);
    if (fflush(out) || ferror(out)) {
        return system_error("the JSON object cannot be written to stdout");
    }
    return 0;
}
