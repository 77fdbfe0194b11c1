/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TEST_DATA_HELP_H
#define SHEAF_TEST_DATA_HELP_H

/* Elements as JSON in the form of tests/golden/input, so that pipelines are compared with what
 * TensorFlow gave, or with a literal: assert_elements(d, "[0, 1, [2, 3]]"). */

#include "rig.h"

#include "base/file.h"

#include <sheaf/dataset.h>
#include <sheaf/frame.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* tests/golden/input/NAME; json_decref(). */
static inline json_t *golden_load(const char *name)
{
    char path[128];
    json_error_t fault;
    snprintf(path, sizeof(path), "input/%s", name);
    json_t *root = json_load_file(rig_golden(path), JSON_ALLOW_NUL | JSON_DECODE_ANY, &fault);
    if (!root)
        fail_msg("%s: %s", name, fault.text);
    return root;
}

static inline json_t *literal(const char *text)
{
    json_error_t fault;
    json_t *value = json_loads(text, JSON_DECODE_ANY, &fault);
    if (!value)
        fail_msg("%s: %s", text, fault.text);
    return value;
}

static inline int64_t number_at(const json_t *object, const char *key, int64_t otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}
static inline const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* Equal as values: 3 is 3.0. */
static inline bool same_json(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    if (!json_is_array(a) || !json_is_array(b))
        return json_equal(a, b);
    bool same = json_array_size(a) == json_array_size(b);
    for (size_t i = 0; same && i < json_array_size(a); i++)
        same = same_json(json_array_get(a, i), json_array_get(b, i));
    return same;
}

/* A byte string as the goldens write it: itself if it is printable ASCII, else its digits. */
static inline json_t *text_json(sheaf_bytes b)
{
    bool plain = true;
    for (size_t i = 0; i < b.size; i++)
        plain = plain && ((b.data[i] >= 0x20 && b.data[i] < 0x7f) || b.data[i] == '\t' ||
                          b.data[i] == '\r' || b.data[i] == '\n');
    if (plain)
        return json_stringn_nocheck(b.data ? b.data : "", b.size);
    char *hex = malloc(2 * b.size + 5);
    int at = sprintf(hex, "hex:");
    for (size_t i = 0; i < b.size; i++)
        at += sprintf(hex + at, "%02x", (unsigned char)b.data[i]);
    json_t *value = json_string(hex);
    free(hex);
    return value;
}

/* The bytes of a text of the goldens, in `out` with room; returns how many. */
static inline size_t text_of(const json_t *value, char *out)
{
    const char *text = json_string_value(value);
    size_t size = json_string_length(value);
    if (strncmp(text, "hex:", 4) != 0) {
        memcpy(out, text, size);
        return size;
    }
    for (size_t i = 4; i < size; i += 2) {
        const char pair[] = {text[i], text[i + 1], 0};
        out[(i - 4) / 2] = (char)strtol(pair, NULL, 16);
    }
    return (size - 4) / 2;
}

static inline json_t *value_json(const sheaf_tensor *t, int64_t i)
{
    sheaf_dtype dtype = sheaf_tensor_dtype(t);
    if (dtype == SHEAF_STRING)
        return text_json(sheaf_tensor_bytes(t, i));
    if (dtype == SHEAF_FLOAT32 || dtype == SHEAF_FLOAT64) {
        const double number = sheaf_tensor_number(t, i);
        if (isfinite(number))
            return json_real(number);
        return json_string(isnan(number) ? "nan" : number > 0 ? "inf" : "-inf");
    }
    return json_integer(sheaf_tensor_integer(t, i));
}

static inline json_t *axis_json(const sheaf_tensor *t, sheaf_shape shape, int axis, int64_t *at)
{
    if (axis == shape.rank)
        return value_json(t, (*at)++);
    json_t *list = json_array();
    for (int64_t i = 0; i < shape.dims[axis]; i++)
        json_array_append_new(list, axis_json(t, shape, axis + 1, at));
    return list;
}

static inline json_t *tensor_json(const sheaf_tensor *t)
{
    int64_t at = 0;
    return axis_json(t, sheaf_tensor_shape(t), 0, &at);
}

/* The list of its components. */
static inline json_t *components_json(const sheaf_element *e)
{
    json_t *list = json_array();
    for (size_t i = 0; i < sheaf_element_size(e); i++)
        json_array_append_new(list, tensor_json(sheaf_element_at(e, i)));
    return list;
}

/* A lone component as itself, several as a list. */
static inline json_t *element_json(const sheaf_element *e)
{
    return sheaf_element_size(e) == 1 ? tensor_json(sheaf_element_at(e, 0)) : components_json(e);
}

static inline json_t *shape_json(sheaf_shape shape)
{
    json_t *list = json_array();
    for (int i = 0; i < shape.rank; i++)
        json_array_append_new(list, shape.dims[i] < 0 ? json_null() : json_integer(shape.dims[i]));
    return list;
}

/* {"status": "InvalidArgument"}, as in the goldens. */
static inline json_t *status_json(sheaf_status status)
{
    char name[64];
    snprintf(name, sizeof(name), "%s", sheaf_status_name(status));
    char *end = strstr(name, "Error");
    if (end)
        *end = '\0';
    return json_pack("{s:s}", "status", name);
}

