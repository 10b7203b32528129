/* Copyright libtpp authors. SPDX-License-Identifier: Apache-2.0 */
#ifndef TPP_IO_H
#define TPP_IO_H

/**
 * @file io.h
 * Weights in files, in the safetensors format, and models described by a config.json: what PyTorch
 * and Hugging Face read and write. This header belongs to a second library, libtpp_io (it adds jansson, and is the only one that opens
 * files); tpp.h does not include it. Tensors in a file are whole: cut and join them with shard.h,
 * and a file fits every split.
 *
 *     tpp_safetensors_writer *w;
 *     tpp_safetensors_writer_create(&w, "model.safetensors");
 *     tpp_tensor_desc d = {0};
 *     d.size = sizeof d;
 *     d.name = "lm_head.weight";
 *     d.dtype = TPP_F32;
 *     d.rows = 256, d.cols = hidden;
 *     d.data = full;                                // not copied: stays until finish
 *     tpp_safetensors_writer_add(w, &d);
 *     tpp_safetensors_writer_finish(w);             // now the file is there, whole
 *     tpp_safetensors_writer_destroy(w);
 *     tpp_safetensors *file_in;
 *     tpp_safetensors_create(&file_in, "model.safetensors");
 *     tpp_tensor_info info = {0};
 *     info.size = sizeof info;
 *     tpp_safetensors_find(file_in, "lm_head.weight", &info);  // info.data: in the mapped file
 *     tpp_safetensors_destroy(file_in);
 *     tpp_model_desc model = {0};
 *     model.size = sizeof model;
 *     tpp_model_read(&model, "config.json");
 *     tpp_weights *weights;
 *     tpp_weights_create(&weights, "model.safetensors");
 *     tpp_weights_load(weights, model.family, layer, TPP_F32, params); // this rank's part
 *     tpp_weights_destroy(weights);
 *
 * The format: 8 bytes, the length of the header; the header, a JSON object with type, shape and
 * range of bytes per tensor; then the numbers, row by row, little-endian. Types here: float32,
 * float64, bfloat16, float16, int32, int64.
 *
 * Memory: objects of this header come from malloc, as those of jansson do. A program that has
 * functions of jansson's names (json_object and others) must not export them: -fvisibility=hidden.
 */

#include <tpp/layer.h>
#include <tpp/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tpp_safetensors_writer tpp_safetensors_writer;
typedef struct tpp_safetensors tpp_safetensors;
typedef struct tpp_weights tpp_weights;

/** What a tensor's source is asked for. */
typedef struct tpp_tensor_call {
    uint32_t size;
    uint32_t flags;    /**< 0 */
    const char *name;  /**< of the tensor */
    int64_t bytes;     /**< that are wanted */
    const void **data; /**< receives where they are; they stay until the next call of any source */
} tpp_tensor_call;

/** Provides the numbers of one tensor. A negative return ends the writing and is passed on. */
typedef tpp_status (*tpp_tensor_source_fn)(void *ctx, const tpp_tensor_call *call);

/** A tensor to be written. */
typedef struct tpp_tensor_desc {
    uint32_t size;
    uint32_t flags;   /**< 0 */
    const char *name; /**< UTF-8, not empty, unique in the file, not "__metadata__"; copied */
    const void *data; /**< [rows, cols] contiguous, kept until finish; NULL: from source */
    int64_t rows;     /**< >= 0 */
    int64_t cols;     /**< >= 0 */
    tpp_dtype dtype;  /**< TPP_F32, TPP_F64, TPP_BF16, TPP_F16, TPP_I32 or TPP_I64 */
    int32_t dims;     /**< 2 or 0: shape [rows, cols]; 1: shape [cols], rows is 1 */
    tpp_tensor_source_fn source; /**< asked in finish, one tensor at a time; NULL: data */
    void *ctx;                   /**< passed to source */
} tpp_tensor_desc;

/** A tensor of a file. */
typedef struct tpp_tensor_info {
    uint32_t size;
    uint32_t flags;   /**< 0 */
    const char *name; /**< borrowed from the file */
    const void *data; /**< borrowed from the file; aligned to a byte in files of others: memcpy */
    int64_t bytes;    /**< of data */
    int64_t rows;     /**< product of all lengths but the last; 1 with fewer than two */
    int64_t cols;     /**< the last length; 1 for a single number */
    const int64_t *shape; /**< [dims] lengths; borrowed from the file */
    tpp_dtype dtype;      /**< TPP_F32, TPP_F64, TPP_BF16, TPP_F16, TPP_I32 or TPP_I64 */
    int32_t dims;         /**< >= 0 */
} tpp_tensor_info;

