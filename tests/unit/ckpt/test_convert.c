/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/context.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/mem.h"
#include "format/bundle.h"
#include "format/tensor_file.h"

#include <sheaf/context.h>
#include <sheaf/frame.h>
#include <sheaf/tensor_file.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Files of tensors turned into others, and compared (sheaf_tensor_file_convert, sheaf_tensor_file_compare). */

static sheaf_tensor_file *open_file(const char *path)
{
    sheaf_tensor_file *f = NULL;
    sheaf_error err;
    rig_ok(sheaf_tensor_file_open(path, &f, &err), &err);
    return f;
}

static void convert(const char *from, const char *to, const sheaf_convert_options *options)
{
    sheaf_tensor_file *f = open_file(from);
    sheaf_error err;
    rig_ok(sheaf_tensor_file_convert(f, to, options, &err), &err);
    sheaf_tensor_file_free(f);
}

/* Every tensor of `a` is in `b`, bit for bit; `b` has `more` besides. */
static void check_equal(const char *a, const char *b, size_t more)
{
    sheaf_tensor_file *x = open_file(a), *y = open_file(b);
    sheaf_error err;
    for (size_t i = 0; i < x->count; i++) {
        sheaf_tensor_difference d;
        rig_ok(sheaf_tensor_file_compare(x, y, x->entries[i].name, &d, &err), &err);
        if (d.elements)
            fail_msg("%s differs", x->entries[i].name);
        assert_true(d.largest == 0);
    }
    assert_int_equal(x->count + more, y->count);
    sheaf_tensor_file_free(x);
    sheaf_tensor_file_free(y);
}

static void check_same_bytes(const char *ours, const char *golden)
{
    char *x = NULL, *y = NULL;
    size_t x_size = 0, y_size = 0;
    sheaf_error err;
    rig_ok(sheaf__file_read_all(ours, 1 << 20, &x, &x_size, &err), &err);
    rig_ok(sheaf__file_read_all(golden, 1 << 20, &y, &y_size, &err), &err);
    if (x_size != y_size || memcmp(x, y, x_size) != 0)
        fail_msg("%s is not %s", ours, golden);
    sheaf__free(x);
    sheaf__free(y);
}

static void check_verified(const char *path)
{
    sheaf_bundle *b = NULL;
    sheaf_error err;
    rig_ok(sheaf_bundle_open(path, &b, &err), &err);
    rig_ok(sheaf_bundle_verify(b, &err), &err);
    sheaf_bundle_free(b);
}

static size_t count_files(void)
{
    struct sheaf__strings names = {0};
    sheaf_error err;
    rig_ok(sheaf__file_list(rig_folder(), &names, &err), &err);
    const size_t count = names.count;
    sheaf__strings_clear(&names);
    return count;
}

/* S214: TensorFlow's own shards put together are its one shard, and that cut up is its own shards again, data file by
 * data file; the empty tensor that it lost stays lost or stays. */
static void s214_reshards_as_tensorflow(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t limit;
        int files;
    } cuts[] = {{"max-100", 100, 20}, {"max-200", 200, 10}, {"max-1000", 1000, 2}};
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        char golden[256], tail[64], name[64], path[400];
        snprintf(name, sizeof(name), "checkpoint/shards/%s", cuts[i].name);
        snprintf(golden, sizeof(golden), "%s", rig_golden(name));
        convert(golden, rig_path("one"), NULL);
        check_same_bytes(rig_path("one.data-00000-of-00001"),
                         rig_golden("checkpoint/shards/default.data-00000-of-00001"));
        const sheaf_sharding_callback policy = sheaf_shard_max_size(cuts[i].limit);
        convert(rig_golden("checkpoint/shards/default"), rig_path("cut"),
                &(sheaf_convert_options){.sharding = &policy});
        check_equal(golden, rig_path("cut"), 1);
        check_verified(rig_path("cut"));
        for (int k = 0; k < cuts[i].files; k++) {
            snprintf(tail, sizeof(tail), "cut.data-%05d-of-%05d", k, cuts[i].files);
            snprintf(path, sizeof(path), "%s%s", golden, tail + 3);
            check_same_bytes(rig_path(tail), path);
        }
        sheaf_error err;
        rig_ok(sheaf__bundle_delete(rig_path("one"), &err), &err);
        rig_ok(sheaf__bundle_delete(rig_path("cut"), &err), &err);
    }
}

