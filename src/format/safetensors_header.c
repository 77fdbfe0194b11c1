/* SPDX-License-Identifier: Apache-2.0 */
#include "format/safetensors.h"

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"
#include "format/json.h"
#include "tensor/shape.h"

#include <stdlib.h>
#include <string.h>

#define METADATA "__metadata__"

/* In the reference's order of sizes, which its writer sorts by. */
static const struct {
    const char *name;
    uint8_t bits;
    uint8_t dtype; /* 0: no tensor has it */
} dtypes[] = {
    {"BOOL", 8, SHEAF_BOOL},
    {"F4", 4, 0},
    {"F6_E2M3", 6, 0},
    {"F6_E3M2", 6, 0},
    {"U8", 8, SHEAF_UINT8},
    {"I8", 8, SHEAF_INT8},
    {"F8_E5M2", 8, SHEAF_FLOAT8_E5M2},
    {"F8_E4M3", 8, SHEAF_FLOAT8_E4M3FN},
    {"F8_E8M0", 8, 0},
    {"F8_E4M3FNUZ", 8, SHEAF_FLOAT8_E4M3FNUZ},
    {"F8_E5M2FNUZ", 8, SHEAF_FLOAT8_E5M2FNUZ},
    {"I16", 16, SHEAF_INT16},
    {"U16", 16, SHEAF_UINT16},
    {"F16", 16, SHEAF_FLOAT16},
    {"BF16", 16, SHEAF_BFLOAT16},
    {"I32", 32, SHEAF_INT32},
    {"U32", 32, SHEAF_UINT32},
    {"F32", 32, SHEAF_FLOAT32},
    {"C64", 64, SHEAF_COMPLEX64},
    {"F64", 64, SHEAF_FLOAT64},
    {"I64", 64, SHEAF_INT64},
    {"U64", 64, SHEAF_UINT64},
};
enum { DTYPES = sizeof(dtypes) / sizeof(dtypes[0]) };

/* Its row in the table, DTYPES if it has none. */
static int row_of(sheaf_dtype dtype)
{
    int i = 0;
    while (i < DTYPES && (dtypes[i].dtype != dtype || dtype == SHEAF_INVALID_DTYPE))
        i++;
    return i;
}

const char *sheaf__safetensors_dtype(sheaf_dtype dtype)
{
    const int row = row_of(dtype);
    return row < DTYPES ? dtypes[row].name : NULL;
}

/* ---- reading ---- */

void sheaf__safetensors_free(struct sheaf__safetensors *s)
{
    sheaf__strmap_clear(&s->names, NULL);
    sheaf__str_free(&s->metadata);
    sheaf__free(s->tensors);
    *s = (struct sheaf__safetensors){0};
}

/* What is read of one tensor. */
struct reading {
    struct sheaf__json j;
    struct sheaf__safetensors *s;
    struct sheaf__safetensors_tensor *t;
    unsigned seen;
    uint64_t bits;     /* of an element */
    uint64_t elements; /* of all axes, also of those that no shape has room for */
    bool over;
};
enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4 };

static bool is(sheaf_bytes text, const char *word)
{
    return text.size == strlen(word) && memcmp(text.data, word, text.size) == 0;
}

static int shown(sheaf_bytes text)
{
    return text.size < 60 ? (int)text.size : 60;
}

static void cannot(struct sheaf__safetensors_tensor *t, const char *why)
{
    t->fault = SHEAF_ERR_UNIMPLEMENTED;
    t->why = why;
}

static bool take_dtype(struct reading *r)
{
    sheaf_bytes text;
    int i = 0;
    if (!sheaf__json_text(&r->j, &text))
        return false;
    while (i < DTYPES && !is(text, dtypes[i].name))
        i++;
    if (i == DTYPES)
        return sheaf__json_fail(&r->j, "tensor '%.60s': no dtype is called '%.*s'", r->t->name,
                                shown(text), text.data);
    r->bits = dtypes[i].bits;
    r->t->dtype = (sheaf_dtype)dtypes[i].dtype;
    if (!dtypes[i].dtype)
        cannot(r->t, "no tensor has its dtype");
    return true;
}

