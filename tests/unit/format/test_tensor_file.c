/* SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"

#include "base/file.h"
#include "base/inflate.h"
#include "base/random.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include "format/tensor_file.h"
#include "format/zip.h"
#include "tensor/tensor.h"

/* safetensors, .npz and checkpoints as files of tensors (formats.md 7.1, 7.2) against what their own libraries read. */

static sheaf_tensor_file *open_golden(const char *name)
{
    sheaf_tensor_file *f = NULL;
    sheaf_error err;
    rig_ok(sheaf_tensor_file_open(rig_golden(name), &f, &err), &err);
    return f;
}

/* Reads every tensor as a whole and in a stream: the same bytes. */
static void check_streams(sheaf_tensor_file *f)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct sheaf__tensor_entry *e = &f->entries[i];
        sheaf_error err;
        if (e->fault < 0 || e->dtype == SHEAF_STRING)
            continue;
        sheaf_tensor *t = sheaf__tensor_file_whole(f, e, &err);
        assert_non_null(t);
        struct sheaf__tensor_stream s;
        const uint8_t *data;
        size_t size, at = 0;
        const uint8_t *bytes =
            sheaf__tensor_host(t, &err); /* column-major arrays are laid out by rows here */
        rig_ok(sheaf__tensor_stream_begin(&s, f, e, NULL, &err), &err);
        while (sheaf__tensor_stream_next(&s, &data, &size, &err) == SHEAF_OK) {
            assert_memory_equal(data, bytes + at, size);
            at += size;
        }
        assert_int_equal(at, (size_t)sheaf_tensor_elements(t) * s.width);
        sheaf__unref(t);
    }
}

static void check_tensor(sheaf_tensor_file *f, const char *name, const json_t *expected)
{
    sheaf_tensor *t = NULL;
    sheaf_error err;
    char hex[65];
    const json_t *dims = json_object_get(expected, "shape");
    const char *dtype = json_string_value(json_object_get(expected, "dtype"));
    rig_ok(sheaf_tensor_file_read(f, name, &t, &err), &err);
    const sheaf_shape shape = sheaf_tensor_shape(t);
    assert_int_equal(shape.rank, json_array_size(dims));
    for (int i = 0; i < shape.rank; i++)
        assert_int_equal(shape.dims[i], json_integer_value(json_array_get(dims, (size_t)i)));
    const char *ours = sheaf__safetensors_dtype(sheaf_tensor_dtype(t));
    if (strcmp(dtype, sheaf_dtype_name(sheaf_tensor_dtype(t))) != 0 &&
        (!ours || strcmp(dtype, ours) != 0))
        fail_msg("%s: dtype %s", name, sheaf_dtype_name(sheaf_tensor_dtype(t)));
    golden_sha256(t, hex);
    assert_string_equal(hex, json_string_value(json_object_get(expected, "sha256")));
}

static void check_tensors(sheaf_tensor_file *f, json_t *tensors)
{
    const char *name;
    json_t *expected;
    json_object_foreach(tensors, name, expected)
    {
        SHEAF_FRAME
        {
            check_tensor(f, name, expected);
        }
    }
    sheaf_tensor_file_entry e;
    assert_int_equal(f->count, json_object_size(tensors));
    assert_int_equal(sheaf_tensor_file_get(f, f->count, &e), SHEAF_END);
    check_streams(f);
}

static void safetensors_golden(void **state)
{
    (void)state;
    json_t *root = golden_json("safetensors"), *c;
    size_t i, read = 0, refused = 0;
    json_array_foreach(json_object_get(root, "cases"), i, c)
    {
        const char *file = json_string_value(json_object_get(c, "file"));
        char path[128];
        snprintf(path, sizeof(path), "safetensors/%s", file);
        sheaf_tensor_file *f = NULL;
        sheaf_error err = {0};
        const sheaf_status status = sheaf_tensor_file_open(rig_golden(path), &f, &err);
        if (json_object_get(c, "error")) {
            if (status != SHEAF_ERR_DATA_LOSS || !strstr(err.file, file) ||
                err.offset == UINT64_MAX)
                fail_msg("%s: %s", file, err.message);
            refused++;
            continue;
        }
        rig_ok(status, &err);
        assert_string_equal(sheaf_tensor_file_format(f), "safetensors");
        check_tensors(f, json_object_get(c, "tensors"));
        sheaf_tensor_file_free(f);
        read++;
    }
    assert_int_equal(read, 10);
    assert_int_equal(refused, 22);
    json_t *sharded = json_object_get(root, "sharded");
    sheaf_tensor_file *f = open_golden("safetensors/sharded/model.safetensors.index.json");
    check_tensors(f, json_object_get(sharded, "tensors"));
    sheaf_tensor_file_free(f);
    json_decref(root);
}

