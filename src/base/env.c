/* SPDX-License-Identifier: Apache-2.0 */
#include "base/env.h"

#include "base/context_state.h"

#include <string.h>
#include <unistd.h>

const char *sheaf__env_at(size_t i)
{
    const char *const *list = sheaf__context()->environment;
    if (!list)
        list = (const char *const *)environ;
    return list ? list[i] : NULL;
}

const char *sheaf__env_get(const char *name)
{
    size_t size = strlen(name);
    const char *entry;
    /* The whole list is there: sheaf__env_at() stops at its end. */
    for (size_t i = 0; (entry = sheaf__env_at(i)); i++)
        if (strncmp(entry, name, size) == 0 && entry[size] == '=')
            return entry + size + 1;
    return NULL;
}
