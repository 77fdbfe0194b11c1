/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing tf.train.Example (formats.md 3). Expected: tests/golden/example, made by TensorFlow. */
#include "features.h"

#include "base/clock.h"
#include "base/thread.h"
#include "format/example.h"
#include "format/record.h"
#include "tensor/strings.h"

/* Where protobuf's rules and TensorFlow's parser part (formats.md 3.2), ours keeps the rules: the values
 * then, or the status. */
static const struct standard {
    const char *name;
    const char *values; /* NULL: an error */
    sheaf_status status;
} standards[] = {
    {"missing, shape [0]", "[]", SHEAF_OK},
    {"empty list, default", "[7]", SHEAF_OK}, /* T34: no value is none, be there a list or not */
    {"empty list", "[3]", SHEAF_OK},
    {"two packed chunks", "[1, 2]", SHEAF_OK},
    {"two float chunks", "[1.5, 2.5]", SHEAF_OK},
    {"packed, then unpacked", "[1, 2]", SHEAF_OK},
    {"unpacked, then packed", "[1, 2]", SHEAF_OK},
    {"two kinds, int64 first", NULL, SHEAF_ERR_INVALID_ARGUMENT},
    {"two kinds, float first", "[1]", SHEAF_OK},
    {"two lists of one kind", "[1, 2]", SHEAF_OK},
    {"kind 4", "[]", SHEAF_OK},
    {"unknown field in Feature, first", "[1]", SHEAF_OK},
    {"unknown field in a list", "[1]", SHEAF_OK},
    {"unknown field in Features", "[5]", SHEAF_OK},
    {"unknown field in an entry", "[5]", SHEAF_OK},
    {"entry without value", "[]", SHEAF_OK},
    {"entry without key", "[5]", SHEAF_OK},
    {"duplicate key, last without kind, dense", "[0]", SHEAF_OK},
    {"duplicate key, last without kind, sparse", "[]", SHEAF_OK},
    {"duplicate key, last without kind, ragged", "[]", SHEAF_OK},
    {"tag in two bytes", "[5]", SHEAF_OK},
    {"float chunk of 6 bytes", NULL, SHEAF_ERR_DATA_LOSS},
    {"cut at 2", NULL, SHEAF_ERR_DATA_LOSS},
    {"cut at 16", NULL, SHEAF_ERR_DATA_LOSS},
    {"not an Example", NULL, SHEAF_ERR_DATA_LOSS},
};

static const struct standard *standard_of(const char *name)
{
    for (size_t i = 0; i < sizeof(standards) / sizeof(standards[0]); i++) {
        if (strcmp(standards[i].name, name) == 0)
            return &standards[i];
    }
    return NULL;
}

/* ---- values against JSON ---- */

static void compare_value(const sheaf_tensor *t, int64_t i, const json_t *want, const char *name)
{
    if (sheaf_tensor_dtype(t) == SHEAF_STRING) {
        char text[4096];
        sheaf_bytes got = sheaf_tensor_bytes(t, i);
        assert_int_equal(got.size, golden_text(want, text));
        assert_memory_equal(got.data, text, got.size);
    } else if (sheaf_tensor_dtype(t) == SHEAF_INT64) {
        if (sheaf_tensor_integer(t, i) != json_integer_value(want))
            fail_msg("%s: value %d is %lld", name, (int)i, (long long)sheaf_tensor_integer(t, i));
    } else {
        double got = sheaf_tensor_number(t, i), right = number_of(want);
        if (!(got == right && signbit(got) == signbit(right)) && !(isnan(got) && isnan(right)))
            fail_msg("%s: value %d is %g, expected %g", name, (int)i, got, right);
    }
}

/* All elements of `t` against a list, nested or not. Returns how many were compared. */
static int64_t compare_nested(const sheaf_tensor *t, int64_t at, const json_t *want,
                              const char *name)
{
    if (!json_is_array(want)) {
        compare_value(t, at, want, name);
        return 1;
    }
    int64_t done = 0;
    size_t i;
    const json_t *v;
    json_array_foreach(want, i, v) done += compare_nested(t, at + done, v, name);
    return done;
}

