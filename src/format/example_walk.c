/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "format/example_parse.h"
#include "format/packed.h"
#include "format/wire.h"

#include <string.h>

/* Entries of an example whose order is remembered for the next one. */
#define EXPECTED 64
/* The first byte of a field 1 of type BYTES: the features, an entry, its key, packed numbers. */
#define FIRST (1 << 3 | SHEAF__WIRE_BYTES)
/* How many examples ahead the memory is asked for how many bytes of each. */
#define AHEAD   2
#define FETCHED 512

/* An entry of the example before: the same keys tend to come in the same order. */
struct expected {
    const uint8_t *key;
    size_t size;
    int plan;
    /* What an entry begins with, key and tag of the Feature, if that is short; size 0: it is not, or
     * nobody asked for the key. */
    uint64_t head[2], mask[2];
    size_t head_size;
    uint8_t list; /* tag of the list that the column wants */
};

struct walk {
    const struct sheaf__example_parser *parser;
    struct sheaf__example_column *columns;
    size_t example;     /* number of the example */
    const uint8_t *end; /* of its message */
    sheaf_error *err;
    sheaf__packed_fn unpack;
    struct expected expected[EXPECTED];
    size_t expected_count;
    size_t entry; /* number of the entry in the example */
};

static __attribute__((cold)) sheaf_status malformed(const struct walk *w,
                                                    const struct sheaf__example_column *col,
                                                    const char *what)
{
    if (!col)
        return sheaf__error(w->err, SHEAF_ERR_DATA_LOSS,
                            "example %zu is no tf.train.Example: %s is malformed", w->example,
                            what);
    return sheaf__error(w->err, SHEAF_ERR_DATA_LOSS,
                        "example %zu is no tf.train.Example: %s of key \"%s\" is malformed",
                        w->example, what, col->plan->feature.key);
}

/* Room for `more` values behind those found. False: no memory. */
static bool grow(struct sheaf__example_column *col, size_t more)
{
    size_t used = col->start + col->found;
    if (col->capacity - used >= more)
        return true;
    size_t capacity = 2 * col->capacity;
    if (capacity < used + more)
        capacity = used + more;
    if (capacity < col->plan->hint)
        capacity = col->plan->hint;
    if (capacity > SIZE_MAX / 2 / col->plan->item)
        return false;
    struct sheaf__buffer *buffer = sheaf__buffer_new(NULL, capacity * col->plan->item, NULL);
    if (!buffer)
        return false;
    if (used)
        memcpy(buffer->data, col->values, used * col->plan->item);
    sheaf__unref(col->buffer);
    col->buffer = buffer;
    col->values = buffer->data;
    col->capacity = capacity;
    return true;
}

/* Where the next values of this example go, and how many have room there: at least `want` in a
 * growing column, what is left of the row in a fixed one. NULL: no memory. */
static inline void *room_for(struct sheaf__example_column *col, size_t want, size_t *room)
{
    if (col->plan->fixed) {
        *room = col->found < col->plan->row ? col->plan->row - col->found : 0;
    } else {
        if (!grow(col, want))
            return NULL;
        *room = want;
    }
    return col->values + (col->start + col->found) * col->plan->item;
}

static sheaf_status no_room(const struct walk *w)
{
    return sheaf__no_memory(w->err, "a column of examples");
}

/* Packed varints. */
static sheaf_status unpack_ints(struct walk *w, struct sheaf__example_column *col,
                                const uint8_t *at, const uint8_t *end)
{
    if (at == end)
        return SHEAF_OK;
    size_t room, n;
    int64_t *out = room_for(col, (size_t)(end - at), &room);
    if (!out)
        return no_room(w);
    if (!w->unpack(at, end, out, room, &n))
        return malformed(w, col, "a number");
    col->found += n;
    return SHEAF_OK;
}

static sheaf_status unpack_floats(struct walk *w, struct sheaf__example_column *col,
                                  const uint8_t *at, size_t size)
{
    if (size % 4)
        return malformed(w, col, "a packed list of floats");
    size_t n = size / 4, room;
    uint8_t *out = room_for(col, n, &room);
    if (!out)
        return no_room(w);
    size_t stored = n < room ? n : room;
    if (stored)
        memcpy(out, at, stored * 4);
    col->found += n;
    return SHEAF_OK;
}

static inline sheaf_status add_bytes(struct walk *w, struct sheaf__example_column *col,
                                     const uint8_t *data, size_t size)
{
    size_t room;
    sheaf_bytes *out = room_for(col, 1, &room);
    if (!out)
        return no_room(w);
    if (room)
        *out = (sheaf_bytes){(const char *)data, size};
    col->found++;
    return SHEAF_OK;
}

