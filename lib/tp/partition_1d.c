/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#include "tp/partition_1d.h"

/* A product of block 0, and how far block b's operands lie behind it, in elements; c may be NULL. */
typedef struct block_product {
    tpp__product first;
    int64_t step_a, step_b, step_c;
} block_product;

static tpp__product of_block(const tpp_layer *layer, const block_product *p, int32_t block) {
    tpp__product one = p->first;
    int64_t width_c = one.c_dtype ? layer->wide_width : layer->width;
    one.a = (const char *)one.a + block * p->step_a * layer->width;
    one.b = (const char *)one.b + block * p->step_b * layer->width;
    one.bias = one.bias ? (const char *)one.bias + block * p->step_c * layer->width : NULL;
    one.c = one.c ? (char *)one.c + block * p->step_c * width_c : NULL;
    return one;
}

/* Blocks that are independent of each other. */
static tpp_status each_block(const tpp_layer *layer, const block_product *p) {
    tpp_status status = TPP_OK;
    for (int32_t b = 0; b < layer->count && status == TPP_OK; b++) {
        tpp__product one = of_block(layer, p, b);
        status = tpp__kern_gemm(&layer->gemm, &one);
    }
    return status;
}

/* Products that are added up inside a block, in their order; all give [m, n]. */
typedef struct block_products {
    block_product p[TPP__OPERANDS];
    int32_t count;
} block_products;

static tpp_status do_products(const tpp_layer *layer, const block_products *all, int32_t block,
                              void *c) {
    tpp__product products[TPP__OPERANDS];
    for (int32_t i = 0; i < all->count; i++)
        products[i] = of_block(layer, &all->p[i], block);
    products[0].c = c;
    return tpp__kern_gemm_sum(&layer->gemm, products, all->count);
}

/* c = sum over blocks [first, first + count) along the binary tree; c is contiguous. */
static tpp_status sum_blocks(const tpp_layer *layer, const block_products *p, int32_t first,
                             int32_t count, void *c, tpp__arena scratch) {
    if (count == 1)
        return do_products(layer, p, first, c);
    int64_t elements = p->p[0].first.m * p->p[0].first.n;
    void *right = tpp__arena_take(&scratch, elements, layer->width);
    tpp_status status = sum_blocks(layer, p, first, count / 2, c, scratch);
    if (status == TPP_OK)
        status = sum_blocks(layer, p, first + count / 2, count / 2, right, scratch);
    if (status == TPP_OK)
        tpp__kern_add(layer->dtype, elements, right, c);
    return status;
}

void tpp__block_sum_scratch(const tpp_layer *layer, int64_t count, tpp__arena *arena) {
    for (int32_t n = layer->count; n > 1; n /= 2)
        tpp__arena_take(arena, count, layer->width);
}

/* With a parameter on the right. */
static block_product product(const tpp_layer *layer, int64_t m, int64_t n, int64_t k) {
    block_product p = {.first = {.dtype = layer->dtype, .m = m, .n = n, .k = k, .alpha = 1}};
    p.first.flags = TPP_GEMM_B_PARAM;
    return p;
}

/* Added to the gradient of a parameter. */
static block_product gradient(const tpp_layer *layer, int64_t m, int64_t n, int64_t k) {
    block_product p = product(layer, m, n, k);
    p.first.flags = 0;
    p.first.beta = 1;
    p.first.c_dtype = layer->wide;
    return p;
}

tpp_status tpp__col_forward(const tpp_layer *layer, tpp__linear_shape s, const void *x,
                            const void *w, const void *bias, void *y) {
    int64_t wide = s.out / layer->count;
    block_product p = product(layer, s.tokens, wide, s.in);
    p.first.a = x, p.first.lda = s.in;
    p.first.b = w, p.first.ldb = s.out, p.step_b = wide;
    p.first.c = y, p.first.ldc = s.out, p.step_c = wide;
    p.first.bias = bias; /* its blocks lie as those of y's columns */
    return each_block(layer, &p);
}

