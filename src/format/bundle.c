/* SPDX-License-Identifier: Apache-2.0 */
#include "format/bundle.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "base/mem.h"
#include "tensor/frame.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

void sheaf__bundle_close_files(sheaf_bundle *b)
{
    for (size_t i = 0; i < SHEAF__BUNDLE_FILES; i++) {
        if (b->files[i].file)
            (void)sheaf__file_close(b->files[i].file, NULL);
        b->files[i].file = NULL;
    }
    sheaf__free(b->scratch);
    b->scratch = NULL;
}

void sheaf_bundle_free(sheaf_bundle *b)
{
    if (!b)
        return;
    sheaf__bundle_close_files(b);
    sheaf__bundle_index_free(&b->index);
    sheaf__sidecar_free(&b->sidecar);
    sheaf__free(b->prefix);
    sheaf__free(b);
}

static sheaf_status read_index(sheaf_bundle *b, sheaf_error *err)
{
    char *path = sheaf__bundle_index_path(b->prefix);
    if (!path)
        return sheaf__no_memory(err, "the name of a file");
    struct sheaf__map *map = NULL;
    struct sheaf__table table;
    sheaf_status status = sheaf__file_load(path, &map, err);
    if (status >= 0)
        status = sheaf__table_open(&table, map->data, map->size, path, err);
    if (status >= 0)
        status = sheaf__bundle_index_read(&b->index, &table, err);
    /* Without what stands beside it, TensorFlow's part can still be looked at. */
    if (status >= 0)
        (void)sheaf__sidecar_read(b->prefix, sheaf__crc32c(map->data, map->size), &b->sidecar,
                                  &b->sidecar_fault);
    sheaf__unref(map);
    sheaf__free(path);
    return status;
}

static int compare_numbers(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Counts the data files that items are in. */
static sheaf_status count_shards(sheaf_bundle *b, sheaf_error *err)
{
    size_t count = 0;
    int32_t *shards = sheaf__alloc_array(b->index.count + 1, sizeof(*shards));
    if (!shards)
        return sheaf__no_memory(err, "a checkpoint");
    for (size_t i = 0; i < b->index.count; i++)
        if (!b->index.items[i].slices)
            shards[count++] = b->index.items[i].shard;
    if (count)
        qsort(shards, count, sizeof(*shards), compare_numbers);
    for (size_t i = 0; i < count; i++)
        b->shards += i == 0 || shards[i] != shards[i - 1];
    sheaf__free(shards);
    return SHEAF_OK;
}

/* The name of a file of a checkpoint in place of the checkpoint's. */
static sheaf_status tell_prefix(const char *path, sheaf_error *err)
{
    const size_t size = sheaf__bundle_prefix_size(path);
    if (!path[size])
        return SHEAF_ERR_NOT_FOUND;
    const struct sheaf__place place = {path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    return sheaf__error_at(
        err, SHEAF_ERR_NOT_FOUND, &place,
        "the name of a file of a checkpoint, expected that of the checkpoint: '%.*s'", (int)size,
        path);
}

sheaf_status sheaf_bundle_open(const char *path, sheaf_bundle **bundle, sheaf_error *err)
{
    if (!path)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "a checkpoint without a path");
    sheaf_bundle *b = sheaf__calloc(1, sizeof(*b));
    if (!b)
        return sheaf__no_memory(err, "a checkpoint");
    b->prefix = sheaf__strdup(path);
    sheaf_status status = b->prefix ? read_index(b, err) : sheaf__no_memory(err, "a checkpoint");
    if (status >= 0)
        status = count_shards(b, err);
    if (status < 0) {
        sheaf_bundle_free(b);
        return status == SHEAF_ERR_NOT_FOUND ? tell_prefix(path, err) : status;
    }
    /* Slices of other tensors come first: their keys start with a zero byte. */
    while (
        b->first < b->index.count &&
        sheaf__bundle_is_slice_key(b->index.items[b->first].key, b->index.items[b->first].key_size))
        b->first++;
    *bundle = b;
    return SHEAF_OK;
}

sheaf_status sheaf_bundle_get(const sheaf_bundle *b, size_t i, sheaf_bundle_entry *entry)
{
    if (!b || i >= b->index.count - b->first)
        return SHEAF_END;
    const struct sheaf__bundle_item *item = &b->index.items[b->first + i];
    sheaf_dtype dtype = (sheaf_dtype)item->dtype;
    bool known = item->dtype <= INT16_MAX && sheaf_dtype_size(dtype);
    *entry = (sheaf_bundle_entry){
        .key = item->key,
        .dtype = known ? dtype : SHEAF_INVALID_DTYPE,
        .shape = item->shape,
        .bytes = item->slices ? -1 : (int64_t)item->size,
        .shard = item->shard,
        .slices = item->slices,
    };
    return SHEAF_OK;
}

int sheaf_bundle_shards(const sheaf_bundle *b)
{
    return b ? b->shards : 0;
}

const char *sheaf_bundle_description(const sheaf_bundle *b)
{
    return b ? b->sidecar.description : NULL;
}

const struct sheaf__bundle_item *sheaf__bundle_find(const sheaf_bundle *b, const char *key)
{
    return sheaf__bundle_index_find(&b->index, key, strlen(key));
}

sheaf_status sheaf_bundle_read(sheaf_bundle *b, const char *key, sheaf_tensor **tensor,
                               sheaf_error *err)
{
    if (!b || !key)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the %s is NULL",
                            b ? "key of a tensor" : "checkpoint");
    const struct sheaf__bundle_item *item = sheaf__bundle_find(b, key);
    if (!item) {
        struct sheaf__place place = {b->prefix, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
        return sheaf__error_at(err, SHEAF_ERR_NOT_FOUND, &place, "no tensor '%s' in the checkpoint",
                               key);
    }
    sheaf_error fault = {0};
    sheaf_tensor *t = sheaf__bundle_read_slice(b, item, NULL, &fault);
    if (!t)
        return sheaf__error_copy(err, &fault);
    t = sheaf__tensor_give(t, NULL);
    SHEAF__TRY(sheaf_tensor_status(t, err));
    *tensor = t;
    return SHEAF_OK;
}
