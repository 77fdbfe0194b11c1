/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_PROGRESS_H
#define SHEAF_DISTRIBUTE_PROGRESS_H

/* How far the passes over a distributed dataset have come, and the seeds they have: equal on all
 * workers by construction, so that what one of them saves (progress_save.c) is true of every one.
 *
 * Seeds that nobody gave are worker 0's. Where several workers step together, a pass moves the
 * generators on by what its iterator took when it was made, whatever was read ahead later. */

#include "data/draws.h"
#include "data/position.h"
#include "tensor/trackable.h"

#include <sheaf/input.h>

struct sheaf__progress {
    struct sheaf__mutex lock;       /* guards what follows */
    struct sheaf__draw_table draws; /* as this pass began; between passes, as the next one begins */
    struct sheaf__draw_table next;  /* as the next one begins, where the generators do not say it */
    uint64_t passes;                /* that came to their end */
    struct sheaf__leg *legs;        /* of the pass that runs; the last one is ours */
    size_t leg_count;
    const void *runner;         /* the iterator of the pass that runs; NULL: none does */
    sheaf_iterator **iterators; /* its inner ones */
    uint64_t elements, errors;  /* of the first of them, in what was handed out */
    uint64_t examples;          /* of the pass, over all workers */
    uint64_t left_out;          /* rows of the step that ended it, which not every replica had */
    bool failed;                /* the pass gave an error */
    struct sheaf__buf account;  /* of the last pass that ended (progress_account.c) */
    struct sheaf__position restored; /* what the pass that runs, or the next one, goes on from */
    struct sheaf__position accepted; /* from a checkpoint that is being restored */
    bool
        halted; /* the job stopped in the pass that ran; where it was then, or why that is not known: */
    struct sheaf__buf stopped;
    sheaf_error unknown;
    sheaf_trackable trackable;
    bool tracked;   /* somebody asked for it */
    char *pipeline; /* what it is, for positions; NULL: not yet described */
};

/* Of a new dataset: brings the seeds of the workers together. */
sheaf_status sheaf__progress_start(sheaf_dist_dataset *d, sheaf_error *err);
void sheaf__progress_free(struct sheaf__progress *p);

/* Makes the inner iterators of `runner`, a new iterator: at the beginning, or where a restored pass
 * goes on. The pass that ran before is left. `*fills` is set if replicas without data must get empty
 * parts. */
sheaf_status sheaf__progress_begin(sheaf_dist_dataset *d, const void *runner,
                                   sheaf_iterator **iterators, bool *fills, sheaf_error *err);
/* What the runner has handed out, all before it included. */
struct sheaf__handed_out {
    uint64_t elements, errors; /* of its first iterator */
    uint64_t examples;         /* of this step, over all workers */
};
/* The runner handed out a step (SHEAF_OK) or an error. */
void sheaf__progress_step(sheaf_dist_dataset *d, const void *runner, sheaf_status status,
                          const struct sheaf__handed_out *what);
/* After that, and after the end, where workers do not step together: has kept how far this one is. */
sheaf_status sheaf__progress_tell(sheaf_dist_dataset *d, sheaf_error *err);
/* It ends where the job stops, and the position stays (progress_save.c). */
void sheaf__progress_halt(sheaf_dist_dataset *d, const void *runner);
/* It ended before the end of the data. */
void sheaf__progress_break(sheaf_dist_dataset *d, const void *runner);
/* It came to the end of the data; `left_out` rows were too few for a step. */
void sheaf__progress_end(sheaf_dist_dataset *d, const void *runner, uint64_t left_out);

/* ---- between these files, with the lock held ---- */

/* Forgets the pass that runs. */
void sheaf__progress_leave(sheaf_dist_dataset *d);
/* The pass has come to its end: what became of its data. */
void sheaf__progress_close(sheaf_dist_dataset *d);
/* Sets the random stages in `data` as this pass, or the next one, begins. */
void sheaf__progress_set_seeds(const sheaf_dist_dataset *d, sheaf_dataset *data);
/* The legs of a pass that goes on from `p` here: one more, if the last is of other workers;
 * sheaf__free(). NULL: no memory. */
struct sheaf__leg *sheaf__progress_legs(const sheaf_dist_dataset *d,
                                        const struct sheaf__position *p, size_t *count);

extern const struct sheaf__trackable_class sheaf__progress_trackable_class;

#endif
