/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_WEIGHT_NAME_H
#define TPP_PROGRAM_WEIGHT_NAME_H

enum { WEIGHT_NAME_BYTES = 96 };

/* How a parameter stands in a file: as Hugging Face's GPT-2 has it. */
struct weight_name {
    char text[WEIGHT_NAME_BYTES];
    int dims;   /* 1: a vector; 2: a matrix */
    int turned; /* rows there are columns here */
};

/* `ours` is the layer's name of it, such as "h.3.attn.qkv.weight". */
struct weight_name weight_name(const char *ours);

#endif
