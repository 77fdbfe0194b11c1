/* SPDX-License-Identifier: Apache-2.0 */

#include "ps/proto.h"

#include "base/error.h"
#include "tensor/frame.h"

#include <string.h>

/* More bytes than a worker says of itself. */
enum { MOST_MARK = 1 << 16 };

sheaf_status sheaf__ps_malformed(const char *what, sheaf_error *err)
{
    return sheaf__error(err, SHEAF_ERR_DATA_LOSS,
                        "a message to a parameter server is malformed: %s", what);
}

/* Shapes and texts. */

static void put_shape(struct sheaf__buf *buf, sheaf_shape shape)
{
    sheaf__buf_varint(buf, (uint64_t)shape.rank);
    for (int i = 0; i < shape.rank; i++)
        sheaf__buf_varint(buf, (uint64_t)shape.dims[i]);
}

static bool get_shape(struct sheaf__cursor *c, sheaf_shape *shape)
{
    uint64_t rank, dims[SHEAF_MAX_RANK];
    if (!sheaf__cursor_varint(c, &rank) || rank > SHEAF_MAX_RANK)
        return false;
    for (uint64_t i = 0; i < rank; i++)
        if (!sheaf__cursor_varint(c, &dims[i]) || dims[i] > INT64_MAX)
            return false;
    int64_t sizes[SHEAF_MAX_RANK];
    for (uint64_t i = 0; i < rank; i++)
        sizes[i] = (int64_t)dims[i];
    *shape = sheaf_shape_of((int)rank, sizes);
    return sheaf_shape_elements(*shape) >= 0;
}

static void put_text(struct sheaf__buf *buf, const char *text)
{
    sheaf__buf_sized(buf, text ? text : "", text ? strlen(text) : 0);
}

static bool get_text(struct sheaf__cursor *c, const char **text)
{
    const uint8_t *data;
    size_t size;
    if (!sheaf__cursor_sized(c, &data, &size) || memchr(data, 0, size))
        return false;
    *text = sheaf__frame_text((const char *)data, size);
    return true;
}

/* Definitions. */

void sheaf__ps_put_definition(struct sheaf__buf *buf, const struct sheaf__ps_definition *d)
{
    sheaf__buf_varint(buf, d->variable);
    sheaf__buf_varint(buf, d->dtype);
    put_shape(buf, d->full);
    put_shape(buf, d->shape);
    sheaf__buf_varint(buf, (uint64_t)d->first_row);
    sheaf__buf_byte(buf, d->initialises);
    sheaf__buf_sized(buf, d->name, d->name_size);
}

sheaf_status sheaf__ps_get_definition(struct sheaf__bytes meta, struct sheaf__ps_definition *d,
                                      sheaf_error *err)
{
    struct sheaf__cursor c = sheaf__cursor_of(meta.data, meta.size);
    uint32_t dtype;
    uint64_t first_row;
    uint8_t initialises;
    const uint8_t *name;
    if (!sheaf__cursor_varint32(&c, &d->variable) || !sheaf__cursor_varint32(&c, &dtype) ||
        !get_shape(&c, &d->full) || !get_shape(&c, &d->shape) ||
        !sheaf__cursor_varint(&c, &first_row) || !sheaf__cursor_byte(&c, &initialises) ||
        !sheaf__cursor_sized(&c, &name, &d->name_size) || d->variable >= SHEAF__PS_MOST_VARIABLES ||
        first_row > INT64_MAX || sheaf_dtype_size((sheaf_dtype)dtype) == 0 || dtype == SHEAF_STRING)
        return sheaf__ps_malformed("a variable's definition", err);
    d->dtype = (sheaf_dtype)dtype;
    d->first_row = (int64_t)first_row;
    d->initialises = initialises != 0;
    d->name = (const char *)name;
    return SHEAF_OK;
}

/* Pushes. */

struct sheaf__hyper sheaf__ps_push_hyper(const struct sheaf__ps_push_view *v, uint32_t i)
{
    struct sheaf__hyper h;
    memcpy(&h, v->hypers + i * sizeof(h), sizeof(h));
    return h;
}

struct sheaf__ps_update sheaf__ps_push_update(const struct sheaf__ps_push_view *v, uint32_t i)
{
    struct sheaf__ps_update u;
    memcpy(&u, v->updates + i * sizeof(u), sizeof(u));
    return u;
}