/* Each error says which tensor, what was found and what was expected. */
static void safetensors_errors(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        uint64_t offset;
        const char *message;
    } cases[] = {
        {"bad-empty-file", 0, "the file has 0 bytes, expected a safetensors file"},
        {"bad-cut-length", 0, "the file has 7 bytes, expected a safetensors file"},
        {"bad-cut-header", 0, "the header is said to be of 54 bytes, the file has 12"},
        {"bad-header-length-huge", 0, "said to be of 9223372036854775808 bytes, the file has"},
        {"bad-header-length-100MB", 0, "said to be of 100000001 bytes, the file has"},
        {"bad-cut-data", 62, "tensor 'a' ends at byte 8 of the data, which are 7"},
        {"bad-trailing", 70, "the data are 9 bytes, its tensors have 8"},
        {"bad-dtype", 27, "tensor 'a': no dtype is called 'F31'"},
        {"bad-shape", 61, "tensor 'a' has 3 elements of 32 bits in 8 bytes"},
        {"bad-shape-negative", 37, "expected a whole number from 0 on"},
        {"bad-shape-overflow", 87, "tensor 'a' has more elements than there are numbers"},
        {"bad-offset-order", 60,
         "tensor 'a': its data_offsets are 2 numbers, or end before they begin"},
        {"bad-offset-past-end", 63, "tensor 'a' ends at byte 16 of the data, which are 8"},
        {"bad-hole", 66, "tensor 'a' begins at byte 4 of the data, after a hole from byte 0"},
        {"bad-overlap", 119,
         "tensor 'b' begins at byte 4 of the data, overlapping the one that ends at byte 8"},
        {"bad-duplicate", 66, "tensor 'a' is there twice"},
        {"bad-missing-field", 40, "tensor 'a' lacks its data_offsets"},
        {"bad-metadata-number", 29, "the JSON has '1},"},
        {"bad-utf8", 8, "the JSON is not UTF-8"},
        {"bad-not-object", 8, "the JSON has '[1]', expected an object"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char path[128];
        sheaf_tensor_file *f = NULL;
        sheaf_error err = {0};
        snprintf(path, sizeof(path), "safetensors/%s.safetensors", cases[i].file);
        rig_fails(sheaf_tensor_file_open(rig_golden(path), &f, &err), &err, SHEAF_ERR_DATA_LOSS,
                  cases[i].message);
        if (err.offset != cases[i].offset)
            fail_msg("%s: offset %d, not %d", cases[i].file, (int)err.offset, (int)cases[i].offset);
    }
}

/* The header that we write of a file's tensors is the reference's own, byte for byte. */
static void safetensors_header_is_the_reference_s(void **state)
{
    (void)state;
    static const char *const files[] = {"single", "low", "empty", "metadata"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[64], *golden = NULL;
        size_t size;
        sheaf_error err;
        struct sheaf__buf header = {0};
        const struct sheaf__tensor_entry *sorted[32];
        snprintf(path, sizeof(path), "safetensors/%s.safetensors", files[i]);
        sheaf_tensor_file *f = open_golden(path);
        for (size_t k = 0; k < f->count; k++)
            sorted[k] = &f->entries[k];
        sheaf__safetensors_sort(sorted, f->count);
        rig_ok(sheaf__safetensors_header(&header, f->metadata, sorted, f->count, &err), &err);
        rig_ok(sheaf__file_read_all(rig_golden(path), 1 << 20, &golden, &size, &err), &err);
        assert_true(header.size <= size && header.size == 8 + sheaf__load64(golden));
        assert_memory_equal(header.data, golden, header.size);
        sheaf__buf_free(&header);
        sheaf__free(golden);
        sheaf_tensor_file_free(f);
    }
}

