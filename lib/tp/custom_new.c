/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/custom_impl.h"

#include <stdio.h>
#include <string.h>

static tpp_status check_desc(const tpp_custom_desc *desc) {
    tpp_status status = tpp__check_positive("desc.in_cols", desc->in_cols);
    if (status == TPP_OK)
        status = tpp__check_positive("desc.out_cols", desc->out_cols);
    if (status == TPP_OK && (desc->flags & TPP_CUSTOM_ONE_ROW) &&
        !(desc->flags & TPP_CUSTOM_TARGETS))
        status = tpp__fail(TPP_ERR_INVALID,
                           "desc.flags has TPP_CUSTOM_ONE_ROW without TPP_CUSTOM_TARGETS; only a "
                           "loss gives one row");
    if (status == TPP_OK && (desc->param_count < 0 || (desc->param_count > 0 && !desc->params)))
        status = tpp__fail(TPP_ERR_INVALID, "desc.param_count = %d with desc.params %s; %s",
                           desc->param_count, desc->params ? "given" : "NULL",
                           "it must be the number of parameters there");
    return status;
}

/* Everything that can be known of the table itself. */
static tpp_status read_ops(const tpp_custom_desc *desc, tpp_custom_ops *ops) {
    tpp_status status = tpp__sized_read(ops, sizeof *ops, 0, desc->ops, "desc.ops");
    if (status != TPP_OK)
        return status;
    const char *missing = NULL;
    if (!ops->forward)
        missing = "forward";
    else if (!ops->backward_input && desc->in_dtype != TPP_I32)
        missing = "backward_input";
    else if (!ops->backward_weight && desc->param_count > 0)
        missing = "backward_weight";
    if (!missing)
        return TPP_OK;
    return tpp__fail(TPP_ERR_INVALID, "desc.ops.%s is NULL; it must be a function%s", missing,
                     missing[0] == 'f'                        ? ""
                     : strcmp(missing, "backward_input") == 0 ? " unless desc.in_dtype is TPP_I32"
                                                              : " when there are parameters");
}

static tpp_status check_name(const tpp_layer *layer, int32_t i, const char *name) {
    size_t length = name ? strlen(name) : 0;
    if (length == 0 || length >= TPP__NAME_MAX)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.params[%d].name has %zu characters; accepted: 1 .. %d", i, length,
                         TPP__NAME_MAX - 1);
    for (int32_t j = 0; j < i; j++)
        if (strcmp(layer->params[j].name + strlen(layer->prefix), name) == 0)
            return tpp__fail(TPP_ERR_INVALID,
                             "desc.params[%d].name \"%s\" is also that of desc.params[%d]; each "
                             "name may come once",
                             i, name, j);
    return TPP_OK;
}

/* Only what is split must fit the blocks. */
static tpp_status make_shard(const tpp_layer *layer, int32_t i, const tpp_custom_param *param,
                             tpp_shard *out) {
    int32_t sections = param->sections ? param->sections : 1;
    int64_t length = param->axis == TPP_AXIS_ROWS ? param->rows : param->cols;
    char field[64];
    *out = tpp__shard_whole(param->rows, param->cols);
    if (param->axis == TPP_AXIS_NONE)
        return TPP_OK;
    if (param->axis != TPP_AXIS_ROWS && param->axis != TPP_AXIS_COLS)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.params[%d].axis = %d is not accepted; accepted: 0 (none), 1 (rows), "
                         "2 (columns)",
                         i, param->axis);
    if (sections < 0 || length % sections != 0)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.params[%d].sections = %d does not divide the %lld %s", i, sections,
                         (long long)length, param->axis == TPP_AXIS_ROWS ? "rows" : "columns");
    snprintf(field, sizeof field, "a section of desc.params[%d]", i);
    tpp_status status = tpp__check_blocks(layer, field, length / sections);
    int64_t padded = tpp__padded(layer, length / sections) * sections;
    *out = param->axis == TPP_AXIS_ROWS
               ? tpp__shard_axis(layer, padded, param->cols, TPP_AXIS_ROWS, sections, length)
               : tpp__shard_axis(layer, param->rows, padded, TPP_AXIS_COLS, sections, length);
    return status;
}

static tpp_status check_init(int32_t i, const tpp_custom_param *param, double *std) {
    char field[64];
    if (param->init != TPP_INIT_ZERO && param->init != TPP_INIT_ONE &&
        param->init != TPP_INIT_NORMAL)
        return tpp__fail(
            TPP_ERR_INVALID,
            "desc.params[%d].init = %d is not accepted; accepted: 0 (zero), 1 (one), 2 "
            "(normal)",
            i, param->init);
    snprintf(field, sizeof field, "desc.params[%d].init_std", i);
    return tpp__check_std(field, param->init_std, 0.02, std);
}

