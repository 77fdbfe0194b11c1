/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/npy.h"
#include "format/tensor_file.h"
#include "format/zip.h"
#include "tensor/shape.h"

#include <string.h>

/* NumPy's archives as a file of tensors: each member is a file of one array. */

#define MOST_HEAD (1 << 20) /* bytes before the elements of an array */
#define MOST_STRINGS \
    (1U << 30)         /* bytes of memory for the places of strings that need no more reason */
#define MOST_GROWTH 64 /* times what the member takes in the file that they may be else */

struct npz_file {
    sheaf_tensor_file file;
    struct sheaf__zip_file *zip;
    struct sheaf__npy *arrays; /* of every member */
    char **names;              /* of every member, without ".npy" */
    sheaf_error **faults;      /* of every member that cannot be read; else NULL */
    uint8_t *turned;           /* a part of a column-major array; made when needed */
};

static struct npz_file *of(sheaf_tensor_file *f)
{
    return (struct npz_file *)f;
}

static void free_file(sheaf_tensor_file *file)
{
    struct npz_file *f = of(file);
    for (size_t i = 0; f->names && i < sheaf__zip_count(f->zip); i++)
        sheaf__free(f->names[i]);
    for (size_t i = 0; f->faults && i < sheaf__zip_count(f->zip); i++)
        sheaf__free(f->faults[i]);
    sheaf__free(f->names);
    sheaf__free(f->faults);
    sheaf__free(f->arrays);
    sheaf__free(f->turned);
    sheaf__zip_free(f->zip);
    sheaf__tensor_file_end(file);
}

/* ---- reading arrays ---- */

/* A string takes more in memory than in the file, and one that is packed says nothing of how many there are: those of a file that
 * was made to fill the memory are refused. */
static sheaf_status check_strings(const struct npz_file *f, const struct sheaf__tensor_entry *e,
                                  sheaf_error *err)
{
    const struct sheaf__zip_member *m = sheaf__zip_member(f->zip, e->number);
    const struct sheaf__place place = {f->file.path, SHEAF__UNKNOWN, m->data};
    const uint64_t count = (uint64_t)sheaf_shape_elements(e->shape);
    const uint64_t bytes = count * sizeof(sheaf_bytes);
    if (e->dtype != SHEAF_STRING || bytes <= MOST_STRINGS || bytes / MOST_GROWTH <= m->packed)
        return SHEAF_OK;
    return sheaf__error_at(
        err, SHEAF_ERR_RESOURCE_EXHAUSTED, &place,
        "tensor '%.60s': %llu strings in %llu packed bytes would take %llu bytes "
        "of memory, expected at most %d times as many, or %u",
        e->name, (unsigned long long)count, (unsigned long long)m->packed,
        (unsigned long long)bytes, MOST_GROWTH, MOST_STRINGS);
}

/* The elements in memory that is ours, as this machine has them. */
static void set_right(struct sheaf__npy *npy, uint8_t *data, size_t size)
{
    const bool aligned = (uintptr_t)data % sheaf__dtype_unit(npy->dtype) == 0;
    if (npy->kind != SHEAF__NPY_NUMBERS || !npy->big_endian || !aligned)
        return;
    sheaf__dtype_swap(npy->dtype, data, size);
    npy->big_endian = false;
}

static sheaf_tensor *whole(sheaf_tensor_file *file, const struct sheaf__tensor_entry *e,
                           sheaf_error *err)
{
    struct npz_file *f = of(file);
    struct sheaf__npy npy = f->arrays[e->number];
    const size_t size = (size_t)sheaf__zip_member(f->zip, e->number)->size;
    if (check_strings(f, e, err) < 0)
        return NULL;
    struct sheaf__buffer *bytes = sheaf__buffer_new(NULL, size, err);
    sheaf_tensor *t = NULL;
    if (bytes && sheaf__zip_check(f->zip, e->number, bytes->data, err) >= 0) {
        uint8_t *data = (uint8_t *)bytes->data + npy.offset;
        set_right(&npy, data, e->bytes);
        t = sheaf__npy_tensor(&npy, data, bytes, file->path, err);
    }
    sheaf__unref(bytes);
    return t;
}

