/* SPDX-License-Identifier: Apache-2.0 */
#include "format/tensor_file.h"

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/object_graph.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

/* ---- for the formats ---- */

void *sheaf__tensor_file_new(const struct sheaf__tensor_format *format, size_t size,
                             const char *path, sheaf_error *err)
{
    sheaf_tensor_file *f = sheaf__calloc(1, size);
    if (f)
        f->path = sheaf__strdup(path);
    if (!f || !f->path) {
        sheaf__free(f);
        sheaf__no_memory(err, "a file of tensors");
        return NULL;
    }
    f->format = format;
    f->metadata = "";
    return f;
}

void sheaf__tensor_file_end(sheaf_tensor_file *f)
{
    sheaf__free(f->entries);
    sheaf__free(f->chunk);
    sheaf__free(f->scratch);
    sheaf__free(f->path);
    sheaf__free(f);
}

struct sheaf__tensor_entry *sheaf__tensor_file_add(sheaf_tensor_file *f, sheaf_error *err)
{
    if (!sheaf__array_reserve(&f->entries, &f->capacity, f->count + 1, sizeof(*f->entries))) {
        sheaf__no_memory(err, "the names of tensors");
        return NULL;
    }
    struct sheaf__tensor_entry *e = &f->entries[f->count++];
    *e = (struct sheaf__tensor_entry){0};
    return e;
}

sheaf_status sheaf__tensor_file_buffer(uint8_t **chunk, sheaf_error *err)
{
    if (!*chunk)
        *chunk = sheaf__alloc_aligned(SHEAF__TENSOR_FILE_CHUNK);
    return *chunk ? SHEAF_OK : sheaf__no_memory(err, "a part of a tensor");
}

/* ---- opening ---- */

static int compare_names(const void *a, const void *b)
{
    const struct sheaf__tensor_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static sheaf_status sort_names(sheaf_tensor_file *f, sheaf_error *err)
{
    const struct sheaf__place place = {f->path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    if (f->count)
        qsort(f->entries, f->count, sizeof(*f->entries), compare_names);
    for (size_t i = 1; i < f->count; i++)
        if (!strcmp(f->entries[i].name, f->entries[i - 1].name))
            return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                                   "tensor '%.120s' is there twice", f->entries[i].name);
    return SHEAF_OK;
}

sheaf_status sheaf_tensor_file_open(const char *path, sheaf_tensor_file **file, sheaf_error *err)
{
    sheaf_tensor_file *f = NULL;
    if (!path || !file)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "a file of tensors without a %s",
                            path ? "place for it" : "path");
    if (sheaf__str_ends(path, ".safetensors") || sheaf__str_ends(path, ".safetensors.index.json"))
        SHEAF__TRY(sheaf__safetensors_open(path, &f, err));
    else if (sheaf__str_ends(path, ".npz"))
        SHEAF__TRY(sheaf__npz_open(path, &f, err));
    else
        SHEAF__TRY(sheaf__tensor_bundle_open(path, &f, err));
    const sheaf_status status = sort_names(f, err);
    if (status < 0)
        f->format->free(f);
    else
        *file = f;
    return status;
}

void sheaf_tensor_file_free(sheaf_tensor_file *f)
{
    if (f)
        f->format->free(f);
}

const char *sheaf_tensor_file_format(const sheaf_tensor_file *f)
{
    return f ? f->format->name : "";
}

sheaf_status sheaf_tensor_file_get(const sheaf_tensor_file *f, size_t i,
                                   sheaf_tensor_file_entry *entry)
{
    if (!f || i >= f->count)
        return SHEAF_END;
    const struct sheaf__tensor_entry *e = &f->entries[i];
    *entry = (sheaf_tensor_file_entry){.name = e->name,
                                       .dtype = e->fault < 0 ? SHEAF_INVALID_DTYPE : e->dtype,
                                       .shape = e->shape,
                                       .bytes = (int64_t)e->bytes};
    return SHEAF_OK;
}

/* ---- reading ---- */

const struct sheaf__tensor_entry *sheaf__tensor_file_find(const sheaf_tensor_file *f,
                                                          const char *name)
{
    const struct sheaf__tensor_entry key = {.name = name};
    return f->count ? bsearch(&key, f->entries, f->count, sizeof(*f->entries), compare_names)
                    : NULL;
}