static sheaf_status add_number(struct walk *w, struct sheaf__example_column *col, uint64_t value)
{
    size_t room;
    void *out = room_for(col, 1, &room);
    if (!out)
        return no_room(w);
    if (room)
        memcpy(out, &value, col->plan->item); /* little endian */
    col->found++;
    return SHEAF_OK;
}

/* One value, or one packed chunk, of a list. A field that is neither is unknown and skipped. */
static sheaf_status take_value(struct walk *w, struct sheaf__example_column *col,
                               const struct sheaf__wire_field *f)
{
    if (f->number != 1)
        return SHEAF_OK;
    switch (col->kind) {
    case SHEAF__EXAMPLE_BYTES:
        return f->type == SHEAF__WIRE_BYTES ? add_bytes(w, col, f->bytes.data, f->bytes.size)
                                            : SHEAF_OK;
    case SHEAF__EXAMPLE_FLOAT:
        if (f->type == SHEAF__WIRE_BYTES)
            return unpack_floats(w, col, f->bytes.data, f->bytes.size);
        return f->type == SHEAF__WIRE_FIXED32 ? add_number(w, col, f->value) : SHEAF_OK;
    case SHEAF__EXAMPLE_INT64:
        if (f->type == SHEAF__WIRE_BYTES)
            return unpack_ints(w, col, f->bytes.data, f->bytes.data + f->bytes.size);
        return f->type == SHEAF__WIRE_VARINT ? add_number(w, col, f->value) : SHEAF_OK;
    case SHEAF__EXAMPLE_NONE:
        break;
    }
    return SHEAF_OK;
}

/* A list of the kind the column wants goes into it; another kind is only remembered, for the error.
 */
static sheaf_status take_list(struct walk *w, struct sheaf__example_column *col,
                              enum sheaf__example_kind kind, const uint8_t *at, size_t size)
{
    if (col->kind != kind) {
        col->kind = kind; /* the last of a oneof wins */
        col->found = 0;
    }
    const uint8_t *end = at + size;
    struct sheaf__wire_field f;
    bool wanted = kind == col->plan->kind;
    while (sheaf__wire_step(&at, end, &f)) {
        if (wanted)
            SHEAF__TRY(take_value(w, col, &f));
    }
    return at ? SHEAF_OK : malformed(w, col, "the list");
}

/* A Feature message. Called several times for one key if the entry has its value in pieces: they
 * merge. */
static sheaf_status take_feature(struct walk *w, struct sheaf__example_column *col,
                                 const uint8_t *at, size_t size)
{
    const uint8_t *end = at + size;
    struct sheaf__wire_field f;
    while (sheaf__wire_step(&at, end, &f)) {
        if (f.number <= SHEAF__EXAMPLE_INT64 && f.type == SHEAF__WIRE_BYTES)
            SHEAF__TRY(
                take_list(w, col, (enum sheaf__example_kind)f.number, f.bytes.data, f.bytes.size));
    }
    return at ? SHEAF_OK : malformed(w, col, "the feature");
}

/* Remembers entry number `n` of the example. */
static void expect(struct walk *w, size_t n, const uint8_t *key, size_t size, int plan)
{
    uint8_t head[16] = {0}, mask[16] = {0};
    struct expected *e = &w->expected[n];
    *e = (struct expected){.key = key, .size = size, .plan = plan};
    if (n == w->expected_count)
        w->expected_count++;
    if (plan < 0 || size + 3 > sizeof(head))
        return;
    head[0] = FIRST;
    head[1] = (uint8_t)size;
    if (size > 0)
        memcpy(head + 2, key, size);
    head[2 + size] = 2 << 3 | SHEAF__WIRE_BYTES;
    memset(mask, 0xff, size + 3);
    memcpy(e->head, head, sizeof(head));
    memcpy(e->mask, mask, sizeof(mask));
    e->head_size = size + 3;
    e->list = (uint8_t)(w->parser->plans[plan].kind << 3 | SHEAF__WIRE_BYTES);
}

/* The column for a key, NULL if nobody asked for it. */
static inline struct sheaf__example_column *column_of(struct walk *w, const uint8_t *key,
                                                      size_t size)
{
    size_t n = w->entry++;
    if (n < w->expected_count) {
        const struct expected *e = &w->expected[n];
        if (e->size == size && memcmp(e->key, key, size) == 0)
            return e->plan < 0 ? NULL : &w->columns[e->plan];
    }
    int plan = sheaf__example_find(w->parser, key, size);
    if (n < EXPECTED && n <= w->expected_count)
        expect(w, n, key, size, plan);
    return plan < 0 ? NULL : &w->columns[plan];
}

