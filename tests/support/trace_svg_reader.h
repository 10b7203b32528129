/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TEST_TRACE_SVG_READER_H
#define TPP_TEST_TRACE_SVG_READER_H

#include <stdint.h>

/* Reads pictures back, for the writer's own form of SVG: elements and attributes by name. */

/* Empty when the text is well-formed (tags nest, attributes are quoted and unique, entities known),
 * else what is wrong with it. Static text. */
const char *trace_xml_fault(const char *text);

/* Number of occurrences of `what`. */
int64_t trace_count(const char *text, const char *what);

/* The attribute of the element that starts at `element` (at its '<'): as a number, NAN when there
 * is none; as text into out, "" when there is none. */
double trace_number(const char *element, const char *attribute);
void trace_string(const char *element, const char *attribute, char *out, int room);

/* The text between the end of the start tag at `element` and the next '<', into out. */
void trace_content(const char *element, char *out, int room);

#endif
