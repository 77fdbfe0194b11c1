/* SPDX-License-Identifier: Apache-2.0 */
#include "format/table.h"

#include "base/crc32c.h"

#include <string.h>

#define BLOCK_TARGET   262144
#define DATA_INTERVAL  16
#define INDEX_INTERVAL 1
#define FOOTER_HANDLES 40
#define MAGIC          UINT64_C(0xdb4775248b80fb57)

void sheaf__table_begin(struct sheaf__table_writer *w)
{
    *w = (struct sheaf__table_writer){
        .data.interval = DATA_INTERVAL,
        .index.interval = INDEX_INTERVAL,
    };
}

static void free_block(struct sheaf__table_block *b)
{
    sheaf__buf_free(&b->bytes);
    sheaf__buf_free(&b->restarts);
    sheaf__buf_free(&b->last_key);
}

void sheaf__table_writer_free(struct sheaf__table_writer *w)
{
    sheaf__buf_free(&w->file);
    free_block(&w->data);
    free_block(&w->index);
}

static void clear_block(struct sheaf__table_block *b)
{
    sheaf__buf_clear(&b->bytes);
    sheaf__buf_clear(&b->restarts);
    sheaf__buf_clear(&b->last_key);
    b->since = 0;
}

/* Size as it would be written now; restart 0 stands even in an empty block. */
static size_t block_size(const struct sheaf__table_block *b)
{
    size_t restarts = b->restarts.size ? b->restarts.size : 4;
    return b->bytes.size + restarts + 4;
}

static bool block_failed(const struct sheaf__table_block *b)
{
    return b->bytes.failed || b->restarts.failed || b->last_key.failed;
}

static void add_to_block(struct sheaf__table_block *b, const void *key, size_t key_size,
                         const void *value, size_t value_size)
{
    const uint8_t *bytes = key;
    size_t shared = 0;
    if (b->bytes.size == 0 || b->since == b->interval) {
        sheaf__buf_fixed32(&b->restarts, (uint32_t)b->bytes.size);
        b->since = 0;
    } else {
        while (shared < key_size && shared < b->last_key.size &&
               bytes[shared] == b->last_key.data[shared])
            shared++;
    }
    sheaf__buf_varint(&b->bytes, shared);
    sheaf__buf_varint(&b->bytes, key_size - shared);
    sheaf__buf_varint(&b->bytes, value_size);
    sheaf__buf_bytes(&b->bytes, bytes + shared, key_size - shared);
    sheaf__buf_bytes(&b->bytes, value, value_size);
    sheaf__buf_clear(&b->last_key);
    sheaf__buf_bytes(&b->last_key, key, key_size);
    b->since++;
}

/* Appends the block to the file and empties it; `*offset` and `*size` are its handle. */
static void write_block(struct sheaf__table_writer *w, struct sheaf__table_block *b,
                        uint64_t *offset, uint64_t *size)
{
    if (block_failed(b)) {
        w->file.failed = true;
        return;
    }
    if (b->restarts.size == 0)
        sheaf__buf_fixed32(&b->restarts, 0);
    uint32_t count = (uint32_t)(b->restarts.size / 4);
    sheaf__buf_bytes(&b->bytes, b->restarts.data, b->restarts.size);
    sheaf__buf_fixed32(&b->bytes, count);
    sheaf__buf_byte(&b->bytes, 0); /* not compressed */
    if (block_failed(b)) {
        w->file.failed = true;
        return;
    }
    *offset = w->file.size;
    *size = b->bytes.size - 1;
    sheaf__buf_bytes(&w->file, b->bytes.data, b->bytes.size);
    sheaf__buf_fixed32(&w->file, sheaf__crc32c_mask(sheaf__crc32c(b->bytes.data, b->bytes.size)));
    clear_block(b);
}

/* Shortens `last`, the key of a finished block, to a key that is still >= it and < `next`; a
 * `next_size` of 0 means that no key follows. */
static size_t shorten_key(uint8_t *last, size_t size, const uint8_t *next, size_t next_size)
{
    if (!next_size) {
        for (size_t i = 0; i < size; i++) {
            if (last[i] != 0xff) {
                last[i]++;
                return i + 1;
            }
        }
        return size;
    }
    size_t i = 0;
    while (i < size && i < next_size && last[i] == next[i])
        i++;
    if (i == size || i == next_size || last[i] == 0xff || last[i] + 1 >= next[i])
        return size;
    last[i]++;
    return i + 1;
}

/* Ends the data block. Its index entry needs the key that follows (none: `next_size` 0). */
static void flush_data(struct sheaf__table_writer *w, const void *next, size_t next_size)
{
    w->file.failed |= block_failed(&w->data);
    if (w->file.failed || w->data.bytes.size == 0)
        return;
    struct sheaf__buf last = w->data.last_key;
    w->data.last_key = (struct sheaf__buf){0};
    uint64_t offset = 0, size = 0;
    write_block(w, &w->data, &offset, &size);
    if (!w->file.failed && !last.failed) {
        uint8_t handle[20];
        size_t at = sheaf__varint_put(handle, offset);
        at += sheaf__varint_put(handle + at, size);
        size_t key_size = shorten_key(last.data, last.size, next, next_size);
        add_to_block(&w->index, last.data, key_size, handle, at);
    }
    sheaf__buf_free(&last);
}

void sheaf__table_add(struct sheaf__table_writer *w, const void *key, size_t key_size,
                      const void *value, size_t value_size)
{
    if (block_size(&w->data) >= BLOCK_TARGET || key_size + value_size >= 2 * BLOCK_TARGET)
        flush_data(w, key, key_size);
    if (!w->file.failed)
        add_to_block(&w->data, key, key_size, value, value_size);
}

sheaf_status sheaf__table_finish(struct sheaf__table_writer *w, sheaf_error *err)
{
    uint64_t meta_offset = 0, meta_size = 0, index_offset = 0, index_size = 0;
    struct sheaf__table_block meta = {.interval = DATA_INTERVAL};
    flush_data(w, NULL, 0);
    write_block(w, &meta, &meta_offset, &meta_size);
    write_block(w, &w->index, &index_offset, &index_size);
    free_block(&meta);

    uint8_t footer[FOOTER_HANDLES] = {0};
    size_t at = sheaf__varint_put(footer, meta_offset);
    at += sheaf__varint_put(footer + at, meta_size);
    at += sheaf__varint_put(footer + at, index_offset);
    sheaf__varint_put(footer + at, index_size);
    sheaf__buf_bytes(&w->file, footer, sizeof(footer));
    sheaf__buf_fixed64(&w->file, MAGIC);
    return sheaf__buf_check(&w->file, "the index of a checkpoint", err);
}
