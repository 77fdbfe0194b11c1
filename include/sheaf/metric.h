/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_METRIC_H
#define SHEAF_METRIC_H

/** @file
 *  Metrics: what training and evaluation report, summed over steps, replicas and workers.
 *
 *  A metric keeps sums, never results, in variables of the scope it is made in, so that the result over a cluster is that
 *  of one process on the same examples. Each replica adds to its own copies; they are brought together when the result
 *  is read. */

#include <sheaf/variable.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_metric sheaf_metric;

/** The mean of values, weighted if weights are given: of losses, or of sheaf_equal() for an accuracy. `name` NULL: "mean".
 *  Its variables "total" and "count" are float64, so that no count saturates. Builder: errors come out of the first use.
 *  Freed with sheaf_metric_free(). */
SHEAF_API sheaf_metric *sheaf_metric_mean(const char *name);
SHEAF_API void sheaf_metric_free(sheaf_metric *m);

/** Adds values of any shape and numeric dtype. `weights` (NULL: 1 each) has the shape of the values; an example of padding
 *  has weight 0. In a replica, or by one process without a strategy. */
SHEAF_CHECKED sheaf_status sheaf_metric_update(sheaf_metric *m, sheaf_tensor *values,
                                               sheaf_tensor *weights, sheaf_error *err);
/** Of all that was added, a float64 scalar; 0 if that was nothing. In a replica: of what this replica added. Outside it is
 *  over all replicas and workers: every worker asks. */
SHEAF_API sheaf_tensor *sheaf_metric_result(sheaf_metric *m);
/** Forgets what was added, outside of replicas. */
SHEAF_CHECKED sheaf_status sheaf_metric_reset(sheaf_metric *m, sheaf_error *err);

/** Variable `i`, borrowed; NULL past the last. */
SHEAF_API sheaf_variable *sheaf_metric_variable(sheaf_metric *m, size_t i);
/** For checkpoints; borrowed, lives as long as the metric. */
SHEAF_API sheaf_trackable *sheaf_metric_trackable(sheaf_metric *m);

SHEAF_END_DECLS

#endif
