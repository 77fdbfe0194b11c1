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

/* What stands before the elements of a file; `path` is for errors. */
sheaf_status sheaf__npy_parse(const uint8_t *data, size_t size, const char *path,
                              struct sheaf__npy *npy, sheaf_error *err);
/* As sheaf_npy_load(); the caller's count. */
sheaf_tensor *sheaf__npy_load(const char *path, sheaf_error *err);

#endif
