/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_LAYER_H
#define TPP_LAYER_H

/**
 * @file layer.h
 * A layer is one tensor-parallel operation made ready for this rank: shapes, shards, sizes. Every
 * kind (linear.h, mlp.h, attention.h, norm.h, embedding.h, head.h, loss.h, dropout.h, block.h, custom.h,
 * and the chain below) has a descriptor and a _create; the calls of this header serve them all. A layer holds no
 * numbers: parameters, gradients and activations are the caller's memory, so one layer serves any
 * number of micro-batches and threads.
 *
 *     tpp_layer_env env = {0};
 *     env.size = sizeof env;
 *     env.comm = comm;                                     // NULL: one rank
 *     tpp_layer *mlp;
 *     tpp_mlp_create(&mlp, &env, &desc);
 *     tpp_layer_info info = {0};
 *     info.size = sizeof info;
 *     tpp_layer_query(mlp, 1, tokens, &info);              // bytes of state, saved, scratch
 *     tpp_call call = {0};
 *     call.size = sizeof call;
 *     call.params = params;                                // and so on: your memory
 *     tpp_layer_forward(mlp, &call);
 *     tpp_layer_backward(mlp, &call);
 *
 * A _create that fails sets *out to NULL.
 *
 * Matrices of a call are contiguous (their stride is 0 or cols) and do not overlap. `in` of tokens,
 * `targets` and `weights` are the same on all ranks of env.comm. An empty batch is done at once,
 * without communication. Any call may also return TPP_ERR_TOO_NEW or TPP_ERR_OVERFLOW.
 *
 * A call that fails on one rank alone leaves the others waiting for it until their deadline: abort
 * the group (tpp_comm_abort), as executors do by themselves.
 *
 * Packed sequences. With call.lengths the sequences of a batch have different lengths, 0 included,
 * and lie one behind the other; attention keeps them apart. Memory queried for (batch, seq) is enough
 * for any lengths up to seq.
 *
 * Serving. With TPP_CALL_NO_GRAD a forward is all there is: nothing is saved, and layers hand their
 * memory on to the next one. With a cache (call.cache) attention keeps the keys and values of the
 * tokens it has seen, and a call brings the next tokens alone: a prompt in one call or in pieces, then
 * a token a call, sequences of different lengths side by side. The result is that of one pass over
 * the whole sequences.
 *
 *     tpp_serve_info serve = {0};
 *     serve.size = sizeof serve;
 *     tpp_layer_serve_query(model, 1, 512, 2048, &serve);  // 512 tokens a call, 2048 in all
 *     call.flags = TPP_CALL_NO_GRAD;
 *     call.cache = memory;                                 // serve.cache_bytes
 *     call.cache_bytes = serve.cache_bytes;
 *     call.cache_seq = 2048;
 *     call.past = &seen;                                   // int32_t seen = 0: tokens so far
 *     tpp_layer_forward(model, &call);
 *     seen += 512;                                         // less again: the last ones are forgotten
 *
 * Memory. Three words: *scratch* is dead when a call returns; *saved* is written by forward and
 * read by backward, one per micro-batch in flight; *state* is parameters and, with the same layout
 * (but for bfloat16), gradients. Gradients accumulate: zero them before the first micro-batch. No
 * call here allocates, except create. "Memory:" lines below count elements; each piece is rounded
 * up to 64 bytes.
 *
 * bfloat16. With env.dtype = TPP_BF16 parameters, activations, their gradients, what backward reads
 * of them, and messages of them are bfloat16 (convert.h): half the memory and traffic of float32.
 * Arithmetic is float32. Products are summed over all of their inner size before they are rounded;
 * with OpenBLAS's table and a CPU that multiplies bfloat16 (AVX512-BF16) they take less time than
 * float32's, on one core a rank, and factors below 2^-126 count as 0. What is computed of rows
 * (means, largest, sums of exponents), losses and the gradients of parameters are float32, so that
 * micro-batches add up; gradients therefore have a layout of their own (info.grad_bytes,
 * tpp_param_info.grad_offset). A part of a sum over ranks, or fixed blocks, is rounded before it is
 * sent, and so is each sum of two on the way: with n parts the sum is off by at most (1 + log2 n)
 * 2^-8 of the sum of their sizes. In the tests a layer is within 8 * 2^-8 of a tensor's largest
 * entry of the exact result of its inputs, a block or a small model within 16 * 2^-8. Calls need
 * 300 KiB of stack.
 *
 * Halves. backward = backward_input (gradient of the input) then backward_weight (gradients of the
 * parameters), bit for bit. Zero-bubble schedules call the halves apart; `saved` is then longer by
 * split_bytes, and in, grad_out and saved stay as they are between the two.
 *
 * Gradients of parameters that every rank holds whole (norms, row biases, positions) are equal on all
 * ranks: nothing is left to reduce over env.comm, except what has copies (tpp_layer_sum_copies).
 *
 * Operators. f: identity forward, all-reduce of the input's gradient backward. g: all-reduce of the
 * output forward, identity backward (Shoeybi et al. 2019, Megatron-LM, section 3). In backward the
 * all-reduce of f is started before the weight gradients and awaited after them.
 *
 * Same bits. Without fixed blocks the result depends on the number of ranks in its last bits. With
 * env.blocks = R (a power of two, the number of ranks divides R) every product is done in the
 * shapes of R ranks, and partial sums are added along a fixed binary tree: 1, 2, 4, .. R ranks give
 * the same bits.
 *
 * Uneven shards. What is split (an MLP's ffn, heads, columns or rows of a linear layer) is a
 * multiple of the blocks, else _create refuses it and lists what fits. With TPP_ENV_UNEVEN every
 * block gets ceil(width / R) of it, heads in whole groups that share a K/V head, and the end of the
 * last ones is zeros (shard.h, "Padding"): the result is that of the unsplit layer, zeros stay zeros
 * in training, and full tensors do not show them. "Memory:" lines then round width / t up to whole
 * blocks.
 *
 * Context parallel. With env.context, a group of c ranks, every sequence of S tokens is spread over
 * them: call.seq = S / c, an even number, is each rank's share, and rank i holds the chunks i and
 * 2c - 1 - i of the 2c chunks of the sequence, so that causal attention is equal work for all
 * (tpp_context_index tells which tokens). Attention alone talks over env.context (attention.h);
 * positions are those in the whole sequence. Every parameter is whole on every rank of env.context,
 * and its gradient a part of the sum: tpp_layer_sum_context once per step, after
 * tpp_layer_sum_copies, adds them up. A loss that is a mean needs call.weight_sum (loss.h).
 *
 * Sequence parallelism (Korthikanti et al. 2022, Reducing activation recomputation in large transformer
 * models, section 4.2.2). With TPP_ENV_SEQUENCE a matrix whose columns are whole is cut by rows: the
 * tokens of the call (of all sequences, one behind the other) go to the R blocks in order, ceil(tokens
 * / R) to each, so that the last ones may get fewer or none, and a rank has the rows of its blocks
 * (tpp_layer_rows). Norms, dropout and residuals work on these alone, and what is saved of them is 1 /
 * t as long. f becomes an all-gather forward and a reduce-scatter backward, g a reduce-scatter forward
 * and an all-gather backward; where f's input is needed again, for weight gradients, it is gathered again
 * in backward instead of being kept. "tokens * hidden" in a "Comm:" line of an all-gather or a
 * reduce-scatter is what each rank gives or gets: ceil(tokens / R) * R / t * hidden. Token ids, targets
 * and matrices cut by columns (between column and row, logits) have all rows on every rank. Norms'
 * parameters have a copy for every block, which sums the gradient over its own rows:
 * tpp_layer_sum_copies. Results are those without the flag, bit for bit with fixed blocks but for the
 * gradients of norms; these too are the same for every number of ranks.
 *
 * Threads: a layer is immutable. Calls on one layer may run on several threads with different
 * memory, but a call that communicates uses env.comm, and a comm handle is used by one thread at a
 * time.
 */

