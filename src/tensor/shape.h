/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_SHAPE_H
#define SHEAF_TENSOR_SHAPE_H

/** @file
 *  Shapes and dtypes inside the library. */

#include <sheaf/tensor.h>

/** One more than the largest dtype number: tables by dtype. */
#define SHEAF__DTYPES 34

/** "(4, 1)" in an error message: `SHEAF__SHAPE_TEXT(shape)` lives to the end of the full
 * expression. */
struct sheaf__shape_text {
    char text[160];
};
struct sheaf__shape_text sheaf__shape_text(sheaf_shape shape);
#define SHEAF__SHAPE_TEXT(shape) (sheaf__shape_text(shape).text)

/** Elements and bytes of a known shape. SHEAF_ERR_INVALID_ARGUMENT: an unknown or negative size, a
 * dtype without bytes, or more bytes than an address can count. */
sheaf_status sheaf__shape_bytes(sheaf_dtype dtype, sheaf_shape shape, int64_t *elements,
                                size_t *bytes, sheaf_error *err);
/** Row-major strides in elements. */
void sheaf__shape_strides(sheaf_shape shape, int64_t strides[SHEAF_MAX_RANK]);
/** Whether `shape` is one that `spec` admits (unknown sizes and rank fit everything). */
bool sheaf__shape_fits(sheaf_shape spec, sheaf_shape shape);
/** Shape of a and b broadcast together (NumPy's rule); false if they do not fit. */
bool sheaf__shape_broadcast(sheaf_shape a, sheaf_shape b, sheaf_shape *out);
/** `shape` with `size` put before its first axis / without its first axis. */
sheaf_shape sheaf__shape_prepend(sheaf_shape shape, int64_t size);
sheaf_shape sheaf__shape_inner(sheaf_shape shape);

/** Bytes of a number of an element, whose order is the machine's: complex elements are two. */
size_t sheaf__dtype_unit(sheaf_dtype dtype);
/** Reverses the bytes of every number in `size` bytes of elements. */
void sheaf__dtype_swap(sheaf_dtype dtype, void *elements, size_t size);
bool sheaf__dtype_is_float(sheaf_dtype dtype); /**< float16, bfloat16, float32, float64 */
bool sheaf__dtype_is_integer(
    sheaf_dtype dtype); /**< the signed and unsigned ones of 8 to 64 bits */

#endif
