/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of TensorFlow 2.15: every entry of tests/golden/printing. With a file as argument, the
 * tensors of that file instead. */
#include "rig.h"

#include "base/str.h"
#include "tensor/frame.h"
#include "tensor/kernel.h"
#include "tensor/print.h"
#include "tensor/tensor.h"

#include <sheaf/frame.h>
#include <sheaf/print.h>

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *golden(const char *path)
{
    json_error_t problem;
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &problem);
    if (!root)
        fail_msg("%s: %s", path, problem.text);
    return root;
}

static const char *text_of(const json_t *entry, const char *key)
{
    return json_string_value(json_object_get(entry, key));
}

/* ---- reading the tensors ---- */

static sheaf_shape shape_of(const json_t *dims)
{
    sheaf_shape shape = {.rank = (int)json_array_size(dims)};
    for (int i = 0; i < shape.rank; i++)
        shape.dims[i] = json_integer_value(json_array_get(dims, (size_t)i));
    return shape;
}

/* Number `i`: integers, hexadecimal floats, or start + i * step. */
static double number_of(const json_t *entry, int64_t i)
{
    if (json_object_get(entry, "fill"))
        return json_number_value(json_object_get(entry, "start")) +
               (double)i * json_number_value(json_object_get(entry, "step"));
    const json_t *value = json_array_get(json_object_get(entry, "values"), (size_t)i);
    if (json_is_string(value))
        return strtod(json_string_value(value), NULL);
    return json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
}

static int64_t integer_of(const json_t *entry, int64_t i)
{
    const json_t *value = json_array_get(json_object_get(entry, "values"), (size_t)i);
    return json_is_integer(value) ? json_integer_value(value) : (int64_t)number_of(entry, i);
}

static size_t from_hex(const char *hex, char *out)
{
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], 0};
        out[i] = (char)strtol(pair, NULL, 16);
    }
    return n;
}

static sheaf_tensor *strings_of(const json_t *entry, sheaf_shape shape)
{
    static char memory[4096];
    sheaf_bytes strings[64];
    size_t used = 0;
    for (int64_t i = 0; i < sheaf_shape_elements(shape); i++) {
        const json_t *value = json_array_get(json_object_get(entry, "values"), (size_t)i);
        strings[i].data = memory + used;
        strings[i].size = from_hex(json_string_value(value), memory + used);
        used += strings[i].size;
    }
    return sheaf_tensor_new(SHEAF_STRING, shape, strings);
}

static sheaf_tensor *tensor_of(const json_t *entry)
{
    sheaf_dtype dtype = sheaf_dtype_named(text_of(entry, "dtype"));
    sheaf_shape shape = shape_of(json_object_get(entry, "shape"));
    if (dtype == SHEAF_STRING)
        return strings_of(entry, shape);
    sheaf_tensor *t = sheaf_tensor_new(dtype, shape, NULL);
    assert_int_equal(sheaf_tensor_status(t, NULL), SHEAF_OK);
    bool whole = !strstr(sheaf_dtype_name(dtype), "float") && dtype != SHEAF_BOOL;
    for (int64_t i = 0; i < sheaf_shape_elements(shape); i++) {
        char *out = (char *)sheaf__tensor_out(t) + (size_t)i * sheaf_dtype_size(dtype);
        int64_t integer = whole ? integer_of(entry, i) : 0;
        double number = whole ? 0 : number_of(entry, i);
        if (whole)
            sheaf__kernel_cast(out, dtype, &integer, SHEAF_INT64, 1);
        else
            sheaf__kernel_cast(out, dtype, &number, SHEAF_FLOAT64, 1);
    }
    return t;
}

/* ---- comparing ---- */

static const enum sheaf__form forms[] = {SHEAF__REPR, SHEAF__STR, SHEAF__TF_PRINT};
static const char *const form_keys[] = {"repr", "str", "tf_print"};

/* The golden texts are UTF-8 with other bytes written as \xNN. */
static void add_as_golden(struct sheaf__str *out, const char *text, size_t size)
{
    const unsigned char *c = (const unsigned char *)text, *end = c + size;
    while (c < end) {
        size_t n = *c < 0x80 ? 1 : *c >= 0xf0 ? 4 : *c >= 0xe0 ? 3 : *c >= 0xc2 ? 2 : 0;
        bool valid = n > 0 && n <= (size_t)(end - c);
        for (size_t i = 1; i < n && valid; i++)
            valid = (c[i] & 0xc0) == 0x80;
        if (valid)
            sheaf__str_bytes(out, (const char *)c, n);
        else
            sheaf__str_printf(out, "\\x%02x", *c);
        c += valid ? n : 1;
    }
}