/* Slices of a partitioned table over tasks, of any dtype, by any policy; what stands beside a checkpoint stays. */
static void reshards_slices(void **state)
{
    (void)state;
    static const char *const from[] = {"checkpoint/ps/sharded-1", "checkpoint/ps/max-64",
                                       "checkpoint/dtypes/all", "checkpoint/keras3/adam-1",
                                       "checkpoint-bad/big-endian/c"};
    const sheaf_sharding_callback policies[] = {
        *sheaf_shard_all_in_one(), sheaf_shard_round_robin(3), sheaf_shard_max_size(500)};
    for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++) {
        for (int k = 0; k < 3; k++) {
            char golden[256];
            snprintf(golden, sizeof(golden), "%s", rig_golden(from[i]));
            convert(golden, rig_path("x"), &(sheaf_convert_options){.sharding = &policies[k]});
            check_equal(golden, rig_path("x"), 0);
            check_verified(rig_path("x"));
        }
    }
    rig_log_take(); /* strings longer than a shard */
    sheaf_bundle *b = NULL;
    sheaf_error err;
    rig_ok(sheaf_bundle_open(rig_path("x"), &b, &err), &err);
    assert_string_equal(sheaf_bundle_description(b), policies[2].description);
    struct sheaf__sidecar more = {0};
    char *index = NULL;
    size_t size;
    more.run_id = sheaf__strdup("run 7");
    assert_true(sheaf__sidecar_add(&more, "/job:ps/task:0", "pushes") &&
                sheaf__sidecar_add_blob(&more, "input", "\0\1\2", 3));
    rig_ok(sheaf__file_read_all(rig_path("x.index"), 1 << 20, &index, &size, &err), &err);
    rig_ok(sheaf__sidecar_write(rig_path("x"), sheaf__crc32c(index, size), &more, &err), &err);
    sheaf__free(index);
    sheaf__sidecar_free(&more);
    sheaf_bundle_free(b);
    convert(rig_path("x"), rig_path("y"), NULL);
    rig_ok(sheaf_bundle_open(rig_path("y"), &b, &err), &err);
    assert_string_equal(b->sidecar.run_id, "run 7");
    assert_string_equal(sheaf__sidecar_note(&b->sidecar, "/job:ps/task:0"), "pushes");
    assert_int_equal(sheaf__sidecar_blob(&b->sidecar, "input")->size, 3);
    assert_string_equal(b->sidecar.description, "Place all tensors in a single shard.");
    sheaf_bundle_free(b);
}

/* A file of the reference through every format and back is itself, byte for byte; but its metadata, which only safetensors
 * has. */
static void comes_back_from_everywhere(void **state)
{
    (void)state;
    const char *golden = rig_golden("safetensors/single.safetensors");
    convert(golden, rig_path("a.safetensors"), NULL);
    check_same_bytes(rig_path("a.safetensors"), golden);
    convert(golden, rig_path("b.npz"), NULL);
    convert(rig_path("b.npz"), rig_path("c"), NULL);
    check_verified(rig_path("c"));
    convert(rig_path("c"), rig_path("d.npz"), &(sheaf_convert_options){.deflate = true});
    convert(rig_path("d.npz"), rig_path("e.safetensors"), NULL);
    check_same_bytes(rig_path("e.safetensors"), golden);
    const char *low = rig_golden("safetensors/low.safetensors");
    convert(low, rig_path("f"), NULL);
    convert(rig_path("f"), rig_path("g.safetensors"), NULL);
    check_same_bytes(rig_path("g.safetensors"), low);
    const char *told = rig_golden("safetensors/metadata.safetensors"); /* what it says of itself */
    convert(told, rig_path("i.safetensors.index.json"), NULL);
    convert(rig_path("i.safetensors.index.json"), rig_path("j.safetensors"), NULL);
    check_same_bytes(rig_path("j.safetensors"), told);
    convert(rig_golden("npy/stored.npz"), rig_path("h.npz"), NULL);
    check_same_bytes(rig_path("h.npz"), rig_golden("npy/stored.npz"));
    /* NumPy's texts stay texts, and are UTF-8 elsewhere. */
    const char *texts = rig_golden("npy/texts.npz");
    convert(texts, rig_path("k.npz"), NULL);
    check_same_bytes(rig_path("k.npz"), texts);
    convert(texts, rig_path("l"), NULL);
    check_equal(texts, rig_path("l"), 0);
}