static void compare_all(const sheaf_tensor *t, const json_t *want, const char *name)
{
    if (compare_nested(t, 0, want, name) != sheaf_tensor_elements(t))
        fail_msg("%s has %d elements", name, (int)sheaf_tensor_elements(t));
}

static void compare_shape(sheaf_shape got, const json_t *want, const char *name)
{
    if (got.rank != (int)json_array_size(want))
        fail_msg("%s has %d axes", name, got.rank);
    for (int i = 0; i < got.rank; i++)
        assert_int_equal(got.dims[i], json_integer_value(json_array_get(want, (size_t)i)));
}

static void compare_sparse(const sheaf_tensor *t, const json_t *want, const char *name)
{
    assert_int_equal(t->layout, SHEAF__SPARSE);
    compare_all(t->parts[SHEAF__INDICES], json_object_get(want, "indices"), name);
    compare_all(t->parts[SHEAF__VALUES], json_object_get(want, "values"), name);
    compare_shape(t->shape, json_object_get(want, "dense_shape"), name);
}

static void compare_tensor(const sheaf_tensor *t, const json_t *want, const char *name)
{
    const json_t *v;
    if ((v = json_object_get(want, "dense"))) {
        assert_int_equal(t->layout, SHEAF__DENSE);
        compare_shape(t->shape, json_object_get(v, "shape"), name);
        compare_all(t, json_object_get(v, "values"), name);
    } else if ((v = json_object_get(want, "sparse"))) {
        compare_sparse(t, v, name);
    } else {
        v = json_object_get(want, "ragged");
        assert_int_equal(t->layout, SHEAF__RAGGED);
        compare_all(t->parts[SHEAF__RAGGED_VALUES], json_object_get(v, "values"), name);
        compare_all(t->parts[SHEAF__ROW_SPLITS],
                    json_array_get(json_object_get(v, "row_splits"), 0), name);
    }
}

/* Only the values, of any layout. */
static void compare_values(const sheaf_tensor *t, const char *json, const char *name)
{
    json_t *want = json_loads(json, JSON_DECODE_ANY, NULL);
    const sheaf_tensor *values = t->layout == SHEAF__SPARSE   ? t->parts[SHEAF__VALUES]
                                 : t->layout == SHEAF__RAGGED ? t->parts[SHEAF__RAGGED_VALUES]
                                                              : t;
    compare_all(values, want, name);
    json_decref(want);
}

/* ---- parsing ---- */

static sheaf_bytes from_hex(const char *hex, char *out)
{
    json_t *v = json_pack("{s:s}", "hex", hex);
    size_t size = golden_bytes(v, out);
    json_decref(v);
    return (sheaf_bytes){out, size};
}

static sheaf_status parse(const struct features *f, const sheaf_bytes *serialized, size_t count,
                          bool single, sheaf_element **e, sheaf_error *err)
{
    struct sheaf__example_parser *parser;
    sheaf_status status = sheaf__example_parser_new(f->list, f->count, &parser, err);
    if (status < 0)
        return status;
    struct sheaf__example_input input = {
        .serialized = serialized, .count = count, .single = single};
    status = sheaf__example_parser_run(parser, &input, e, err);
    sheaf__example_parser_free(parser);
    return status;
}

/* TensorFlow's failures: bytes that are no Example are data loss for us. */
static sheaf_status status_of(const json_t *error)
{
    const char *message = json_string_value(json_object_get(error, "message"));
    if (!message)
        message = json_string_value(json_object_get(error, "text"));
    bool malformed =
        strstr(message, "Could not parse example input") ||
        (strstr(message, "Can't parse serialized Example.") && strstr(message, "list"));
    return malformed ? SHEAF_ERR_DATA_LOSS : SHEAF_ERR_INVALID_ARGUMENT;
}

