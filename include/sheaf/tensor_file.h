/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_FILE_H
#define SHEAF_TENSOR_FILE_H

/** @file
 *  Named tensors in files of any format: TensorFlow's checkpoints, safetensors, NumPy's archives (formats.md 4, 7).
 *
 *  Opening reads what the files say of themselves, never a tensor; what is read or written goes through a buffer of bounded
 *  size, but for a tensor of strings, which is in memory as a whole. One thread at a time per object. */

#include <sheaf/tensor.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_tensor_file sheaf_tensor_file;

/** Opens `path`: a `.safetensors` file, the `.safetensors.index.json` of several, an `.npz`, or else the prefix of a checkpoint.
 *  SHEAF_ERR_NOT_FOUND; SHEAF_ERR_DATA_LOSS: names file, tensor and offset. */
SHEAF_CHECKED sheaf_status sheaf_tensor_file_open(const char *path, sheaf_tensor_file **file,
                                                  sheaf_error *err);
SHEAF_API void sheaf_tensor_file_free(sheaf_tensor_file *f);
/** "checkpoint", "safetensors" or "npz". Static storage. */
SHEAF_API const char *sheaf_tensor_file_format(const sheaf_tensor_file *f);

typedef struct sheaf_tensor_file_entry {
    const char *name;  /**< valid as long as the object */
    sheaf_dtype dtype; /**< SHEAF_INVALID_DTYPE: one that no tensor has, which cannot be read */
    sheaf_shape shape;
} sheaf_tensor_file_entry;
/** Tensor `i` in the order of names. SHEAF_END past the last. */
SHEAF_API sheaf_status sheaf_tensor_file_get(const sheaf_tensor_file *f, size_t i,
                                             sheaf_tensor_file_entry *entry);
/** A tensor, checksum verified where the format has one; belongs to the frame. SHEAF_ERR_NOT_FOUND, SHEAF_ERR_DATA_LOSS,
 *  SHEAF_ERR_UNIMPLEMENTED: a dtype that no tensor has. */
SHEAF_CHECKED sheaf_status sheaf_tensor_file_read(sheaf_tensor_file *f, const char *name,
                                                  sheaf_tensor **tensor, sheaf_error *err);

SHEAF_END_DECLS

#endif
