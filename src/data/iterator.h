/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_ITERATOR_H
#define SHEAF_DATA_ITERATOR_H

/* Inside of the public iterator: a tree, and how much of it the consumer took. */

#include "data/position.h"
#include "data/stage.h"
#include "tensor/trackable.h"

struct sheaf_iterator {
    sheaf_dataset *dataset;  /* counted */
    sheaf_dataset *runs;     /* the same, or optimized; counted */
    struct sheaf__flow flow; /* with a trail */
    struct sheaf__tuner tuner;
    struct sheaf__iter *root; /* NULL: there is none, as */
    sheaf_error failure;      /* says */
    struct sheaf__rows rows;
    uint64_t elements, errors;       /* that the consumer was given */
    bool behind;                     /* the tree stands at its beginning and must pass them first */
    bool up_to;                      /* there may be fewer */
    struct sheaf__position accepted; /* from a checkpoint that is being restored */
    sheaf_trackable trackable;
};

/* SHEAF_OK: there is one, and it runs something. */
sheaf_status sheaf__iterator_check(const sheaf_iterator *it, sheaf_error *err);
/* Makes the tree anew, at the beginning. Without memory there is none. */
void sheaf__iterator_open(sheaf_iterator *it);
/* Ends its threads; the trail stays. */
void sheaf__iterator_end(sheaf_iterator *it);
void sheaf__iterator_close(sheaf_iterator *it);

/* As if the consumer had been given so many elements and errors: the next one passes over them. */
void sheaf__iterator_seek(sheaf_iterator *it, uint64_t elements, uint64_t errors);
/* The same where it may have come to its end before so many. */
void sheaf__iterator_seek_up_to(sheaf_iterator *it, uint64_t elements);
/* Passes over what the consumer was given. */
sheaf_status sheaf__iterator_catch_up(sheaf_iterator *it, sheaf_error *err);

/* SHEAF_OK, or why its position cannot be saved. */
sheaf_status sheaf__iterator_saves(const sheaf_iterator *it, sheaf_error *err);
/* Adds to a position, or takes from it, what its stages learned about files. */
sheaf_status sheaf__iterator_put_files(const sheaf_iterator *it, struct sheaf__position *p,
                                       sheaf_error *err);
void sheaf__iterator_take_files(sheaf_iterator *it, const struct sheaf__position *p);

/* Steps over elements. */
sheaf_status sheaf__iterator_pass(sheaf_iterator *it, uint64_t count, struct sheaf__passed *passed,
                                  sheaf_error *err);

extern const struct sheaf__trackable_class sheaf__iterator_trackable_class;

#endif
