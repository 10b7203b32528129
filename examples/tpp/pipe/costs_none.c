/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
/* In the place of costs_file.c where libtpp was built without jansson. */
#include "../say.h"
#include "pipe_costs.h"

int costs_file_read(struct pipe_costs *costs, const char *path) {
    (void)costs;
    return usage_error("--costs %s needs jansson, and this tpp was built without it", path);
}
