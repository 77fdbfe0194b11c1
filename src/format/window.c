/* SPDX-License-Identifier: Apache-2.0 */
#include "format/window.h"

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "format/snappy.h"

#include <string.h>

#define CHUNK   (1024 * 1024) /* bytes of a chunk, unless another size is asked for or needed */
#define TRUSTED (64 << 20)    /* a need that is taken at its word before its data came */
#define INPUT   (256 * 1024)  /* compressed bytes read at a time */
#define STEP    (1024 * 1024) /* bytes of a mapped file shown at a time */

/* Bytes of the stream that views may be kept of. */
struct chunk {
    struct sheaf__object object;
    size_t capacity;
    size_t size;           /* of the stream, */
    uint64_t base, record; /* from here on */
    const char *path;      /* behind the data */
    uint8_t data[];
};

/* A file is either mapped, and the window begins with it and grows; or read, plain or decompressed,
 * into chunks that are the window one after the other. A mapped file that another process cuts
 * short kills whoever touches what is gone, so its size is looked at before the window grows. */
struct stream {
    struct sheaf__window window;
    sheaf_compression compression;
    bool lax;
    size_t chunk_size;
    struct sheaf__map *map;
    struct sheaf__file *file;
    uint64_t file_at;                 /* next byte to read */
    uint8_t head[SHEAF__WINDOW_HEAD]; /* the file's first bytes, which a pipe gives once */
    size_t head_size;
    struct chunk *chunk;
    struct sheaf__inflate *inflate; /* of GZIP and ZLIB */
    struct sheaf__unsnap *unsnap;   /* of SNAPPY */
    uint8_t *input; /* INPUT bytes of compressed data, of which [input_at, input_end) are left */
    size_t input_at, input_end;
    bool input_over;
    sheaf_error failed; /* what ended the stream early; told when the reader gets there */
};

static void chunk_destroy(void *object)
{
    sheaf__free(object);
}

static const struct sheaf__class chunk_class = {"chunk of a file", chunk_destroy};

static struct chunk *chunk_new(size_t capacity, const char *path)
{
    const size_t path_size = strlen(path) + 1;
    struct chunk *chunk = sheaf__alloc(sizeof(*chunk) + capacity + path_size);
    if (!chunk)
        return NULL;
    sheaf__object_init(&chunk->object, &chunk_class);
    chunk->capacity = capacity;
    chunk->size = 0;
    chunk->base = chunk->record = 0;
    chunk->path = memcpy(chunk->data + capacity, path, path_size);
    return chunk;
}

static void use_chunk(struct stream *s, struct chunk *chunk)
{
    sheaf__unref(s->chunk);
    s->chunk = chunk;
    s->window.data = chunk->data;
    s->window.owner = &chunk->object;
}

/* ---- opening ---- */

sheaf_compression sheaf__window_sniff_text(const uint8_t *head, size_t size)
{
    static const uint8_t gzip[] = {0x1f, 0x8b, 8};
    return size >= sizeof(gzip) && memcmp(head, gzip, sizeof(gzip)) == 0 ? SHEAF_COMPRESSION_GZIP
                                                                         : SHEAF_COMPRESSION_NONE;
}

/* Where a stream that is not mapped starts, at a byte of the file: no bytes seen. */
static void start_at(struct stream *s, uint64_t offset)
{
    s->window.base = offset;
    s->window.size = 0;
    s->window.more = true;
    s->file_at = offset;
    s->input_at = s->input_end = 0;
    s->input_over = false;
    s->failed = (sheaf_error){0};
    if (s->inflate)
        sheaf__inflate_reset(s->inflate);
    if (s->unsnap)
        sheaf__unsnap_reset(s->unsnap);
}

static sheaf_status resolve_compression(struct stream *s, const struct sheaf__window_options *o,
                                        sheaf_error *err)
{
    s->compression = o->compression;
    if (o->compression != SHEAF_COMPRESSION_AUTO)
        return SHEAF_OK;
    s->compression = SHEAF_COMPRESSION_NONE;
    if (!o->sniff)
        return SHEAF_OK;
    SHEAF__TRY(sheaf__file_read_at(s->file, 0, s->head, sizeof(s->head), &s->head_size, err));
    s->compression = o->sniff(s->head, s->head_size);
    return SHEAF_OK;
}

static sheaf_status open_unpacker(struct stream *s, sheaf_error *err)
{
    s->input = sheaf__alloc(INPUT);
    if (!s->input)
        return sheaf__no_memory(err, "reading a file");
    if (s->compression == SHEAF_COMPRESSION_SNAPPY)
        return sheaf__unsnap_new(&s->unsnap, err);
    return sheaf__inflate_new(s->compression == SHEAF_COMPRESSION_GZIP ? SHEAF__ZIP_GZIP
                                                                       : SHEAF__ZIP_ZLIB,
                              &s->inflate, err);
}

static sheaf_status open_chunks(struct stream *s, sheaf_error *err)
{
    if (s->compression != SHEAF_COMPRESSION_NONE)
        SHEAF__TRY(open_unpacker(s, err));
    struct chunk *chunk = chunk_new(s->chunk_size, s->window.path);
    if (!chunk)
        return sheaf__no_memory(err, "reading a file");
    use_chunk(s, chunk);
    start_at(s, 0);
    return SHEAF_OK;
}

