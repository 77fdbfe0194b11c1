/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATASET_H
#define SHEAF_DATASET_H

/** @file
 *  Datasets: a source and stages, run by iterators (tf-semantics 9).
 *
 *  Every function that makes a dataset always returns one and uses up one count of its input, so that a pipeline reads from
 *  top to bottom; sheaf_dataset_ref() takes a count for a second use. The first error is latched inside and comes out,
 *  naming the stage, where an iterator is asked for an element. Datasets are immutable and shared by threads;
 *  iterators are used by one thread at a time, and one that is not freed keeps its dataset.
 *
 *  Elements, specs, texts, arrays and options that a builder is given stay the caller's: what the dataset needs of them it
 *  copies or counts, unless it says otherwise. A function's `user`, and what that points to, is the program's, and lives
 *  as long as the dataset and its iterators. */

#include <sheaf/account.h>
#include <sheaf/element.h>
#include <sheaf/example.h>
#include <sheaf/features.h>
#include <sheaf/frame.h>
#include <sheaf/record.h>
#include <sheaf/variable.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_dataset sheaf_dataset;
typedef struct sheaf_iterator sheaf_iterator;

/** Let the library choose. Parallelism is set while the pipeline runs, by what a call takes against what those take that it
 *  waits for and that wait for it, so that what is busy is within the cores (SHEAF_THREADS); buffers grow where that
 *  helps, within a budget of memory (sheaf_dataset_options). What comes out, and its order, does not depend on it (S182). */
#define SHEAF_AUTOTUNE (-1)
/** Most that `parallel` of a stage may be: each is a thread. */
#define SHEAF_MOST_PARALLEL 1024
/** Cardinalities that are no number (R9.1). */
#define SHEAF_INFINITE (-1)
#define SHEAF_UNKNOWN  (-2)

/** One count more, for a second use; returns `d`. Each count is used up by a builder or given back. */
SHEAF_API sheaf_dataset *sheaf_dataset_ref(sheaf_dataset *d);
SHEAF_API void sheaf_dataset_free(sheaf_dataset *d);

/* Sources.
 *
 * Plain files on local file systems are mapped, and elements are views of them. Put another file in the place of one
 * that is in use (rename), and do not cut or overwrite it: one that is found to be cut is SHEAF_ERR_DATA_LOSS with both
 * sizes, and its records end there; but whoever touches bytes that were cut off after they were read, in a view or
 * within 1 MiB of reading, is killed by SIGBUS, and what is overwritten changes in elements that are kept. Compressed
 * files and those on network file systems are read into memory, and are safe from both.
 *
 * Of the files that a dataset's iterators have read, it keeps those mapped that came first, up to half of the memory that an
 * iterator may use (sheaf_dataset_options), since the next iterator is likely to read them, too: then that is faster, and the
 * process appears to be larger, by memory that the system takes back when it needs it. A file that was changed, or replaced,
 * is read as it is. What is not read in a whole pass is let go at the next one, and all when the dataset is freed; until then
 * a file that was deleted still has its place on the disk. */

/** start, start + step, … below limit (above for a negative step), int64 scalars. */
SHEAF_API sheaf_dataset *sheaf_dataset_range(int64_t start, int64_t limit, int64_t step);
/** One element: `e`. */
SHEAF_API sheaf_dataset *sheaf_dataset_from_tensors(sheaf_element *e);
/** One element per row of `e`'s tensors, which have the same first axis (R9.24). */
SHEAF_API sheaf_dataset *sheaf_dataset_from_slices(sheaf_element *e);
/** One element per row of an array of the program's, which is not copied: `data` and `release` are as sheaf_tensor_wrap()
 *  has them. */
SHEAF_API sheaf_dataset *sheaf_dataset_from_array(sheaf_dtype dtype, sheaf_shape shape,
                                                  const void *data,
                                                  void (*release)(void *data, void *user),
                                                  void *user);
/** One element per row of the array in a `.npy` file, as sheaf_npy_load() has it; a column-major one is copied. Rows of
 *  several arrays together: sheaf_dataset_from_slices() of an element of them. */
SHEAF_API sheaf_dataset *sheaf_dataset_from_npy(const char *path);
/** Records of one TFRecord file, or of several one after the other; string scalars. */
SHEAF_API sheaf_dataset *sheaf_tfrecord(const char *path);
SHEAF_API sheaf_dataset *sheaf_tfrecord_files(const char *const *paths, size_t count);