static void check_parse(const json_t *want, const char *name, const struct features *f,
                        const sheaf_bytes *serialized, size_t count, bool single)
{
    SHEAF_FRAME
    {
        sheaf_element *e = NULL;
        sheaf_error err = {0};
        sheaf_status status = parse(f, serialized, count, single, &e, &err);
        const struct standard *standard = standard_of(name);
        const json_t *error = json_object_get(want, "error"), *t;
        sheaf_status right = standard ? standard->status : error ? status_of(error) : SHEAF_OK;
        if (status != right && !(error && !standard && status < 0))
            fail_msg("%s: %s, expected %s: %s", name, sheaf_status_name(status),
                     sheaf_status_name(right), err.message);
        if (status < 0) {
            assert_null(e);
            assert_true(err.message[0]);
            break;
        }
        assert_int_equal(sheaf_element_size(e), f->count);
        if (standard) {
            compare_values(sheaf_element_get(e, NULL), standard->values, name);
            break;
        }
        const char *key;
        json_object_foreach((json_t *)(uintptr_t)want, key, t)
            compare_tensor(sheaf_element_get(e, key), t, name);
    }
}

static int check_golden(const json_t *c)
{
    static char bytes[16][4096];
    sheaf_bytes serialized[16];
    struct features f;
    const char *name = json_string_value(json_object_get(c, "name"));
    bool can = set_features(&f, json_object_get(c, "spec")) &&
               strcmp(name, "sequence without allow_missing") != 0;
    const json_t *examples = json_object_get(c, "examples"), *example;
    size_t i;
    if (can && examples) {
        json_array_foreach(examples, i, example) serialized[i] =
            from_hex(json_string_value(example), bytes[i]);
        check_parse(json_object_get(c, "batch"), name, &f, serialized, json_array_size(examples),
                    false);
    } else if (can) {
        serialized[0] = from_hex(json_string_value(json_object_get(c, "example")), bytes[0]);
        check_parse(json_object_get(c, "single"), name, &f, serialized, 1, true);
        check_parse(json_object_get(c, "batch_of_one"), name, &f, serialized, 1, false);
    }
    free_features(&f);
    return can;
}

/* formats.md 3.2, 3.4; T34 */
static void parses_every_golden(void **state)
{
    (void)state;
    json_t *root = golden_json("example");
    size_t i;
    json_t *c;
    int checked = 0;
    json_array_foreach(json_object_get(root, "cases"), i, c) checked += check_golden(c);
    assert_true(checked >= 105);
    json_decref(root);
}

/* The second set: columns of batches, or one element a record, as nested lists. */
static void compare_plain(const sheaf_tensor *t, const json_t *want, const char *name)
{
    if (json_is_object(want)) {
        compare_sparse(t, want, name);
    } else if (t->layout == SHEAF__RAGGED) {
        const sheaf_tensor *splits = t->parts[SHEAF__ROW_SPLITS];
        assert_int_equal(sheaf_tensor_elements(splits), json_array_size(want) + 1);
        for (int64_t i = 0; i < (int64_t)json_array_size(want); i++)
            assert_int_equal(sheaf_tensor_integer(splits, i + 1) - sheaf_tensor_integer(splits, i),
                             json_array_size(json_array_get(want, (size_t)i)));
        compare_all(t->parts[SHEAF__RAGGED_VALUES], want, name);
    } else {
        compare_all(t, want, name);
    }
}

/* Parses `count` records to one expected element. */
static void check_element(const struct features *f, const json_t *want, const char *name,
                          const sheaf_bytes *serialized, size_t count, bool single)
{
    SHEAF_FRAME
    {
        sheaf_element *e;
        sheaf_error err = {0};
        const char *key;
        const json_t *v;
        rig_ok(parse(f, serialized, count, single, &e, &err), &err);
        json_object_foreach((json_t *)(uintptr_t)want, key, v)
            compare_plain(sheaf_element_get(e, key), v, name);
    }
}

