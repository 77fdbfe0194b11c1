/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BUNDLE_H
#define SHEAF_BUNDLE_H

/** @file
 *  Looking into the files of a checkpoint, TensorFlow's or ours, without any object (formats.md 3, 4). */

#include <sheaf/tensor.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_bundle sheaf_bundle;

/** Reads `<path>.index`; the data files are opened when a tensor is read. SHEAF_ERR_NOT_FOUND, SHEAF_ERR_DATA_LOSS (names file
 *  and offset), SHEAF_ERR_INVALID_ARGUMENT (made for newer readers). */
SHEAF_CHECKED sheaf_status sheaf_bundle_open(const char *path, sheaf_bundle **bundle,
                                             sheaf_error *err);
SHEAF_API void sheaf_bundle_free(sheaf_bundle *b);

/** One tensor of the index. */
typedef struct sheaf_bundle_entry {
    const char *key; /**< valid as long as the bundle */
    sheaf_dtype dtype;
    sheaf_shape shape;
    int64_t bytes;  /**< in the data files; -1 if the entry has slices */
    int32_t shard;  /**< data file it starts in */
    int32_t slices; /**< 0: stored whole */
} sheaf_bundle_entry;
/** Entry `i` in the order of keys. SHEAF_END past the last. */
SHEAF_API sheaf_status sheaf_bundle_get(const sheaf_bundle *b, size_t i, sheaf_bundle_entry *entry);
/** How many data files its tensors are in. Their names say more than that after a checkpoint was replaced: the new files must
 *  not have the names of the old ones. */
SHEAF_API int sheaf_bundle_shards(const sheaf_bundle *b);
/** Description of the sharding policy it was saved with, NULL if it is not known. */
SHEAF_API const char *sheaf_bundle_description(const sheaf_bundle *b);
/** Tensor `key`, slices put together, checksum verified; belongs to the frame. SHEAF_ERR_NOT_FOUND (the tensor, one of its
 *  slices, its data file), SHEAF_ERR_DATA_LOSS, SHEAF_ERR_OUT_OF_RANGE (the data file is too short),
 *  SHEAF_ERR_INVALID_ARGUMENT (slices that do not make up the tensor), SHEAF_ERR_UNIMPLEMENTED (a dtype variant). */
SHEAF_CHECKED sheaf_status sheaf_bundle_read(sheaf_bundle *b, const char *key,
                                             sheaf_tensor **tensor, sheaf_error *err);
/** Checks every byte: index, sizes, checksums. The first fault, naming file, tensor and offset. */
SHEAF_CHECKED sheaf_status sheaf_bundle_verify(sheaf_bundle *b, sheaf_error *err);

SHEAF_END_DECLS

#endif
