/* SPDX-License-Identifier: Apache-2.0 */
#include "format/bundle_index.h"

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"
#include "format/wire.h"

#include <stdlib.h>
#include <string.h>

char *sheaf__bundle_index_path(const char *prefix)
{
    return sheaf__printf("%s.index", prefix);
}

char *sheaf__bundle_data_path(const char *prefix, int32_t shard, int32_t shards)
{
    return sheaf__printf("%s.data-%05d-of-%05d", prefix, (int)shard, (int)shards);
}

size_t sheaf__bundle_prefix_size(const char *path)
{
    static const char index[] = ".index", data[] = ".data-ddddd-of-ddddd";
    const size_t size = strlen(path), tail = sizeof(data) - 1;
    if (sheaf__str_ends(path, index))
        return size - (sizeof(index) - 1);
    if (size < tail)
        return size;
    const char *at = path + size - tail;
    for (size_t i = 0; i < tail; i++)
        if (data[i] == 'd' && i > strlen(".data-") - 1 ? at[i] < '0' || at[i] > '9'
                                                       : at[i] != data[i])
            return size;
    return size - tail;
}

void sheaf__bundle_index_free(struct sheaf__bundle_index *index)
{
    for (size_t i = 0; i < index->count; i++)
        sheaf__free(index->items[i].extents);
    sheaf__free(index->items);
    sheaf__arena_clear(&index->keys);
    sheaf__strmap_clear(&index->by_key, NULL);
    *index = (struct sheaf__bundle_index){0};
}

struct sheaf__bundle_item *sheaf__bundle_index_append(struct sheaf__bundle_index *index,
                                                      const void *key, size_t size)
{
    if (!sheaf__array_reserve(&index->items, &index->capacity, index->count + 1,
                              sizeof(*index->items)))
        return NULL;
    struct sheaf__bundle_item *item = &index->items[index->count];
    *item = (struct sheaf__bundle_item){.key = sheaf__arena_text(&index->keys, key, size),
                                        .key_size = size};
    if (!item->key)
        return NULL;
    index->count++;
    return item;
}

struct sheaf__bundle_item *sheaf__bundle_index_add(struct sheaf__bundle_index *index,
                                                   const void *key, size_t size)
{
    void *number = (void *)(uintptr_t)(index->count + 1);
    struct sheaf__bundle_item *item = sheaf__bundle_index_append(index, key, size);
    if (!item)
        return NULL;
    if (!sheaf__strmap_set_bytes(&index->by_key, key, size, number, NULL)) {
        index->count--;
        return NULL;
    }
    return item;
}

struct sheaf__bundle_item *sheaf__bundle_index_added(struct sheaf__bundle_index *index,
                                                     const void *key, size_t size)
{
    uintptr_t number = (uintptr_t)sheaf__strmap_get_bytes(&index->by_key, key, size);
    return number ? &index->items[number - 1] : NULL;
}

bool sheaf__bundle_item_append(struct sheaf__bundle_item *item, const struct sheaf__extent *extents,
                               int32_t count)
{
    size_t rank = (size_t)item->shape.rank;
    size_t have = (size_t)item->slices * rank, more = (size_t)count * rank;
    if (count > INT32_MAX - item->slices ||
        !sheaf__array_reserve(&item->extents, &item->extent_capacity, have + more,
                              sizeof(*item->extents)))
        return false;
    if (more)
        memcpy(item->extents + have, extents, more * sizeof(*extents));
    item->slices += count;
    return true;
}

