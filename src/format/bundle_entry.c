/* SPDX-License-Identifier: Apache-2.0 */
#include "format/bundle_index.h"

#include "base/error.h"
#include "base/mem.h"
#include "format/wire.h"

#include <string.h>

/* Reading an index. Every number in it may be hostile. */

#define CONSUMER 1 /* version of the format that this reader understands */

static bool is_field(const struct sheaf__wire_field *f, uint32_t number, enum sheaf__wire_type type)
{
    return f->number == number && f->type == type;
}

static struct sheaf__cursor inside(const struct sheaf__wire_field *f)
{
    return sheaf__cursor_of(f->bytes.data, f->bytes.size);
}

static sheaf_status fault_at(const struct sheaf__table *t, uint64_t offset, sheaf_status status,
                             const char *what, sheaf_error *err)
{
    struct sheaf__place place = {t->file, SHEAF__UNKNOWN, offset};
    return sheaf__error_at(err, status, &place, "%s", what);
}

/* VersionDef: producer 1, min_consumer 2, bad_consumers 3 (packed or not). */
struct version {
    uint64_t min_consumer;
    bool refused;
};

static bool read_version(struct sheaf__cursor c, struct version *version)
{
    struct sheaf__wire_field f;
    uint64_t number;
    while (sheaf__wire_next(&c, &f)) {
        if (is_field(&f, 2, SHEAF__WIRE_VARINT))
            version->min_consumer = f.value;
        if (is_field(&f, 3, SHEAF__WIRE_VARINT))
            version->refused |= f.value == CONSUMER;
        if (is_field(&f, 3, SHEAF__WIRE_BYTES)) {
            struct sheaf__cursor list = inside(&f);
            while (sheaf__cursor_left(&list)) {
                if (!sheaf__cursor_varint(&list, &number))
                    return false;
                version->refused |= number == CONSUMER;
            }
        }
    }
    return !c.failed;
}

static sheaf_status read_header(struct sheaf__bundle_index *index, const struct sheaf__table *t,
                                const struct sheaf__table_entry *e, sheaf_error *err)
{
    struct sheaf__cursor c = sheaf__cursor_of(e->value, e->value_size);
    struct sheaf__wire_field f;
    struct version version = {0};
    bool good = true;
    while (good && sheaf__wire_next(&c, &f)) {
        if (is_field(&f, 1, SHEAF__WIRE_VARINT)) {
            good = f.value <= INT32_MAX;
            index->shards = good ? (int32_t)f.value : 0;
        }
        if (is_field(&f, 2, SHEAF__WIRE_VARINT))
            index->big_endian = f.value == 1;
        if (is_field(&f, 3, SHEAF__WIRE_BYTES))
            good = read_version(inside(&f), &version);
    }
    if (!good || c.failed)
        return fault_at(t, e->offset, SHEAF_ERR_DATA_LOSS, "the header of the index does not parse",
                        err);
    if ((int32_t)version.min_consumer > CONSUMER) {
        struct sheaf__place place = {t->file, SHEAF__UNKNOWN, e->offset};
        return sheaf__error_at(err, SHEAF_ERR_INVALID_ARGUMENT, &place,
                               "checkpoint wants readers of version %d, this is version %d",
                               (int)(int32_t)version.min_consumer, CONSUMER);
    }
    if (version.refused)
        return fault_at(t, e->offset, SHEAF_ERR_INVALID_ARGUMENT,
                        "checkpoint refuses readers of version 1", err);
    return SHEAF_OK;
}

static bool read_dim(struct sheaf__cursor c, int64_t *size)
{
    struct sheaf__wire_field f;
    *size = 0;
    while (sheaf__wire_next(&c, &f)) {
        if (is_field(&f, 1, SHEAF__WIRE_VARINT))
            *size = (int64_t)f.value;
    }
    return !c.failed;
}

/* Keeps the first reason for which an entry cannot be read. */
static void blame(struct sheaf__bundle_item *item, sheaf_status status, const char *why)
{
    if (item->fault >= 0) {
        item->fault = status;
        item->why = why;
    }
}

static void read_shape(struct sheaf__bundle_item *item, struct sheaf__cursor c)
{
    struct sheaf__wire_field f;
    int32_t rank = 0;
    sheaf_shape shape = {0};
    while (sheaf__wire_next(&c, &f)) {
        if (is_field(&f, 3, SHEAF__WIRE_VARINT) && f.value)
            blame(item, SHEAF_ERR_DATA_LOSS, "its rank is not known");
        if (!is_field(&f, 2, SHEAF__WIRE_BYTES))
            continue;
        int64_t size;
        if (!read_dim(inside(&f), &size))
            blame(item, SHEAF_ERR_DATA_LOSS, "its entry does not parse");
        else if (size < 0)
            blame(item, SHEAF_ERR_DATA_LOSS, "a size in its shape is negative");
        else if (rank < SHEAF_MAX_RANK)
            shape.dims[rank] = size;
        rank++;
    }
    if (c.failed)
        blame(item, SHEAF_ERR_DATA_LOSS, "its entry does not parse");
    if (rank > SHEAF_MAX_RANK)
        blame(item, SHEAF_ERR_UNIMPLEMENTED, "it has more than 8 axes");
    if (item->fault < 0)
        return;
    shape.rank = rank;
    item->shape = shape;
    if (sheaf_shape_elements(shape) < 0)
        blame(item, SHEAF_ERR_DATA_LOSS, "its shape has too many elements");
}