typedef struct sheaf_text_lines_options {
    sheaf_compression compression; /**< AUTO: gzip by the first bytes, else none */
    uint64_t reserved[4];
} sheaf_text_lines_options;
/** Lines of one text file, or of several one after the other; string scalars without their ends. LF ends a line, the last
 *  may lack it, every CR is dropped (R9.34). */
SHEAF_API sheaf_dataset *sheaf_text_lines(const char *path,
                                          const sheaf_text_lines_options *options);
SHEAF_API sheaf_dataset *sheaf_text_lines_files(const char *const *paths, size_t count,
                                                const sheaf_text_lines_options *options);

typedef struct sheaf_fixed_records_options {
    int64_t record_bytes;               /**< of each record, at least 1 */
    int64_t header_bytes, footer_bytes; /**< at the start and the end of a file, left out */
    sheaf_compression compression;      /**< AUTO: none, as any bytes may be a record's */
    uint64_t reserved[4];
} sheaf_fixed_records_options;
/** Records of one size, string scalars (R9.35). A file that does not hold a whole number of them: SHEAF_ERR_INVALID_ARGUMENT
 *  instead of its records; a compressed one: SHEAF_ERR_DATA_LOSS behind them. */
SHEAF_API sheaf_dataset *sheaf_fixed_records(const char *path,
                                             const sheaf_fixed_records_options *options);
SHEAF_API sheaf_dataset *sheaf_fixed_records_files(const char *const *paths, size_t count,
                                                   const sheaf_fixed_records_options *options);

/** A column of CSV files. */
typedef struct sheaf_csv_column {
    const char *name;  /**< of the component; NULL: its position ("" if it is the only one) */
    sheaf_dtype dtype; /**< int32, int64, float32, float64 or string */
    const void *default_value; /**< of an empty field: one element, copied; NULL: it is an error */
    uint64_t reserved[4];
} sheaf_csv_column;
typedef struct sheaf_csv_options {
    const sheaf_csv_column *columns; /**< what an element is made of; at least one */
    size_t column_count;
    /** Their numbers in a row, from 0, increasing; NULL: rows have these columns and no more. */
    const int64_t *select;
    bool header;                   /**< the first row of each file is left out */
    bool no_quotes;                /**< a quote is a byte like any other */
    char delimiter;                /**< 0: a comma */
    const char *na_value;          /**< a field of this text counts as empty, too; NULL: none */
    sheaf_compression compression; /**< AUTO: gzip by the first bytes, else none */
    uint64_t reserved[4];
} sheaf_csv_options;
/** Rows of CSV files, one after the other, as tuples of scalars, or by their columns' names (R9.36). A row that is wrong:
 *  SHEAF_ERR_INVALID_ARGUMENT that names file, line and field; the next one follows. Not as in TensorFlow, a byte order
 *  mark before the first row is skipped, and so is an empty last line where a row has more than one column. */
SHEAF_API sheaf_dataset *sheaf_csv(const char *path, const sheaf_csv_options *options);
SHEAF_API sheaf_dataset *sheaf_csv_files(const char *const *paths, size_t count,
                                         const sheaf_csv_options *options);

/** Makes the next element of a generator: SHEAF_OK with `*out` put, SHEAF_END, or an error. Runs on one thread at a time. */
typedef sheaf_status (*sheaf_generate_fn)(void *state, sheaf_element *out, sheaf_error *err);
/** Starts a generator: makes the state of one iterator. `stop` frees it; both may be NULL. */
typedef struct sheaf_generator {
    sheaf_status (*start)(void *user, void **state, sheaf_error *err);
    sheaf_generate_fn next;
    void (*stop)(void *state);
    void *user;
} sheaf_generator;
/** Elements of a C function; each is checked against `spec` (R9.25). */
SHEAF_API sheaf_dataset *sheaf_dataset_from_generator(const sheaf_generator *generator,
                                                      const sheaf_element_spec *spec);

typedef struct sheaf_list_files_options {
    int64_t seed;    /**< of the shuffle (R9.8); 0 with has_seed false: random */
    bool has_seed;   /**< needed for seed 0 alone */
    bool no_shuffle; /**< sorted by bytes */
    /** where the patterns begin, a path in which `*`, `?`, `[` and `\` mean themselves; NULL: nowhere else */
    const char *directory;
    /** of files named as a set, "train-00002-of-00004.tfrecord", all must be there: SHEAF_ERR_NOT_FOUND names one that is not */
    bool complete;
    uint64_t reserved[4];
} sheaf_list_files_options;
/** Names of the files that match `pattern`, string scalars (R9.23); of several patterns, a file comes as often as it is
 *  matched. None: SHEAF_ERR_INVALID_ARGUMENT that names the pattern. `*`, `?` and `[…]` match bytes but no "/"; a
 *  `\` before one of them, or itself, takes its meaning away. */
