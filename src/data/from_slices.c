/* SPDX-License-Identifier: Apache-2.0 */
#include "data/from_slices.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "base/mem.h"
#include "data/slicer.h"
#include "data/spec.h"

/* The rows of tensors (R9.24): views of them. */

struct from_slices {
    struct sheaf__params params;
    sheaf_element *slices; /* counted */
    size_t rows;
    sheaf_error error;
};

struct from_slices_iter {
    struct sheaf__iter base;
    size_t at;
};

static void params_free(void *params)
{
    sheaf__unref(((struct from_slices *)params)->slices);
}

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct from_slices *p = (const void *)d->params;
    if (p->error.status < 0)
        return sheaf__error_copy(err, &p->error);
    sheaf_element_spec *whole = sheaf__spec_of(p->slices, err);
    int64_t rows;
    sheaf_status status = whole ? sheaf__spec_rows(whole, &d->spec, &rows, err) : err->status;
    sheaf_element_spec_free(whole);
    d->cardinality = (int64_t)p->rows;
    return status;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct from_slices_iter *it = (struct from_slices_iter *)base;
    const struct from_slices *p = sheaf__iter_params(base);
    if (it->at == p->rows)
        return SHEAF_END;
    if (want > p->rows - it->at)
        want = p->rows - it->at;
    SHEAF__TRY(sheaf__rows_put_slices(rows, p->slices, it->at, want, err));
    it->at += want;
    return SHEAF_OK;
}

static uint64_t sure(const struct sheaf__iter *base)
{
    const struct from_slices *p = sheaf__iter_params(base);
    return p->rows - ((const struct from_slices_iter *)base)->at;
}

static sheaf_status pass(struct sheaf__iter *base, uint64_t count, struct sheaf__passed *passed,
                         sheaf_error *err)
{
    const uint64_t left = sure(base), n = count < left ? count : left;
    (void)err;
    ((struct from_slices_iter *)base)->at += (size_t)n;
    passed->count += n;
    return n < count ? SHEAF_END : SHEAF_OK;
}

/* Bytes up to which strings are told apart: names of files, that is. */
#define TOLD (1u << 20)

/* Length of the directory that all of the names begin with. */
static size_t common_directory(const sheaf_bytes *names, size_t count)
{
    size_t same = names[0].size, slash = 0;
    for (size_t i = 1; i < count; i++) {
        size_t k = 0;
        while (k < same && k < names[i].size && names[i].data[k] == names[0].data[k])
            k++;
        same = k;
    }
    for (size_t k = 0; k < same; k++)
        slash = names[0].data[k] == '/' ? k + 1 : slash;
    return slash;
}

/* As much of a name as a line of text has room for. */
static void add_name(sheaf_bytes name, size_t start, struct sheaf__str *text)
{
    enum { ROOM = 48 };
    char shown[256];
    size_t size = 0;
    for (size_t i = start; i < name.size && size < sizeof(shown) - 1; i++) {
        const unsigned char c = (unsigned char)name.data[i];
        shown[size++] = c < ' ' || c == 127 ? '?' : (char)c;
    }
    shown[size] = 0;
    sheaf__str_shorten(shown, ROOM);
    sheaf__str_printf(text, " from %s", shown);
}

/* Strings that may be names of files, wherever their directory is: the first of them and a checksum. */
static void add_names(const struct from_slices *p, struct sheaf__str *text)
{
    const sheaf_tensor *t = p->slices->count == 1 ? p->slices->items[0].tensor : NULL;
    const sheaf_bytes *names = t && t->dtype == SHEAF_STRING && t->shape.rank == 1 ? t->data : NULL;
    size_t size = 0;
    for (size_t i = 0; names && i < p->rows; i++)
        size += names[i].size + 1;
    if (size == 0 || size > TOLD)
        return;
    const size_t start = common_directory(names, p->rows);
    uint32_t crc = 0;
    for (size_t i = 0; i < p->rows; i++) {
        crc = sheaf__crc32c_extend(crc, names[i].data + start, names[i].size - start);
        crc = sheaf__crc32c_extend(crc, "", 1);
    }
    add_name(names[0], start, text);
    sheaf__str_printf(text, ", %08x", crc);
}

static void explain(const sheaf_dataset *d, struct sheaf__str *text)
{
    const struct from_slices *p = (const void *)d->params;
    sheaf__str_printf(text, "(%zu", p->rows);
    add_names(p, text);
    sheaf__str_add(text, ")");
}

const struct sheaf__stage_ops sheaf__from_slices_ops = {
    .describe = describe,
    .params_free = params_free,
    .iter_size = sizeof(struct from_slices_iter),
    .next = next,
    .pass = pass,
    .sure = sure,
    .explain = explain,
};

static sheaf_status prepare(struct from_slices *p, sheaf_element *e, sheaf_error *err)
{
    if (!e)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "there is no element");
    SHEAF__TRY(sheaf__element_status(e, err));
    return sheaf__sliceable(e, &p->slices, &p->rows, err);
}

sheaf_dataset *sheaf_dataset_from_slices(sheaf_element *e)
{
    struct from_slices *p = sheaf__params_new(sizeof(*p), SHEAF__STAGE_FROM_SLICES);
    if (p)
        prepare(p, e, &p->error);
    return sheaf__dataset_new(SHEAF__STAGE_FROM_SLICES, p, NULL, 0);
}

/* The rows of one nameless tensor. */
static sheaf_status prepare_tensor(struct from_slices *p, sheaf_tensor *t, sheaf_error *err)
{
    sheaf_element *e = sheaf__element_new(err);
    sheaf_status status = e ? sheaf__element_add(e, sheaf__name(""), t, err) : err->status;
    if (status >= 0)
        status = sheaf__sliceable(e, &p->slices, &p->rows, err);
    sheaf__unref(e);
    return status;
}

sheaf_dataset *sheaf__from_tensor(enum sheaf__stage_id id, sheaf_tensor *t, const sheaf_error *err)
{
    struct from_slices *p = sheaf__params_new(sizeof(*p), id);
    if (p && t)
        prepare_tensor(p, t, &p->error);
    else if (p)
        p->error = *err;
    sheaf__unref(t);
    return sheaf__dataset_new(id, p, NULL, 0);
}

static sheaf_status prepare_strings(struct from_slices *p, const char *const *strings, size_t count,
                                    sheaf_error *err)
{
    sheaf_bytes *views = sheaf__alloc_array(count, sizeof(*views));
    if (!views)
        return sheaf__no_memory(err, "names of files");
    for (size_t i = 0; i < count; i++)
        views[i] = (sheaf_bytes){strings[i], __builtin_strlen(strings[i])};
    sheaf_tensor *t = sheaf__string_copy(SHEAF_SHAPE((int64_t)count), views, err);
    sheaf__free(views);
    sheaf_status status = t ? prepare_tensor(p, t, err) : err->status;
    sheaf__unref(t);
    return status;
}

sheaf_dataset *sheaf__from_strings(enum sheaf__stage_id id, const char *const *strings,
                                   size_t count)
{
    struct from_slices *p = sheaf__params_new(sizeof(*p), id);
    if (p)
        prepare_strings(p, strings, count, &p->error);
    return sheaf__dataset_new(id, p, NULL, 0);
}
