/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_STRATEGY_H
#define SHEAF_STRATEGY_H

/** @file
 *  Strategies: where variables live, how many replicas run a step, how their results are combined (tf-semantics 4). */

#include <sheaf/cluster.h>
#include <sheaf/optimizer.h>
#include <sheaf/partitioner.h>
#include <sheaf/values.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_strategy sheaf_strategy;
/** What a step sees of the replica it runs on; lives as long as the step. */
typedef struct sheaf_replica sheaf_replica;
typedef struct sheaf_step sheaf_step;

typedef enum sheaf_reduce_op { SHEAF_REDUCE_SUM = 0, SHEAF_REDUCE_MEAN = 1 } sheaf_reduce_op;
/** "sum", "MEAN", … in any case; another text is SHEAF_ERR_INVALID_ARGUMENT (R4.19). */
SHEAF_CHECKED sheaf_status sheaf_reduce_op_named(const char *name, sheaf_reduce_op *op,
                                                 sheaf_error *err);

typedef struct sheaf_strategy_options {
    /** NULL-terminated names of local devices, one replica each; NULL: all (R4.50) */
    const char *const *devices;
    /** one reduction order over all cluster sizes, so that they agree bit for bit */
    bool reproducible;
    double deadline; /**< seconds a peer may take, up to 1e9; 0: SHEAF_DEADLINE_S */
    /** how parameter servers cut variables; other strategies keep them whole */
    sheaf_partitioner variable_partitioner;
    uint64_t reserved[4];
} sheaf_strategy_options;

/** Makes a strategy by name: "default", "one", "mirrored", "multiworker", "ps", or TensorFlow's class name
 *  ("MirroredStrategy", "ParameterServerStrategy", "experimental.ParameterServerStrategy", …; D10, S219). NULL: the name in the
 *  variable SHEAF_STRATEGY, of the environment or the configuration file; without it "ps" if the cluster has a ps,
 *  "multiworker" if it has several workers, else "mirrored" over several logical devices, else "one".
 *  Under "ps" each worker makes its own passes over the data, also one that joins when the job is started again
 *  (sheaf_dist_dataset_trackable()); variables of strings are not supported on parameter servers.
 *  `cluster` NULL is resolved from the environment (S2); a count is taken. Connects to the tasks it needs.
 *  SHEAF_ERR_UNAVAILABLE, SHEAF_ERR_UNAUTHENTICATED, SHEAF_ERR_INCOMPATIBLE: names the task. Freed with
 *  sheaf_strategy_free() after its variables and datasets. */
SHEAF_CHECKED sheaf_status sheaf_strategy_new(const char *name, sheaf_cluster *cluster,
                                              const sheaf_strategy_options *options,
                                              sheaf_strategy **strategy, sheaf_error *err);
/** Says goodbye to the other tasks. Under "ps" a task that frees it after its steps has ended its part, as by
 *  sheaf_strategy_join(), but waits for nobody; one whose last step or input failed, or that made none, is taken for lost. */
SHEAF_API void sheaf_strategy_free(sheaf_strategy *s);

/** Ends this task's part of the job: says so to the others. On the task that saves it returns when every other worker ended or
 *  was lost, so that what it saves afterwards holds their last updates; SHEAF_ERR_DEADLINE after `deadline` seconds (up to 1e9; 0: an
 *  hour, for the others' work is waited for, not an answer). Elsewhere it returns at once, but under "ps" when the task that saves has ended, or after `deadline` seconds: if that
 *  one is lost, this one may be the one that saves when it returns.
 *  A worker that never came is waited for as long as a peer may take (the strategy's deadline) after the last one has ended;
 *  the first ps logs who it is, after some seconds and when it is waited for no longer. */
SHEAF_CHECKED sheaf_status sheaf_strategy_join(sheaf_strategy *s, double deadline,
                                               sheaf_error *err);

/* Looking at it. NULL stands for the calling thread's current strategy. */