SHEAF_API sheaf_dataset *sheaf_list_files(const char *pattern,
                                          const sheaf_list_files_options *options);
SHEAF_API sheaf_dataset *sheaf_list_files_patterns(const char *const *patterns, size_t count,
                                                   const sheaf_list_files_options *options);

/* Stages. */

/** Maps an element: puts tensors into `out`. Runs in a frame of its own, maybe on several threads at once.
 *
 *  The result should depend on the element alone. Where workers divide a dataset among them each makes all elements, and what
 *  has a state, a random operation without a seed or an assignment to a variable, is another on each: the log warns of it once
 *  (S187). A seed made of the element, of its index for example, gives the same stream for any number of workers. */
typedef sheaf_status (*sheaf_map_fn)(const sheaf_element *in, sheaf_element *out, void *user);
typedef struct sheaf_map_options {
    int parallel;   /**< calls at once; 0: one, SHEAF_AUTOTUNE */
    bool unordered; /**< not deterministic: elements come as they are ready */
    /** Of the result, if known. A worker that gets no data of a distributed dataset needs it for its empty parts: without it
     *  such a worker ends with an error that asks for it. */
    const sheaf_element_spec *spec;
    uint64_t reserved[4];
} sheaf_map_options;
SHEAF_API sheaf_dataset *sheaf_dataset_map(sheaf_dataset *d, sheaf_map_fn fn, void *user,
                                           const sheaf_map_options *options);
/** Keeps the elements for which `fn` gives SHEAF_OK and drops those with SHEAF_END. */
typedef sheaf_status (*sheaf_filter_fn)(const sheaf_element *in, void *user);
SHEAF_API sheaf_dataset *sheaf_dataset_filter(sheaf_dataset *d, sheaf_filter_fn fn, void *user);

/** Stacks `size` elements along a new first axis; the global batch of a distributed dataset (R9.15). */
typedef struct sheaf_batch_options {
    bool drop_remainder;
    /** As num_parallel_calls: how many threads copy rows into a batch of more than a MiB; 0: one, SHEAF_AUTOTUNE: those of
     *  the device. It is for large rows that are ready, such as those of a cache: small ones, and rows that lie behind one
     *  another and are not copied at all, gain nothing, nor does who has no core to spare. The size counts as unknown to
     *  rebatching (R1.9). */
    int parallel;
    uint64_t reserved[4];
} sheaf_batch_options;
SHEAF_API sheaf_dataset *sheaf_dataset_batch(sheaf_dataset *d, int64_t size,
                                             const sheaf_batch_options *options);

/** Stacks elements of unlike shapes, filled up at the end of each axis (R9.26). */
typedef struct sheaf_padded_batch_options {
    bool drop_remainder;
    /** Of each component, in order: the sizes to fill up to, SHEAF_UNKNOWN_DIM: the largest of the batch. NULL: the sizes
     *  that the elements' type knows. A larger element is SHEAF_ERR_INVALID_ARGUMENT. */
    const sheaf_shape *shapes;
    size_t shape_count;
    /** Scalars to fill with, by name and of the component's dtype; for others 0 or "". */
    const sheaf_element *values;
    uint64_t reserved[4];
} sheaf_padded_batch_options;
SHEAF_API sheaf_dataset *sheaf_dataset_padded_batch(sheaf_dataset *d, int64_t size,
                                                    const sheaf_padded_batch_options *options);
/** The rows of batches, one element each. */
SHEAF_API sheaf_dataset *sheaf_dataset_unbatch(sheaf_dataset *d);
/** The rows of batches in batches of `sizes`, one size after the other, again and again; 0 gives an empty batch
 *  (R1.14–R1.18). The end comes when a batch that wants rows finds none; its rest is short, or dropped. */
SHEAF_API sheaf_dataset *sheaf_dataset_rebatch(sheaf_dataset *d, const int64_t *sizes, size_t count,
                                               bool drop_remainder);