static void safetensors_has_not_everything(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        sheaf_dtype dtype;
        sheaf_status status;
        const char *message;
    } cases[] = {
        {"words", SHEAF_STRING, SHEAF_ERR_UNIMPLEMENTED,
         "tensor 'words' is of dtype string, which safetensors does not have"},
        {"z", SHEAF_COMPLEX128, SHEAF_ERR_UNIMPLEMENTED, "of dtype complex128"},
        {"q", SHEAF_QINT8, SHEAF_ERR_UNIMPLEMENTED, "of dtype qint8"},
        {"i", SHEAF_INT4, SHEAF_ERR_UNIMPLEMENTED, "of dtype int4"},
        {"\xff", SHEAF_FLOAT32, SHEAF_ERR_INVALID_ARGUMENT, "its name is not UTF-8"},
        {"__metadata__", SHEAF_FLOAT32, SHEAF_ERR_INVALID_ARGUMENT,
         "cannot be called '__metadata__'"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct sheaf__tensor_entry e = {.name = cases[i].name, .dtype = cases[i].dtype};
        const struct sheaf__tensor_entry *const list[] = {&e};
        struct sheaf__buf header = {0};
        sheaf_error err;
        rig_fails(sheaf__safetensors_header(&header, "", list, 1, &err), &err, cases[i].status,
                  cases[i].message);
        sheaf__buf_free(&header);
    }
}

/* A file with the header and so many bytes of data. */
static const char *write_file(const char *name, const char *header, size_t data)
{
    char bytes[4096] = {0};
    sheaf_error err;
    const uint64_t size = strlen(header);
    memcpy(bytes, &size, 8);
    memcpy(bytes + 8, header, size);
    rig_ok(sheaf__file_replace(rig_path(name), bytes, 8 + size + data, &err), &err);
    return rig_path(name);
}

/* What the format has and no tensor: the others can be read all the same. */
static void safetensors_of_other_dtypes(void **state)
{
    (void)state;
    const char *path =
        write_file("x.safetensors",
                   "{\"f4\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]},"
                   "\"f6\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[2,5]},"
                   "\"e8\":{\"dtype\":\"F8_E8M0\",\"shape\":[1],\"data_offsets\":[5,6]},"
                   "\"far\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,2],"
                   "\"data_offsets\":[6,8]},"
                   "\"n\":{\"dtype\":\"I16\",\"shape\":[],\"data_offsets\":[8,10]}}",
                   10);
    sheaf_tensor_file *f = NULL;
    sheaf_tensor_file_entry e;
    sheaf_tensor *t;
    sheaf_error err;
    rig_ok(sheaf_tensor_file_open(path, &f, &err), &err);
    rig_fails(sheaf_tensor_file_read(f, "f4", &t, &err), &err, SHEAF_ERR_UNIMPLEMENTED,
              "tensor 'f4' cannot be read: no tensor has its dtype");
    rig_fails(sheaf_tensor_file_read(f, "far", &t, &err), &err, SHEAF_ERR_UNIMPLEMENTED,
              "more axes than a tensor can have");
    rig_fails(sheaf_tensor_file_read(f, "m", &t, &err), &err, SHEAF_ERR_NOT_FOUND,
              "no tensor 'm' in the file");
    rig_ok(sheaf_tensor_file_read(f, "n", &t, &err), &err);
    assert_int_equal(sheaf_tensor_file_get(f, 0, &e), SHEAF_OK);
    assert_string_equal(e.name, "e8");
    assert_int_equal(e.dtype, SHEAF_INVALID_DTYPE);
    sheaf_tensor_file_free(f);
    write_file("x.safetensors", "{\"f4\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}",
               1);
    rig_fails(sheaf_tensor_file_open(path, &f, &err), &err, SHEAF_ERR_DATA_LOSS,
              "tensor 'f4' has 3 elements of 4 bits in 1 bytes");
    sheaf_frame_clear();
}

