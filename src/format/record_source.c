/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/context.h"
#include "base/counter.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/inflate.h"
#include "base/log.h"
#include "base/mem.h"
#include "format/record.h"

#include <string.h>

#define CHUNK   (1024 * 1024) /* bytes of a chunk, unless a record is larger */
#define TRUSTED (64 << 20)    /* a record's length that is taken at its word before its data came */
#define INPUT   (256 * 1024)  /* compressed bytes read at a time */
#define COUNTED (64 * 1024)   /* bytes read before they are counted */

/* Bytes of the stream that the records of one call are views into. */
struct chunk {
    struct sheaf__object object;
    size_t capacity;
    uint8_t data[];
};

/* A file is either mapped, and the cursor walks the map; or read, plain or through inflate, into
 * chunks that the cursor walks one after the other. */
struct sheaf__record_source {
    struct sheaf__record_cursor cursor;
    char *path;
    sheaf_compression compression;
    struct sheaf__map *map;
    struct sheaf__file *file;
    uint64_t file_at; /* next byte to read */
    struct chunk *chunk;
    struct sheaf__inflate *inflate;
    uint8_t *input; /* INPUT bytes of compressed data, of which [input_at, input_end) are left */
    size_t input_at, input_end;
    bool input_over;
    sheaf_error failed; /* what ended the stream early; told when the cursor gets there */
    bool partial_told;
    struct sheaf__counter *bytes, *records;
    uint64_t counted_offset, counted_record; /* what the counters know of */
};

static void chunk_destroy(void *object)
{
    sheaf__free(object);
}

static const struct sheaf__class chunk_class = {"record chunk", chunk_destroy};

static struct chunk *chunk_new(size_t capacity)
{
    struct chunk *chunk = sheaf__alloc(sizeof(*chunk) + capacity);
    if (!chunk)
        return NULL;
    sheaf__object_init(&chunk->object, &chunk_class);
    chunk->capacity = capacity;
    return chunk;
}

/* Where a stream starts: no bytes seen. */
static void rewind_stream(struct sheaf__record_source *s)
{
    s->cursor.offset = s->cursor.base = s->cursor.record = 0;
    if (s->map)
        return;
    s->cursor.size = 0;
    s->cursor.more = true;
    s->file_at = 0;
    s->input_at = s->input_end = 0;
    s->input_over = false;
    s->failed = (sheaf_error){0};
    if (s->inflate)
        sheaf__inflate_reset(s->inflate);
}

/* Compression by the first bytes; a file may start so by chance, and then its header's CRC fits. */
static sheaf_compression sniff(const uint8_t *head, size_t size)
{
    if (size >= SHEAF__RECORD_HEADER &&
        sheaf__load32(head + 8) == sheaf__crc32c_mask(sheaf__crc32c(head, 8)))
        return SHEAF_COMPRESSION_NONE;
    if (size >= 2 && head[0] == 0x1f && head[1] == 0x8b)
        return SHEAF_COMPRESSION_GZIP;
    if (size >= 2 && head[0] == 0x78 &&
        (head[1] == 0x01 || head[1] == 0x5e || head[1] == 0x9c || head[1] == 0xda))
        return SHEAF_COMPRESSION_ZLIB;
    return SHEAF_COMPRESSION_NONE;
}

static sheaf_status resolve_compression(struct sheaf__record_source *s, sheaf_error *err)
{
    if (s->compression != SHEAF_COMPRESSION_AUTO)
        return SHEAF_OK;
    uint8_t head[SHEAF__RECORD_HEADER];
    size_t got = 0;
    SHEAF__TRY(sheaf__file_read_at(s->file, 0, head, sizeof(head), &got, err));
    s->compression = sniff(head, got);
    return SHEAF_OK;
}

