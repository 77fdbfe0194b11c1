/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_STRATEGY_H
#define SHEAF_DISTRIBUTE_STRATEGY_H

/* Inside of strategies. A strategy is the state all of them share (devices, replicas, contexts) and
 * a class: what it does in its own way. Adding one is a file and a line of the table in strategy.c.
 */

#include "base/halt.h"
#include "base/object.h"
#include "base/thread.h"
#include "base/wait.h"
#include "ops/mode.h"

#include <sheaf/input.h>

/* Most local replicas. */
enum { SHEAF__MOST_REPLICAS = 256 };

struct sheaf__replicas;

struct sheaf__gradient;

struct sheaf__made;

struct sheaf__strategy_class {
    const char *name;    /* TensorFlow's class name */
    const char *aliases; /* other names, separated by blanks */

    /* Fills what the class knows (workers, devices) and connects. NULL: nothing to do. */
    sheaf_status (*start)(sheaf_strategy *s, const sheaf_strategy_options *options,
                          sheaf_error *err);
    /* Says goodbye; then frees. May be NULL. */
    sheaf_status (*join)(sheaf_strategy *s, int64_t deadline, sheaf_error *err);
    void (*stop)(sheaf_strategy *s);

    /* Whether this task saves now; NULL: the chief does. */
    bool (*saves)(const sheaf_strategy *s);

    /* Makes a variable of a request made in the scope. */
    sheaf_variable *(*create)(sheaf_strategy *s, sheaf_variable_request *request);

    /* Around a step, on the thread that runs it: brings what the replicas will read, sends what
     * they wrote. May be NULL. */
    sheaf_status (*step_begin)(sheaf_strategy *s, sheaf_error *err);
    sheaf_status (*step_end)(sheaf_strategy *s, sheaf_status step, sheaf_error *err);

    /* Where workers do not step together: keeps this worker's place in the input from its next step
     * on, for checkpoints that any of them saves; and what is kept, or was in a checkpoint that is
     * being restored, in the frame. May be NULL. */
    sheaf_status (*mark)(sheaf_strategy *s, sheaf_bytes place, sheaf_error *err);
    sheaf_status (*marked)(sheaf_strategy *s, sheaf_bytes *place, sheaf_error *err);

    /* Updates variables with gradients that are summed over all replicas; on every replica
     * (minimize.h), where the strategy is remote; else each replica applies them to its own copies. */
    sheaf_status (*update)(sheaf_replica *r, sheaf_optimizer *o, const struct sheaf__gradient *all,
                           size_t count, sheaf_error *err);
};

struct sheaf_strategy {
    struct sheaf__object object;
    const struct sheaf__strategy_class *cls;
    sheaf_context *context;
    sheaf_cluster *cluster; /* counted */

    int workers, worker_id;   /* processes that step together, and which we are */
    int pipelines, pipeline;  /* input pipelines of the job, and which is ours (R3.34) */
    int local, first, total;  /* replicas: here, number of the first, of the job in sync */
    char **devices;           /* full name of each local replica's device */
    int *device_index;        /* its number among the logical devices */
    char **parameter_devices; /* NULL-terminated */
    bool is_chief;
    bool partial_batches; /* 0.7: "get next as optional" */
    bool rebatches;       /* 0.7 */
    bool reproducible;
    bool remote; /* its variables live in other tasks: the class updates them */
    bool well;   /* it has made steps, and neither the last one nor input since has failed */
    int64_t deadline_ns; /* for a peer to appear or answer */

    struct sheaf__sync
        *sync; /* how replicas and workers reduce (sync.h); NULL: there is one replica */
    struct sheaf__made *made;         /* the variables with copies (made.h); NULL: none yet */
    struct sheaf__save_group *group;  /* of what its variables save; NULL: this process alone */
    struct sheaf__halt *halt;         /* where it stops when it is asked to; NULL: alone */
    struct sheaf__replicas *replicas; /* threads, made at the first run */
    struct sheaf__mutex running;      /* held by the step that runs */
    void *state;                      /* the class's */
};

extern const struct sheaf__strategy_class sheaf__strategy_default_class, sheaf__strategy_one_class,
    sheaf__strategy_mirrored_class, sheaf__strategy_multiworker_class, sheaf__strategy_ps_class;

/* The default strategy of the process (R4.3): no scope, one replica. */
sheaf_strategy *sheaf__strategy_default(void);
/* `s`, or the current one for NULL. */
sheaf_strategy *sheaf__strategy_or_current(const sheaf_strategy *s);

/* Its input has failed. */
void sheaf__strategy_failed(sheaf_strategy *s);

/* Fills s->devices and counts: one local replica on each of `names` (NULL-terminated), or on every
 * logical device, or on the first alone. `job` and `index` make the full names. */
sheaf_status sheaf__strategy_place(sheaf_strategy *s, const char *const *names, bool all,
                                   const char *job, int index, sheaf_error *err);
/* Full name of device `type`:`number` of a task; the caller frees it. */
char *sheaf__strategy_device_name(const char *job, int index, const char *type, int number);

/* SHEAF_OK if `s` may be used for cross-replica work by the calling thread (R4.5, R4.19): in
 * default mode or its own cross-replica mode. `what` names the call. */
sheaf_status sheaf__strategy_check_cross(sheaf_strategy *s, const char *what, sheaf_error *err);

#endif
