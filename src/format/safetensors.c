/* SPDX-License-Identifier: Apache-2.0 */
#include "format/safetensors.h"

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "format/json.h"
#include "tensor/tensor.h"

#include <string.h>

/* safetensors as a file of tensors: one file, or several that an index names. */

#define INDEX_LIMIT (1U << 30) /* bytes of an index, which names millions of tensors then */

struct safetensors_file {
    sheaf_tensor_file file;
    struct one {
        char *path;
        struct sheaf__safetensors header;
    } * ones;
    size_t count;
    struct sheaf__file *open; /* the one that was read last */
    size_t number;            /* which it is */
};

static struct safetensors_file *of(sheaf_tensor_file *f)
{
    return (struct safetensors_file *)f;
}

static void free_file(sheaf_tensor_file *file)
{
    struct safetensors_file *f = of(file);
    if (f->open)
        (void)sheaf__file_close(f->open, NULL);
    for (size_t i = 0; f->ones && i < f->count; i++) {
        sheaf__safetensors_free(&f->ones[i].header);
        sheaf__free(f->ones[i].path);
    }
    sheaf__free(f->ones);
    sheaf__tensor_file_end(file);
}

/* ---- reading tensors ---- */

static sheaf_status switch_to(struct safetensors_file *f, size_t number, sheaf_error *err)
{
    if (f->open && f->number == number)
        return SHEAF_OK;
    if (f->open)
        (void)sheaf__file_close(f->open, NULL);
    f->open = NULL;
    f->number = number;
    return sheaf__file_open(f->ones[number].path, SHEAF__FILE_READ, &f->open, err);
}

struct fetching {
    struct safetensors_file *f;
    const struct sheaf__tensor_entry *entry;
};

static sheaf_status fetch(void *user, int64_t first, int64_t count, void *out, sheaf_error *err)
{
    const struct fetching *fetching = user;
    const struct sheaf__tensor_entry *e = fetching->entry;
    const size_t width = sheaf_dtype_size(e->dtype), size = (size_t)count * width;
    const uint64_t at = e->place[1] + (uint64_t)first * width;
    size_t got = 0;
    SHEAF__TRY(switch_to(fetching->f, (size_t)e->place[0], err));
    SHEAF__TRY(sheaf__file_read_at(fetching->f->open, at, out, size, &got, err));
    const struct sheaf__place place = {sheaf__file_path(fetching->f->open), SHEAF__UNKNOWN, at};
    if (got < size)
        return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                               "tensor '%.60s': the file became shorter while it was read",
                               e->name);
    return SHEAF_OK;
}

static sheaf_status part(sheaf_tensor_file *file, const struct sheaf__tensor_entry *e,
                         const struct sheaf__slice *slice, void *out, sheaf_error *err)
{
    SHEAF__TRY(sheaf__tensor_file_buffer(&file->scratch, err));
    const struct sheaf__slice all = sheaf__slice_all(e->shape);
    struct fetching fetching = {of(file), e};
    const struct sheaf__slice_gather gather = {
        .copy = {&all, slice, sheaf_dtype_size(e->dtype), out},
        .fetch = fetch,
        .user = &fetching,
        .scratch = file->scratch,
        .scratch_size = SHEAF__TENSOR_FILE_CHUNK,
    };
    return sheaf__slice_gather(&gather, err);
}

static sheaf_tensor *whole(sheaf_tensor_file *file, const struct sheaf__tensor_entry *e,
                           sheaf_error *err)
{
    struct fetching fetching = {of(file), e};
    const int64_t count = sheaf_shape_elements(e->shape);
    sheaf_tensor *t = sheaf__tensor_new(e->dtype, e->shape, NULL, err);
    if (t && count && fetch(&fetching, 0, count, sheaf__tensor_out(t), err) < 0) {
        sheaf__unref(t);
        t = NULL;
    }
    return t;
}

static const struct sheaf__tensor_format safetensors = {
    .name = "safetensors", .free = free_file, .whole = whole, .part = part};

/* ---- opening ---- */

static sheaf_status too_short(const char *path, uint64_t size, uint64_t header, sheaf_error *err)
{
    const struct sheaf__place place = {path, SHEAF__UNKNOWN, 0};
    if (size < 8)
        return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                               "the file has %llu bytes, expected a safetensors file",
                               (unsigned long long)size);
    return sheaf__error_at(
        err, SHEAF_ERR_DATA_LOSS, &place,
        "the header is said to be of %llu bytes, the file has %llu and the format "
        "at most %d",
        (unsigned long long)header, (unsigned long long)size - 8, SHEAF__SAFETENSORS_HEADER_LIMIT);
}

