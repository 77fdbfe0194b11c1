/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_TABLE_H
#define SHEAF_FORMAT_TABLE_H

/* Sorted string tables as LevelDB and TensorFlow write them (formats.md 4.2): the index file of a
 * checkpoint. The bytes follow from the list of keys and values alone. */

#include "base/buf.h"

/* A block being built. */
struct sheaf__table_block {
    struct sheaf__buf bytes;
    struct sheaf__buf restarts; /* uint32 offsets */
    struct sheaf__buf last_key;
    unsigned interval; /* entries from restart to restart */
    unsigned since;    /* entries after the last restart */
};

/* Builds a table in memory. Running out of memory is latched: sheaf__table_finish() reports it. */
struct sheaf__table_writer {
    struct sheaf__buf file;
    struct sheaf__table_block data;
    struct sheaf__table_block index;
};

void sheaf__table_begin(struct sheaf__table_writer *w);
void sheaf__table_writer_free(struct sheaf__table_writer *w);
/* Adds an entry; keys ascend by unsigned bytes. */
void sheaf__table_add(struct sheaf__table_writer *w, const void *key, size_t key_size,
                      const void *value, size_t value_size);
/* Ends the table; its bytes are `w->file` until sheaf__table_writer_free(). */
sheaf_status sheaf__table_finish(struct sheaf__table_writer *w, sheaf_error *err);

/* A whole table in memory. `file` is for errors; data and file are borrowed. */
struct sheaf__table {
    const uint8_t *data;
    size_t size;
    const char *file;
    uint64_t meta_offset, meta_size;
    uint64_t index_offset, index_size;
    size_t padding; /* offset of what fills the footer up */
};

/* One entry; everything is valid during the call only. `offset` is that of its block in the file.
 */
struct sheaf__table_entry {
    const uint8_t *key;
    size_t key_size;
    const uint8_t *value;
    size_t value_size;
    uint64_t offset;
};
typedef sheaf_status (*sheaf__table_fn)(void *user, const struct sheaf__table_entry *entry,
                                        sheaf_error *err);

/* Reads the footer. SHEAF_ERR_DATA_LOSS. */
sheaf_status sheaf__table_open(struct sheaf__table *t, const void *data, size_t size,
                               const char *file, sheaf_error *err);
/* Calls `fn` for every entry in order, until one fails. SHEAF_ERR_DATA_LOSS: a checksum, a block
 * that does not parse, a key that is not above the one before it. */
sheaf_status sheaf__table_walk(const struct sheaf__table *t, sheaf__table_fn fn, void *user,
                               sheaf_error *err);
/* Checks what no reader needs: the metaindex block, and that zeros fill the footer up, which has no checksum. */
sheaf_status sheaf__table_check_meta(const struct sheaf__table *t, sheaf_error *err);

#endif
