/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_VALUES_H
#define SHEAF_VALUES_H

/** @file
 *  Distributed values: one element for each local replica, or one for all.
 *
 *  They are what distributed iterators yield, what steps take and return, what reduce combines (S222). Immutable; they
 *  belong to the frame of the thread that got them. */

#include <sheaf/element.h>
#include <sheaf/variable.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_values sheaf_values;

/** The same element for every replica. NULL with the error in the frame if there is none. */
SHEAF_API sheaf_values *sheaf_values_of(sheaf_element *e);
/** Shorthand: one nameless tensor for every replica. */
SHEAF_API sheaf_values *sheaf_values_tensor(sheaf_tensor *t);
/** Element i for local replica i; NULL with the error in the frame if one is missing or their names differ. */
SHEAF_API sheaf_values *sheaf_values_per_replica(sheaf_element *const *elements, int count);

/** Components: 1 if all replicas share one, else the local replicas. */
SHEAF_API int sheaf_values_count(const sheaf_values *v);
/** Whether it is a PerReplica, also of one replica, and not a plain value. */
SHEAF_API bool sheaf_values_is_per_replica(const sheaf_values *v);
/** The element of local replica `i`, borrowed; NULL past the end. */
SHEAF_API sheaf_element *sheaf_values_at(const sheaf_values *v, int i);
/** Tensor `name` (NULL: the only one) of local replica `i`. */
SHEAF_API sheaf_tensor *sheaf_values_get(const sheaf_values *v, int i, const char *name);

/** Of what a distributed iterator gave, and of what a step made of that: the real examples of the step over all replicas of
 *  all workers, its effective batch size. It is below the global batch at the end of the data, or of a worker's files (S186).
 *  -1 of other values. */
SHEAF_API int64_t sheaf_values_examples(const sheaf_values *v);

/** The values beyond their frame; the caller frees what is returned. */
SHEAF_API sheaf_values *sheaf_values_keep(sheaf_values *v);
SHEAF_API void sheaf_values_free(sheaf_values *v);

/* Texts of the frame (P5, P6, P8). */

/** `print(v)`: "PerReplica:{…}" with components in str form, the bare tensor of one replica, tuples of them. */
SHEAF_API const char *sheaf_values_str(const sheaf_values *v);
SHEAF_API const char *sheaf_values_repr(const sheaf_values *v);
SHEAF_API const char *sheaf_values_tf_print(const sheaf_values *v);
/** The tuple of local results (R4.31) as `print` and as tf.print show it: "(<tf.Tensor: …>,)", "([8], [], [])". */
SHEAF_API const char *sheaf_local_results_str(const sheaf_values *v);
SHEAF_API const char *sheaf_local_results_tf_print(const sheaf_values *v);

SHEAF_END_DECLS

#endif
