/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/convert.h"

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/sweep.h"
#include "format/safetensors.h"

#include <stdlib.h>
#include <string.h>

#define INDEX ".index.json"

/* Tensors as safetensors: one file, or several and an index. */

struct writing {
    const struct sheaf__convert *c;
    const struct sheaf__tensor_entry **sorted; /* by name; out of the items */
    size_t *ends; /* of every file: after its last tensor in `sorted` */
    size_t files;
    struct sheaf__file **open; /* the files: none has its name before all are written */
    char *stem;                /* the name without ".safetensors" */
    bool indexed;              /* the index is there even if there is one file */
};

static uint64_t bytes_of(const struct sheaf__tensor_entry *e)
{
    return (uint64_t)sheaf_shape_elements(e->shape) * sheaf_dtype_size(e->dtype);
}

static int compare_names(const void *a, const void *b)
{
    const struct sheaf__tensor_entry *x = *(const struct sheaf__tensor_entry *const *)a;
    const struct sheaf__tensor_entry *y = *(const struct sheaf__tensor_entry *const *)b;
    return strcmp(x->name, y->name);
}

/* Fills one file after the other, in the order of names. */
static void divide(struct writing *w)
{
    const uint64_t most =
        w->c->options->max_file_bytes ? (uint64_t)w->c->options->max_file_bytes : UINT64_MAX;
    uint64_t filled = 0;
    size_t in = 0; /* tensors in the file */
    for (size_t i = 0; i < w->c->count; i++, in++) {
        const uint64_t size = bytes_of(w->sorted[i]);
        if (in && (size > most || filled > most - size)) {
            w->ends[w->files++] = i;
            filled = 0;
            in = 0;
        }
        filled += size;
    }
    w->ends[w->files++] = w->c->count;
}

static sheaf_status begin(struct writing *w, sheaf_error *err)
{
    const struct sheaf__convert *c = w->c;
    w->indexed = sheaf__str_ends(c->to, INDEX);
    const size_t tail = strlen(".safetensors") + (w->indexed ? strlen(INDEX) : 0);
    w->stem = sheaf__strndup(c->to, strlen(c->to) - tail);
    w->sorted = sheaf__alloc_array(c->count + 1, sizeof(*w->sorted));
    w->ends = sheaf__alloc_array(c->count + 1, sizeof(*w->ends));
    w->open = sheaf__calloc(c->count + 1, sizeof(*w->open));
    if (!w->stem || !w->sorted || !w->ends || !w->open)
        return sheaf__no_memory(err, "writing a safetensors file");
    for (size_t i = 0; i < c->count; i++)
        w->sorted[i] = &c->items[i].out;
    if (c->count)
        qsort(w->sorted, c->count, sizeof(*w->sorted), compare_names);
    divide(w);
    w->indexed |= w->files > 1;
    return SHEAF_OK;
}

/* In new memory. */
static char *name_file(const struct writing *w, size_t number)
{
    return w->indexed
               ? sheaf__printf("%s-%05zu-of-%05zu.safetensors", w->stem, number + 1, w->files)
               : sheaf__printf("%s.safetensors", w->stem);
}

static sheaf_status put(void *user, const void *data, size_t size, sheaf_error *err)
{
    return sheaf__file_write(user, data, size, err);
}

/* Header and data of `count` tensors, which are sorted anew. */
static sheaf_status write_tensors(const struct writing *w, struct sheaf__file *file,
                                  const struct sheaf__tensor_entry **list, size_t count,
                                  sheaf_error *err)
{
    struct sheaf__buf header = {0};
    sheaf__safetensors_sort(list, count);
    sheaf_status status =
        sheaf__safetensors_header(&header, w->c->from->metadata, list, count, err);
    if (status >= 0)
        status = sheaf__file_write(file, header.data, header.size, err);
    sheaf__buf_free(&header);
    for (size_t i = 0; i < count && status >= 0; i++)
        status = sheaf__convert_copy(w->c, (const struct sheaf__convert_item *)list[i], NULL, put,
                                     file, err);
    return status;
}