static int failures;
static int compared;

static void compare(const json_t *entry, const char *key, const char *text, size_t size)
{
    const json_t *expected = json_object_get(entry, key);
    struct sheaf__str found = {0};
    add_as_golden(&found, text, size);
    compared++;
    if (!expected || json_string_length(expected) != found.size ||
        memcmp(json_string_value(expected), sheaf__str_text(&found), found.size)) {
        if (failures++ < 10)
            print_error("%s %s\n--- found\n%s\n--- expected\n%s\n", text_of(entry, "id"), key,
                        sheaf__str_text(&found),
                        expected ? json_string_value(expected) : "(not in the file)");
    }
    sheaf__str_free(&found);
}

/* An empty axis behind others is written otherwise (printing.md section 9). */
static bool has_empty_later_axis(sheaf_shape shape)
{
    for (int i = 1; i < shape.rank; i++)
        if (shape.dims[i] == 0)
            return true;
    return false;
}

static void check_tensors(const char *path)
{
    json_t *root = golden(path);
    const json_t *entry;
    size_t i;
    failures = compared = 0;
    json_array_foreach(json_object_get(root, "tensors"), i, entry)
    {
        SHEAF_FRAME
        {
            sheaf_tensor *t = tensor_of(entry);
            for (int k = 0; k < 3; k++) {
                struct sheaf__str out = {0};
                sheaf__print_tensor(&out, t, forms[k]);
                if (k < 2 || !has_empty_later_axis(sheaf_tensor_shape(t)))
                    compare(entry, form_keys[k], sheaf__str_text(&out), out.size);
                sheaf__str_free(&out);
            }
        }
    }
    json_decref(root);
    assert_int_equal(failures, 0);
}

static const char *file_argument;

/* P1 to P4 and P7: all tensors that TensorFlow printed. */
static void test_tensors(void **state)
{
    (void)state;
    check_tensors(file_argument ? file_argument : rig_golden("printing/printing.json"));
    if (!file_argument)
        assert_true(compared >= 3 * 82 - 2);
}

/* The same on random ones, whose texts are the rules' own. */
static void test_random_tensors(void **state)
{
    (void)state;
    if (!file_argument)
        check_tensors(rig_golden("printing/random.json"));
}

/* ---- structures ---- */

static const char *str_of(struct sheaf__str *out)
{
    return sheaf__frame_str(out);
}

/* P5.1; tf.print of one is its repr (P8.3). */
static const char *replicas(sheaf_tensor **t, size_t count, enum sheaf__form form)
{
    struct sheaf__str out = {0};
    sheaf__print_replicas_begin(&out, "PerReplica");
    for (size_t i = 0; i < count; i++) {
        sheaf__print_replicas_item(&out, i);
        sheaf__print_tensor(&out, t[i], form == SHEAF__STR ? SHEAF__STR : SHEAF__REPR);
    }
    sheaf__print_replicas_end(&out);
    return str_of(&out);
}

static sheaf_tensor *ones(int64_t rows)
{
    float data[] = {1, 1, 1, 1};
    return sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(rows, 1), data);
}

static sheaf_tensor *int64s(int64_t n, int64_t a, int64_t b)
{
    int64_t data[] = {a, b};
    return sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(n), data);
}

static sheaf_tensor *floats(int64_t n, float a, float b)
{
    float data[] = {a, b};
    return sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(n), data);
}

static const char *per_replica(const char *id, enum sheaf__form form)
{
    sheaf_tensor *t[2] = {sheaf_float(1), sheaf_float(1)};
    if (!strcmp(id, "per-replica-one"))
        return replicas(t, 1, form);
    if (!strcmp(id, "per-replica-vector")) {
        t[0] = int64s(2, 0, 1);
        t[1] = int64s(2, 2, 3);
    } else if (!strcmp(id, "per-replica-matrix")) {
        t[0] = t[1] = ones(4);
    } else if (!strcmp(id, "per-replica-empty")) {
        t[0] = int64s(1, 8, 0);
        t[1] = int64s(0, 0, 0);
    } else if (!strcmp(id, "per-replica-python")) {
        t[0] = sheaf_plain(sheaf_int(0));
        t[1] = sheaf_plain(sheaf_int(1));
    }
    return replicas(t, 2, form);
}

