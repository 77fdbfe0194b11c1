/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_SPEC_H
#define SHEAF_DATA_SPEC_H

/* How stages change the type of elements. NULL, a type that is not known, stays NULL with SHEAF_OK;
 * results are new counts. */

#include "tensor/spec.h"

/* With a new first axis of `size` (SHEAF_UNKNOWN_DIM: any). */
sheaf_status sheaf__spec_batched(const sheaf_element_spec *spec, int64_t size,
                                 sheaf_element_spec **out, sheaf_error *err);
/* Without the first axis; `*rows` is its size where it is known for all components, else unknown.
 * SHEAF_ERR_INVALID_ARGUMENT: a scalar component, known sizes that differ. */
sheaf_status sheaf__spec_rows(const sheaf_element_spec *spec, sheaf_element_spec **out,
                              int64_t *rows, sheaf_error *err);
/* With another size of the first axis of every component of known rank. */
sheaf_status sheaf__spec_resized(const sheaf_element_spec *spec, int64_t size,
                                 sheaf_element_spec **out, sheaf_error *err);
/* A tuple of elements: names become "0", "1.label", …; NULL if one of them is. */
sheaf_status sheaf__spec_tuple(const sheaf_element_spec *const *specs, size_t count,
                               sheaf_element_spec **out, sheaf_error *err);
/* Name of component `name` of the tuple's part `i`; interned, NULL without memory. */
const char *sheaf__spec_tuple_name(size_t i, const char *name);

#endif