/* The object graph comes back, too. */
static void graph_comes_back(void **state)
{
    (void)state;
    static const char *const ways[] = {"x.safetensors", "x.npz"};
    char golden[256];
    snprintf(golden, sizeof(golden), "%s", rig_golden("checkpoint/keras3/adam-1"));
    for (int i = 0; i < 2; i++) {
        sheaf_tensor_file_entry e;
        convert(golden, rig_path(ways[i]), NULL);
        sheaf_tensor_file *f = open_file(rig_path(ways[i]));
        assert_int_equal(sheaf_tensor_file_get(f, 0, &e), SHEAF_OK);
        assert_string_equal(e.name, "_CHECKPOINTABLE_OBJECT_GRAPH");
        assert_int_equal(e.dtype, SHEAF_UINT8);
        sheaf_tensor_file_free(f);
        check_equal(golden, rig_path(ways[i]), 0); /* a string and a vector of the same bytes */
        check_equal(rig_path(ways[i]), golden, 0);
        convert(rig_path(ways[i]), rig_path("back"), NULL);
        check_equal(golden, rig_path("back"), 0);
    }
    /* another one, of another length */
    convert(rig_golden("checkpoint/manager/ckpt-5"), rig_path("other.npz"), NULL);
    sheaf_tensor_file *f = open_file(golden), *g = open_file(rig_path("other.npz"));
    sheaf_tensor_difference d;
    sheaf_error err;
    rig_ok(sheaf_tensor_file_compare(f, g, "_CHECKPOINTABLE_OBJECT_GRAPH", &d, &err), &err);
    assert_true(d.elements == 1 && isnan(d.largest));
    sheaf_tensor_file_free(f);
    sheaf_tensor_file_free(g);
}

/* As many files as it takes, an index of all, and nothing in a file that is too much. */
static void safetensors_of_several_files(void **state)
{
    (void)state;
    const char *golden = rig_golden("safetensors/single.safetensors");
    convert(golden, rig_path("m.safetensors"), &(sheaf_convert_options){.max_file_bytes = 40});
    check_equal(golden, rig_path("m.safetensors.index.json"), 0);
    assert_false(sheaf__file_exists(rig_path("m.safetensors")));
    const size_t files = count_files() - 1;
    assert_int_equal(files, 4); /* 39, 40 and 5 bytes, and one tensor of 48 */
    for (size_t i = 0; i < files; i++) {
        char name[64];
        int64_t bytes = 0;
        snprintf(name, sizeof(name), "m-%05zu-of-%05zu.safetensors", i + 1, files);
        sheaf_tensor_file *f = open_file(rig_path(name));
        for (size_t k = 0; k < f->count; k++)
            bytes += sheaf_shape_elements(f->entries[k].shape) *
                     (int64_t)sheaf_dtype_size(f->entries[k].dtype);
        assert_true(bytes <= 40 || f->count == 1);
        sheaf_tensor_file_free(f);
    }
    convert(rig_path("m.safetensors.index.json"), rig_path("n.safetensors"), NULL);
    check_same_bytes(rig_path("n.safetensors"), golden);
    /* the golden one of two files */
    const char *sharded = rig_golden("safetensors/sharded/model.safetensors.index.json");
    convert(sharded, rig_path("o.safetensors.index.json"), NULL);
    check_equal(sharded, rig_path("o.safetensors.index.json"), 0);
    assert_true(sheaf__file_exists(rig_path("o-00001-of-00001.safetensors")));
}