static sheaf_status write_file(struct writing *w, size_t number, sheaf_error *err)
{
    const size_t first = number ? w->ends[number - 1] : 0, count = w->ends[number] - first;
    const struct sheaf__tensor_entry **list = sheaf__alloc_array(count + 1, sizeof(*list));
    char *path = name_file(w, number);
    sheaf_status status = SHEAF_OK;
    if (!list || !path)
        status = sheaf__no_memory(err, "writing a safetensors file");
    if (status >= 0) {
        sheaf__sweep_file(path);
        status = sheaf__file_open(path, SHEAF__FILE_REPLACE, &w->open[number], err);
    }
    if (status >= 0) {
        if (count)
            memcpy(list, w->sorted + first, count * sizeof(*list));
        status = write_tensors(w, w->open[number], list, count, err);
    }
    sheaf__free(list);
    sheaf__free(path);
    return status;
}

/* Puts the files in their places: all of them, since some that are replaced go with those that are not. */
static sheaf_status commit(struct writing *w, sheaf_error *err)
{
    for (size_t i = 0; i < w->files; i++) {
        struct sheaf__file *file = w->open[i];
        w->open[i] = NULL;
        SHEAF__TRY(sheaf__file_commit(file, err));
    }
    return SHEAF_OK;
}

/* As the libraries write it that load such models. */
static void put_index(const struct writing *w, struct sheaf__str *json)
{
    uint64_t all = 0;
    for (size_t i = 0; i < w->c->count; i++)
        all += bytes_of(w->sorted[i]);
    sheaf__str_printf(json,
                      "{\n  \"metadata\": {\n    \"total_size\": %llu\n  },\n  \"weight_map\": {",
                      (unsigned long long)all);
    for (size_t i = 0, number = 0; i < w->c->count; i++) {
        while (i == w->ends[number])
            number++;
        char *path = name_file(w, number);
        const char *name = path ? sheaf__path_name(path) : "";
        json->failed |= !path;
        sheaf__str_add(json, i ? ",\n    \"" : "\n    \"");
        sheaf__str_json(json, w->sorted[i]->name, strlen(w->sorted[i]->name));
        sheaf__str_add(json, "\": \"");
        sheaf__str_json(json, name, strlen(name));
        sheaf__str_add(json, "\"");
        sheaf__free(path);
    }
    sheaf__str_add(json, w->c->count ? "\n  }\n}\n" : "}\n}\n");
}

static sheaf_status write_index(const struct writing *w, sheaf_error *err)
{
    struct sheaf__str json = {0};
    char *path = sheaf__printf("%s.safetensors" INDEX, w->stem);
    put_index(w, &json);
    sheaf__sweep_file(path);
    sheaf_status status = path && !json.failed
                              ? sheaf__file_replace(path, json.text, json.size, err)
                              : sheaf__no_memory(err, "the index of a safetensors file");
    sheaf__str_free(&json);
    sheaf__free(path);
    return status;
}

sheaf_status sheaf__convert_to_safetensors(const struct sheaf__convert *c, sheaf_error *err)
{
    struct writing w = {.c = c};
    sheaf_status status = begin(&w, err);
    for (size_t i = 0; i < w.files && status >= 0; i++)
        status = write_file(&w, i, err);
    if (status >= 0)
        status = sheaf__convert_goes_on(err);
    if (status >= 0)
        status = commit(&w, err);
    if (status >= 0 && w.indexed)
        status = write_index(&w, err);
    for (size_t i = 0; w.open && i < w.files; i++)
        if (w.open[i])
            (void)sheaf__file_close(w.open[i], NULL); /* drops it */
    sheaf__free(w.open);
    sheaf__free(w.stem);
    sheaf__free(w.sorted);
    sheaf__free(w.ends);
    return status;
}
