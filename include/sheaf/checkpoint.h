/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CHECKPOINT_H
#define SHEAF_CHECKPOINT_H

/** @file
 *  Checkpoints that tf.train.Checkpoint loads: named objects, sharded files, one commit (tf-semantics 8).
 *
 *  Nothing of a new checkpoint is visible before the rename of its index; a failed or interrupted save leaves the old one
 *  whole. One thread at a time per object. */

#include <sheaf/optimizer.h>
#include <sheaf/variable.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_checkpoint sheaf_checkpoint;

/** An empty checkpoint. Builder: errors of sheaf_checkpoint_add come out of save and restore. */
SHEAF_API sheaf_checkpoint *sheaf_checkpoint_new(void);
SHEAF_API void sheaf_checkpoint_free(sheaf_checkpoint *c);
/** Adds an object under a name of its own, as a keyword of tf.train.Checkpoint; "model/dense/kernel" is object `kernel` of
 *  `dense` of `model`, "model/x\\/y" object `x/y` of it, as a dict of Python's may have it (its key is `model/x.Sy`), and "\\\\" a
 *  backslash. Names are UTF-8: TensorFlow opens no checkpoint with others. Borrowed until the checkpoint is freed. */
SHEAF_API void sheaf_checkpoint_add(sheaf_checkpoint *c, const char *name, sheaf_trackable *object);
/** Shorthands. */
SHEAF_API void sheaf_checkpoint_add_variable(sheaf_checkpoint *c, const char *name,
                                             sheaf_variable *v);
/** Adds `count` variables, each under its own name. */
SHEAF_API void sheaf_checkpoint_add_variables(sheaf_checkpoint *c, sheaf_variable *const *variables,
                                              size_t count);
SHEAF_API void sheaf_checkpoint_add_optimizer(sheaf_checkpoint *c, const char *name,
                                              sheaf_optimizer *o);

/* Sharding. */

/** A tensor that goes into some shard (R8.1). */
typedef struct sheaf_shardable sheaf_shardable;
SHEAF_API const char *sheaf_shardable_key(const sheaf_shardable *t);
SHEAF_API sheaf_dtype sheaf_shardable_dtype(const sheaf_shardable *t);
SHEAF_API sheaf_shape sheaf_shardable_shape(const sheaf_shardable *t);
/** Full name of the device that holds it, "/job:ps/replica:0/task:0/device:CPU:0". */
SHEAF_API const char *sheaf_shardable_device(const sheaf_shardable *t);
/** "" for a whole tensor, else TensorFlow's text: "10 3 4,3:0,3" (R8.6). */
SHEAF_API const char *sheaf_shardable_slice_spec(const sheaf_shardable *t);
/** Its value; fetched from its task if that is another one. */
SHEAF_API sheaf_tensor *sheaf_shardable_tensor(sheaf_shardable *t);

/** The plan a callback fills: which tensor goes to which shard of this task. */
typedef struct sheaf_shard_plan sheaf_shard_plan;
/** Puts tensor `t` into shard `shard`, from 0 on. */
SHEAF_API void sheaf_shard_put(sheaf_shard_plan *plan, int shard, const sheaf_shardable *t);
/** The same under a key, slice and tensor of the callback's own. A slice may be a part of a tensor whose other parts go
 *  elsewhere. The callback says where, not what: of `tensor` only dtype and shape are looked at, the values are the
 *  object's. What breaks the promises (R8.4) is refused after the callback with SHEAF_ERR_FAILED_PRECONDITION: removed,
 *  added, duplicated, reshaped, retyped, another task's (S203–S207). */
SHEAF_API void sheaf_shard_put_as(sheaf_shard_plan *plan, int shard, const char *key,
                                  const char *slice_spec, sheaf_tensor *tensor, const char *device);

/** A sharding policy: called once per task and save with the task's tensors. If it fails, the save does: what it said by
 *  `return sheaf_error_set(NULL, status, "…")` is in the error. */
typedef struct sheaf_sharding_callback {
    sheaf_status (*assign)(sheaf_shardable *const *tensors, size_t count, sheaf_shard_plan *plan,
                           void *user);
    /** for errors, logs and the inspecting command; stored with the checkpoint */
    const char *description;
    void *user;
} sheaf_sharding_callback;
/** SHEAF_OK, also for NULL, the default; SHEAF_ERR_INVALID_ARGUMENT if the function or the description is missing (S213). */
SHEAF_CHECKED sheaf_status sheaf_sharding_callback_check(const sheaf_sharding_callback *callback,
                                                         sheaf_error *err);

