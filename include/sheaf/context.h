/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CONTEXT_H
#define SHEAF_CONTEXT_H

/** @file
 *  The world of a task: log, clock, files, random seed, environment, configuration, logical devices, counters.
 *
 *  One context is current per thread; the process default is used where none was entered. Objects keep the context
 *  they were made under, and threads the library starts for them inherit it. So several tasks, or two clusters, live
 *  in one process, and no other call carries a context. */

#include <sheaf/status.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_context sheaf_context;

/** Levels of the log, by volume of events. The default is SHEAF_LOG_WARN (variable SHEAF_LOG). */
typedef enum sheaf_log_level {
    SHEAF_LOG_ERROR = 1,
    SHEAF_LOG_WARN = 2,
    SHEAF_LOG_INFO = 3,
    SHEAF_LOG_DEBUG = 4
} sheaf_log_level;

/** Receives a log line without line end. May be called by several threads at once; must not call the library. */
typedef void (*sheaf_log_fn)(sheaf_log_level level, const char *line, void *user);

/** Options of a context; all zero is the process's own world. */
typedef struct sheaf_context_options {
    sheaf_log_fn log; /**< NULL: lines go to stderr, the only place the library writes to */
    void *log_user;
    sheaf_log_level log_level; /**< 0: as SHEAF_LOG says */
    uint64_t seed;             /**< global seed of random operations (R9.8) */
    bool has_seed;             /**< needed for seed 0 alone */
    /** "NAME=value" strings, NULL-terminated; NULL: the process's; borrowed until the context is
     *  freed */
    const char *const *environment;
    uint64_t reserved[4];
} sheaf_context_options;

/** Makes a context. Any thread. Freed with sheaf_context_free() after every object made under it, also those in the root
 *  frames of threads: call sheaf_frame_clear() where the context was current.
 *  SHEAF_ERR_INVALID_ARGUMENT: a string of the environment is no "NAME=value"; a configuration variable has a bad value
 *  (names it, and file and line if it is of the file that SHEAF_CONFIG names); the file's own errors. */
SHEAF_CHECKED sheaf_status sheaf_context_new(const sheaf_context_options *options,
                                             sheaf_context **context, sheaf_error *err);
SHEAF_API void sheaf_context_free(sheaf_context *context);

/** Makes `context` (NULL: the process default) the calling thread's and returns the one that was; give that back to
 *  leave. */
SHEAF_API sheaf_context *sheaf_context_enter(sheaf_context *context);

/** Asks every wait under the current context to end with SHEAF_ERR_CANCELLED, and `sheaf_stopped` to be true. A save that
 *  is under way ends or is given up; then nothing of it stays. Where a checkpoint manager saves when it is asked to stop
 *  (sheaf_manager_stopped()), it is a request to all tasks of the job first; asked again half a second later or more, or after
 *  SHEAF_GRACE_S, the waits end.
 *  Async-signal-safe: this is what a program's own SIGTERM handler calls; the current context is then that of the
 *  thread it interrupts, the process default unless that thread entered another. */
SHEAF_API void sheaf_stop(void);
/** True once `sheaf_stop` was called; or in another task of a job that ends in order. */
SHEAF_API bool sheaf_stopped(void);

/** Sets the global seed of the current context as tf.random.set_seed does; starts the sequence of op seeds anew. */
SHEAF_API void sheaf_set_seed(int64_t seed);

/* Configuration: one table makes the variables SHEAF_*, their documentation and this list. They are set in the environment,
 * or in a file of lines "NAME = value" that SHEAF_CONFIG names; the environment wins. */

/** One configuration variable. */
typedef struct sheaf_config_entry {
    const char *name;         /**< "SHEAF_LOG" */
    const char *default_text; /**< "warn" */
    const char *help;         /**< one line */
} sheaf_config_entry;

/** Entry `i` of the table, or NULL past its end. Static storage. */
SHEAF_API const sheaf_config_entry *sheaf_config_get(size_t i);

/** Value of variable `name` in the current context as text, the default included; NULL if there is no such variable.
 *  Valid as long as the context. */
SHEAF_API const char *sheaf_config_value(const char *name);

/** A counter of the current context by name ("record.bytes", "variable.read.unscoped", …); 0 if nothing counted yet. */
SHEAF_API uint64_t sheaf_counter(const char *name);

/** Name and value of counter `i` in order of first use. SHEAF_END past the last. */
SHEAF_API sheaf_status sheaf_counter_get(size_t i, const char **name, uint64_t *value);

SHEAF_END_DECLS

#endif
