/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_MIRRORED_H
#define SHEAF_DISTRIBUTE_MIRRORED_H

/* Variables with a copy on every local replica: mirrored ones (R5.9–R5.16), whose copies are
 * written together, and sync-on-read ones (R5.17–R5.23), whose copies are brought together when
 * they are read. */

#include "distribute/strategy.h"
#include "ops/variable.h"

struct sheaf__copies {
    sheaf_variable base;
    int count;
    sheaf_variable *of[]; /* plain ones, one on each replica's device */
};

/* Makes what `request` asks for: sync-on-read for ON_READ, else mirrored. Errors are latched in the
 * result. */
sheaf_variable *sheaf__mirrored_create(sheaf_strategy *s, sheaf_variable_request *request);
/* `v` as copies, or NULL if it is of another kind. */
struct sheaf__copies *sheaf__copies_of(sheaf_variable *v);

#endif
