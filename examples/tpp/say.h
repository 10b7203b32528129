/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_SAY_H
#define TPP_PROGRAM_SAY_H

#include <stdint.h>
#include <stdio.h>

/* What the program says when it fails: one sentence on stderr, and the exit code that goes with
 * it. */

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* The name before every sentence, such as "tpp train"; kept, not copied. */
void say_as(const char *name);

/* The caller of the program has to change something: returns EXIT_USAGE. */
__attribute__((format(printf, 1, 2))) int usage_error(const char *format, ...);

/* What the program was given to read does not fit: returns EXIT_FAILED. */
__attribute__((format(printf, 1, 2))) int data_error(const char *format, ...);

/* The system refused: the sentence ends with strerror(errno). Returns EXIT_FAILED. */
__attribute__((format(printf, 1, 2))) int system_error(const char *format, ...);

/* The library refused: "could not <doing>: <its message>". Returns EXIT_FAILED. */
int library_error(const char *doing);

/* 1234567 as "1,234,567". The text lives in `out`. */
enum { GROUPED_BYTES = 32 };
const char *grouped(char out[GROUPED_BYTES], int64_t number);

#endif
