/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "generate_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "json_out.h"
#include "reserve.h"
#include "say.h"
#include "train_config.h"
#include "utf8.h"

static int compare(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double generation_quantile(const struct generation *g, double share) {
    int32_t count = g->steps - 1;
    if (count < 1) {
        return 0;
    }
    double *sorted = reserve(count, sizeof *sorted);
    memcpy(sorted, g->seconds + 1, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    double found = sorted[(int32_t)(share * (count - 1) + 0.5)];
    free(sorted);
    return found;
}

/* Bytes a second over all texts, the prompts' step left out. */
static double rate(const struct generation *g) {
    double sum = 0;
    for (int32_t i = 1; i < g->steps; i++) {
        sum += g->seconds[i];
    }
    return sum > 0 ? (g->steps - 1.0) * g->config->prompts.count / sum : 0;
}

void generation_print_times(FILE *out, const struct generation *g) {
    if (g->steps > 0) {
        fprintf(out, "prompt %.2f ms", 1e3 * g->seconds[0]);
    }
    if (g->steps > 1) {
        fprintf(out, "; then %.3f ms a byte (median), %.3f ms (95 %%); %.0f bytes/s",
                1e3 * generation_quantile(g, 0.5), 1e3 * generation_quantile(g, 0.95), rate(g));
    }
    fputc('\n', out);
}

void generation_print_text(FILE *out, const struct generation *g, int32_t text) {
    struct utf8 utf8 = {{0}, 0};
    char whole[UTF8_BYTES];
    for (const char *c = g->config->prompts.texts[text]; *c; c++) {
        fputs(utf8_add(&utf8, (unsigned char)*c, whole), out);
    }
    for (int32_t i = 0; i < g->steps; i++) {
        fputs(utf8_add(&utf8, g->ids[text * g->config->tokens + i], whole), out);
    }
    fputs(utf8_add(&utf8, -1, whole), out);
}

static void write_text(struct json *j, const struct generation *g, int32_t text) {
    size_t bytes = 0;
    char *whole = NULL;
    FILE *memory = open_memstream(&whole, &bytes);
    if (memory) {
        generation_print_text(memory, g, text);
        fclose(memory);
    }
    json_object(j, NULL);
    json_int(j, "prompt_bytes", (int64_t)strlen(g->config->prompts.texts[text]));
    json_string(j, "text", whole ? whole : "");
    json_array(j, "tokens");
    for (int32_t i = 0; i < g->steps; i++) {
        json_int(j, NULL, g->ids[text * g->config->tokens + i]);
    }
    json_end_array(j);
    json_end_object(j);
    free(whole);
}

static void write_options(struct json *j, const struct generation *g) {
    const struct generate_config *c = g->config;
    char seed[GROUPED_BYTES]; /* as text: many readers keep only 53 bits of a number */
    snprintf(seed, sizeof seed, "%" PRIu64, c->rule.seed);
    json_object(j, "options");
    json_string(j, "load", c->load);
    json_int(j, "tokens", c->tokens);
    json_int(j, "context", g->context);
    json_string(j, "dtype", option_choice_name(dtype_choices, c->dtype));
    json_real(j, "temperature", c->rule.temperature);
    json_int(j, "top_k", c->rule.top_k);
    json_real(j, "top_p", c->rule.top_p);
    json_string(j, "seed", seed);
    json_int(j, "tp", c->tp);
    json_int(j, "pp", c->pp);
    json_int(j, "blocks", c->blocks);
    json_end_object(j);
}

int generation_write_json(FILE *out, const struct generation *g) {
    struct json j = {.out = out};
    json_object(&j, NULL);
    json_string(&j, "schema", "tpp-generate/1");
    json_string(&j, "version", tpp_version_string());
    write_options(&j, g);
    json_bool(&j, "stopped", g->stopped != 0);
    json_real(&j, "prompt_ms", g->steps > 0 ? 1e3 * g->seconds[0] : 0);
    json_real(&j, "token_ms_median", 1e3 * generation_quantile(g, 0.5));
    json_real(&j, "token_ms_p95", 1e3 * generation_quantile(g, 0.95));
    json_real(&j, "tokens_per_s", rate(g));
    json_array(&j, "texts");
    for (int32_t i = 0; i < g->config->prompts.count; i++) {
        write_text(&j, g, i);
    }
    json_end_array(&j);
    json_end_object(&j);
    fputc('\n', out);
    if (fflush(out) || ferror(out)) {
        return system_error("the JSON object cannot be written to stdout");
    }
    return 0;
}