/* The example has the key (again: the last of repeated keys wins). */
static inline void start_column(const struct walk *w, struct sheaf__example_column *col)
{
    col->seen = w->example + 1;
    col->kind = SHEAF__EXAMPLE_NONE;
    col->found = 0;
}

/* An entry of the map whose fields are not simply key and value in that order. */
static sheaf_status take_odd_entry(struct walk *w, const uint8_t *data, size_t size)
{
    const uint8_t *at = data, *end = data + size, *key = data;
    size_t key_size = 0;
    struct sheaf__wire_field f;
    while (sheaf__wire_step(&at, end, &f)) {
        if (f.number == 1 && f.type == SHEAF__WIRE_BYTES) {
            key = f.bytes.data;
            key_size = f.bytes.size;
        }
    }
    if (!at)
        return malformed(w, NULL, "an entry of its map");
    struct sheaf__example_column *col = column_of(w, key, key_size);
    if (!col)
        return SHEAF_OK;
    start_column(w, col);
    for (at = data; sheaf__wire_step(&at, end, &f);) {
        if (f.number == 2 && f.type == SHEAF__WIRE_BYTES)
            SHEAF__TRY(take_feature(w, col, f.bytes.data, f.bytes.size));
    }
    return SHEAF_OK;
}

/* Behind a size that says "all the rest", of which there is some; else NULL. */
static inline const uint8_t *all_the_rest(const uint8_t *at, const uint8_t *end)
{
    uint64_t size;
    at = sheaf__wire_varint(at, end, &size);
    return at && at < end && size == (uint64_t)(end - at) ? at : NULL;
}

/* The entry if it is the expected one, and its value one chunk of the list that the column wants, as
 * it mostly is. SHEAF_PENDING: it is another, and nothing is done. */
static inline sheaf_status take_expected(struct walk *w, const uint8_t *data, size_t size)
{
    if (w->entry >= w->expected_count)
        return SHEAF_PENDING;
    const struct expected *e = &w->expected[w->entry];
    const uint8_t *end = data + size, *at;
    if (e->head_size == 0 || (size_t)(w->end - data) < sizeof(e->head) ||
        ((sheaf__load64(data) ^ e->head[0]) & e->mask[0]) != 0 ||
        ((sheaf__load64(data + 8) ^ e->head[1]) & e->mask[1]) != 0)
        return SHEAF_PENDING;
    if (!(at = all_the_rest(data + e->head_size, end)) || *at++ != e->list ||
        !(at = all_the_rest(at, end)) || *at++ != FIRST || !(at = all_the_rest(at, end)))
        return SHEAF_PENDING;
    struct sheaf__example_column *col = &w->columns[e->plan];
    w->entry++;
    start_column(w, col);
    col->kind = col->plan->kind;
    switch (col->kind) {
    case SHEAF__EXAMPLE_INT64:
        return unpack_ints(w, col, at, end);
    case SHEAF__EXAMPLE_FLOAT:
        return unpack_floats(w, col, at, (size_t)(end - at));
    default:
        return add_bytes(w, col, at, (size_t)(end - at));
    }
}

static inline sheaf_status take_entry(struct walk *w, const uint8_t *data, size_t size)
{
    const sheaf_status status = take_expected(w, data, size);
    if (status != SHEAF_PENDING)
        return status;
    const uint8_t *at = data, *end = data + size;
    struct sheaf__wire_field key, value;
    if (!sheaf__wire_step(&at, end, &key) || key.number != 1 || key.type != SHEAF__WIRE_BYTES ||
        !sheaf__wire_step(&at, end, &value) || value.number != 2 ||
        value.type != SHEAF__WIRE_BYTES || at != end)
        return take_odd_entry(w, data, size);
    struct sheaf__example_column *col = column_of(w, key.bytes.data, key.bytes.size);
    if (!col)
        return SHEAF_OK;
    start_column(w, col);
    return take_feature(w, col, value.bytes.data, value.bytes.size);
}

/* The next field 1 of type BYTES; others, of which there should be none, are skipped. As
 * sheaf__wire_step(). */
static inline bool next_one(const uint8_t **at, const uint8_t *end, const uint8_t **data,
                            size_t *size)
{
    struct sheaf__wire_field f;
    while (*at != end) {
        if (**at == FIRST) {
            uint64_t n;
            const uint8_t *p = sheaf__wire_varint(*at + 1, end, &n);
            const bool fits = p && n <= (uint64_t)(end - p);
            *data = p;
            *size = (size_t)n;
            *at = fits ? p + n : NULL;
            return fits;
        }
        if (!sheaf__wire_step(at, end, &f))
            return false;
        if (f.number == 1 && f.type == SHEAF__WIRE_BYTES) {
            *data = f.bytes.data;
            *size = f.bytes.size;
            return true;
        }
    }
    return false;
}