static int check_input(const json_t *c)
{
    static char bytes[16][4096];
    sheaf_bytes serialized[16];
    struct features f;
    const char *name = json_string_value(json_object_get(c, "name"));
    bool batched = json_is_true(json_object_get(c, "batched"));
    const json_t *records = json_object_get(c, "records_hex"), *record, *want;
    const json_t *output = json_object_get(c, "output");
    bool can = set_features(&f, json_object_get(c, "features")) && !standard_of(name);
    size_t i, count = json_array_size(records);
    json_array_foreach(records, i, record) serialized[i] =
        from_hex(json_string_value(record), bytes[i]);
    if (can && !output) {
        sheaf_element *e;
        sheaf_error err = {0};
        sheaf_status status = SHEAF_OK;
        SHEAF_FRAME
        {
            for (i = 0; i < count && status >= 0; i += batched ? count : 1)
                status = parse(&f, serialized + i, batched ? count : 1, !batched, &e, &err);
        }
        if (status >= 0)
            fail_msg("%s: no error", name);
    } else if (can) {
        json_array_foreach(output, i, want)
            check_element(&f, want, name, serialized + i, batched ? count : 1, !batched);
    }
    free_features(&f);
    return can;
}

static void parses_every_pipeline_golden(void **state)
{
    (void)state;
    json_error_t fault;
    json_t *root = json_load_file(rig_golden("example/parse_example.json"), 0, &fault);
    assert_non_null(root);
    size_t i;
    json_t *c;
    int checked = 0;
    json_array_foreach(json_object_get(root, "cases"), i, c) checked += check_input(c);
    assert_true(checked >= 55);
    json_decref(root);
}

/* Records of a file to one batch: strings are views into the map. */
static void parses_a_file_without_copies(void **state)
{
    (void)state;
    json_t *root = golden_json("example");
    const json_t *file = json_object_get(json_object_get(root, "files"), "examples.tfrecord");
    struct features f;
    assert_true(set_features(&f, json_object_get(file, "spec")));
    struct sheaf__record_source *s;
    struct sheaf__example_parser *parser;
    sheaf_bytes records[32];
    size_t count;
    void *owner;
    sheaf_error err = {0};
    rig_ok(sheaf__record_source_open(rig_golden("example/examples.tfrecord"), NULL, &s, &err),
           &err);
    rig_ok(sheaf__record_source_next(s, records, 32, &count, (struct sheaf__object **)&owner, &err),
           &err);
    assert_int_equal(count, json_integer_value(json_object_get(file, "records")));
    rig_ok(sheaf__example_parser_new(f.list, f.count, &parser, &err), &err);
    sheaf_element *e;
    SHEAF_FRAME
    {
        struct sheaf__example_input input = {
            .serialized = records, .count = count, .owners = &owner, .owner_count = 1};
        rig_ok(sheaf__example_parser_run(parser, &input, &e, &err), &err);
        sheaf_element_keep(e);
    }
    const char *low = records[0].data, *high = records[count - 1].data + records[count - 1].size;
    sheaf__record_source_free(s); /* the element keeps the file mapped */
    sheaf__example_parser_free(parser);
    const char *key;
    const json_t *want;
    json_object_foreach(json_object_get(file, "batch_of_all"), key, want)
        compare_tensor(sheaf_element_get(e, key), want, key);
    const sheaf_tensor *words = sheaf_element_get(e, "words")->parts[SHEAF__VALUES];
    for (int64_t i = 0; i < sheaf_tensor_elements(words); i++) {
        const char *at = sheaf_tensor_bytes(words, i).data;
        assert_true(at >= low && at < high);
    }
    sheaf_element_free(e);
    free_features(&f);
    json_decref(root);
}

/* Without an owner, strings are copies: the bytes may go. */
static void strings_without_owner_are_copied(void **state)
{
    (void)state;
    sheaf_example *x = sheaf_example_new();
    sheaf_bytes message;
    sheaf_error err = {0};
    sheaf_element *e;
    sheaf_example_bytes(x, "s", (sheaf_bytes[]){{"one", 3}, {"", 0}, {"three", 5}}, 3);
    rig_ok(sheaf_example_serialize(x, &message, &err), &err);
    sheaf_feature features[] = {
        {.key = "s", .dtype = SHEAF_STRING, .rank = 1, .dims = {3}},
        {.key = "d", .dtype = SHEAF_STRING, .default_value = &(sheaf_bytes){"default", 7}}};
    rig_ok(sheaf_example_parse(&message, 1, features, 2, &e, &err), &err);
    memset((char *)(uintptr_t)message.data, 'x', message.size);
    sheaf_example_free(x);
    sheaf_bytes s = sheaf_tensor_bytes(sheaf_element_get(e, "s"), 2);
    assert_int_equal(s.size, 5);
    assert_memory_equal(s.data, "three", 5);
    s = sheaf_tensor_bytes(sheaf_element_get(e, "d"), 0);
    assert_memory_equal(s.data, "default", 7);
}

