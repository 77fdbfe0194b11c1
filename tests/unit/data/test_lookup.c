/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include "base/fingerprint.h"
#include "tensor/heap.h"
#include "tensor/tensor.h"

/* Vocabularies and looking up in them (R10.23-R10.30). */

/* ---- Fingerprint64 ---- */

/* T10.3 of tf-semantics, and strings of every kind of length (tests/golden/input/fingerprint.json). */
static void test_fingerprints(void **state)
{
    (void)state;
    static uint8_t bytes[70001];
    json_t *root = golden_load("fingerprint.json"), *c;
    size_t i;
    assert_int_equal(json_array_size(json_object_get(root, "sizes")), 263);
    json_array_foreach(json_object_get(root, "sizes"), i, c)
    {
        size_t size = (size_t)number_at(c, "size", 0);
        for (size_t k = 0; k < size; k++)
            bytes[k] = (uint8_t)(7 * k + size);
        if (sheaf__fingerprint64(bytes, size) != strtoull(text_at(c, "fingerprint"), NULL, 10))
            fail_msg("%zu bytes", size);
    }
    json_decref(root);
    static const struct {
        const char *word;
        uint64_t fingerprint;
    } words[] = {
        {"a", UINT64_C(12917804110809363939)},     {"b", UINT64_C(11795596070477164822)},
        {"c", UINT64_C(11430444447143000872)},     {"d", UINT64_C(4470636696479570465)},
        {"Hello", UINT64_C(15404698994557526151)}, {"World", UINT64_C(18308117990299812472)}};
    for (i = 0; i < 6; i++)
        assert_true(sheaf__fingerprint64(words[i].word, strlen(words[i].word)) ==
                    words[i].fingerprint);
}

/* ---- goldens ---- */

/* A tensor of strings or int64 from a list (or a list of lists) or one value; strings may be
 * "hex:…". */
static sheaf_tensor *words_of(const json_t *list, bool integers)
{
    static char bytes[512][128];
    sheaf_bytes strings[512];
    int64_t numbers[512], dims[2] = {0, 0}, n = 0;
    const json_t *rows[512];
    bool nested = json_is_array(json_array_get(list, 0));
    size_t count = json_is_array(list) ? json_array_size(list) : 1;
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_is_array(list) ? json_array_get(list, i) : list;
        for (size_t k = 0; k < (nested ? json_array_size(row) : 1); k++)
            rows[n++] = nested ? json_array_get(row, k) : row;
    }
    dims[0] = (int64_t)count;
    dims[1] = nested ? n / dims[0] : 0;
    for (int64_t i = 0; i < n; i++) {
        const char *text = json_string_value(rows[i]);
        numbers[i] = json_integer_value(rows[i]);
        if (text)
            strings[i] = (sheaf_bytes){bytes[i], text_of(rows[i], bytes[i])};
    }
    return sheaf_tensor_new(integers ? SHEAF_INT64 : SHEAF_STRING,
                            sheaf_shape_of(nested + json_is_array(list), dims),
                            integers ? (const void *)numbers : strings);
}

/* The options of a case; a file is made for it. */
static sheaf_vocabulary_options options_of(const json_t *c, bool integers)
{
    const json_t *given = json_object_get(c, "options"), *hex = json_object_get(c, "file_hex");
    const json_t *mask = json_object_get(given, "mask_token"),
                 *oov = json_object_get(given, "oov_token");
    int64_t unknown = number_at(given, "num_oov_indices", 1);
    sheaf_vocabulary_options o = {.unknown_indices = unknown,
                                  .no_unknown = unknown == 0,
                                  .invert = json_is_true(json_object_get(given, "invert")),
                                  .max_tokens = number_at(given, "max_tokens", 0),
                                  .mask = mask ? words_of(mask, integers) : NULL,
                                  .unknown = oov ? words_of(oov, integers) : NULL};
    if (!hex) {
        o.tokens = words_of(json_object_get(c, "tokens"), integers);
        return o;
    }
    char bytes[256];
    const char *text = json_string_value(hex);
    size_t size = strlen(text) / 2;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)strtol((const char[]){text[2 * i], text[2 * i + 1], 0}, NULL, 16);
    sheaf_error err;
    o.file = rig_path("words");
    o.file_dtype = integers ? SHEAF_INT64 : SHEAF_STRING;
    rig_ok(sheaf__file_replace(o.file, bytes, size, &err), &err);
    return o;
}

