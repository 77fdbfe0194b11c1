/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_PRINT_H
#define SHEAF_PRINT_H

/** @file
 *  The texts in which TensorFlow 2.15 prints tensors, values and variables (printing.md).
 *
 *  Each function returns a NUL-terminated text of the innermost frame, ready for printf("%s"). NULL prints as "None". */

#include <sheaf/element.h>

SHEAF_BEGIN_DECLS

/** `print(t)`: "tf.Tensor([0.7], shape=(1,), dtype=float32)" (P1.2). */
SHEAF_API const char *sheaf_str(const sheaf_tensor *t);
/** `repr(t)`: "<tf.Tensor: shape=(), dtype=float32, numpy=6.0>" (P1.1). A plain number as P6.2. */
SHEAF_API const char *sheaf_repr(const sheaf_tensor *t);
/** `tf.print(t)`: bare values, `summarize` first and last along each axis; 0: 3, negative: all (P7). */
SHEAF_API const char *sheaf_tf_print(const sheaf_tensor *t, int summarize);
/** The values alone as NumPy prints an array: "[ 4.  6.  8. 10.]" (P3, P4). */
SHEAF_API const char *sheaf_array_str(const sheaf_tensor *t);
/** The values as nested Python lists: "[[1.0, 2.0], [3.0, 4.0]]", a scalar as a number, bytes as b'…'. */
SHEAF_API const char *sheaf_list_str(const sheaf_tensor *t);
/** The values as JSON, nested arrays: "[[1.0, 2.0], [3.0, 4.0]]". Floats in digits that read back the same, "NaN", "Infinity" and
 *  "-Infinity" as strings; bytes as a string if they are UTF-8, else {"b64":"…"}; a complex number as an array of its two
 *  parts; what nothing computes on (float8, 4 bits and less) as its bits. A sparse tensor is an object of indices, values and shape; NULL and a failed one are null. */
SHEAF_API const char *sheaf_json_str(const sheaf_tensor *t);

/** An element as `print` shows its structure (P6.1): the tensor itself if it is a lone one. */
SHEAF_API const char *sheaf_element_str(const sheaf_element *e);
/** The same by tf.print (P8). */
SHEAF_API const char *sheaf_element_tf_print(const sheaf_element *e);

/** "TensorSpec(shape=(None, 1), dtype=tf.float32, name=None)", a tuple of them, … (P6.3). */
SHEAF_API const char *sheaf_spec_str(const sheaf_element_spec *spec);

SHEAF_END_DECLS

#endif
