/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_PROGRESS_H
#define SHEAF_CLI_PROGRESS_H

/* A line on a terminal that shows how far something is, for what takes longer than a second.
 * Nothing at all where standard error is no terminal. */

#include <stdint.h>

struct sheaf__progress {
    const char *what;
    uint64_t total;      /* 0: not known */
    int64_t begin, next; /* ms */
    int shown;
};

void sheaf__progress_start(struct sheaf__progress *p, const char *what, uint64_t total);
/* Call often: it looks at the clock and draws ten times a second at most. */
void sheaf__progress_at(struct sheaf__progress *p, uint64_t done);
/* Removes the line. */
void sheaf__progress_end(struct sheaf__progress *p);

#endif
