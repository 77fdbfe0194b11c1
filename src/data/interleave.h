/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_INTERLEAVE_H
#define SHEAF_DATA_INTERLEAVE_H

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

/* The datasets that elements are taken of in turn, on the caller's thread. */
struct sheaf__cycle {
    struct sheaf__iter *stage;
    const struct sheaf__interleave *p; /* its parameters */
    const struct sheaf__flow *flow;    /* of the input and the slots */
    struct sheaf__iter *input;
    struct sheaf__iter **slots; /* those that were ever opened; NULL: at its end */
    size_t used, capacity;
    size_t open; /* slots that are */
    size_t at, in_block;
    struct sheaf__rows name; /* of the input: what is opened next */
    bool input_ended;
    bool lost; /* an error in pass() left the slots where they never are */
};
/* A zeroed cycle gets its slots, all empty. */
void sheaf__cycle_start(struct sheaf__cycle *c, struct sheaf__iter *stage,
                        const struct sheaf__flow *flow);
sheaf_status sheaf__cycle_next(struct sheaf__cycle *c, size_t want, struct sheaf__rows *rows,
                               sheaf_error *err);
sheaf_status sheaf__cycle_pass(struct sheaf__cycle *c, uint64_t count, struct sheaf__passed *passed,
                               sheaf_error *err);
void sheaf__cycle_free(struct sheaf__cycle *c);

/* The same order, read ahead by threads. */
struct sheaf__interleave_crew;
sheaf_status sheaf__interleave_crew_new(struct sheaf__iter *it,
                                        struct sheaf__interleave_crew **crew, sheaf_error *err);
sheaf_status sheaf__interleave_crew_next(struct sheaf__interleave_crew *crew, size_t want,
                                         struct sheaf__rows *rows, sheaf_error *err);
/* Where it begins: the cycle until the threads run, then NULL. */
struct sheaf__cycle *sheaf__interleave_crew_cycle(struct sheaf__interleave_crew *crew);
void sheaf__interleave_crew_free(struct sheaf__interleave_crew *crew);

#endif
