/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_MAP_H
#define SHEAF_DATA_MAP_H

#include "data/stage.h"

struct sheaf__map_params {
    struct sheaf__params params;
    sheaf_map_fn fn;
    void *user;
    sheaf_map_options options;
    sheaf_element_spec *spec; /* counted; NULL: not known */
    int threads;              /* 0: on the consumer's */
};

/* What one thread needs to call the function again and again. Zeroed but for the
 * token is ready. */
struct sheaf__map_call {
    struct sheaf__token *token; /* ends calling; of the flow */
    struct sheaf__row row;
    sheaf_element *out;
};
/* Calls the function for a row in a frame of its own and appends the result. Whoever frees an
 * iterator waits for one call, not for all the rows that somebody asked for. */
sheaf_status sheaf__map_apply(const struct sheaf__map_params *map, struct sheaf__map_call *call,
                              struct sheaf__block *block, size_t at, struct sheaf__rows *rows,
                              sheaf_error *err);
void sheaf__map_call_free(struct sheaf__map_call *call);

/* The function on up to `threads` threads, results in the order of the input, or as they come. */
struct sheaf__map_crew;
sheaf_status sheaf__map_crew_new(struct sheaf__iter *it, int threads, struct sheaf__map_crew **crew,
                                 sheaf_error *err);
sheaf_status sheaf__map_crew_next(struct sheaf__map_crew *crew, size_t want,
                                  struct sheaf__rows *rows, sheaf_error *err);
sheaf_status sheaf__map_crew_pass(struct sheaf__map_crew *crew, uint64_t count,
                                  struct sheaf__passed *passed, sheaf_error *err);
/* Whether the threads run: then the input is theirs. */
bool sheaf__map_crew_works(const struct sheaf__map_crew *crew);
void sheaf__map_crew_free(struct sheaf__map_crew *crew);

#endif
