/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void tpp__text_begin(tpp__text *text, tpp_write_fn write, void *ctx) {
    text->write = write;
    text->ctx = ctx;
    text->used = 0;
    text->status =
        write ? TPP_OK : tpp__fail(TPP_ERR_INVALID, "write is NULL; it must be a function");
}

static void flush(tpp__text *text) {
    if (text->status == TPP_OK && text->used > 0)
        text->status = text->write(text->ctx, text->buffer, text->used);
    text->used = 0;
}

void tpp__text_s(tpp__text *text, const char *string) {
    size_t left = strlen(string);
    while (left > 0) {
        size_t room = sizeof text->buffer - (size_t)text->used;
        size_t part = left < room ? left : room;
        memcpy(text->buffer + text->used, string, part);
        text->used += (int32_t)part;
        string += part;
        left -= part;
        if (text->used == (int32_t)sizeof text->buffer)
            flush(text);
    }
}

void tpp__text_f(tpp__text *text, const char *format, ...) {
    char piece[512];
    va_list args;
    va_start(args, format);
    vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    tpp__text_s(text, piece);
}

void tpp__text_fixed(tpp__text *text, double value, int decimals) {
    double room = 9e18; /* what a scaled integer holds */
    long long scale = 1;
    int kept = 0;
    for (; kept < decimals && fabs(value) * (double)scale * 10 < room; kept++)
        scale *= 10;
    decimals = kept;
    if (fabs(value) >= room) {
        tpp__text_f(text, "%.0f", value); /* no decimal point, so no locale */
        return;
    }
    long long scaled = llround(fabs(value) * (double)scale);
    tpp__text_f(text, "%s%lld", value < 0 && scaled > 0 ? "-" : "", scaled / scale);
    if (decimals > 0)
        tpp__text_f(text, ".%0*lld", decimals, scaled % scale);
}

tpp_status tpp__text_end(tpp__text *text) {
    flush(text);
    return text->status;
}
