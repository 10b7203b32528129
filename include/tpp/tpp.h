/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TPP_H
#define TPP_TPP_H

/**
 * @file tpp.h
 * libtpp splits the training of transformer models over ranks, on CPU BLAS. This header includes
 * all others; read them in this order:
 *
 * | header | what for |
 * |---|---|
 * | version.h, base.h, status.h | versions, basic types and sized structs, errors |
 * | convert.h | numbers from one type to another; bfloat16 |
 * | comm.h | a group of ranks: self, local threads, traced, your own |
 * | mesh.h | where a rank stands along tp, cp, pp, dp; its groups |
 * | gemm.h | the matrix product table and BLAS's threads |
 * | shard.h, layer.h | what a rank holds; the calls that serve every layer |
 * | linear.h mlp.h attention.h norm.h embedding.h loss.h head.h dropout.h block.h | the layers |
 * | custom.h | a layer of your own, from callbacks |
 * | deadlock.h | why ranks wait for each other, as data and as a drawing |
 * | model.h | a whole model as numbers, and the layers of its parts |
 * | cost.h | parameters, operations and bytes of a model, from its numbers |
 * | cost_comm.h | what its ranks say to each other; ratios of that to computing |
 * | cluster.h | a cluster as numbers; seconds of products, messages, collectives |
 * | layer_cost.h | what a call sends and computes, told beforehand |
 * | recompute.h | layers that are computed again instead of kept |
 * | optim.h | AdamW and gradient norms |
 * | optimize.h | search for schedules; layers onto stages |
 * | validation.h | an optimizer step that does not wait for the other ranks |
 * | schedule.h | pipeline schedules as data, checked before they run |
 * | trace.h | what a run did; Gantt pictures |
 * | exec.h | executors: simulator, serial, threads, your own |
 * | stage.h | layers as pipeline stages |
 *
 * Weights in files are a second library's, libtpp_io: io.h, which is not included here.
 *
 * Rules that hold everywhere: functions return tpp_status (0 good, negative failure) or cannot
 * fail; what a _create makes comes first; the message of a failure is tpp_message(); matrices are row-major;
 * sizes are 64-bit; nothing is printed, nothing exits, no environment variable is read; calls that
 * execute never allocate.
 */

#include <tpp/attention.h>
#include <tpp/base.h>
#include <tpp/block.h>
#include <tpp/cluster.h>
#include <tpp/comm.h>
#include <tpp/convert.h>
#include <tpp/cost.h>
#include <tpp/cost_comm.h>
#include <tpp/custom.h>
#include <tpp/deadlock.h>
#include <tpp/dropout.h>
#include <tpp/embedding.h>
#include <tpp/exec.h>
#include <tpp/gemm.h>
#include <tpp/head.h>
#include <tpp/layer.h>
#include <tpp/layer_cost.h>
#include <tpp/linear.h>
#include <tpp/loss.h>
#include <tpp/mesh.h>
#include <tpp/mlp.h>
#include <tpp/model.h>
#include <tpp/norm.h>
#include <tpp/optim.h>
#include <tpp/optimize.h>
#include <tpp/recompute.h>
#include <tpp/schedule.h>
#include <tpp/shard.h>
#include <tpp/stage.h>
#include <tpp/status.h>
#include <tpp/trace.h>
#include <tpp/validation.h>
#include <tpp/version.h>

#endif