#include <tpp/comm.h>
#include <tpp/gemm.h>
#include <tpp/shard.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tpp_layer tpp_layer;

/** Flags of tpp_layer_env. */
enum {
    /** Leave BLAS's thread count alone in calls of this layer, also with several ranks or fixed
     * blocks. */
    TPP_ENV_BLAS_INHERIT = 1,
    /** Widths and heads that the blocks do not divide are accepted: "Uneven shards" above. */
    TPP_ENV_UNEVEN = 4,
    /** Between tensor-parallel regions every rank holds its rows of the tokens alone: "Sequence
     * parallelism" above. All layers of a model have it, or none. */
    TPP_ENV_SEQUENCE = 8
};

/** Where a layer lives. One for all layers of a rank. */
typedef struct tpp_layer_env {
    uint32_t size;
    uint32_t flags; /**< TPP_ENV_... */
    /** tensor-parallel group, must outlive the layer; NULL: one rank */
    tpp_comm *comm;
    /** of parameters and activations: TPP_F32, TPP_F64, TPP_BF16; 0: TPP_F32 */
    tpp_dtype dtype;
    int32_t blocks;                 /**< R for the same bits under any number of ranks; 0: free */
    const tpp_gemm_ops *gemm;       /**< NULL: OpenBLAS; the table is copied */
    const tpp_allocator *allocator; /**< NULL: malloc */
    /** begins the names of parameters, such as "h.3."; NULL: ""; copied; at most 80 characters.
     * Different for each layer of a model: parameters of equal names start with equal numbers. */
    const char *name;
    /** context-parallel group, over whose ranks every sequence is spread ("Context parallel" above);
     * must outlive the layer; another one than comm; NULL: one rank */
    tpp_comm *context;
} tpp_layer_env;

