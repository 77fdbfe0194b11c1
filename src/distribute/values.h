/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_VALUES_H
#define SHEAF_DISTRIBUTE_VALUES_H

/* Inside of distributed values. Constructors return one count that is the caller's;
 * sheaf__frame_own() hands it out. */

#include "tensor/element.h"

#include <sheaf/values.h>

struct sheaf_values {
    struct sheaf__object object; /* counted; immutable once made */
    struct sheaf__heap *heap;    /* where it came from */
    int count;                   /* components */
    bool per_replica;            /* false: one plain element, whatever the number of replicas */
    uint64_t shared;  /* per replica: bit i says that field i is one value for all (R4.17) */
    int64_t examples; /* real ones in the global batch this came from; -1: not known */
    sheaf_element *components[];
};

static inline bool sheaf__values_shared(const sheaf_values *v, size_t field)
{
    return !v->per_replica || (field < 64 && (v->shared >> field & 1));
}

/* Takes counts of its own. NULL with `err` without memory. */
sheaf_values *sheaf__values_new(sheaf_element *const *components, int count, bool per_replica,
                                sheaf_error *err);
/* Whether the replicas' elements go together: as many tensors, of the same names in the same order (R4.17). */
sheaf_status sheaf__values_check(sheaf_element *const *outs, int count, sheaf_error *err);
/* What the replicas of a step returned (R4.17): one plain element if there is one replica or all
 * fields are the same object or equal plain numbers; fields that are so stand once. Fails if names
 * differ. */
sheaf_values *sheaf__values_regroup(sheaf_element *const *outs, int count, sheaf_error *err);
/* What replica `local` gets: its component, or the one for all. Borrowed; NULL if there are fewer.
 */
sheaf_element *sheaf__values_component(const sheaf_values *v, int local);

#endif