/* Policies ready to use. Each is asked per task, so that no shard mixes tasks; its result may be given away and copied. */

/** One shard per task (R8.7): the default. */
SHEAF_API const sheaf_sharding_callback *sheaf_shard_by_task(void);
/** The same by the name that TensorFlow's documentation gives its example: "Place all tensors in a single shard." */
SHEAF_API const sheaf_sharding_callback *sheaf_shard_all_in_one(void);
/** Shards of at most `bytes`, cut where TensorFlow's MaxShardSizePolicy cuts (R8.9, R8.10): tensors fill up a shard in their
 *  order, and what does not fit goes on in the next one, as a slice along the axis that takes the fewest. Counted are the bytes
 *  of elements: not lengths of strings, not the object graph. Where no index of any axis fits and TensorFlow never ends, an
 *  index of the longest one is cut in its turn; a single element of more bytes has a shard of its own, with a warning. Empty
 *  tensors, which TensorFlow loses, are kept, and strings, whose parts it cannot read again, are never cut: of more bytes
 *  they have a shard of their own, likewise. A save with `bytes` < 1 is SHEAF_ERR_INVALID_ARGUMENT. Values of strings are fetched from their task. */
SHEAF_API sheaf_sharding_callback sheaf_shard_max_size(int64_t bytes);
/** At most `shards` shards per task: each tensor goes where the fewest bytes are by then, taking turns where they are equal. A
 *  save with `shards` < 1 is SHEAF_ERR_INVALID_ARGUMENT. */
SHEAF_API sheaf_sharding_callback sheaf_shard_round_robin(int shards);

typedef struct sheaf_checkpoint_options {
    const sheaf_sharding_callback *sharding; /**< NULL: one shard per task */
    bool last; /**< this save ends the job: sheaf_checkpoint_wait() says so to an evaluator */
    uint64_t reserved[4];
} sheaf_checkpoint_options;

/** Saves as `<prefix>-N` with the next number of the save counter, and names it in the state file "checkpoint" of its
 *  directory (R8.23). `path`, if not NULL, gets the text of the frame. Under a strategy of several tasks: called by every
 *  worker of a synchronous one; under "ps" by any (a no-op where sheaf_strategy_should_checkpoint() is false). Each task writes
 *  its own tensors; a parameter server has the strategy's deadline for that, as for reading them, and a second for each 8 MiB
 *  besides. SHEAF_ERR_FAILED_PRECONDITION: an optimizer was restored and not built, whose values the save would lose;
 *  also of every other save. */
SHEAF_CHECKED sheaf_status sheaf_checkpoint_save(sheaf_checkpoint *c, const char *prefix,
                                                 const sheaf_checkpoint_options *options,
                                                 const char **path, sheaf_error *err);
/** Writes exactly `<path>`: no counter, no state file. */
SHEAF_CHECKED sheaf_status sheaf_checkpoint_write(sheaf_checkpoint *c, const char *path,
                                                  const sheaf_checkpoint_options *options,
                                                  sheaf_error *err);
/** Reads every object of the checkpoint back; `path` is its name, as a save gives it, and not that of one of its files.
 *  SHEAF_ERR_NOT_FOUND: an object or a file is missing (names it);
 *  SHEAF_ERR_INVALID_ARGUMENT: another dtype or shape (names tensor, found, expected); SHEAF_ERR_DATA_LOSS, or
 *  SHEAF_ERR_OUT_OF_RANGE where a data file is too short: names file, tensor and offset. Nothing is changed unless
 *  everything was read. A file without objects, as tf.compat.v1.train.Saver writes it, is read by the names of variables.
 *  The slots and numbers of an optimizer are also found where the optimizers of tf.keras.optimizers.legacy and
 *  tf.compat.v1.train have them, in either kind of file ("Adam/w/m", "w/Adam_1"), if ours has a slot that means the same:
 *  v1's momentum only in an optimizer of that family, and no Nadam. v1's Adam says its steps by its powers; in a file of names
 *  `global_step` does of the others. A warning names what such a file never has: v1's learning rate, its steps in a file of objects.
 *
 *  Objects of the file that this program does not have are left for later (S96): one that is added afterwards gets its value in
 *  sheaf_checkpoint_add(), and an optimizer that was not built its numbers at once and the values of its slots when it is, before its first step.
 *  Then the files must still be there: sheaf_checkpoint_status(). Under a strategy every task that restores adds the same in
 *  the same order. Where the file has another optimizer, a warning names what it has more, and slots of another kind in their places are
 *  SHEAF_ERR_INVALID_ARGUMENT. What nobody took is named in a warning by sheaf_checkpoint_free(). */
