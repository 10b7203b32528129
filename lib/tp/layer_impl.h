/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_TP_LAYER_IMPL_H
#define TPP_TP_LAYER_IMPL_H

/* What every kind of layer is made of. A kind embeds `tpp_layer` as its first member, fills a
 * table, and sees its arguments checked: doors are in layer.c. */

#include "base/alloc.h"
#include "base/check.h"
#include "kern/kern.h"

#include <stdbool.h>
#include <stddef.h>
#include <tpp/layer.h>

/* Parts of a backward. */
enum { TPP__INPUT = 1, TPP__WEIGHT = 2, TPP__BOTH = 3 };

/* Memory for a batch. */
typedef struct tpp__needs {
    int64_t saved;   /* forward writes, backward reads */
    int64_t split;   /* what the weight half needs of the input half */
    int64_t scratch; /* largest of all calls; TPP__BOTH takes its split from here */
    bool overflow;
    tpp_status failed; /* of a custom layer's query */
} tpp__needs;

/* Memory of a forward without a backward. */
typedef struct tpp__serve {
    int64_t cache; /* of keys and values; depends on batch and cache_seq alone */
    int64_t scratch;
    bool overflow;
    tpp_status failed; /* of a layer that cannot use a cache, or of a custom layer's query */
} tpp__serve;

/* A checked call. All matrices are contiguous. */
typedef struct tpp__work {
    int64_t batch, seq, tokens;
    int64_t first, rows; /* this rank's part of the tokens (part.h) */
    const void *in;
    void *out; /* NULL: forward is done again for backward, which does not read it */
    const void *grad_out;
    void *grad_in;
    const char *params; /* of this layer */
    char *grads;
    char *saved;
    char *split;
    tpp__arena scratch; /* passed by value: what a layer takes is free again when it returns */
    const int32_t *targets;
    const double *weights; /* NULL: 1 */
    double weight_sum;
    const char *tied_params; /* table of layer->tied, and its gradient */
    char *tied_grads;
    const int32_t *lengths, *past; /* [batch] or NULL; see sequences.h */
    uint64_t dropout_seed;         /* 0: none */
    bool no_grad;                  /* no backward comes: what is saved is not kept */
    char *cache;                   /* of this layer */
    int64_t cache_seq;             /* 0: no cache */
} tpp__work;

typedef struct tpp__cost tpp__cost; /* cost_impl.h */

typedef struct tpp__layer_ops {
    void (*needs)(const tpp_layer *layer, int64_t batch, int64_t seq, tpp__needs *needs);
    tpp_status (*forward)(const tpp_layer *layer, const tpp__work *work);
    tpp_status (*backward)(const tpp_layer *layer, const tpp__work *work, int32_t parts);
    void (*destroy)(tpp_layer *layer); /* what the kind has beside its memory; NULL: nothing */
    /* needs of work.no_grad: composite layers, and those with a cache; NULL: saved and scratch. serve
     * is all 0 beforehand */
    void (*serve)(const tpp_layer *layer, int64_t batch, int64_t seq, int64_t cache_seq,
                  tpp__serve *serve);
    /* adds what `parts` of cost_impl.h do; NULL: nothing is to be said of it */
    void (*cost)(const tpp_layer *layer, int32_t parts, tpp__cost *cost);
    const struct tpp__region_ops *region; /* of a region (region.h); NULL: it is none */
} tpp__layer_ops;

typedef struct tpp__param {
    const char *name;
    tpp_shard shard;
    int64_t offset, grad_offset;
    tpp_init init;
    double std;
    uint32_t flags;
} tpp__param;

struct tpp_layer {
    const tpp__layer_ops *ops;
    tpp_allocator allocator;
    int64_t bytes; /* of this struct and what lies behind it */
    tpp_layer_env
        env;        /* as given, for children; its pointers to tables and the name may be stale */
    tpp_comm *comm; /* NULL: one rank */
    int32_t rank, ranks;
    tpp_comm *context; /* NULL: one rank */
    int32_t context_rank, context_size;
    int32_t blocks, count, first; /* R; blocks of this rank: first .. first + count - 1 */
    tpp_dtype dtype;
    int64_t width; /* bytes of an element */
    /* of sums and what is found by sums: gradients of parameters, statistics of rows, losses */
    tpp_dtype wide;
    int64_t wide_width;
    tpp_gemm_ops gemm;
    bool blas_single; /* calls use one BLAS thread */
    tpp_dtype in_dtype, out_dtype;
    int64_t in_cols, out_cols;
    bool sequence;          /* TPP_ENV_SEQUENCE */
    bool in_part, out_part; /* in and out hold this rank's rows alone */
    bool targets;
    bool one_row;          /* out is [1, out_cols] */
    bool out_always;       /* forward needs out even where nobody reads it */
    const tpp_layer *tied; /* an embedding outside of this layer whose table it uses (tied.h) */
    int32_t param_count;
    tpp__param *params;
    int64_t state_bytes, grad_bytes;
    bool state_overflow; /* parameters or gradients do not fit into 64 bits */
    int32_t child_count;
    tpp_layer **children; /* owned */
    int64_t *child_state; /* offset of a child's parameters */
    int64_t *child_grads; /* and of their gradients */
    char *names;          /* room for the names of own parameters */
    char prefix[96];      /* env.name */
};

