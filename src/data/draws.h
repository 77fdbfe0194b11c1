/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_DRAWS_H
#define SHEAF_DATA_DRAWS_H

/* Where the iterators of a random stage take their seeds from: a generator of the dataset, so that
 * every iteration has another order (R9.5). It is the first member of such a stage's state
 * (ops->draws). */

#include "base/random.h"
#include "base/thread.h"
#include "data/stage.h"

struct sheaf__draws {
    struct sheaf__mutex lock;
    struct sheaf__seeds seeds; /* of the stage */
    struct sheaf__philox generator;
    uint64_t count; /* that were taken */
};

/* Of a stage that has one, else NULL. */
static inline struct sheaf__draws *sheaf__draws_of(const sheaf_dataset *d)
{
    return d->stage->ops->draws && d->error.status >= 0 ? d->state : NULL;
}
/* Begins anew with other seeds, `count` draws later. */
void sheaf__draws_set(struct sheaf__draws *draws, struct sheaf__seeds seeds, uint64_t count);
/* Whether some stage of the tree takes seeds. */
bool sheaf__draws_in(const sheaf_dataset *d);
/* The seeds of the next iterator. */
struct sheaf__seeds sheaf__draws_take(struct sheaf__iter *it);

/* How far the generators in a tree of datasets are. Zeroed is empty. */
struct sheaf__marks {
    struct sheaf__mark {
        sheaf_dataset *dataset; /* borrowed; each once */
        uint64_t count;
    } * items;
    size_t count, capacity;
    bool shared; /* a stage is reached on two ways: they take its seeds in turn */
};
sheaf_status sheaf__marks_take(struct sheaf__marks *marks, sheaf_dataset *d, sheaf_error *err);
/* Puts the generators back to where they were. */
void sheaf__marks_return(const struct sheaf__marks *marks);
void sheaf__marks_free(struct sheaf__marks *marks);

#endif
