/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_BUNDLE_INDEX_H
#define SHEAF_FORMAT_BUNDLE_INDEX_H

/* The index of a checkpoint: header and entries (formats.md 4.3, 4.5), read from and written as a
 * table. */

#include "base/map.h"
#include "format/slice.h"
#include "format/table.h"

#define SHEAF__DTYPE_VARIANT 21 /* a number that sheaf_dtype does not have */

/* One entry: a tensor stored whole, one slice of a tensor (its key starts with a zero byte), or a
 * tensor of slices, which has no bytes of its own. */
struct sheaf__bundle_item {
    const char *key; /* with a zero after it; in `keys` of the index */
    size_t key_size;
    uint32_t dtype; /* as stored: perhaps no sheaf_dtype */
    int32_t shard;
    uint64_t offset;
    uint64_t size;
    uint32_t crc; /* masked, as stored */
    int32_t slices;
    struct sheaf__extent *extents; /* rank of them for every slice */
    size_t extent_capacity;
    sheaf_shape shape;
    uint64_t block;     /* where in the index file the block is that has it */
    sheaf_status fault; /* < 0: it cannot be read, for the reason `why` (static storage) */
    const char *why;
};

struct sheaf__bundle_index {
    struct sheaf__bundle_item *items;
    size_t count, capacity;
    int32_t shards;
    bool big_endian;
    struct sheaf__arena keys;
    struct sheaf__strmap by_key; /* number + 1 of an item; used while one is being built */
};

static inline bool sheaf__bundle_is_slice_key(const char *key, size_t size)
{
    return size > 0 && key[0] == 0;
}

/* Reads the bytes of an index file; items are sorted by key. An entry that makes no sense is kept
 * with its fault, so that the others can be read. SHEAF_ERR_DATA_LOSS; SHEAF_ERR_INVALID_ARGUMENT:
 * made for newer readers. */
sheaf_status sheaf__bundle_index_read(struct sheaf__bundle_index *index,
                                      const struct sheaf__table *table, sheaf_error *err);
/* The item of a key of an index that was read; NULL if there is none. */
const struct sheaf__bundle_item *sheaf__bundle_index_find(const struct sheaf__bundle_index *index,
                                                          const void *key, size_t size);

/* Building one. The item of a new key, zeroed but for the key, valid until the next call; NULL: no
 * memory. */
struct sheaf__bundle_item *sheaf__bundle_index_add(struct sheaf__bundle_index *index,
                                                   const void *key, size_t size);
/* The same at the end of one that is read: sheaf__bundle_index_added() does not know of it. */
struct sheaf__bundle_item *sheaf__bundle_index_append(struct sheaf__bundle_index *index,
                                                      const void *key, size_t size);
/* The item that was added under the key, or NULL. */
struct sheaf__bundle_item *sheaf__bundle_index_added(struct sheaf__bundle_index *index,
                                                     const void *key, size_t size);
/* Extents of slice `i` of an item; NULL for a scalar. */
static inline const struct sheaf__extent *sheaf__bundle_extents(
    const struct sheaf__bundle_item *item, int32_t i)
{
    return item->extents ? item->extents + (size_t)i * (size_t)item->shape.rank : NULL;
}
/* Appends `count` slices of rank shape.rank to an item; false: no memory. */
bool sheaf__bundle_item_append(struct sheaf__bundle_item *item, const struct sheaf__extent *extents,
                               int32_t count);
/* Sorts the items and writes header and all. `w` was begun. */
sheaf_status sheaf__bundle_index_write(struct sheaf__bundle_index *index,
                                       struct sheaf__table_writer *w, sheaf_error *err);
void sheaf__bundle_index_free(struct sheaf__bundle_index *index);

/* "<prefix>.index" and "<prefix>.data-00000-of-00001" in new memory; NULL: no memory. */
char *sheaf__bundle_index_path(const char *prefix);
char *sheaf__bundle_data_path(const char *prefix, int32_t shard, int32_t shards);
/* How much of the name of such a file is the prefix; all of another name. */
size_t sheaf__bundle_prefix_size(const char *path);

#endif
