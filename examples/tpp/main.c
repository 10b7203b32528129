/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* The program `tpp`: libtpp at work, built on its public headers alone. */
#include <string.h>
#include <tpp/tpp.h>

#include "generate_main.h"
#include "pipe/check_main.h"
#include "pipe/optimize_main.h"
#include "pipe/schedule_main.h"
#include "pipe/simulate_main.h"
#include "say.h"
#include "train.h"

struct command {
    const char *name;
    const char *speaker; /* before its error sentences */
    const char *help;
    int (*main)(int argc, char **argv);
};

static const struct command commands[] = {
    {"train", "tpp train",
     "train a language model on a text, split over tensor-parallel and pipeline ranks", train_main},
    {"generate", "tpp generate", "write on from a text with a trained model, split the same way",
     generate_main},
    {"schedule", "tpp schedule", "print a pipeline schedule, or draw it", schedule_main},
    {"simulate", "tpp simulate", "how long a schedule takes and what it holds", simulate_main},
    {"check", "tpp check", "prove that a schedule is right", check_main},
    {"optimize", "tpp optimize", "search for the schedule with the shortest step", optimize_main},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static int print_help(FILE *out) {
    fputs("usage: tpp COMMAND [options]\n"
          "\n"
          "Tensor and pipeline parallelism for transformer models, on CPU BLAS.\n"
          "\n"
          "Commands:\n",
          out);
    for (int i = 0; i < COMMANDS; i++) {
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
    }
    fputs("\n"
          "tpp COMMAND --help tells a command's options, tpp --version the version and the BLAS in "
          "use.\n"
          "A first try: tpp train --data README.md --steps 50\n",
          out);
    return fflush(out) ? system_error("the help cannot be written") : EXIT_DONE;
}

static int print_version(void) {
    static const char *const flavours[] = {"serial", "pthread", "OpenMP"};
    tpp_blas_info info = {0};
    info.size = sizeof info;
    if (tpp_blas_query(&info) != TPP_OK) {
        return library_error("ask the BLAS");
    }
    const char *flavour =
        info.flavour >= 0 && info.flavour <= 2 ? flavours[info.flavour] : "unknown";
    printf("tpp %s\nBLAS: %s; %s flavour, %d threads\n", tpp_version_string(), info.config, flavour,
           (int)info.threads);
    return fflush(stdout) ? system_error("the version cannot be written") : EXIT_DONE;
}

static const struct command *find(const char *name) {
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static int is(const char *text, const char *a, const char *b) {
    return strcmp(text, a) == 0 || strcmp(text, b) == 0;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    int helps = is(argv[1], "--help", "-h") || is(argv[1], "help", "help");
    if (helps && argc == 2) {
        return print_help(stdout);
    }
    const struct command *command = find(argv[helps ? 2 : 1]);
    if (command) {
        char help[] = "--help";
        char *alone[] = {argv[0], help, NULL};
        say_as(command->speaker);
        return helps ? command->main(2, alone) : command->main(argc - 1, argv + 1);
    }
    if (is(argv[1], "--version", "-V")) {
        return print_version();
    }
    return usage_error("%s is no command; tpp --help lists them", argv[helps ? 2 : 1]);
}
