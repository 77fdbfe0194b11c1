/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_SAFETENSORS_H
#define SHEAF_FORMAT_SAFETENSORS_H

/* safetensors (formats.md 7.1): 8 bytes of length, so much JSON, then the bytes of the tensors without a hole. */

#include "base/map.h"
#include "base/str.h"
#include "format/tensor_file.h"

#define SHEAF__SAFETENSORS_HEADER_LIMIT 100000000 /* bytes of JSON, as the reference has it */

struct sheaf__safetensors_tensor {
    const char *name; /* the header's */
    size_t name_size;
    sheaf_dtype dtype;
    sheaf_shape shape;
    uint64_t begin, end; /* in the data */
    sheaf_status fault;  /* < 0: it is no tensor of ours, for the reason `why` */
    const char *why;
};

struct sheaf__safetensors {
    struct sheaf__safetensors_tensor *tensors; /* in the order of the header */
    size_t count, capacity;
    struct sheaf__strmap names;
    struct sheaf__str metadata; /* the members of the metadata as JSON, in their order */
    uint64_t data;              /* offset of the data in the file */
};

/* Reads the header of a file of `file_size` bytes: `text` is what follows the length. Checked is that tensors
 * and data fit each other to the last byte. SHEAF_ERR_DATA_LOSS. Freed in any case by the caller. */
sheaf_status sheaf__safetensors_parse(struct sheaf__safetensors *s, const char *text, size_t size,
                                      uint64_t file_size, const char *path, sheaf_error *err);
void sheaf__safetensors_free(struct sheaf__safetensors *s);

/* "F32"; NULL: the format has no such dtype. */
const char *sheaf__safetensors_dtype(sheaf_dtype dtype);

/* Appends length and header for tensors in the order in which they are given, whose data are to follow in that
 * order; `metadata` as of a file, "": none. SHEAF_ERR_UNIMPLEMENTED: a dtype that the format has not; SHEAF_ERR_INVALID_ARGUMENT: a name that is not UTF-8 or
 * the format's own. */
struct sheaf__buf;
sheaf_status sheaf__safetensors_header(struct sheaf__buf *out, const char *metadata,
                                       const struct sheaf__tensor_entry *const *tensors,
                                       size_t count, sheaf_error *err);
/* Sorts tensors as the reference writes them: the widest dtypes first, then by name. */
void sheaf__safetensors_sort(const struct sheaf__tensor_entry **tensors, size_t count);

#endif