/* P5.3, P5.4, P8.4 */
static const char *variable(const char *container, int count, const char *name, sheaf_tensor *value,
                            enum sheaf__form form)
{
    if (form == SHEAF__TF_PRINT)
        return sheaf_tf_print(value, 0);
    if (!container)
        return sheaf__print_variable_text(name, value);
    struct sheaf__str out = {0};
    sheaf__print_replicas_begin(&out, container);
    for (int i = 0; i < count; i++) {
        char own[64];
        snprintf(own, sizeof(own), i ? "%s/replica_%d" : "%s", name ? name : "Variable", i);
        sheaf__print_replicas_item(&out, (size_t)i);
        sheaf__print_variable(&out, own, value);
    }
    sheaf__print_replicas_end(&out);
    return str_of(&out);
}

static const char *any_variable(const char *id, enum sheaf__form form)
{
    float matrix[] = {1, 2, 3, 4};
    if (!strcmp(id, "mirrored-variable"))
        return variable("MirroredVariable", 2, NULL, sheaf_float(1), form);
    if (!strcmp(id, "mirrored-variable-named"))
        return variable("MirroredVariable", 2, "w", floats(2, 1, 2), form);
    if (!strcmp(id, "sync-on-read-variable"))
        return variable("SyncOnReadVariable", 2, "s", sheaf_float(0), form);
    if (!strcmp(id, "mirrored-variable-one"))
        return variable("MirroredVariable", 1, NULL, sheaf_float(1), form);
    if (!strcmp(id, "variable"))
        return variable(NULL, 1, NULL, sheaf_float(1), form);
    if (!strcmp(id, "variable-matrix"))
        return variable(NULL, 1, "m", sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2, 2), matrix),
                        form);
    return variable(NULL, 1, "t", sheaf_string("s"), form);
}

static void replica_leaf(size_t i, void *user, struct sheaf__node *node)
{
    (void)i;
    *node = (struct sheaf__node){.kind = 'x', .text = user};
}

static const char *element_in(const sheaf_element *e, enum sheaf__form form)
{
    return form == SHEAF__TF_PRINT ? sheaf_element_tf_print(e) : sheaf_element_str(e);
}

/* P6.1, P8.2, P8.3 */
static const char *container(const char *id, enum sheaf__form form)
{
    sheaf_element *e = sheaf_element_new();
    if (!strcmp(id, "tuple")) {
        e = sheaf_element_tuple(sheaf_float(1), sheaf_int(2), NULL);
    } else if (!strcmp(id, "tuple-one")) {
        e = sheaf_element_tuple(sheaf_float(1), NULL);
    } else if (!strcmp(id, "tuple-vectors")) {
        e = sheaf_element_tuple(int64s(1, 8, 0), int64s(0, 0, 0), int64s(0, 0, 0), NULL);
    } else if (!strcmp(id, "tuple-13") || !strcmp(id, "tuple-14")) {
        for (int i = 0; i < atoi(id + 6); i++)
            sheaf_element_put(e, sheaf__name_of((size_t)i), sheaf_int(i));
    } else if (!strcmp(id, "list")) {
        e = sheaf_element_tuple(sheaf_int(1), sheaf_string("a"), NULL);
        sheaf_element_nest(e, '[');
    } else if (!strcmp(id, "dict")) {
        sheaf_element_put(e, "b", sheaf_int(2));
        sheaf_element_put(e, "a", floats(1, 1, 0));
    } else {
        sheaf_tensor *t[2] = {ones(2), ones(2)};
        struct sheaf__str out = {0};
        e = sheaf_element_tuple(t[0], t[1], NULL);
        struct sheaf__structure s = sheaf__structure_of(e);
        const char *leaf = replicas(t, 2, SHEAF__REPR);
        sheaf__print_structure(&out, &s, form, replica_leaf, (void *)(uintptr_t)leaf);
        return str_of(&out);
    }
    return element_in(e, form);
}

