/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_SHARD_IMPL_H
#define TPP_TP_SHARD_IMPL_H

#include <stdbool.h>
#include <tpp/shard.h>

/* Does a map keep the rules of tpp_shard? NULL does not. */
bool tpp__shard_sound(const tpp_shard *shard);

/* Indices along an axis, split or not: of the full tensor without padding; of a rank's part. */
int64_t tpp__shard_full(const tpp_shard *shard, tpp_axis axis);
int64_t tpp__shard_part(const tpp_shard *shard, tpp_axis axis);

#endif