/** TensorFlow's class name, "MirroredStrategy". */
SHEAF_API const char *sheaf_strategy_name(const sheaf_strategy *s);
/** Replicas of the job in sync (0.7, S117), those of this process, and the number of the first of them. */
SHEAF_API int sheaf_strategy_num_replicas(const sheaf_strategy *s);
SHEAF_API int sheaf_strategy_local_replicas(const sheaf_strategy *s);
SHEAF_API int sheaf_strategy_first_replica(const sheaf_strategy *s);
/** Full names of the compute device of local replica `i` and of parameter device `i`; NULL past the end (R4.47). */
SHEAF_API const char *sheaf_strategy_worker_device(const sheaf_strategy *s, int i);
SHEAF_API const char *sheaf_strategy_parameter_device(const sheaf_strategy *s, int i);
/** The cluster it was made for, borrowed. */
SHEAF_API sheaf_cluster *sheaf_strategy_cluster(const sheaf_strategy *s);
/** Whether this task saves and writes summaries now (R4.49): the chief, worker 0 without one. Under "ps" it asks the first ps:
 *  when the task that saves is lost, the first of the other workers takes over, until its end; one that was only slow, and
 *  comes back, can save nothing any more. */
SHEAF_API bool sheaf_strategy_should_checkpoint(const sheaf_strategy *s);

/* Contexts (R4.1, R4.2). */

/** The calling thread's strategy; the default strategy outside every scope, never NULL. Borrowed. */
SHEAF_API sheaf_strategy *sheaf_strategy_current(void);
SHEAF_API bool sheaf_has_strategy(void);
SHEAF_API bool sheaf_in_cross_replica_context(void);
/** The replica the thread runs, the default replica outside strategies, NULL in cross-replica context. */
SHEAF_API sheaf_replica *sheaf_replica_context(void);

/** `SHEAF_SCOPE(s) { … }`: the strategy is current, variables made in the block are distributed (R4.4–R4.7). Left by
 *  `break`, `return` and `goto`; the strategy lives as long. Another strategy's scope inside, a scope in a replica step, or
 *  that of NULL, is refused: the block does not run and sheaf_frame_status() has the error. */
#define SHEAF_SCOPE(s)                                                 \
    for (sheaf_scope SHEAF_BLOCK_NAME(sheaf_scope_)                    \
             __attribute__((cleanup(sheaf_scope_leave))) = SHEAF_ZERO; \
         sheaf_scope_enter(&SHEAF_BLOCK_NAME(sheaf_scope_), (s));)
typedef struct sheaf_scope {
    sheaf_strategy *strategy;
    void *saved;
    int32_t open, entered;
} sheaf_scope;
SHEAF_API bool sheaf_scope_enter(sheaf_scope *scope, sheaf_strategy *s);
SHEAF_API void sheaf_scope_leave(sheaf_scope *scope);

/* Running. */

/** A step: reads `in` (its replica's component), puts results into `out`. Runs once per local replica, each on a thread of
 *  its own, in a frame of its own. The first replica to fail cancels the step. */
typedef sheaf_status (*sheaf_step_fn)(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                      void *user);

/** Runs `fn` on every replica (R4.11–R4.18). `in` NULL: an empty element. `out` may be NULL. Equal plain numbers of all
 *  replicas come back as one; with one replica the value is bare. Enters the scope by itself. Errors: the lowest
 *  replica's that is not itself a cancellation.
 *  This is no slow way of running that would need a warning (S195): sheaf_run_step() calls the same function.
 *
 *  All replicas make the same calls to each other, in the same order (R4.14); one that makes another, or ends without,
 *  fails the step at once with SHEAF_ERR_FAILED_PRECONDITION. In the same way all workers of a multi-worker strategy run
 *  the same steps, in the same order with the other calls that workers make together (sheaf_reduce(), a variable's
 *  creation, saving, joining): else SHEAF_ERR_TEAM_MISMATCH on all; one that hears only that the worker which found out has
 *  ended gets SHEAF_ERR_TEAM_LOST. What one worker does alone, another strategy does
 *  ("one"). */
SHEAF_CHECKED sheaf_status sheaf_run(sheaf_strategy *s, sheaf_step_fn fn, void *user,
                                     const sheaf_values *in, sheaf_values **out, sheaf_error *err);