/* Memory is taken for a header only when the file is long enough for it. */
static sheaf_status read_header(struct sheaf__file *file, struct one *one, sheaf_error *err)
{
    uint64_t size = 0, header = 0;
    size_t got = 0;
    SHEAF__TRY(sheaf__file_size(file, &size, err));
    SHEAF__TRY(sheaf__file_read_at(file, 0, &header, sizeof(header), &got, err));
    if (got < sizeof(header) || header > size - 8 || header > SHEAF__SAFETENSORS_HEADER_LIMIT)
        return too_short(one->path, size, header, err);
    char *text = sheaf__alloc((size_t)header + 1);
    if (!text)
        return sheaf__no_memory(err, "the header of a safetensors file");
    sheaf_status status = sheaf__file_read_at(file, 8, text, (size_t)header, &got, err);
    if (status >= 0 && got < header)
        status = too_short(one->path, 8 + got, header, err);
    if (status >= 0)
        status = sheaf__safetensors_parse(&one->header, text, (size_t)header, size, one->path, err);
    sheaf__free(text);
    return status;
}

static sheaf_status open_one(struct safetensors_file *f, size_t number, sheaf_error *err)
{
    SHEAF__TRY(switch_to(f, number, err));
    return read_header(f->open, &f->ones[number], err);
}

static sheaf_status add_tensors(struct safetensors_file *f, size_t number, sheaf_error *err)
{
    const struct sheaf__safetensors *s = &f->ones[number].header;
    if (!*f->file.metadata) /* of several files, which mostly say the same, the first one's */
        f->file.metadata = sheaf__str_text(&s->metadata);
    for (size_t i = 0; i < s->count; i++) {
        const struct sheaf__safetensors_tensor *t = &s->tensors[i];
        struct sheaf__tensor_entry *e = sheaf__tensor_file_add(&f->file, err);
        if (!e)
            return SHEAF_ERR_RESOURCE_EXHAUSTED;
        *e = (struct sheaf__tensor_entry){.name = t->name,
                                          .dtype = t->dtype,
                                          .shape = t->shape,
                                          .bytes = t->end - t->begin,
                                          .fault = t->fault,
                                          .why = t->why,
                                          .place = {number, s->data + t->begin}};
    }
    return SHEAF_OK;
}

/* ---- the index of several files ---- */

/* The names of an index: which file each tensor is in. */
struct index {
    struct sheaf__strmap files;   /* name of a file: its number + 1 */
    struct sheaf__strmap tensors; /* name of a tensor: number + 1 of its file */
};

static void free_index(struct index *index)
{
    sheaf__strmap_clear(&index->files, NULL);
    sheaf__strmap_clear(&index->tensors, NULL);
}

/* Of files below the index's folder only. */
static bool is_inside(const char *name)
{
    bool inside = *name && *name != '/';
    for (const char *at = name; inside && at; at = strchr(at, '/')) {
        at += *at == '/';
        inside = strncmp(at, "..", 2) != 0 || (at[2] != '/' && at[2] != '\0');
    }
    return inside;
}

static bool take_place(struct sheaf__json *j, struct index *index, sheaf_bytes key)
{
    sheaf_bytes name;
    char *tensor = sheaf__strndup(key.data ? key.data : "", key.size), *file = NULL;
    void *number = NULL;
    bool done = tensor && sheaf__json_text(j, &name);
    if (done) {
        file = sheaf__strndup(name.data ? name.data : "", name.size);
        if (file && (strlen(file) != name.size || strlen(tensor) != key.size || !is_inside(file)))
            done = sheaf__json_fail(
                j, "tensor '%.60s' is in '%.100s', expected a file beside the index", tensor, file);
        else if (sheaf__strmap_has(&index->tensors, tensor))
            done = sheaf__json_fail(j, "tensor '%.60s' is there twice", tensor);
    }
    if (done && file) {
        number = sheaf__strmap_get(&index->files, file);
        if (!number) {
            number = (void *)(uintptr_t)(index->files.count + 1);
            done = sheaf__strmap_set(&index->files, file, number, NULL);
        }
        done = done && sheaf__strmap_set(&index->tensors, tensor, number, NULL);
    }
    if ((!done || !file) && j->status >= 0)
        j->status = sheaf__no_memory(j->err, "the index of a safetensors file");
    sheaf__free(tensor);
    sheaf__free(file);
    return j->status >= 0;
}