/* An index names files beside it, and the tensors that are in them. */
static void safetensors_index(void **state)
{
    (void)state;
    static const struct {
        const char *index;
        const char *message;
    } cases[] = {
        {"{\"weight_map\":{\"a\":\"../a.safetensors\"}}",
         "tensor 'a' is in '../a.safetensors', expected a file beside the index"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "expected a file beside the index"},
        {"{\"weight_map\":{\"a\":\"b/../../c\"}}", "expected a file beside the index"},
        {"{\"weight_map\":{\"a\":\"\"}}", "expected a file beside the index"},
        {"{\"weight_map\":{\"a\":1}}", "expected a string"},
        {"{\"weight_map\":{\"a\":\"a.safetensors\",\"a\":\"a.safetensors\"}}",
         "'a' is there twice"},
        {"{\"metadata\":{}}", "the index has no weight_map"},
        {"{\"weight_map\":{},\"weight_map\":{}}", "the index has two weight_maps"},
        {"{\"weight_map\":{\"b\":\"a.safetensors\"}}", "tensor 'a' is not where the index has it"},
        {"{\"weight_map\":{\"a\":\"a.safetensors\",\"b\":\"a.safetensors\"}}",
         "tensor 'b', which the index names, is not in it"},
    };
    write_file("a.safetensors", "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}",
               1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sheaf_tensor_file *f = NULL;
        sheaf_error err;
        const char *path = rig_path("m.safetensors.index.json");
        rig_ok(sheaf__file_replace(path, cases[i].index, strlen(cases[i].index), &err), &err);
        rig_fails(sheaf_tensor_file_open(path, &f, &err), &err, SHEAF_ERR_DATA_LOSS,
                  cases[i].message);
    }
}

static void npz_golden(void **state)
{
    (void)state;
    json_t *root = golden_json("npy");
    json_t *archives = json_object_get(root, "archives");
    static const char *const files[] = {"stored.npz", "deflated.npz"};
    for (int i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof(path), "npy/%s", files[i]);
        sheaf_tensor_file *f = open_golden(path);
        assert_string_equal(sheaf_tensor_file_format(f), "npz");
        check_tensors(f, json_object_get(json_object_get(archives, files[i]), "arrays"));
        sheaf_tensor_file_free(f);
    }
    json_decref(root);
    sheaf_tensor_file *f = NULL;
    sheaf_tensor *t;
    sheaf_error err;
    rig_fails(sheaf_tensor_file_open(rig_golden("npy/bad-cut.npz"), &f, &err), &err,
              SHEAF_ERR_DATA_LOSS, "does not end as a ZIP archive does");
    f = open_golden("npy/bad-crc.npz");
    rig_ok(sheaf_tensor_file_read(f, "b", &t, &err), &err);
    rig_fails(sheaf_tensor_file_read(f, "w", &t, &err), &err, SHEAF_ERR_DATA_LOSS,
              "member 'w.npy': checksum mismatch");
    struct sheaf__tensor_stream s;
    rig_fails(sheaf__tensor_stream_begin(&s, f, sheaf__tensor_file_find(f, "w"), NULL, &err), &err,
              SHEAF_ERR_DATA_LOSS, "member 'w.npy': checksum mismatch");
    sheaf_tensor_file_free(f);
    sheaf_frame_clear();
}

/* Writes the members of a file's arrays in the order in which they lie there, as NumPy does. */
static void rewrite(sheaf_tensor_file *f, const char *path, bool deflate)
{
    struct sheaf__zip_writer *w = NULL;
    sheaf_error err;
    rig_ok(sheaf__zip_writer_open(path, &w, &err), &err);
    for (size_t number = 0; number < f->count; number++) {
        const struct sheaf__tensor_entry *e = f->entries;
        while (e->number != number)
            e++;
        struct sheaf__buf head = {0};
        char name[64];
        snprintf(name, sizeof(name), "%s.npy", e->name);
        sheaf_tensor *t = sheaf__tensor_file_whole(f, e, &err);
        rig_ok(sheaf__npy_header(&head, e->dtype, e->shape, 0, false, &err), &err);
        rig_ok(sheaf__zip_writer_begin(w, name, deflate, &err), &err);
        rig_ok(sheaf__zip_writer_put(w, head.data, head.size, &err), &err);
        rig_ok(sheaf__zip_writer_put(w, sheaf__tensor_host(t, &err),
                                     (size_t)sheaf_tensor_elements(t) * sheaf_dtype_size(e->dtype),
                                     &err),
               &err);
        rig_ok(sheaf__zip_writer_end(w, &err), &err);
        sheaf__buf_free(&head);
        sheaf__unref(t);
    }
    rig_ok(sheaf__zip_writer_finish(w, &err), &err);
}