/* Lets the window of a mapped file reach to an offset, or to the end. */
static void show(struct stream *s, uint64_t to)
{
    s->window.size = to < s->map->size ? (size_t)to : s->map->size;
    s->window.more = s->window.size < s->map->size;
}

static sheaf_status open_file(struct stream *s, const struct sheaf__window_options *o,
                              sheaf_error *err)
{
    SHEAF__TRY(sheaf__file_open(s->window.path, SHEAF__FILE_READ, &s->file, err));
    SHEAF__TRY(resolve_compression(s, o, err));
    if (s->compression != SHEAF_COMPRESSION_NONE || o->chunk > 0 || !sheaf__file_mappable(s->file))
        return open_chunks(s, err);
    SHEAF__TRY(sheaf__file_maps_get(o->maps, s->file, &s->map, err));
    s->window.data = s->map->data;
    s->window.owner = &s->map->object;
    show(s, STEP);
    return SHEAF_OK;
}

sheaf_status sheaf__window_open(const char *path, const struct sheaf__window_options *options,
                                struct sheaf__window **window, sheaf_error *err)
{
    if ((unsigned)options->compression > SHEAF_COMPRESSION_SNAPPY)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "compression is %d, expected 0 to %d (sheaf_compression)",
                            (int)options->compression, SHEAF_COMPRESSION_SNAPPY);
    struct stream *s = sheaf__calloc(1, sizeof(*s));
    char *copy = sheaf__strdup(path);
    if (!s || !copy) {
        sheaf__free(s);
        sheaf__free(copy);
        return sheaf__no_memory(err, "reading a file");
    }
    s->window.path = copy;
    s->lax = options->lax;
    s->chunk_size = options->chunk > 0 ? options->chunk : CHUNK;
    sheaf_status status = open_file(s, options, err);
    if (status < 0)
        sheaf__window_free(&s->window);
    else
        *window = &s->window;
    return status;
}

void sheaf__window_free(struct sheaf__window *window)
{
    struct stream *s = (struct stream *)window;
    if (!s)
        return;
    sheaf__unref(s->map);
    sheaf__unref(s->chunk);
    sheaf__file_close(s->file, NULL);
    sheaf__inflate_free(s->inflate);
    sheaf__unsnap_free(s->unsnap);
    sheaf__free(s->input);
    sheaf__free(s->window.path);
    sheaf__free(s);
}

/* ---- reading ---- */

/* Ends the stream with an error, behind what is in the chunk. */
static void end_stream(struct stream *s, const sheaf_error *err)
{
    s->failed = *err;
}

/* The next bytes of the file; fewer than wanted only at its end. */
static size_t read_on(struct stream *s, uint8_t *data, size_t size)
{
    size_t done = 0, got = 0;
    sheaf_error err = {0};
    if (s->file_at < s->head_size) {
        done = s->head_size - (size_t)s->file_at;
        done = done < size ? done : size;
        memcpy(data, s->head + s->file_at, done);
        s->file_at += done;
    }
    if (sheaf__file_read_at(s->file, s->file_at, data + done, size - done, &got, &err) < 0)
        end_stream(s, &err);
    s->file_at += got;
    return done + got;
}

static sheaf_status unpack(struct stream *s, struct sheaf__zip_io *io, sheaf_error *err)
{
    return s->unsnap ? sheaf__unsnap_next(s->unsnap, io, err)
                     : sheaf__inflate_next(s->inflate, io, err);
}

/* Decompresses into [at, chunk's end). Returns how many bytes came; 0: the stream is over. */
static size_t fill_unpacked(struct stream *s, uint8_t *at, size_t room)
{
    struct sheaf__zip_io io = {.out = at, .out_size = room};
    while (io.out_size > 0 && s->failed.status == 0) {
        sheaf_error err = {0};
        if (s->input_at == s->input_end && !s->input_over) {
            s->input_at = 0;
            s->input_end = read_on(s, s->input, INPUT);
            s->input_over = s->input_end < INPUT;
            if (s->failed.status < 0)
                break;
        }
        io.in = s->input + s->input_at;
        io.in_size = s->input_end - s->input_at;
        size_t room_before = io.out_size;
        sheaf_status status = unpack(s, &io, &err);
        s->input_at = s->input_end - io.in_size;
        if (status < 0)
            end_stream(s, &err);
        else if (s->input_over && io.in_size == 0 && io.out_size == room_before)
            break;
    }
    return room - io.out_size;
}

static bool may_end(const struct stream *s)
{
    if (s->unsnap)
        return sheaf__unsnap_at_end(s->unsnap) || (s->lax && sheaf__unsnap_at_size(s->unsnap));
    return s->lax || !s->inflate || sheaf__inflate_at_end(s->inflate);
}