/**
 * Begin a file. It is written under another name in the same folder, `path`.<number>.tmp, and gets
 * its own in finish: whoever looks sees the old file or the whole new one.
 *
 * @param out  receives the writer; NULL on failure.
 * @param path of the file; one that exists is replaced in finish, if it is a regular file.
 * @return TPP_OK; TPP_ERR_INVALID (also for what is no regular file); TPP_ERR_IO (cannot be
 *         written); TPP_ERR_NO_MEMORY.
 *
 * Threads: any; a writer is used by one at a time. Since: 0.1.
 */
TPP_API tpp_status tpp_safetensors_writer_create(tpp_safetensors_writer **out, const char *path);

/**
 * Add a tensor.
 *
 * @return TPP_OK; TPP_ERR_INVALID (names the tensor and the rule: a name that is taken, a shape
 *         below 0, neither data nor source); TPP_ERR_UNSUPPORTED for another type; TPP_ERR_OVERFLOW;
 *         TPP_ERR_TOO_NEW; TPP_ERR_NO_MEMORY. The writer stays as it was.
 *
 * Since: 0.1.
 */
TPP_API tpp_status tpp_safetensors_writer_add(tpp_safetensors_writer *writer,
                                              const tpp_tensor_desc *desc);

/**
 * Put a text beside the tensors, as {"format": "pt"}; a key that is there gets the new value.
 *
 * @param key,value UTF-8; copied. @return TPP_OK; TPP_ERR_INVALID; TPP_ERR_NO_MEMORY.
 *
 * Since: 0.1.
 */
TPP_API tpp_status tpp_safetensors_writer_set_metadata(tpp_safetensors_writer *writer,
                                                       const char *key, const char *value);

/**
 * Write everything, to the disk, and give the file its name. The longer numbers come first in it, so
 * that all are aligned. Once: what remains is destroy.
 *
 * @return TPP_OK; TPP_ERR_IO; TPP_ERR_UNSUPPORTED for a header above 100,000,000 bytes;
 *         TPP_ERR_OVERFLOW; TPP_ERR_NO_MEMORY; TPP_ERR_INVALID for a second finish; what a source
 *         returned. After a failure `path` is as it was.
 *
 * Since: 0.1.
 */
TPP_API tpp_status tpp_safetensors_writer_finish(tpp_safetensors_writer *writer);

/** Free the writer, NULL too. Without a finish that succeeded nothing is left of the file. Since:
 * 0.1. */
TPP_API void tpp_safetensors_writer_destroy(tpp_safetensors_writer *writer);

/**
 * Open a file: it is mapped, not read, and its header is held to every rule of the format: a header
 * of at most 100,000,000 bytes inside the file, one JSON object, no key twice, known types, ranges
 * as long as the shapes say, that cover the rest of the file without overlap or hole.
 *
 * @param out receives the file; NULL on failure.
 * @return TPP_OK; TPP_ERR_IO (cannot be opened); TPP_ERR_FORMAT (names the tensor and the rule it
 *         breaks); TPP_ERR_UNSUPPORTED (a tensor of a type of the format that libtpp has not);
 *         TPP_ERR_INVALID; TPP_ERR_NO_MEMORY.
 *
 * Threads: any; a file is immutable and may be shared. Memory: the mapping is private and read-only;
 * a file that another program cuts short meanwhile is lost to its readers (SIGBUS). Since: 0.1.
 */
TPP_API tpp_status tpp_safetensors_create(tpp_safetensors **out, const char *path);

/** Number of tensors; 0 for NULL. Since: 0.1. */
TPP_API int64_t tpp_safetensors_count(const tpp_safetensors *file);

/**
 * Facts of tensor `index`, in the order of their bytes.
 *
 * @return TPP_OK; TPP_ERR_RANGE for an index outside 0 .. count - 1; TPP_ERR_INVALID.
 *
 * Threads: any. Memory: borrowed until destroy. Since: 0.1.
 */
TPP_API tpp_status tpp_safetensors_query(const tpp_safetensors *file, int64_t index,
                                         tpp_tensor_info *info);

/**
 * Facts of a tensor by its name.
 *
 * @return TPP_OK; TPP_ERR_RANGE when there is none of that name; TPP_ERR_INVALID.
 *
 * Threads: any. Memory: borrowed until destroy. Since: 0.1.
 */
TPP_API tpp_status tpp_safetensors_find(const tpp_safetensors *file, const char *name,
                                        tpp_tensor_info *info);

/** The text that stands beside the tensors under `key`; NULL: none. Borrowed until destroy. Since:
 * 0.1. */
TPP_API const char *tpp_safetensors_metadata_get(const tpp_safetensors *file, const char *key);

/** Unmap and free, NULL too. Since: 0.1. */
TPP_API void tpp_safetensors_destroy(tpp_safetensors *file);