static void npz_is_numpy_s(void **state)
{
    (void)state;
    sheaf_tensor_file *f = open_golden("npy/stored.npz"), *again = NULL;
    char *ours = NULL, *golden = NULL;
    size_t size, golden_size;
    sheaf_error err;
    rewrite(f, rig_path("x.npz"), false);
    rig_ok(sheaf__file_read_all(rig_path("x.npz"), 1 << 20, &ours, &size, &err), &err);
    rig_ok(sheaf__file_read_all(rig_golden("npy/stored.npz"), 1 << 20, &golden, &golden_size, &err),
           &err);
    assert_int_equal(size, golden_size);
    assert_memory_equal(ours, golden, size);
    sheaf__free(ours);
    sheaf__free(golden);
    /* Compressed bytes are another library's, what comes out of them is not. */
    rewrite(f, rig_path("y.npz"), true);
    rig_ok(sheaf_tensor_file_open(rig_path("y.npz"), &again, &err), &err);
    assert_int_equal(again->count, f->count);
    for (size_t i = 0; i < f->count; i++) {
        sheaf_tensor *x = sheaf__tensor_file_whole(f, &f->entries[i], &err);
        sheaf_tensor *y = sheaf__tensor_file_whole(again, &again->entries[i], &err);
        assert_non_null(y);
        assert_string_equal(f->entries[i].name, again->entries[i].name);
        assert_memory_equal(sheaf__tensor_host(x, &err), sheaf__tensor_host(y, &err),
                            (size_t)sheaf_tensor_elements(x) *
                                sheaf_dtype_size(f->entries[i].dtype));
        sheaf__unref(x);
        sheaf__unref(y);
    }
    check_streams(again);
    sheaf_tensor_file_free(again);
    sheaf_tensor_file_free(f);
}

/* Members of more than a window, deflated and stored, read in pieces anywhere. */
static void npz_members_are_read_anywhere(void **state)
{
    (void)state;
    enum { COUNT = 300000 };
    static uint8_t data[COUNT], part[COUNT];
    struct sheaf__zip_writer *w = NULL;
    struct sheaf__zip_file *z = NULL;
    struct sheaf__philox dice;
    sheaf_error err;
    sheaf__philox_init(&dice, 7, 0);
    for (size_t i = 0; i < COUNT; i++)
        data[i] = (uint8_t)sheaf__philox_below(&dice, i % 1000 < 500 ? 3 : 256);
    rig_ok(sheaf__zip_writer_open(rig_path("x.zip"), &w, &err), &err);
    for (int i = 0; i < 2; i++) {
        rig_ok(sheaf__zip_writer_begin(w, i ? "deflated" : "stored", i, &err), &err);
        for (size_t at = 0, n; at < COUNT; at += n) {
            n = 1 + (size_t)sheaf__philox_below(&dice, 70000);
            n = n < COUNT - at ? n : COUNT - at;
            rig_ok(sheaf__zip_writer_put(w, data + at, n, &err), &err);
        }
        rig_ok(sheaf__zip_writer_end(w, &err), &err);
    }
    rig_ok(sheaf__zip_writer_begin(w, "nothing", true, &err), &err);
    rig_ok(sheaf__zip_writer_end(w, &err), &err);
    rig_ok(sheaf__zip_writer_finish(w, &err), &err);
    rig_ok(sheaf__zip_open(rig_path("x.zip"), &z, &err), &err);
    assert_int_equal(sheaf__zip_count(z), 3);
    assert_true(sheaf__zip_member(z, 1)->packed < COUNT);
    for (int round = 0; round < 60; round++) {
        const size_t i = (size_t)sheaf__philox_below(&dice, 2);
        const size_t at = (size_t)sheaf__philox_below(&dice, COUNT);
        const size_t size = (size_t)sheaf__philox_below(&dice, COUNT - at + 1);
        rig_ok(sheaf__zip_read(z, i, at, part, size, &err), &err);
        assert_memory_equal(part, data + at, size);
    }
    for (size_t i = 0; i < 3; i++)
        rig_ok(sheaf__zip_check(z, i, NULL, &err), &err);
    rig_fails(sheaf__zip_read(z, 0, COUNT, part, 1, &err), &err, SHEAF_ERR_DATA_LOSS,
              "member 'stored' of 300000 bytes ends within its data");
    sheaf__zip_free(z);
}