/* What a format has not is said before anything has its name. */
static void refused(void **state)
{
    (void)state;
    const sheaf_sharding_callback policy = sheaf_shard_max_size(8), bad = sheaf_shard_max_size(0);
    const sheaf_convert_options none = {0}, some = {.max_file_bytes = 10},
                                less = {.max_file_bytes = -1}, cut = {.sharding = &policy},
                                nothing = {.sharding = &bad}, packed = {.deflate = true},
                                newer = {.reserved = {0, 1}};
    const char *const all = "checkpoint/dtypes/all", *const shards = "checkpoint/shards/default";
    const struct {
        const char *from, *to;
        const sheaf_convert_options *options;
        sheaf_status status;
        const char *message;
    } cases[] = {
        {all, "x.safetensors", &none, SHEAF_ERR_UNIMPLEMENTED, "which safetensors does not have"},
        {all, "x.safetensors", &some, SHEAF_ERR_UNIMPLEMENTED, "which safetensors does not have"},
        {"safetensors/low.safetensors", "x.npz", &none, SHEAF_ERR_UNIMPLEMENTED,
         "NumPy's files have no dtype"},
        {shards, "x.npz", &cut, SHEAF_ERR_INVALID_ARGUMENT, "a sharding policy is for checkpoints"},
        {shards, "x", &some, SHEAF_ERR_INVALID_ARGUMENT, "10 bytes a file are for safetensors"},
        {shards, "x.safetensors", &less, SHEAF_ERR_INVALID_ARGUMENT, "and 1 or more"},
        {shards, "x", &packed, SHEAF_ERR_INVALID_ARGUMENT, "only .npz files are deflated"},
        {shards, "x", &newer, SHEAF_ERR_INVALID_ARGUMENT, "reserved[1] is not 0"},
        {shards, "x", &nothing, SHEAF_ERR_INVALID_ARGUMENT, "the max shard size is 0 bytes"},
        {"npy/bad-crc.npz", "x", &none, SHEAF_ERR_DATA_LOSS, "member 'w.npy': checksum mismatch"},
        {"npy/bad-crc.npz", "x.safetensors", &some, SHEAF_ERR_DATA_LOSS, "checksum mismatch"},
        {"checkpoint-bad/data-flip-0/c", "x.npz", &none, SHEAF_ERR_DATA_LOSS, "checksum mismatch"},
        {"checkpoint-bad/data-flip-0/c", "x", &cut, SHEAF_ERR_DATA_LOSS, "checksum mismatch"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sheaf_tensor_file *f = open_file(rig_golden(cases[i].from));
        sheaf_error err;
        rig_fails(sheaf_tensor_file_convert(f, rig_path(cases[i].to), cases[i].options, &err), &err,
                  cases[i].status, cases[i].message);
        sheaf_tensor_file_free(f);
        assert_int_equal(count_files(), 0);
    }
    rig_log_take(); /* strings longer than a shard */
}

/* Names that no file can have, or that others have, are refused before anything is written. */
static void no_file_to_write(void **state)
{
    (void)state;
    char directory[300], below[304];
    sheaf_error err;
    rig_ok(sheaf__file_mkdir(rig_path("d.npz"), 0, &err), &err);
    snprintf(directory, sizeof(directory), "%s", rig_path("d.npz"));
    snprintf(below, sizeof(below), "%s/", rig_path("none"));
    const struct {
        const char *to, *message;
    } cases[] = {{"", "'' is no name of a file"},
                 {below, "is no name of a file"},
                 {directory, "is a directory"},
                 {"/dev/null", "'/dev/null' is a special file"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sheaf_tensor_file *f = open_file(rig_golden("npy/stored.npz"));
        rig_fails(sheaf_tensor_file_convert(f, cases[i].to, NULL, &err), &err,
                  SHEAF_ERR_INVALID_ARGUMENT, cases[i].message);
        sheaf_tensor_file_free(f);
        assert_int_equal(count_files(), 1);
    }
}

/* Writes a checkpoint of one tensor `t`. */
static void write_one(const char *path, sheaf_tensor *t)
{
    struct sheaf__bundle_writer *w = NULL;
    sheaf_error err;
    rig_ok(sheaf__bundle_writer_open(path, &w, &err), &err);
    rig_ok(sheaf__bundle_writer_add(w, "t", 1, NULL, NULL, t, &err), &err);
    rig_ok(sheaf__bundle_writer_finish(w, &err), &err);
}

/* Tensors of several buffers, cut along both axes, in every format; a strange order of axes in an archive. */
static void larger_than_the_buffer(void **state)
{
    (void)state;
    enum { ROWS = 70, COLUMNS = 50030 };
    float *data = malloc(sizeof(float) * ROWS * COLUMNS);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        data[i] = (float)i;
    SHEAF_FRAME
    {
        write_one(rig_path("a"), sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(ROWS, COLUMNS), data));
    }
    free(data);
    static const int64_t limits[] = {1 << 20, 3 << 20, 150000 /* less than a row */};
    for (int i = 0; i < 3; i++) {
        const sheaf_sharding_callback policy = sheaf_shard_max_size(limits[i]);
        convert(rig_path("a"), rig_path("b"), &(sheaf_convert_options){.sharding = &policy});
        check_equal(rig_path("a"), rig_path("b"), 0);
        convert(rig_path("b"), rig_path("c"), NULL);
        check_equal(rig_path("a"), rig_path("c"), 0);
    }
    convert(rig_path("b"), rig_path("d.npz"), &(sheaf_convert_options){.deflate = true});
    convert(rig_path("d.npz"), rig_path("e.safetensors"), NULL);
    const sheaf_sharding_callback policy = sheaf_shard_max_size(1000000);
    convert(rig_path("e.safetensors"), rig_path("f"),
            &(sheaf_convert_options){.sharding = &policy});
    check_equal(rig_path("a"), rig_path("f"), 0);
}

/* Without waiting for the disk. */
static int no_sync(void *user, void *handle)
{
    (void)user;
    (void)handle;
    return 0;
}

static int no_sync_dir(void *user, const char *path)
{
    (void)user;
    (void)path;
    return 0;
}

/* The most memory that was in use when something was written. */
static int64_t most_bytes;

static int watch_write(void *user, void *handle, uint64_t offset, const void *data, size_t size,
                       size_t *done)
{
    const int64_t bytes = sheaf__mem_stats().live_bytes;
    most_bytes = bytes > most_bytes ? bytes : most_bytes;
    return sheaf__fs_system()->write_at(user, handle, offset, data, size, done);
}

/* A tensor of 32 MiB goes through every format in memory that has no place for half of it. */
static void in_bounded_memory(void **state)
{
    (void)state;
    enum { COUNT = 1 << 23 };
    const char *const ways[] = {"b", "c.safetensors", "d.npz", "e"};
    const char *header =
        "{\"t\":{\"dtype\":\"F32\",\"shape\":[4096,2048],\"data_offsets\":[0,33554432]}}";
    const uint64_t size = strlen(header);
    const float last = 7;
    struct sheaf__file *file = NULL;
    struct sheaf__fs fs = *sheaf__fs_system();
    sheaf_error err;
    fs.write_at = watch_write;
    fs.sync = no_sync;
    fs.sync_dir = no_sync_dir;
    sheaf__context_set_fs(sheaf__context(), &fs);
    rig_ok(sheaf__file_open(rig_path("a.safetensors"), SHEAF__FILE_CREATE, &file, &err), &err);
    rig_ok(sheaf__file_write(file, &size, sizeof(size), &err), &err);
    rig_ok(sheaf__file_write(file, header, size, &err), &err);
    rig_ok(sheaf__file_write_at(file, 8 + size + 4 * (COUNT - 1), &last, 4, &err), &err);
    rig_ok(sheaf__file_close(file, &err), &err);
    const char *from = "a.safetensors";
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        const int64_t before = most_bytes = sheaf__mem_stats().live_bytes;
        convert(rig_path(from), rig_path(ways[i]), NULL);
        assert_true(most_bytes - before < 4 * COUNT / 2);
        from = ways[i];
    }
    check_equal(rig_path("a.safetensors"), rig_path("e"), 0);
    sheaf__context_set_fs(sheaf__context(), NULL);
}