/* Packed numbers of 1 to 10 bytes in any order and number, into a row and into a growing column: they
 * come out as they went in, and a list that is cut is no list. */
static void packed_numbers_of_all_lengths(void **state)
{
    (void)state;
    enum { MOST = 90 };
    uint64_t random = 1;
    int64_t values[MOST] = {0};
    sheaf_example *x = sheaf_example_new();
    for (int round = 0; round < 400; round++) {
        const size_t count = 1 + (size_t)round % MOST;
        for (size_t i = 0; i < count; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407U;
            values[i] =
                (int64_t)(random >> (random >> 57 & (round % 3 ? 63 : 7) ? random % 64 : 58));
        }
        const sheaf_feature features[] = {
            {.key = "v", .name = "row", .dtype = SHEAF_INT64, .rank = 1, .dims = {(int64_t)count}},
        };
        const sheaf_feature ragged[] = {
            {.key = "v", .dtype = SHEAF_INT64, .kind = SHEAF_FEATURE_RAGGED}};
        sheaf_error err = {0};
        sheaf_bytes message;
        sheaf_example_clear(x);
        sheaf_example_int64(x, "v", values, count);
        rig_ok(sheaf_example_serialize(x, &message, &err), &err);
        SHEAF_FRAME
        {
            sheaf_element *e;
            rig_ok(sheaf_example_parse(&message, 1, features, 1, &e, &err), &err);
            assert_memory_equal(sheaf_tensor_data(sheaf_element_get(e, "row")), values, 8 * count);
            rig_ok(sheaf_example_parse(&message, 1, ragged, 1, &e, &err), &err);
            const sheaf_tensor *t = sheaf_element_get(e, "v")->parts[SHEAF__RAGGED_VALUES];
            assert_int_equal(sheaf_tensor_elements(t), count);
            assert_memory_equal(sheaf_tensor_data(t), values, 8 * count);
            ((char *)(uintptr_t)message.data)[message.size - 1] |= (char)0x80;
            assert_int_equal(sheaf_example_parse(&message, 1, features, 1, &e, &err),
                             SHEAF_ERR_DATA_LOSS);
        }
    }
    sheaf_example_free(x);
}

static const sheaf_feature LISTS[] = {
    {.key = "ints", .dtype = SHEAF_INT64, .kind = SHEAF_FEATURE_RAGGED},
    {.key = "floats", .dtype = SHEAF_FLOAT32, .kind = SHEAF_FEATURE_RAGGED},
    {.key = "text", .dtype = SHEAF_STRING, .kind = SHEAF_FEATURE_RAGGED},
};

/* The values of the last row of a ragged tensor are those of the only row of another. */
static void compare_last_row(const sheaf_tensor *t, const sheaf_tensor *alone)
{
    const int64_t *splits = sheaf_tensor_data(t->parts[SHEAF__ROW_SPLITS]);
    const sheaf_tensor *values = t->parts[SHEAF__RAGGED_VALUES];
    const sheaf_tensor *expected = alone->parts[SHEAF__RAGGED_VALUES];
    const size_t item = sheaf_dtype_size(sheaf_tensor_dtype(values));
    assert_int_equal(splits[2] - splits[1], sheaf_tensor_elements(expected));
    for (int64_t i = splits[1]; i < splits[2]; i++) {
        const int64_t k = i - splits[1];
        if (sheaf_tensor_dtype(values) != SHEAF_STRING) {
            assert_memory_equal((const char *)sheaf_tensor_data(values) + (size_t)i * item,
                                (const char *)sheaf_tensor_data(expected) + (size_t)k * item, item);
            continue;
        }
        const sheaf_bytes a = sheaf_tensor_bytes(values, i), b = sheaf_tensor_bytes(expected, k);
        assert_int_equal(a.size, b.size);
        assert_memory_equal(a.data, b.data, a.size);
    }
}

