/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/convert.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/sweep.h"
#include "format/npy.h"
#include "format/zip.h"
#include "tensor/frame.h"
#include "tensor/tensor.h"

#include <string.h>

/* Tensors as an archive of NumPy's. */

static sheaf_status put(void *user, const void *data, size_t size, sheaf_error *err)
{
    return sheaf__zip_writer_put(user, data, size, err);
}

static sheaf_status put_header(struct sheaf__zip_writer *w, const struct sheaf__convert_item *item,
                               size_t width, sheaf_error *err)
{
    struct sheaf__buf head = {0};
    sheaf_status status =
        sheaf__npy_header(&head, item->out.dtype, item->out.shape, width, item->out.text, err);
    if (status < 0)
        sheaf__error_prefix(err, "tensor '%.60s'", item->out.name);
    else
        status = sheaf__zip_writer_put(w, head.data, head.size, err);
    sheaf__buf_free(&head);
    return status;
}

static size_t width_of(const sheaf_bytes *text, bool characters)
{
    size_t count = 0;
    for (size_t at = 0, n; at < text->size && characters; count++, at += n + !n)
        n = sheaf__utf8_size(text->data + at, text->size - at);
    return characters ? count : text->size;
}

/* The longest of some strings. NumPy fills the others up with zeros, and would take zeros of their own for those. */
static sheaf_status measure(const struct sheaf__convert_item *item, const sheaf_bytes *strings,
                            int64_t count, size_t *width, sheaf_error *err)
{
    *width = 1;
    for (int64_t i = 0; i < count; i++) {
        if (strings[i].size && strings[i].data[strings[i].size - 1] == '\0')
            return sheaf__error(
                err, SHEAF_ERR_UNIMPLEMENTED,
                "tensor '%.60s': string %lld ends in a zero byte, which is lost in NumPy's "
                "files",
                item->out.name, (long long)i);
        const size_t own = width_of(&strings[i], item->out.text);
        *width = own > *width ? own : *width;
    }
    return SHEAF_OK;
}

static sheaf_status put_zeros(struct sheaf__zip_writer *w, size_t count, sheaf_error *err)
{
    static const uint8_t zeros[256];
    for (size_t part; count; count -= part) {
        part = count < sizeof(zeros) ? count : sizeof(zeros);
        SHEAF__TRY(sheaf__zip_writer_put(w, zeros, part, err));
    }
    return SHEAF_OK;
}

/* As four bytes a character. */
static sheaf_status put_characters(struct sheaf__zip_writer *w, const sheaf_bytes *text,
                                   sheaf_error *err)
{
    for (size_t at = 0, n; at < text->size; at += n + !n) {
        uint8_t bytes[4];
        uint32_t point;
        n = sheaf__utf8_get(text->data + at, text->size - at, &point);
        sheaf__store32(bytes, point);
        SHEAF__TRY(sheaf__zip_writer_put(w, bytes, sizeof(bytes), err));
    }
    return SHEAF_OK;
}

static sheaf_status put_strings(struct sheaf__zip_writer *w, const struct sheaf__convert_item *item,
                                const sheaf_tensor *t, sheaf_error *err)
{
    const bool characters = item->out.text;
    const sheaf_bytes *strings = sheaf__tensor_host(t, err);
    const int64_t count = sheaf_tensor_elements(t);
    size_t width;
    if (!strings)
        return sheaf__no_memory(err, "a tensor of strings");
    SHEAF__TRY(measure(item, strings, count, &width, err));
    SHEAF__TRY(put_header(w, item, width, err));
    for (int64_t i = 0; i < count; i++) {
        const size_t left = width - width_of(&strings[i], characters);
        if (characters)
            SHEAF__TRY(put_characters(w, &strings[i], err));
        else
            SHEAF__TRY(sheaf__zip_writer_put(w, strings[i].data, strings[i].size, err));
        SHEAF__TRY(put_zeros(w, characters ? 4 * left : left, err));
    }
    return SHEAF_OK;
}

static sheaf_status put_tensor(struct sheaf__zip_writer *w, const struct sheaf__convert *c,
                               const struct sheaf__convert_item *item, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    if (item->out.dtype != SHEAF_STRING) {
        SHEAF__TRY(put_header(w, item, 0, err));
        return sheaf__convert_copy(c, item, NULL, put, w, err);
    }
    SHEAF_FRAME
    {
        const sheaf_tensor *t = sheaf__convert_strings(c, item);
        status = sheaf_tensor_status(t, err);
        if (status >= 0)
            status = put_strings(w, item, t, err);
    }
    return status;
}

static sheaf_status add_member(struct sheaf__zip_writer *w, const struct sheaf__convert *c,
                               const struct sheaf__convert_item *item, sheaf_error *err)
{
    char *name = sheaf__printf("%s.npy", item->out.name);
    sheaf_status status = name ? sheaf__zip_writer_begin(w, name, c->options->deflate, err)
                               : sheaf__no_memory(err, "the name of a tensor");
    sheaf__free(name);
    if (status >= 0)
        status = put_tensor(w, c, item, err);
    return status < 0 ? status : sheaf__zip_writer_end(w, err);
}

sheaf_status sheaf__convert_to_npz(const struct sheaf__convert *c, sheaf_error *err)
{
    struct sheaf__zip_writer *w = NULL;
    sheaf__sweep_file(c->to);
    SHEAF__TRY(sheaf__zip_writer_open(c->to, &w, err));
    for (size_t i = 0; i < c->count; i++) {
        const sheaf_status status = add_member(w, c, &c->items[i], err);
        if (status < 0) {
            sheaf__zip_writer_free(w);
            return status;
        }
    }
    const sheaf_status status = sheaf__convert_goes_on(err);
    if (status >= 0)
        return sheaf__zip_writer_finish(w, err);
    sheaf__zip_writer_free(w);
    return status;
}