typedef struct sheaf_cache_options {
    const char *file; /**< where the elements are kept, also for later processes; NULL: in memory */
    uint64_t byte_limit; /**< of the memory or the file; 0: none */
    uint64_t reserved[4];
} sheaf_cache_options;
/** Keeps the elements of the first whole iteration, in their order, for all later ones (R9.22); each iterator that starts
 *  before there are any runs the input by itself. An iteration that stops early or has an error is not kept, with a
 *  warning; nor is anything once the limit is passed. A file is in place when it is whole; what a process that was killed
 *  left of one is discarded with a notice (T42), and one of another pipeline is SHEAF_ERR_FAILED_PRECONDITION. Whether
 *  its folder is there is asked before the first element. */
SHEAF_API sheaf_dataset *sheaf_dataset_cache(sheaf_dataset *d, const sheaf_cache_options *options);

typedef struct sheaf_shuffle_options {
    int64_t seed;      /**< R9.8; 0 with has_seed false: random */
    bool has_seed;     /**< needed for seed 0 alone */
    bool no_reshuffle; /**< the same order in every iteration */
    /** Of the elements in the buffer; 0: none. A smaller buffer would be another order, so beyond it is
     *  SHEAF_ERR_RESOURCE_EXHAUSTED, which says how many elements have how many bytes. */
    uint64_t byte_limit;
    uint64_t reserved[3];
} sheaf_shuffle_options;
/** With an explicit seed in TensorFlow's own order (R9.3–R9.11). The buffer holds elements as they come: shuffle records before
 *  they are parsed or decoded, unless they get smaller by it (S190). */
SHEAF_API sheaf_dataset *sheaf_dataset_shuffle(sheaf_dataset *d, int64_t buffer_size,
                                               const sheaf_shuffle_options *options);

/** count negative: for ever. */
SHEAF_API sheaf_dataset *sheaf_dataset_repeat(sheaf_dataset *d, int64_t count);
/** The first elements; all for a negative count. For one below -1 the cardinality is unknown; TensorFlow says that it is the
 *  count itself from -3 on (R9.2). */
SHEAF_API sheaf_dataset *sheaf_dataset_take(sheaf_dataset *d, int64_t count);
/** All but the first elements; none for a negative count. Behind an error among the first it counts anew, as TensorFlow
 *  does. */
SHEAF_API sheaf_dataset *sheaf_dataset_skip(sheaf_dataset *d, int64_t count);
/** As count and index of a shard: the worker's own, filled in by the autoshard policy HINT (R2.24). */
#define SHEAF_SHARD_HINT (-1)
/** Elements index, index + count, … (R2.27). An error is none of them, and comes in every shard. */
SHEAF_API sheaf_dataset *sheaf_dataset_shard(sheaf_dataset *d, int64_t count, int64_t index);
/** Pairs (start + position, element). */
SHEAF_API sheaf_dataset *sheaf_dataset_enumerate(sheaf_dataset *d, int64_t start);
/** Tuples of an element of each; ends with the shortest. Uses up every input. */
SHEAF_API sheaf_dataset *sheaf_dataset_zip(sheaf_dataset *const *inputs, size_t count);
SHEAF_API sheaf_dataset *sheaf_dataset_concatenate(sheaf_dataset *a, sheaf_dataset *b);
/** A background thread keeps up to `count` elements ready; SHEAF_AUTOTUNE: more when it was full and is found empty. */
SHEAF_API sheaf_dataset *sheaf_dataset_prefetch(sheaf_dataset *d, int64_t count);
/** Parses serialized Examples, one scalar or a batch, into the features' tensors. An error of this stage and the next two that is
 *  about bytes which are still a view of a record names its file, record and offset. */
SHEAF_API sheaf_dataset *sheaf_dataset_parse_example(sheaf_dataset *d,
                                                     const sheaf_feature *features, size_t count);
/** sheaf_lookup() of component `name` (NULL: the only one) of every element. Takes a count of the vocabulary. */
SHEAF_API sheaf_dataset *sheaf_dataset_lookup(sheaf_dataset *d, const char *name,
                                              sheaf_vocabulary *vocabulary);
/** sheaf_decode_raw() of component `name` (NULL: the only one) of every element. */
SHEAF_API sheaf_dataset *sheaf_dataset_decode_raw(sheaf_dataset *d, const char *name,
                                                  sheaf_dtype dtype,
                                                  const sheaf_decode_raw_options *options);

/** Makes the dataset of one interleaved input. */
typedef sheaf_dataset *(*sheaf_open_fn)(const sheaf_element *in, void *user);
/** Open the file that an element names; `user` is a const pointer to the options of the source, NULL for none, and lives
 *  as long as the dataset. */