static sheaf_tensor_difference difference(sheaf_tensor *a, sheaf_tensor *b)
{
    sheaf_tensor_difference d;
    sheaf_error err;
    write_one(rig_path("a"), a);
    write_one(rig_path("b"), b);
    sheaf_tensor_file *x = open_file(rig_path("a")), *y = open_file(rig_path("b"));
    rig_ok(sheaf_tensor_file_compare(x, y, "t", &d, &err), &err);
    sheaf_tensor_file_free(x);
    sheaf_tensor_file_free(y);
    return d;
}

static sheaf_tensor *of(sheaf_dtype dtype, int64_t count, const void *data)
{
    return sheaf_tensor_new(dtype, SHEAF_SHAPE(count), data);
}

static void differences(void **state)
{
    (void)state;
    const float a[] = {1, 2, NAN, INFINITY}, b[] = {1, 2.5F, NAN, INFINITY},
                c[] = {1, 2, 3, INFINITY}, e[] = {-0.0F, 2, NAN, -INFINITY};
    sheaf_tensor_difference d = difference(of(SHEAF_FLOAT32, 4, a), of(SHEAF_FLOAT32, 4, a));
    assert_true(d.elements == 0 && d.largest == 0);
    d = difference(of(SHEAF_FLOAT32, 4, a), of(SHEAF_FLOAT32, 4, b));
    assert_true(d.elements == 1 && d.largest == 0.5);
    d = difference(of(SHEAF_FLOAT32, 4, a), of(SHEAF_FLOAT32, 4, c));
    assert_true(d.elements == 1 && isnan(d.largest));
    d = difference(of(SHEAF_FLOAT32, 4, a), of(SHEAF_FLOAT32, 4, e));
    assert_true(d.elements == 2 && isinf(d.largest));
    const float zero = 0;
    d = difference(of(SHEAF_FLOAT32, 1, e), of(SHEAF_FLOAT32, 1, &zero));
    assert_true(d.elements == 1 && d.largest == 0); /* other bits of an equal number */
    const int64_t i[] = {INT64_MIN, 5}, k[] = {INT64_MAX, 6};
    d = difference(of(SHEAF_INT64, 2, i), of(SHEAF_INT64, 2, k));
    assert_true(d.elements == 2 && d.largest == 0x1p64);
    const int64_t near[] = {INT64_MAX - 1}, top[] = {INT64_MAX};
    d = difference(of(SHEAF_INT64, 1, near), of(SHEAF_INT64, 1, top));
    assert_true(d.elements == 1 && d.largest == 1);
    d = difference(of(SHEAF_UINT64, 1, i), of(SHEAF_UINT64, 1, k));
    assert_true(d.elements == 1 && d.largest == 1);
    const double z[] = {1, 2}, w[] = {4, 6};
    d = difference(of(SHEAF_COMPLEX128, 1, z), of(SHEAF_COMPLEX128, 1, w));
    assert_true(d.elements == 1 && d.largest == 5);
    const uint16_t half[] = {0x3c00, 0x4000}, other[] = {0x3c00, 0x4200};
    d = difference(of(SHEAF_FLOAT16, 2, half), of(SHEAF_FLOAT16, 2, other));
    assert_true(d.elements == 1 && d.largest == 1);
    const uint8_t f8[] = {1}, g8[] = {2};
    d = difference(of(SHEAF_FLOAT8_E5M2, 1, f8), of(SHEAF_FLOAT8_E5M2, 1, g8));
    assert_true(d.elements == 1 && isnan(d.largest));
    const sheaf_bytes s[] = {{"one", 3}, {"", 0}}, t[] = {{"one", 3}, {"x", 1}};
    d = difference(of(SHEAF_STRING, 2, s), of(SHEAF_STRING, 2, t));
    assert_true(d.elements == 1 && isnan(d.largest));

    sheaf_error err;
    write_one(rig_path("a"), of(SHEAF_FLOAT32, 4, a));
    write_one(rig_path("b"), of(SHEAF_FLOAT64, 2, z));
    sheaf_tensor_file *x = open_file(rig_path("a")), *y = open_file(rig_path("b"));
    rig_fails(
        sheaf_tensor_file_compare(x, y, "t", &d, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
        "tensor 't' is float32 of shape (4,) in one file, float64 of shape (2,) in the other");
    rig_fails(sheaf_tensor_file_compare(x, y, "u", &d, &err), &err, SHEAF_ERR_NOT_FOUND,
              "no tensor 'u'");
    rig_fails(sheaf_tensor_file_compare(x, x, "t", &d, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "two files");
    sheaf_tensor_file_free(x);
    sheaf_tensor_file_free(y);
    sheaf_frame_clear();
}

static void write_value(const char *path, float value)
{
    const float data[] = {value, value, value, value};
    SHEAF_FRAME
    {
        write_one(path, sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2, 2), data));
    }
}

