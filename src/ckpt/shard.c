/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/shard.h"

#include "base/error.h"
#include "format/bundle.h"
#include "tensor/frame.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

#include <string.h>

static struct sheaf__slice slice_of(const struct sheaf__saveable *s)
{
    struct sheaf__slice slice = {.full = s->full, .shape = s->shape};
    memcpy(slice.offset, s->offset, sizeof(slice.offset));
    return slice;
}

/* Adds one item; its value lives as long as a frame of its own. */
static sheaf_status write_item(struct sheaf__bundle_writer *w, const struct sheaf__shard_item *item,
                               sheaf__shard_value_fn value, void *user, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    const struct sheaf__saveable *s = &item->saveable;
    struct sheaf__slice slice = slice_of(s);
    struct sheaf__extent extents[SHEAF_MAX_RANK];
    bool whole = sheaf__slice_is_all(&slice);
    sheaf__slice_spell(&slice, extents);
    SHEAF_FRAME
    {
        sheaf_tensor *t = value(user, item);
        status = sheaf_tensor_status(t, err);
        if (status >= 0 && (sheaf_tensor_dtype(t) != s->dtype ||
                            !sheaf_shape_equal(sheaf_tensor_shape(t), s->shape)))
            status = sheaf__error(err, SHEAF_ERR_INTERNAL,
                                  "tensor '%s' is %s of shape %s, planned was %s of shape %s",
                                  item->key, sheaf_dtype_name(sheaf_tensor_dtype(t)),
                                  SHEAF__SHAPE_TEXT(sheaf_tensor_shape(t)),
                                  sheaf_dtype_name(s->dtype), SHEAF__SHAPE_TEXT(s->shape));
        if (status >= 0)
            status = sheaf__bundle_writer_add(w, item->key, strlen(item->key),
                                              whole ? NULL : &s->full, extents, t, err);
    }
    return status;
}

sheaf_status sheaf__shard_write(const char *path, const struct sheaf__shard_item *items,
                                size_t count, sheaf__shard_value_fn value, void *user,
                                sheaf_error *err)
{
    struct sheaf__bundle_writer *w = NULL;
    SHEAF__TRY(sheaf__bundle_writer_open(path, &w, err));
    for (size_t i = 0; i < count; i++) {
        sheaf_status status = write_item(w, &items[i], value, user, err);
        if (status < 0) {
            sheaf__bundle_writer_free(w);
            return status;
        }
    }
    return sheaf__bundle_writer_finish(w, err);
}

static sheaf_status read_item(sheaf_bundle *b, const struct sheaf__shard_item *item,
                              const struct sheaf__shard_taker *taker, sheaf_error *err)
{
    const struct sheaf__saveable *s = &item->saveable;
    const struct sheaf__bundle_item *stored = sheaf__bundle_find(b, item->key);
    struct sheaf__place place = {b->prefix, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    if (!stored)
        return sheaf__error_at(err, SHEAF_ERR_NOT_FOUND, &place, "no tensor '%s' in the checkpoint",
                               item->key);
    if (stored->fault >= 0 && stored->dtype != (uint32_t)s->dtype)
        return sheaf__error_at(
            err, SHEAF_ERR_INVALID_ARGUMENT, &place, "tensor '%s' is of dtype %s, expected %s",
            item->key, sheaf_dtype_name((sheaf_dtype)stored->dtype), sheaf_dtype_name(s->dtype));
    sheaf_status status = SHEAF_OK;
    struct sheaf__slice slice = slice_of(s);
    SHEAF_FRAME
    {
        sheaf_error fault = {0};
        sheaf_tensor *t = sheaf__bundle_read_slice(b, stored, &slice, &fault);
        if (t)
            status = taker->put(taker->user, item, sheaf__tensor_give(t, NULL), err);
        else
            status = sheaf__error_copy(err, &fault);
    }
    return status;
}

sheaf_status sheaf__shard_read_from(sheaf_bundle *b, const struct sheaf__shard_item *items,
                                    size_t count, const struct sheaf__shard_taker *taker,
                                    sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    b->sums = taker->sums;
    for (size_t i = 0; i < count && status >= 0; i++)
        status = read_item(b, &items[i], taker, err);
    b->sums = NULL;
    return status;
}

sheaf_status sheaf__shard_read(const char *path, const struct sheaf__shard_item *items,
                               size_t count, const struct sheaf__shard_taker *taker,
                               sheaf_error *err)
{
    sheaf_bundle *b = NULL;
    SHEAF__TRY(sheaf_bundle_open(path, &b, err));
    sheaf_status status = sheaf__shard_read_from(b, items, count, taker, err);
    sheaf_bundle_free(b);
    return status;
}

sheaf_tensor *sheaf__shard_cut(sheaf_tensor *t, const int64_t *offset,
                               const struct sheaf__saveable *part)
{
    if (!sheaf__tensor_ok(t))
        return sheaf__tensor_first_failed(&t, 1);
    struct sheaf__slice inner = {.full = t->shape, .shape = part->shape};
    int64_t first = 0, strides[SHEAF_MAX_RANK];
    for (int32_t i = 0; i < t->shape.rank; i++) {
        inner.offset[i] = part->offset[i] - offset[i];
        strides[i] = t->strides[i];
        first += inner.offset[i] * strides[i];
    }
    if (!sheaf__slice_is_valid(&inner))
        return sheaf__tensor_fail(SHEAF_ERR_INTERNAL,
                                  "a slice of shape %s does not lie in a tensor of shape %s",
                                  SHEAF__SHAPE_TEXT(part->shape), SHEAF__SHAPE_TEXT(t->shape));
    if (sheaf__slice_is_all(&inner))
        return t;
    sheaf_error err = {0};
    return sheaf__tensor_give(sheaf__tensor_view(t, part->shape, strides, first, &err), &err);
}

size_t sheaf__shard_task_size(const char *device)
{
    const char *end = strstr(device, "/device:");
    return end ? (size_t)(end - device) : strlen(device);
}

bool sheaf__shard_same_task(const char *a, const char *b)
{
    if (!a || !b)
        return a == b;
    const size_t size = sheaf__shard_task_size(a);
    return size == sheaf__shard_task_size(b) && !memcmp(a, b, size);
}
