/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_PROFILE_H
#define SHEAF_DATA_PROFILE_H

/* What the stages of one iterator do, measured for sheaf_iterator_explain(). All threads of the
 * iterator share it. NULL everywhere measures nothing and costs a branch. */

#include "base/str.h"
#include "base/thread.h"
#include "data/rows.h"

#include <sheaf/dataset.h>

#include <stdatomic.h>

/* Of one stage; its iterators, one after the other or at once, count together. */
struct sheaf__note {
    struct sheaf__note *below;  /* first of its inputs and of what its function makes */
    struct sheaf__note *beside; /* next below the same stage */
    const struct sheaf__stage *stage;
    size_t input; /* which one it is; of what a function makes: the number of inputs */
    char *line;   /* its name and parameters */
    _Atomic uint64_t elements, bytes; /* that it gave */
    _Atomic int64_t work_ns;          /* in its own code, on all threads */
    _Atomic int64_t wait_ns;          /* the consumer's, for its threads */
    _Atomic uint64_t looks, fill;     /* how often its queue was looked at, sum of what was in */
    struct sheaf__mutex lock;         /* guards what follows */
    uint64_t capacity, threads;       /* that were for most of the time; 0: none of its own */
    int64_t looked;                   /* when it was; 0: never */
    int64_t lead;                     /* of the time with so many threads over that with others */
};

struct sheaf__profile {
    struct sheaf__note *root;
    struct sheaf__mutex lock; /* guards what follows, and the making of notes */
    uint64_t elements;
    int64_t begin, end; /* the first question and the last answer; 0: none yet */
    int64_t asked, asking_ns;
};
/* Whether somebody wants to know. */
bool sheaf__dataset_is_measured(const sheaf_dataset *d);
/* Of an iterator of `d` (borrowed); a note for each of its stages. NULL: no memory. */
struct sheaf__profile *sheaf__profile_new(const sheaf_dataset *d);
/* Appends all of it as text to the file that SHEAF_EXPLAIN names, if there is one and anything was
 * asked for (the log says what went wrong), and frees it. */
void sheaf__profile_end(struct sheaf__profile *p);
static inline struct sheaf__note *sheaf__profile_root(const struct sheaf__profile *p)
{
    return p ? p->root : NULL;
}
/* The note of input `input` of a stage, or of a dataset that its function made (the number of
 * inputs); made at its first use. NULL: no memory, or `above` is NULL. */
struct sheaf__note *sheaf__profile_below(struct sheaf__profile *p, struct sheaf__note *above,
                                         const sheaf_dataset *d, size_t input);

/* The consumer asks for an element, and gets it. */
void sheaf__profile_ask(struct sheaf__profile *p);
void sheaf__profile_answer(struct sheaf__profile *p, sheaf_status status);
/* All of it as text. */
void sheaf__profile_print(struct sheaf__profile *p, struct sheaf__str *text);

/* ---- what a thread does ---- */

/* A stretch of time of the calling thread that goes into a sum, but for the stretches inside of it.
 */
struct sheaf__stretch {
    _Atomic int64_t *sum; /* NULL: not measured */
    struct sheaf__stretch *outer;
    int64_t start, inside;
};
void sheaf__stretch_open(struct sheaf__stretch *s);
void sheaf__stretch_close(struct sheaf__stretch *s);
static inline void sheaf__stretch_begin(struct sheaf__stretch *s, _Atomic int64_t *sum)
{
    s->sum = sum;
    if (sum)
        sheaf__stretch_open(s);
}
static inline void sheaf__stretch_end(struct sheaf__stretch *s)
{
    if (s->sum)
        sheaf__stretch_close(s);
}
static inline _Atomic int64_t *sheaf__note_work(struct sheaf__note *note)
{
    return note ? &note->work_ns : NULL;
}
static inline _Atomic int64_t *sheaf__note_wait(struct sheaf__note *note)
{
    return note ? &note->wait_ns : NULL;
}

/* The last `count` of these rows were given. */
void sheaf__note_give(struct sheaf__note *note, const struct sheaf__rows *rows, size_t count);
/* The consumer finds so much in the stage's queue. */
void sheaf__note_fill(struct sheaf__note *note, uint64_t fill, uint64_t capacity, int threads);

#endif
