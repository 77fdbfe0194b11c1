/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_CONTEXT_STATE_H
#define SHEAF_BASE_CONTEXT_STATE_H

/* What a context holds, for the files of base/ alone; each part belongs to one of them. */

#include "base/array.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/context.h"
#include "base/list.h"
#include "base/map.h"
#include "base/random.h"
#include "base/thread.h"

struct sheaf__config_number {
    char *text; /* own copy if it was given, else NULL */
    int64_t whole;
    double seconds;
};

struct sheaf__slot_value {
    const struct sheaf__slot *slot;
    void *value;
};

struct sheaf__trace_event {
    const char *name;
    uint64_t thread;
    int64_t start;
    int64_t ns;
};

struct sheaf_context {
    struct sheaf__list_node node; /* in the list of all contexts (context.c) */

    /* context.c */
    struct sheaf__mutex lock; /* of task */
    sheaf_task task;
    struct sheaf__token *token;
    _Atomic bool stop_asked; /* here or, of a job that ends in order, in another task */

    /* stopping.c */
    _Atomic int asks;           /* of sheaf_stop(), also in a signal handler */
    int asks_seen;              /* of them, under the lock of the list; and whether a thread acts */
    bool acting;                /* on them just now: the context stays */
    struct sheaf__token *asked; /* cancelled at the first of them */
    struct sheaf__mutex stop_lock; /* of what follows */
    int orderly;                   /* who wants the program to end in order */
    int64_t asked_at;              /* the first time; 0: not yet */
    bool timed;                    /* the time for an end in order runs */
    struct sheaf__thread *timer;   /* and who ends it; NULL: nobody had to */
    const struct sheaf__fs *fs;

    /* slot.c */
    struct sheaf__mutex slot_lock; /* of slots */
    struct sheaf__mutex slot_making;
    _Atomic uint64_t slot_maker; /* the thread that holds slot_making; it may ask for other slots */
    struct sheaf__slot_value *slots; /* in the order they were finished */
    size_t slot_count;
    size_t slot_capacity;

    /* clock.c */
    sheaf__clock_fn wall;
    void *wall_user;

    /* log.c */
    sheaf_log_fn log;
    void *log_user;
    int log_level;
    struct sheaf__mutex log_lock; /* of log_counts */
    struct sheaf__strmap log_counts;

    /* env.c, config.c */
    const char *const *environment; /* NULL: the process's */
    struct sheaf__config_number config[SHEAF__CONFIG_COUNT];
    sheaf_error config_error; /* process default context only */

    /* farewell.c */
    struct sheaf__mutex farewell_lock; /* of farewells, held while one runs */
    struct sheaf__list farewells;

    /* seed.c */
    struct sheaf__mutex seed_lock;
    struct sheaf__seed_state seeds;

    /* counter.c */
    struct sheaf__mutex counter_lock; /* of counters; their values are atomic */
    struct sheaf__strmap counters;

    /* trace.c */
    _Atomic bool tracing;
    struct sheaf__mutex trace_lock; /* of trace */
    struct sheaf__trace_event *trace;
    size_t trace_count;
    size_t trace_capacity;
    uint64_t trace_lost;
};

/* Parts of sheaf_context_new() and sheaf_context_free() that other files own. */
void sheaf__slot_destroy_all(sheaf_context *context);
void sheaf__config_free(sheaf_context *context);
void sheaf__log_free(sheaf_context *context);
void sheaf__counter_free(sheaf_context *context);
void sheaf__trace_init(sheaf_context *context);
void sheaf__trace_finish(sheaf_context *context);
void sheaf__trace_free(sheaf_context *context);
void sheaf__seed_init(sheaf_context *context, bool has_seed, int64_t seed);
/* Acts on what signal handlers asked of contexts; called by stop.c's thread. */
void sheaf__context_stop_asked(void);
/* Of one context: the tokens, and the end of all that goes on by itself. */
sheaf_status sheaf__stopping_init(sheaf_context *context, sheaf_error *err);
void sheaf__stopping_end(sheaf_context *context);
void sheaf__stopping_free(sheaf_context *context);

/* Sets the seed, as sheaf_set_seed() does for the current context (seed.c). */
void sheaf__seed_set(sheaf_context *context, int64_t seed);

/* stop.c: the thread that turns sheaf_stop() into cancelled tokens. Started at the first token or wait. */
void sheaf__stop_watch(void);
/* Async-signal-safe. */
void sheaf__stop_notify(void);

#endif
