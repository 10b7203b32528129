/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/attention_impl.h"

#include <stdio.h>

static tpp_status check_heads(tpp_attention_desc *desc) {
    tpp_status status = tpp__check_positive("desc.heads", desc->heads);
    if (status == TPP_OK && desc->head_cols < 0)
        status = tpp__fail(TPP_ERR_INVALID,
                           "desc.head_cols = %d is negative; accepted: 0 (desc.hidden / "
                           "desc.heads), 1 or more",
                           desc->head_cols);
    if (status == TPP_OK && desc->head_cols == 0 && desc->hidden % desc->heads != 0)
        status = tpp__fail(TPP_ERR_INVALID,
                           "desc.heads = %d does not divide desc.hidden = %lld; set desc.head_cols",
                           desc->heads, (long long)desc->hidden);
    if (status == TPP_OK && desc->head_cols == 0)
        desc->head_cols = (int32_t)(desc->hidden / desc->heads);
    int64_t cols = (int64_t)desc->heads * desc->head_cols;
    if (status == TPP_OK && cols > INT32_MAX / 3) /* Q, K and V side by side must suit BLAS */
        status = tpp__fail(TPP_ERR_INVALID,
                           "desc.heads x desc.head_cols = %lld is too wide; accepted: 1 .. %d",
                           (long long)cols, INT32_MAX / 3);
    return status;
}

static tpp_status check_kv_heads(tpp_attention_desc *desc) {
    if (desc->kv_heads == 0)
        desc->kv_heads = desc->heads;
    if (desc->kv_heads > 0 && desc->heads % desc->kv_heads == 0)
        return TPP_OK;
    char accepted[160];
    tpp__divisors(desc->heads, accepted, sizeof accepted);
    return tpp__fail(TPP_ERR_INVALID,
                     "desc.kv_heads = %d does not divide desc.heads = %d; accepted: 0 (heads), %s",
                     desc->kv_heads, desc->heads, accepted);
}

static tpp_status check_meeting(tpp_attention_desc *desc) {
    if (desc->window < 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.window = %lld is negative; accepted: 0 (none), 1 or more",
                         (long long)desc->window);
    if (desc->context != TPP_CONTEXT_RING && desc->context != TPP_CONTEXT_ALL_TO_ALL)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.context = %d is not accepted; accepted: 0 (ring), 1 (all-to-all)",
                         desc->context);
    if ((desc->flags & TPP_ATTENTION_QKV_BIAS) && !(desc->flags & TPP_ATTENTION_NO_BIAS))
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.flags has TPP_ATTENTION_QKV_BIAS without TPP_ATTENTION_NO_BIAS, "
                         "whose exception it is");
    return tpp__check_std("desc.norm_epsilon", desc->norm_epsilon, 1e-5, &desc->norm_epsilon);
}

static tpp_status check_desc(tpp_attention_desc *desc) {
    tpp_status status = tpp__check_positive("desc.hidden", desc->hidden);
    if (status == TPP_OK)
        status = check_heads(desc);
    if (status == TPP_OK)
        status = check_kv_heads(desc);
    if (status == TPP_OK)
        status = check_meeting(desc);
    if (status == TPP_OK)
        status = tpp__check_std("desc.init_std", desc->init_std, 0.02, &desc->init_std);
    if (status == TPP_OK)
        status = tpp__check_std("desc.out_std", desc->out_std, desc->init_std, &desc->out_std);
    return status;
}

/* Blocks that these heads can be cut into: each has whole query heads, and whole K/V heads or one
 * that its neighbours share. */
static bool fits(const tpp_attention_desc *desc, int32_t blocks) {
    return desc->heads % blocks == 0 &&
           (desc->kv_heads % blocks == 0 || blocks % desc->kv_heads == 0);
}

static tpp_status refuse_blocks(const tpp_layer *layer, const tpp_attention_desc *desc) {
    if (desc->kv_heads == desc->heads)
        return tpp__check_blocks(layer, "desc.heads", desc->heads);
    char accepted[160] = "";
    int used = 0;
    for (int32_t n = 1; n <= desc->heads && used < (int)sizeof accepted - 16; n++)
        if (fits(desc, n))
            used += snprintf(accepted + used, sizeof accepted - (size_t)used, "%s%d",
                             used ? ", " : "", n);
    return tpp__fail(
        TPP_ERR_INVALID,
        "desc.heads = %d with desc.kv_heads = %d cannot be split into %s = %d; they allow: %s",
        desc->heads, desc->kv_heads, layer->blocks != layer->ranks ? "blocks" : "tp", layer->blocks,
        accepted);
}

tpp_status tpp__attention_split_heads(const tpp_layer *layer, const tpp_attention_desc *desc,
                                      int64_t *heads, int64_t *kv_heads) {
    *heads = desc->heads;
    *kv_heads = desc->kv_heads;
    if (fits(desc, layer->blocks))
        return TPP_OK;
    if (!(layer->env.flags & TPP_ENV_UNEVEN))
        return refuse_blocks(layer, desc);
    *kv_heads = tpp__whole_blocks(layer, desc->kv_heads);
    *heads = *kv_heads * (desc->heads / desc->kv_heads);
    if (*heads * desc->head_cols <= INT32_MAX / 3)
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID,
                     "desc.heads = %d padded to %lld x desc.head_cols = %d is too wide; accepted: "
                     "1 .. %d columns",
                     desc->heads, (long long)*heads, desc->head_cols, INT32_MAX / 3);
}

tpp_status tpp__attention_read(const tpp_attention_desc *given, tpp_attention_desc *desc,
                               tpp_rope_desc *rope) {
    uint32_t flags = TPP_ATTENTION_NO_BIAS | TPP_ATTENTION_QKV_BIAS | TPP_ATTENTION_SEPARATE_QKV |
                     TPP_ATTENTION_QK_NORM | TPP_ATTENTION_FULL;
    *rope = (tpp_rope_desc){0};
    tpp_status status = tpp__sized_read(desc, sizeof *desc, flags, given, "desc");
    if (status == TPP_OK)
        status = check_desc(desc);
    if (status == TPP_OK && desc->rope)
        status = tpp__rope_read(desc->rope, desc->head_cols, rope);
    return status;
}
