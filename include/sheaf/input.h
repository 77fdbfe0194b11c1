/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_INPUT_H
#define SHEAF_INPUT_H

/** @file
 *  Distributed input: a dataset split over the replicas of a strategy (tf-semantics 1–3).
 *
 *  A distributed dataset is no dataset: there is nothing to map or batch on it (S42, S113). Builders latch; errors come
 *  out of sheaf_next(), lack of memory, too. Datasets are read by any thread, an iterator by one at a time. */

#include <sheaf/dataset.h>
#include <sheaf/strategy.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_dist_dataset sheaf_dist_dataset;
typedef struct sheaf_dist_iterator sheaf_dist_iterator;

/** What a dataset function is told (R3.33, R3.34). */
typedef struct sheaf_input_context {
    int num_input_pipelines;
    int input_pipeline_id;
    int num_replicas_in_sync;
} sheaf_input_context;
/** global / replicas. SHEAF_ERR_INVALID_ARGUMENT: below 1, or not divisible. */
SHEAF_CHECKED sheaf_status sheaf_per_replica_batch_size(const sheaf_input_context *context,
                                                        int64_t global, int64_t *size,
                                                        sheaf_error *err);
/** "tf.distribute.InputContext(input pipeline id 0, total: 1)" (P6.4). Text of the frame. */
SHEAF_API const char *sheaf_input_context_str(const sheaf_input_context *context);

/** What a value function is told (R3.36). */
typedef struct sheaf_value_context {
    int replica_id_in_sync_group;
    int num_replicas_in_sync;
} sheaf_value_context;
/** "tf.distribute.ValueContext(replica id 0,  total replicas in sync: 1)". Text of the frame. */
SHEAF_API const char *sheaf_value_context_str(const sheaf_value_context *context);

typedef struct sheaf_input_options {
    /** Steps that are made ahead, on a thread; 0: 1, but none of what is not rebatched: one replica's, a function's (R3.20, S143). */
    int per_replica_buffer_size;
    bool per_replica; /**< replication mode PER_REPLICA (R3.38) */
    bool no_fetch_to_device;
    bool place_dataset_on_device;
    uint64_t reserved[4];
} sheaf_input_options;

/** Splits each global batch of `d` over the replicas; between workers `d` is sharded as its options say (AUTO). Uses up a
 *  count of `d`. `experimental_distribute_dataset` of the documents; what to use unless the program divides its data itself. */
SHEAF_API sheaf_dist_dataset *sheaf_distribute_dataset(sheaf_strategy *s, sheaf_dataset *d,
                                                       const sheaf_input_options *options);

/** Makes this worker's dataset of per-replica batches; called once per worker (S56), and nothing is changed about it. */
typedef sheaf_dataset *(*sheaf_dataset_fn)(const sheaf_input_context *context, void *user);
SHEAF_API sheaf_dist_dataset *sheaf_distribute_datasets_from_function(
    sheaf_strategy *s, sheaf_dataset_fn fn, void *user, const sheaf_input_options *options);

/** The documents' older names of the two (S55, D10). */
#define sheaf_experimental_distribute_dataset                sheaf_distribute_dataset
#define sheaf_experimental_distribute_datasets_from_function sheaf_distribute_datasets_from_function

/** The rows of `e`'s tensors, unbatched: `experimental_make_numpy_dataset`, deprecated, which the log says once (S71, R4.33). The
 *  arrays are the dataset's without a copy; use sheaf_dataset_from_slices(). Cross-replica only. */
SHEAF_API sheaf_dataset *sheaf_make_numpy_dataset(sheaf_strategy *s, sheaf_element *e);

/** Makes one replica's value. */
typedef sheaf_status (*sheaf_value_fn)(const sheaf_value_context *context, sheaf_element *out,
                                       void *user);
/** Calls `fn` once per local replica, in order (R4.32). Belongs to the frame. All put tensors of the same names in the same order, or
 *  none; dtypes and shapes may differ. Else SHEAF_ERR_INVALID_ARGUMENT, which says what two of them put. */
SHEAF_CHECKED sheaf_status sheaf_distribute_values_from_function(sheaf_strategy *s,
                                                                 sheaf_value_fn fn, void *user,
                                                                 sheaf_values **out,
                                                                 sheaf_error *err);

/** Type of one replica's part (S156, R1.44); NULL with an error. Lives as long as the dataset. */
SHEAF_API const sheaf_element_spec *sheaf_dist_dataset_element_spec(const sheaf_dist_dataset *d);
/** Its text: "TensorSpec(…)" or "PerReplicaSpec(TensorSpec(…), …)" (P6.3). Text of the frame. */
SHEAF_API const char *sheaf_dist_dataset_element_spec_str(const sheaf_dist_dataset *d);
/** "<DistributedDataset element_spec=…>", and the same of an iterator below. Text of the frame. */
SHEAF_API const char *sheaf_dist_dataset_str(const sheaf_dist_dataset *d);
/** Which auto-sharding policy was applied to this worker's input, why, and which files it reads, as the log says, but with all
 *  their names: "autoshard policy FILE: the source reads files; 2 files: a, b". Each file is named once, however often it is read.
 *  Where a shuffle decides which are this worker's, as before a shard or take of the program's own, each pass has others: of one with
 *  a seed "2 files in the first pass: a, b", of others, and of names that a function makes, nothing; sheaf_dist_dataset_account()
 *  tells them of every pass. Of datasets that a function made: "not sharded: …", and the files, with `per_replica` those of each.
 *  "None" with an error. Text of the frame. */