/* All that an iterator still gives, at most `most` things, errors in their place. */
static inline json_t *drain(sheaf_iterator *it, json_t *(*as_json)(const sheaf_element *), int most)
{
    json_t *list = json_array();
    sheaf_status status = SHEAF_OK;
    while (status != SHEAF_END && (int)json_array_size(list) < most) {
        SHEAF_FRAME
        {
            sheaf_error err = {0};
            sheaf_element *e = NULL;
            status = sheaf_iterator_next(it, &e, &err);
            assert_int_equal(status < 0 ? err.status : 0, status < 0 ? status : 0);
            if (status < 0)
                json_array_append_new(list, status_json(status));
            else if (status == SHEAF_OK)
                json_array_append_new(list, as_json(e));
        }
    }
    return list;
}

static inline json_t *elements_by(sheaf_dataset *d, json_t *(*as_json)(const sheaf_element *))
{
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    json_t *list = drain(it, as_json, 100000);
    sheaf_iterator_free(it);
    return list;
}
static inline json_t *elements(sheaf_dataset *d)
{
    return elements_by(d, element_json);
}

/* Fails with both texts unless equal; uses up `found`. */
static inline void assert_json_at(json_t *found, const json_t *expected, const char *what,
                                  const char *file, int line)
{
    if (!same_json(found, expected)) {
        char *a = json_dumps(found, JSON_ENCODE_ANY), *b = json_dumps(expected, JSON_ENCODE_ANY);
        print_error("%s:%d: %s\nfound    %.1500s\nexpected %.1500s\n", file, line, what, a, b);
        free(a);
        free(b);
        json_decref(found);
        _fail(file, line);
    }
    json_decref(found);
}
#define assert_json(found, expected, what) \
    assert_json_at((found), (expected), (what), __FILE__, __LINE__)

/* A fresh iteration of `d` (borrowed) gives these elements. */
#define assert_elements(d, text)                                            \
    do {                                                                    \
        json_t *expected_here = literal(text);                              \
        assert_json_at(elements(d), expected_here, #d, __FILE__, __LINE__); \
        json_decref(expected_here);                                         \
    } while (0)
/* The same; uses up `d`. */
#define assert_gives(d, text)                \
    do {                                     \
        sheaf_dataset *dataset_here = (d);   \
        assert_elements(dataset_here, text); \
        sheaf_dataset_free(dataset_here);    \
    } while (0)

/* The first thing that a fresh iteration of `d` (used up) gives is an error. */
static inline void assert_first_fails_at(sheaf_dataset *d, sheaf_status status, const char *part,
                                         const char *file, int line)
{
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    sheaf_element *e = NULL;
    sheaf_status found = sheaf_iterator_next(it, &e, &err);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    rig_fails_at(found, &err, status, part, file, line);
}
#define assert_first_fails(d, status, part) \
    assert_first_fails_at((d), (status), (part), __FILE__, __LINE__)

/* An int64 tensor of a list of numbers, or of lists of them (one size), in the frame. */
static inline sheaf_tensor *int64_of(const json_t *list)
{
    int64_t values[256];
    size_t n = json_array_size(list), width = 1, count = 0;
    bool nested = n > 0 && json_is_array(json_array_get(list, 0));
    if (nested)
        width = json_array_size(json_array_get(list, 0));
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < width; k++) {
            const json_t *row = json_array_get(list, i);
            assert_true(count < 256);
            values[count++] = json_integer_value(nested ? json_array_get(row, k) : row);
        }
    return sheaf_tensor_new(
        SHEAF_INT64, nested ? SHEAF_SHAPE((int64_t)n, (int64_t)width) : SHEAF_SHAPE((int64_t)n),
        values);
}

/* The numbers of a list, one an element. */
static inline sheaf_dataset *slices_of(const char *text)
{
    sheaf_dataset *d = NULL;
    SHEAF_FRAME
    {
        json_t *list = literal(text);
        d = sheaf_dataset_from_slices(sheaf_element_of(int64_of(list)));
        json_decref(list);
    }
    return d;
}

/* Spec of one nameless tensor, in the frame. */
static inline sheaf_element_spec *spec_of(sheaf_dtype dtype, sheaf_shape shape)
{
    const sheaf_tensor_spec spec = {NULL, dtype, shape};
    return sheaf_element_spec_new(&spec, 1);
}

/* Lists as a dataset: each one tensor of one axis, by a generator. */
struct lists {
    const json_t *rows;
    size_t at;
};
static inline sheaf_status lists_start(void *user, void **state, sheaf_error *err)
{
    struct lists *l = calloc(1, sizeof(*l));
    (void)err;
    l->rows = user;
    *state = l;
    return SHEAF_OK;
}
static inline sheaf_status lists_next(void *state, sheaf_element *out, sheaf_error *err)
{
    struct lists *l = state;
    (void)err;
    if (l->at == json_array_size(l->rows))
        return SHEAF_END;
    return sheaf_element_put(out, "", int64_of(json_array_get(l->rows, l->at++)));
}
/* `rows` lives as long as the dataset. */
static inline sheaf_dataset *dataset_of_lists(json_t *rows)
{
    const sheaf_generator g = {lists_start, lists_next, free, rows};
    sheaf_dataset *d = NULL;
    SHEAF_FRAME
    d = sheaf_dataset_from_generator(&g, spec_of(SHEAF_INT64, SHEAF_SHAPE(-1)));
    return d;
}

#endif
