/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_SPEC_H
#define SHEAF_TENSOR_SPEC_H

/** @file
 *  Element specs inside the library. Constructors return one count that is the caller's. */

#include "tensor/element.h"

struct sheaf_element_spec {
    struct sheaf__object object; /**< counted; immutable once made */
    struct sheaf__heap *heap;
    size_t bytes; /**< of its block */
    size_t count;
    char pattern;              /**< as sheaf_element's */
    sheaf_tensor_spec specs[]; /**< names interned */
};

/** As sheaf_element_spec_new(), with the pattern (0: by the names). NULL with `err`. */
sheaf_element_spec *sheaf__spec_new(const sheaf_tensor_spec *specs, size_t count, char pattern,
                                    sheaf_error *err);
sheaf_element_spec *sheaf__spec_of(const sheaf_element *e, sheaf_error *err);
/** One nameless tensor. */
sheaf_element_spec *sheaf__spec_of_tensor(sheaf_dtype dtype, sheaf_shape shape, sheaf_error *err);
/** The spec whose sizes are known where a's and b's agree: what concatenation may yield. NULL with
 * `err` if names or dtypes differ. */
sheaf_element_spec *sheaf__spec_merge(const sheaf_element_spec *a, const sheaf_element_spec *b,
                                      sheaf_error *err);
/** Whether every element of type `narrow` is one of type `wide`; false where either is NULL. */
bool sheaf__spec_covers(const sheaf_element_spec *wide, const sheaf_element_spec *narrow);
char sheaf__spec_pattern(const sheaf_element_spec *spec);

#endif
