/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_SAID_H
#define SHEAF_CLI_SAID_H

/* Why tasks have failed. An error travels, and who ends because of it repeats it in the words of the task where it arose:
 * "worker:0: …", maybe with what it was about itself before them. Some faults every task finds for itself. Shown once, it is
 * found at once. */

#include <stdbool.h>
#include <stddef.h>

enum { SHEAF__SAID_MOST = 16 };

struct sheaf__said {
    struct {
        char *text;
        const void *who;
    } lines[SHEAF__SAID_MOST];
    int count;
};

/* Whether the line is such an error and somebody else than `who` has said it; else it is kept. */
bool sheaf__said_before(struct sheaf__said *said, const void *who, const char *text, size_t size);
void sheaf__said_free(struct sheaf__said *said);

#endif