static sheaf_status check_updates(const struct sheaf__ps_push_view *v, uint64_t payload,
                                  sheaf_error *err)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < v->head.updates; i++) {
        const struct sheaf__ps_update u = sheaf__ps_push_update(v, i);
        const bool by_rule = u.kind == SHEAF__PS_GRADIENT || u.kind == SHEAF__PS_ROWS;
        if (u.kind < SHEAF__PS_GRADIENT || u.kind > SHEAF__PS_SUB ||
            (by_rule && u.hyper >= v->head.hypers) || u.bytes > payload ||
            __builtin_add_overflow(sum, sheaf__ps_room(u.bytes), &sum))
            return sheaf__ps_malformed("an update", err);
    }
    return sum == payload ? SHEAF_OK : sheaf__ps_malformed("the size of the updates", err);
}

sheaf_status sheaf__ps_get_push(struct sheaf__bytes meta, uint64_t payload,
                                struct sheaf__ps_push_view *v, sheaf_error *err)
{
    struct sheaf__cursor c = sheaf__cursor_of(meta.data, meta.size);
    const uint8_t *head;
    if (!sheaf__cursor_bytes(&c, sizeof(v->head), &head))
        return sheaf__ps_malformed("the head of a push", err);
    memcpy(&v->head, head, sizeof(v->head));
    if (v->head.again > 1 || v->head.mark > MOST_MARK ||
        !sheaf__cursor_bytes(&c, v->head.hypers * sizeof(struct sheaf__hyper), &v->hypers) ||
        !sheaf__cursor_bytes(&c, v->head.updates * sizeof(struct sheaf__ps_update), &v->updates) ||
        !sheaf__cursor_bytes(&c, v->head.mark, &v->mark))
        return sheaf__ps_malformed("the updates of a push", err);
    for (uint32_t i = 0; i < v->head.hypers; i++) {
        const struct sheaf__hyper h = sheaf__ps_push_hyper(v, i);
        SHEAF__TRY(sheaf__hyper_check(&h, err));
    }
    return check_updates(v, payload, err);
}

/* Shards. */

void sheaf__ps_put_shard(struct sheaf__buf *buf, const struct sheaf__shard *shard, const char *note)
{
    put_text(buf, shard->device);
    put_text(buf, shard->path);
    put_text(buf, note);
    sheaf__buf_varint(buf, shard->count);
    for (size_t i = 0; i < shard->count; i++) {
        const struct sheaf__saveable *s = &shard->items[i].saveable;
        put_text(buf, shard->items[i].key);
        sheaf__buf_varint(buf, s->handle);
        sheaf__buf_varint(buf, s->dtype);
        put_shape(buf, s->shape);
        put_shape(buf, s->full);
        for (int k = 0; k < s->full.rank; k++)
            sheaf__buf_varint(buf, (uint64_t)s->offset[k]);
    }
}

static bool get_item(struct sheaf__cursor *c, struct sheaf__shard_item *item)
{
    struct sheaf__saveable *s = &item->saveable;
    uint32_t dtype;
    memset(item, 0, sizeof(*item));
    if (!get_text(c, &item->key) || !sheaf__cursor_varint(c, &s->handle) ||
        !sheaf__cursor_varint32(c, &dtype) || !get_shape(c, &s->shape) || !get_shape(c, &s->full) ||
        s->shape.rank != s->full.rank)
        return false;
    s->dtype = (sheaf_dtype)dtype;
    s->attribute = "VARIABLE_VALUE";
    s->full_name = "";
    for (int k = 0; k < s->full.rank; k++) {
        uint64_t offset;
        if (!sheaf__cursor_varint(c, &offset) || offset > INT64_MAX)
            return false;
        s->offset[k] = (int64_t)offset;
    }
    return true;
}

sheaf_status sheaf__ps_get_shard(struct sheaf__cursor *c, struct sheaf__shard *shard,
                                 const char **note, sheaf_error *err)
{
    uint64_t count;
    if (!get_text(c, &shard->device) || !get_text(c, &shard->path) || !get_text(c, note) ||
        !sheaf__cursor_varint(c, &count) || count > sheaf__cursor_left(c))
        return sheaf__ps_malformed("a shard", err);
    struct sheaf__shard_item *items = sheaf__frame_alloc((count + 1) * sizeof(*items));
    if (!items)
        return sheaf__no_memory(err, "a shard");
    for (uint64_t i = 0; i < count; i++)
        if (!get_item(c, &items[i]))
            return sheaf__ps_malformed("a tensor of a shard", err);
    shard->items = items;
    shard->count = count;
    return SHEAF_OK;
}