static tpp_status add_param(tpp_layer *layer, int32_t i, const void *given) {
    tpp_custom_param param;
    tpp_shard shard;
    double std = 0;
    char field[64];
    snprintf(field, sizeof field, "desc.params[%d]", i);
    tpp_status status = tpp__sized_read(&param, sizeof param, TPP_PARAM_NO_DECAY, given, field);
    if (status == TPP_OK)
        status = check_name(layer, i, param.name);
    snprintf(field, sizeof field, "desc.params[%d].rows", i);
    if (status == TPP_OK)
        status = tpp__check_positive(field, param.rows);
    snprintf(field, sizeof field, "desc.params[%d].cols", i);
    if (status == TPP_OK)
        status = tpp__check_positive(field, param.cols);
    if (status == TPP_OK)
        status = check_init(i, &param, &std);
    if (status == TPP_OK)
        status = make_shard(layer, i, &param, &shard);
    if (status == TPP_OK)
        tpp__layer_add_param(layer, param.name, shard, param.init, std, param.flags);
    return status;
}

static tpp_status add_params(tpp_layer *layer, const tpp_custom_desc *desc) {
    tpp__custom *self = (tpp__custom *)layer;
    tpp_status status = TPP_OK;
    for (int32_t i = 0; i < desc->param_count && status == TPP_OK; i++) {
        status = add_param(layer, i, (const char *)desc->params + (size_t)i * desc->params->size);
        if (status == TPP_OK) {
            self->offsets[i] = layer->params[i].offset;
            self->grad_offsets[i] = layer->params[i].grad_offset;
        }
    }
    return status;
}

static tpp_status fill(tpp_layer *layer, const tpp_custom_desc *desc) {
    tpp__custom *self = (tpp__custom *)layer;
    self->offsets = (int64_t *)(void *)(self + 1);
    self->grad_offsets = self->offsets + desc->param_count;
    layer->in_cols = desc->in_cols;
    layer->out_cols = desc->out_cols;
    layer->in_dtype = desc->in_dtype ? desc->in_dtype : layer->dtype;
    layer->targets = desc->flags & TPP_CUSTOM_TARGETS;
    layer->one_row = desc->flags & TPP_CUSTOM_ONE_ROW;
    layer->out_always = true; /* callbacks know of no call without */
    bool parted = layer->sequence && desc->flags & TPP_CUSTOM_SEQUENCE;
    layer->in_part = parted && layer->in_dtype == layer->dtype;
    layer->out_part = parted && !layer->targets;
    if (layer->targets)
        layer->out_dtype = layer->wide;
    if (layer->in_dtype != layer->dtype && layer->in_dtype != TPP_I32)
        return tpp__fail(TPP_ERR_INVALID,
                         "desc.in_dtype = %d is not accepted; accepted: 0 (env.dtype), %d, %d "
                         "(token ids)",
                         desc->in_dtype, layer->dtype, TPP_I32);
    return add_params(layer, desc);
}

tpp_status tpp_custom_create(tpp_layer **out, const tpp_layer_env *env,
                             const tpp_custom_desc *given) {
    tpp_custom_desc desc;
    tpp_custom_ops callbacks;
    tpp_layer *layer;
    tpp_status status = tpp__sized_read(
        &desc, sizeof desc, TPP_CUSTOM_TARGETS | TPP_CUSTOM_ONE_ROW | TPP_CUSTOM_SEQUENCE, given,
        "desc");
    if (status == TPP_OK)
        status = check_desc(&desc);
    if (status == TPP_OK)
        status = read_ops(&desc, &callbacks);
    if (status == TPP_OK) {
        int64_t offsets = 2 * (int64_t)desc.param_count * (int64_t)sizeof(int64_t);
        status = tpp__layer_new(&layer, env, (int64_t)sizeof(tpp__custom) + offsets,
                                &tpp__custom_ops, desc.param_count, 0);
    }
    if (status != TPP_OK)
        return tpp__layer_hand_over(out, NULL, status);
    status = tpp__layer_hand_over(out, layer, fill(layer, &desc));
    if (status == TPP_OK) { /* from now on ctx goes with the layer */
        ((tpp__custom *)layer)->ops = callbacks;
        ((tpp__custom *)layer)->ctx = desc.ctx;
    }
    return status;
}
