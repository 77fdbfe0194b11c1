/* SPDX-License-Identifier: Apache-2.0 */
#include "format/bundle.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "base/mem.h"
#include "tensor/device.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

#include <string.h>

#define CHUNK (1 << 20) /* small tensors are gathered up to it, large ones cut into it */

struct sheaf__bundle_writer {
    char *prefix;
    struct sheaf__device *host;
    struct sheaf__file *file; /* beside its place until it is committed */
    uint64_t size;            /* of the data file so far, `pending` included */
    uint8_t *pending;         /* CHUNK bytes; `filled` of them are not written yet */
    size_t filled;
    /* The tensor that is being added: where it begins, its checksum so far, its item but for place and checksum. */
    uint64_t start;
    uint32_t crc;
    struct sheaf__buf key;
    sheaf_dtype dtype;
    sheaf_shape shape;
    struct sheaf__bundle_index index;
};

void sheaf__bundle_writer_free(struct sheaf__bundle_writer *w)
{
    if (!w)
        return;
    if (w->file)
        (void)sheaf__file_close(w->file, NULL); /* drops it: it was not committed */
    sheaf__bundle_index_free(&w->index);
    sheaf__buf_free(&w->key);
    sheaf__free(w->pending);
    sheaf__free(w->prefix);
    sheaf__free(w);
}

sheaf_status sheaf__bundle_writer_open(const char *prefix, struct sheaf__bundle_writer **writer,
                                       sheaf_error *err)
{
    struct sheaf__bundle_writer *w = sheaf__calloc(1, sizeof(*w));
    char *path = sheaf__bundle_data_path(prefix, 0, 1);
    sheaf_status status = SHEAF_OK;
    if (w) {
        w->host = sheaf__device_host(NULL);
        w->prefix = sheaf__strdup(prefix);
        w->pending = sheaf__alloc_aligned(CHUNK);
        w->index.shards = 1;
    }
    if (!w || !path || !w->host || !w->prefix || !w->pending)
        status = sheaf__no_memory(err, "writing a checkpoint");
    else
        status = sheaf__file_open(path, SHEAF__FILE_REPLACE, &w->file, err);
    sheaf__free(path);
    if (status < 0) {
        sheaf__bundle_writer_free(w);
        return status;
    }
    *writer = w;
    return SHEAF_OK;
}

static sheaf_status flush(struct sheaf__bundle_writer *w, sheaf_error *err)
{
    size_t size = w->filled;
    w->filled = 0;
    return size ? sheaf__file_write(w->file, w->pending, size, err) : SHEAF_OK;
}

/* CHUNK bytes of the present tensor. */
struct chunk {
    struct sheaf__bundle_writer *writer;
    const uint8_t *bytes;
    sheaf_status status; /* of writing them */
    sheaf_error *err;
};

/* One thread writes while another takes the checksum; where there is one, it finds them in the cache. */
static void write_or_sum(size_t which, void *user)
{
    struct chunk *c = user;
    struct sheaf__bundle_writer *w = c->writer;
    if (which == 0)
        c->status = sheaf__file_write(w->file, c->bytes, CHUNK, c->err);
    else
        w->crc = sheaf__crc32c_extend(w->crc, c->bytes, CHUNK);
}

static sheaf_status put_chunk(struct sheaf__bundle_writer *w, const uint8_t *bytes,
                              sheaf_error *err)
{
    struct chunk c = {.writer = w, .bytes = bytes, .err = err};
    SHEAF__TRY(flush(w, err));
    sheaf__device_run(w->host, 2, write_or_sum, &c);
    return c.status;
}

static sheaf_status put_part(struct sheaf__bundle_writer *w, const uint8_t *bytes, size_t size,
                             sheaf_error *err)
{
    w->crc = sheaf__crc32c_extend(w->crc, bytes, size);
    if (size > CHUNK - w->filled)
        SHEAF__TRY(flush(w, err));
    memcpy(w->pending + w->filled, bytes, size);
    w->filled += size;
    return SHEAF_OK;
}

/* Appends bytes of the present tensor. */
static sheaf_status put(struct sheaf__bundle_writer *w, const void *data, size_t size,
                        sheaf_error *err)
{
    const uint8_t *bytes = data;
    while (size) {
        size_t part = size < CHUNK ? size : CHUNK;
        SHEAF__TRY(part == CHUNK ? put_chunk(w, bytes, err) : put_part(w, bytes, part, err));
        w->size += part;
        bytes += part;
        size -= part;
    }
    return SHEAF_OK;
}