/* The value of all elements, -1 if they are not one. */
static float value_in(const char *path)
{
    sheaf_tensor_file *f = open_file(path);
    sheaf_error err;
    float value = 0;
    SHEAF_FRAME
    {
        sheaf_tensor *t;
        rig_ok(sheaf_tensor_file_read(f, "t", &t, &err), &err);
        value = (float)sheaf_tensor_number(t, 0);
        for (int i = 1; i < 4; i++)
            value = (float)sheaf_tensor_number(t, i) == value ? value : -1;
    }
    sheaf_tensor_file_free(f);
    return value;
}

/* Converts "/new" to `to`, which is there already; the k-th operation on files fails. False when there is none. */
static bool fail_once(const char *to, uint64_t k, int mode)
{
    const bool crash = mode & 2;
    struct sheaf__fs *memory = sheaf__fs_memory_new(), *faulty = sheaf__fs_faulty_new(memory);
    const sheaf_sharding_callback policy = sheaf_shard_max_size(8);
    const sheaf_convert_options options = {.sharding = strchr(to, '.') ? NULL : &policy};
    sheaf_tensor_file *f = NULL;
    sheaf_error err = {0};
    sheaf__context_set_fs(sheaf__context(), faulty);
    write_value("/old", 2);
    write_value("/new", 3);
    convert("/old", to, &options);
    rig_ok(sheaf__file_sync_dir("/", &err), &err);
    sheaf__fs_faulty_set(faulty, &(struct sheaf__fs_fault){k, SHEAF__FS_ANY, ENOSPC, mode & 1});
    sheaf_status status = sheaf_tensor_file_open("/new", &f, &err);
    if (status >= 0)
        status = sheaf_tensor_file_convert(f, to, &options, &err);
    sheaf_tensor_file_free(f);
    const bool hit = sheaf__fs_faulty_hit(faulty);
    sheaf__fs_faulty_set(faulty, &(struct sheaf__fs_fault){0});
    if (crash)
        sheaf__fs_memory_crash(memory);
    const float value = value_in(to);
    if (value != 3 && (value != 2 || status >= 0))
        fail_msg("%s, k %d, mode %d: %g after %s", to, (int)k, mode, (double)value,
                 status < 0 ? err.message : "success");
    sheaf__context_set_fs(sheaf__context(), NULL);
    sheaf__fs_faulty_free(faulty);
    sheaf__fs_memory_free(memory);
    return hit;
}

