/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TESTS_CLUSTER_WORLD_H
#define SHEAF_TESTS_CLUSTER_WORLD_H

/* A context whose environment is exactly what a test says. */

#include <sheaf/cluster.h>
#include <sheaf/context.h>

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

struct world {
    const char *environment[16];
    size_t count;
    char log[1024]; /* lines so far */
    sheaf_context *context, *before;
};

static void world_log(sheaf_log_level level, const char *line, void *user)
{
    struct world *w = user;
    size_t used = strlen(w->log);
    (void)level;
    snprintf(w->log + used, sizeof(w->log) - used, "%s\n", line);
}

/* Enters a world with the given "NAME=value" strings, ended by NULL. */
static void world_enter(struct world *w, const char *const *variables)
{
    memset(w, 0, sizeof(*w));
    while (variables && variables[w->count]) {
        w->environment[w->count] = variables[w->count];
        w->count++;
    }
    sheaf_context_options options = {.environment = w->environment,
                                     .log = world_log,
                                     .log_user = w,
                                     .log_level = SHEAF_LOG_INFO};
    sheaf_error err;
    if (sheaf_context_new(&options, &w->context, &err) < 0)
        fail_msg("%s", err.message);
    w->before = sheaf_context_enter(w->context);
}

static void world_leave(struct world *w)
{
    sheaf_context_enter(w->before);
    sheaf_context_free(w->context);
}

#endif
