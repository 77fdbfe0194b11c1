/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_PS_VARIABLE_H
#define SHEAF_PS_VARIABLE_H

/* A variable that lives on parameter servers, as a worker sees it: in one part, or in several that have
 * consecutive rows of it. A server knows parts only, each as a variable of its own. */

#include "ops/variable.h"
#include "ps/client.h"

struct sheaf__ps_slot_ref;

/* What one server has of a variable. */
struct sheaf__ps_part {
    uint32_t number; /* the server's name for it */
    int server;
    int64_t first, rows; /* of axis 0 */
    sheaf_shape shape;
    size_t offset, bytes; /* in the whole value */
};

struct sheaf__ps_variable_ref {
    sheaf_variable base;
    struct sheaf__ps_client *client;
    size_t index; /* among the client's */
    struct sheaf__ps_part *parts;
    size_t part_count;
    uint64_t step; /* that `value` was pulled for */
    uint64_t read; /* step that read it last */
    sheaf_tensor *value;
    struct sheaf__ps_slot_ref *slots[SHEAF__RULE_SLOTS];
};

/* How the replicas of this process write together: returns the one value to send, or NULL if this
 * replica sends nothing
 * (`status` tells whether it failed). Given by who knows replicas. */
typedef sheaf_tensor *(*sheaf__ps_aggregate_fn)(sheaf_variable *v, sheaf_tensor *value,
                                                sheaf_status *status, sheaf_error *err);

/* Rows `ids` of it (lookup.c). */
sheaf_tensor *sheaf__ps_lookup(sheaf_variable *v, sheaf_tensor *ids);

/* Makes the next variable; every worker makes the same ones in the same order. The chief's has its
 * first value, the others wait for it. Errors are latched in the result. NULL: no memory. */
sheaf_variable *sheaf__ps_variable_new(struct sheaf__ps_client *client,
                                       const sheaf_variable_request *request,
                                       sheaf__ps_aggregate_fn aggregate);

#endif