/* A message that begins as the one before it is parsed in a shorter way. Whatever byte of it is
 * another, it comes to the same as by itself. */
static void what_is_expected_changes_nothing(void **state)
{
    (void)state;
    const int64_t ints[] = {5, -1, 300, 70000};
    const float floats[] = {1.5f, 2.5f};
    const sheaf_bytes text = {"some text", 9};
    sheaf_example *x = sheaf_example_new();
    sheaf_example_int64(x, "ints", ints, 4);
    sheaf_example_float(x, "floats", floats, 2);
    sheaf_example_bytes(x, "text", &text, 1);
    sheaf_bytes message;
    sheaf_error err = {0};
    int good = 0, bad = 0;
    rig_ok(sheaf_example_serialize(x, &message, &err), &err);
    for (size_t at = 0; at < message.size; at++)
        for (unsigned flip = 1; flip < 256; flip++)
            SHEAF_FRAME
            {
                char other[200];
                sheaf_element *alone, *both;
                sheaf_error err_alone = {0}, err_both = {0};
                memcpy(other, message.data, message.size);
                other[at] = (char)(other[at] ^ (char)flip);
                const sheaf_bytes pair[] = {message, {other, message.size}};
                const sheaf_status status =
                    sheaf_example_parse(&pair[1], 1, LISTS, 3, &alone, &err_alone);
                assert_int_equal(sheaf_example_parse(pair, 2, LISTS, 3, &both, &err_both), status);
                good += status == SHEAF_OK;
                bad += status != SHEAF_OK;
                for (int i = 0; i < 3 && status == SHEAF_OK; i++)
                    compare_last_row(sheaf_element_at(both, (size_t)i),
                                     sheaf_element_at(alone, (size_t)i));
            }
    assert_true(good > 1000 && bad > 1000);
    sheaf_example_free(x);
}

/* Key, number of the example, found and expected (T34). */
static void errors_name_key_and_example(void **state)
{
    (void)state;
    sheaf_example *x = sheaf_example_new();
    char bytes[3][200];
    sheaf_bytes serialized[3], message;
    sheaf_error err = {0};
    for (int i = 0; i < 3; i++) {
        sheaf_example_clear(x);
        sheaf_example_int64(x, "a", (int64_t[]){1, 2, 3}, i == 1 ? 3 : 2);
        if (i < 2)
            sheaf_example_float(x, "b", (float[]){1}, 1);
        rig_ok(sheaf_example_serialize(x, &message, &err), &err);
        memcpy(bytes[i], message.data, message.size);
        serialized[i] = (sheaf_bytes){bytes[i], message.size};
    }
    sheaf_example_free(x);
    static const struct {
        sheaf_feature feature;
        const char *message;
    } cases[] = {
        {{.key = "a", .dtype = SHEAF_INT64, .rank = 1, .dims = {2}},
         "key \"a\" of example 1 has 3 int64 values, expected 2"},
        {{.key = "b", .dtype = SHEAF_FLOAT32},
         "key \"b\" is missing in example 2, expected 1 float values or a default"},
        {{.key = "b", .dtype = SHEAF_INT64},
         "key \"b\" of example 0 has float values, expected int64"},
        {{.key = "a", .dtype = SHEAF_STRING, .kind = SHEAF_FEATURE_VAR},
         "key \"a\" of example 0 has int64 values, expected bytes"},
        {{.key = "a", .dtype = SHEAF_INT64, .rank = 2, .dims = {SHEAF_UNKNOWN_DIM, 2}},
         "key \"a\" of example 1 has 3 int64 values, expected a multiple of 2"},
    };
    sheaf_element *e;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        rig_fails(sheaf_example_parse(serialized, 3, &cases[i].feature, 1, &e, &err), &err,
                  SHEAF_ERR_INVALID_ARGUMENT, cases[i].message);
    serialized[2].size--;
    rig_fails(sheaf_example_parse(serialized, 3, &cases[0].feature, 0, &e, &err), &err,
              SHEAF_ERR_DATA_LOSS, "example 2 is no tf.train.Example");
}