static bool take_shape(struct reading *r)
{
    uint64_t size;
    r->elements = 1;
    for (sheaf__json_enter(&r->j, '['); sheaf__json_next(&r->j);) {
        if (!sheaf__json_uint(&r->j, &size))
            return false;
        r->over |= size > INT64_MAX || __builtin_mul_overflow(r->elements, size, &r->elements);
        if (r->t->shape.rank < SHEAF_MAX_RANK)
            r->t->shape.dims[r->t->shape.rank++] = (int64_t)size;
        else
            cannot(r->t, "it has more axes than a tensor can have");
    }
    return r->j.status >= 0;
}

static bool take_offsets(struct reading *r)
{
    uint64_t at[2] = {0};
    int count = 0;
    for (sheaf__json_enter(&r->j, '['); sheaf__json_next(&r->j); count++)
        if (!sheaf__json_uint(&r->j, &at[count == 1]))
            return false;
    if (r->j.status < 0)
        return false;
    if (count != 2 || at[0] > at[1])
        return sheaf__json_fail(
            &r->j,
            "tensor '%.60s': its data_offsets are %d numbers, or end before they "
            "begin, expected begin and end",
            r->t->name, count);
    r->t->begin = at[0];
    r->t->end = at[1];
    return true;
}

static bool take_field(struct reading *r, sheaf_bytes key)
{
    const unsigned which = is(key, "dtype")          ? DTYPE
                           : is(key, "shape")        ? SHAPE
                           : is(key, "data_offsets") ? OFFSETS
                                                     : 0;
    if (r->seen & which)
        return sheaf__json_fail(&r->j, "tensor '%.60s' has '%.*s' twice", r->t->name, shown(key),
                                key.data);
    r->seen |= which;
    switch (which) {
    case DTYPE:
        return take_dtype(r);
    case SHAPE:
        return take_shape(r);
    case OFFSETS:
        return take_offsets(r);
    default:
        return sheaf__json_skip(&r->j);
    }
}

/* The bytes that it takes are those that dtype and shape need. */
static bool check_size(struct reading *r)
{
    uint64_t bits;
    const uint64_t size = r->t->end - r->t->begin;
    if (r->over || __builtin_mul_overflow(r->elements, r->bits, &bits))
        return sheaf__json_fail(&r->j, "tensor '%.60s' has more elements than there are numbers",
                                r->t->name);
    if (bits % 8 || bits / 8 != size)
        return sheaf__json_fail(
            &r->j, "tensor '%.60s' has %llu elements of %llu bits in %llu bytes", r->t->name,
            (unsigned long long)r->elements, (unsigned long long)r->bits, (unsigned long long)size);
    return true;
}

static bool add_tensor(struct reading *r, sheaf_bytes name)
{
    struct sheaf__safetensors *s = r->s;
    if (memchr(name.data ? name.data : "", 0, name.size))
        return sheaf__json_fail(&r->j, "tensor '%.60s' has a zero byte in its name", name.data);
    if (sheaf__strmap_get_bytes(&s->names, name.data, name.size))
        return sheaf__json_fail(&r->j, "tensor '%.*s' is there twice", shown(name), name.data);
    if (!sheaf__array_reserve(&s->tensors, &s->capacity, s->count + 1, sizeof(*s->tensors)) ||
        !sheaf__strmap_set_bytes(&s->names, name.data, name.size, (void *)(uintptr_t)(s->count + 1),
                                 NULL)) {
        r->j.status = sheaf__no_memory(r->j.err, "the names of tensors");
        return false;
    }
    r->t = &s->tensors[s->count++];
    *r->t = (struct sheaf__safetensors_tensor){.name = s->names.entries[s->names.used - 1].key,
                                               .name_size = name.size};
    return true;
}

