/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_H
#define SHEAF_TENSOR_H

/** @file
 *  Tensors: a counted buffer with a dtype, a shape and strides.
 *
 *  What a call hands out belongs to the innermost frame of the calling thread (frame.h) and is released with it;
 *  sheaf_tensor_keep() takes a count of one's own. Tensors are read by any thread and never written after they were
 *  handed out. A function that builds a tensor never returns NULL: on failure it returns a *failed tensor* (no data,
 *  zero elements) which carries the error to the action that uses it; the frame keeps the first one. */

#include <sheaf/status.h>

#ifdef __cplusplus
#include <initializer_list>
#endif

SHEAF_BEGIN_DECLS

/** Numbers are TensorFlow's DataType, so that they are the same on disk (formats.md 1.3). */
typedef enum sheaf_dtype {
    SHEAF_INVALID_DTYPE = 0,
    SHEAF_FLOAT32 = 1,
    SHEAF_FLOAT64 = 2,
    SHEAF_INT32 = 3,
    SHEAF_UINT8 = 4,
    SHEAF_INT16 = 5,
    SHEAF_INT8 = 6,
    SHEAF_STRING = 7,
    SHEAF_COMPLEX64 = 8,
    SHEAF_INT64 = 9,
    SHEAF_BOOL = 10,
    SHEAF_QINT8 = 11,
    SHEAF_QUINT8 = 12,
    SHEAF_QINT32 = 13,
    SHEAF_BFLOAT16 = 14,
    SHEAF_QINT16 = 15,
    SHEAF_QUINT16 = 16,
    SHEAF_UINT16 = 17,
    SHEAF_COMPLEX128 = 18,
    SHEAF_FLOAT16 = 19,
    SHEAF_UINT32 = 22,
    SHEAF_UINT64 = 23,
    SHEAF_FLOAT8_E5M2 = 24,
    SHEAF_FLOAT8_E4M3FN = 25,
    SHEAF_FLOAT8_E4M3FNUZ = 26,
    SHEAF_FLOAT8_E4M3B11FNUZ = 27,
    SHEAF_FLOAT8_E5M2FNUZ = 28,
    SHEAF_INT4 = 29,
    SHEAF_UINT4 = 30,
    SHEAF_INT2 = 31,
    SHEAF_UINT2 = 32,
    SHEAF_FLOAT4_E2M1FN = 33
} sheaf_dtype;

/** Bytes of one element: 16 for SHEAF_STRING (a sheaf_bytes); 0 for a dtype that has none. */
SHEAF_API size_t sheaf_dtype_size(sheaf_dtype dtype);
/** Name as TensorFlow writes it, "float32"; "invalid" for a number that is none. Static storage. */
SHEAF_API const char *sheaf_dtype_name(sheaf_dtype dtype);
/** The dtype of that name, SHEAF_INVALID_DTYPE if there is none. */
SHEAF_API sheaf_dtype sheaf_dtype_named(const char *name);

/** Most axes a shape can have. */
#define SHEAF_MAX_RANK 8
/** An axis whose size is not known (in specs only). */
#define SHEAF_UNKNOWN_DIM (-1)
/** A shape whose rank is not known (in specs only). */
#define SHEAF_UNKNOWN_RANK (-1)

/** Sizes of the axes. Passed by value. */
typedef struct sheaf_shape {
    int32_t rank; /**< 0..SHEAF_MAX_RANK */
    int32_t reserved;
    int64_t dims[SHEAF_MAX_RANK];
} sheaf_shape;

