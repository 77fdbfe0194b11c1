/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_STAGES_H
#define SHEAF_DATA_STAGES_H

/* THE table of stages. A stage is a line here and a file `data/<name>.c` that defines
 * sheaf__<name>_ops. The traits are what rebatching and auto-sharding ask (tf-semantics 1.2, 2.2).
 */

enum sheaf__trait {
    SHEAF__SOURCE = 1,        /* elements from memory or code: no files to shard (R2.10) */
    SHEAF__READER = 2,        /* reads files that its input names (R2.7) */
    SHEAF__FUNCTION = 4,      /* a function makes datasets of its elements (R2.9) */
    SHEAF__MULTIPLE = 8,      /* every input counts (R2.8) */
    SHEAF__PASS = 16,         /* the files of its input are its files (R2.11) */
    SHEAF__KEEPS_BATCH = 32,  /* the batch size is its input's (R1.9) */
    SHEAF__TRAILING = 64,     /* a shard by data goes before it (R2.19) */
    SHEAF__COUNTS_ROWS = 128, /* pass() counts the rows of batches if its input's does */
    SHEAF__CERTAIN = 256,     /* as many elements as the cardinality says: nothing in it fails */
    SHEAF__ADDED = 512,       /* only rewritings put it in: the program has no number for it */
};

/* X(id, file, name, traits) */
#define SHEAF__STAGE_TABLE(X)                                                                     \
    X(RANGE, range, "range", SHEAF__SOURCE | SHEAF__CERTAIN)                                      \
    X(FROM_TENSORS, from_tensors, "from_tensors", SHEAF__SOURCE | SHEAF__CERTAIN)                 \
    X(FROM_SLICES, from_slices, "from_slices", SHEAF__SOURCE | SHEAF__CERTAIN)                    \
    X(FROM_ARRAY, from_slices, "from_array", SHEAF__SOURCE | SHEAF__CERTAIN)                      \
    X(FROM_NPY, from_slices, "from_npy", SHEAF__SOURCE | SHEAF__CERTAIN)                          \
    X(FROM_GENERATOR, from_generator, "from_generator", SHEAF__SOURCE)                            \
    X(LIST_FILES, from_slices, "list_files", SHEAF__SOURCE)                                       \
    X(TFRECORD, records, "tfrecord", SHEAF__READER)                                               \
    X(TEXT_LINES, records, "text_lines", SHEAF__READER)                                           \
    X(FIXED_RECORDS, records, "fixed_records", SHEAF__READER)                                     \
    X(CSV, csv, "csv", 0) /* no reader to auto-sharding (R2.7) */                                 \
    X(MAP, map, "map", SHEAF__PASS)                                                               \
    X(FILTER, filter, "filter", SHEAF__PASS | SHEAF__KEEPS_BATCH)                                 \
    X(BATCH, batch, "batch", SHEAF__PASS | SHEAF__CERTAIN)                                        \
    X(PADDED_BATCH, padded_batch, "padded_batch", SHEAF__PASS)                                    \
    X(UNBATCH, unbatch, "unbatch", SHEAF__PASS)                                                   \
    X(CACHE, cache, "cache", SHEAF__PASS | SHEAF__KEEPS_BATCH)                                    \
    X(SHUFFLE, shuffle, "shuffle", SHEAF__PASS | SHEAF__KEEPS_BATCH | SHEAF__CERTAIN)             \
    X(REPEAT, repeat, "repeat",                                                                   \
      SHEAF__PASS | SHEAF__KEEPS_BATCH | SHEAF__COUNTS_ROWS | SHEAF__CERTAIN)                     \
    X(TAKE, take, "take", SHEAF__PASS | SHEAF__KEEPS_BATCH | SHEAF__COUNTS_ROWS | SHEAF__CERTAIN) \
    X(SKIP, skip, "skip", SHEAF__PASS | SHEAF__KEEPS_BATCH | SHEAF__COUNTS_ROWS | SHEAF__CERTAIN) \
    X(SHARD, shard, "shard", SHEAF__PASS | SHEAF__KEEPS_BATCH | SHEAF__CERTAIN)                   \
    X(ENUMERATE, enumerate, "enumerate", SHEAF__SOURCE | SHEAF__CERTAIN)                          \
    X(ZIP, zip, "zip", SHEAF__MULTIPLE | SHEAF__CERTAIN)                                          \
    X(CONCATENATE, concatenate, "concatenate", SHEAF__MULTIPLE | SHEAF__CERTAIN)                  \
    X(PREFETCH, prefetch, "prefetch",                                                             \
      SHEAF__PASS | SHEAF__KEEPS_BATCH | SHEAF__COUNTS_ROWS | SHEAF__TRAILING | SHEAF__CERTAIN)   \
    X(PARSE_EXAMPLE, parse_example, "parse_example",                                              \
      SHEAF__PASS | SHEAF__KEEPS_BATCH | SHEAF__COUNTS_ROWS)                                      \
    X(DECODE_RAW, decode_raw, "decode_raw", SHEAF__PASS)                                          \
    X(LOOKUP, lookup, "lookup", SHEAF__PASS)                                                      \
    X(INTERLEAVE, interleave, "interleave", SHEAF__FUNCTION)                                      \
    X(FLAT_MAP, interleave, "flat_map", SHEAF__FUNCTION)                                          \
    X(OPTIONS, options, "with_options",                                                           \
      SHEAF__PASS | SHEAF__KEEPS_BATCH | SHEAF__COUNTS_ROWS | SHEAF__TRAILING | SHEAF__CERTAIN)   \
    X(REBATCH, rebatch, "rebatch", SHEAF__PASS)                                                   \
    X(SPLIT_BATCH, split_batch, "split_batch", SHEAF__PASS | SHEAF__ADDED)                        \
    X(TURNS, turns, "turns", SHEAF__MULTIPLE | SHEAF__ADDED)

enum sheaf__stage_id {
#define SHEAF__STAGE_ID(id, file, name, traits) SHEAF__STAGE_##id,
    SHEAF__STAGE_TABLE(SHEAF__STAGE_ID)
#undef SHEAF__STAGE_ID
        SHEAF__STAGE_COUNT
};

#endif