static void features_that_cannot_be(void **state)
{
    (void)state;
    static const struct {
        sheaf_feature features[2];
        const char *message;
    } cases[] = {
        {{{.key = NULL, .dtype = SHEAF_INT64}, {.key = "b", .dtype = SHEAF_INT64}}, "has no key"},
        {{{.key = "a", .dtype = SHEAF_INT32}, {.key = "b", .dtype = SHEAF_INT64}}, "dtype int32"},
        {{{.key = "a", .dtype = SHEAF_INT64}, {.key = "a", .dtype = SHEAF_INT64, .name = "b"}},
         "two features have key \"a\""},
        {{{.key = "a", .dtype = SHEAF_INT64}, {.key = "b", .dtype = SHEAF_INT64, .name = "a"}},
         "two features have name \"a\""},
        {{{.key = "a", .dtype = SHEAF_INT64, .rank = 2, .dims = {2, -1}},
          {.key = "b", .dtype = SHEAF_INT64}},
         "size -1 along axis 1"},
        {{{.key = "a", .dtype = SHEAF_INT64, .rank = 5}, {.key = "b", .dtype = SHEAF_INT64}},
         "5 axes"},
        {{{.key = "a", .dtype = SHEAF_INT64, .rank = 2, .dims = {INT64_MAX, INT64_MAX}},
          {.key = "b", .dtype = SHEAF_INT64}},
         "too large"},
        {{{.key = "a", .dtype = SHEAF_INT64, .kind = (sheaf_feature_kind)3},
          {.key = "b", .dtype = SHEAF_INT64}},
         "kind 3"},
    };
    sheaf_element *e;
    sheaf_error err = {0};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        rig_fails(sheaf_example_parse(NULL, 0, cases[i].features, 2, &e, &err), &err,
                  SHEAF_ERR_INVALID_ARGUMENT, cases[i].message);
}

/* Many keys, most of them unknown, in changing orders: what is remembered of one example never spoils
 * the next. */
static void keys_in_any_order(void **state)
{
    (void)state;
    enum { KEYS = 100, EXAMPLES = 40 };
    static char store[EXAMPLES][8192], names[KEYS][16];
    sheaf_bytes serialized[EXAMPLES], message;
    sheaf_feature features[KEYS / 4];
    sheaf_example *x = sheaf_example_new();
    sheaf_error err = {0};
    for (int k = 0; k < KEYS; k++)
        snprintf(names[k], sizeof(names[k]), "key%d", k);
    for (int i = 0; i < EXAMPLES; i++) {
        sheaf_example_clear(x);
        for (int k = 0; k < KEYS; k++) {
            int key = i % 3 == 0 ? k : (k * 37 + i) % KEYS;
            sheaf_example_int64(x, names[key], (int64_t[]){i * 1000 + key, key}, 2);
        }
        rig_ok(sheaf_example_serialize(x, &message, &err), &err);
        memcpy(store[i], message.data, message.size);
        serialized[i] = (sheaf_bytes){store[i], message.size};
    }
    sheaf_example_free(x);
    for (int k = 0; k < KEYS / 4; k++)
        features[k] =
            (sheaf_feature){.key = names[4 * k], .dtype = SHEAF_INT64, .rank = 1, .dims = {2}};
    sheaf_element *e;
    rig_ok(sheaf_example_parse(serialized, EXAMPLES, features, KEYS / 4, &e, &err), &err);
    for (int k = 0; k < KEYS / 4; k++) {
        for (int i = 0; i < EXAMPLES; i++)
            assert_int_equal(sheaf_tensor_integer(sheaf_element_at(e, (size_t)k), 2 * i),
                             i * 1000 + 4 * k);
    }
}

