/* SPDX-License-Identifier: Apache-2.0 */
#include "format/bundle.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Every byte of a checkpoint (formats.md 4.9). */

static sheaf_status verify_meta(const sheaf_bundle *b, sheaf_error *err)
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
        status = sheaf__table_check_meta(&table, err);
    sheaf__unref(map);
    sheaf__free(path);
    return status;
}

/* All slices are there and make up the tensor. */
static sheaf_status verify_slices(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                  sheaf_error *err)
{
    struct sheaf__bundle_piece *pieces = NULL;
    SHEAF__TRY(sheaf__bundle_pieces(b, item, &pieces, err));
    int64_t have = 0, elements = sheaf_shape_elements(item->shape);
    for (int32_t i = 0; i < item->slices; i++)
        have += sheaf_shape_elements(pieces[i].slice.shape);
    sheaf__free(pieces);
    if (have == elements)
        return SHEAF_OK;
    return sheaf__bundle_fault(b, item, err, SHEAF_ERR_DATA_LOSS,
                               "its slices have %lld of %lld elements", (long long)have,
                               (long long)elements);
}

static sheaf_status verify_item(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                sheaf_error *err)
{
    static const struct sheaf__bundle_sink nowhere;
    if (item->dtype == SHEAF__DTYPE_VARIANT && item->fault == SHEAF_ERR_UNIMPLEMENTED)
        return SHEAF_OK; /* not ours to read */
    SHEAF__TRY(sheaf__bundle_check_item(b, item, err));
    if (item->slices)
        return verify_slices(b, item, err);
    if (item->dtype != SHEAF_STRING)
        return sheaf__bundle_stream(b, item, &nowhere, err);
    sheaf_error fault = {0};
    sheaf_tensor *t = sheaf__bundle_strings(b, item, &fault);
    sheaf__unref(t);
    return t ? SHEAF_OK : sheaf__error_copy(err, &fault);
}

static int compare_places(const void *a, const void *b)
{
    const struct sheaf__bundle_item *x = *(const struct sheaf__bundle_item *const *)a;
    const struct sheaf__bundle_item *y = *(const struct sheaf__bundle_item *const *)b;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* No two tensors claim the same bytes. */
static sheaf_status verify_places(sheaf_bundle *b, sheaf_error *err)
{
    size_t count = 0;
    const struct sheaf__bundle_item **items =
        sheaf__alloc_array(b->index.count + 1, sizeof(*items));
    if (!items)
        return sheaf__no_memory(err, "verifying a checkpoint");
    for (size_t i = 0; i < b->index.count; i++) {
        if (!b->index.items[i].slices && b->index.items[i].size)
            items[count++] = &b->index.items[i];
    }
    if (count)
        qsort(items, count, sizeof(*items), compare_places);
    sheaf_status status = SHEAF_OK;
    for (size_t i = 1; i < count && status >= 0; i++) {
        const struct sheaf__bundle_item *last = items[i - 1];
        if (items[i]->shard == last->shard && items[i]->offset - last->offset < last->size)
            status = sheaf__bundle_entry_fault(b, items[i], err, SHEAF_ERR_DATA_LOSS,
                                               "its bytes belong to another tensor, too");
    }
    sheaf__free(items);
    return status;
}

sheaf_status sheaf_bundle_verify(sheaf_bundle *b, sheaf_error *err)
{
    if (!b)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the checkpoint is NULL");
    SHEAF__TRY(verify_meta(b, err));
    if (b->sidecar_fault.status < 0)
        return sheaf__error_copy(err, &b->sidecar_fault);
    SHEAF__TRY(verify_places(b, err));
    for (size_t i = 0; i < b->index.count; i++)
        SHEAF__TRY(verify_item(b, &b->index.items[i], err));
    return SHEAF_OK;
}
