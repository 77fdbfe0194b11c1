/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_MADE_H
#define SHEAF_DISTRIBUTE_MADE_H

/* The variables that a strategy made, by number. All workers make the same ones in the same order, so a
 * number means the same variable on each. Counted by the strategy and the variables; knows, but does not
 * keep, those that are alive. Any thread. */

#include "ops/variable.h"

struct sheaf__made;

struct sheaf__made *sheaf__made_new(void); /* NULL: no memory */
/* The next number, v->number, is the variable's. False: no memory. */
bool sheaf__made_add(struct sheaf__made *made, sheaf_variable *v);
void sheaf__made_remove(struct sheaf__made *made, const sheaf_variable *v);
/* NULL: it is gone, or never was. */
sheaf_variable *sheaf__made_get(struct sheaf__made *made, uint64_t number);

#endif
