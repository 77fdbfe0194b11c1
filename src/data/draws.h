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
    bool chance; /* nobody gave any: every process has another */
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
/* The seeds of the next iterator of a random stage. */
struct sheaf__seeds sheaf__draws_take(const sheaf_dataset *d, const struct sheaf__flow *flow);
/* Takes all seeds that an iterator of `d` takes when it is made. */
void sheaf__draws_drop(const sheaf_dataset *d, const struct sheaf__flow *flow);

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

/* The random stages of a pipeline, whatever is rewritten about it: copies of a stage share its
 * parameters. Zeroed is empty. */
struct sheaf__draw_table {
    struct sheaf__draw_entry {
        const struct sheaf__params *stage; /* borrowed; each once */
        bool chance;
        struct sheaf__seeds seeds;
        uint64_t count;
    } * items;
    size_t count, capacity;
};
/* Adds the stages of `d`, as they are now. */
sheaf_status sheaf__draw_table_add(struct sheaf__draw_table *t, const sheaf_dataset *d,
                                   sheaf_error *err);
/* Stages that nobody gave a seed get one that follows from `key`. */
void sheaf__draw_table_agree(struct sheaf__draw_table *t, struct sheaf__seeds key);
/* Sets the stages in `d` to what the table says; in pipelines other than 0 those that nobody gave a
 * seed to another one that follows from it. */
void sheaf__draw_table_set(const struct sheaf__draw_table *t, sheaf_dataset *d, uint64_t pipeline);
/* Takes over counts: those that the stages in `d` have now, or had at some marks. */
void sheaf__draw_table_get(struct sheaf__draw_table *t, const sheaf_dataset *d);
void sheaf__draw_table_get_marks(struct sheaf__draw_table *t, const struct sheaf__marks *marks);
void sheaf__draw_table_free(struct sheaf__draw_table *t);

#endif
