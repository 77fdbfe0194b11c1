/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_STAGE_H
#define SHEAF_DATA_STAGE_H

/* The shape of a stage: one file with its builder and its operations, and one line in the table of
 * stages.h.
 *
 * A dataset is an immutable, counted node: a line of the table, parameters, inputs. An iterator is
 * a tree of `struct sheaf__iter` over it, used by one thread at a time. Rows (data/rows.h) travel
 * upwards, as many a call as the consumer is sure to use: nobody runs ahead of the demand, but
 * prefetch and the parallel stages, which say so. */

#include "base/file_maps.h"
#include "base/str.h"
#include "base/wait.h"
#include "data/account.h"
#include "data/profile.h"
#include "data/rows.h"
#include "data/stages.h"
#include "data/trail.h"
#include "data/tuner.h"

#include <sheaf/dataset.h>

/* ---- nodes ---- */

/* Parameters of a stage: first member of its own struct. Immutable once the node is made; rewritten
 * copies of the node share them. */
struct sheaf__params {
    struct sheaf__object object;
};

struct sheaf_dataset {
    struct sheaf__object object;
    const struct sheaf__stage *stage;
    struct sheaf__params *params;
    sheaf_dataset **inputs;
    size_t input_count;
    unsigned number; /* of the stage in the user's pipeline, from 1; 0: added by a rewriting */
    /* What describe() finds out. */
    sheaf_element_spec *spec; /* NULL: not known, or an error */
    int64_t cardinality;
    sheaf_dataset_options options; /* merged over the inputs (R9.29) */
    bool calls; /* functions of the program, which may wait for anything: rows are pulled singly by
                   who runs ahead, so that none that is ready is held back */
    bool divided;                 /* its elements, among workers: the last stage of a rewriting */
    sheaf_error error;            /* the first; status 0: none */
    sheaf_context *context;       /* where iterators run */
    struct sheaf__file_maps maps; /* of files that its own iterators have read */
    void *state;                  /* shared by all iterators: ops->state_size */
};

struct sheaf__iter;

/* What pass() stepped over. */
struct sheaf__passed {
    uint64_t count; /* elements */
    uint64_t rows;  /* of these, if they are batches; only batching stages, those of the trait
                       SHEAF__COUNTS_ROWS and those without pass() count them */
};

/* What a stage does. NULL where nothing is to do. */
struct sheaf__stage_ops {
    /* Checks the parameters and sets spec, cardinality and own options of a node that has its
     * inputs. It inherits before: the only input's spec, cardinality and options. */
    sheaf_status (*describe)(sheaf_dataset *d, sheaf_error *err);
    void (*params_free)(void *params); /* what the struct owns; not the struct */
    size_t state_size;                 /* of dataset->state, zeroed, then started */
    void (*state_start)(sheaf_dataset *d);
    void (*state_stop)(void *state); /* what the struct owns; also of one that was never started */
    bool draws;                      /* the state begins with struct sheaf__draws (data/draws.h) */
    /* Of a stage that does not run its input any more, because it keeps what came of it: the marks
     * of when that began. NULL: it would run it. */
    const struct sheaf__marks *(*frozen)(const sheaf_dataset *d);
    void (*thaw)(sheaf_dataset *d); /* forgets what it keeps */
    size_t iter_size;               /* of the iterator, zeroed; starts with struct sheaf__iter */
    /* Prepares an iterator whose inputs' iterators are made (unless `lazy`). */
    sheaf_status (*start)(struct sheaf__iter *it, sheaf_error *err);
    /* Appends 1 to `want` rows and returns SHEAF_OK; SHEAF_END when none are left, again and again;
     * an error: the iterator stays usable and stands behind what failed. END and errors may come
     * after rows of the same call: the caller delivers them first. */
    sheaf_status (*next)(struct sheaf__iter *it, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err);
    /* Steps over up to `count` elements as next() would give them, but without making them where
     * that can be helped: no function is called, no data is read. Adds what it did to `passed`.
     * SHEAF_OK: all of them; SHEAF_END: the input ended before; an error: the iterator stands
     * behind what failed. Before the first next() or between two. NULL: they are made and dropped.
     */
    sheaf_status (*pass)(struct sheaf__iter *it, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err);
    /* So many elements it will still give at least, as far as that is known without any work.
     * NULL: 0. */
    uint64_t (*sure)(const struct sheaf__iter *it);
    /* Ends threads, frees what the iterator owns; its inputs' iterators go afterwards. */
    void (*stop)(struct sheaf__iter *it);
    bool lazy; /* makes its inputs' iterators itself */
    /* How many of its inputs get their iterators together with its own; NULL: all. */
    size_t (*opens)(const sheaf_dataset *d);
    /* Whether it hands on what it gets: TensorFlow leaves it out. NULL: it does something. */
    bool (*idle)(const sheaf_dataset *d);