/* A file that is cut while its words are read is an error, and kills nobody: it is not mapped. */
static void test_files_are_not_mapped(void **state)
{
    (void)state;
    sheaf_vocabulary *v = NULL;
    sheaf_error err;
    rig_ok(sheaf__file_replace(rig_path("words"), "a\nb\n", 4, &err), &err);
    rig_map_files(false);
    rig_ok(sheaf_vocabulary_new(&(sheaf_vocabulary_options){.file = rig_path("words")}, &v, &err),
           &err);
    sheaf_vocabulary_free(v);
    rig_map_files(true);
}

/* TensorFlow's status; of an empty file it is an accident (R10.28 says what is right). */
static sheaf_status status_of(const json_t *c)
{
    const char *status = text_at(json_object_get(c, "error"), "status");
    return strcmp(status, "FailedPrecondition") == 0 ? SHEAF_ERR_FAILED_PRECONDITION
                                                     : SHEAF_ERR_INVALID_ARGUMENT;
}

static void check(const json_t *c)
{
    SHEAF_FRAME
    {
        sheaf_error err = {0};
        sheaf_vocabulary *v = NULL;
        bool integers = json_is_true(json_object_get(c, "integers"));
        const json_t *error = json_object_get(c, "error"), *output = json_object_get(c, "output");
        const sheaf_vocabulary_options o = options_of(c, integers);
        const char *name = text_at(c, "name");
        sheaf_status status = sheaf_vocabulary_new(&o, &v, &err);
        if (status >= 0) {
            sheaf_tensor *in = words_of(json_object_get(c, "inputs"), integers || o.invert);
            sheaf_tensor *t = sheaf_lookup(v, in);
            status = sheaf_tensor_status(t, &err);
            if (status >= 0 && output)
                assert_json(tensor_json(t), output, name);
            if (json_object_get(c, "vocabulary"))
                assert_json(tensor_json(sheaf_vocabulary_tokens(v)),
                            json_object_get(c, "vocabulary"), name);
            if (json_object_get(c, "size"))
                assert_int_equal(sheaf_vocabulary_size(v), number_at(c, "size", 0));
        }
        if (status != (error ? status_of(c) : SHEAF_OK))
            fail_msg("%s: %s: %s", name, sheaf_status_name(status), err.message);
        sheaf_vocabulary_free(v);
    }
}

