/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_BIND_NUMBER_H
#define SHEAF_DISTRIBUTE_BIND_NUMBER_H

/* The numbers of an optimizer as objects of a checkpoint, also of one that is not bound yet. */

#include "distribute/bind.h"

/* Makes them, once. */
void sheaf__bind_numbers(sheaf_optimizer *o);
/* Where a variable counts the steps of all workers, this one may have made none since that was restored:
 * asks for it. What it knew last, if that fails. */
int64_t sheaf__bind_count(sheaf_optimizer *o);
/* Where other optimizers of TensorFlow's keep numbers and slots (struct sheaf__trackable_class). */
bool sheaf__bind_elsewhere(sheaf_trackable *t, size_t i, struct sheaf__elsewhere *out);

#endif
