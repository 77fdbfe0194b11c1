/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's files (formats.md 7.2) against what NumPy reads, tests/golden/npy. */
#include "golden.h"

#include "base/file.h"
#include "format/npy.h"
#include "tensor/shape.h"

#include <sheaf/frame.h>

/* Strings and numbers as the goldens write them. */
static void compare_values(const sheaf_tensor *t, const json_t *values, const char *file)
{
    json_t *value;
    size_t i;
    if (sheaf_tensor_dtype(t) != SHEAF_STRING)
        return;
    assert_int_equal(sheaf_tensor_elements(t), json_array_size(values));
    json_array_foreach(values, i, value)
    {
        sheaf_bytes text = sheaf_tensor_bytes(t, (int64_t)i);
        if (text.size != json_string_length(value) ||
            memcmp(text.data, json_string_value(value), text.size) != 0)
            fail_msg("%s: string %zu is \"%.*s\"", file, i, (int)text.size, text.data);
    }
}

static void check_array(const json_t *c, const char *file, sheaf_tensor *t)
{
    const json_t *array = json_object_get(c, "array"), *shape = json_object_get(array, "shape");
    const char *dtype = json_string_value(json_object_get(array, "dtype"));
    assert_string_equal(sheaf_dtype_name(sheaf_tensor_dtype(t)), dtype ? dtype : "string");
    assert_int_equal(sheaf_tensor_shape(t).rank, json_array_size(shape));
    for (size_t i = 0; i < json_array_size(shape); i++)
        assert_int_equal(sheaf_tensor_shape(t).dims[i],
                         json_integer_value(json_array_get(shape, i)));
    compare_values(t, json_object_get(array, "values"), file);
    if (dtype) {
        char hex[65];
        golden_sha256(t, hex);
        if (strcmp(hex, json_string_value(json_object_get(array, "sha256"))) != 0)
            fail_msg("%s: other elements", file);
    }
}

/* What NumPy reads and no tensor can hold. */
static bool is_no_tensor(const char *file)
{
    return strcmp(file, "bfloat16.npy") == 0;
}

static void reads_what_numpy_reads(void **state)
{
    (void)state;
    json_t *root = golden_json("npy"), *c;
    size_t i, read = 0, refused = 0;
    json_array_foreach(json_object_get(root, "arrays"), i, c)
    {
        const char *file = json_string_value(json_object_get(c, "file"));
        char path[128];
        snprintf(path, sizeof(path), "npy/%s", file);
        sheaf_frame frame = SHEAF_ZERO;
        sheaf_frame_open(&frame);
        sheaf_tensor *t = sheaf_npy_load(rig_golden(path));
        sheaf_error err = {0};
        if (json_object_get(c, "error") || json_object_get(c, "ours") || is_no_tensor(file)) {
            sheaf_status status = sheaf_tensor_status(t, &err);
            if (status != SHEAF_ERR_DATA_LOSS && status != SHEAF_ERR_UNIMPLEMENTED)
                fail_msg("%s: %s", file, sheaf_status_name(status));
            assert_non_null(strstr(err.file, file));
            assert_int_not_equal(err.offset, UINT64_MAX);
            refused++;
        } else {
            rig_ok(sheaf_tensor_status(t, &err), &err);
            check_array(c, file, t);
            read++;
        }
        sheaf_frame_close(&frame);
    }
    assert_int_equal(read, 29);
    assert_int_equal(refused, 14);
    json_decref(root);
}

static void errors_say_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        sheaf_status status;
        const char *message;
    } cases[] = {
        {"bad-empty", SHEAF_ERR_DATA_LOSS, "the file has 0 bytes, expected an array of NumPy"},
        {"bad-magic", SHEAF_ERR_DATA_LOSS, "does not start like an array of NumPy"},
        {"bad-version", SHEAF_ERR_UNIMPLEMENTED, "version 9.0 of the format, expected 1.0 to 3.0"},
        {"bad-cut-header", SHEAF_ERR_DATA_LOSS, "the file has 40 bytes and ends within its header"},
        {"bad-cut-data", SHEAF_ERR_DATA_LOSS, "7 bytes of an array of shape (2,), expected 8"},
        {"bad-missing-key", SHEAF_ERR_DATA_LOSS, "the header lacks fortran_order"},
        {"bad-extra-key", SHEAF_ERR_DATA_LOSS, "the header has \"x\", expected descr"},
        {"bad-descr", SHEAF_ERR_DATA_LOSS, "the dtype is '<q9', expected one like '<f4'"},
        {"bad-shape-negative", SHEAF_ERR_DATA_LOSS, "expected a size"},
        {"bad-shape-huge", SHEAF_ERR_DATA_LOSS, "fits no memory"},
        {"bad-call", SHEAF_ERR_DATA_LOSS, "expected"},
        {"object", SHEAF_ERR_UNIMPLEMENTED, "the dtype is '|O', which is for objects"},
        {"structured", SHEAF_ERR_UNIMPLEMENTED, "the elements have several fields"},
        {"bfloat16", SHEAF_ERR_UNIMPLEMENTED, "which is for raw bytes; bfloat16 and float8 lose"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char path[128];
        sheaf_error err = {0};
        snprintf(path, sizeof(path), "npy/%s.npy", cases[i].file);
        assert_null(sheaf__npy_load(rig_golden(path), &err));
        rig_fails(err.status, &err, cases[i].status, cases[i].message);
    }
    sheaf_error err = {0};
    assert_null(sheaf__npy_load("/no/such/file.npy", &err));
    rig_fails(err.status, &err, SHEAF_ERR_NOT_FOUND, "");
    assert_null(sheaf__npy_load(NULL, &err));
    rig_fails(err.status, &err, SHEAF_ERR_INVALID_ARGUMENT, "");
}