/* Writes bytes that enter the checksum in another form: it is left alone. */
static sheaf_status put_unsummed(struct sheaf__bundle_writer *w, const void *data, size_t size,
                                 sheaf_error *err)
{
    uint32_t crc = w->crc;
    sheaf_status status = put(w, data, size, err);
    w->crc = crc;
    return status;
}

/* Lengths as varints, their masked checksum, the bytes; the checksums take a length as 4 bytes, or
 * as 8 if it needs them. */
static sheaf_status put_strings(struct sheaf__bundle_writer *w, const sheaf_bytes *strings,
                                int64_t count, sheaf_error *err)
{
    uint32_t crc = 0;
    for (int64_t i = 0; i < count; i++) {
        uint8_t varint[10], fixed[8];
        uint64_t length = strings[i].size;
        size_t size = sheaf__varint_put(varint, length);
        SHEAF__TRY(put_unsummed(w, varint, size, err));
        sheaf__store64(fixed, length);
        crc = sheaf__crc32c_extend(crc, fixed, length > UINT32_MAX ? 8 : 4);
    }
    uint8_t sum[4];
    sheaf__store32(sum, sheaf__crc32c_mask(crc));
    w->crc = crc;
    SHEAF__TRY(put(w, sum, sizeof(sum), err));
    for (int64_t i = 0; i < count; i++)
        SHEAF__TRY(put(w, strings[i].data, strings[i].size, err));
    return SHEAF_OK;
}

/* What is to be added: the whole of a tensor, or where `full` is not NULL a slice. */
struct part {
    const void *key;
    size_t key_size;
    sheaf_dtype dtype;
    sheaf_shape shape;
    const sheaf_shape *full;
    const struct sheaf__extent *extents;
};

static int shown(const struct part *p)
{
    return (int)(p->key_size > 100 ? 100 : p->key_size);
}

/* Begins a tensor, or a slice, under the key that it is stored under. */
static sheaf_status begin_at(struct sheaf__bundle_writer *w, const struct part *p, const void *key,
                             size_t key_size, sheaf_error *err)
{
    if (sheaf__bundle_index_added(&w->index, key, key_size))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "tensor '%.*s' was added before",
                            shown(p), (const char *)p->key);
    sheaf__buf_clear(&w->key);
    sheaf__buf_bytes(&w->key, key, key_size);
    w->dtype = p->dtype;
    w->shape = p->shape;
    w->start = w->size;
    w->crc = 0;
    return sheaf__buf_check(&w->key, "the index of a checkpoint", err);
}

sheaf_status sheaf__bundle_writer_put(struct sheaf__bundle_writer *w, const void *data, size_t size,
                                      sheaf_error *err)
{
    return put(w, data, size, err);
}

sheaf_status sheaf__bundle_writer_end(struct sheaf__bundle_writer *w, sheaf_error *err)
{
    struct sheaf__bundle_item *item = sheaf__bundle_index_add(&w->index, w->key.data, w->key.size);
    if (!item)
        return sheaf__no_memory(err, "the index of a checkpoint");
    item->dtype = (uint32_t)w->dtype;
    item->shape = w->shape;
    item->offset = w->start;
    item->size = w->size - w->start;
    item->crc = sheaf__crc32c_mask(w->crc);
    return SHEAF_OK;
}

/* Notes one more slice in the entry of the whole tensor. */
static sheaf_status note_slice(struct sheaf__bundle_writer *w, const struct part *p,
                               sheaf_error *err)
{
    struct sheaf__bundle_item *item = sheaf__bundle_index_added(&w->index, p->key, p->key_size);
    if (!item) {
        item = sheaf__bundle_index_add(&w->index, p->key, p->key_size);
        if (!item)
            return sheaf__no_memory(err, "the index of a checkpoint");
        item->dtype = (uint32_t)p->dtype;
        item->shape = *p->full;
    }
    if (!sheaf__bundle_item_append(item, p->extents, 1))
        return sheaf__no_memory(err, "the index of a checkpoint");
    return SHEAF_OK;
}