/* The error of opening, or of the tensor, which verifying finds as well if it is damage. */
static sheaf_status read_member(const char *path, const char *name, sheaf_error *err)
{
    sheaf_tensor_file *f = NULL;
    sheaf_tensor *t;
    sheaf_error damage = {0};
    if (sheaf_tensor_file_open(path, &f, err) < 0)
        return err->status;
    const sheaf_status status = sheaf_tensor_file_read(f, name, &t, err);
    const sheaf_status verified = sheaf_tensor_file_verify(f, &damage);
    if (status == SHEAF_ERR_DATA_LOSS) {
        assert_int_equal(verified, status);
        assert_string_equal(damage.message, err->message);
    }
    sheaf_tensor_file_free(f);
    return status;
}

/* Members that are no tensors hide no others: "mixed.npz" has one of each kind. */
static void npz_members_that_are_no_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        sheaf_status status;
        const char *message;
    } members[] = {
        {"cut", SHEAF_ERR_DATA_LOSS, "member 'cut.npy': the file has 40 bytes and ends within"},
        {"dates", SHEAF_ERR_UNIMPLEMENTED, "'<M8[D]', which is for dates or times"},
        {"empty", SHEAF_ERR_DATA_LOSS, "member 'empty.npy': the file has 0 bytes"},
        {"fields", SHEAF_ERR_UNIMPLEMENTED, "the elements have several fields"},
        {"note.txt", SHEAF_ERR_UNIMPLEMENTED, "its member is no array of NumPy's"},
        {"objects", SHEAF_ERR_UNIMPLEMENTED, "which is for objects, which only Python can read"},
        {"long", SHEAF_ERR_UNIMPLEMENTED, "which is for numbers that are no tensor's"},
    };
    sheaf_tensor_file *f = open_golden("npy/mixed.npz");
    sheaf_error err = {0};
    sheaf_tensor *t;
    rig_ok(sheaf_tensor_file_read(f, "floats", &t, &err), &err);
    assert_true(sheaf_tensor_number(t, 2) == 2);
    rig_ok(sheaf_tensor_file_read(f, "texts", &t, &err), &err);
    assert_int_equal(sheaf_tensor_bytes(t, 0).size, 4);
    assert_memory_equal(sheaf_tensor_bytes(t, 0).data, "añb", 4);
    /* What they take in the file: three floats, two texts of three characters, two strings of three bytes. */
    assert_int_equal(sheaf__tensor_file_find(f, "floats")->bytes, 12);
    assert_int_equal(sheaf__tensor_file_find(f, "texts")->bytes, 24);
    assert_int_equal(sheaf__tensor_file_find(f, "bytes")->bytes, 6);
    assert_int_equal(f->count, 3 + sizeof(members) / sizeof(members[0]));
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        rig_fails(sheaf_tensor_file_read(f, members[i].name, &t, &err), &err, members[i].status,
                  members[i].message);
    rig_fails(sheaf_tensor_file_verify(f, &err), &err, SHEAF_ERR_DATA_LOSS, members[0].message);
    sheaf_tensor_file_free(f);
    sheaf_frame_clear();
}