    /* The size of the batches that it makes, for rebatching; -1: hidden from it (R1.9). NULL: it makes
     * none. */
    int64_t (*batch_size)(const sheaf_dataset *d);
    /* Why its elements would not come in the same order again; NULL: they would. `unordered` is the
     * option of the pipeline. */
    const char *(*unstable)(const sheaf_dataset *d, bool unordered);
    /* Writes the parameters after the name: "(4, drop_remainder)". */
    void (*explain)(const sheaf_dataset *d, struct sheaf__str *text);
};

/* A line of the table. */
struct sheaf__stage {
    const char *name;
    unsigned traits; /* what the rewritings ask (stages.h) */
    const struct sheaf__stage_ops *ops;
};
const struct sheaf__stage *sheaf__stage(enum sheaf__stage_id id);
static inline bool sheaf__dataset_is(const sheaf_dataset *d, enum sheaf__stage_id id)
{
    return d->stage == sheaf__stage(id);
}

/* Zeroed parameters of `size` bytes for a stage, one count. NULL: no memory, which
 * sheaf__dataset_new() takes note of. */
void *sheaf__params_new(size_t size, enum sheaf__stage_id id);

/* Makes the node; uses up the counts of `params` and of every input, also when that fails. Never
 * NULL: what goes wrong is latched inside. A stage without parameters passes an empty struct
 * sheaf__params. */
sheaf_dataset *sheaf__dataset_new(enum sheaf__stage_id id, void *params,
                                  sheaf_dataset *const *inputs, size_t input_count);
/* A node that only carries `err`; uses up `d` (may be NULL). */
sheaf_dataset *sheaf__dataset_failed(sheaf_dataset *d, enum sheaf__stage_id id,
                                     const sheaf_error *err);
/* The same stage and parameters over other inputs (borrowed array, counts used up), with a state of
 * its own (R9.11). */
sheaf_dataset *sheaf__dataset_over(const sheaf_dataset *d, sheaf_dataset *const *inputs);
/* Inputs that get their iterators together with its own. */
size_t sheaf__dataset_opens(const sheaf_dataset *d);
/* How it is called in messages: "stage 4 (map)". */
const char *sheaf__dataset_name(const sheaf_dataset *d, char text[64]);
/* Merges later options into earlier ones (R9.30). */
void sheaf__options_merge(sheaf_dataset_options *into, const sheaf_dataset_options *later);
/* Refuses what a version of the library does not know: non-zero room in an option struct. */
sheaf_status sheaf__reserved_check(const uint64_t reserved[4], sheaf_error *err);

/* ---- iterators ---- */

/* What must happen in the order in which elements are handed out, whoever makes them ahead, waits here:
 * that a corrupt record is charged to a number for all files. Of a stage that runs its input ahead, in
 * the flow of that. */
struct sheaf__gate {
    struct sheaf__gate *above;
    /* Returns when the stage's consumer waits for what is being made, and all before it is taken. */
    sheaf_status (*wait)(struct sheaf__gate *gate, sheaf_error *err);
};
/* Passes one, and all above it. NULL: nobody runs ahead beside others. */
sheaf_status sheaf__gates_pass(struct sheaf__gate *gate, sheaf_error *err);

/* What the iterators of one tree share. A stage that runs its inputs on threads of its own makes
 * one for them, below its own, and cancels it before it joins. */
struct sheaf__flow {
    sheaf_context *context;
    struct sheaf__token *token;     /* cancelled when the tree is freed: ends every wait inside */
    struct sheaf__trail *trail;     /* of the whole iterator */
    struct sheaf__account *account; /* of the whole iterator */
    struct sheaf__tuner *tuner;     /* of the whole iterator */
    struct sheaf__file_maps *maps;  /* of the dataset that is iterated */
    struct sheaf__profile *profile; /* of the whole iterator; NULL: nothing is measured */
    struct sheaf__marks *redraw;    /* seeds that are taken again (data/draws.h) */
    struct sheaf__gate *gate;       /* the innermost; NULL: order does not matter */
    bool unordered;                 /* options of the whole pipeline */
    bool parallel_maps;
    bool divided; /* among workers, which make the same elements (data/function.h) */
};
sheaf_status sheaf__flow_start(struct sheaf__flow *flow, const struct sheaf__flow *above,
                               sheaf_error *err);