/** Options of one run (S87). */
typedef struct sheaf_run_options {
    /** seconds its replicas may wait for each other and for other tasks, up to 1e9; 0: the strategy's */
    double deadline;
    uint64_t reserved[4];
} sheaf_run_options;
/** sheaf_run() with options (NULL: none). SHEAF_ERR_INVALID_ARGUMENT: a reserved field or a bad deadline. */
SHEAF_CHECKED sheaf_status sheaf_run_with(sheaf_strategy *s, sheaf_step_fn fn, void *user,
                                          const sheaf_values *in, const sheaf_run_options *options,
                                          sheaf_values **out, sheaf_error *err);

/** A compiled step (S30). Its inputs must fit `signature`; without one (NULL) it learns the first input's, with its first axes
 *  unknown, and another from an input of another kind, as a tf.function does. The function is C and compiled already, so it
 *  runs as under sheaf_run(); what it has learned is how much the step's gradient tape records, for which later runs have
 *  room at once. What it puts out is tensors. */
SHEAF_API sheaf_step *sheaf_step_new(sheaf_step_fn fn, void *user,
                                     const sheaf_element_spec *signature);
/** Signatures it was given or learned so far, at each of which TensorFlow would trace it: 1 for any number of runs with one. */
SHEAF_API int sheaf_step_traces(const sheaf_step *step);
SHEAF_API void sheaf_step_free(sheaf_step *step);
/** As sheaf_run(). SHEAF_ERR_INVALID_ARGUMENT: `in` does not fit the signature that was given. */
SHEAF_CHECKED sheaf_status sheaf_run_step(sheaf_strategy *s, sheaf_step *step,
                                          const sheaf_values *in, sheaf_values **out,
                                          sheaf_error *err);

/** Combines a value over all replicas of the job, leaf by leaf (R4.19–R4.28): without axes elementwise; with them each
 *  replica's tensor is reduced over `axes` first, MEAN weighted by the real sizes. Cross-replica context only. */
SHEAF_CHECKED sheaf_status sheaf_reduce(sheaf_strategy *s, sheaf_reduce_op op,
                                        const sheaf_values *v, const int *axes, size_t axis_count,
                                        sheaf_element **out, sheaf_error *err);
/** Joins the replicas' tensors along `axis` in replica order (R4.29). */
SHEAF_CHECKED sheaf_status sheaf_gather_values(sheaf_strategy *s, const sheaf_values *v, int axis,
                                               sheaf_element **out, sheaf_error *err);

/* In a replica. */

/** Number of the replica in the job (R4.34), and how many there are. */
SHEAF_API int sheaf_replica_id(const sheaf_replica *r);
SHEAF_API int sheaf_replica_count(const sheaf_replica *r);
SHEAF_API sheaf_strategy *sheaf_replica_strategy(const sheaf_replica *r);
/** Full name of the device it runs on. */
SHEAF_API const char *sheaf_replica_device(const sheaf_replica *r);
/** "ReplicaContext(replica id 0, total replicas in sync: 1)". Text of the frame. */
SHEAF_API const char *sheaf_replica_str(const sheaf_replica *r);
/** The sum or mean of `t` over all replicas, on each (R4.37); its gradient is the same reduction. Every replica calls it. */
SHEAF_API sheaf_tensor *sheaf_all_reduce(sheaf_replica *r, sheaf_reduce_op op, sheaf_tensor *t);
/** The replicas' tensors joined along `axis`, on each (R4.38). */
SHEAF_API sheaf_tensor *sheaf_all_gather(sheaf_replica *r, sheaf_tensor *t, int axis);
/** Runs `fn` once, in cross-replica context, with every replica's `in`; each replica gets its component of the result, an
 *  empty element if there is none (R4.36). Every replica calls it. */
typedef sheaf_status (*sheaf_merge_fn)(sheaf_strategy *s, const sheaf_values *in,
                                       sheaf_values **out, void *user);
SHEAF_API sheaf_element *sheaf_merge_call(sheaf_replica *r, sheaf_merge_fn fn, void *user,
                                          sheaf_element *in);

/** Sum of the per-example losses over the number of real examples of the whole global batch, so that gradients summed over
 *  replicas are the mean's, partial and empty batches included. Where the batch did not come from a distributed iterator:
 *  rows of this replica times replicas (R12.1). */
SHEAF_API sheaf_tensor *sheaf_average_loss(sheaf_replica *r, sheaf_tensor *per_example);

SHEAF_END_DECLS

#endif