SHEAF_CHECKED sheaf_status sheaf_checkpoint_restore(sheaf_checkpoint *c, const char *path,
                                                    sheaf_error *err);
/** Neither side needs to be whole from now on, also if the restore was before: no warning tells of what is left in the file, and
 *  objects that it does not have stay as they are. */
SHEAF_API void sheaf_checkpoint_expect_partial(sheaf_checkpoint *c);
/** SHEAF_OK, or the error of an object that was added: that of sheaf_checkpoint_add(), or why one that came after the restore
 *  did not get its value. Saves refuse with it. */
SHEAF_API sheaf_status sheaf_checkpoint_status(const sheaf_checkpoint *c, sheaf_error *err);
/** What TensorFlow's load status asserts of the last restore and all that came since. SHEAF_ERR_FAILED_PRECONDITION names
 *  objects of the program that are not in the file; the second also those of the file that nobody took; or says that nothing was restored. */
SHEAF_CHECKED sheaf_status sheaf_checkpoint_assert_existing_objects_matched(sheaf_checkpoint *c,
                                                                            sheaf_error *err);
SHEAF_CHECKED sheaf_status sheaf_checkpoint_assert_consumed(sheaf_checkpoint *c, sheaf_error *err);
/** The newest checkpoint of a directory that has its index, text of the frame; NULL if there is none. Its state file says
 *  which; without one the highest number of the files does, and so it does, with a warning, where the state file cannot be
 *  read or its newest checkpoint is not there (a directory that was moved). Whatever looks for the newest finds it so. */
SHEAF_API const char *sheaf_checkpoint_latest(const char *directory);

/* A directory of checkpoints. */

typedef struct sheaf_checkpoint_manager sheaf_checkpoint_manager;
typedef struct sheaf_manager_options {
    const char *name; /**< prefix of the files; NULL: "ckpt" */
    int max_to_keep;  /**< the newest: 0: 5; negative: all */
    /** One that would be deleted stays for ever if it is so many hours newer than the last one that did, or than the beginning
     *  of the first run (0: none), as TensorFlow's keep_checkpoint_every_n_hours. */
    double keep_every_hours;
    /** So many of the best of all, as sheaf_manager_measure() said, stay as well as the newest; of equal ones the newer. One that
     *  others have beaten is an old one like any other. */
    int keep_best;
    bool lower_is_better; /**< of the values of sheaf_manager_measure(): losses */
    int64_t every_steps;  /**< sheaf_manager_step() saves every so many steps; 0: never */
    /** Saves but the last one copy the values and return; a thread writes the files. It needs memory for the copies, which stays
     *  until the manager is freed. Parameter servers write theirs while they go on serving; there memory is taken twice by what is
     *  updated before it is written, and until then. */
    bool background;
    /** sheaf_stop() in any task of the job is a request: all its tasks come to an end in order, and what they have is saved. See
     *  sheaf_manager_stopped(). Under a synchronous strategy every worker then calls sheaf_manager_step(), too. */
    bool save_on_stop;
    sheaf_checkpoint_options save;
    uint64_t reserved[4];
} sheaf_manager_options;
/** Makes the directory if needed and takes it, where this task saves: SHEAF_ERR_FAILED_PRECONDITION if another process, or
 *  manager, saves checkpoints there, of whatever name (who has a lock on the file `.checkpoint.lock`): a directory has
 *  one state file, and they would restore each other's. Under a synchronous strategy all workers make one, and all are
 *  refused. Under "ps" it is taken for the whole job, and a task that takes over the saving
 *  (sheaf_strategy_should_checkpoint()) removes what the one before it left of a save.
 *
 *  Where the directory of that name is another one by the time of a save, because it was moved or deleted or a relative name
 *  means another since, the save takes that one likewise, with a warning, or is refused. Borrows `c`. */
SHEAF_CHECKED sheaf_status sheaf_checkpoint_manager_new(sheaf_checkpoint *c, const char *directory,
                                                        const sheaf_manager_options *options,
                                                        sheaf_checkpoint_manager **manager,
                                                        sheaf_error *err);
