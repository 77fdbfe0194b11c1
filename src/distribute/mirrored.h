/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_MIRRORED_H
#define SHEAF_DISTRIBUTE_MIRRORED_H

/* Variables with a copy on every local replica: mirrored ones (R5.9–R5.16), whose copies are
 * written together, and sync-on-read ones (R5.17–R5.23), whose copies are brought together when
 * they are read. */

#include "distribute/strategy.h"
#include "ops/variable.h"

struct sheaf__copies_slot;
struct sheaf__made;

struct sheaf__copies {
    sheaf_variable base;
    struct sheaf__made *made;         /* counted; that knows it by its number */
    struct sheaf__copies_slot *slots; /* that were asked for */
    int count;
    sheaf_variable *of[]; /* plain ones, one on each replica's device */
};

/* Makes what `request` asks for: sync-on-read for ON_READ, else mirrored. Errors are latched in the
 * result. */
sheaf_variable *sheaf__mirrored_create(sheaf_strategy *s, sheaf_variable_request *request);
/* `v` as copies, or NULL if it is of another kind. */
struct sheaf__copies *sheaf__copies_of(sheaf_variable *v);

/* Slot `name` of all copies, for the variables' class (mirrored_slot.c). */
sheaf_trackable *sheaf__copies_slot(sheaf_variable *v, const char *name, double fill);
void sheaf__copies_free_slots(struct sheaf__copies *c);

#endif
