/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "trace/svg.h"

/* With several chunks the shades of an operation go from dark (chunk 0) to light (last chunk), with
 * two directions from dark to light too. The
 * four families stay apart for protanopes, deuteranopes and tritanopes too: CIEDE2000 is at least
 * 11 between the ends of any two, and 40 between forwards and backwards. */
typedef struct family {
    uint32_t plain; /* the only chunk */
    uint32_t dark;
    uint32_t light;
} family;

static family family_of(tpp_op op) {
    switch (op) {
    case TPP_OP_F:
        return (family){0x3a7fc1, 0x1a5f9e, 0x7ab6ec}; /* blue */
    case TPP_OP_B:
        return (family){0xf08c2e, 0xc9660f, 0xf7b272}; /* orange */
    case TPP_OP_I:
        return (family){0x2fae9b, 0x0e8674, 0xa0efe2}; /* teal */
    case TPP_OP_W:
        return (family){0xb3315f, 0x860c3c, 0xee6f9e}; /* wine */
    default:
        return (family){0x62676d, 0x62676d, 0x62676d}; /* of all chunks: grey */
    }
}

static double channel(uint32_t color, int shift) {
    return (double)(color >> shift & 0xff);
}

static uint32_t mix(uint32_t from, uint32_t to, double share) {
    uint32_t mixed = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        double value = channel(from, shift) * (1 - share) + channel(to, shift) * share;
        mixed |= (uint32_t)(value + 0.5) << shift;
    }
    return mixed;
}

tpp__svg_paint tpp__svg_paint_of(tpp_op op, int32_t shade, int32_t shades) {
    family f = family_of(op);
    uint32_t fill = f.plain;
    if (shades > 1)
        fill = mix(f.dark, f.light, shade < 0 ? 0 : (double)shade / (shades - 1));
    double luma = 0.30 * channel(fill, 16) + 0.59 * channel(fill, 8) + 0.11 * channel(fill, 0);
    return (tpp__svg_paint){fill, luma > 128};
}

int32_t tpp__svg_shades(const tpp__svg *svg) {
    return svg->view.two_way ? 2 : svg->desc.chunks;
}

tpp__svg_paint tpp__svg_paint_event(const tpp__svg *svg, const tpp_event *event) {
    int32_t shade = svg->view.two_way ? event->direction : event->chunk;
    return tpp__svg_paint_of(event->op, shade, tpp__svg_shades(svg));
}