/** Facts of a layer, and the memory it needs for a batch. */
typedef struct tpp_layer_info {
    uint32_t size;
    uint32_t flags;        /**< 0 */
    tpp_dtype in_dtype;    /**< of call.in: TPP_I32 for token ids */
    tpp_dtype out_dtype;   /**< of call.out */
    int64_t in_cols;       /**< columns of call.in on this rank */
    int64_t out_cols;      /**< columns of call.out on this rank */
    int32_t params;        /**< number of parameters */
    int32_t blocks;        /**< R in force: env.blocks, or the number of ranks */
    int32_t targets;       /**< 1: call.targets is needed */
    uint32_t reserved0;    /**< 0 */
    int64_t state_bytes;   /**< of parameters */
    int64_t saved_bytes;   /**< of call.saved */
    int64_t split_bytes;   /**< further bytes of call.saved for the halves */
    int64_t scratch_bytes; /**< of call.scratch, enough for every call */
    int64_t copies_bytes;  /**< scratch of tpp_layer_sum_copies; 0: no parameter has copies */
    int64_t grad_bytes;    /**< of gradients; state_bytes but for TPP_BF16 */
    int64_t moments_bytes; /**< what tpp_layer_adamw keeps (optim.h) */
    tpp_dtype grad_dtype;  /**< of gradients; env.dtype but for TPP_BF16, which has TPP_F32 */
    uint32_t reserved1;    /**< 0 */
    int64_t tied_bytes;    /**< scratch of tpp_layer_sum_tied; 0: nothing is tied */
    /** rows of call.out: tokens (TPP_ENV_SEQUENCE: or this rank's of them), or 1 of a loss that is
     * summed */
    int64_t out_rows;
    int64_t in_rows;    /**< rows of call.in */
    int64_t undo_bytes; /**< what tpp_layer_adamw_early keeps to take a step back (optim.h) */
} tpp_layer_info;

/** How a parameter starts. */
typedef int32_t tpp_init;
enum { TPP_INIT_ZERO = 0, TPP_INIT_ONE = 1, TPP_INIT_NORMAL = 2 };

/** Flags of tpp_param_info. */
enum {
    TPP_PARAM_NO_DECAY = 1, /**< biases and norms: weight decay is not applied */
    TPP_PARAM_TIED = 2, /**< other layers hold copies under its name: tpp_layer_sum_tied (head.h) */
    TPP_PARAM_COPY = 4  /**< such a copy; another layer holds the one that counts in norms */
};

/** One parameter of a layer. */
typedef struct tpp_param_info {
    uint32_t size;
    uint32_t flags;     /**< TPP_PARAM_... */
    const char *name;   /**< unique in a model when env.name is; borrowed from the layer */
    tpp_shard shard;    /**< full shape and this rank's part */
    int64_t local_rows; /**< rows here */
    int64_t local_cols; /**< columns here; contiguous */
    int64_t offset;     /**< bytes from the start of params */
    tpp_init init;      /**< how tpp_layer_init fills it */
    uint32_t reserved0; /**< 0 */
    double init_std;    /**< standard deviation of TPP_INIT_NORMAL */
    /** bytes from the start of grads, of elements of info.grad_dtype; offset but for TPP_BF16 */
    int64_t grad_offset;
} tpp_param_info;

/** Flags of tpp_call. */
enum {
    /** Forward alone, no backward comes: saved is not used. scratch: tpp_layer_serve_query */
    TPP_CALL_NO_GRAD = 1
};

