/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "generate_main.h"

#include <stdlib.h>
#include <string.h>

#include "generate_model.h"
#include "generate_report.h"
#include "reserve.h"
#include "say.h"
#include "server.h"
#include "stop.h"
#include "utf8.h"

static const char HELP_HEAD[] =
    "usage: tpp generate --load FILE --prompt TEXT [options]\n"
    "\n"
    "Write on from a text, byte by byte, with a model that tpp train saved, split over\n"
    "tensor-parallel and pipeline ranks that are threads of this process. Keys and values of "
    "bytes\n"
    "seen are kept, so that each byte costs one pass over the weights.\n";

static const char HELP_TAIL[] =
    "\n"
    "Examples:\n"
    "  tpp train --data book.txt --save book.safetensors\n"
    "  tpp generate --load book.safetensors --prompt 'And God said' --temperature 0.8 --top-p "
    "0.95\n"
    "      writes on; another --seed gives another text\n"
    "  tpp generate --load book.safetensors --prompt 'And' --prompt 'The king' --tp 2 --blocks 4\n"
    "      two texts side by side, on two ranks\n"
    "  tpp generate --load book.safetensors --prompt And --json >text.json\n"
    "      tokens and times as numbers\n"
    "\n"
    "Ctrl-C ends the text after the byte under way; a second one at once.\n"
    "Exit code: 0 done, 1 failed, 2 wrong use, 130 stopped by Ctrl-C (143 by SIGTERM).\n";

static int print_help(void) {
    struct generate_config defaults = generate_config_default();
    fputs(HELP_HEAD, stdout);
    options_print(stdout, generate_options, &defaults);
    fputs(HELP_TAIL, stdout);
    return fflush(stdout) ? system_error("the help cannot be written") : EXIT_DONE;
}

/* A text that is shown while it is written. */
struct stream {
    struct generation generation;
    struct utf8 utf8;
    int shown; /* one text, not as JSON */
    int failed;
};

static void show(struct stream *s, int byte) {
    char whole[UTF8_BYTES];
    fputs(utf8_add(&s->utf8, byte, whole), stdout);
    s->failed |= whole[0] && fflush(stdout);
}

static int said(void *ctx, const int32_t *next, double seconds) {
    struct stream *s = ctx;
    struct generation *g = &s->generation;
    for (int32_t i = 0; i < g->config->prompts.count; i++) {
        g->ids[i * g->config->tokens + g->steps] = next[i];
    }
    g->seconds[g->steps++] = seconds;
    if (s->shown) {
        show(s, next[0]);
    }
    g->stopped = stop_signal();
    return g->stopped || s->failed;
}

static int present(struct stream *s) {
    const struct generation *g = &s->generation;
    if (s->shown) {
        show(s, -1);
        fputc('\n', stdout);
    }
    for (int32_t i = 0; i < g->config->prompts.count && !s->shown && !g->config->json; i++) {
        printf("%s--- %d\n", i ? "\n" : "", (int)i + 1);
        generation_print_text(stdout, g, i);
        fputc('\n', stdout);
    }
    if (s->failed || fflush(stdout)) {
        return system_error("the text cannot be written");
    }
    if (!g->config->quiet) {
        generation_print_times(stderr, g);
    }
    return g->config->json ? generation_write_json(stdout, g) : 0;
}

static int32_t context_of(const struct generate_config *c) {
    size_t longest = 0;
    for (int32_t i = 0; i < c->prompts.count; i++) {
        size_t length = strlen(c->prompts.texts[i]);
        longest = length > longest ? length : longest;
    }
    int64_t all = (int64_t)longest + c->tokens;
    int64_t most = c->context ? c->context : c->desc.positions ? c->desc.positions : all;
    return (int32_t)(all < most ? all : most);
}

static int generate(struct generate_config *c, const tpp_weights *weights) {
    struct stream s = {.generation = {.config = c}};
    int code = generate_model(c, weights);
    if (code) {
        return code;
    }
    s.generation.context = context_of(c);
    s.generation.seconds = reserve(c->tokens, sizeof *s.generation.seconds);
    s.generation.ids = reserve((int64_t)c->prompts.count * c->tokens, sizeof *s.generation.ids);
    s.shown = c->prompts.count == 1 && !c->json;
    for (const char *p = c->prompts.texts[0]; *p && s.shown; p++) {
        show(&s, (unsigned char)*p);
    }
    struct server server = {c, weights, s.generation.context, said, &s};
    stop_watch();
    code = server_run(&server);
    code = code ? code : present(&s);
    free(s.generation.seconds);
    free(s.generation.ids);
    return code == 0 && s.generation.stopped ? 128 + s.generation.stopped : code;
}

int generate_main(int argc, char **argv) {
    struct generate_config config = generate_config_default();
    int code = options_parse(generate_options, &config, argc, argv);
    if (code == 0 && config.help) {
        return print_help();
    }
    code = code ? code : generate_config_check(&config);
    if (code) {
        return code;
    }
    tpp_weights *weights = NULL;
    tpp_status status = tpp_weights_create(&weights, config.load);
    if (status == TPP_ERR_IO) {
        return usage_error("--load %s", tpp_message());
    }
    if (status != TPP_OK) {
        return data_error("--load %s", tpp_message());
    }
    code = generate(&config, weights);
    tpp_weights_destroy(weights);
    return code;
}
