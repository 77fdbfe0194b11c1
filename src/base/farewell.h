/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_FAREWELL_H
#define SHEAF_BASE_FAREWELL_H

/* Who is told why a program ends: what has connections to other tasks, so that they hear of the cause
 * and not only of the end. */

#include "base/list.h"

#include <sheaf/context.h>

struct sheaf__farewell {
    struct sheaf__list_node node; /* of the context's */
    void (*say)(void *user, const sheaf_error *cause);
    void *user;
};

void sheaf__farewell_add(sheaf_context *context, struct sheaf__farewell *farewell);
/* Returns when `say` does not run and will not. Any number of times. */
void sheaf__farewell_remove(sheaf_context *context, struct sheaf__farewell *farewell);
/* Tells all of them, each once, on the calling thread. */
void sheaf__farewell_say(sheaf_context *context, const sheaf_error *cause);

#endif
