/* SPDX-License-Identifier: Apache-2.0 */
#include "format/table.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "base/mem.h"
#include "format/snappy.h"

#include <inttypes.h>
#include <string.h>

#define FOOTER_SIZE  48
#define TRAILER_SIZE 5
#define MAGIC        UINT64_C(0xdb4775248b80fb57)

static sheaf_status SHEAF_PRINTF(4, 5) damaged(const struct sheaf__table *t, uint64_t offset,
                                               sheaf_error *err, const char *format, ...)
{
    const struct sheaf__place place = {t->file, SHEAF__UNKNOWN, offset};
    va_list args;
    va_start(args, format);
    sheaf__verror_at(err, SHEAF_ERR_DATA_LOSS, &place, format, args);
    va_end(args);
    return SHEAF_ERR_DATA_LOSS;
}

sheaf_status sheaf__table_open(struct sheaf__table *t, const void *data, size_t size,
                               const char *file, sheaf_error *err)
{
    *t = (struct sheaf__table){.data = data, .size = size, .file = file};
    if (size < FOOTER_SIZE)
        return damaged(t, 0, err,
                       "file of %zu bytes is too short for the index of a checkpoint, whose footer "
                       "has %d",
                       size, FOOTER_SIZE);
    const uint8_t *footer = t->data + size - FOOTER_SIZE;
    const uint64_t magic = sheaf__load64(footer + FOOTER_SIZE - 8);
    if (magic != MAGIC)
        return damaged(t, size - 8, err,
                       "not the index of a checkpoint: magic number %016" PRIx64
                       ", expected %016" PRIx64,
                       magic, MAGIC);
    struct sheaf__cursor c = sheaf__cursor_of(footer, FOOTER_SIZE - 8);
    if (!sheaf__cursor_varint(&c, &t->meta_offset) || !sheaf__cursor_varint(&c, &t->meta_size) ||
        !sheaf__cursor_varint(&c, &t->index_offset) || !sheaf__cursor_varint(&c, &t->index_size))
        return damaged(t, size - FOOTER_SIZE, err,
                       "the footer does not say where the blocks are: expected four varints");
    t->padding = size - 8 - (size_t)(c.end - c.at);
    return SHEAF_OK;
}

/* Where a block is, who says so, and what it is called. */
struct handle {
    uint64_t offset, size;
    uint64_t said_at;
    const char *what;
};

static struct handle index_handle(const struct sheaf__table *t)
{
    return (struct handle){t->index_offset, t->index_size, t->size - FOOTER_SIZE,
                           "the index block"};
}

/* A block whose checksum fits, without restarts; `memory` is its own if it was compressed. */
struct block {
    struct sheaf__cursor entries;
    size_t number; /* of the entry that comes next, from 0 */
    uint8_t *memory;
    uint64_t offset;
    const char *what;
};

/* Splits off the restart array and checks it. */
static sheaf_status open_contents(const struct sheaf__table *t, struct block *b,
                                  const uint8_t *data, size_t size, sheaf_error *err)
{
    const uint32_t count = size < 4 ? 0 : sheaf__load32(data + size - 4);
    if (count == 0 || count > (size - 4) / 4)
        return damaged(t, b->offset, err,
                       "%s of %zu bytes says that it has %" PRIu32
                       " restart points, expected 1 to as many as have room",
                       b->what, size, count);
    size_t end = size - 4 - (size_t)count * 4;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t restart = sheaf__load32(data + end + (size_t)i * 4);
        if (restart > end || (restart == end && end > 0))
            return damaged(t, b->offset, err,
                           "%s has a restart point at byte %" PRIu32 ", its entries end at %zu",
                           b->what, restart, end);
    }
    b->entries = sheaf__cursor_of(data, end);
    return SHEAF_OK;
}