/* Number of a parameter that is not there: beyond all. */
#define TPP__NO_PARAM INT32_MAX

/* Longest text that a kind puts behind env.name. */
#define TPP__NAME_MAX 32

/* Read env, allocate `bytes` for the kind's struct with room for parameters and children. */
tpp_status tpp__layer_new(tpp_layer **out, const tpp_layer_env *env, int64_t bytes,
                          const tpp__layer_ops *ops, int32_t params, int32_t children);

/* End of a _create: *out = layer. When `status` is a failure the layer, which may be NULL, is
 * destroyed, and *out = NULL. */
tpp_status tpp__layer_hand_over(tpp_layer **out, tpp_layer *layer, tpp_status status);

/* Append a parameter; its shard must be complete. */
void tpp__layer_add_param(tpp_layer *layer, const char *name, tpp_shard shard, tpp_init init,
                          double std, uint32_t flags);

/* Take over a child: its parameters become the layer's. */
void tpp__layer_adopt(tpp_layer *layer, tpp_layer *child);

/* The layer begins as `first` does and ends as `last`. */
void tpp__layer_take_ends(tpp_layer *layer, const tpp_layer *first, const tpp_layer *last);

/* The env of a child of `layer` named `name`; `prefix` holds its text. */
tpp_layer_env tpp__layer_child_env(const tpp_layer *layer, const char *name, char prefix[128]);

/* Shards of this rank: whole on every rank; `sections` * width columns or rows cut into R
 * blocks. */
tpp_shard tpp__shard_whole(int64_t rows, int64_t cols);
tpp_shard tpp__shard_axis(const tpp_layer *layer, int64_t rows, int64_t cols, tpp_axis axis,
                          int32_t sections, int64_t valid);

/* A shard of one section in which `copies` blocks hold the same piece. */
tpp_shard tpp__shard_copied(const tpp_layer *layer, int64_t rows, int64_t cols, tpp_axis axis,
                            int32_t copies);

/* The rule that `value` (named `field`) is a multiple of R, unless TPP_ENV_UNEVEN; the message lists
 * which R are accepted. */
tpp_status tpp__check_blocks(const tpp_layer *layer, const char *field, int64_t value);
/* The next multiple of R; and `value` itself unless TPP_ENV_UNEVEN asks for that. */
int64_t tpp__whole_blocks(const tpp_layer *layer, int64_t value);
int64_t tpp__padded(const tpp_layer *layer, int64_t value);
tpp_status tpp__check_positive(const char *field, int64_t value);

/* Standard deviation field: 0 means `otherwise`; negative or not finite is refused. */
tpp_status tpp__check_std(const char *field, double value, double otherwise, double *out);

/* The rule for the shape of a call. */
tpp_status tpp__check_shape(int64_t batch, int64_t seq);

/* A composite layer that has this child cannot tell its needs when the child cannot. */
void tpp__needs_join(tpp__needs *needs, const tpp__needs *child);

/* Needs and calls of a child inside a composite layer. */
tpp__needs tpp__layer_needs(const tpp_layer *layer, int64_t batch, int64_t seq);
tpp_status tpp__layer_forward(const tpp_layer *layer, const tpp__work *work);
tpp_status tpp__layer_backward(const tpp_layer *layer, const tpp__work *work, int32_t parts);

/* The same without backward (serve.c). `join` adds a child's cache, and takes the larger scratch. */
tpp__serve tpp__layer_serve(const tpp_layer *layer, int64_t batch, int64_t seq, int64_t cache_seq);
void tpp__serve_join(tpp__serve *serve, const tpp__serve *child);
tpp_status tpp__serve_needs(const tpp_layer *layer, int64_t batch, int64_t seq, int64_t cache_seq,
                            tpp__serve *serve);
/* Does every sequence fit into the cache? */
tpp_status tpp__check_cached(const tpp_call *call);

/* FNV-1a of a name: the generator's key, the same under every split. */
uint64_t tpp__name_key(const char *name);

/* An embedding's parameter 0 is its table. */
bool tpp__is_embedding(const tpp_layer *layer);

/* Bytes of tpp_layer_adamw's moments. */
int64_t tpp__moments_bytes(const tpp_layer *layer);

/* Bytes of tpp_layer_adamw_early's undo memory. */
int64_t tpp__undo_bytes(const tpp_layer *layer);

/* Parameter `index` of the layer and its gradient; NULL when the layer has no such parameter (no
 * bias). */
const void *tpp__param_of(const tpp_layer *layer, const tpp__work *work, int32_t index);
void *tpp__grad_of(const tpp_layer *layer, const tpp__work *work, int32_t index);

#endif