/* One parser, several threads at once. */
struct crowd {
    struct sheaf__example_parser *parser;
    const sheaf_bytes *serialized;
    size_t wrong[4];
};

struct member {
    struct crowd *crowd;
    size_t number;
};

static void parse_in_crowd(void *user)
{
    struct member *m = user;
    for (int round = 0; round < 200; round++) {
        SHEAF_FRAME
        {
            sheaf_element *e;
            struct sheaf__example_input input = {.serialized = m->crowd->serialized, .count = 2};
            if (sheaf__example_parser_run(m->crowd->parser, &input, &e, NULL) < 0 ||
                sheaf_tensor_integer(sheaf_element_get(e, "age"), 1) != 29)
                m->crowd->wrong[m->number]++;
        }
    }
}

static void threads_share_a_parser(void **state)
{
    (void)state;
    static char bytes[200];
    sheaf_bytes one = from_hex("0a310a0c0a0361676512051a030a011d0a0e0a046e616d6512060a040a026162"
                               "0a110a0178120c120a0a080000c03f000000c0",
                               bytes);
    sheaf_bytes two[] = {one, one};
    sheaf_feature features[] = {{.key = "age", .dtype = SHEAF_INT64},
                                {.key = "x", .dtype = SHEAF_FLOAT32, .kind = SHEAF_FEATURE_VAR},
                                {.key = "name", .dtype = SHEAF_STRING}};
    struct crowd crowd = {.serialized = two};
    struct member members[4];
    struct sheaf__thread *threads[4];
    sheaf_error err = {0};
    rig_ok(sheaf__example_parser_new(features, 3, &crowd.parser, &err), &err);
    for (size_t i = 0; i < 4; i++) {
        members[i] = (struct member){&crowd, i};
        rig_ok(sheaf__thread_start("parser", parse_in_crowd, &members[i], NULL, &threads[i], &err),
               &err);
    }
    for (size_t i = 0; i < 4; i++) {
        rig_ok(sheaf__thread_join(threads[i], sheaf__clock_deadline(30), &err), &err);
        assert_int_equal(crowd.wrong[i], 0);
    }
    sheaf__example_parser_free(crowd.parser);
}

static sheaf_status parse_all_kinds(void *user, sheaf_error *err)
{
    const sheaf_bytes *serialized = user;
    sheaf_feature features[] = {
        {.key = "x", .dtype = SHEAF_FLOAT32, .kind = SHEAF_FEATURE_VAR},
        {.key = "x2", .dtype = SHEAF_FLOAT32, .default_value = &(float){1}},
        {.key = "age", .dtype = SHEAF_INT64, .kind = SHEAF_FEATURE_RAGGED},
        {.key = "name", .dtype = SHEAF_STRING, .rank = 1, .dims = {SHEAF_UNKNOWN_DIM}},
    };
    sheaf_status status = SHEAF_OK;
    SHEAF_FRAME
    {
        sheaf_element *e;
        status = sheaf_example_parse(serialized, 2, features, 4, &e, err);
    }
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static char bytes[200];
    sheaf_bytes one = from_hex("0a310a0c0a0361676512051a030a011d0a0e0a046e616d6512060a040a026162"
                               "0a110a0178120c120a0a080000c03f000000c0",
                               bytes);
    sheaf_bytes two[] = {one, one};
    sheaf_error err = {0};
    rig_ok(parse_all_kinds(two, &err), &err); /* fills the pools of the context */
    assert_true(rig_fail_allocations(parse_all_kinds, two) >= 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(parses_every_golden),
        rig_test(parses_every_pipeline_golden),
        rig_test(parses_a_file_without_copies),
        rig_test(strings_without_owner_are_copied),
        rig_test(packed_numbers_of_all_lengths),
        rig_test(what_is_expected_changes_nothing),
        rig_test(errors_name_key_and_example),
        rig_test(features_that_cannot_be),
        rig_test(keys_in_any_order),
        rig_test(threads_share_a_parser),
        rig_test(every_allocation_may_fail),
    };
    return rig_run(tests);
}