static sheaf_status inflate_block(const struct sheaf__table *t, struct block *b, size_t size,
                                  sheaf_error *err)
{
    size_t decoded;
    const uint8_t *data = t->data + b->offset;
    if (!sheaf__snappy_size(data, size, &decoded))
        return damaged(t, b->offset, err, "%s does not say how large it is uncompressed", b->what);
    b->memory = sheaf__alloc(decoded);
    if (!b->memory)
        return sheaf__no_memory(err, "a compressed block");
    sheaf_status status = SHEAF_OK;
    if (!sheaf__snappy_decode(data, size, b->memory, decoded))
        status = damaged(t, b->offset, err,
                         "%s of %zu bytes, compressed by Snappy, does not give the %zu it says",
                         b->what, size, decoded);
    if (status >= 0)
        status = open_contents(t, b, b->memory, decoded, err);
    if (status < 0) {
        sheaf__free(b->memory);
        b->memory = NULL;
    }
    return status;
}

static sheaf_status open_block(const struct sheaf__table *t, const struct handle *h,
                               struct block *b, sheaf_error *err)
{
    const uint64_t offset = h->offset, size = h->size;
    *b = (struct block){.offset = offset, .what = h->what};
    size_t limit = t->size - FOOTER_SIZE;
    if (offset > limit || size > limit - offset || limit - offset - size < TRAILER_SIZE)
        return damaged(t, h->said_at, err,
                       "%s of %" PRIu64 " bytes at offset %" PRIu64
                       " lies outside the file, which has %zu bytes before its footer",
                       h->what, size, offset, limit);
    const uint8_t *data = t->data + offset;
    uint32_t stored = sheaf__crc32c_unmask(sheaf__load32(data + size + 1));
    uint32_t found = sheaf__crc32c(data, (size_t)size + 1);
    if (stored != found)
        return damaged(t, offset, err, "block checksum mismatch: stored %08x, found %08x", stored,
                       found);
    if (data[size] == 1)
        return inflate_block(t, b, (size_t)size, err);
    if (data[size] != 0)
        return damaged(t, offset, err, "%s is of type %d, expected 0 (plain) or 1 (Snappy)",
                       h->what, data[size]);
    return open_contents(t, b, data, (size_t)size, err);
}

/* Reads the next entry: `key` holds the one before and becomes the new one, `*value` is a view. */
static sheaf_status next_entry(const struct sheaf__table *t, struct block *b,
                               struct sheaf__buf *key, const uint8_t **value, size_t *value_size,
                               sheaf_error *err)
{
    uint32_t shared, more, bytes;
    const uint8_t *tail;
    struct sheaf__cursor *c = &b->entries;
    if (!sheaf__cursor_varint32(c, &shared) || !sheaf__cursor_varint32(c, &more) ||
        !sheaf__cursor_varint32(c, &bytes))
        return damaged(t, b->offset, err, "entry %zu of %s: its lengths do not parse", b->number,
                       b->what);
    if (shared > key->size)
        return damaged(t, b->offset, err,
                       "entry %zu of %s: shares %" PRIu32
                       " bytes with the key before it, which has %zu",
                       b->number, b->what, shared, key->size);
    const size_t left = sheaf__cursor_left(c);
    if (!sheaf__cursor_bytes(c, more, &tail) || !sheaf__cursor_bytes(c, bytes, value))
        return damaged(t, b->offset, err,
                       "entry %zu of %s: %" PRIu32 " bytes of its key and %" PRIu32
                       " of its value, %zu are left",
                       b->number, b->what, more, bytes, left);
    key->size = shared;
    sheaf__buf_bytes(key, tail, more);
    if (key->failed)
        return sheaf__no_memory(err, "a key of the index");
    *value_size = bytes;
    b->number++;
    return SHEAF_OK;
}

