/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_PROGRAM_UTF8_H
#define TPP_PROGRAM_UTF8_H

/* Bytes that come one by one, as text: whole characters come out, what is none as U+FFFD. */
struct utf8 {
    unsigned char held[4];
    int count;
};

enum { UTF8_BYTES = 16 };

/* Add a byte, or -1 for the end; returns the text that is complete now, maybe "", in `out`. */
const char *utf8_add(struct utf8 *utf8, int byte, char out[UTF8_BYTES]);

#endif
