/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_POSITION_H
#define SHEAF_DATA_POSITION_H

/* Where an iterator is, as it is saved: not what its stages hold, but what makes a new one hold the
 * same. That is which pipeline it is, how far the generators of its random stages were when it began,
 * and how many elements the consumer has taken; the new one passes over so many (ops->pass).
 *
 * In bytes: "ShfP", a byte for the version, a message in protobuf's wire format, CRC-32C of all
 * that. Fields that a version does not know are left alone. */

#include "base/buf.h"
#include "base/random.h"

#include <sheaf/dataset.h>

/* One random stage, in the order of sheaf__marks_take(). */
struct sheaf__position_draws {
    struct sheaf__seeds seeds;
    uint64_t count; /* draws before the iterator began */
};

/* A file that was read to its end (data/trail.h). */
struct sheaf__position_file {
    uint64_t file, records;
};

/* So many workers with so many replicas each took so many steps. */
struct sheaf__leg {
    int64_t workers, replicas;
    uint64_t rounds;
};

struct sheaf__position {
    char *pipeline; /* its stages, a line each (sheaf__dataset_order()) */
    struct sheaf__position_draws *draws;
    size_t draw_count, draw_capacity;
    uint64_t elements; /* that the consumer took */
    uint64_t errors;   /* that it was given between them */
    bool forgives;     /* corrupt records were skipped, if there were any: they are no elements */
    struct sheaf__position_file *files;
    size_t file_count, file_capacity;

    /* Of a distributed dataset: passes that came to their end, and the legs of the one after them. A
     * leg ends when the job goes on with other workers. None: that pass has not begun. */
    bool distributed;
    uint64_t passes;
    uint64_t examples; /* of that pass, over all workers */
    struct sheaf__leg *legs;
    size_t leg_count, leg_capacity;
};

/* Appends the bytes. */
sheaf_status sheaf__position_write(const struct sheaf__position *p, struct sheaf__buf *buf,
                                   sheaf_error *err);
/* Fills a zeroed position. SHEAF_ERR_DATA_LOSS: no such bytes, or damaged; SHEAF_ERR_UNIMPLEMENTED:
 * of a newer version. */
sheaf_status sheaf__position_read(struct sheaf__position *p, const void *data, size_t size,
                                  sheaf_error *err);
/* SHEAF_ERR_FAILED_PRECONDITION with the first difference if it is not of this pipeline. */
sheaf_status sheaf__position_fits(const struct sheaf__position *p, const char *pipeline,
                                  sheaf_error *err);
/* The same if it may stand behind corrupt records that were skipped, and these options skip none. */
sheaf_status sheaf__position_forgives(const struct sheaf__position *p,
                                      const sheaf_dataset_options *options, sheaf_error *err);
void sheaf__position_free(struct sheaf__position *p);

/* NULL or 0: no memory. */
struct sheaf__position_draws *sheaf__position_add_draws(struct sheaf__position *p);
struct sheaf__position_file *sheaf__position_add_file(struct sheaf__position *p);
struct sheaf__leg *sheaf__position_add_leg(struct sheaf__position *p);

#endif