static sheaf_status parse_index(struct index *index, const char *text, size_t size,
                                const char *path, sheaf_error *err)
{
    struct sheaf__json j;
    sheaf_bytes key;
    bool map = false;
    sheaf__json_begin(&j, text, size, path, 0, err);
    for (sheaf__json_enter(&j, '{'); sheaf__json_key(&j, &key);) {
        const bool weights = key.size == 10 && memcmp(key.data, "weight_map", 10) == 0;
        if (!weights) {
            sheaf__json_skip(&j);
            continue;
        }
        if (map)
            sheaf__json_fail(&j, "the index has two weight_maps");
        map = true;
        for (sheaf__json_enter(&j, '{'); sheaf__json_key(&j, &key);)
            take_place(&j, index, key);
    }
    if (!map)
        sheaf__json_fail(&j, "the index has no weight_map");
    return sheaf__json_end(&j);
}

/* The files that the index names, beside it. */
static sheaf_status name_files(struct safetensors_file *f, const struct index *index,
                               sheaf_error *err)
{
    char *folder = sheaf__path_directory(f->file.path);
    const struct sheaf__map_entry *entry;
    size_t at = 0;
    f->ones = sheaf__calloc(index->files.count + 1, sizeof(*f->ones));
    bool made = folder && f->ones;
    while (made && (entry = sheaf__strmap_next(&index->files, &at))) {
        f->ones[f->count].path = sheaf__path_join(folder, entry->key);
        made = f->ones[f->count++].path;
    }
    sheaf__free(folder);
    return made ? SHEAF_OK : sheaf__no_memory(err, "the names of files");
}

/* Index and files name the same tensors. */
static sheaf_status compare_names(const struct safetensors_file *f, struct index *index,
                                  sheaf_error *err)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct sheaf__safetensors *s = &f->ones[i].header;
        const struct sheaf__place place = {f->ones[i].path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
        for (size_t k = 0; k < s->count; k++) {
            const void *number = sheaf__strmap_remove(&index->tensors, s->tensors[k].name);
            if ((uintptr_t)number != i + 1)
                return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                                       "tensor '%.60s' is not where the index has it",
                                       s->tensors[k].name);
        }
    }
    size_t at = 0;
    const struct sheaf__map_entry *left = sheaf__strmap_next(&index->tensors, &at);
    if (!left)
        return SHEAF_OK;
    const struct sheaf__place place = {f->ones[(uintptr_t)left->value - 1].path, SHEAF__UNKNOWN,
                                       SHEAF__UNKNOWN};
    return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                           "tensor '%.60s', which the index names, is not in it", left->key);
}

static sheaf_status open_several(struct safetensors_file *f, sheaf_error *err)
{
    struct index index = {0};
    char *text = NULL;
    size_t size = 0;
    SHEAF__TRY(sheaf__file_read_all(f->file.path, INDEX_LIMIT, &text, &size, err));
    sheaf_status status = parse_index(&index, text, size, f->file.path, err);
    sheaf__free(text);
    if (status >= 0)
        status = name_files(f, &index, err);
    for (size_t i = 0; i < f->count && status >= 0; i++)
        status = open_one(f, i, err);
    if (status >= 0)
        status = compare_names(f, &index, err);
    free_index(&index);
    return status;
}

static sheaf_status open_alone(struct safetensors_file *f, sheaf_error *err)
{
    f->ones = sheaf__calloc(1, sizeof(*f->ones));
    if (!f->ones)
        return sheaf__no_memory(err, "a file of tensors");
    f->count = 1;
    f->ones[0].path = sheaf__strdup(f->file.path);
    return f->ones[0].path ? open_one(f, 0, err) : sheaf__no_memory(err, "the name of a file");
}

sheaf_status sheaf__safetensors_open(const char *path, sheaf_tensor_file **file, sheaf_error *err)
{
    struct safetensors_file *f = sheaf__tensor_file_new(&safetensors, sizeof(*f), path, err);
    if (!f)
        return SHEAF_ERR_RESOURCE_EXHAUSTED;
    sheaf_status status =
        sheaf__str_ends(path, ".json") ? open_several(f, err) : open_alone(f, err);
    for (size_t i = 0; i < f->count && status >= 0; i++)
        status = add_tensors(f, i, err);
    if (status < 0) {
        free_file(&f->file);
        return status;
    }
    *file = &f->file;
    return SHEAF_OK;
}
