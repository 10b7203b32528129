/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_COST_CLUSTER_READ_H
#define TPP_COST_CLUSTER_READ_H

#include "base/check.h"

#include <tpp/cluster.h>

/* Read and check a cluster, with its defaults filled in. */
tpp_status tpp__cluster_read(tpp_cluster *out, const tpp_cluster *given);

/* value must be finite and >= 0, or a sentence that names it. */
tpp_status tpp__cluster_amount(const char *name, double value);

#endif