static int compare_keys(const void *a, size_t a_size, const void *b, size_t b_size)
{
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

static int compare_items(const void *a, const void *b)
{
    const struct sheaf__bundle_item *x = a, *y = b;
    return compare_keys(x->key, x->key_size, y->key, y->key_size);
}

const struct sheaf__bundle_item *sheaf__bundle_index_find(const struct sheaf__bundle_index *index,
                                                          const void *key, size_t size)
{
    size_t low = 0, high = index->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct sheaf__bundle_item *item = &index->items[middle];
        int order = compare_keys(item->key, item->key_size, key, size);
        if (order == 0)
            return item;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Writing. */

static void put_number(struct sheaf__buf *buf, uint32_t field, uint64_t value)
{
    if (value)
        sheaf__wire_put_varint(buf, field, value);
}

static void put_shape(struct sheaf__buf *buf, struct sheaf__buf *scratch, sheaf_shape shape)
{
    sheaf__buf_clear(scratch);
    for (int32_t i = 0; i < shape.rank; i++) {
        uint64_t size = (uint64_t)shape.dims[i];
        sheaf__wire_put_tag(scratch, 2, SHEAF__WIRE_BYTES);
        sheaf__buf_varint(scratch, size ? 1 + sheaf__varint_size(size) : 0);
        put_number(scratch, 1, size);
    }
    sheaf__wire_put_bytes(buf, 2, scratch->data, scratch->size);
    buf->failed |= scratch->failed;
}

static void put_slice(struct sheaf__buf *buf, struct sheaf__buf *scratch,
                      const struct sheaf__extent *extents, int32_t rank)
{
    sheaf__buf_clear(scratch);
    for (int32_t i = 0; i < rank; i++) {
        uint64_t start = (uint64_t)extents[i].start, length = (uint64_t)extents[i].length;
        bool whole = extents[i].length == SHEAF__WHOLE_AXIS;
        size_t size = whole ? 0 : 1 + sheaf__varint_size(length);
        if (!whole && start)
            size += 1 + sheaf__varint_size(start);
        sheaf__wire_put_tag(scratch, 1, SHEAF__WIRE_BYTES);
        sheaf__buf_varint(scratch, size);
        if (!whole) {
            put_number(scratch, 1, start);
            sheaf__wire_put_varint(scratch, 2, length);
        }
    }
    sheaf__wire_put_bytes(buf, 7, scratch->data, scratch->size);
    buf->failed |= scratch->failed;
}

/* Fields ascend and zeros are left out, but never the shape. */
static void put_item(struct sheaf__buf *buf, struct sheaf__buf *scratch,
                     const struct sheaf__bundle_item *item)
{
    put_number(buf, 1, item->dtype);
    put_shape(buf, scratch, item->shape);
    put_number(buf, 3, (uint64_t)item->shard);
    put_number(buf, 4, item->offset);
    put_number(buf, 5, item->size);
    if (item->crc) {
        sheaf__wire_put_tag(buf, 6, SHEAF__WIRE_FIXED32);
        sheaf__buf_fixed32(buf, item->crc);
    }
    for (int32_t i = 0; i < item->slices; i++)
        put_slice(buf, scratch, sheaf__bundle_extents(item, i), item->shape.rank);
}

sheaf_status sheaf__bundle_index_write(struct sheaf__bundle_index *index,
                                       struct sheaf__table_writer *w, sheaf_error *err)
{
    struct sheaf__buf value = {0}, scratch = {0};
    put_number(&value, 1, (uint64_t)index->shards);
    sheaf__wire_put_bytes(&value, 3, "\x08\x01", 2); /* version: producer 1 */
    w->file.failed |= value.failed;
    sheaf__table_add(w, "", 0, value.data, value.size);
    if (index->count)
        qsort(index->items, index->count, sizeof(*index->items), compare_items);
    for (size_t i = 0; i < index->count; i++) {
        const struct sheaf__bundle_item *item = &index->items[i];
        sheaf__buf_clear(&value);
        put_item(&value, &scratch, item);
        w->file.failed |= value.failed;
        sheaf__table_add(w, item->key, item->key_size, value.data, value.size);
    }
    sheaf__buf_free(&value);
    sheaf__buf_free(&scratch);
    sheaf__strmap_clear(&index->by_key, NULL); /* the items have moved */
    return sheaf__table_finish(w, err);
}
