/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "utf8.h"

#include <string.h>

/* Bytes of the character that begins so; 0: none does. */
static int length_of(unsigned char first) {
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xc2 && first <= 0xdf) {
        return 2;
    }
    if (first >= 0xe0 && first <= 0xef) {
        return 3;
    }
    return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/* May `next` follow what is held? Some second bytes would make a longer form than needed, half of a
 * UTF-16 pair, or a number beyond the last character. */
static int follows(const struct utf8 *utf8, unsigned char next) {
    unsigned char first = utf8->held[0];
    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    if (utf8->count == 1) {
        low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    }
    return next >= low && next <= high;
}

const char *utf8_add(struct utf8 *utf8, int byte, char out[UTF8_BYTES]) {
    static const char unknown[] = "\xef\xbf\xbd";
    out[0] = 0;
    if (utf8->count > 0 && (byte < 0 || !follows(utf8, (unsigned char)byte))) {
        strcat(out, unknown);
        utf8->count = 0;
    }
    if (byte < 0) {
        return out;
    }
    utf8->held[utf8->count++] = (unsigned char)byte;
    int length = length_of(utf8->held[0]);
    if (length == 0) {
        utf8->count = 0;
        return strcat(out, unknown);
    }
    if (utf8->count == length) {
        strncat(out, (const char *)utf8->held, (size_t)length);
        utf8->count = 0;
    }
    return out;
}
