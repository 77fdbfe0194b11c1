/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_DRAWS_H
#define SHEAF_DATA_DRAWS_H

/* Where the iterators of a random stage take their seeds from: a generator of the dataset, so that
 * every iteration has another order (R9.5). */

#include "base/random.h"
#include "base/thread.h"
#include "data/stage.h"

/* First member of the state of such a stage (ops->draws). */
struct sheaf__draws {
    bool seeded; /* the program gave the seed: every process has the same */
    bool fixed;  /* iterators use the stage's seeds themselves, and draw none */
    struct sheaf__mutex lock;
    struct sheaf__seeds seeds; /* of the stage */
    struct sheaf__philox generator;
    uint64_t count; /* draws so far */
};

/* Of a stage that has one, else NULL. */
static inline struct sheaf__draws *sheaf__draws_of(const sheaf_dataset *d)
{
    return d->stage->ops->draws && d->error.status >= 0 ? d->state : NULL;
}
/* Begins anew with other seeds, `count` draws later. */
void sheaf__draws_set(struct sheaf__draws *draws, struct sheaf__seeds seeds, uint64_t count);
/* After other seeds or counts were set: stages that keep what came of the ones before forget it. */
void sheaf__draws_thaw(sheaf_dataset *d);
/* Whether some stage of the tree takes seeds. */
bool sheaf__draws_in(const sheaf_dataset *d);
/* The seeds of the next iterator. */
struct sheaf__seeds sheaf__draws_take(struct sheaf__iter *it);

/* How far the generators in a tree of datasets were once. Zeroed is empty. */
struct sheaf__marks {
    struct sheaf__mark {
        sheaf_dataset *dataset; /* borrowed; each once */
        struct sheaf__seeds seeds;
        uint64_t count;
        uint64_t next, end; /* draws that are to be made again; under the lock of the draws */
    } * items;
    size_t count, capacity;
    bool shared; /* a stage is reached on two ways: they take its seeds in turn */
    struct sheaf__marks *above;
};
/* `above` is the flow's of who takes them: what is drawn again in its turn. */
sheaf_status sheaf__marks_take(struct sheaf__marks *marks, sheaf_dataset *d,
                               struct sheaf__marks *above, sheaf_error *err);
/* A flow with these marks gives the seeds again that were drawn since they were taken, and goes on
 * with new ones then: for an input that begins again. */
void sheaf__marks_redraw(struct sheaf__marks *marks);
void sheaf__marks_free(struct sheaf__marks *marks);

#endif