/* A file of a header of our own and some bytes of data. */
static const char *write_array(const char *header, const void *data, size_t size)
{
    uint8_t file[1024] = "\x93NUMPY\1\0";
    const size_t length = strlen(header), start = 10 + length;
    file[8] = (uint8_t)length;
    memcpy(file + 10, header, length);
    memcpy(file + start, data, size);
    const char *path = rig_path("own.npy");
    sheaf_error err = {0};
    rig_ok(sheaf__file_replace(path, file, start + size, &err), &err);
    return path;
}

static sheaf_tensor *load_own(const char *header, const void *data, size_t size)
{
    sheaf_error err = {0};
    sheaf_tensor *t = sheaf__npy_load(write_array(header, data, size), &err);
    rig_ok(t ? SHEAF_OK : err.status, &err);
    return t;
}

/* Whether the address lies where the file of our own is mapped. */
static bool is_in_file(const void *address)
{
    char line[4400];
    unsigned long begin, end;
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (!found && fgets(line, sizeof(line), maps))
        found = strstr(line, "/own.npy") && sscanf(line, "%lx-%lx", &begin, &end) == 2 &&
                (uintptr_t)address >= begin && (uintptr_t)address < end;
    fclose(maps);
    return found;
}

/* Numbers are where the file is mapped, and keep it so; what must change is copied. */
static void nothing_is_copied_without_need(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        int length; /* of it, with blanks: 54 puts the elements at byte 64 */
        bool copied;
    } cases[] = {{"{'descr':'<i4','fortran_order':False,'shape':(2,3)}", 54, false},
                 {"{'descr':'=i4','fortran_order':True,'shape':(3,2)}", 54, false},
                 {"{'descr':'>i4','fortran_order':False,'shape':(2,3)}", 54, true},
                 {"{'descr':'<i4','fortran_order':False,'shape':(2,3)}", 55, true},
                 {"{'descr':'|S4','fortran_order':False,'shape':(2,3)}", 55, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int32_t data[6] = {1, 2, 3, 4, 5, 6};
        char header[80];
        snprintf(header, sizeof(header), "%-*s", cases[i].length, cases[i].header);
        sheaf_tensor *t = load_own(header, data, sizeof(data));
        const void *first = t->dtype == SHEAF_STRING ? ((sheaf_bytes *)t->data)[0].data : t->data;
        assert_int_equal(is_in_file(first), !cases[i].copied);
        if (!cases[i].copied)
            assert_int_equal((uintptr_t)first % 4096, 10 + cases[i].length);
        if (cases[i].header[10] != '>')
            assert_memory_equal(first, data, sizeof(data));
        sheaf__unref(t);
    }
}