static void test_golden(void **state)
{
    (void)state;
    json_t *root = golden_load("lookup.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "cases"), i, c) check(c);
    assert_int_equal(i, 89);
    json_decref(root);
}

/* ---- what is wrong is named ---- */

static void refused(const sheaf_vocabulary_options *o, sheaf_status expected, const char *part)
{
    sheaf_error err = {0};
    sheaf_vocabulary *v = NULL;
    sheaf_status status = sheaf_vocabulary_new(o, &v, &err);
    rig_fails(status, &err, expected, part);
    assert_null(v);
}

static const char *file_of(const char *text)
{
    sheaf_error err;
    rig_ok(sheaf__file_replace(rig_path("words"), text, strlen(text), &err), &err);
    return rig_path("words");
}

static void test_bad_vocabularies_are_named(void **state)
{
    (void)state;
    const sheaf_status bad = SHEAF_ERR_INVALID_ARGUMENT;
    SHEAF_FRAME
    {
        json_t *list = literal("[\"a\", \"b\", \"a\"]");
        sheaf_tensor *abc = words_of(list, false);
        refused(NULL, bad, "without options");
        refused(&(sheaf_vocabulary_options){0}, bad, "neither tokens nor a file");
        refused(&(sheaf_vocabulary_options){.tokens = abc}, bad,
                "\"a\" is in the vocabulary twice: tokens 0 and 2");
        refused(&(sheaf_vocabulary_options){.tokens = abc, .mask = sheaf_string("b")}, bad,
                "token 1 is \"b\", the mask: special tokens stand first");
        refused(&(sheaf_vocabulary_options){.tokens = sheaf_string("a")}, bad,
                "the tokens: string of shape (), expected strings of 1 axes");
        refused(&(sheaf_vocabulary_options){.tokens = abc, .mask = sheaf_long(0)}, bad,
                "the mask token: int64 of shape (), expected strings");
        refused(&(sheaf_vocabulary_options){.tokens = abc, .unknown_indices = -1}, bad,
                "unknown_indices is -1");
        refused(&(sheaf_vocabulary_options){.tokens = abc, .max_tokens = 1}, bad,
                "max_tokens is 1, expected more than 1");
        /* R10.29 */
        refused(&(sheaf_vocabulary_options){.file = rig_path("none")}, bad, "no such file");
        refused(&(sheaf_vocabulary_options){.file = file_of("a\nb\n\n")}, bad,
                "line 3 is empty, expected a token");
        refused(&(sheaf_vocabulary_options){.file = file_of("a\nb\na\n")},
                SHEAF_ERR_FAILED_PRECONDITION, "\"a\" is in the vocabulary twice: lines 1 and 3");
        refused(&(sheaf_vocabulary_options){.file = file_of("a\n[UNK]\n")}, bad,
                "line 2 is the token for unknown words, expected a file without special tokens");
        refused(&(sheaf_vocabulary_options){.file = file_of("m\n"), .mask = sheaf_string("m")}, bad,
                "line 1 is the mask token");
        refused(&(sheaf_vocabulary_options){.file = file_of("5\n5x\n"), .file_dtype = SHEAF_INT64},
                bad, "line 2 is no int64");
        refused(&(sheaf_vocabulary_options){.file = file_of(""), .file_dtype = SHEAF_INT64}, bad,
                "the vocabulary has no tokens");
        json_decref(list);
    }
}

/* Words that have no index are listed; other dtypes are refused. */
static void test_bad_words_are_named(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_vocabulary *v;
    SHEAF_FRAME
    {
        const sheaf_vocabulary_options o = {.file = file_of("a\nb"), .no_unknown = true};
        rig_ok(sheaf_vocabulary_new(&o, &v, &err), &err);
        json_t *list = literal("[\"a\", \"x\", \"\", \"b\"]");
        sheaf_status status = sheaf_tensor_status(sheaf_lookup(v, words_of(list, false)), &err);
        rig_fails(status, &err, SHEAF_ERR_INVALID_ARGUMENT,
                  "the vocabulary does not have \"x\", \"\", and no index for unknown words");
        status = sheaf_tensor_status(sheaf_lookup(v, sheaf_long(0)), &err);
        rig_fails(status, &err, SHEAF_ERR_INVALID_ARGUMENT, "look-up of int64, expected strings");
        status = sheaf_tensor_status(sheaf_lookup(NULL, sheaf_long(0)), &err);
        rig_fails(status, &err, SHEAF_ERR_INVALID_ARGUMENT, "the vocabulary is NULL");
        assert_first_fails(sheaf_dataset_lookup(sheaf_dataset_range(0, 3, 1), NULL, v),
                           SHEAF_ERR_INVALID_ARGUMENT,
                           "stage 2 (lookup): component \"\" is int64, expected strings");
        assert_first_fails(sheaf_dataset_lookup(sheaf_dataset_range(0, 3, 1), NULL, NULL),
                           SHEAF_ERR_INVALID_ARGUMENT, "the vocabulary is NULL");
        json_decref(list);
        sheaf_frame_clear();
    }
    sheaf_vocabulary_free(v);
}

/* ---- in pipelines ---- */

static sheaf_dataset *words(const char *text)
{
    sheaf_dataset *d = NULL;
    SHEAF_FRAME
    {
        json_t *list = literal(text);
        d = sheaf_dataset_from_slices(sheaf_element_of(words_of(list, false)));
        json_decref(list);
    }
    return d;
}

/* The documents' vocabulary. */
static sheaf_vocabulary *abcdf(bool invert)
{
    sheaf_error err = {0};
    sheaf_vocabulary *v = NULL;
    SHEAF_FRAME
    {
        json_t *list = literal("[\"a\", \"b\", \"c\", \"d\", \"f\"]");
        const sheaf_vocabulary_options o = {.tokens = words_of(list, false), .invert = invert};
        rig_ok(sheaf_vocabulary_new(&o, &v, &err), &err);
        json_decref(list);
    }
    return v;
}

/* S177, T10.5: before and after batching, words without an index get 0; and back again. */
static void test_S177_words_in_a_pipeline(void **state)
{
    (void)state;
    sheaf_vocabulary *v = abcdf(false), *back = abcdf(true);
    sheaf_dataset *d = sheaf_dataset_repeat(words("[\"a\", \"c\", \"e\"]"), 4);
    sheaf_dataset *before =
        sheaf_dataset_batch(sheaf_dataset_lookup(sheaf_dataset_ref(d), NULL, v), 4, NULL);
    assert_int_equal(sheaf_element_spec_at(sheaf_dataset_element_spec(before), 0).dtype,
                     SHEAF_INT64);
    assert_elements(before, "[[1, 3, 0, 1], [3, 0, 1, 3], [0, 1, 3, 0]]");
    assert_gives(sheaf_dataset_lookup(before, NULL, back),
                 "[[\"a\", \"c\", \"[UNK]\", \"a\"], [\"c\", \"[UNK]\", \"a\", \"c\"], "
                 "[\"[UNK]\", \"a\", \"c\", \"[UNK]\"]]");
    d = sheaf_dataset_lookup(sheaf_dataset_batch(d, 4, NULL), NULL, v);
    sheaf_vocabulary_free(v); /* the stage has a count of its own */
    assert_gives(d, "[[1, 3, 0, 1], [3, 0, 1, 3], [0, 1, 3, 0]]");
    sheaf_vocabulary_free(back);
}

static sheaf_status split(const sheaf_element *in, sheaf_element *out, void *user)
{
    sheaf_tensor *t = sheaf_element_get(in, NULL);
    sheaf_error err;
    (void)user;
    sheaf_tensor *three = words_of(json_object_get(user, "words"), false);
    sheaf_tensor *splits =
        sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(3), (const int64_t[]){0, 1, 3});
    sheaf_tensor *ragged = sheaf__tensor_give(sheaf__tensor_ragged(three, splits, &err), &err);
    sheaf_tensor *sparse =
        sheaf__tensor_give(sheaf__tensor_sparse(sheaf_tensor_new(SHEAF_INT64, SHEAF_SHAPE(3, 1),
                                                                 (const int64_t[]){0, 2, 7}),
                                                three, SHEAF_SHAPE(9), &err),
                           &err);
    sheaf_status status = sheaf_element_put(out, "word", t);
    if (status >= 0)
        status = sheaf_element_put(out, "ragged", ragged);
    return status < 0 ? status : sheaf_element_put(out, "sparse", sparse);
}

