/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_TUNER_H
#define SHEAF_DATA_TUNER_H

/* What the stages of one iterator may use that let the library choose: cores for their threads, and
 * memory for what they make ahead. All threads of the iterator share it. It decides when something
 * is made, never what comes out, or in which order. */

#include "base/file_maps.h"

#include <sheaf/dataset.h>

/* Zeroed, then started. */
struct sheaf__tuner {
    int cores;
    uint64_t bytes;                      /* for all that is made ahead and kept */
    const struct sheaf__file_maps *maps; /* that are kept */
    _Atomic int ahead;                   /* stages that make something ahead */
    struct sheaf__mutex lock;            /* guards what follows */
    struct sheaf__list crews;            /* that are tuned */
};
/* In the context of the iterator. `maps` may be NULL. */
void sheaf__tuner_start(struct sheaf__tuner *tuner, const sheaf_dataset_options *options,
                        const struct sheaf__file_maps *maps);

/* Refuses what `parallel` of a stage cannot be: each is a thread, which a process may not have without end. */
sheaf_status sheaf__tuner_check(int parallel, sheaf_error *err);

/* A stage begins, or ends, to make something ahead. */
static inline void sheaf__tuner_run_ahead(struct sheaf__tuner *tuner, bool begins)
{
    atomic_fetch_add_explicit(&tuner->ahead, begins ? 1 : -1, memory_order_relaxed);
}
/* Bytes that each of them may hold; one element it may always make. */
uint64_t sheaf__tuner_share(const struct sheaf__tuner *tuner);

/* How many rows a thread takes next so that it works for about `goal` ns, after `rows` of which each took so long; at most
 * `most`. It grows slowly: one quick row says little. */
size_t sheaf__piece_rows(size_t rows, size_t most, int64_t goal, int64_t row_ns);

/* How many threads of a stage work.
 *
 * So many calls at once keep up with the slower of two, who feeds them and who takes what comes, as
 * what a call takes is longer than what these two take for an element; a quarter more, since calls are
 * uneven. That is measured over some pieces of work and then holds for the next ones. Stages that
 * would keep more than all cores busy get less in proportion, rounded up to whole threads: one that
 * waits for room takes no core from the others.
 *
 * The stage's own lock guards it. */
struct sheaf__crew_size {
    struct sheaf__list_node node; /* in the tuner's list */
    struct sheaf__tuner *tuner;   /* NULL: the number is the program's */
    int most;
    double need; /* calls at once, for the tuner; less than one: it mostly waits */
    _Atomic int now;
    int idle; /* lowest number of a thread that stands by; `most`: none */
    /* Measured since the last change. */
    int pieces;
    uint64_t made, taken; /* elements */
    int64_t call_ns, feed_ns, outside_ns;
    int64_t left; /* when the consumer went; 0: it has not been there */
};
/* Starts with all it may have. `tuner` NULL: they stay so many. */
void sheaf__crew_size_start(struct sheaf__crew_size *size, struct sheaf__tuner *tuner, int most);
void sheaf__crew_size_stop(struct sheaf__crew_size *size);
static inline int sheaf__crew_size_now(const struct sheaf__crew_size *size)
{
    return atomic_load_explicit(&size->now, memory_order_relaxed);
}
/* Whether the thread of this number, from 0, shall stand by until it is woken. */
bool sheaf__crew_size_idle(struct sheaf__crew_size *size, int number);
/* Whether a thread that stands by shall work again: then all of them have to be woken, and look. */
bool sheaf__crew_size_hires(struct sheaf__crew_size *size);
/* So many elements were fed and made in these times. */
void sheaf__crew_size_made(struct sheaf__crew_size *size, uint64_t elements, int64_t feed_ns,
                           int64_t call_ns);
/* The consumer comes, and goes with so many elements. */
void sheaf__crew_size_arrive(struct sheaf__crew_size *size);
void sheaf__crew_size_leave(struct sheaf__crew_size *size, uint64_t elements);

#endif