/* 2^26 + 1 strings of a byte in some kilobytes would take a gibibyte. They are listed, and verified. */
static void npz_of_too_many_strings(void **state)
{
    (void)state;
    enum { COUNT = (1 << 26) + 1, PART = 1 << 20 };
    static const uint8_t zeros[PART];
    struct sheaf__zip_writer *w = NULL;
    struct sheaf__buf head = {0};
    sheaf_tensor_file *f = NULL;
    sheaf_tensor *t;
    sheaf_error err;
    rig_ok(sheaf__npy_header(&head, SHEAF_STRING, SHEAF_SHAPE(COUNT), 1, false, &err), &err);
    rig_ok(sheaf__zip_writer_open(rig_path("a.npz"), &w, &err), &err);
    rig_ok(sheaf__zip_writer_begin(w, "a.npy", true, &err), &err);
    rig_ok(sheaf__zip_writer_put(w, head.data, head.size, &err), &err);
    for (int64_t left = COUNT; left > 0; left -= PART)
        rig_ok(sheaf__zip_writer_put(w, zeros, left < PART ? (size_t)left : PART, &err), &err);
    rig_ok(sheaf__zip_writer_end(w, &err), &err);
    rig_ok(sheaf__zip_writer_finish(w, &err), &err);
    sheaf__buf_free(&head);
    rig_ok(sheaf_tensor_file_open(rig_path("a.npz"), &f, &err), &err);
    assert_int_equal(f->entries[0].bytes, COUNT);
    rig_ok(sheaf_tensor_file_verify(f, &err), &err);
    rig_fails(sheaf_tensor_file_read(f, "a", &t, &err), &err, SHEAF_ERR_RESOURCE_EXHAUSTED,
              "67108865 strings in");
    sheaf_tensor_file_free(f);
}

/* Numbers of a stored archive set to others: where, to what, and what is said. */
static void npz_errors(void **state)
{
    (void)state;
    static const struct {
        size_t at; /* from the end of the archive */
        const char *bytes;
        size_t size;
        sheaf_status status;
        const char *message;
    } cases[] = {
        {12, "\xff\xff", 2, SHEAF_ERR_DATA_LOSS, "the directory of 65535 members is said to be"},
        {6, "\xff\xff\xff\x7f", 4, SHEAF_ERR_DATA_LOSS, "the directory of 1 members is said to be"},
        {22 + 51, "X", 1, SHEAF_ERR_DATA_LOSS,
         "the directory of the archive is damaged at member 0"},
        {22 + 51 - 8, "\1", 1, SHEAF_ERR_UNIMPLEMENTED, "member 'a.npy' is encrypted"},
        {22 + 51 - 10, "\14", 1, SHEAF_ERR_UNIMPLEMENTED,
         "member 'a.npy' is packed by method 12, expected 0 (stored) or 8 (deflated)"},
        {22 + 51 - 20, "\xff\xff\xff\x7f", 4, SHEAF_ERR_DATA_LOSS,
         "is not where the directory has it"},
        {22 + 51 - 20, "\1", 1, SHEAF_ERR_DATA_LOSS, "is said to be 130 bytes packed in 1"},
        {22 + 51 - 42, "\5", 1, SHEAF_ERR_DATA_LOSS, "is not where the directory has it"},
        {22 + 51 - 42, "\xff\xff\xff\x7f", 4, SHEAF_ERR_DATA_LOSS, "member 'a.npy' lies outside"},
    };
    struct sheaf__zip_writer *w = NULL;
    struct sheaf__buf head = {0};
    sheaf_error err;
    char *bytes = NULL;
    size_t size;
    rig_ok(sheaf__npy_header(&head, SHEAF_UINT8, SHEAF_SHAPE(2), 0, false, &err), &err);
    rig_ok(sheaf__zip_writer_open(rig_path("a.npz"), &w, &err), &err);
    rig_ok(sheaf__zip_writer_begin(w, "a.npy", false, &err), &err);
    rig_ok(sheaf__zip_writer_put(w, head.data, head.size, &err), &err);
    rig_ok(sheaf__zip_writer_put(w, "ab", 2, &err), &err);
    rig_ok(sheaf__zip_writer_end(w, &err), &err);
    rig_ok(sheaf__zip_writer_finish(w, &err), &err);
    sheaf__buf_free(&head);
    rig_ok(sheaf__file_read_all(rig_path("a.npz"), 1 << 20, &bytes, &size, &err), &err);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char bad[1024];
        memcpy(bad, bytes, size);
        memcpy(bad + size - cases[i].at, cases[i].bytes, cases[i].size);
        rig_ok(sheaf__file_replace(rig_path("b.npz"), bad, size, &err), &err);
        rig_fails(read_member(rig_path("b.npz"), "a", &err), &err, cases[i].status,
                  cases[i].message);
        assert_non_null(strstr(err.file, "b.npz"));
    }
    /* The header of the member itself, at the start of the file, says another name. */
    static const struct {
        size_t at;
        char byte;
        const char *message;
    } names[] = {
        {30, 'b', "member 'a.npy' is called 'b.npy' in its own header"},
        {34, 'z', "member 'a.npy' is called 'a.npz' in its own header"},
        {26, 4, "member 'a.npy' is called 'a.np' in its own header"},
        {30, '\0', "member 'a.npy' is called '' in its own header"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char right = bytes[names[i].at];
        bytes[names[i].at] = names[i].byte;
        rig_ok(sheaf__file_replace(rig_path("b.npz"), bytes, size, &err), &err);
        rig_fails(read_member(rig_path("b.npz"), "a", &err), &err, SHEAF_ERR_DATA_LOSS,
                  names[i].message);
        assert_non_null(strstr(err.file, "b.npz"));
        assert_true(err.offset == 30);
        bytes[names[i].at] = right;
    }
    sheaf__free(bytes);
}

