/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_BASE_TEXT_H
#define TPP_BASE_TEXT_H

#include <tpp/status.h>

/* Buffered text on its way to a caller's sink. Errors are sticky; ask once, at flush. */
typedef struct tpp__text {
    tpp_write_fn write;
    void *ctx;
    tpp_status status;
    int32_t used;
    char buffer[2048];
} tpp__text;

void tpp__text_begin(tpp__text *text, tpp_write_fn write, void *ctx);

/* printf without floating-point conversions: their decimal point follows the host's locale. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void tpp__text_f(tpp__text *text, const char *format, ...);

/* A string of any length. */
void tpp__text_s(tpp__text *text, const char *string);

/* A finite number with 0 .. 9 decimals and a point, whatever the locale; fewer decimals where the
 * number has more than 18 digits. */
void tpp__text_fixed(tpp__text *text, double value, int decimals);

/* Hand over what is buffered; the first failure of the sink, or TPP_OK. */
tpp_status tpp__text_end(tpp__text *text);

#endif