/* Several inputs will be read below it, which may run ahead beside each other: from here on there are
 * gates, if there is what must wait at them. */
void sheaf__flow_branch(struct sheaf__flow *flow);
/* Ends every wait below it, at once. */
void sheaf__flow_cancel(struct sheaf__flow *flow);
void sheaf__flow_free(struct sheaf__flow *flow);

struct sheaf__iter {
    sheaf_dataset *dataset; /* counted */
    const struct sheaf__flow *flow;
    struct sheaf__iter **inputs; /* NULL entries: a lazy stage makes them itself */
    size_t input_count;
    struct sheaf__note *note; /* of the profile; NULL: not measured */
    sheaf_error later;        /* an error or the end that came after rows */
    bool later_end;
    bool broken; /* start failed: `later` for ever */
};

/* The parameters of the stage, of its own type. */
static inline const void *sheaf__iter_params(const struct sheaf__iter *it)
{
    return it->dataset->params;
}

/* Makes the iterators of a tree (d borrowed), which a function of the stage `above` made (NULL: the
 * whole pipeline). What goes wrong comes out of every pull; an error is that there is no memory. */
sheaf_status sheaf__iter_make(struct sheaf__iter *above, sheaf_dataset *d,
                              const struct sheaf__flow *flow, struct sheaf__iter **it,
                              sheaf_error *err);
/* Makes those of input `i` of a lazy stage. */
sheaf_status sheaf__iter_input(struct sheaf__iter *it, size_t i, const struct sheaf__flow *flow,
                               sheaf_error *err);
void sheaf__iter_free(struct sheaf__iter *it);
/* The way to call a stage: 1 to `want` rows appended to `rows`, or SHEAF_END, or an error (err is
 * not NULL) that names the stage. */
sheaf_status sheaf__iter_pull(struct sheaf__iter *it, size_t want, struct sheaf__rows *rows,
                              sheaf_error *err);
/* The way to call pass(); the same as pulling and dropping. */
sheaf_status sheaf__iter_pass(struct sheaf__iter *it, uint64_t count, struct sheaf__passed *passed,
                              sheaf_error *err);
/* The same by making them: for a pass() that has no other way any more. */
sheaf_status sheaf__iter_drop(struct sheaf__iter *it, uint64_t count, struct sheaf__passed *passed,
                              sheaf_error *err);
uint64_t sheaf__iter_sure(const struct sheaf__iter *it);
/* Of `want` rows, how many may be pulled at once by who runs ahead: what waits at its gate must not keep
 * rows that come before. */
size_t sheaf__iter_ahead(const struct sheaf__iter *it, size_t want);
/* After an error in pass() that leaves the iterator nowhere: it gives that error for ever. */
sheaf_status sheaf__iter_break(struct sheaf__iter *it, const sheaf_error *err);
/* Lets the stage that calls put its name before an error that a dataset inside it gave. */
static inline void sheaf__iter_unnamed(sheaf_error *err)
{
    err->reserved = 0;
}
/* Joins a thread of a stage at teardown. It was told to end; only a function of the user can make
 * it late, and then it is named in the log. */
void sheaf__iter_join(struct sheaf__iter *it, struct sheaf__thread *thread);

/* ---- a stage's own input ---- */

/* Rows of an input that a stage works off one by one; what an error interrupts stays for the next
 * call. Zeroed but for `from` is empty. */
struct sheaf__feed {
    struct sheaf__iter *from;
    struct sheaf__rows rows;
    struct sheaf__block *block; /* being worked off */
    size_t at;                  /* its next row */
};
/* Makes sure that `block` has a row at `at`, pulling up to `want` if there is none. The stage adds
 * what it used to `at`. */
sheaf_status sheaf__feed_fill(struct sheaf__feed *feed, size_t want, sheaf_error *err);
/* Rows of the block that are left. */
static inline size_t sheaf__feed_left(const struct sheaf__feed *feed)
{
    return feed->block ? feed->block->count - feed->at : 0;
}
/* Steps over `count` rows: those at hand, then the input's. As pass(). */
sheaf_status sheaf__feed_pass(struct sheaf__feed *feed, uint64_t count,
                              struct sheaf__passed *passed, sheaf_error *err);
/* Rows at hand, and those that the input has for sure. */
uint64_t sheaf__feed_sure(const struct sheaf__feed *feed);
void sheaf__feed_free(struct sheaf__feed *feed);

#endif