/* Checkpoints of every dtype and in slices. */
static void checkpoints(void **state)
{
    (void)state;
    static const char *const names[] = {"checkpoint/dtypes/all", "checkpoint/ps/max-64",
                                        "checkpoint/shards/max-100", "checkpoint-bad/big-endian/c"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        sheaf_tensor_file *f = open_golden(names[i]);
        assert_string_equal(sheaf_tensor_file_format(f), "checkpoint");
        assert_true(f->count > 0);
        check_streams(f);
        sheaf_tensor_file_free(f);
    }
    sheaf_tensor_file *f = NULL;
    sheaf_error err;
    rig_fails(sheaf_tensor_file_open(rig_path("none"), &f, &err), &err, SHEAF_ERR_NOT_FOUND, "");
    rig_fails(sheaf_tensor_file_open(NULL, &f, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "");
}

static sheaf_status read_all(void *user, sheaf_error *err)
{
    sheaf_tensor_file *f = NULL;
    sheaf_status status = sheaf_tensor_file_open(user, &f, err);
    for (size_t i = 0; status >= 0 && i < f->count; i++) {
        struct sheaf__tensor_stream s;
        const uint8_t *data;
        size_t size;
        status = sheaf__tensor_stream_begin(&s, f, &f->entries[i], NULL, err);
        while (status == SHEAF_OK)
            status = sheaf__tensor_stream_next(&s, &data, &size, err);
        sheaf_tensor *t = status < 0 ? NULL : sheaf__tensor_file_whole(f, &f->entries[i], err);
        status = t ? SHEAF_OK : SHEAF_ERR_RESOURCE_EXHAUSTED;
        sheaf__unref(t);
    }
    sheaf_tensor_file_free(f);
    return status;
}

static void without_memory(void **state)
{
    (void)state;
    static const char *const files[] = {"safetensors/single.safetensors",
                                        "safetensors/sharded/model.safetensors.index.json",
                                        "npy/deflated.npz", "npy/stored.npz"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char *path = (char *)(uintptr_t)rig_golden(files[i]);
        sheaf_error err;
        rig_ok(read_all(path, &err), &err); /* fills the pools */
        assert_true(rig_fail_allocations(read_all, path) >= 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(safetensors_golden),
        rig_test(safetensors_errors),
        rig_test(safetensors_header_is_the_reference_s),
        rig_test(safetensors_has_not_everything),
        rig_test(safetensors_of_other_dtypes),
        rig_test(safetensors_index),
        rig_test(npz_golden),
        rig_test(npz_is_numpy_s),
        rig_test(npz_members_are_read_anywhere),
        rig_test(npz_errors),
        rig_test(npz_members_that_are_no_tensors),
        rig_test(npz_of_too_many_strings),
        rig_test(checkpoints),
        rig_test(without_memory),
    };
    return rig_run(tests);
}