/* Begins a slice: it must be of the same tensor as those before it. */
static sheaf_status begin_slice(struct sheaf__bundle_writer *w, const struct part *p,
                                sheaf_error *err)
{
    const struct sheaf__bundle_item *item =
        sheaf__bundle_index_added(&w->index, p->key, p->key_size);
    if (item && (!item->slices || item->dtype != (uint32_t)p->dtype ||
                 !sheaf_shape_equal(item->shape, *p->full)))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "a slice of tensor '%.*s' was added that was added before in another "
                            "form",
                            shown(p), (const char *)p->key);
    struct sheaf__buf key = {0};
    sheaf__slice_key(&key, p->key, p->key_size, p->extents, p->full->rank);
    sheaf_status status = sheaf__buf_check(&key, "the key of a slice", err);
    if (status >= 0)
        status = begin_at(w, p, key.data, key.size, err);
    sheaf__buf_free(&key);
    return status < 0 ? status : note_slice(w, p, err);
}

static sheaf_status begin(struct sheaf__bundle_writer *w, const struct part *p, sheaf_error *err)
{
    if (p->key_size == 0 || sheaf__bundle_is_slice_key(p->key, p->key_size))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "a tensor's key is empty or starts with a zero byte");
    if (!p->full)
        return begin_at(w, p, p->key, p->key_size, err);
    struct sheaf__slice slice;
    if (!sheaf__slice_from(*p->full, p->extents, &slice) ||
        !sheaf_shape_equal(slice.shape, p->shape))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "a slice of shape %s does not fit where it shall lie in tensor '%.*s' "
                            "of shape %s",
                            SHEAF__SHAPE_TEXT(p->shape), shown(p), (const char *)p->key,
                            SHEAF__SHAPE_TEXT(*p->full));
    return sheaf__slice_is_all(&slice) ? begin_at(w, p, p->key, p->key_size, err)
                                       : begin_slice(w, p, err);
}

sheaf_status sheaf__bundle_writer_begin(struct sheaf__bundle_writer *w, const char *key,
                                        sheaf_dtype dtype, const struct sheaf__slice *slice,
                                        sheaf_error *err)
{
    struct sheaf__extent extents[SHEAF_MAX_RANK];
    const bool whole = sheaf__slice_is_all(slice);
    sheaf__slice_spell(slice, extents);
    const struct part part = {.key = key,
                              .key_size = strlen(key),
                              .dtype = dtype,
                              .shape = slice->shape,
                              .full = whole ? NULL : &slice->full,
                              .extents = extents};
    return begin(w, &part, err);
}

sheaf_status sheaf__bundle_writer_add(struct sheaf__bundle_writer *w, const void *key,
                                      size_t key_size, const sheaf_shape *full,
                                      const struct sheaf__extent *extents,
                                      const sheaf_tensor *tensor, sheaf_error *err)
{
    SHEAF__TRY(sheaf_tensor_status(tensor, err));
    const struct part part = {.key = key,
                              .key_size = key_size,
                              .dtype = sheaf_tensor_dtype(tensor),
                              .shape = sheaf_tensor_shape(tensor),
                              .full = full,
                              .extents = extents};
    sheaf_error fault = {0};
    SHEAF__TRY(begin(w, &part, err));
    const void *data = sheaf__tensor_host(tensor, &fault);
    if (!data)
        return sheaf__error_copy(err, &fault);
    const int64_t count = sheaf_tensor_elements(tensor);
    if (part.dtype == SHEAF_STRING)
        SHEAF__TRY(put_strings(w, data, count, err));
    else
        SHEAF__TRY(put(w, data, (size_t)count * sheaf_dtype_size(part.dtype), err));
    return sheaf__bundle_writer_end(w, err);
}

/* Puts data and index in their places. */
static sheaf_status commit(struct sheaf__bundle_writer *w, const struct sheaf__buf *index,
                           sheaf_error *err)
{
    sheaf_status status = sheaf__file_commit(w->file, err);
    w->file = NULL;
    SHEAF__TRY(status);
    char *path = sheaf__bundle_index_path(w->prefix);
    status = path ? sheaf__file_replace(path, index->data, index->size, err)
                  : sheaf__no_memory(err, "the name of a file");
    sheaf__free(path);
    if (status < 0)
        (void)sheaf__bundle_delete(w->prefix, NULL);
    return status;
}

sheaf_status sheaf__bundle_writer_finish(struct sheaf__bundle_writer *w, sheaf_error *err)
{
    struct sheaf__table_writer table;
    sheaf__table_begin(&table);
    sheaf_status status = flush(w, err);
    if (status >= 0)
        status = sheaf__bundle_index_write(&w->index, &table, err);
    if (status >= 0)
        status = commit(w, &table.file, err);
    sheaf__table_writer_free(&table);
    sheaf__bundle_writer_free(w);
    return status;
}
