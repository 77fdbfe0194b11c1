/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_FORECAST_H
#define SHEAF_DISTRIBUTE_FORECAST_H

/* What workers agree on before each step of their input: how many replicas have data, and how many
 * examples there are (R3.7). Each says so one step ahead, before the step that runs in between, so that
 * nobody waits for it then. One thread at a time, for all iterators of a strategy.
 *
 * Where every worker is sure of the same number of full steps, which the first two elements of the
 * first pass show, there is nothing left to agree on (S185). Counter "input.agreements" has how often they did. */

#include "distribute/strategy.h"

struct sheaf__step_facts {
    int64_t examples;  /* real ones in the global batch */
    int64_t with_data; /* replicas that have any */
    int64_t fills;     /* workers that would hand empty parts to replicas without */
};

/* What is sure of every pass over a dataset. */
struct sheaf__certainty {
    int64_t steps; /* that this worker has, all full; SHEAF_INFINITE, SHEAF_UNKNOWN */
    bool known;    /* that all workers have as many: nothing is said from then on */
    struct sheaf__step_facts full; /* of every step until the end */
};

/* One iterator's. Zeroed at first. */
struct sheaf__forecast {
    uint64_t iterator; /* number among those that the workers used, from 1; 0: not used yet */
    uint64_t step;     /* that is agreed on now, from 0 */
    bool said, heard;
    bool failed; /* and the program knows */
    struct sheaf__step_facts sums;

    struct sheaf__certainty *certain; /* of the dataset; NULL: this is no whole pass over it */
    bool equal;                       /* the others are as sure: as far as this worker heard */
};

/* Says what this worker has for the step, unless it has; does not wait. */
sheaf_status sheaf__forecast_say(sheaf_strategy *s, struct sheaf__forecast *f,
                                 const struct sheaf__step_facts *mine, sheaf_error *err);
/* Whether the step needs no agreement; then what all have, and turns to the next step. */
bool sheaf__forecast_foresees(const struct sheaf__forecast *f);
struct sheaf__step_facts sheaf__forecast_foresee(struct sheaf__forecast *f);
/* Waits until all have said theirs, gives the sums and turns to the next step. */
sheaf_status sheaf__forecast_hear(sheaf_strategy *s, struct sheaf__forecast *f,
                                  struct sheaf__step_facts *sums, sheaf_error *err);
/* The program is told of a failure of this step: all iterators start anew. If it is `own`, this
 * worker's input that failed, the others fail with the same. */
void sheaf__forecast_fail(sheaf_strategy *s, struct sheaf__forecast *f, const sheaf_error *own);
/* The iterator is freed. If its data had not ended, others that go on with it are told. Never waits. */
void sheaf__forecast_free(sheaf_strategy *s, struct sheaf__forecast *f, bool ended);

#endif