sheaf_status sheaf__tensor_file_readable(const sheaf_tensor_file *f,
                                         const struct sheaf__tensor_entry *e, sheaf_error *err)
{
    const struct sheaf__place place = {f->path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    if (e->fault >= 0)
        return SHEAF_OK;
    if (e->cause)
        return sheaf__error_copy(err, e->cause);
    return sheaf__error_at(err, e->fault, &place, "tensor '%.120s' cannot be read: %s", e->name,
                           e->why);
}

sheaf_tensor *sheaf__tensor_file_whole(sheaf_tensor_file *f, const struct sheaf__tensor_entry *e,
                                       sheaf_error *err)
{
    return sheaf__tensor_file_readable(f, e, err) < 0 ? NULL : f->format->whole(f, e, err);
}

bool sheaf__tensor_entry_is_graph(const struct sheaf__tensor_entry *e)
{
    const bool text = e->dtype == SHEAF_STRING && e->shape.rank == 0;
    const bool bytes = e->dtype == SHEAF_UINT8 && e->shape.rank == 1;
    return (text || bytes) && strcmp(e->name, SHEAF__OBJECT_GRAPH_KEY) == 0;
}

sheaf_tensor *sheaf__tensor_file_graph(sheaf_tensor_file *f, const struct sheaf__tensor_entry *e,
                                       sheaf_bytes *bytes, sheaf_error *err)
{
    sheaf_tensor *t = sheaf__tensor_file_whole(f, e, err);
    const void *data = t ? sheaf__tensor_host(t, err) : NULL;
    if (data && e->dtype == SHEAF_STRING)
        *bytes = *(const sheaf_bytes *)data;
    else if (data)
        *bytes = (sheaf_bytes){data, (size_t)sheaf_tensor_elements(t)};
    if (!data) {
        sheaf__unref(t);
        t = NULL;
    }
    return t;
}

sheaf_status sheaf_tensor_file_read(sheaf_tensor_file *f, const char *name, sheaf_tensor **tensor,
                                    sheaf_error *err)
{
    if (!f || !name || !tensor)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "reading a tensor without a file, a name or a place for it");
    const struct sheaf__place place = {f->path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    const struct sheaf__tensor_entry *e = sheaf__tensor_file_find(f, name);
    if (!e)
        return sheaf__error_at(err, SHEAF_ERR_NOT_FOUND, &place, "no tensor '%.120s' in the file",
                               name);
    sheaf_error fault = {0};
    sheaf_tensor *t = sheaf__tensor_file_whole(f, e, &fault);
    if (!t)
        return sheaf__error_copy(err, &fault);
    t = sheaf__tensor_give(t, NULL);
    SHEAF__TRY(sheaf_tensor_status(t, err));
    *tensor = t;
    return SHEAF_OK;
}

sheaf_status sheaf_tensor_file_verify(sheaf_tensor_file *f, sheaf_error *err)
{
    if (!f)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the file of tensors is NULL");
    if (sheaf__tensor_bundle(f))
        return sheaf_bundle_verify(sheaf__tensor_bundle(f), err);
    for (size_t i = 0; f->format->check && i < f->count; i++) {
        const struct sheaf__tensor_entry *e = &f->entries[i];
        if (e->fault == SHEAF_ERR_DATA_LOSS)
            return sheaf__tensor_file_readable(f, e, err);
        SHEAF__TRY(
            f->format->check(f, e, err)); /* also of what is no tensor: it has a checksum, too */
    }
    return SHEAF_OK;
}

sheaf_status sheaf__tensor_stream_begin(struct sheaf__tensor_stream *s, sheaf_tensor_file *f,
                                        const struct sheaf__tensor_entry *e,
                                        const struct sheaf__slice *slice, sheaf_error *err)
{
    *s = (struct sheaf__tensor_stream){
        .file = f,
        .entry = e,
        .slice = slice ? *slice : sheaf__slice_all(e->shape),
        .width = sheaf_dtype_size(e->dtype),
    };
    s->elements = sheaf_shape_elements(s->slice.shape);
    SHEAF__TRY(sheaf__tensor_file_readable(f, e, err));
    SHEAF__TRY(sheaf__tensor_file_buffer(&f->chunk, err));
    if (!f->format->check || f->checked == e)
        return SHEAF_OK;
    f->checked = NULL;
    SHEAF__TRY(f->format->check(f, e, err));
    f->checked = e;
    return SHEAF_OK;
}

sheaf_status sheaf__tensor_stream_next(struct sheaf__tensor_stream *s, const uint8_t **data,
                                       size_t *size, sheaf_error *err)
{
    if (s->at == s->elements)
        return SHEAF_END;
    const struct sheaf__slice box =
        sheaf__slice_box(&s->slice, s->at, (int64_t)(SHEAF__TENSOR_FILE_CHUNK / s->width));
    const int64_t count = sheaf_shape_elements(box.shape);
    SHEAF__TRY(s->file->format->part(s->file, s->entry, &box, s->file->chunk, err));
    s->at += count;
    *data = s->file->chunk;
    *size = (size_t)count * s->width;
    return SHEAF_OK;
}
