/* SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"

#include "format/bundle.h"

/* Damaged and odd checkpoints. expected.json has TensorFlow's answers; `ours` below says where ours is
 * another one, and why. */

struct difference {
    const char *name;
    const char *tensor; /* NULL: opening */
    sheaf_status status;
};
static const struct difference ours[] = {
    /* TensorFlow allocates what the file says, or does not survive the entry. */
    {"footer-handle-huge", NULL, SHEAF_ERR_DATA_LOSS},
    {"entry-garbage", "a", SHEAF_ERR_DATA_LOSS},
    {"entry-negative-dim", "a", SHEAF_ERR_DATA_LOSS},
    {"entry-huge-dims", "a", SHEAF_ERR_DATA_LOSS},
    {"slices-twice", "w", SHEAF_ERR_DATA_LOSS},
    /* TensorFlow's Python cannot name the dtype; the other tensors are whole. */
    {"entry-dtype-99", "a", SHEAF_ERR_DATA_LOSS},
    {"entry-dtype-0", "a", SHEAF_ERR_DATA_LOSS},
    /* TensorFlow does not notice. */
    {"header-missing", NULL, SHEAF_ERR_DATA_LOSS},
    {"order-wrong", NULL, SHEAF_ERR_DATA_LOSS},
    {"key-twice", NULL, SHEAF_ERR_DATA_LOSS},
    {"entry-string-size", "s", SHEAF_ERR_DATA_LOSS},
    /* INTERNAL is a defect of the library with us. */
    {"slices-overlap", "w", SHEAF_ERR_DATA_LOSS},
    {"slices-past-end", "w", SHEAF_ERR_DATA_LOSS},
    {"slices-zero", "w", SHEAF_ERR_DATA_LOSS},
    /* TensorFlow's Python stumbles over the key; the slice is not there under the key it has. */
    {"slices-spelling", "w", SHEAF_ERR_NOT_FOUND},
};

static const struct difference *find_ours(const char *name, const char *tensor)
{
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        const char *of = ours[i].tensor;
        if (!strcmp(ours[i].name, name) && (tensor ? of && !strcmp(of, tensor) : !of))
            return &ours[i];
    }
    return NULL;
}

static bool opens_differently(const char *name)
{
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (!strcmp(ours[i].name, name))
            return true;
    }
    return false;
}

static sheaf_status status_of(const char *code)
{
    static const struct {
        const char *code;
        sheaf_status status;
    } codes[] = {
        {"NOT_FOUND", SHEAF_ERR_NOT_FOUND},
        {"DATA_LOSS", SHEAF_ERR_DATA_LOSS},
        {"OUT_OF_RANGE", SHEAF_ERR_OUT_OF_RANGE},
        {"INVALID_ARGUMENT", SHEAF_ERR_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (!strcmp(codes[i].code, code))
            return codes[i].status;
    }
    fail_msg("no status for code %s", code);
    return SHEAF_OK;
}

static sheaf_status expected_status(const json_t *answer)
{
    const json_t *error = json_object_get(answer, "error");
    return error ? status_of(json_string_value(json_object_get(error, "code"))) : SHEAF_OK;
}

/* Both names of files are right: what is wrong in an entry is so in the block of the index that has it. */
static void check_place(const char *name, const char *key, const sheaf_error *err)
{
    static const char *const in_data[] = {"past the end of the file", "checksum mismatch",
                                          "the length of string", "its strings are"};
    bool data = false;
    for (size_t i = 0; i < sizeof(in_data) / sizeof(in_data[0]); i++)
        data |= strstr(err->message, in_data[i]) != NULL;
    const char *file = data ? ".data-" : ".index";
    if (err->status == SHEAF_ERR_NOT_FOUND && err->offset == UINT64_MAX)
        return; /* no such file, or tensor */
    if (!strstr(err->message, key) || !strstr(err->file, file) || err->offset == UINT64_MAX)
        fail_msg("%s: '%s' (%s, offset %lld), expected tensor %s, a name with %s and an offset",
                 name, err->message, err->file, (long long)err->offset, key, file);
}

static void check_read(sheaf_bundle *b, const char *name, const char *key, const json_t *answer)
{
    const struct difference *d = find_ours(name, key);
    sheaf_error err = {0};
    sheaf_tensor *t = NULL;
    sheaf_status expected = d ? d->status : expected_status(answer);
    sheaf_status status = sheaf_bundle_read(b, key, &t, &err);
    if (status != expected)
        fail_msg("%s, tensor %s: got %s (%s), expected %s", name, key, sheaf_status_name(status),
                 err.message, sheaf_status_name(expected));
    if (status >= 0)
        golden_compare(t, answer, key);
    else
        check_place(name, key, &err);
}

static void check_case(const json_t *c)
{
    const char *name = json_string_value(json_object_get(c, "name")), *key;
    char prefix[256];
    snprintf(prefix, sizeof(prefix), "checkpoint-bad/%s",
             json_string_value(json_object_get(c, "prefix")));
    const json_t *answer = json_object_get(c, "tensorflow");
    const json_t *open = json_object_get(answer, "open");
    const struct difference *d = find_ours(name, NULL);
    sheaf_error err = {0};
    sheaf_bundle *b = NULL;
    sheaf_status expected = SHEAF_OK;
    if (d)
        expected = d->status;
    else if (open && !opens_differently(name))
        expected = status_of(json_string_value(json_object_get(open, "code")));
    sheaf_status status = sheaf_bundle_open(rig_golden(prefix), &b, &err);
    if (status != expected)
        fail_msg("%s: got %s (%s), expected %s", name, sheaf_status_name(status), err.message,
                 sheaf_status_name(expected));
    if (status < 0) {
        if (!strstr(err.file, ".index"))
            fail_msg("%s: '%s' does not name the index", name, err.message);
        return;
    }
    json_t *tensor;
    json_object_foreach(json_object_get(answer, "tensors"), key, tensor)
    {
        check_read(b, name, key, tensor);
    }
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (!strcmp(ours[i].name, name))
            check_read(b, name, ours[i].tensor, NULL);
    }
    sheaf_bundle_free(b);
}