/* P6.8, P6.9, P8.5 */
static const char *composite(const char *id, enum sheaf__form form)
{
    sheaf_error err;
    int32_t whole[] = {1, 2, 3};
    float real[] = {1, 0.5F, 2};
    int64_t splits[] = {0, 2, 2, 3}, float_splits[] = {0, 1, 3}, indices[] = {0, 0, 1, 1};
    sheaf_tensor *t;
    if (!strcmp(id, "ragged"))
        t = sheaf__tensor_ragged(sheaf_tensor_new(SHEAF_INT32, SHEAF_SHAPE(3), whole),
                                 sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(4), splits), &err);
    else if (!strcmp(id, "ragged-float"))
        t = sheaf__tensor_ragged(sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(3), real),
                                 sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(3), float_splits), &err);
    else
        t = sheaf__tensor_sparse(sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(2, 2), indices),
                                 sheaf_tensor_new(SHEAF_INT32, SHEAF_SHAPE(2), whole),
                                 SHEAF_SHAPE(2, 2), &err);
    t = sheaf__tensor_give(t, &err);
    return form == SHEAF__REPR  ? sheaf_repr(t)
           : form == SHEAF__STR ? sheaf_str(t)
                                : sheaf_tf_print(t, 0);
}

static const char *structure(const char *id, enum sheaf__form form)
{
    if (!strncmp(id, "per-replica-", 12) && strcmp(id, "per-replica-spec"))
        return per_replica(id, form);
    if (strstr(id, "variable"))
        return any_variable(id, form);
    if (!strcmp(id, "none"))
        return form == SHEAF__REPR  ? sheaf_repr(NULL)
               : form == SHEAF__STR ? sheaf_str(NULL)
                                    : sheaf_tf_print(NULL, 0);
    if (!strncmp(id, "tuple", 5) || !strcmp(id, "list") || !strcmp(id, "dict"))
        return container(id, form);
    if (!strncmp(id, "ragged", 6) || !strcmp(id, "sparse"))
        return composite(id, form);
    if (!strcmp(id, "tensor-spec") && form != SHEAF__TF_PRINT) {
        sheaf_tensor_spec spec = {NULL, SHEAF_FLOAT32, SHEAF_SHAPE(-1, 1)};
        return sheaf_spec_str(sheaf_element_spec_new(&spec, 1));
    }
    return NULL; /* texts of upper layers */
}

/* P5, P6, P8 */
static void test_structures(void **state)
{
    (void)state;
    json_t *root = golden(rig_golden("printing/printing.json"));
    const json_t *entry;
    size_t i;
    failures = compared = 0;
    json_array_foreach(json_object_get(root, "structures"), i, entry)
    {
        for (int k = 0; k < 3; k++)
            SHEAF_FRAME
            {
                const char *text = structure(text_of(entry, "id"), forms[k]);
                if (text)
                    compare(entry, form_keys[k], text, strlen(text));
            }
    }
    json_decref(root);
    assert_int_equal(failures, 0);
    assert_true(compared >= 77);
}

/* ---- what the golden file does not have ---- */

static void test_summarize(void **state)
{
    (void)state;
    int64_t data[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    sheaf_tensor *t = sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(10), data);
    assert_string_equal(sheaf_tf_print(t, 0), "[0 1 2 ... 7 8 9]");
    assert_string_equal(sheaf_tf_print(t, 1), "[0 ... 9]");
    assert_string_equal(sheaf_tf_print(t, -1), "[0 1 2 3 4 5 6 7 8 9]");
    assert_string_equal(sheaf_array_str(t), "[0 1 2 3 4 5 6 7 8 9]");
    assert_string_equal(sheaf_list_str(t), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]");
}

