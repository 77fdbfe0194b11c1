/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_TRAIL_H
#define SHEAF_DATA_TRAIL_H

/* What the stages of one iterator note on their way for the position that may be saved of it
 * (data/position.h). All threads of the iterator share it. NULL notes nothing and knows nothing. */

#include <sheaf/dataset.h>

struct sheaf__trail;
struct sheaf__marks;

/* Of an iterator of `d` (borrowed), before it is made. */
sheaf_status sheaf__trail_new(sheaf_dataset *d, struct sheaf__trail **trail, sheaf_error *err);
void sheaf__trail_free(struct sheaf__trail *trail);

/* Where the generators were when it began. */
const struct sheaf__marks *sheaf__trail_marks(const struct sheaf__trail *trail);
/* SHEAF_OK, or why no position of it can be saved (SHEAF_ERR_FAILED_PRECONDITION): what happened on
 * the way, and what the stages are. */
sheaf_status sheaf__trail_check(struct sheaf__trail *trail, sheaf_error *err);
sheaf_status sheaf__trail_check_stages(const sheaf_dataset *d, bool unordered, sheaf_error *err);

/* A stage of the iterator moves the generator of `d` from draw `from` to draw `to`; under the lock
 * of the draws. */
void sheaf__trail_draw(struct sheaf__trail *trail, const sheaf_dataset *d, uint64_t from,
                       uint64_t to);
/* A function of stage `by` made the dataset `d`, of which the iterator will read. */
void sheaf__trail_made(struct sheaf__trail *trail, const sheaf_dataset *by, const sheaf_dataset *d,
                       bool unordered);

/* A file as it is now, path, size and time of change, and the `kind` of reading it, as one number;
 * 0: it cannot be looked at. */
uint64_t sheaf__trail_file(const char *path, uint64_t kind);
/* The file was read to its end and has so many records. Only so many files are kept. */
void sheaf__trail_learn(struct sheaf__trail *trail, uint64_t file, uint64_t records);
/* Whether that is known. */
bool sheaf__trail_knows(struct sheaf__trail *trail, uint64_t file, uint64_t *records);
/* What was learned, one after the other: start with 0. False: no more. */
bool sheaf__trail_next_file(struct sheaf__trail *trail, size_t *at, uint64_t *file,
                            uint64_t *records);

#endif