static int compare_keys(const struct sheaf__buf *a, const struct sheaf__buf *b)
{
    size_t common = a->size < b->size ? a->size : b->size;
    int order = common ? memcmp(a->data, b->data, common) : 0;
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

/* A walk over all entries. */
struct walk {
    const struct sheaf__table *table;
    sheaf__table_fn fn;
    void *user;
    struct sheaf__buf key;
    struct sheaf__buf last; /* key before it, also across blocks */
    bool any;
};

static sheaf_status take_entry(struct walk *w, struct block *b, sheaf_error *err)
{
    struct sheaf__table_entry e = {.offset = b->offset};
    SHEAF__TRY(next_entry(w->table, b, &w->key, &e.value, &e.value_size, err));
    if (w->any && compare_keys(&w->last, &w->key) >= 0)
        return damaged(w->table, b->offset, err,
                       "entry %zu of %s: its key '%.*s' is not above '%.*s', that before it",
                       b->number - 1, b->what, (int)w->key.size, (const char *)w->key.data,
                       (int)w->last.size, (const char *)w->last.data);
    w->any = true;
    sheaf__buf_clear(&w->last);
    sheaf__buf_bytes(&w->last, w->key.data, w->key.size);
    if (w->last.failed)
        return sheaf__no_memory(err, "a key of the index");
    e.key = w->key.data;
    e.key_size = w->key.size;
    return w->fn(w->user, &e, err);
}

static sheaf_status walk_block(struct walk *w, const struct handle *h, sheaf_error *err)
{
    struct block b;
    SHEAF__TRY(open_block(w->table, h, &b, err));
    sheaf_status status = SHEAF_OK;
    /* No writer makes one, and an index full of them would cost a checksum each. */
    if (!sheaf__cursor_left(&b.entries))
        status = damaged(w->table, h->offset, err, "%s has no entry", b.what);
    sheaf__buf_clear(&w->key);
    while (status >= 0 && sheaf__cursor_left(&b.entries))
        status = take_entry(w, &b, err);
    sheaf__free(b.memory);
    return status;
}

/* An entry of the index block; of its key only the order counts, which those of the blocks have. */
static sheaf_status take_handle(struct walk *w, struct block *index, struct sheaf__buf *name,
                                sheaf_error *err)
{
    const struct sheaf__table *t = w->table;
    const uint8_t *value;
    size_t size;
    struct handle h = {.said_at = t->index_offset, .what = "a block"};
    SHEAF__TRY(next_entry(t, index, name, &value, &size, err));
    struct sheaf__cursor c = sheaf__cursor_of(value, size);
    if (!sheaf__cursor_varint(&c, &h.offset) || !sheaf__cursor_varint(&c, &h.size))
        return damaged(t, t->index_offset, err,
                       "entry %zu of the index block does not say where its block is: expected two "
                       "varints",
                       index->number - 1);
    return walk_block(w, &h, err);
}

sheaf_status sheaf__table_walk(const struct sheaf__table *t, sheaf__table_fn fn, void *user,
                               sheaf_error *err)
{
    struct block index;
    const struct handle h = index_handle(t);
    SHEAF__TRY(open_block(t, &h, &index, err));
    struct walk w = {.table = t, .fn = fn, .user = user};
    struct sheaf__buf name = {0};
    sheaf_status status = SHEAF_OK;
    while (status >= 0 && sheaf__cursor_left(&index.entries))
        status = take_handle(&w, &index, &name, err);
    sheaf__buf_free(&name);
    sheaf__buf_free(&w.key);
    sheaf__buf_free(&w.last);
    sheaf__free(index.memory);
    return status;
}

sheaf_status sheaf__table_check_meta(const struct sheaf__table *t, sheaf_error *err)
{
    struct block b;
    const struct handle h = {t->meta_offset, t->meta_size, t->size - FOOTER_SIZE,
                             "the metaindex block"};
    for (size_t i = t->padding; i < t->size - 8; i++)
        if (t->data[i])
            return damaged(t, i, err,
                           "the footer is filled up with something else than zeros: %02x",
                           t->data[i]);
    SHEAF__TRY(open_block(t, &h, &b, err));
    sheaf__free(b.memory);
    return SHEAF_OK;
}