static sheaf_status check(sheaf_tensor_file *file, const struct sheaf__tensor_entry *e,
                          sheaf_error *err)
{
    return sheaf__zip_check(of(file)->zip, e->number, NULL, err);
}

struct fetching {
    struct npz_file *f;
    const struct sheaf__tensor_entry *entry;
};

static sheaf_status fetch(void *user, int64_t first, int64_t count, void *out, sheaf_error *err)
{
    const struct fetching *fetching = user;
    const size_t i = fetching->entry->number;
    const struct sheaf__npy *npy = &fetching->f->arrays[i];
    const size_t width = sheaf_dtype_size(npy->dtype), size = (size_t)count * width;
    SHEAF__TRY(sheaf__zip_read(fetching->f->zip, i, npy->offset + (uint64_t)first * width, out,
                               size, err));
    if (npy->big_endian)
        sheaf__dtype_swap(npy->dtype, out, size);
    for (size_t k = 0; npy->dtype == SHEAF_BOOL && k < size; k++)
        ((uint8_t *)out)[k] = ((uint8_t *)out)[k] != 0;
    return SHEAF_OK;
}

static struct sheaf__slice turn(const struct sheaf__slice *s)
{
    struct sheaf__slice turned = *s;
    for (int32_t i = 0, k = s->full.rank - 1; k >= 0; i++, k--) {
        turned.full.dims[i] = s->full.dims[k];
        turned.shape.dims[i] = s->shape.dims[k];
        turned.offset[i] = s->offset[k];
    }
    return turned;
}

/* Copies elements of `shape` that lie by columns to where they lie by rows. */
static void copy_turned(sheaf_shape shape, size_t width, const uint8_t *from, uint8_t *to)
{
    int64_t place[SHEAF_MAX_RANK] = {0}, strides[SHEAF_MAX_RANK], step = 1;
    const int64_t count = sheaf_shape_elements(shape);
    for (int32_t i = 0; i < shape.rank; i++) {
        strides[i] = step;
        step *= shape.dims[i];
    }
    int64_t at = 0;
    for (int64_t n = 0; n < count; n++, to += width) {
        memcpy(to, from + (size_t)at * width, width);
        for (int32_t i = shape.rank - 1; i >= 0; i--) {
            at += strides[i];
            if (++place[i] < shape.dims[i])
                break;
            at -= strides[i] * shape.dims[i];
            place[i] = 0;
        }
    }
}

static sheaf_status part(sheaf_tensor_file *file, const struct sheaf__tensor_entry *e,
                         const struct sheaf__slice *slice, void *out, sheaf_error *err)
{
    struct npz_file *f = of(file);
    const bool columns = f->arrays[e->number].column_major && e->shape.rank > 1;
    const size_t width = sheaf_dtype_size(e->dtype);
    SHEAF__TRY(sheaf__tensor_file_buffer(&file->scratch, err));
    if (columns)
        SHEAF__TRY(sheaf__tensor_file_buffer(&f->turned, err));
    struct sheaf__slice from = sheaf__slice_all(e->shape), to = *slice;
    if (columns) {
        from = turn(&from);
        to = turn(&to);
    }
    struct fetching fetching = {f, e};
    const struct sheaf__slice_gather gather = {
        .copy = {&from, &to, width, columns ? f->turned : out},
        .fetch = fetch,
        .user = &fetching,
        .scratch = file->scratch,
        .scratch_size = SHEAF__TENSOR_FILE_CHUNK,
    };
    SHEAF__TRY(sheaf__slice_gather(&gather, err));
    if (columns)
        copy_turned(slice->shape, width, f->turned, out);
    return SHEAF_OK;
}

static const struct sheaf__tensor_format npz = {
    .name = "npz", .free = free_file, .whole = whole, .check = check, .part = part};

/* ---- opening ---- */

