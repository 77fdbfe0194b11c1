/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/stateful.h"

#include <stddef.h>

static _Thread_local const struct sheaf__stateful_watch *current;

void sheaf__stateful_watch(struct sheaf__stateful_watch *watch)
{
    watch->outer = current;
    current = watch;
}

void sheaf__stateful_watch_end(const struct sheaf__stateful_watch *watch)
{
    current = watch->outer;
}

void sheaf__stateful_called(const char *operation)
{
    if (current)
        current->found(current, operation);
}
