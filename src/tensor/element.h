/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_ELEMENT_H
#define SHEAF_TENSOR_ELEMENT_H

/** @file
 *  Elements inside the library. Constructors return one count that is the caller's;
 * sheaf__frame_own() hands it out. */

#include "tensor/tensor.h"

#include <sheaf/element.h>

struct sheaf__element_item {
    const char *name; /**< interned */
    sheaf_tensor *tensor;
};

struct sheaf_element {
    struct sheaf__object object; /**< counted */
    struct sheaf__heap *heap;
    size_t count;
    size_t capacity;
    char pattern; /**< '{', '(', '['; 0: by the names */
    struct sheaf__element_item *items;
    struct sheaf__element_item inside[4];
};

/** An empty element. NULL with `err` without memory. */
sheaf_element *sheaf__element_new(sheaf_error *err);
/** Adds tensor `name` (interned by sheaf__name()) without looking whether there is one of that
 * name; takes a count of its own. Failed tensors may be added. */
sheaf_status sheaf__element_add(sheaf_element *e, const char *name, sheaf_tensor *t,
                                sheaf_error *err);
/** A new element of the same tensors and pattern. */
sheaf_element *sheaf__element_copy(const sheaf_element *e, sheaf_error *err);
/** The error of its first failed tensor, naming it; else SHEAF_OK. */
sheaf_status sheaf__element_status(const sheaf_element *e, sheaf_error *err);
/** '{', '(' or '[' as it is printed and regrouped; 0 for a lone tensor without name. */
char sheaf__element_pattern(const sheaf_element *e);

/** The name's one copy in the current context, so that equal names are equal pointers; lives as
 * long as the context. Of positions ("0" … "63") and "" static. NULL without memory. */
const char *sheaf__name(const char *name);
/** The name of position `i`. */
const char *sheaf__name_of(size_t i);
/** How `count` names nest that nobody said it of: 0 for a lone "", '(' for positions "0", "1", …
 * (or parts of them, "0.x"), else '{'. `names` is the first, the next is `stride` bytes further. */
char sheaf__name_pattern(const char *const *names, size_t stride, size_t count);

#endif