SHEAF_API void sheaf_checkpoint_manager_free(sheaf_checkpoint_manager *m);
/** Restores the newest complete checkpoint; `*path` NULL if there was none, which is no error. Damaged ones are passed over
 *  with a warning; if nothing else is left, the damage is the error. */
SHEAF_CHECKED sheaf_status sheaf_manager_restore(sheaf_checkpoint_manager *m, const char **path,
                                                 sheaf_error *err);
/** Saves now, under a number above all that are there (none is ever replaced), then deletes the oldest beyond max_to_keep that
 *  nothing else keeps. What a process that was killed left of its own saves is the next manager's, which keeps or deletes it;
 *  whatever somebody copied there stays. So does, as under TensorFlow's CheckpointManager, what no state file names any more
 *  because that was lost: it looks the same, and is the user's to delete.
 *  In the background one save is under way at a time: this waits for the one before and, if that has failed, gives its error in
 *  place of a new save. `*path` is then what the checkpoint will be called; it is there after sheaf_manager_wait(). */
SHEAF_CHECKED sheaf_status sheaf_manager_save(sheaf_checkpoint_manager *m, bool last,
                                              const char **path, sheaf_error *err);
/** How good the next checkpoint is, for keep_best: counts where this process writes it (in "mwms" the chief), and for one save,
 *  be it by sheaf_manager_step(). It is kept beside the checkpoint. One that is saved without a value, or with one that is not
 *  finite, is not among the best. */
SHEAF_API void sheaf_manager_measure(sheaf_checkpoint_manager *m, double value);
/** Waits for the save that is under way in the background, if there is one: its error. sheaf_manager_save(), _end() and
 *  _restore() do the same first. sheaf_checkpoint_manager_free() waits, too, and logs a failure. Under a synchronous strategy all
 *  workers call them alike. Until then the objects of the checkpoint stay; their values may change. */
SHEAF_CHECKED sheaf_status sheaf_manager_wait(sheaf_checkpoint_manager *m, sheaf_error *err);
/** Ends the run: with a last save, or, if nothing has `changed` since, with the checkpoint that was restored or saved last. Then
 *  nothing is written but that it was the last one of this run, too, for sheaf_checkpoint_wait(). */
SHEAF_CHECKED sheaf_status sheaf_manager_end(sheaf_checkpoint_manager *m, bool changed,
                                             const char **path, sheaf_error *err);
/** Saves if `step` passed a multiple of every_steps since the last call. SHEAF_END: the job stops here, as it was asked to
 *  (save_on_stop), and nothing was saved yet. */
SHEAF_CHECKED sheaf_status sheaf_manager_step(sheaf_checkpoint_manager *m, int64_t step,
                                              sheaf_error *err);

/** With save_on_stop: whether the job stops, as it was asked to. The program leaves its loops and ends as always: it joins, and
 *  sheaf_manager_end() saves what there is, from which the next run goes on; the iterator's place is in it.
 *
 *  Once any task was asked, sheaf_stopped() is true in all, and what takes long, an evaluation, should look at it. The job stops
 *  at one place of the program, the same in all workers of a synchronous strategy: at sheaf_manager_step(), which is SHEAF_END
 *  then, or where the next step's data are asked for, which end then, also if they would have been long in coming. Under "ps"
 *  each worker stops after its step. SHEAF_GRACE_S after the request, or when asked again, every wait ends with
 *  SHEAF_ERR_CANCELLED, as at once without save_on_stop. */
SHEAF_API bool sheaf_manager_stopped(const sheaf_checkpoint_manager *m);

/** For an evaluator: waits until the newest checkpoint of `directory` is another than `previous` (may be NULL). SHEAF_OK with
 *  its path, text of the frame; SHEAF_END when `previous` was the last one of this run; SHEAF_ERR_DEADLINE after `deadline`
 *  seconds, 0 to 1e9. */
SHEAF_CHECKED sheaf_status sheaf_checkpoint_wait(const char *directory, const char *previous,
                                                 double deadline, const char **path,
                                                 sheaf_error *err);
/** The same, and restores it; one that is deleted meanwhile, because newer ones came, is skipped, and a damaged one is
 *  passed over with a warning, as by sheaf_manager_restore(). If without `previous` only damaged ones have come, the newest
 *  one's damage is the error. */
SHEAF_CHECKED sheaf_status sheaf_checkpoint_restore_next(sheaf_checkpoint *c, const char *directory,
                                                         const char *previous, double deadline,
                                                         const char **path, sheaf_error *err);

SHEAF_END_DECLS

#endif