/* A fault at every single operation, alone or for good, with and without a crash of the machine after it: what was there
 * before stands, or the new one does. */
static void faults_leave_the_old_or_the_new(void **state)
{
    (void)state;
    static const char *const targets[] = {"/x", "/x.safetensors", "/x.npz"};
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        for (int mode = 0; mode < 4; mode++) {
            uint64_t k = 1;
            while (fail_once(targets[i], k, mode))
                k++;
            assert_true(k > 10);
        }
    }
}

static sheaf_status convert_some(void *user, sheaf_error *err)
{
    const char *const *way = user;
    sheaf_tensor_file *f = NULL;
    const sheaf_sharding_callback policy = sheaf_shard_max_size(8);
    sheaf_convert_options options = {0};
    sheaf_status status = SHEAF_OK;
    if (!strchr(strrchr(way[1], '/'), '.')) {
        options.sharding = &policy;
        status = sheaf__bundle_delete(way[1],
                                      err); /* one that is replaced takes other names each time */
    }
    if (status >= 0)
        status = sheaf_tensor_file_open(way[0], &f, err);
    if (status >= 0)
        status = sheaf_tensor_file_convert(f, way[1], &options, err);
    sheaf_tensor_file_free(f);
    return status;
}

/* Each failure is a whole conversion. */
static void without_memory(void **state)
{
    (void)state;
    const char *const ways[][2] = {
        {rig_path("a"), rig_path("x")},
        {rig_path("a"), rig_path("x.npz")},
        {rig_path("a"), rig_path("x.safetensors.index.json")},
        {rig_path("x.npz"), rig_path("b.safetensors")},
    };
    sheaf_error err;
    struct sheaf__fs fs = *sheaf__fs_system();
    fs.sync = no_sync;
    fs.sync_dir = no_sync_dir;
    sheaf__context_set_fs(sheaf__context(), &fs);
    SHEAF_FRAME
    {
        const float data[] = {1, 2, 3, 4};
        write_one(rig_path("a"), sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2, 2), data));
    }
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        rig_ok(convert_some((void *)(uintptr_t)ways[i], &err), &err); /* fills the pools */
        assert_true(rig_fail_allocations(convert_some, (void *)(uintptr_t)ways[i]) >= 20);
    }
    sheaf__context_set_fs(sheaf__context(), NULL);
}