static sheaf_status read_head(struct npz_file *f, size_t i, sheaf_error *err)
{
    const struct sheaf__zip_member *m = sheaf__zip_member(f->zip, i);
    uint8_t start[SHEAF__NPY_START] = {0};
    const size_t least = m->size < sizeof(start) ? (size_t)m->size : sizeof(start);
    SHEAF__TRY(sheaf__zip_read(f->zip, i, 0, start, least, err));
    size_t size = sheaf__npy_head_size(start);
    size = size < m->size ? size : (size_t)m->size;
    size = size < MOST_HEAD ? size : MOST_HEAD;
    uint8_t *head = sheaf__alloc(size + 1);
    if (!head)
        return sheaf__no_memory(err, "the header of an array");
    sheaf_status status = sheaf__zip_read(f->zip, i, 0, head, size, err);
    if (status >= 0) {
        status = sheaf__npy_parse_head(head, size, m->size, f->file.path, &f->arrays[i], err);
        if (status < 0) /* what the archive says names the member by itself */
            sheaf__error_prefix(err, "member '%.100s'", m->name);
    }
    sheaf__free(head);
    return status;
}

static size_t element_bytes(const struct sheaf__npy *npy)
{
    return npy->kind == SHEAF__NPY_NUMBERS ? sheaf_dtype_size(npy->dtype)
           : npy->kind == SHEAF__NPY_TEXT  ? npy->width * 4
                                           : npy->width;
}

/* A member that is no tensor is told of when it is read, as is one that is damaged: the others are sound. */
static sheaf_status take_fault(struct npz_file *f, size_t i, struct sheaf__tensor_entry *e,
                               sheaf_error *cause, sheaf_error *err)
{
    if (cause->status != SHEAF_ERR_UNIMPLEMENTED && cause->status != SHEAF_ERR_DATA_LOSS)
        return sheaf__error_copy(err, cause);
    f->faults[i] = sheaf__memdup(cause, sizeof(*cause));
    if (!f->faults[i])
        return sheaf__no_memory(err, "the names of tensors");
    e->fault = cause->status;
    e->cause = f->faults[i];
    return SHEAF_OK;
}

static sheaf_status add_member(struct npz_file *f, size_t i, sheaf_error *err)
{
    const struct sheaf__zip_member *m = sheaf__zip_member(f->zip, i);
    const bool array = sheaf__str_ends(m->name, ".npy");
    f->names[i] = sheaf__strndup(m->name, strlen(m->name) - (array ? 4 : 0));
    struct sheaf__tensor_entry *e = f->names[i] ? sheaf__tensor_file_add(&f->file, err) : NULL;
    if (!e)
        return sheaf__no_memory(err, "the names of tensors");
    *e = (struct sheaf__tensor_entry){.name = f->names[i], .place = {0, m->data}, .number = i};
    e->fault = SHEAF_ERR_UNIMPLEMENTED;
    e->why = "its member is no array of NumPy's";
    if (!array)
        return SHEAF_OK;
    sheaf_error cause = {0};
    if (read_head(f, i, &cause) < 0)
        return take_fault(f, i, e, &cause, err);
    e->fault = SHEAF_OK;
    e->dtype = f->arrays[i].dtype;
    e->shape = f->arrays[i].shape;
    e->text = f->arrays[i].kind == SHEAF__NPY_TEXT;
    e->bytes = (uint64_t)sheaf_shape_elements(e->shape) * element_bytes(&f->arrays[i]);
    return SHEAF_OK;
}

static sheaf_status open_file(struct npz_file *f, sheaf_error *err)
{
    SHEAF__TRY(sheaf__zip_open(f->file.path, &f->zip, err));
    const size_t count = sheaf__zip_count(f->zip);
    f->names = sheaf__calloc(count + 1, sizeof(*f->names));
    f->arrays = sheaf__calloc(count + 1, sizeof(*f->arrays));
    f->faults = sheaf__calloc(count + 1, sizeof(*f->faults));
    if (!f->names || !f->arrays || !f->faults)
        return sheaf__no_memory(err, "the names of tensors");
    for (size_t i = 0; i < count; i++)
        SHEAF__TRY(add_member(f, i, err));
    return SHEAF_OK;
}

sheaf_status sheaf__npz_open(const char *path, sheaf_tensor_file **file, sheaf_error *err)
{
    struct npz_file *f = sheaf__tensor_file_new(&npz, sizeof(*f), path, err);
    if (!f)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    const sheaf_status status = open_file(f, err);
    if (status < 0) {
        free_file(&f->file);
        return status;
    }
    *file = &f->file;
    return SHEAF_OK;
}
