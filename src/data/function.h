/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_FUNCTION_H
#define SHEAF_DATA_FUNCTION_H

#include "data/stage.h"
#include "ops/stateful.h"

#include <sheaf/element.h>

/* What a function of the program returned, as the status of its stage: SHEAF_OK and SHEAF_END as
 * they are, an error with a message (tensor/called.h), anything else as an error. `err` is cleared before the
 * function runs; what the function put there stays. */
sheaf_status sheaf__function_status(sheaf_status status, const char *what, sheaf_error *err);

/* Around calls of functions of the stage in this thread: what workers divide among them they make from
 * the same elements, and a function with a state of its own would give each worker others. The log
 * says so once (S187). */
struct sheaf__function_watch {
    struct sheaf__stateful_watch watch;
    const sheaf_dataset *stage; /* NULL: nothing is watched */
};
void sheaf__function_watch(struct sheaf__function_watch *w, const struct sheaf__iter *it);
void sheaf__function_watch_end(struct sheaf__function_watch *w);

/* The file name that an element of one string scalar is, with a zero; sheaf__free(). NULL with err.
 */
char *sheaf__path_of(const sheaf_element *e, sheaf_error *err);

#endif