static bool take_tensor(struct reading *r, sheaf_bytes name)
{
    sheaf_bytes key;
    if (!add_tensor(r, name))
        return false;
    r->seen = 0;
    r->over = false;
    for (sheaf__json_enter(&r->j, '{'); sheaf__json_key(&r->j, &key);)
        if (!take_field(r, key))
            return false;
    if (r->j.status < 0)
        return false;
    if (r->seen != (DTYPE | SHAPE | OFFSETS))
        return sheaf__json_fail(&r->j, "tensor '%.60s' lacks its %s", r->t->name,
                                !(r->seen & DTYPE)   ? "dtype"
                                : !(r->seen & SHAPE) ? "shape"
                                                     : "data_offsets");
    return check_size(r);
}

static void put_json(struct sheaf__str *json, sheaf_bytes text)
{
    sheaf__str_char(json, '"');
    sheaf__str_json(json, text.data ? text.data : "", text.size);
    sheaf__str_char(json, '"');
}

static bool take_metadata(struct reading *r)
{
    struct sheaf__str *json = &r->s->metadata;
    sheaf_bytes text;
    for (sheaf__json_enter(&r->j, '{'); sheaf__json_key(&r->j, &text);) {
        sheaf__str_add(json, json->size ? "," : "");
        put_json(json, text);
        if (!sheaf__json_text(&r->j, &text))
            return false;
        sheaf__str_char(json, ':');
        put_json(json, text);
    }
    if (r->j.status >= 0 && json->failed)
        r->j.status = sheaf__no_memory(r->j.err, "the metadata of a safetensors file");
    return r->j.status >= 0;
}

static int compare_places(const void *a, const void *b)
{
    const struct sheaf__safetensors_tensor *x = *(const struct sheaf__safetensors_tensor *const *)a;
    const struct sheaf__safetensors_tensor *y = *(const struct sheaf__safetensors_tensor *const *)b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Each tensor begins where the one before it ended, and the last ends with the file. */
static sheaf_status check_places(const struct sheaf__safetensors *s, uint64_t file_size,
                                 const char *path, sheaf_error *err)
{
    const struct sheaf__safetensors_tensor **sorted =
        sheaf__alloc_array(s->count + 1, sizeof(*sorted));
    if (!sorted)
        return sheaf__no_memory(err, "the names of tensors");
    for (size_t i = 0; i < s->count; i++)
        sorted[i] = &s->tensors[i];
    if (s->count)
        qsort(sorted, s->count, sizeof(*sorted), compare_places);
    const uint64_t all = file_size - s->data;
    uint64_t end = 0;
    sheaf_status status = SHEAF_OK;
    for (size_t i = 0; i < s->count && status >= 0; i++) {
        const struct sheaf__safetensors_tensor *t = sorted[i];
        const struct sheaf__place place = {path, SHEAF__UNKNOWN, s->data + t->begin};
        if (t->begin != end)
            status = sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                                     "tensor '%.60s' begins at byte %llu of the data, %s byte %llu",
                                     t->name, (unsigned long long)t->begin,
                                     t->begin < end ? "overlapping the one that ends at"
                                                    : "after a hole from",
                                     (unsigned long long)end);
        else if (t->end > all)
            status = sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                                     "tensor '%.60s' ends at byte %llu of the data, which are %llu",
                                     t->name, (unsigned long long)t->end, (unsigned long long)all);
        end = t->end;
    }
    sheaf__free(sorted);
    const struct sheaf__place place = {path, SHEAF__UNKNOWN, s->data + end};
    if (status >= 0 && end != all)
        status = sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                                 "the data are %llu bytes, its tensors have %llu",
                                 (unsigned long long)all, (unsigned long long)end);
    return status;
}

sheaf_status sheaf__safetensors_parse(struct sheaf__safetensors *s, const char *text, size_t size,
                                      uint64_t file_size, const char *path, sheaf_error *err)
{
    struct reading r = {.s = s};
    sheaf_bytes name;
    *s = (struct sheaf__safetensors){.data = 8 + (uint64_t)size};
    sheaf__json_begin(&r.j, text, size, path, 8, err);
    bool metadata = false;
    for (sheaf__json_enter(&r.j, '{'); sheaf__json_key(&r.j, &name);) {
        if (!is(name, METADATA))
            take_tensor(&r, name);
        else if (metadata)
            sheaf__json_fail(&r.j, METADATA " is there twice");
        else
            metadata = take_metadata(&r);
    }
    SHEAF__TRY(sheaf__json_end(&r.j));
    return check_places(s, file_size, path, err);
}

