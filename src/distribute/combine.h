/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_COMBINE_H
#define SHEAF_DISTRIBUTE_COMBINE_H

/* One value out of the replicas' values, local ones first, then over the workers. On one thread;
 * results belong to its frame. */

#include "distribute/strategy.h"
#include "tensor/tensor.h"

/* The sum over all replicas of the job of the local replicas' `tensors`, of equal shapes. */
sheaf_tensor *sheaf__combine_sum(sheaf_strategy *s, sheaf_tensor *const *tensors, int count);
/* The same, or the mean by true division (R4.20). */
sheaf_tensor *sheaf__combine(sheaf_strategy *s, sheaf_reduce_op op, sheaf_tensor *const *tensors,
                             int count);
/* All replicas' tensors joined along `axis`. */
sheaf_tensor *sheaf__combine_gather(sheaf_strategy *s, sheaf_tensor *const *tensors, int count,
                                    int axis);

#endif
