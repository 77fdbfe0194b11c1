/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_PRINT_ARRAY_H
#define SHEAF_TENSOR_PRINT_ARRAY_H

/** @file
 *  Printing of plain arrays: what the printers of tensors are made of. */

#include "tensor/print.h"

/** Row-major elements in host memory. */
struct sheaf__array {
    sheaf_dtype dtype;
    sheaf_shape shape;
    const void *data; /**< not read if a size is 0 */
};

static inline const void *sheaf__array_at(const struct sheaf__array *a, int64_t i)
{
    return (const char *)a->data + (size_t)i * sheaf_dtype_size(a->dtype);
}

/** As NumPy prints it: brackets and line breaks alone (P4.1 str), or "array(…)" (repr); a rank 0 as
 * a number by itself. */
void sheaf__print_array_str(struct sheaf__str *out, const struct sheaf__array *a);
void sheaf__print_array_repr(struct sheaf__str *out, const struct sheaf__array *a);
/** As tf.print does (P7), a string of rank 0 raw if `alone`. */
void sheaf__print_array_tf(struct sheaf__str *out, const struct sheaf__array *a, int edge,
                           bool alone);

/** One element as tf.print writes it. */
void sheaf__print_tf_element(struct sheaf__str *out, sheaf_dtype dtype, const void *element,
                             bool alone);
/** "nan", "inf", "-inf". */
const char *sheaf__print_word(double value);

/** How all elements of an array are written (P3): one width for all. */
struct sheaf__array_format {
    sheaf_dtype dtype;
    bool scientific;
    int left;     /**< characters left of the point, sign included; of integers the width */
    int right;    /**< decimals, of scientific numbers with the exponent; 0 for integers */
    int decimals; /**< of scientific numbers */
    int exponent; /**< digits of their exponents */
};
/** Calls `fn` for every element that is shown, in order. */
void sheaf__array_visit(const struct sheaf__array *a, bool summary,
                        void (*fn)(const void *element, void *user), void *user);
struct sheaf__array_format sheaf__array_format_of(const struct sheaf__array *a, bool summary);
/** Appends one element in the format. */
void sheaf__array_element(struct sheaf__str *out, const struct sheaf__array_format *format,
                          const void *element);

#endif