static int writes_left; /* until the program is asked to stop */

static int write_and_stop(void *user, void *file, uint64_t offset, const void *data, size_t size,
                          size_t *done)
{
    if (--writes_left == 0)
        sheaf_stop();
    return sheaf__fs_system()->write_at(user, file, offset, data, size, done);
}

/* Converts "a" to `to` and is asked to stop at write `k`, in a context of its own, which stays stopped. */
static sheaf_status convert_until(const char *to, const sheaf_convert_options *options, int k)
{
    sheaf_context *context = NULL;
    sheaf_error err;
    struct sheaf__fs fs = *sheaf__fs_system();
    fs.write_at = write_and_stop;
    rig_ok(sheaf_context_new(NULL, &context, &err), &err);
    sheaf_context *before = sheaf_context_enter(context);
    sheaf_tensor_file *f = open_file(rig_golden("npy/stored.npz"));
    writes_left = k;
    sheaf__context_set_fs(context, &fs);
    const sheaf_status status = sheaf_tensor_file_convert(f, to, options, &err);
    sheaf__context_set_fs(context, NULL);
    sheaf_tensor_file_free(f);
    sheaf_frame_clear();
    sheaf_context_enter(before);
    sheaf_context_free(context);
    if (status < 0)
        rig_fails(status, &err, SHEAF_ERR_CANCELLED, "the program asked to stop");
    return status;
}

/* Whenever the program is asked to stop (sheaf_stop): nothing is left behind, or all is there. */
static void stopped_anywhere(void **state)
{
    (void)state;
    const sheaf_sharding_callback policy = sheaf_shard_max_size(16);
    const struct {
        const char *to, *opens;
        sheaf_convert_options options;
    } ways[] = {{"x", "x", {.sharding = &policy}},
                {"x.npz", "x.npz", {0}},
                {"y.npz", "y.npz", {.deflate = true}},
                {"x.safetensors", "x.safetensors.index.json", {.max_file_bytes = 16}}};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        const size_t files = count_files();
        int given_up = 0;
        for (int k = 1;; k++) {
            if (convert_until(rig_path(ways[i].to), &ways[i].options, k) >= 0) {
                check_equal(rig_golden("npy/stored.npz"), rig_path(ways[i].opens), 0);
                break;
            }
            assert_int_equal(count_files(), files);
            given_up++;
        }
        assert_true(given_up >= 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(s214_reshards_as_tensorflow),
        rig_test(reshards_slices),
        rig_test(comes_back_from_everywhere),
        rig_test(graph_comes_back),
        rig_test(safetensors_of_several_files),
        rig_test(refused),
        rig_test(no_file_to_write),
        rig_test(larger_than_the_buffer),
        rig_test(in_bounded_memory),
        rig_test(differences),
        rig_test(faults_leave_the_old_or_the_new),
        rig_test(without_memory),
        rig_test(stopped_anywhere),
    };
    return rig_run(tests);
}