SHEAF_API sheaf_dataset *sheaf_open_tfrecord(const sheaf_element *in, void *user);
SHEAF_API sheaf_dataset *sheaf_open_text_lines(const sheaf_element *in, void *user);
SHEAF_API sheaf_dataset *sheaf_open_fixed_records(const sheaf_element *in, void *user);
SHEAF_API sheaf_dataset *sheaf_open_csv(const sheaf_element *in, void *user);
typedef struct sheaf_interleave_options {
    int cycle_length; /**< 0: the number of cores (R9.12) */
    int block_length; /**< 0: 1 */
    int parallel;     /**< threads that read ahead; 0: none, SHEAF_AUTOTUNE */
    bool unordered;
    /** Of the elements, if known; one that does not fit is SHEAF_ERR_INVALID_ARGUMENT. */
    const sheaf_element_spec *spec;
    uint64_t reserved[4];
} sheaf_interleave_options;
SHEAF_API sheaf_dataset *sheaf_dataset_interleave(sheaf_dataset *d, sheaf_open_fn open, void *user,
                                                  const sheaf_interleave_options *options);
SHEAF_API sheaf_dataset *sheaf_dataset_flat_map(sheaf_dataset *d, sheaf_open_fn open, void *user);

/* Options of a whole pipeline (R9.29–R9.33). */
typedef enum sheaf_autoshard {
    SHEAF_AUTOSHARD_OFF = -1,
    SHEAF_AUTOSHARD_AUTO = 0,
    SHEAF_AUTOSHARD_FILE = 1,
    SHEAF_AUTOSHARD_DATA = 2,
    SHEAF_AUTOSHARD_HINT = 3
} sheaf_autoshard;
typedef enum sheaf_rebatch {
    SHEAF_REBATCH_AUTO = 0, /**< TensorFlow's rule (D4) */
    SHEAF_REBATCH_LEGACY = 1,
    SHEAF_REBATCH_BALANCED = 2
} sheaf_rebatch;
/** Ways to run a pipeline that are not its program's (S188). All are off, since each may make it slower, for one because
 *  workers of a machine share its cores: measure before and after (`sheaf bench input` has a line for each, sheaf_iterator_explain()
 *  shows what a pipeline spends). None changes what comes out. */
typedef struct sheaf_optimizations {
    /** Maps that do not say how many calls run at once are as with SHEAF_AUTOTUNE, in order; their functions may be called by
     *  several threads at once. */
    bool parallel_maps;
    bool
        inject_prefetch; /**< as if the pipeline ended with a prefetch of SHEAF_AUTOTUNE, if it does not end with one */
    uint64_t reserved[2];
} sheaf_optimizations;
typedef struct sheaf_dataset_options {
    sheaf_autoshard autoshard;
    sheaf_rebatch rebatch;
    bool unordered; /**< `deterministic` false */
    bool measured;  /**< what stages do is measured, for sheaf_iterator_explain() */
    /** Corrupt records of files that are skipped, with a warning, where the first one would be an error: so many of each file,
     *  and so many of all files in one pass over the data; of several workers, that each of them meets. 0: not limited in
     *  this way, but if both are 0, none is skipped. SHEAF_INFINITE: any number. What is behind a length that is wrong
     *  cannot be found: the rest of the file is lost, and counts as one record. Where there are more than may be skipped, those are
     *  whose turn comes first in the order of the elements, whoever reads ahead (for what is `unordered`, any). See
     *  sheaf_iterator_account(). */
    int64_t skip_corrupt_per_file, skip_corrupt;
    /** Bytes of memory for elements that an iterator makes ahead, what holds them included, about: prefetch and the parallel
     *  stages share it alike, and stop for a while when they hold their part, whatever their number of elements; one element
     *  each, and of each input of a parallel interleave, may always be held. Files that are kept mapped are part of it, up to
     *  half. 0: what SHEAF_INPUT_BYTES says, or else a quarter of the memory that the process may use. */
    uint64_t memory_bytes;
    sheaf_optimizations optimizations;
    uint64_t reserved[1];
} sheaf_dataset_options;
SHEAF_API sheaf_dataset *sheaf_dataset_with_options(sheaf_dataset *d,
                                                    const sheaf_dataset_options *options);
/** The merged options of the pipeline (R9.30). */
SHEAF_API sheaf_dataset_options sheaf_dataset_get_options(const sheaf_dataset *d);

