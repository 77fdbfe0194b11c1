/* SPDX-License-Identifier: Apache-2.0 */
#include "format/table.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "base/mem.h"
#include "format/snappy.h"

#include <string.h>

#define FOOTER_SIZE  48
#define TRAILER_SIZE 5
#define MAGIC        UINT64_C(0xdb4775248b80fb57)

static sheaf_status damaged(const struct sheaf__table *t, uint64_t offset, const char *what,
                            sheaf_error *err)
{
    struct sheaf__place place = {t->file, SHEAF__UNKNOWN, offset};
    return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place, "%s", what);
}

sheaf_status sheaf__table_open(struct sheaf__table *t, const void *data, size_t size,
                               const char *file, sheaf_error *err)
{
    *t = (struct sheaf__table){.data = data, .size = size, .file = file};
    if (size < FOOTER_SIZE) {
        struct sheaf__place place = {file, SHEAF__UNKNOWN, 0};
        return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                               "file of %zu bytes is too short for the index of a checkpoint",
                               size);
    }
    const uint8_t *footer = t->data + size - FOOTER_SIZE;
    if (sheaf__load64(footer + FOOTER_SIZE - 8) != MAGIC)
        return damaged(t, size - 8, "not the index of a checkpoint (bad magic number)", err);
    struct sheaf__cursor c = sheaf__cursor_of(footer, FOOTER_SIZE - 8);
    if (!sheaf__cursor_varint(&c, &t->meta_offset) || !sheaf__cursor_varint(&c, &t->meta_size) ||
        !sheaf__cursor_varint(&c, &t->index_offset) || !sheaf__cursor_varint(&c, &t->index_size))
        return damaged(t, size - FOOTER_SIZE, "bad block handle in the footer", err);
    t->padding = size - 8 - (size_t)(c.end - c.at);
    return SHEAF_OK;
}

/* A block whose checksum fits, without restarts; `memory` is its own if it was compressed. */
struct block {
    struct sheaf__cursor entries;
    uint8_t *memory;
    uint64_t offset;
};

/* Splits off the restart array and checks it. */
static bool open_contents(struct block *b, const uint8_t *data, size_t size)
{
    if (size < 4)
        return false;
    uint32_t count = sheaf__load32(data + size - 4);
    if (count == 0 || count > (size - 4) / 4)
        return false;
    size_t end = size - 4 - (size_t)count * 4;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t restart = sheaf__load32(data + end + (size_t)i * 4);
        if (restart > end || (restart == end && end > 0))
            return false;
    }
    b->entries = sheaf__cursor_of(data, end);
    return true;
}

static sheaf_status inflate_block(const struct sheaf__table *t, struct block *b, size_t size,
                                  sheaf_error *err)
{
    size_t decoded;
    const uint8_t *data = t->data + b->offset;
    if (!sheaf__snappy_size(data, size, &decoded))
        return damaged(t, b->offset, "corrupted compressed block contents", err);
    b->memory = sheaf__alloc(decoded);
    if (!b->memory)
        return sheaf__no_memory(err, "a compressed block");
    if (!sheaf__snappy_decode(data, size, b->memory, decoded) ||
        !open_contents(b, b->memory, decoded)) {
        sheaf__free(b->memory);
        b->memory = NULL;
        return damaged(t, b->offset, "corrupted compressed block contents", err);
    }
    return SHEAF_OK;
}

static sheaf_status open_block(const struct sheaf__table *t, uint64_t offset, uint64_t size,
                               struct block *b, sheaf_error *err)
{
    *b = (struct block){.offset = offset};
    size_t limit = t->size - FOOTER_SIZE;
    if (offset > limit || size > limit - offset || limit - offset - size < TRAILER_SIZE)
        return damaged(t, offset < t->size ? offset : t->size, "block lies outside the file", err);
    const uint8_t *data = t->data + offset;
    uint32_t stored = sheaf__crc32c_unmask(sheaf__load32(data + size + 1));
    uint32_t found = sheaf__crc32c(data, (size_t)size + 1);
    if (stored != found) {
        struct sheaf__place place = {t->file, SHEAF__UNKNOWN, offset};
        return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                               "block checksum mismatch: stored %08x, found %08x", stored, found);
    }
    if (data[size] == 1)
        return inflate_block(t, b, (size_t)size, err);
    if (data[size] != 0)
        return damaged(t, offset, "bad block type", err);
    if (!open_contents(b, data, (size_t)size))
        return damaged(t, offset, "bad block contents", err);
    return SHEAF_OK;
}

