#!/usr/bin/python3
# Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0
"""Compiles the usage in the first comment of every public header, and holds README's program against
examples/tp_mlp.c, which is built and run by test_readme.sh."""
import os
import re
import subprocess
import sys
import tempfile

SOURCE = os.environ.get("TPP_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "..", ".."))

# Names that usages speak of without declaring them.
WORLD = """
#include <stdio.h>
#include <tpp/io.h>
#include <tpp/tpp.h>
void *my_alloc(int64_t bytes);
tpp_status my_write(void *ctx, const char *bytes, int64_t count);
tpp_status my_gemm(void *ctx, const tpp_gemm_call *call);
tpp_status my_query(void *ctx, const tpp_custom_call *call, tpp_custom_needs *out);
tpp_status my_forward(void *ctx, const tpp_custom_call *call);
tpp_status my_backward_input(void *ctx, const tpp_custom_call *call);
"""
NAMES = {
    "r": "int r", "i": "int i", "comm": "tpp_comm *comm", "layer": "tpp_layer *layer",
    "model": "tpp_layer *model", "mlp": "tpp_layer *mlp", "env": "tpp_layer_env env",
    "desc": "tpp_mlp_desc desc", "schedule": "tpp_schedule *schedule", "steps": "uint64_t steps",
    "tokens": "int64_t tokens", "hidden": "int64_t hidden", "bytes": "int64_t bytes",
    "report": "tpp_run_report report", "file": "FILE *file", "parts": "double *parts",
    "grads": "void **grads", "moments": "void *moments", "full": "float *full",
    "params": "void *params", "info": "tpp_schedule_info info", "stage": "tpp_stage *stage",
    "ranks": "tpp_run_rank *ranks", "layers": "const tpp_layer **layers",
}
# Where a name has another type than elsewhere.
SPECIAL = {
    "recompute.h": {"layers": "tpp_layer **layers"},
    "head.h": {"layers": "tpp_layer **layers", "embedding": "tpp_embedding_desc embedding",
               "loss": "tpp_loss_desc loss"},
    "layer.h": {"memory": "void *memory", "seen": "int32_t seen"},
    "optim.h": {"grads": "void *grads", "scratch": "void *scratch", "count": "int64_t count",
                "undo": "void *undo"},
    "optimize.h": {name: "double " + name + "[8]" for name in ("tf", "ti", "tw", "mb", "mw")},
    "shard.h": {"params": "char *params"},
    "stage.h": {"params": "const void **params"},
    "validation.h": {"pipeline": "tpp_comm *pipeline", "tensor": "tpp_comm *tensor",
                     "all_params": "int32_t all_params", "blocks": "int32_t blocks",
                     "first": "int32_t first", "known": "tpp_verdict known",
                     "verdict": "tpp_verdict verdict", "adamw": "tpp_adamw_desc adamw",
                     "grads": "void *grads", "undo": "void *undo"},
}


def usage_of(text):
    comment = re.search(r"/\*\*\n \* @file.*?\*/", text, re.S).group(0)
    return [line[7:] for line in comment.splitlines() if line.startswith(" *     ")]


def program(header, lines):
    names = {**NAMES, **SPECIAL.get(header, {})}
    code = "\n".join(lines)
    declared = set(re.findall(r"\b(?:tpp_\w+|float|int64_t) \**(\w+)(?:\[\d+\])?(?: =|;)", code))
    words = set(re.findall(r"(?<![.\w>])[a-z]\w*", re.sub(r"//.*", "", code)))
    needed = [names[w] for w in sorted(words & set(names)) if w not in declared]
    return f"{WORLD}void usage({', '.join(needed) or 'void'});\n" \
           f"void usage({', '.join(needed) or 'void'}) {{\n{code}\n}}\n"


def compiles(text):
    with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
        file.write(text)
        file.flush()
        return subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused",
                               "-fsyntax-only", f"-I{SOURCE}/include", file.name]).returncode == 0


def readme_program():
    text = open(f"{SOURCE}/README.md").read()
    return re.search(r"```c\n(.*?)```", text, re.S).group(1)


def main():
    bad = []
    folder = f"{SOURCE}/include/tpp"
    for header in sorted(os.listdir(folder)):
        lines = usage_of(open(f"{folder}/{header}").read())
        if not lines and header not in ("tpp.h", "version.h"):
            bad.append(f"{header}: no usage in its first comment")
        elif lines and not compiles(program(header, lines)):
            bad.append(f"{header}: its usage does not compile")
    if compiles(program("x.h", ["tpp_no_such_call(comm);"])):
        bad.append("self-test: a wrong usage compiles")
    example = open(f"{SOURCE}/examples/tp_mlp.c").read()
    if readme_program() not in example:
        bad.append("README.md: its C program is not that of examples/tp_mlp.c")
    for line in bad:
        print(line)
    return 1 if bad else 0


sys.exit(main())