static sheaf_status take_features(struct walk *w, const uint8_t *at, size_t size)
{
    const uint8_t *end = at + size, *entry;
    size_t entry_size;
    while (next_one(&at, end, &entry, &entry_size))
        SHEAF__TRY(take_entry(w, entry, entry_size));
    return at ? SHEAF_OK : malformed(w, NULL, "its map of features");
}

static const char *kind_name(enum sheaf__example_kind kind)
{
    static const char *const names[] = {"no", "bytes", "float", "int64"};
    return names[kind];
}

static __attribute__((cold)) sheaf_status bad_column(const struct walk *w,
                                                     const struct sheaf__example_column *col)
{
    const struct sheaf__example_plan *plan = col->plan;
    const char *key = plan->feature.key, *kind = kind_name(plan->kind);
    if (col->kind == SHEAF__EXAMPLE_NONE)
        return sheaf__error(w->err, SHEAF_ERR_INVALID_ARGUMENT,
                            "key \"%s\" is missing in example %zu, expected %zu %s values or a "
                            "default",
                            key, w->example, plan->row, kind);
    if (col->kind != plan->kind)
        return sheaf__error(w->err, SHEAF_ERR_INVALID_ARGUMENT,
                            "key \"%s\" of example %zu has %s values, expected %s", key, w->example,
                            kind_name(col->kind), kind);
    return sheaf__error(w->err, SHEAF_ERR_INVALID_ARGUMENT,
                        "key \"%s\" of example %zu has %zu %s values, expected %s%zu", key,
                        w->example, col->found, kind, plan->padded ? "a multiple of " : "",
                        plan->row);
}

/* Whether an example has no values for a feature: no key, no list, or an empty one of its kind (T34). */
static inline bool has_none(const struct sheaf__example_column *col)
{
    return col->kind == SHEAF__EXAMPLE_NONE || (col->kind == col->plan->kind && col->found == 0);
}

static sheaf_status end_fixed(const struct walk *w, struct sheaf__example_column *col)
{
    const struct sheaf__example_plan *plan = col->plan;
    if (plan->defaults && has_none(col)) {
        if (plan->row)
            memcpy(col->values + col->start * plan->item, plan->defaults, plan->row * plan->item);
    } else if (col->kind != plan->kind || col->found != plan->row) {
        return bad_column(w, col);
    }
    col->start += plan->row;
    return SHEAF_OK;
}

static sheaf_status end_growing(const struct walk *w, struct sheaf__example_column *col)
{
    const struct sheaf__example_plan *plan = col->plan;
    if (col->kind == SHEAF__EXAMPLE_NONE)
        col->found = 0;
    else if (col->kind != plan->kind || (plan->padded && col->found % plan->row))
        return bad_column(w, col);
    col->lengths[w->example] = (int64_t)col->found;
    col->start += col->found;
    return SHEAF_OK;
}

/* Checks what was found and moves every column to its next row. */
static sheaf_status end_example(struct walk *w)
{
    for (size_t i = 0; i < w->parser->count; i++) {
        struct sheaf__example_column *col = &w->columns[i];
        if (col->seen != w->example + 1)
            start_column(w, col);
        SHEAF__TRY(col->plan->fixed ? end_fixed(w, col) : end_growing(w, col));
        col->found = 0;
    }
    return SHEAF_OK;
}

/* Asks the memory for the next example, which may lie anywhere: after a shuffle the wait for it would
 * be longer than the parsing. */
static inline void fetch(sheaf_bytes example)
{
    for (size_t at = 0; at < example.size && at < FETCHED; at += 64)
        __builtin_prefetch(example.data + at);
}

sheaf_status sheaf__example_walk(const struct sheaf__example_parser *parser,
                                 struct sheaf__example_column *columns,
                                 const sheaf_bytes *serialized, size_t count, sheaf_error *err)
{
    struct walk w = {
        .parser = parser, .columns = columns, .err = err, .unpack = sheaf__packed_ints()};
    for (w.example = 0; w.example < count; w.example++) {
        const uint8_t *at = (const uint8_t *)serialized[w.example].data, *features;
        size_t size;
        w.entry = 0;
        if (w.example + AHEAD < count)
            fetch(serialized[w.example + AHEAD]);
        if (serialized[w.example].size) {
            w.end = at + serialized[w.example].size;
            while (next_one(&at, w.end, &features, &size))
                SHEAF__TRY(take_features(&w, features, size));
            if (!at)
                return malformed(&w, NULL, "the message");
        }
        SHEAF__TRY(end_example(&w));
    }
    return SHEAF_OK;
}