static void every_damaged_golden(void **state)
{
    (void)state;
    json_t *root = golden_json("checkpoint-bad"), *c;
    size_t i;
    assert_int_equal(json_array_size(json_object_get(root, "cases")), 80);
    json_array_foreach(json_object_get(root, "cases"), i, c)
    {
        check_case(c);
    }
    json_decref(root);
    sheaf_frame_clear();
}

/* What reading every tensor finds, verifying finds, and also what no reader needs. */
static void verify_finds_all(void **state)
{
    (void)state;
    json_t *root = golden_json("checkpoint-bad"), *c;
    static const char *const right[] = {
        "good",        "snappy-block",         "header-no-version",   "header-endianness-7",
        "data-longer", "entry-unknown-field",  "entry-reverse-order", "shards",
        "slices",      "slices-explicit",      "slices-full-one",     "big-endian",
        "aligned",     "big-endian-string-be",
    };
    size_t i, good = 0;
    json_array_foreach(json_object_get(root, "cases"), i, c)
    {
        const char *name = json_string_value(json_object_get(c, "name"));
        char prefix[256];
        snprintf(prefix, sizeof(prefix), "checkpoint-bad/%s",
                 json_string_value(json_object_get(c, "prefix")));
        sheaf_error err;
        sheaf_bundle *b = NULL;
        sheaf_status status = sheaf_bundle_open(rig_golden(prefix), &b, &err);
        if (status >= 0)
            status = sheaf_bundle_verify(b, &err);
        sheaf_bundle_free(b);
        bool expected = false;
        for (size_t k = 0; k < sizeof(right) / sizeof(right[0]); k++)
            expected |= !strcmp(right[k], name);
        if (expected != (status >= 0))
            fail_msg("%s: verified with %s (%s)", name, sheaf_status_name(status),
                     status < 0 ? err.message : "");
        good += expected;
    }
    assert_int_equal(good, sizeof(right) / sizeof(right[0]));
    json_decref(root);
    sheaf_frame_clear();
}

/* A missing slice is named by the rows it has (T56). */
static void t56_missing_rows_are_named(void **state)
{
    (void)state;
    sheaf_bundle *b = NULL;
    sheaf_tensor *t = NULL;
    sheaf_error err;
    rig_ok(sheaf_bundle_open(rig_golden("checkpoint-bad/slices-gap/c"), &b, &err), &err);
    rig_fails(sheaf_bundle_read(b, "w", &t, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "tensor 'w': its slices do not have rows");
    sheaf_bundle_free(b);
}

/* The errors that people see most name file, tensor, offset, and both sides. */
static void errors_say_where(void **state)
{
    (void)state;
    sheaf_bundle *b = NULL;
    sheaf_tensor *t = NULL;
    sheaf_error err;
    rig_ok(sheaf_bundle_open(rig_golden("checkpoint-bad/data-flip-9/c"), &b, &err), &err);
    rig_fails(sheaf_bundle_read(b, "n", &t, &err), &err, SHEAF_ERR_DATA_LOSS,
              "tensor 'n': checksum mismatch: stored ");
    assert_non_null(strstr(err.message, ", found "));
    assert_non_null(strstr(err.file, "c.data-00000-of-00001"));
    assert_int_equal(err.offset, 8);
    sheaf_bundle_free(b);
    rig_ok(sheaf_bundle_open(rig_golden("checkpoint-bad/shards-one-missing/c"), &b, &err), &err);
    rig_fails(sheaf_bundle_read(b, "b", &t, &err), &err, SHEAF_ERR_NOT_FOUND, "");
    assert_non_null(strstr(err.file, "c.data-00001-of-00002"));
    sheaf_bundle_free(b);
}

/* A shell completes to the name of a file; what is wanted is that of the checkpoint. */
static void a_file_is_no_checkpoint(void **state)
{
    (void)state;
    static const struct {
        const char *path, *said;
    } names[] = {
        {"x.index", "expected that of the checkpoint: 'x'"},
        {"run/x-1.data-00000-of-00001", "expected that of the checkpoint: 'run/x-1'"},
        {"x.data-0000-of-00001", "cannot open: no such file"},
        {"x.data-00000-of-0000a", "cannot open: no such file"},
        {"data-00000-of-00001", "cannot open: no such file"},
        {"x", "cannot open: no such file"},
        {"", "cannot open: no such file"},
    };
    sheaf_bundle *b = NULL;
    sheaf_error err;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        rig_fails(sheaf_bundle_open(names[i].path, &b, &err), &err, SHEAF_ERR_NOT_FOUND,
                  names[i].said);
    rig_fails(sheaf_bundle_open(rig_golden("checkpoint-bad/good/c.index"), &b, &err), &err,
              SHEAF_ERR_NOT_FOUND, "checkpoint-bad/good/c'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(every_damaged_golden),       rig_test(verify_finds_all),
        rig_test(t56_missing_rows_are_named), rig_test(errors_say_where),
        rig_test(a_file_is_no_checkpoint),
    };
    return rig_run(tests);
}
