/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COMMAND_OPTION_ROWS_H
#define TPP_COMMAND_OPTION_ROWS_H

/* Rows of a table of options (options.h). Before this is included, OPTIONS names the struct that they
 * fill. */

#include "options.h"

#include <stddef.h>

#define AT(field) offsetof(OPTIONS, field)
#define HEADING(text)                                                                              \
    { OPTION_HEADING, NULL, NULL, text, 0, 0, 0, NULL }
#define PATH(name, field, text)                                                                    \
    { OPTION_FILE, name, "FILE", text, AT(field), 0, 0, NULL }
#define FLAG(name, field, text)                                                                    \
    { OPTION_FLAG, name, NULL, text, AT(field), 0, 0, NULL }
#define INT(name, field, least, most, text)                                                        \
    { OPTION_INT, name, "N", text, AT(field), least, most, NULL }
#define REAL(name, field, least, most, text)                                                       \
    { OPTION_REAL, name, "X", text, AT(field), least, most, NULL }
#define CHOICE(name, field, choices, text)                                                         \
    { OPTION_CHOICE, name, "NAME", text, AT(field), 0, 0, choices }
#define ARGUMENT(name, field, text)                                                                \
    { OPTION_ARGUMENT, name, NULL, text, AT(field), 0, 0, NULL }

#endif