/* Reads the next entry: `key` holds the one before and becomes the new one, `*value` is a view. */
static bool next_entry(struct block *b, struct sheaf__buf *key, const uint8_t **value,
                       size_t *value_size)
{
    uint32_t shared, more, bytes;
    const uint8_t *tail;
    struct sheaf__cursor *c = &b->entries;
    if (!sheaf__cursor_varint32(c, &shared) || !sheaf__cursor_varint32(c, &more) ||
        !sheaf__cursor_varint32(c, &bytes) || shared > key->size ||
        !sheaf__cursor_bytes(c, more, &tail) || !sheaf__cursor_bytes(c, bytes, value))
        return false;
    key->size = shared;
    sheaf__buf_bytes(key, tail, more);
    *value_size = bytes;
    return true;
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

static sheaf_status walk_block(struct walk *w, uint64_t offset, uint64_t size, sheaf_error *err)
{
    struct block b;
    SHEAF__TRY(open_block(w->table, offset, size, &b, err));
    sheaf_status status = SHEAF_OK;
    /* No writer makes one, and an index full of them would cost a checksum each. */
    if (!sheaf__cursor_left(&b.entries))
        status = damaged(w->table, offset, "empty block", err);
    sheaf__buf_clear(&w->key);
    while (status >= 0 && sheaf__cursor_left(&b.entries)) {
        struct sheaf__table_entry e = {.offset = offset};
        if (!next_entry(&b, &w->key, &e.value, &e.value_size)) {
            status = damaged(w->table, offset, "bad entry in block", err);
            break;
        }
        if (w->key.failed || w->last.failed) {
            status = sheaf__no_memory(err, "a key of the index");
            break;
        }
        if (w->any && compare_keys(&w->last, &w->key) >= 0) {
            status = damaged(w->table, offset, "keys of the index are not in ascending order", err);
            break;
        }
        w->any = true;
        sheaf__buf_clear(&w->last);
        sheaf__buf_bytes(&w->last, w->key.data, w->key.size);
        e.key = w->key.data;
        e.key_size = w->key.size;
        status = w->fn(w->user, &e, err);
    }
    sheaf__free(b.memory);
    return status;
}

sheaf_status sheaf__table_walk(const struct sheaf__table *t, sheaf__table_fn fn, void *user,
                               sheaf_error *err)
{
    struct block index;
    SHEAF__TRY(open_block(t, t->index_offset, t->index_size, &index, err));
    struct walk w = {.table = t, .fn = fn, .user = user};
    struct sheaf__buf name = {
        0}; /* of an index entry: only the order of the keys themselves counts */
    sheaf_status status = SHEAF_OK;
    while (status >= 0 && sheaf__cursor_left(&index.entries)) {
        const uint8_t *value;
        size_t value_size;
        uint64_t offset, size;
        if (!next_entry(&index, &name, &value, &value_size)) {
            status = damaged(t, t->index_offset, "bad entry in the index block", err);
            break;
        }
        if (name.failed) {
            status = sheaf__no_memory(err, "a key of the index");
            break;
        }
        struct sheaf__cursor c = sheaf__cursor_of(value, value_size);
        if (!sheaf__cursor_varint(&c, &offset) || !sheaf__cursor_varint(&c, &size))
            status = damaged(t, t->index_offset, "bad block handle in the index block", err);
        else
            status = walk_block(&w, offset, size, err);
    }
    sheaf__buf_free(&name);
    sheaf__buf_free(&w.key);
    sheaf__buf_free(&w.last);
    sheaf__free(index.memory);
    return status;
}

sheaf_status sheaf__table_check_meta(const struct sheaf__table *t, sheaf_error *err)
{
    struct block b;
    for (size_t i = t->padding; i < t->size - 8; i++)
        if (t->data[i])
            return damaged(t, i, "the footer is filled up with something else than zeros", err);
    SHEAF__TRY(open_block(t, t->meta_offset, t->meta_size, &b, err));
    sheaf__free(b.memory);
    return SHEAF_OK;
}
