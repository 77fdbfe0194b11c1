/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_ELEMENT_H
#define SHEAF_ELEMENT_H

/** @file
 *  Elements: ordered lists of named tensors, and their types.
 *
 *  A dataset yields elements, a step takes and returns one. Names are opaque to look-up; a nested name is dotted
 *  ("user.age"), positions are "0", "1", a lone tensor's name is "". How names nest (tuple, list, dict) is a pattern in
 *  the spec, which printing and regrouping alone read. Elements belong to the frame like tensors. */

#include <sheaf/tensor.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_element sheaf_element;

/** Type of one tensor of an element. */
typedef struct sheaf_tensor_spec {
    const char *name; /**< valid as long as the spec it came from */
    sheaf_dtype dtype;
    sheaf_shape shape; /**< SHEAF_UNKNOWN_DIM and SHEAF_UNKNOWN_RANK allowed */
} sheaf_tensor_spec;

/** Type of an element: its tensors' specs and the nesting pattern. Immutable and counted. */
typedef struct sheaf_element_spec sheaf_element_spec;

/** A new, empty element in the innermost frame. */
SHEAF_API sheaf_element *sheaf_element_new(void);

/** An element of one nameless tensor; of several by position (a tuple), NULL-terminated arguments. */
SHEAF_API sheaf_element *sheaf_element_of(sheaf_tensor *t);
SHEAF_API sheaf_element *sheaf_element_tuple(sheaf_tensor *first, ...) __attribute__((sentinel));

/** Adds or replaces tensor `name`; the element takes a count of its own. Only the maker of an element, and a function
 *  that got it as its output, may call this. SHEAF_ERR_*: the error of a failed tensor. */
SHEAF_API sheaf_status sheaf_element_put(sheaf_element *e, const char *name, sheaf_tensor *t);

/** Tensor `name`, borrowed from the element and alive as long as it. A missing name gives a failed tensor whose error
 *  lists the names there are. NULL as `name` stands for the only tensor. */
SHEAF_API sheaf_tensor *sheaf_element_get(const sheaf_element *e, const char *name);

/** Number of its tensors. */
SHEAF_API size_t sheaf_element_size(const sheaf_element *e);
/** Name and tensor `i` in order; NULL past the end. */
SHEAF_API const char *sheaf_element_name(const sheaf_element *e, size_t i);
SHEAF_API sheaf_tensor *sheaf_element_at(const sheaf_element *e, size_t i);

/** Makes the element a dict ('k': v), a tuple or a list when it is printed or regrouped; a tuple is the default for
 *  names "0", "1", …, a dict for others. `pattern`: '{' dict, '(' tuple, '[' list. */
SHEAF_API void sheaf_element_nest(sheaf_element *e, char pattern);

/** The element beyond its frame; the caller frees what is returned. */
SHEAF_API sheaf_element *sheaf_element_keep(sheaf_element *e);
SHEAF_API void sheaf_element_free(sheaf_element *e);

/* Specs. */

/** A spec of `count` tensors in the innermost frame; names NULL: by position, or "" if there is one. */
SHEAF_API sheaf_element_spec *sheaf_element_spec_new(const sheaf_tensor_spec *specs, size_t count);
/** The exact spec of an element. */
SHEAF_API sheaf_element_spec *sheaf_element_spec_of(const sheaf_element *e);
SHEAF_API size_t sheaf_element_spec_size(const sheaf_element_spec *spec);
SHEAF_API sheaf_tensor_spec sheaf_element_spec_at(const sheaf_element_spec *spec, size_t i);
/** Whether `e` fits: names, dtypes, known sizes. SHEAF_ERR_INVALID_ARGUMENT names the first difference. */
SHEAF_API sheaf_status sheaf_element_spec_check(const sheaf_element_spec *spec,
                                                const sheaf_element *e, sheaf_error *err);
SHEAF_API bool sheaf_element_spec_equal(const sheaf_element_spec *a, const sheaf_element_spec *b);
SHEAF_API sheaf_element_spec *sheaf_element_spec_keep(const sheaf_element_spec *spec);
SHEAF_API void sheaf_element_spec_free(sheaf_element_spec *spec);

SHEAF_END_DECLS

#endif