SHEAF_API const char *sheaf_dist_dataset_sharding(const sheaf_dist_dataset *d);
/** Of the dataset before it was split (R3.28). */
SHEAF_API int64_t sheaf_dist_dataset_cardinality(const sheaf_dist_dataset *d);
SHEAF_API void sheaf_dist_dataset_free(sheaf_dist_dataset *d);

/** The position in the dataset, as a part of checkpoints; borrowed, lives as long as the dataset. Saved between two steps it
 *  is that of the iterator made last, or of the pass that comes next; after a restore the next sheaf_iterate() goes on
 *  there, so that every example comes once a pass however often the job is stopped. With other workers or replicas than
 *  before, the rest of the pass is divided anew: each example still comes once, and the global batches are the same where
 *  their size divides. Under parameter servers every worker makes its own passes and gets its own position back; one that has
 *  none, as it is new or was not there the last time, begins with the first pass and makes all of them, however far the others
 *  are: a job that goes on with more workers makes more steps. SHEAF_ERR_FAILED_PRECONDITION from the save or the restore: where that cannot be, and why. */
SHEAF_API sheaf_trackable *sheaf_dist_dataset_trackable(sheaf_dist_dataset *d);
/** Passes that came to the end of the data, those before a restore included. */
SHEAF_API int64_t sheaf_dist_dataset_passes(sheaf_dist_dataset *d);

/** What became of the data in the pass that came to its end last, all before a restore included: of all workers where they
 *  step together, which all ask then; else of this one. Lives as long as the frame; zeros if none ended in this process. */
SHEAF_CHECKED sheaf_status sheaf_dist_dataset_account(sheaf_dist_dataset *d, sheaf_account *account,
                                                      sheaf_error *err);

/** Starts at the first element. Freed with sheaf_dist_iterator_free(), which ends its threads at once. */
SHEAF_API sheaf_dist_iterator *sheaf_iterate(sheaf_dist_dataset *d);
SHEAF_API void sheaf_dist_iterator_free(sheaf_dist_iterator *it);
SHEAF_API const sheaf_element_spec *sheaf_dist_iterator_element_spec(const sheaf_dist_iterator *it);
SHEAF_API const char *sheaf_dist_iterator_str(const sheaf_dist_iterator *it);

/** The next element in the innermost frame: bare with one replica, else per replica, empty parts included (R3.5–R3.9).
 *  SHEAF_END when no replica of any worker has data, again and again. Cross-replica context only.
 *
 *  Workers agree on the end, and on the number of real examples, one step ahead: a call pulls this worker's next element,
 *  too, and tells the others of it before it returns, so that the next call waits for nobody who has come so far. All workers
 *  use the same iterators in the same order, and as far; one that frees its own early while another goes on, or whose data
 *  fail, is an error of all at that element (SHEAF_ERR_TEAM_MISMATCH, or what failed). Where all are sure to
 *  have as many full batches, of data in memory with static shapes and no function in between, they agree twice on a dataset
 *  and no more (S185; counter "input.agreements"); who leaves early is found out where the workers' calls differ then.
 *  That another worker is lost or has ended is told when this one's element has come: who reads data that give nothing for long
 *  hears it that much later.
 *  A worker that waits here for one that waits in another call, or the other way round, finds out at the deadline
 *  (SHEAF_ERR_DEADLINE, which names who has not called). A worker that has no data while others go on gets empty parts
 *  (counter "input.idle_steps"). */
SHEAF_CHECKED sheaf_status sheaf_next(sheaf_dist_iterator *it, sheaf_values **out,
                                      sheaf_error *err);
/** The same, with SHEAF_ERR_OUT_OF_RANGE at the end (S150). Where a function of the program makes several steps in one call
 *  and gets this in the middle, the steps before have taken effect (S151); with sheaf_get_next_as_optional() the end is no
 *  error. */
SHEAF_CHECKED sheaf_status sheaf_get_next(sheaf_dist_iterator *it, sheaf_values **out,
                                          sheaf_error *err);

/** The next element, or nothing (S152, S153). Belongs to the frame. */
typedef struct sheaf_optional sheaf_optional;
SHEAF_CHECKED sheaf_status sheaf_get_next_as_optional(sheaf_dist_iterator *it, sheaf_optional **out,
                                                      sheaf_error *err);
SHEAF_API bool sheaf_optional_has_value(const sheaf_optional *o);
/** SHEAF_ERR_INVALID_ARGUMENT if it holds nothing. */
SHEAF_CHECKED sheaf_status sheaf_optional_value(const sheaf_optional *o, sheaf_values **out,
                                                sheaf_error *err);

/** Loop over a distributed iterator, a frame a round. err->status is SHEAF_OK when it begins, and negative
 *  if it does not come to the end of data, also where an operation of a round failed: `sheaf_values *batch; SHEAF_EACH(batch, it, &err) { … }`. `break` leaves it. */
#define SHEAF_EACH(values, it, err)                                    \
    for (sheaf_frame SHEAF_BLOCK_NAME(sheaf_each_)                     \
             __attribute__((cleanup(sheaf_frame_close))) = SHEAF_ZERO; \
         sheaf_each(&SHEAF_BLOCK_NAME(sheaf_each_), (it), &(values), (err));)
SHEAF_API bool sheaf_each(sheaf_frame *frame, sheaf_dist_iterator *it, sheaf_values **out,
                          sheaf_error *err);

SHEAF_END_DECLS

#endif
