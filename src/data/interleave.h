/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_INTERLEAVE_H
#define SHEAF_DATA_INTERLEAVE_H

#include "base/list.h"
#include "data/stage.h"

struct sheaf__interleave {
    struct sheaf__params params;
    sheaf_open_fn open;
    void *user;
    sheaf_interleave_options options; /* as given */
    sheaf_element_spec *spec;         /* counted; NULL: not known */
    size_t cycle, block;              /* as used */
    int threads;                      /* 0: on the consumer's */
};

/* Calls the function of the stage for the first row of the block, in a frame of its own, and makes
 * an iterator of the dataset it gives. */
sheaf_status sheaf__interleave_open(struct sheaf__iter *stage, struct sheaf__block *block,
                                    const struct sheaf__flow *flow, struct sheaf__iter **it,
                                    sheaf_error *err);
/* Appends up to `want` elements of a dataset that was opened, as sheaf__iter_pull(). One that is not
 * of the type that the stage was told is SHEAF_ERR_INVALID_ARGUMENT in its place. */
sheaf_status sheaf__interleave_pull(const struct sheaf__interleave *p, struct sheaf__iter *it,
                                    size_t want, struct sheaf__rows *rows, sheaf_error *err);
/* The dataset alone; counted. */
sheaf_status sheaf__interleave_call(const struct sheaf__interleave *p, const sheaf_element *e,
                                    sheaf_dataset **d, sheaf_error *err);

struct sheaf__interleave_crew;

/* One input's dataset, that of an element of the stage's input. All but the first three members is for
 * threads (interleave_crew.c). */
struct sheaf__source {
    struct sheaf__iter *iter;
    struct sheaf__flow flow; /* of it */
    struct sheaf__gate gate;
    struct sheaf__interleave_crew *crew;
    struct sheaf__list_node node; /* among those that are no slot's yet */
    struct sheaf__list_node work; /* among those that want to be read */
    struct sheaf__list_node news; /* among the slots' that have something for the consumer */
    size_t slot;                  /* that it is in; NO_SLOT: not yet */
    struct sheaf__block *name;    /* the input's element; NULL: opened */
    struct sheaf__rows rows;      /* read ahead */
    uint64_t bytes;               /* of them, about */
    sheaf_error err;              /* after the rows; reading goes on once it was taken */
    bool ended;                   /* after the rows, and the error */
    bool busy;                    /* a thread has it */
};
/* One that is not opened yet, in a flow like `flow`; in a crew with a gate of its own, if there are any.
 * NULL: no memory. */
struct sheaf__source *sheaf__source_new(const struct sheaf__flow *flow,
                                        struct sheaf__interleave_crew *crew);
void sheaf__source_free(struct sheaf__source *s);

/* The datasets that elements are taken of in turn, on the caller's thread. */
struct sheaf__cycle {
    struct sheaf__iter *stage;
    const struct sheaf__interleave *p; /* its parameters */
    const struct sheaf__flow *flow;    /* of the input and the slots */
    struct sheaf__iter *input;
    struct sheaf__interleave_crew *crew; /* that will go on; NULL: none */
    struct sheaf__source **slots;        /* those that were ever opened; NULL: at its end */
    size_t used, capacity;
    size_t open; /* slots that are */
    size_t at, in_block;
    struct sheaf__rows name; /* of the input: what is opened next */
    bool input_ended;
};
/* A zeroed cycle gets ready, all slots empty. */
void sheaf__cycle_start(struct sheaf__cycle *c, struct sheaf__iter *stage,
                        const struct sheaf__flow *flow);
sheaf_status sheaf__cycle_next(struct sheaf__cycle *c, size_t want, struct sheaf__rows *rows,
                               sheaf_error *err);
sheaf_status sheaf__cycle_pass(struct sheaf__cycle *c, uint64_t count, struct sheaf__passed *passed,
                               sheaf_error *err);
void sheaf__cycle_free(struct sheaf__cycle *c);

/* The same order, read ahead by threads. */
sheaf_status sheaf__interleave_crew_new(struct sheaf__iter *it,
                                        struct sheaf__interleave_crew **crew, sheaf_error *err);
sheaf_status sheaf__interleave_crew_next(struct sheaf__interleave_crew *crew, size_t want,
                                         struct sheaf__rows *rows, sheaf_error *err);
/* Without threads until they run. */
sheaf_status sheaf__interleave_crew_pass(struct sheaf__interleave_crew *crew, uint64_t count,
                                         struct sheaf__passed *passed, sheaf_error *err);
void sheaf__interleave_crew_free(struct sheaf__interleave_crew *crew);

#endif
