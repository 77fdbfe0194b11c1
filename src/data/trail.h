/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_TRAIL_H
#define SHEAF_DATA_TRAIL_H

/* What the stages of one iterator note on their way for the position that may be saved of it. All
 * threads of the iterator share it. NULL notes nothing and knows nothing. */

#include <stdbool.h>
#include <stdint.h>

struct sheaf__trail;

/* NULL: no memory. */
struct sheaf__trail *sheaf__trail_new(void);
void sheaf__trail_free(struct sheaf__trail *trail);

/* A file as it is now, path, size and time of change, and the `kind` of reading it, as one number;
 * 0: it cannot be looked at. */
uint64_t sheaf__trail_file(const char *path, uint64_t kind);
/* The file was read to its end and has so many records. Only so many files are kept. */
void sheaf__trail_learn(struct sheaf__trail *trail, uint64_t file, uint64_t records);
/* Whether that is known. */
bool sheaf__trail_knows(struct sheaf__trail *trail, uint64_t file, uint64_t *records);

#endif