/** Elements, SHEAF_INFINITE or SHEAF_UNKNOWN. */
SHEAF_API int64_t sheaf_dataset_cardinality(const sheaf_dataset *d);
/** Type of the elements; NULL for a pipeline with an error, and where a function makes the elements whose result was not
 *  declared (`spec` of map and interleave). Lives as long as the dataset. */
SHEAF_API const sheaf_element_spec *sheaf_dataset_element_spec(const sheaf_dataset *d);

/** "<_TensorSliceDataset element_spec=TensorSpec(shape=(), dtype=tf.float32, name=None)>": the last stage by TensorFlow's name
 *  (P6.5). Text of the frame. */
SHEAF_API const char *sheaf_dataset_str(const sheaf_dataset *d);

/* Iterating. */

/** Starts at the first element. The dataset stays the caller's. Never NULL; errors come out of sheaf_iterator_next(). */
SHEAF_API sheaf_iterator *sheaf_dataset_iterate(sheaf_dataset *d);
/** The next element, in the innermost frame. SHEAF_END at the end, again and again. An error names the stage; the iterator
 *  stays usable, and the next call goes on after the element that failed (R9.15, R9.19). */
SHEAF_CHECKED sheaf_status sheaf_iterator_next(sheaf_iterator *it, sheaf_element **out,
                                               sheaf_error *err);
/** Ends running threads at once and frees. Elements that were handed out stay. */
SHEAF_API void sheaf_iterator_free(sheaf_iterator *it);

/** Where the iterator is: how many elements the consumer took, of which pipeline, and the state of its random numbers when
 *  it began; nothing that was read ahead. A few hundred bytes, of the frame. SHEAF_ERR_FAILED_PRECONDITION, naming the
 *  stage: its elements would not come in the same order again (unordered threads, an unseeded shuffle inside of a
 *  function's dataset). */
SHEAF_CHECKED sheaf_status sheaf_iterator_save(sheaf_iterator *it, sheaf_bytes *position,
                                               sheaf_error *err);
/** Goes to a position that an iterator of the same pipeline saved, in this process or another: the rest comes as it would
 *  have come there, also after errors, and later iterators of the dataset go on with its seeds. The elements before it
 *  are passed over at the next sheaf_iterator_next(), unread and without calling functions where that can be.
 *  SHEAF_ERR_FAILED_PRECONDITION: another pipeline; shows the first difference. SHEAF_ERR_DATA_LOSS: damaged. */
SHEAF_CHECKED sheaf_status sheaf_iterator_restore(sheaf_iterator *it, sheaf_bytes position,
                                                  sheaf_error *err);
/** What became of the data so far, what was read ahead included; after a restore, of those before it, too. Lives as long
 *  as the frame. */
SHEAF_CHECKED sheaf_status sheaf_iterator_account(sheaf_iterator *it, sheaf_account *account,
                                                  sheaf_error *err);
/** The pipeline as it runs, after all rewriting, and what its stages did in this pass: a line a stage, source first, what a
 *  stage reads besides and what its function made indented. Columns: seconds in its own code on all threads; seconds in
 *  which its consumer waited for them; its threads; how full its queue was when the consumer came, on average, of how much
 *  it may hold now (prefetch and shuffle: elements; map: pieces of work; interleave: inputs that have some ready); elements
 *  and bytes that it gave. Without figures unless they are measured (sheaf_dataset_options, SHEAF_EXPLAIN). From the thread
 *  that uses the iterator; text of the frame. */
SHEAF_API const char *sheaf_iterator_explain(sheaf_iterator *it);
/** The position as a part of checkpoints; borrowed, lives as long as the iterator. */
SHEAF_API sheaf_trackable *sheaf_iterator_trackable(sheaf_iterator *it);

/** Loop over the elements of a dataset, a frame a round. err->status is SHEAF_OK when it begins, and negative
 *  if it does not come to the end, also where an operation of a round failed: `sheaf_element *e; SHEAF_EACH_ELEMENT(e, it, &err) { … }`. `break` leaves it. */
#define SHEAF_EACH_ELEMENT(element, it, err)                           \
    for (sheaf_frame SHEAF_BLOCK_NAME(sheaf_each_)                     \
             __attribute__((cleanup(sheaf_frame_close))) = SHEAF_ZERO; \
         sheaf_each_element(&SHEAF_BLOCK_NAME(sheaf_each_), (it), &(element), (err));)
SHEAF_API bool sheaf_each_element(sheaf_frame *frame, sheaf_iterator *it, sheaf_element **out,
                                  sheaf_error *err);

SHEAF_END_DECLS

#endif
