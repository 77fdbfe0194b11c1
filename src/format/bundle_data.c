/* SPDX-License-Identifier: Apache-2.0 */
#include "format/bundle.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "base/mem.h"
#include "tensor/shape.h"
#include "tensor/strings.h"

#include <stdio.h>
#include <string.h>

/* Bytes of tensors that are stored whole. */

/* From here on it pays to wake other threads. */
#define LARGE (4 * SHEAF__BUNDLE_STRIPE)

/* `entry`: of its entry in the index, else of its bytes. */
static sheaf_status SHEAF_PRINTF(6, 0)
    fault_of(const sheaf_bundle *b, const struct sheaf__bundle_item *item, bool entry,
             sheaf_error *err, sheaf_status status, const char *format, va_list args)
{
    /* The key of a slice is no text, but for the name it begins with. */
    const bool slice = sheaf__bundle_is_slice_key(item->key, item->key_size);
    char what[sizeof(err->message)];
    vsnprintf(what, sizeof(what), format, args);
    char *path = entry ? sheaf__bundle_index_path(b->prefix)
                       : sheaf__bundle_data_path(b->prefix, item->shard, b->index.shards);
    const struct sheaf__place place = {path ? path : b->prefix, SHEAF__UNKNOWN,
                                       entry ? item->block : item->offset};
    sheaf__error_at(err, status, &place, "%s '%s': %s", slice ? "a slice of tensor" : "tensor",
                    slice ? item->key + 1 : item->key, what);
    sheaf__free(path);
    return status;
}

sheaf_status sheaf__bundle_fault(const sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                 sheaf_error *err, sheaf_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fault_of(b, item, item->slices > 0, err, status, format, args);
    va_end(args);
    return status;
}

sheaf_status sheaf__bundle_entry_fault(const sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                       sheaf_error *err, sheaf_status status, const char *format,
                                       ...)
{
    va_list args;
    va_start(args, format);
    fault_of(b, item, true, err, status, format, args);
    va_end(args);
    return status;
}

static sheaf_status open_file(sheaf_bundle *b, int32_t shard, struct sheaf__bundle_file *slot,
                              sheaf_error *err)
{
    char *path = sheaf__bundle_data_path(b->prefix, shard, b->index.shards);
    if (!path)
        return sheaf__no_memory(err, "the name of a file");
    struct sheaf__file *file = NULL;
    uint64_t size = 0;
    sheaf_status status = sheaf__file_open(path, SHEAF__FILE_READ, &file, err);
    sheaf__free(path);
    SHEAF__TRY(status);
    status = sheaf__file_size(file, &size, err);
    if (status < 0) {
        (void)sheaf__file_close(file, NULL);
        return status;
    }
    *slot = (struct sheaf__bundle_file){.file = file, .shard = shard, .size = size};
    return SHEAF_OK;
}

/* The data file of a shard, opened when it is first needed. */
static sheaf_status get_file(sheaf_bundle *b, int32_t shard, const struct sheaf__bundle_file **file,
                             sheaf_error *err)
{
    for (size_t i = 0; i < SHEAF__BUNDLE_FILES; i++) {
        if (b->files[i].file && b->files[i].shard == shard) {
            *file = &b->files[i];
            return SHEAF_OK;
        }
    }
    struct sheaf__bundle_file *slot = &b->files[b->next_file++ % SHEAF__BUNDLE_FILES];
    if (slot->file)
        (void)sheaf__file_close(slot->file, NULL);
    slot->file = NULL;
    SHEAF__TRY(open_file(b, shard, slot, err));
    *file = slot;
    return SHEAF_OK;
}

static sheaf_status check_size(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                               sheaf_error *err)
{
    int64_t elements = sheaf_shape_elements(item->shape);
    if (item->dtype == SHEAF_STRING) {
        /* A length of one byte for every element, and the checksum of the lengths. */
        if (item->size < 4 || (uint64_t)elements > item->size - 4)
            return sheaf__bundle_entry_fault(b, item, err, SHEAF_ERR_DATA_LOSS,
                                             "stored size %llu is too small for %lld strings",
                                             (unsigned long long)item->size, (long long)elements);
        return SHEAF_OK;
    }
    size_t expected;
    if (sheaf__mul_overflows((size_t)elements, sheaf_dtype_size((sheaf_dtype)item->dtype),
                             &expected) ||
        expected != item->size)
        return sheaf__bundle_entry_fault(
            b, item, err, SHEAF_ERR_DATA_LOSS, "stored size %llu does not fit shape %s of %s",
            (unsigned long long)item->size, SHEAF__SHAPE_TEXT(item->shape),
            sheaf_dtype_name((sheaf_dtype)item->dtype));
    return SHEAF_OK;
}