static sheaf_status open_stream(struct sheaf__record_source *s, sheaf_error *err)
{
    if (s->compression != SHEAF_COMPRESSION_NONE) {
        enum sheaf__zip kind =
            s->compression == SHEAF_COMPRESSION_GZIP ? SHEAF__ZIP_GZIP : SHEAF__ZIP_ZLIB;
        SHEAF__TRY(sheaf__inflate_new(kind, &s->inflate, err));
        s->input = sheaf__alloc(INPUT);
    }
    s->chunk = chunk_new(CHUNK);
    if (!s->chunk || (s->inflate && !s->input))
        return sheaf__no_memory(err, "reading records");
    rewind_stream(s);
    return SHEAF_OK;
}

static sheaf_status open_file(struct sheaf__record_source *s, bool unmapped, sheaf_error *err)
{
    SHEAF__TRY(sheaf__file_open(s->path, SHEAF__FILE_READ, &s->file, err));
    SHEAF__TRY(resolve_compression(s, err));
    if (s->compression != SHEAF_COMPRESSION_NONE || unmapped || !sheaf__file_mappable(s->file))
        return open_stream(s, err);
    SHEAF__TRY(sheaf__file_map(s->path, &s->map, err));
    sheaf__file_close(s->file, NULL);
    s->file = NULL;
    s->cursor.data = s->map->data;
    s->cursor.size = s->map->size;
    return SHEAF_OK;
}

sheaf_status sheaf__record_source_open(const char *path,
                                       const struct sheaf__record_options *options,
                                       struct sheaf__record_source **source, sheaf_error *err)
{
    struct sheaf__record_options o = options ? *options : (struct sheaf__record_options){0};
    if ((unsigned)o.compression > SHEAF_COMPRESSION_ZLIB)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "compression is %d, expected 0 to %d (sheaf_compression)",
                            (int)o.compression, SHEAF_COMPRESSION_ZLIB);
    struct sheaf__record_source *s = sheaf__calloc(1, sizeof(*s));
    char *copy = sheaf__strdup(path);
    if (!s || !copy) {
        sheaf__free(s);
        sheaf__free(copy);
        return sheaf__no_memory(err, "reading records");
    }
    s->path = copy;
    s->compression = o.compression;
    s->cursor =
        (struct sheaf__record_cursor){.path = copy, .lax = o.lax, .skip_check = o.skip_check};
    s->bytes = sheaf__counter_get(sheaf__context(), "record.bytes");
    s->records = sheaf__counter_get(sheaf__context(), "record.count");
    sheaf_status status = open_file(s, o.unmapped, err);
    if (status < 0) {
        sheaf__record_source_free(s);
        return status;
    }
    *source = s;
    return SHEAF_OK;
}

/* What the cursor passed since the last time was not read. */
static void forget_way(struct sheaf__record_source *s)
{
    s->counted_offset = s->cursor.offset;
    s->counted_record = s->cursor.record;
}

/* Adds what was read since the last time to the counters, which all readers share. */
static void count_read(struct sheaf__record_source *s)
{
    sheaf__counter_add(s->bytes, s->cursor.offset - s->counted_offset);
    sheaf__counter_add(s->records, s->cursor.record - s->counted_record);
    forget_way(s);
}

void sheaf__record_source_free(struct sheaf__record_source *s)
{
    if (!s)
        return;
    if (s->bytes)
        count_read(s);
    sheaf__unref(s->map);
    sheaf__unref(s->chunk);
    sheaf__file_close(s->file, NULL);
    sheaf__inflate_free(s->inflate);
    sheaf__free(s->input);
    sheaf__free(s->path);
    sheaf__free(s);
}

/* Ends the stream with an error, behind what is in the chunk. */
static void end_stream(struct sheaf__record_source *s, const sheaf_error *err)
{
    s->failed = *err;
}