/**
 * Read a model from the config.json that Hugging Face's transformers keeps beside weights: of GPT-2,
 * Llama (1 to 3.3), Mistral, Qwen2 (2.5) and Qwen3, by model_type, or by architectures. A field that
 * is absent has the family's default there; fields of training and of generation say nothing here.
 * Rotary positions: rope_theta with rope_scaling of type default, linear, llama3 or null, or
 * rope_parameters. Windows: the layers with one are the last (layer_types, max_window_layers).
 *
 * @param out  its size must be set; after a failure as it was.
 * @param path of the file.
 * @return TPP_OK; TPP_ERR_IO (cannot be opened); TPP_ERR_FORMAT (no JSON object);
 *         TPP_ERR_UNSUPPORTED (names the field, its value and what is accepted); TPP_ERR_INVALID
 *         (fields that do not fit each other); TPP_ERR_NO_MEMORY.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_model_read(tpp_model_desc *out, const char *path);

/**
 * Write a model as the config.json of its family, so that transformers and tpp_model_read take it with
 * its weights.
 *
 * @param path one that exists is replaced, if it is a regular file; it is there whole or not at all.
 * @return TPP_OK; TPP_ERR_UNSUPPORTED (names a field with a value that the family's config.json cannot
 *         say, such as LayerNorm for Llama); TPP_ERR_INVALID; TPP_ERR_IO; TPP_ERR_TOO_NEW;
 *         TPP_ERR_NO_MEMORY.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_model_write(const tpp_model_desc *model, const char *path);

/** How a parameter stands in files of its family. */
typedef struct tpp_weight_info {
    uint32_t size;
    uint32_t flags; /**< 0 */
    char name[160]; /**< of the tensor, such as "model.layers.3.self_attn.q_proj.weight" */
    int32_t dims;   /**< 1: a vector, 2: a matrix */
    int32_t turned; /**< 1: rows there are columns here: [out, in] for products */
} tpp_weight_info;

/**
 * The name and the shape of a parameter in files.
 *
 * @param param its name here, such as "h.3.attn.q.weight" (model.h). One that the family has not
 *              keeps its name behind the family's prefix.
 * @param out   size must be set.
 * @return TPP_OK; TPP_ERR_INVALID.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_weight_query(tpp_family family, const char *param, tpp_weight_info *out);

/**
 * Open the files of a model.
 *
 * @param out  receives the weights; NULL on failure.
 * @param path of a safetensors file; of an index (.json) that tells which file beside it has which
 *             tensor; or of a folder with model.safetensors.index.json or model.safetensors.
 * @return as tpp_safetensors_create.
 *
 * Threads: any; weights are immutable and may be shared. Memory: files are mapped. Since: 0.1.
 */
TPP_API tpp_status tpp_weights_create(tpp_weights **out, const char *path);

/**
 * Facts of the tensor of a parameter. What stands before all names but the head's ("transformer.",
 * "model.") may be missing in the file.
 *
 * @return TPP_OK; TPP_ERR_RANGE when there is none; TPP_ERR_INVALID.
 *
 * Threads: any. Memory: borrowed until destroy. Since: 0.1.
 */
TPP_API tpp_status tpp_weights_find(const tpp_weights *weights, tpp_family family,
                                    const char *param, tpp_tensor_info *info);

/** tpp_safetensors_metadata_get of the first file. Since: 0.1. */
TPP_API const char *tpp_weights_metadata_get(const tpp_weights *weights, const char *key);

/**
 * Fill this rank's part of a layer's parameters: cut, turned and converted on the way, in pieces of
 * 64 by 64 numbers.
 *
 * @param dtype  env.dtype of the layer; the files may have float32, float64, bfloat16 or float16.
 * @param params state_bytes, aligned to 64.
 * @return TPP_OK; TPP_ERR_RANGE (no such tensor); TPP_ERR_FORMAT (another shape); both name the
 *         tensor; TPP_ERR_UNSUPPORTED (whole numbers); TPP_ERR_INVALID.
 *
 * Threads: any. Memory: none allocated. Comm: none. Since: 0.1.
 */
TPP_API tpp_status tpp_weights_load(const tpp_weights *weights, tpp_family family,
                                    const tpp_layer *layer, tpp_dtype dtype, void *params);

/**
 * That every tensor belongs to one of these layers, which are a whole model. Tensors of old files
 * that can be computed (masks, frequencies), and a tied table that is stored twice, do not count.
 *
 * @param layers [count].
 * @return TPP_OK; TPP_ERR_FORMAT (names the first tensor that is left); TPP_ERR_NO_MEMORY;
 *         TPP_ERR_INVALID.
 *
 * Threads: any. Since: 0.1.
 */
TPP_API tpp_status tpp_weights_check(const tpp_weights *weights, tpp_family family,
                                     const tpp_layer *const *layers, int32_t count);

/** Unmap and free, NULL too. Since: 0.1. */
TPP_API void tpp_weights_destroy(tpp_weights *weights);

#ifdef __cplusplus
}
#endif

#endif