/* ---- writing ---- */

static int compare_for_writing(const void *a, const void *b)
{
    const struct sheaf__tensor_entry *x = *(const struct sheaf__tensor_entry *const *)a;
    const struct sheaf__tensor_entry *y = *(const struct sheaf__tensor_entry *const *)b;
    const int rows = row_of(y->dtype) - row_of(x->dtype);
    return rows ? rows : strcmp(x->name, y->name);
}

void sheaf__safetensors_sort(const struct sheaf__tensor_entry **tensors, size_t count)
{
    if (count)
        qsort(tensors, count, sizeof(*tensors), compare_for_writing);
}

/* A name that the format can have. */
static sheaf_status check_name(const char *name, sheaf_error *err)
{
    if (!sheaf__str_is_utf8(name, strlen(name)))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "tensor '%.60s': its name is not UTF-8, as safetensors has it", name);
    if (!strcmp(name, METADATA))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "a tensor cannot be called '" METADATA "' in safetensors");
    return SHEAF_OK;
}

static sheaf_status add_header(struct sheaf__str *json, const struct sheaf__tensor_entry *t,
                               uint64_t *at, sheaf_error *err)
{
    const int row = row_of(t->dtype);
    if (row == DTYPES)
        return sheaf__error(err, SHEAF_ERR_UNIMPLEMENTED,
                            "tensor '%.60s' is of dtype %s, which safetensors does not have",
                            t->name, sheaf_dtype_name(t->dtype));
    SHEAF__TRY(check_name(t->name, err));
    sheaf__str_add(json, json->size > 8 + 1 ? ",\"" : "\"");
    sheaf__str_json(json, t->name, strlen(t->name));
    sheaf__str_printf(json, "\":{\"dtype\":\"%s\",\"shape\":[", dtypes[row].name);
    for (int i = 0; i < t->shape.rank; i++)
        sheaf__str_printf(json, i ? ",%lld" : "%lld", (long long)t->shape.dims[i]);
    const uint64_t size =
        (uint64_t)sheaf_shape_elements(t->shape) * (uint64_t)sheaf_dtype_size(t->dtype);
    sheaf__str_printf(json, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)*at,
                      (unsigned long long)(*at + size));
    *at += size;
    return SHEAF_OK;
}

sheaf_status sheaf__safetensors_header(struct sheaf__buf *out, const char *metadata,
                                       const struct sheaf__tensor_entry *const *tensors,
                                       size_t count, sheaf_error *err)
{
    struct sheaf__str json = {0};
    uint64_t at = 0;
    sheaf_status status = SHEAF_OK;
    sheaf__str_bytes(&json, "\0\0\0\0\0\0\0\0{", 9);
    if (*metadata)
        sheaf__str_printf(&json, "\"" METADATA "\":{%s}", metadata);
    for (size_t i = 0; i < count && status >= 0; i++)
        status = add_header(&json, tensors[i], &at, err);
    sheaf__str_char(&json, '}');
    while (json.size % 8 && !json.failed)
        sheaf__str_char(&json, ' ');
    if (status >= 0 && json.failed)
        status = sheaf__no_memory(err, "the header of a safetensors file");
    if (status >= 0 && json.size - 8 > SHEAF__SAFETENSORS_HEADER_LIMIT)
        status = sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                              "a header of %zu bytes is longer than safetensors allows (%d)",
                              json.size - 8, SHEAF__SAFETENSORS_HEADER_LIMIT);
    if (status >= 0) {
        sheaf__store64(json.text, json.size - 8);
        sheaf__buf_bytes(out, json.text, json.size);
        status = sheaf__buf_check(out, "the header of a safetensors file", err);
    }
    sheaf__str_free(&json);
    return status;
}
