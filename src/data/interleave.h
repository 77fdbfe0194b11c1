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

/* Calls the function for row `at` of the block, in a frame of its own, and makes an iterator of the
 * dataset it gives. */
sheaf_status sheaf__interleave_open(const struct sheaf__interleave *p, struct sheaf__block *block,
                                    size_t at, const struct sheaf__flow *flow,
                                    struct sheaf__iter **it, sheaf_error *err);
/* The dataset alone; counted. */
sheaf_status sheaf__interleave_call(const struct sheaf__interleave *p, const sheaf_element *e,
                                    sheaf_dataset **d, sheaf_error *err);

/* The same order, read ahead by threads. */
struct sheaf__interleave_crew;
sheaf_status sheaf__interleave_crew_new(struct sheaf__iter *it,
                                        struct sheaf__interleave_crew **crew, sheaf_error *err);
sheaf_status sheaf__interleave_crew_next(struct sheaf__interleave_crew *crew, size_t want,
                                         struct sheaf__rows *rows, sheaf_error *err);
void sheaf__interleave_crew_free(struct sheaf__interleave_crew *crew);

#endif
