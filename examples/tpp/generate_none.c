/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* In the place of the generate command where libtpp was built without jansson. */
#include "generate_main.h"

#include "say.h"

int generate_main(int argc, char **argv) {
    (void)argc;
    (void)argv;
    return usage_error("writing a text needs libtpp_io, and this tpp was built without it");
}
