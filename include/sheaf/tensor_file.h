/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_FILE_H
#define SHEAF_TENSOR_FILE_H

/** @file
 *  Named tensors in files of any format: TensorFlow's checkpoints, safetensors, NumPy's archives (formats.md 4, 7).
 *
 *  Opening reads what the files say of themselves, never a tensor; what is read or written goes through a buffer of bounded
 *  size, but for a tensor of strings, which is in memory as a whole. One thread at a time per object. */

#include <sheaf/checkpoint.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_tensor_file sheaf_tensor_file;

/** Opens `path`: a `.safetensors` file, the `.safetensors.index.json` of several, an `.npz`, or else the prefix of a checkpoint.
 *  A member of an `.npz` that is no tensor, or damaged, is an entry that cannot be read. SHEAF_ERR_NOT_FOUND; SHEAF_ERR_DATA_LOSS: names file, tensor and offset. */
SHEAF_CHECKED sheaf_status sheaf_tensor_file_open(const char *path, sheaf_tensor_file **file,
                                                  sheaf_error *err);
SHEAF_API void sheaf_tensor_file_free(sheaf_tensor_file *f);
/** "checkpoint", "safetensors" or "npz". Static storage. */
SHEAF_API const char *sheaf_tensor_file_format(const sheaf_tensor_file *f);

typedef struct sheaf_tensor_file_entry {
    const char *name;  /**< valid as long as the object */
    sheaf_dtype dtype; /**< SHEAF_INVALID_DTYPE: it cannot be read, and reading it says why */
    sheaf_shape shape;
    int64_t
        bytes; /**< of its elements, as the format has them: four a character of NumPy's texts */
} sheaf_tensor_file_entry;
/** Tensor `i` in the order of names. SHEAF_END past the last. */
SHEAF_API sheaf_status sheaf_tensor_file_get(const sheaf_tensor_file *f, size_t i,
                                             sheaf_tensor_file_entry *entry);
/** A tensor, checksum verified where the format has one; belongs to the frame. SHEAF_ERR_NOT_FOUND, SHEAF_ERR_DATA_LOSS,
 *  SHEAF_ERR_UNIMPLEMENTED: a dtype that no tensor has; SHEAF_ERR_RESOURCE_EXHAUSTED: so many strings in a small deflated member
 *  that they would take over a GiB and 64 times its bytes. */
SHEAF_CHECKED sheaf_status sheaf_tensor_file_read(sheaf_tensor_file *f, const char *name,
                                                  sheaf_tensor **tensor, sheaf_error *err);

/** Checks every byte that has a checksum, and sizes; a checkpoint as sheaf_bundle_verify() does. The first fault. */
SHEAF_CHECKED sheaf_status sheaf_tensor_file_verify(sheaf_tensor_file *f, sheaf_error *err);

/** How a tensor of one file differs from that of another. */
typedef struct sheaf_tensor_difference {
    int64_t elements; /**< that are not the same bit for bit */
    double
        largest; /**< absolute difference of such; NaN where one is no number or nothing computes on the dtype */
} sheaf_tensor_difference;
/** Compares tensor `name` of both. An object graph in both is one string, even if it is a vector of bytes in one of them.
 *  SHEAF_ERR_INVALID_ARGUMENT: of different dtypes or shapes; else as reading. */
SHEAF_CHECKED sheaf_status sheaf_tensor_file_compare(sheaf_tensor_file *a, sheaf_tensor_file *b,
                                                     const char *name,
                                                     sheaf_tensor_difference *difference,
                                                     sheaf_error *err);

typedef struct sheaf_convert_options {
    const sheaf_sharding_callback *sharding; /**< of a checkpoint; NULL: all in one shard */
    int64_t
        max_file_bytes; /**< of safetensors: as many files as it takes, and an index; 0: one file */
    bool deflate;       /**< the members of an `.npz` */
    uint64_t reserved[4];
} sheaf_convert_options;
/** Writes every tensor of `from` to `to`, whose name says the format as in sheaf_tensor_file_open(); nothing has its name before
 *  all is written, and then it replaces what was there. A checkpoint of a checkpoint keeps what stands beside it, and
 *  safetensors of safetensors their `__metadata__`: of several files, which mostly say the same, the first one's, in every file. The sharding policy is asked about all tensors
 *  at once, as those of one task, and may cut them; slices are put together first. Of several safetensors files, each but
 *  a single tensor's has at most `max_file_bytes` of tensors, in the order of names.
 *
 *  NumPy's texts (`<U3`) are strings in UTF-8 here: they stay texts from one `.npz` to another; a checkpoint keeps their bytes and
 *  not that they were texts, so that they go from there to an `.npz` as bytes (`S3`).
 *
 *  Only checkpoints have an object graph: in the other formats it is a vector of bytes under its own name, from which it becomes
 *  one again. SHEAF_ERR_UNIMPLEMENTED: a dtype that the format has not (strings in safetensors; bfloat16 and smaller floats in
 *  `.npz`); SHEAF_ERR_INVALID_ARGUMENT: an option of another format, or `to` is a directory, a special file or no name;
 *  SHEAF_ERR_CANCELLED: sheaf_stop() was called, and nothing of it stays. */
SHEAF_CHECKED sheaf_status sheaf_tensor_file_convert(sheaf_tensor_file *from, const char *to,
                                                     const sheaf_convert_options *options,
                                                     sheaf_error *err);

SHEAF_END_DECLS

#endif