sheaf_status sheaf__bundle_check_item(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                      sheaf_error *err)
{
    if (item->fault < 0)
        return sheaf__bundle_entry_fault(b, item, err, item->fault, "%s", item->why);
    if (item->slices)
        return SHEAF_OK;
    const struct sheaf__bundle_file *file;
    SHEAF__TRY(check_size(b, item, err));
    SHEAF__TRY(get_file(b, item->shard, &file, err));
    if (item->size && (item->offset > file->size || item->size > file->size - item->offset))
        return sheaf__bundle_fault(b, item, err, SHEAF_ERR_OUT_OF_RANGE,
                                   "its %llu bytes reach past the end of the file (%llu bytes)",
                                   (unsigned long long)item->size, (unsigned long long)file->size);
    return SHEAF_OK;
}

sheaf_status sheaf__bundle_read_exactly(const sheaf_bundle *b,
                                        const struct sheaf__bundle_item *item,
                                        struct sheaf__file *file, uint64_t at, void *out,
                                        size_t size, sheaf_error *err)
{
    size_t got = 0;
    SHEAF__TRY(sheaf__file_read_at(file, item->offset + at, out, size, &got, err));
    if (got < size)
        return sheaf__bundle_fault(b, item, err, SHEAF_ERR_OUT_OF_RANGE,
                                   "the file became shorter while it was read");
    return SHEAF_OK;
}

static sheaf_status read_exactly(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                 uint64_t at, void *out, size_t size, sheaf_error *err)
{
    const struct sheaf__bundle_file *file;
    SHEAF__TRY(get_file(b, item->shard, &file, err));
    return sheaf__bundle_read_exactly(b, item, file->file, at, out, size, err);
}

sheaf_status sheaf__bundle_check_crc(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                     uint32_t found, sheaf_error *err)
{
    uint32_t stored = sheaf__crc32c_unmask(item->crc);
    if (stored == found)
        return SHEAF_OK;
    return sheaf__bundle_fault(b, item, err, SHEAF_ERR_DATA_LOSS,
                               "checksum mismatch: stored %08x, found %08x", stored, found);
}

sheaf_status sheaf__bundle_scratch(sheaf_bundle *b, sheaf_error *err)
{
    if (!b->scratch)
        b->scratch = sheaf__alloc_aligned(SHEAF__BUNDLE_SCRATCH);
    return b->scratch ? SHEAF_OK : sheaf__no_memory(err, "reading a checkpoint");
}

sheaf_status sheaf__bundle_fetch(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                 int64_t first, int64_t count, void *out, sheaf_error *err)
{
    const sheaf_dtype dtype = (sheaf_dtype)item->dtype;
    const size_t width = sheaf_dtype_size(dtype), size = (size_t)count * width;
    SHEAF__TRY(read_exactly(b, item, (uint64_t)first * width, out, size, err));
    if (b->index.big_endian)
        sheaf__dtype_swap(dtype, out, size);
    return SHEAF_OK;
}

static sheaf_status read_large(sheaf_bundle *b, const struct sheaf__bundle_item *item, void *out,
                               uint32_t *crc, sheaf_error *err)
{
    const struct sheaf__bundle_file *file;
    SHEAF__TRY(get_file(b, item->shard, &file, err));
    return sheaf__bundle_read_stripes(b, item, file->file, out, crc, err);
}

/* The bytes of an item, or of a part of one, which fit the file. */
static sheaf_status read_bytes(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                               const struct sheaf__bundle_sink *sink, uint32_t *crc,
                               sheaf_error *err)
{
    if (sink->direct && item->size >= LARGE)
        return read_large(b, item, sink->direct, crc, err);
    size_t width = sheaf_dtype_size((sheaf_dtype)item->dtype);
    if (!sink->direct)
        SHEAF__TRY(sheaf__bundle_scratch(b, err));
    *crc = 0;
    for (uint64_t at = 0; at < item->size;) {
        const uint64_t left = item->size - at;
        size_t size = left < SHEAF__BUNDLE_SCRATCH ? (size_t)left : SHEAF__BUNDLE_SCRATCH;
        uint8_t *to = sink->direct ? (uint8_t *)sink->direct + at : b->scratch;
        SHEAF__TRY(read_exactly(b, item, at, to, size, err));
        *crc = sheaf__crc32c_extend(*crc, to, size);
        if (b->index.big_endian)
            sheaf__dtype_swap((sheaf_dtype)item->dtype, to, size);
        if (!sink->direct && sink->take)
            sink->take(sink->user, to, (int64_t)(at / width), (int64_t)(size / width));
        at += size;
    }
    return SHEAF_OK;
}

