/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_RESHARD_H
#define SHEAF_DATA_RESHARD_H

#include "data/position.h"

#include <sheaf/dataset.h>

/* What is left of a pass, divided anew: a job goes on with other workers or replicas than it began
 * with.
 *
 * With W workers before and V now, g their greatest common divisor, both fall into g classes by their
 * numbers modulo g. A new worker takes up what the W / g workers of its class would have read:
 * one example of each in turn, of which it keeps every (V / g)-th, so that together the class loses
 * and repeats nothing. As the workers before went on in step, and the new ones do, every global batch
 * holds the examples it would have held, wherever its size divides by W and V. */

/* Makes what worker `worker` of the last leg iterates of the dataset `d` (borrowed), which the job
 * distributed as the legs say. With one leg that is sheaf__split_make()'s.
 * SHEAF_ERR_FAILED_PRECONDITION: the size of the global batch is not known. */
sheaf_status sheaf__reshard(sheaf_dataset *d, const struct sheaf__leg *legs, size_t count,
                            int worker, sheaf_dataset **out, sheaf_error *err);

/* How many classes of workers there are: those whose numbers are the same modulo this go on with the
 * data of the same workers of the leg before. */
int64_t sheaf__reshard_classes(const struct sheaf__leg *legs, size_t count);

#endif