static void test_json(void **state)
{
    (void)state;
    sheaf_error err = {.status = SHEAF_ERR_IO, .message = "disk on fire"};
    assert_string_equal(sheaf_json_str(NULL), "null");
    assert_string_equal(sheaf_json_str(sheaf_failed(&err)), "null");
    assert_string_equal(sheaf_json_str(sheaf_float(0.1F)), "0.1");
    assert_string_equal(sheaf_json_str(sheaf_double(1e300)), "1e+300");
    assert_string_equal(sheaf_json_str(sheaf_bool(true)), "true");
    assert_string_equal(sheaf_json_str(sheaf_string("a\"\n\xc3\xa9")), "\"a\\\"\\n\xc3\xa9\"");
    assert_string_equal(sheaf_json_str(sheaf_string("\xff\xfe\xfd")), "{\"b64\":\"//79\"}");
    const float words[] = {INFINITY, -INFINITY, NAN, -0.0F};
    assert_string_equal(sheaf_json_str(sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2, 2), words)),
                        "[[\"Infinity\", \"-Infinity\"], [\"NaN\", -0.0]]");
    assert_string_equal(sheaf_json_str(sheaf_tensor_new(SHEAF_COMPLEX64, SHEAF_SHAPE(1), words)),
                        "[[\"Infinity\", \"-Infinity\"]]");
    const int64_t places[] = {0, 2, 1, 0}, splits[] = {0, 0, 2};
    sheaf_tensor *two = sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(2), places);
    sheaf_tensor *t = sheaf__tensor_sparse(sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(2, 2), places),
                                           two, SHEAF_SHAPE(2, 3), &err);
    assert_string_equal(sheaf_json_str(sheaf__tensor_give(t, &err)),
                        "{\"indices\": [[0, 2], [1, 0]], \"values\": [0, 2], \"shape\": [2, 3]}");
    t = sheaf__tensor_ragged(two, sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(3), splits), &err);
    assert_string_equal(sheaf_json_str(sheaf__tensor_give(t, &err)), "[[], [0, 2]]");
}

/* P6.2, P8.1: plain values, alone and in containers. */
static void test_plain_values(void **state)
{
    (void)state;
    sheaf_tensor *t = sheaf_plain(sheaf_double(3));
    assert_string_equal(sheaf_repr(t), "3.0");
    assert_string_equal(sheaf_tf_print(t, 0), "3.0");
    assert_string_equal(sheaf_element_str(sheaf_element_tuple(t, NULL)), "(3.0,)");
    assert_string_equal(sheaf_repr(sheaf_plain(sheaf_bool(true))), "True");
    assert_string_equal(sheaf_tf_print(sheaf_plain(sheaf_bool(true)), 0), "True");
    t = sheaf_plain(sheaf_string("it's"));
    assert_string_equal(sheaf_repr(t), "\"it's\"");
    assert_string_equal(sheaf_str(t), "it's");
    sheaf_element *e =
        sheaf_element_tuple(sheaf_plain(sheaf_int(1)), sheaf_plain(sheaf_string("b")), NULL);
    sheaf_element_nest(e, '[');
    assert_string_equal(sheaf_element_tf_print(e), "[1, 'b']");
    e = sheaf_element_new();
    sheaf_element_put(e, "0", sheaf_plain(sheaf_int(0)));
    sheaf_element_put(e, "1", sheaf_plain(sheaf_int(2)));
    sheaf_element_nest(e, '{');
    assert_string_equal(sheaf_element_str(e), "{0: 0, 1: 2}");
}

/* Dotted names are containers in containers. */
static void test_nesting(void **state)
{
    (void)state;
    sheaf_element *e = sheaf_element_new();
    const char *names[] = {"user.age", "image", "user.tags.0", "user.tags.1"};
    for (int i = 0; i < 4; i++)
        sheaf_element_put(e, names[i], sheaf_plain(sheaf_int(i)));
    assert_string_equal(sheaf_element_str(e), "{'user': {'age': 0, 'tags': (2, 3)}, 'image': 1}");
    assert_string_equal(sheaf_element_tf_print(e),
                        "{'image': 1, 'user': {'age': 0, 'tags': (2, 3)}}");
    e = sheaf_element_new();
    sheaf_element_put(e, "0.x", sheaf_plain(sheaf_int(7)));
    sheaf_element_put(e, "1", sheaf_plain(sheaf_int(8)));
    assert_string_equal(sheaf_element_str(e), "({'x': 7}, 8)");
    assert_string_equal(sheaf_spec_str(sheaf_element_spec_of(e)),
                        "({'x': TensorSpec(shape=(), dtype=tf.int32, name=None)}, "
                        "TensorSpec(shape=(), dtype=tf.int32, name=None))");
    assert_string_equal(sheaf_element_str(sheaf_element_new()), "()");
}