static bool read_extent(struct sheaf__cursor c, struct sheaf__extent *extent)
{
    struct sheaf__wire_field f;
    *extent = (struct sheaf__extent){0, SHEAF__WHOLE_AXIS};
    bool length = false;
    while (sheaf__wire_next(&c, &f)) {
        if (is_field(&f, 1, SHEAF__WIRE_VARINT))
            extent->start = (int64_t)f.value;
        if (is_field(&f, 2, SHEAF__WIRE_VARINT)) {
            extent->length = (int64_t)f.value;
            length = true;
        }
    }
    /* -1 is our mark for a whole axis and no length that a file may state. */
    if (length && extent->length < 0)
        extent->length = 0;
    if (!length)
        extent->start = 0;
    return !c.failed;
}

/* False: no memory. */
static bool read_slice(struct sheaf__bundle_item *item, struct sheaf__cursor c)
{
    struct sheaf__wire_field f;
    struct sheaf__extent extents[SHEAF_MAX_RANK];
    int32_t rank = 0;
    while (sheaf__wire_next(&c, &f)) {
        if (!is_field(&f, 1, SHEAF__WIRE_BYTES))
            continue;
        if (rank == item->shape.rank || !read_extent(inside(&f), &extents[rank])) {
            blame(item, SHEAF_ERR_DATA_LOSS, "one of its slices does not parse");
            return true;
        }
        rank++;
    }
    if (c.failed || rank != item->shape.rank) {
        blame(item, SHEAF_ERR_DATA_LOSS, "one of its slices is of another rank");
        return true;
    }
    return sheaf__bundle_item_append(item, extents, 1);
}

static void read_scalar(struct sheaf__bundle_item *item, const struct sheaf__wire_field *f)
{
    switch (f->number) {
    case 1:
        item->dtype = (uint32_t)f->value;
        break;
    case 3:
        item->shard = (int32_t)f->value;
        break;
    case 4:
        item->offset = f->value;
        break;
    case 5:
        item->size = f->value;
        break;
    default:
        break;
    }
}

/* False: no memory. The slices need the rank, so they are read in a second pass: fields may come in
 * any order. */
static bool read_item(struct sheaf__bundle_item *item, const struct sheaf__table_entry *e)
{
    struct sheaf__cursor c = sheaf__cursor_of(e->value, e->value_size), again = c;
    struct sheaf__wire_field f;
    while (sheaf__wire_next(&c, &f)) {
        if (f.type == SHEAF__WIRE_VARINT)
            read_scalar(item, &f);
        else if (is_field(&f, 6, SHEAF__WIRE_FIXED32))
            item->crc = (uint32_t)f.value;
        else if (is_field(&f, 2, SHEAF__WIRE_BYTES))
            read_shape(item, inside(&f));
    }
    if (c.failed)
        blame(item, SHEAF_ERR_DATA_LOSS, "its entry does not parse");
    while (item->fault >= 0 && sheaf__wire_next(&again, &f)) {
        if (is_field(&f, 7, SHEAF__WIRE_BYTES) && !read_slice(item, inside(&f)))
            return false;
    }
    if ((int64_t)item->offset < 0 || (int64_t)item->size < 0 || item->shard < 0)
        blame(item, SHEAF_ERR_DATA_LOSS, "its offset, size or shard is negative");
    if (item->dtype == SHEAF__DTYPE_VARIANT)
        blame(item, SHEAF_ERR_UNIMPLEMENTED, "tensors of dtype variant are not supported");
    else if (item->dtype > INT16_MAX || !sheaf_dtype_size((sheaf_dtype)item->dtype))
        blame(item, SHEAF_ERR_DATA_LOSS, "its dtype is none that can be stored");
    return true;
}

struct reading {
    struct sheaf__bundle_index *index;
    const struct sheaf__table *table;
    bool header;
};

static sheaf_status read_entry(void *user, const struct sheaf__table_entry *e, sheaf_error *err)
{
    struct reading *r = user;
    if (!r->header) {
        if (e->key_size)
            return fault_at(r->table, e->offset, SHEAF_ERR_DATA_LOSS,
                            "the index has no header, whose key is empty and the first of all",
                            err);
        r->header = true;
        return read_header(r->index, r->table, e, err);
    }
    struct sheaf__bundle_item *item = sheaf__bundle_index_append(r->index, e->key, e->key_size);
    if (!item || !read_item(item, e))
        return sheaf__no_memory(err, "the index of a checkpoint");
    item->block = e->offset;
    return SHEAF_OK;
}

sheaf_status sheaf__bundle_index_read(struct sheaf__bundle_index *index,
                                      const struct sheaf__table *table, sheaf_error *err)
{
    struct reading r = {.index = index, .table = table};
    *index = (struct sheaf__bundle_index){0};
    sheaf_status status = sheaf__table_walk(table, read_entry, &r, err);
    if (status >= 0 && !r.header)
        status = fault_at(table, 0, SHEAF_ERR_DATA_LOSS, "the index is empty", err);
    if (status < 0)
        sheaf__bundle_index_free(index);
    return status;
}