/** A shape of `rank` axes with the sizes `dims`; a rank outside 0..SHEAF_MAX_RANK gives unknown rank. */
SHEAF_API sheaf_shape sheaf_shape_of(int rank, const int64_t *dims);
/** A shape from its sizes: SHEAF_SHAPE(4, 1); SHEAF_SCALAR for none. */
#ifdef __cplusplus
#define SHEAF_SHAPE(...) sheaf_shape_from({__VA_ARGS__})
static inline sheaf_shape sheaf_shape_from(std::initializer_list<int64_t> dims)
{
    return sheaf_shape_of((int)dims.size(), dims.begin());
}
#else
#define SHEAF_SHAPE(...)                                                            \
    sheaf_shape_of((int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
                   (const int64_t[]){__VA_ARGS__})
#endif
#define SHEAF_SCALAR sheaf_shape_of(0, NULL)
/** Product of the sizes, 1 for a scalar; -1 if a size or the rank is unknown or the product overflows. */
SHEAF_API int64_t sheaf_shape_elements(sheaf_shape shape);
SHEAF_API bool sheaf_shape_equal(sheaf_shape a, sheaf_shape b);
/** Writes "(4, 1)" ("(None, 1)" with an unknown size, "<unknown>" without rank) as snprintf does. */
SHEAF_API size_t sheaf_shape_format(sheaf_shape shape, char *text, size_t size);

/** One string element: bytes that may hold NUL. */
typedef struct sheaf_bytes {
    const char *data;
    size_t size;
} sheaf_bytes;

typedef struct sheaf_tensor sheaf_tensor;

/* Making tensors. The result belongs to the innermost frame. */

/** A tensor of a copy of `data`: row-major elements, sheaf_bytes for strings (whose bytes are copied, too). NULL: zeros,
 *  empty strings. */
SHEAF_API sheaf_tensor *sheaf_tensor_new(sheaf_dtype dtype, sheaf_shape shape, const void *data);

/** A tensor over the caller's memory, not copied. `release(data, user)` runs once when the last count is gone, on the
 *  thread that drops it, at once if the tensor is failed; NULL: the memory outlives the tensor. `data` is aligned to the element. */
SHEAF_API sheaf_tensor *sheaf_tensor_wrap(sheaf_dtype dtype, sheaf_shape shape, const void *data,
                                          void (*release)(void *data, void *user), void *user);

/** Scalars. */
SHEAF_API sheaf_tensor *sheaf_float(float value);
SHEAF_API sheaf_tensor *sheaf_double(double value);
SHEAF_API sheaf_tensor *sheaf_int(int32_t value);
SHEAF_API sheaf_tensor *sheaf_long(int64_t value);
SHEAF_API sheaf_tensor *sheaf_bool(bool value);
/** A string scalar of a copy of the NUL-terminated `text`. */
SHEAF_API sheaf_tensor *sheaf_string(const char *text);

/** The same scalar flagged as a *plain number*, not a tensor in TensorFlow: it regroups and prints as R4.17 and P6.2
 *  say. `t` must be a scalar. */
SHEAF_API sheaf_tensor *sheaf_plain(sheaf_tensor *t);

/** A failed tensor with that error; what a program's own building function returns when it cannot go on. */
SHEAF_API sheaf_tensor *sheaf_failed(const sheaf_error *err);

/* Looking at them. NULL and failed tensors are allowed. */
SHEAF_API sheaf_dtype sheaf_tensor_dtype(const sheaf_tensor *t);
SHEAF_API sheaf_shape sheaf_tensor_shape(const sheaf_tensor *t);
/** Of its shape; of a ragged tensor, its values. */
SHEAF_API int64_t sheaf_tensor_elements(const sheaf_tensor *t);
SHEAF_API bool sheaf_tensor_is_plain(const sheaf_tensor *t);
/** The tensor's device, "/job:localhost/replica:0/task:0/device:CPU:0". Valid as long as the tensor. */
SHEAF_API const char *sheaf_tensor_device(const sheaf_tensor *t);
/** SHEAF_OK, or the error the tensor carries, copied to `err`. */
SHEAF_API sheaf_status sheaf_tensor_status(const sheaf_tensor *t, sheaf_error *err);

/** The elements in row-major order, contiguous and on the host; NULL for failed or empty tensors, and for those that are
 *  not dense. A view with gaps is gathered first (once); a tensor on another device is copied back. Valid as long as the
 *  tensor. */
SHEAF_API const void *sheaf_tensor_data(const sheaf_tensor *t);

/** Element `i` (row-major) as a number, converted; 0 out of range, for strings, and for failed tensors. */
SHEAF_API double sheaf_tensor_number(const sheaf_tensor *t, int64_t i);
/** Element `i` as an integer, converted without passing through double. */
SHEAF_API int64_t sheaf_tensor_integer(const sheaf_tensor *t, int64_t i);
/** Element `i` of a string tensor; empty otherwise. Valid as long as the tensor. */
SHEAF_API sheaf_bytes sheaf_tensor_bytes(const sheaf_tensor *t, int64_t i);

/** How the values of a tensor lie: one for every place of the shape, or as the parts of one of the others. */
typedef enum sheaf_layout {
    SHEAF_LAYOUT_DENSE = 0,
    SHEAF_LAYOUT_SPARSE = 1, /**< at some places; what a VarLenFeature becomes */
    SHEAF_LAYOUT_RAGGED = 2, /**< rows of unlike lengths, one behind the other; a RaggedFeature */
    SHEAF_LAYOUT_ROWS = 3    /**< some rows of a table; the gradient of a look-up */
} sheaf_layout;
/** Dense for NULL and failed tensors. */
SHEAF_API sheaf_layout sheaf_tensor_layout(const sheaf_tensor *t);
/** The parts of a tensor that is not dense, to be read as above; they belong to the frame, and nothing is copied. A tensor
 *  that has no such part: a failed one, SHEAF_ERR_INVALID_ARGUMENT.
 *
 *  Values: (n) of a sparse one, (n, …) of rows; of a ragged one all its rows, one behind the other, which are ragged
 *  again where it is so along several axes. */
SHEAF_API sheaf_tensor *sheaf_tensor_values(sheaf_tensor *t);
/** Where they are: int64 (n, rank) of a sparse tensor, in increasing order; (n), of rows, int32 or int64, in any order. */
SHEAF_API sheaf_tensor *sheaf_tensor_indices(sheaf_tensor *t);
/** Of a ragged tensor, int64 (rows + 1): row i has the values from splits[i] up to splits[i + 1]. */
SHEAF_API sheaf_tensor *sheaf_tensor_row_splits(sheaf_tensor *t);

/** Rows [begin, end) of axis 0 as a view, not copied. Out of range: a failed tensor. */
SHEAF_API sheaf_tensor *sheaf_tensor_rows(sheaf_tensor *t, int64_t begin, int64_t end);

/** Copies `t` to logical device `device` ("CPU:1" or a full name), or returns a view if it is there already. */
SHEAF_API sheaf_tensor *sheaf_tensor_to_device(sheaf_tensor *t, const char *device);

/** Takes a count that outlives the frame; released with sheaf_tensor_free(). NULL gives NULL. */
SHEAF_API sheaf_tensor *sheaf_tensor_keep(sheaf_tensor *t);
SHEAF_API void sheaf_tensor_free(sheaf_tensor *t);

SHEAF_END_DECLS

#endif