/* P8.2: nested containers break as Python's pprint breaks them. */
static void test_layout(void **state)
{
    (void)state;
    sheaf_element *e = sheaf_element_new();
    char name[64];
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof(name), "first.%d", i);
        sheaf_element_put(e, name, sheaf_int(i));
    }
    sheaf_element_put(e, "second", floats(2, 1, 2));
    assert_string_equal(
        sheaf_element_tf_print(e),
        "{'first': (0,\n           1,\n           2,\n           3,\n           4,\n"
        "           5,\n           6,\n           7,\n           8,\n           9,\n"
        "           10,\n           11),\n 'second': [1 2]}");
}

static void test_other_tensors(void **state)
{
    (void)state;
    sheaf_error err = {.status = SHEAF_ERR_IO, .message = "disk on fire"};
    assert_string_equal(sheaf_repr(sheaf_failed(&err)), "<failed tensor: disk on fire>");
    float complex_data[] = {1, 2, 0.5F, -1};
    sheaf_tensor *t = sheaf_tensor_new(SHEAF_COMPLEX64, SHEAF_SHAPE(2), complex_data);
    assert_string_equal(sheaf_list_str(t), "[(1+2j), (0.5-1j)]");
    uint8_t bits[] = {1, 255};
    t = sheaf_tensor_new(SHEAF_FLOAT8_E5M2, SHEAF_SHAPE(2), bits);
    assert_string_equal(sheaf_array_str(t), "[  1 255]");
    uint64_t large[] = {UINT64_MAX};
    t = sheaf_tensor_new(SHEAF_UINT64, SHEAF_SHAPE(1), large);
    assert_string_equal(sheaf_array_str(t), "[18446744073709551615]");
    /* Views with gaps print what they show. */
    float matrix[] = {1, 2, 3, 4};
    t = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2, 2), matrix);
    int64_t strides[] = {1, 2};
    t = sheaf__tensor_give(sheaf__tensor_view(t, SHEAF_SHAPE(2, 2), strides, 0, &err), &err);
    assert_string_equal(sheaf_list_str(t), "[[1.0, 3.0], [2.0, 4.0]]");
    /* Gradient of a look-up. */
    int32_t rows[] = {3};
    t = sheaf__tensor_rows(sheaf_tensor_new(SHEAF_INT32, SHEAF_SHAPE(1), rows),
                           sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(1, 2), matrix),
                           SHEAF_SHAPE(5, 2), &err);
    t = sheaf__tensor_give(t, &err);
    assert_string_equal(sheaf_str(t),
                        "IndexedSlices(indices=tf.Tensor([3], shape=(1,), dtype=int32), "
                        "values=tf.Tensor([[1. 2.]], shape=(1, 2), dtype=float32), "
                        "dense_shape=tf.Tensor([5 2], shape=(2,), dtype=int64))");
}

static sheaf_status print_all(void *user, sheaf_error *err)
{
    (void)user;
    sheaf_context *context = NULL;
    sheaf_status status = sheaf_context_new(NULL, &context, err);
    if (status < 0)
        return status;
    sheaf_context *before = sheaf_context_enter(context);
    SHEAF_FRAME
    {
        sheaf_element *e = sheaf_element_new();
        const char *names[] = {"a.0", "a.1", "b"};
        for (int i = 0; i < 3; i++)
            sheaf_element_put(e, names[i], sheaf_int(i));
        assert_non_null(sheaf_element_str(e));
        assert_non_null(sheaf_element_tf_print(e));
        assert_non_null(sheaf_spec_str(e ? sheaf_element_spec_of(e) : NULL));
        assert_non_null(sheaf_repr(ones(4)));
        status = sheaf_frame_status(err);
    }
    sheaf_context_enter(before);
    sheaf_context_free(context);
    return status;
}

/* With any allocation failing: some text, and the frame says so. */
static void test_without_memory(void **state)
{
    (void)state;
    assert_true(rig_fail_allocations(print_all, NULL) > 20);
}

int main(int argc, char **argv)
{
    file_argument = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        rig_test(test_tensors),        rig_test(test_random_tensors), rig_test(test_structures),
        rig_test(test_summarize),      rig_test(test_json),           rig_test(test_plain_values),
        rig_test(test_nesting),        rig_test(test_layout),         rig_test(test_other_tensors),
        rig_test(test_without_memory),
    };
    return rig_run(tests);
}