static void odd_arrays(void **state)
{
    (void)state;
    /* Every byte but 0 is true. */
    sheaf_tensor *t = load_own("{'descr':'|b1','fortran_order':False,'shape':(3,)}", "\0\2\1", 3);
    assert_memory_equal(t->data, "\0\1\1", 3);
    sheaf__unref(t);
    /* Column-major: axes of a view, strings included; empty ones have no memory to view. */
    static const uint16_t columns[] = {1, 4, 2, 5, 3, 6};
    t = load_own("{'descr':'<u2','fortran_order':True,'shape':(2,3)}", columns, sizeof(columns));
    for (int64_t i = 0; i < 6; i++)
        assert_int_equal(sheaf_tensor_integer(t, i), i + 1);
    sheaf__unref(t);
    t = load_own("{'descr':'|S1','fortran_order':True,'shape':(2,2)}", "acbd", 4);
    for (int64_t i = 0; i < 4; i++)
        assert_int_equal(sheaf_tensor_bytes(t, i).data[0], 'a' + i);
    sheaf__unref(t);
    static const char *const empty[] = {"|S3", "<U3", "<f4", ">c16", "|b1"};
    for (size_t i = 0; i < 5; i++) {
        char header[80];
        snprintf(header, sizeof(header), "{'descr':'%s','fortran_order':True,'shape':(0,3)}",
                 empty[i]);
        t = load_own(header, "", 0);
        assert_int_equal(sheaf_tensor_elements(t), 0);
        assert_int_equal(sheaf_tensor_shape(t).dims[1], 3);
        sheaf__unref(t);
    }
    /* UTF-8 of one to four bytes, from either byte order. */
    static const uint32_t points[] = {0x41, 0xe9, 0x20ac, 0x1f600, 0, 0};
    t = load_own("{'descr':'<U6','fortran_order':False,'shape':()}", points, sizeof(points));
    sheaf_bytes text = sheaf_tensor_bytes(t, 0);
    assert_int_equal(text.size, 10);
    assert_memory_equal(text.data, "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10);
    sheaf__unref(t);
    static const uint32_t surrogate[] = {0x41, 0xd800};
    sheaf_error err = {0};
    assert_null(sheaf__npy_load(write_array("{'descr':'<U1','fortran_order':False,'shape':(2,)}",
                                            surrogate, sizeof(surrogate)),
                                &err));
    rig_fails(err.status, &err, SHEAF_ERR_DATA_LOSS,
              "text 1 has the code point 0xd800, which is none");
}

static void headers_that_are_wrong(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "",
        "{",
        "}",
        "{}",
        "[]",
        "{'descr'}",
        "{'descr':}",
        "{'descr':<f4}",
        "{'descr':'<f4}",
        "{'descr':'<f4' 'fortran_order':False,'shape':()}",
        "{'descr':'<f4','fortran_order':false,'shape':()}",
        "{'descr':'<f4','fortran_order':False,'shape':(1 2)}",
        "{'descr':'<f4','fortran_order':False,'shape':(,)}",
        "{'descr':'<f4','fortran_order':False,'shape':(1,}",
        "{'descr':'<f4','fortran_order':False,'shape':(1,,)}",
        "{'descr':'<f4','fortran_order':False,'shape':3}",
        "{'descr':'<f4','fortran_order':False,'shape':()}x",
        "{'descr':'<f4','fortran_order':False,'shape':(),'shape':()}",
        "{'descr':'<f4','fortran_order':False,'shape':(1,1,1,1,1,1,1,1,1)}",
        "{'descr':'\\x3cf4','fortran_order':False,'shape':()}",
        "{'descr':'','fortran_order':False,'shape':()}",
        "{'descr':'f4','fortran_order':False,'shape':()}",
        "{'descr':'<f','fortran_order':False,'shape':()}",
        "{'descr':'<f99999999999999999999','fortran_order':False,'shape':()}",
        "{'descr':'|S0','fortran_order':False,'shape':(1000000000,)}",
        "{'descr':'|S999999999','fortran_order':False,'shape':(99999999999,)}",
        "{'descr':'<f4','fortran_order':False,'shape':(99999999999999999999,)}",
        "{'descr':'<f4','fortran_order':False,'shape':(0x10,)}"};
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        sheaf_error err = {0};
        if (sheaf__npy_load(write_array(headers[i], "12345678", 8), &err))
            fail_msg("%s was taken", headers[i]);
        assert_true(err.status == SHEAF_ERR_DATA_LOSS || err.status == SHEAF_ERR_UNIMPLEMENTED);
    }
}

static sheaf_status load_one(void *path, sheaf_error *err)
{
    sheaf_tensor *t = sheaf__npy_load(path, err);
    if (!t)
        return err->status;
    sheaf__unref(t);
    return SHEAF_OK;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const char *const files[] = {"v-float32", "big-endian-i8", "fortran", "strings",
                                        "unicode"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char name[64], path[4096];
        snprintf(name, sizeof(name), "npy/%s.npy", files[i]);
        strcpy(path, rig_golden(name));
        sheaf_error err = {0};
        rig_ok(load_one(path, &err), &err); /* fills the pools */
        assert_true(rig_fail_allocations(load_one, path) >= 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(reads_what_numpy_reads),         rig_test(errors_say_what_is_wrong),
        rig_test(nothing_is_copied_without_need), rig_test(odd_arrays),
        rig_test(headers_that_are_wrong),         rig_test(every_allocation_may_fail),
    };
    return rig_run(tests);
}
