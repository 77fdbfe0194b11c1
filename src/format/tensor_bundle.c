/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "format/bundle.h"
#include "format/tensor_file.h"

/* TensorFlow's checkpoints as a file of tensors. */

struct bundle_file {
    sheaf_tensor_file file;
    sheaf_bundle *bundle;
};

static sheaf_bundle *bundle_of(sheaf_tensor_file *f)
{
    return ((struct bundle_file *)f)->bundle;
}

static const struct sheaf__bundle_item *item_of(sheaf_tensor_file *f,
                                                const struct sheaf__tensor_entry *e)
{
    return &bundle_of(f)->index.items[e->number];
}

static void free_file(sheaf_tensor_file *f)
{
    sheaf_bundle_free(bundle_of(f));
    sheaf__tensor_file_end(f);
}

static sheaf_tensor *whole(sheaf_tensor_file *f, const struct sheaf__tensor_entry *e,
                           sheaf_error *err)
{
    return sheaf__bundle_read_slice(bundle_of(f), item_of(f, e), NULL, err);
}

static sheaf_status check(sheaf_tensor_file *f, const struct sheaf__tensor_entry *e,
                          sheaf_error *err)
{
    return sheaf__bundle_check_sums(bundle_of(f), item_of(f, e), err);
}

static sheaf_status part(sheaf_tensor_file *f, const struct sheaf__tensor_entry *e,
                         const struct sheaf__slice *slice, void *out, sheaf_error *err)
{
    return sheaf__bundle_read_part(bundle_of(f), item_of(f, e), slice, out, err);
}

static const struct sheaf__tensor_format checkpoint = {
    .name = "checkpoint", .free = free_file, .whole = whole, .check = check, .part = part};

sheaf_bundle *sheaf__tensor_bundle(sheaf_tensor_file *f)
{
    return f->format == &checkpoint ? bundle_of(f) : NULL;
}

/* Where the first of its slices lies, if it has any. */
static const struct sheaf__bundle_item *first_bytes(const sheaf_bundle *b,
                                                    const struct sheaf__bundle_item *item)
{
    struct sheaf__buf key = {0};
    const struct sheaf__bundle_item *found = NULL;
    if (!item->slices || item->fault < 0)
        return item;
    sheaf__slice_key(&key, item->key, item->key_size, sheaf__bundle_extents(item, 0),
                     item->shape.rank);
    if (!key.failed)
        found = sheaf__bundle_index_find(&b->index, key.data, key.size);
    sheaf__buf_free(&key);
    return found ? found : item;
}

/* Bytes of all slices together; strings, whose lengths differ, are not counted. */
static uint64_t numbers(const struct sheaf__bundle_item *item)
{
    const sheaf_dtype dtype = (sheaf_dtype)item->dtype;
    if (item->fault < 0 || dtype == SHEAF_STRING)
        return 0;
    return (uint64_t)sheaf_shape_elements(item->shape) * sheaf_dtype_size(dtype);
}

static sheaf_status add_items(struct bundle_file *f, sheaf_error *err)
{
    const sheaf_bundle *b = f->bundle;
    for (size_t i = b->first; i < b->index.count; i++) {
        const struct sheaf__bundle_item *item = &b->index.items[i];
        const struct sheaf__bundle_item *first = first_bytes(b, item);
        struct sheaf__tensor_entry *e = sheaf__tensor_file_add(&f->file, err);
        if (!e)
            return SHEAF_ERR_RESOURCE_EXHAUSTED;
        *e = (struct sheaf__tensor_entry){.name = item->key,
                                          .dtype = (sheaf_dtype)item->dtype,
                                          .shape = item->shape,
                                          .bytes = item->slices ? numbers(item) : item->size,
                                          .fault = item->fault,
                                          .why = item->why,
                                          .place = {(uint64_t)first->shard, first->offset},
                                          .number = i};
    }
    return SHEAF_OK;
}

sheaf_status sheaf__tensor_bundle_open(const char *path, sheaf_tensor_file **file, sheaf_error *err)
{
    struct bundle_file *f = sheaf__tensor_file_new(&checkpoint, sizeof(*f), path, err);
    if (!f)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    sheaf_status status = sheaf_bundle_open(path, &f->bundle, err);
    if (status >= 0)
        status = add_items(f, err);
    if (status < 0) {
        free_file(&f->file);
        return status;
    }
    *file = &f->file;
    return SHEAF_OK;
}
