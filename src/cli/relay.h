/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_RELAY_H
#define SHEAF_CLI_RELAY_H

/* What a task writes, line by line: "worker:0| text" on the launcher's own output, or the bare text
 * in a file. One task's last line of standard output is the job's result and is printed bare, after
 * everything else. It is known to be the last only at the end, so the newest line is held back;
 * after a second it is shown like any other. */

#include "cli/said.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct sheaf__relay {
    int fd; /* the task's end of a pipe, non-blocking; -1: closed */
    FILE *to;
    const char *prefix;       /* "" in a file */
    struct sheaf__said *said; /* what is shown once for all tasks; NULL: nothing is */
    bool holds;               /* its last line is the result */
    char *line;               /* what has come of a line that has not ended */
    size_t size, capacity;
    char *held; /* the newest line; shown already if `held_shown` */
    size_t held_size;
    bool held_shown;
    int64_t held_until; /* when to show it, monotonic ms */
};

/* Reads what is there and passes it on. False once the pipe has ended. */
bool sheaf__relay_read(struct sheaf__relay *relay, int64_t now_ms);
/* Shows a line held back for long enough; returns ms until there is something to do, -1: nothing.
 */
int64_t sheaf__relay_tick(struct sheaf__relay *relay, int64_t now_ms);
/* The writer is gone: passes on what is left, a line without end included, except a line held back,
 * and closes the pipe. */
void sheaf__relay_end(struct sheaf__relay *relay, int64_t now_ms);
/* Prints the line held back, bare if it is a `result`, which it is if its task ended well, and frees
 * everything. */
void sheaf__relay_finish(struct sheaf__relay *relay, bool result);

#endif