/* The stream gave no more bytes: right where it may end, else the reason is kept. */
static void stream_over(struct stream *s)
{
    if (s->failed.status == 0 && !may_end(s)) {
        sheaf_error err = {0};
        sheaf__error(&err, SHEAF_ERR_DATA_LOSS,
                     "truncated compressed file: its last %s after %llu bytes of the file",
                     s->unsnap ? "block is not whole" : "stream ends without its check value",
                     (unsigned long long)s->file_at);
        end_stream(s, &err);
    }
    if (s->failed.status == 0)
        s->window.more = false;
}

/* Moves the `tail` last bytes of the window to the start of a chunk with room for more. */
static sheaf_status make_room(struct stream *s, size_t tail, uint64_t need, sheaf_error *err)
{
    const uint8_t *from = s->window.data + s->window.size - tail;
    size_t capacity = need <= TRUSTED ? (size_t)need : 2 * tail;
    if (capacity < s->chunk_size)
        capacity = s->chunk_size;
    if (capacity <= s->chunk->capacity && sheaf__object_unique(s->chunk)) {
        memmove(s->chunk->data, from, tail);
        return SHEAF_OK;
    }
    struct chunk *next = chunk_new(capacity, s->window.path);
    if (!next)
        return sheaf__no_memory(err, "reading a file");
    memcpy(next->data, from, tail);
    use_chunk(s, next);
    return SHEAF_OK;
}

/* The bytes from `from` on, if the file still has them. */
static sheaf_status show_more(struct stream *s, uint64_t from, uint64_t need, sheaf_error *err)
{
    uint64_t size;
    SHEAF__TRY(sheaf__file_size(s->file, &size, err));
    if (size < s->map->size) {
        sheaf__error(&s->failed, SHEAF_ERR_DATA_LOSS,
                     "the file was cut while it was read: it has %llu bytes, expected the %llu "
                     "that it had",
                     (unsigned long long)size, (unsigned long long)s->map->size);
        return sheaf__error_copy(err, &s->failed);
    }
    const uint64_t more = need > STEP ? need : STEP;
    show(s, more < s->map->size - from ? from + more : s->map->size);
    return SHEAF_OK;
}

sheaf_status sheaf__window_more(struct sheaf__window *window, uint64_t from, uint64_t need,
                                sheaf_error *err)
{
    struct stream *s = (struct stream *)window;
    if (s->failed.status < 0)
        return sheaf__error_copy(err, &s->failed);
    if (s->map)
        return show_more(s, from, need, err);
    size_t tail = window->size - (size_t)(from - window->base);
    SHEAF__TRY(make_room(s, tail, need, err));
    uint8_t *at = s->chunk->data + tail;
    size_t room = s->chunk->capacity - tail;
    size_t got = s->input ? fill_unpacked(s, at, room) : read_on(s, at, room);
    window->base = from;
    window->size = s->chunk->size = tail + got;
    s->chunk->base = from;
    if (got == 0)
        stream_over(s);
    return SHEAF_OK;
}

/* ---- where bytes came from ---- */

void sheaf__window_count(struct sheaf__window *window, uint64_t record)
{
    const struct stream *s = (const struct stream *)window;
    if (s->chunk)
        s->chunk->record = record;
}

bool sheaf__window_origin(const struct sheaf__object *owner, const void *address,
                          struct sheaf__origin *origin)
{
    if (owner->cls == &chunk_class) {
        const struct chunk *c = (const void *)owner;
        *origin = (struct sheaf__origin){c->path, c->data, c->size, c->base, c->record};
        return (const uint8_t *)address >= c->data && (const uint8_t *)address < c->data + c->size;
    }
    if (!sheaf__map_holds(owner, address))
        return false;
    const struct sheaf__map *map = (const void *)owner;
    *origin = (struct sheaf__origin){map->path, map->data, map->size, 0, 0};
    return true;
}

/* ---- positions ---- */

bool sheaf__window_is_compressed(const struct sheaf__window *window)
{
    return ((const struct stream *)window)->input;
}

sheaf_status sheaf__window_total(struct sheaf__window *window, uint64_t *size, sheaf_error *err)
{
    struct stream *s = (struct stream *)window;
    if (!s->map && !s->input && !sheaf__file_is_stream(s->file))
        return sheaf__file_size(s->file, size, err);
    *size = s->map ? s->map->size : SHEAF__UNKNOWN;
    return SHEAF_OK;
}

sheaf_status sheaf__window_seek(struct sheaf__window *window, uint64_t offset, sheaf_error *err)
{
    struct stream *s = (struct stream *)window;
    uint64_t size;
    SHEAF__TRY(sheaf__window_total(window, &size, err));
    if (offset > size) {
        struct sheaf__place place = {window->path, SHEAF__UNKNOWN, offset};
        return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                               "no such position: the file has %llu bytes",
                               (unsigned long long)size);
    }
    if (s->map && offset > window->size)
        show(s, offset);
    if (s->map)
        return SHEAF_OK;
    if (sheaf__file_is_stream(s->file) && (offset > 0 || s->file_at > s->head_size))
        return sheaf__error(
            err, SHEAF_ERR_FAILED_PRECONDITION,
            "%s: cannot go to offset %llu: what is no file, but a pipe, is read once", window->path,
            (unsigned long long)offset);
    start_at(s, offset);
    return SHEAF_OK;
}