/* Decompresses into [at, chunk's end). Returns how many bytes came; 0: the stream is over. */
static size_t fill_inflated(struct sheaf__record_source *s, uint8_t *at, size_t room)
{
    struct sheaf__zip_io io = {.out = at, .out_size = room};
    while (io.out_size > 0 && s->failed.status == 0) {
        sheaf_error err = {0};
        if (s->input_at == s->input_end && !s->input_over) {
            size_t got = 0;
            if (sheaf__file_read_at(s->file, s->file_at, s->input, INPUT, &got, &err) < 0) {
                end_stream(s, &err);
                break;
            }
            s->file_at += got;
            s->input_at = 0;
            s->input_end = got;
            s->input_over = got < INPUT;
        }
        io.in = s->input + s->input_at;
        io.in_size = s->input_end - s->input_at;
        size_t room_before = io.out_size;
        sheaf_status status = sheaf__inflate_next(s->inflate, &io, &err);
        s->input_at = s->input_end - io.in_size;
        if (status < 0)
            end_stream(s, &err);
        else if (s->input_over && io.in_size == 0 && io.out_size == room_before)
            break;
    }
    return room - io.out_size;
}

static size_t fill_plain(struct sheaf__record_source *s, uint8_t *at, size_t room)
{
    size_t got = 0;
    sheaf_error err = {0};
    if (sheaf__file_read_at(s->file, s->file_at, at, room, &got, &err) < 0)
        end_stream(s, &err);
    s->file_at += got;
    return got;
}

/* The stream gave no more bytes: right where it may end, else the reason is kept. */
static void stream_over(struct sheaf__record_source *s)
{
    if (s->inflate && s->failed.status == 0 && !sheaf__inflate_at_end(s->inflate) &&
        !s->cursor.lax) {
        sheaf_error err = {0};
        sheaf__error(&err, SHEAF_ERR_DATA_LOSS,
                     "truncated compressed file: its last stream ends after %llu bytes of the file "
                     "without its check value",
                     (unsigned long long)s->file_at);
        end_stream(s, &err);
    }
    if (s->failed.status == 0)
        s->cursor.more = false;
}

/* Moves what the cursor has not read to the start of a chunk with room for more, and reads on. */
static sheaf_status refill(struct sheaf__record_source *s, sheaf_error *err)
{
    struct sheaf__record_cursor *c = &s->cursor;
    size_t used = (size_t)(c->offset - c->base);
    size_t tail = c->size - used;
    uint64_t need = sheaf__record_cursor_need(c);
    size_t capacity = need <= TRUSTED ? (size_t)need : 2 * tail;
    if (capacity < CHUNK)
        capacity = CHUNK;
    if (capacity <= s->chunk->capacity && sheaf__object_unique(s->chunk)) {
        memmove(s->chunk->data, s->chunk->data + used, tail);
    } else {
        struct chunk *next = chunk_new(capacity);
        if (!next)
            return sheaf__no_memory(err, "a record");
        memcpy(next->data, s->chunk->data + used, tail);
        sheaf__unref(s->chunk);
        s->chunk = next;
    }
    uint8_t *at = s->chunk->data + tail;
    size_t room = s->chunk->capacity - tail;
    size_t got = s->inflate ? fill_inflated(s, at, room) : fill_plain(s, at, room);
    c->data = s->chunk->data;
    c->base = c->offset;
    c->size = tail + got;
    if (got == 0)
        stream_over(s);
    return SHEAF_OK;
}

/* The cursor wants more bytes. SHEAF_OK: it has some, or knows that there are none. */
static sheaf_status go_on(struct sheaf__record_source *s, sheaf_error *err)
{
    if (s->failed.status == 0)
        return refill(s, err);
    if (!err)
        return s->failed.status;
    struct sheaf__place place = {s->path, s->cursor.record, s->cursor.offset};
    return sheaf__error_at(err, s->failed.status, &place, "%s", s->failed.message);
}

/* Counts and tells once what `lax` lets pass. */
static void note_partial(struct sheaf__record_source *s)
{
    const struct sheaf__record_cursor *c = &s->cursor;
    size_t partial = c->size - (size_t)(c->offset - c->base);
    if (!partial || s->partial_told)
        return;
    s->partial_told = true;
    sheaf__count("record.partial", 1);
    sheaf__log(SHEAF_LOG_WARN, "%s: %zu bytes after the last record are ignored", s->path, partial);
}

