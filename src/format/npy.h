/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_NPY_H
#define SHEAF_FORMAT_NPY_H

/* NumPy's files of one array (formats.md 7.2). */

#include "tensor/tensor.h"

#include <sheaf/npy.h>

/* How the elements lie in the file. */
enum sheaf__npy_kind {
    SHEAF__NPY_NUMBERS,
    SHEAF__NPY_BYTES, /* strings of `width` bytes, filled up with zeros */
    SHEAF__NPY_TEXT,  /* strings of `width` code points of four bytes, likewise */
};

struct sheaf__npy {
    enum sheaf__npy_kind kind;
    sheaf_dtype dtype;
    sheaf_shape shape;
    bool column_major;
    bool big_endian;
    size_t width;    /* of a string */
    uint64_t offset; /* of the first element in the file */
};

/* Bytes that tell how long a header is. */
#define SHEAF__NPY_START 12

/* What stands before the elements of a file; `path` is for errors. */
sheaf_status sheaf__npy_parse(const uint8_t *data, size_t size, const char *path,
                              struct sheaf__npy *npy, sheaf_error *err);
/* The same when only the first `size` bytes of `total` are at hand: SHEAF__NPY_START of them, then as many as
 * sheaf__npy_head_size() tells. */
sheaf_status sheaf__npy_parse_head(const uint8_t *data, size_t size, uint64_t total,
                                   const char *path, struct sheaf__npy *npy, sheaf_error *err);
/* Bytes before the first element, as the start of a file has it; SHEAF__NPY_START if it is no such file. */
size_t sheaf__npy_head_size(const uint8_t start[SHEAF__NPY_START]);
/* The elements, which are at `data`, in memory that `owner` keeps: `npy` lies about nothing. Views of it where the bytes
 * need no change. The caller's count. */
sheaf_tensor *sheaf__npy_tensor(const struct sheaf__npy *npy, const uint8_t *data, void *owner,
                                const char *path, sheaf_error *err);
/* Appends what NumPy writes before the elements of an array: `width` is of a string, in bytes, or in characters if it
 * is of those. SHEAF_ERR_UNIMPLEMENTED: a dtype that it does not have. */
struct sheaf__buf;
sheaf_status sheaf__npy_header(struct sheaf__buf *out, sheaf_dtype dtype, sheaf_shape shape,
                               size_t width, bool characters, sheaf_error *err);
/* As sheaf_npy_load(); the caller's count. */
sheaf_tensor *sheaf__npy_load(const char *path, sheaf_error *err);

#endif