sheaf_status sheaf__bundle_stream(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                  const struct sheaf__bundle_sink *sink, sheaf_error *err)
{
    uint32_t crc;
    SHEAF__TRY(sheaf__bundle_check_item(b, item, err));
    SHEAF__TRY(read_bytes(b, item, sink, &crc, err));
    return sheaf__bundle_check_crc(b, item, crc, err);
}

sheaf_status sheaf__bundle_stream_range(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                        uint64_t at, uint64_t size,
                                        const struct sheaf__bundle_sink *sink, uint32_t *crc,
                                        sheaf_error *err)
{
    struct sheaf__bundle_item range = *item;
    SHEAF__TRY(sheaf__bundle_check_item(b, item, err));
    range.offset += at;
    range.size = size;
    return read_bytes(b, &range, sink, crc, err);
}

/* Strings: the lengths as varints, the masked checksum of the lengths, the bytes. */

/* How a length enters the checksums: 4 bytes, or 8 if it needs them, in the byte order of the file.
 */
static uint32_t extend_length(uint32_t crc, uint64_t length, bool big_endian)
{
    uint8_t bytes[8];
    size_t size = length > UINT32_MAX ? 8 : 4;
    for (size_t i = 0; i < size; i++)
        bytes[big_endian ? size - 1 - i : i] = (uint8_t)(length >> (8 * i));
    return sheaf__crc32c_extend(crc, bytes, size);
}

/* Fills the views of `out` into `data`; `*crc` is that of the lengths, then of all. */
static sheaf_status cut_strings(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                const uint8_t *data, sheaf_bytes *out, sheaf_error *err)
{
    struct sheaf__cursor c = sheaf__cursor_of(data, (size_t)item->size);
    int64_t count = sheaf_shape_elements(item->shape);
    uint32_t crc = 0, stored = 0;
    uint64_t total = 0, length;
    for (int64_t i = 0; i < count; i++) {
        if (!sheaf__cursor_varint(&c, &length) || length > item->size - total)
            return sheaf__bundle_fault(b, item, err, SHEAF_ERR_DATA_LOSS,
                                       "the length of string %lld does not fit its %llu bytes",
                                       (long long)i, (unsigned long long)item->size);
        out[i].size = (size_t)length;
        total += length;
        crc = extend_length(crc, length, b->index.big_endian);
    }
    if (!sheaf__cursor_fixed32(&c, &stored) || total != sheaf__cursor_left(&c))
        return sheaf__bundle_fault(b, item, err, SHEAF_ERR_DATA_LOSS,
                                   "its strings are %llu bytes, its entry has room for %zu",
                                   (unsigned long long)total, sheaf__cursor_left(&c));
    const uint8_t *sum = c.at - 4;
    if (b->index.big_endian)
        stored = __builtin_bswap32(stored);
    if (sheaf__crc32c_unmask(stored) != crc)
        return sheaf__bundle_fault(b, item, err, SHEAF_ERR_DATA_LOSS,
                                   "checksum mismatch in the lengths: stored %08x, found %08x",
                                   sheaf__crc32c_unmask(stored), crc);
    crc = sheaf__crc32c_extend(crc, sum, 4 + (size_t)total);
    const char *text = (const char *)c.at;
    for (int64_t i = 0; i < count; i++) {
        out[i].data = text;
        text += out[i].size;
    }
    return sheaf__bundle_check_crc(b, item, crc, err);
}

sheaf_tensor *sheaf__bundle_strings(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                    sheaf_error *err)
{
    if (sheaf__bundle_check_item(b, item, err) < 0)
        return NULL;
    struct sheaf__buffer *bytes = sheaf__buffer_new(NULL, (size_t)item->size, err);
    if (!bytes)
        return NULL;
    sheaf_tensor *t = NULL;
    struct sheaf__device *host = sheaf__device_host(err);
    if (host && read_exactly(b, item, 0, bytes->data, (size_t)item->size, err) >= 0)
        t = sheaf__tensor_new(SHEAF_STRING, item->shape, host, err);
    if (t && (cut_strings(b, item, bytes->data, sheaf__tensor_out(t), err) < 0 ||
              (item->size > 4 && sheaf__string_keep(t, bytes, err) < 0))) {
        sheaf__unref(t);
        t = NULL;
    }
    sheaf__unref(bytes);
    return t;
}