tpp_status tpp__col_input(const tpp_layer *layer, tpp__linear_shape s, const void *dy,
                          const void *w, void *dx, tpp__arena scratch) {
    const tpp__col_operand operand = {s.out, dy, w};
    return tpp__col_input_all(layer, s.tokens, s.in, &operand, 1, dx, scratch);
}

tpp_status tpp__col_input_all(const tpp_layer *layer, int64_t tokens, int64_t in,
                              const tpp__col_operand *operands, int32_t count, void *dx,
                              tpp__arena scratch) {
    block_products all = {.count = count};
    for (int32_t i = 0; i < count; i++) {
        const tpp__col_operand *o = &operands[i];
        int64_t wide = o->out / layer->count;
        block_product *p = &all.p[i];
        *p = product(layer, tokens, in, wide);
        p->first.a = o->dy, p->first.lda = o->out, p->step_a = wide;
        p->first.b = o->w, p->first.ldb = o->out, p->first.trans_b = 1, p->step_b = wide;
        p->first.ldc = in;
    }
    return sum_blocks(layer, &all, 0, layer->count, dx, scratch);
}

tpp_status tpp__col_weight(const tpp_layer *layer, tpp__linear_shape s, const void *x,
                           const void *dy, void *dw, void *dbias) {
    int64_t wide = s.out / layer->count;
    block_product p = gradient(layer, s.in, wide, s.tokens);
    p.first.a = x, p.first.lda = s.in, p.first.trans_a = 1;
    p.first.b = dy, p.first.ldb = s.out, p.step_b = wide;
    p.first.c = dw, p.first.ldc = s.out, p.step_c = wide;
    tpp_status status = each_block(layer, &p);
    if (status == TPP_OK && dbias)
        tpp__kern_bias_grad(layer->dtype, s.tokens, s.out, dy, s.out, dbias);
    return status;
}

tpp_status tpp__row_forward(const tpp_layer *layer, tpp__linear_shape s, const void *x,
                            const void *w, void *y, tpp__arena scratch) {
    const tpp__row_operand operand = {s.in, x, w};
    return tpp__row_forward_all(layer, s.tokens, s.out, &operand, 1, y, scratch);
}

tpp_status tpp__row_forward_all(const tpp_layer *layer, int64_t tokens, int64_t out,
                                const tpp__row_operand *operands, int32_t count, void *y,
                                tpp__arena scratch) {
    block_products all = {.count = count};
    for (int32_t i = 0; i < count; i++) {
        const tpp__row_operand *o = &operands[i];
        int64_t tall = o->in / layer->count;
        block_product *p = &all.p[i];
        *p = product(layer, tokens, out, tall);
        p->first.a = o->x, p->first.lda = o->in, p->step_a = tall;
        p->first.b = o->w, p->first.ldb = out, p->step_b = tall * out;
        p->first.ldc = out;
    }
    return sum_blocks(layer, &all, 0, layer->count, y, scratch);
}

tpp_status tpp__row_input(const tpp_layer *layer, tpp__linear_shape s, const void *dy,
                          const void *w, void *dx) {
    int64_t tall = s.in / layer->count;
    block_product p = product(layer, s.tokens, tall, s.out);
    p.first.a = dy, p.first.lda = s.out;
    p.first.b = w, p.first.ldb = s.out, p.first.trans_b = 1, p.step_b = tall * s.out;
    p.first.c = dx, p.first.ldc = s.in, p.step_c = tall;
    return each_block(layer, &p);
}

tpp_status tpp__row_weight(const tpp_layer *layer, tpp__linear_shape s, const void *x,
                           const void *dy, void *dw, void *dbias) {
    int64_t tall = s.in / layer->count;
    block_product p = gradient(layer, tall, s.out, s.tokens);
    p.first.a = x, p.first.lda = s.in, p.first.trans_a = 1, p.step_a = tall;
    p.first.b = dy, p.first.ldb = s.out;
    p.first.c = dw, p.first.ldc = s.out, p.step_c = tall * s.out;
    tpp_status status = each_block(layer, &p);
    if (status == TPP_OK && dbias)
        tpp__kern_bias_grad(layer->dtype, s.tokens, s.out, dy, s.out, dbias);
    return status;
}