sheaf_status sheaf__record_source_next(struct sheaf__record_source *s, sheaf_bytes *records,
                                       size_t capacity, size_t *count, struct sheaf__object **owner,
                                       sheaf_error *err)
{
    sheaf_status status;
    for (;;) {
        status = sheaf__record_cursor_next(&s->cursor, records, capacity, count, err);
        if (status != SHEAF_PENDING)
            break;
        SHEAF__TRY(go_on(s, err));
    }
    if (s->cursor.offset - s->counted_offset >= COUNTED || status != SHEAF_OK)
        count_read(s);
    if (status == SHEAF_END)
        note_partial(s);
    if (status != SHEAF_OK)
        return status;
    *owner = s->map ? &s->map->object : &s->chunk->object;
    return SHEAF_OK;
}

static sheaf_status skip(struct sheaf__record_source *s, uint64_t count, uint64_t *skipped,
                         sheaf_error *err)
{
    uint64_t n = 0;
    *skipped = 0;
    while (*skipped < count) {
        sheaf_status status = sheaf__record_cursor_skip(&s->cursor, count - *skipped, &n, err);
        if (status == SHEAF_PENDING)
            status = go_on(s, err);
        if (status < 0 || status == SHEAF_END)
            return status;
        *skipped += n;
        n = 0;
    }
    return SHEAF_OK;
}

sheaf_status sheaf__record_source_skip(struct sheaf__record_source *s, uint64_t count,
                                       uint64_t *skipped, sheaf_error *err)
{
    count_read(s);
    sheaf_status status = skip(s, count, skipped, err);
    forget_way(s);
    return status;
}

uint64_t sheaf__record_source_position(const struct sheaf__record_source *s, uint64_t *offset)
{
    if (offset)
        *offset = s->cursor.offset;
    return s->cursor.record;
}

/* A plain file: reading goes on at `offset` itself. */
static sheaf_status jump(struct sheaf__record_source *s, uint64_t record, uint64_t offset,
                         sheaf_error *err)
{
    struct sheaf__record_cursor *c = &s->cursor;
    uint64_t size = s->map ? s->map->size : 0;
    if (!s->map)
        SHEAF__TRY(sheaf__file_size(s->file, &size, err));
    if (offset > size) {
        struct sheaf__place place = {s->path, record, offset};
        return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                               "no such position: the file has %llu bytes",
                               (unsigned long long)size);
    }
    if (!s->map) {
        rewind_stream(s);
        s->file_at = c->base = offset;
    }
    c->offset = offset;
    c->record = record;
    return SHEAF_OK;
}

/* A compressed one: decompressed up to there, from the start if need be. */
static sheaf_status walk(struct sheaf__record_source *s, uint64_t record, uint64_t offset,
                         sheaf_error *err)
{
    if (offset < s->cursor.offset || record < s->cursor.record)
        rewind_stream(s);
    uint64_t skipped = 0;
    sheaf_status status = skip(s, record - s->cursor.record, &skipped, err);
    if (status < 0)
        return status;
    if (s->cursor.record != record || s->cursor.offset != offset) {
        struct sheaf__place place = {s->path, record, offset};
        return sheaf__error_at(
            err, SHEAF_ERR_DATA_LOSS, &place, "no such position: record %llu starts at byte %llu",
            (unsigned long long)s->cursor.record, (unsigned long long)s->cursor.offset);
    }
    return SHEAF_OK;
}

sheaf_status sheaf__record_source_seek(struct sheaf__record_source *s, uint64_t record,
                                       uint64_t offset, sheaf_error *err)
{
    count_read(s);
    sheaf_status status = s->inflate ? walk(s, record, offset, err) : jump(s, record, offset, err);
    forget_way(s);
    return status;
}