/** What a call works on. The same struct for forward and backward; unused fields may stay zero. */
typedef struct tpp_call {
    uint32_t size;
    uint32_t flags;   /**< TPP_CALL_... */
    int64_t batch;    /**< sequences */
    int64_t seq;      /**< tokens of a sequence, or of the longest; tokens = batch * seq */
    tpp_mat in;       /**< [in_rows, in_cols]; read by forward and backward */
    tpp_mat out;      /**< [out_rows, out_cols]; written by forward */
    tpp_mat grad_out; /**< [out_rows, out_cols]; read by backward */
    /** [in_rows, in_cols]; written by backward; not used when `in` are ids */
    tpp_mat grad_in;
    const void *params;     /**< state_bytes, aligned to 64 */
    void *grads;            /**< grad_bytes, aligned to 64; added to */
    void *saved;            /**< aligned to 64 */
    int64_t saved_bytes;    /**< at least info.saved_bytes, with halves + split_bytes */
    void *scratch;          /**< aligned to 64 */
    int64_t scratch_bytes;  /**< at least info.scratch_bytes */
    const int32_t *targets; /**< [tokens], of a loss */
    const double *weights;  /**< [tokens], of a loss: what each token counts; NULL: 1 */
    double weight_sum;      /**< what the mean of a loss divides by; 0: see loss.h */
    /** [batch] tokens of each sequence, 0 .. seq: then they lie one behind the other without gaps,
     * and tokens = their sum; NULL: seq each */
    const int32_t *lengths;
    /** [batch] tokens of each sequence that came before these: positions (embedding, rotary) begin
     * there; NULL: 0 */
    const int32_t *past;
    /** of dropout (dropout.h), another one for every micro-batch, the same in forward and backward; 0:
     * nothing is dropped */
    uint64_t dropout_seed;
    /** keys and values of the tokens before these, aligned to 64, with TPP_CALL_NO_GRAD only. Of each
     * sequence the first past are read, and those of this call are added behind them. What is beyond
     * may be anything: a new cache needs no clearing. All calls on it have this batch and cache_seq;
     * a sequence that rests has length 0. NULL in a layer without attention */
    void *cache;
    int64_t cache_bytes; /**< at least that of tpp_layer_serve_query */
    int64_t cache_seq;   /**< tokens of a sequence that the cache has room for; 0 with cache NULL */
} tpp_call;

/** Memory of forward-only calls. */
typedef struct tpp_serve_info {
    uint32_t size;
    uint32_t flags;        /**< 0 */
    int64_t scratch_bytes; /**< of call.scratch */
    int64_t cache_bytes;   /**< of call.cache, of this rank's K/V heads; 0: nothing is kept */
} tpp_serve_info;

/**
 * Facts and memory needs.
 *
 * @param batch,seq shape that the memory is asked for, >= 0.
 * @param out       size must be set.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_OVERFLOW.
 *
 * Threads: any. Comm: none. Since: 0.1.
 */
TPP_API tpp_status tpp_layer_query(const tpp_layer *layer, int64_t batch, int64_t seq,
                                   tpp_layer_info *out);

/**
 * Memory of calls with TPP_CALL_NO_GRAD.
 *
 * @param batch,seq shape of a call, >= 0, as in tpp_layer_query.
 * @param cache_seq tokens of a sequence that the cache is to have room for; 0: calls without a cache.
 * @param out       size must be set. cache_bytes depends on batch and cache_seq alone.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_OVERFLOW; TPP_ERR_UNSUPPORTED (with a cache, for attention
 *         that sees later tokens, TPP_ATTENTION_FULL, or with env.context).
 *
 * Memory: the cache of attention is 2 * batch * cache_seq * kv_heads * head_cols / t elements, where
 * kv_heads counts every copy. Threads: any. Comm: none. Since: 0.1.
 */
TPP_API tpp_status tpp_layer_serve_query(const tpp_layer *layer, int64_t batch, int64_t seq,
                                         int64_t cache_seq, tpp_serve_info *out);

/**
 * This rank's rows of the tokens of a call: all of them, but for TPP_ENV_SEQUENCE.
 *
 * @param tokens        of the call: batch * seq, or the sum of call.lengths.
 * @param first, count  receive the first row and their number.
 * @return TPP_OK; TPP_ERR_INVALID.
 *
 * Threads: any. Comm: none. Since: 0.1.
 */
TPP_API tpp_status tpp_layer_rows(const tpp_layer *layer, int64_t tokens, int64_t *first,
                                  int64_t *count);

/**
 * One parameter. The order of a layer's parameters is the same under every split, but not promised
 * from release to release: find them by name.
 *
 * @param index 0 .. params - 1. @param out size must be set.
 * @return TPP_OK; TPP_ERR_INVALID.
 *
 * Threads: any. Comm: none. Since: 0.1.
 */
TPP_API tpp_status tpp_layer_param(const tpp_layer *layer, int32_t index, tpp_param_info *out);

/**
 * Fill the parameters. A number depends on the seed, the parameter's name and its global index
 * alone, never on the split.
 *
 * @param params state_bytes, aligned to 64. @return TPP_OK; TPP_ERR_INVALID. Threads: any. Comm: none. Since: 0.1.
 */
