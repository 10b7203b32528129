/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "trace/svg.h"

#include <math.h>
#include <string.h>

double tpp__svg_width(int64_t chars, double font) {
    return (double)chars * font * 0.62;
}

/* Length of the UTF-8 sequence at s if it is a character that XML 1.0 allows, else 0. */
static size_t sequence(const unsigned char *s, size_t left) {
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
    if (n == 0 || n > left)
        return 0;
    uint32_t code = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if (s[i] >> 6 != 2)
            return 0;
        code = code << 6 | (s[i] & 0x3fu);
    }
    bool surrogate = code >= 0xd800 && code < 0xe000;
    bool none = code == 0xfffe || code == 0xffff || code > 0x10ffff;
    return code < smallest[n] || surrogate || none ? 0 : n;
}

static void escape_ascii(tpp__text *text, char c) {
    const char one[2] = {c, 0};
    switch (c) {
    case '<':
        tpp__text_s(text, "&lt;");
        break;
    case '>':
        tpp__text_s(text, "&gt;");
        break;
    case '&':
        tpp__text_s(text, "&amp;");
        break;
    case '"':
        tpp__text_s(text, "&quot;");
        break;
    case '\'':
        tpp__text_s(text, "&#39;");
        break;
    default:
        tpp__text_s(text, (unsigned char)c < 0x20 || c == 0x7f ? " " : one);
        break;
    }
}

void tpp__svg_escaped(tpp__text *text, const char *string, size_t bytes) {
    size_t left = strnlen(string, bytes);
    while (left > 0) {
        size_t n = sequence((const unsigned char *)string, left);
        char copy[5] = {0};
        if (n > 1) {
            memcpy(copy, string, n);
            tpp__text_s(text, copy);
        } else {
            escape_ascii(text, n == 1 ? *string : '?');
        }
        string += n ? n : 1;
        left -= n ? n : 1;
    }
}

void tpp__svg_number(tpp__text *text, double value, int most) {
    long long digits = llround(fabs(value) * pow(10, most));
    while (most > 0 && digits % 10 == 0) {
        digits /= 10;
        most--;
    }
    tpp__text_fixed(text, value, most);
}

/* Bytes of the first line: up to `limit` characters, ending before a space where there is one. */
static size_t line_bytes(const char *s, int64_t limit) {
    size_t space = 0;
    int64_t chars = 0;
    for (size_t i = 0; s[i]; i++) {
        if (((unsigned char)s[i] >> 6) != 2 && ++chars > limit)
            return space ? space : i;
        if (s[i] == ' ' && i > 0)
            space = i;
    }
    return strlen(s);
}

int tpp__svg_lines(tpp__svg *svg, const char *string, double y, double font, const char *attributes,
                   bool draw) {
    double room = svg->desc.width - 2 * TPP__SVG_PAD;
    int64_t limit = (int64_t)(room / tpp__svg_width(1, font));
    int lines = 0;
    while (*string) {
        size_t bytes = line_bytes(string, limit);
        if (draw) {
            tpp__text_f(&svg->text, "<text x=\"%d\" y=\"", (int)TPP__SVG_PAD);
            tpp__svg_number(&svg->text, y + font + lines * font * 1.35, 2);
            tpp__text_f(&svg->text, "\" %s>", attributes);
            tpp__svg_escaped(&svg->text, string, bytes);
            tpp__text_s(&svg->text, "</text>\n");
        }
        string += bytes;
        string += *string == ' ';
        lines++;
    }
    return lines;
}