/* Sparse and ragged components keep their layout; the others are left alone. */
static void test_layouts_are_kept(void **state)
{
    (void)state;
    sheaf_vocabulary *v = abcdf(false);
    json_t *user = literal("{\"words\": [\"f\", \"a\", \"x\"]}");
    sheaf_dataset *d = sheaf_dataset_map(words("[\"a\", \"b\"]"), split, user, NULL);
    d = sheaf_dataset_lookup(sheaf_dataset_lookup(d, "ragged", v), "sparse", v);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    sheaf_element *e;
    SHEAF_FRAME
    {
        rig_ok(sheaf_iterator_next(it, &e, &err), &err);
        const sheaf_tensor *ragged = sheaf_element_get(e, "ragged");
        const sheaf_tensor *sparse = sheaf_element_get(e, "sparse");
        json_t *expected = literal("[5, 1, 0]");
        assert_int_equal(ragged->layout, SHEAF__RAGGED);
        assert_json(tensor_json(ragged->parts[SHEAF__RAGGED_VALUES]), expected, "ragged");
        assert_int_equal(sparse->layout, SHEAF__SPARSE);
        assert_json(tensor_json(sparse->parts[SHEAF__VALUES]), expected, "sparse");
        assert_int_equal(sparse->shape.dims[0], 9);
        assert_memory_equal(sheaf_tensor_bytes(sheaf_element_get(e, "word"), 0).data, "a", 1);
        json_decref(expected);
    }
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
    sheaf_vocabulary_free(v);
    json_decref(user);
}

static sheaf_status attempt(void *user, sheaf_error *err)
{
    sheaf_vocabulary *v = NULL;
    sheaf_status status = sheaf_vocabulary_new(user, &v, err);
    SHEAF_FRAME
    if (status >= 0)
        status =
            sheaf_tensor_status(sheaf_lookup(v, ((sheaf_vocabulary_options *)user)->mask), err);
    sheaf_vocabulary_free(v);
    sheaf__heap_trim(sheaf__heap_current(NULL), 0); /* pooled memory is no leak */
    return status;
}

static void test_failing_allocations(void **state)
{
    (void)state;
    json_t *list = literal("[\"a\", \"b\"]");
    SHEAF_FRAME
    {
        sheaf_vocabulary_options tokens = {.tokens = words_of(list, false),
                                           .mask = sheaf_string("x")};
        sheaf_vocabulary_options file = {.file = file_of("a\nb\n"), .mask = sheaf_string("x")};
        assert_true(rig_fail_allocations(attempt, &tokens) > 2);
        assert_true(rig_fail_allocations(attempt, &file) > 4);
    }
    json_decref(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_fingerprints),
        rig_test(test_golden),
        rig_test(test_bad_vocabularies_are_named),
        rig_test(test_bad_words_are_named),
        rig_test(test_S177_words_in_a_pipeline),
        rig_test(test_layouts_are_kept),
        rig_test(test_files_are_not_mapped),
        rig_test(test_failing_allocations),
    };
    return rig_run(tests);
}