TPP_API tpp_status tpp_layer_init(const tpp_layer *layer, void *params, uint64_t seed);

/**
 * Compute call.out from call.in.
 *
 * @return TPP_OK; TPP_ERR_INVALID (shape, type or NULL: names the field); TPP_ERR_TOO_SMALL (names
 *         the need; also when past and the new tokens of a sequence are more than cache_seq);
 *         TPP_ERR_RANGE (a token id or target outside the vocabulary); a comm failure.
 *
 * Comm: see the layer's _create. Memory: none allocated. Since: 0.1.
 */
TPP_API tpp_status tpp_layer_forward(const tpp_layer *layer, const tpp_call *call);

/**
 * Compute call.grad_in from call.grad_out and add to call.grads.
 *
 * @return as tpp_layer_forward. Comm: see the layer's _create. Memory: none allocated. Since: 0.1.
 */
TPP_API tpp_status tpp_layer_backward(const tpp_layer *layer, const tpp_call *call);

/**
 * The first half of tpp_layer_backward: call.grad_in. saved holds saved_bytes + split_bytes.
 *
 * @return as tpp_layer_forward. Comm: all that tpp_layer_backward does. Since: 0.1.
 */
TPP_API tpp_status tpp_layer_backward_input(const tpp_layer *layer, const tpp_call *call);

/**
 * The second half: adds to call.grads. After backward_input with the same in, grad_out and saved.
 *
 * @return as tpp_layer_forward. Comm: none. Since: 0.1.
 */
TPP_API tpp_status tpp_layer_backward_weight(const tpp_layer *layer, const tpp_call *call);

/**
 * Sum the gradients of parameters that several blocks hold a copy of (K/V heads fewer than blocks and
 * QK-norms, attention.h; norms with TPP_ENV_SEQUENCE) and write the sum to every copy. Call it once per
 * step, after the last backward and before gradients are used: until then each copy holds what its own
 * block gave. The sum is made along the fixed tree over blocks. Without copies it does nothing.
 *
 * @param grads         grad_bytes.
 * @param scratch       aligned to 64; dead when the call returns.
 * @param scratch_bytes at least info.copies_bytes.
 * @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_TOO_SMALL (names the need); a comm failure.
 *
 * Comm: one all-reduce of the elements of all copied parameters (full tensors) when one is
 * copied over several ranks, none otherwise. Memory: none allocated. Since: 0.1.
 */
TPP_API tpp_status tpp_layer_sum_copies(const tpp_layer *layer, void *grads, void *scratch,
                                        int64_t scratch_bytes);

/**
 * Sum gradients over env.context and give the sum to every rank. Once per step, after the last
 * backward, before gradients are used. Without a context-parallel group it does nothing.
 *
 * @param grads grad_bytes.
 * @return TPP_OK; TPP_ERR_INVALID; a comm failure.
 *
 * Comm: one all-reduce of all parameters' elements over env.context (rounding of each parameter to 64
 * bytes included). Memory: none allocated. Since: 0.1.
 */
TPP_API tpp_status tpp_layer_sum_context(const tpp_layer *layer, void *grads);

/**
 * Which token of a sequence a rank of a context-parallel group holds in its row `local`.
 *
 * @param size ranks of the group. @param rank 0 .. size - 1.
 * @param seq  rows of each rank, even: the sequence has size * seq tokens.
 * @return its index in the sequence; -1 when an argument is out of range.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API int64_t tpp_context_index(int32_t size, int32_t rank, int64_t seq, int64_t local);

/**
 * Layers one after the other, as one layer: a pipeline stage, or a whole model.
 *
 * @param out    receives the chain.
 * @param env    as of its layers (comm, dtype and blocks must be theirs); its name is not used.
 * @param layers count >= 1 layers; out_cols of one is in_cols of the next. On success they belong
 *               to the chain and go with it; on failure they stay the caller's.
 * @return TPP_OK; TPP_ERR_INVALID (names the first pair that does not fit); TPP_ERR_NO_MEMORY.
 *
 * Comm: that of its layers. Memory: saved = that of its layers and what flows between them. Since:
 * 0.1.
 */
TPP_API tpp_status tpp_chain_create(tpp_layer **out, const tpp_layer_env *env,
                                    tpp_layer *const *layers, int32_t count);

/** Free a layer; NULL is fine. The comm and all memory of calls stay the caller's. Since: 0.1. */
TPP_API void tpp_layer_destroy(tpp_layer *layer);

#ifdef __cplusplus
}
#endif

#endif
