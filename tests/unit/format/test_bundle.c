/* SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"

#include "base/context.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/fs.h"
#include "format/bundle.h"
#include "tensor/heap.h"
#include "tensor/tensor.h"

#include <unistd.h>

/* Every checkpoint that TensorFlow wrote is read, and rebuilt byte for byte from what was read. */

static const char *const folders[] = {
    "checkpoint/dtypes",   "checkpoint/object",   "checkpoint/shards",
    "checkpoint/ps",       "checkpoint/saver",    "checkpoint/keras3",
    "checkpoint/tf_keras", "checkpoint/mirrored", "checkpoint/manager",
};

static void each_golden(void (*fn)(const char *prefix, json_t *expected))
{
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        json_t *root = golden_json(folders[i]), *checkpoint;
        size_t k;
        assert_true(json_array_size(json_object_get(root, "checkpoints")) > 0);
        json_array_foreach(json_object_get(root, "checkpoints"), k, checkpoint)
        {
            char prefix[256];
            snprintf(prefix, sizeof(prefix), "%s/%s", folders[i],
                     json_string_value(json_object_get(checkpoint, "prefix")));
            fn(prefix, checkpoint);
        }
        json_decref(root);
    }
}

static sheaf_bundle *open_golden(const char *prefix)
{
    sheaf_bundle *b = NULL;
    sheaf_error err;
    rig_ok(sheaf_bundle_open(rig_golden(prefix), &b, &err), &err);
    return b;
}

static void check_tensor(sheaf_bundle *b, const char *key, size_t size, const json_t *expected)
{
    sheaf_error err = {0};
    const struct sheaf__bundle_item *item = sheaf__bundle_index_find(&b->index, key, size);
    if (!item)
        fail_msg("no tensor %s", key);
    const char *dtype = json_string_value(json_object_get(expected, "dtype"));
    sheaf_tensor *t = sheaf__bundle_read_slice(b, item, NULL, &err);
    if (!strcmp(dtype, "variant")) {
        assert_null(t);
        assert_int_equal(err.status, SHEAF_ERR_UNIMPLEMENTED);
        return;
    }
    if (!t)
        fail_msg("%s: %s", key, err.message);
    golden_compare(t, expected, key);
    assert_int_equal(item->slices, json_array_size(json_object_get(expected, "slices")));
    sheaf__unref(t);
}

static void read_one(const char *prefix, json_t *expected)
{
    sheaf_error err;
    sheaf_bundle *b = open_golden(prefix);
    const char *name;
    json_t *tensor;
    json_object_foreach(json_object_get(expected, "tensors"), name, tensor)
    {
        check_tensor(b, name, strlen(name), tensor);
    }
    size_t i;
    json_array_foreach(json_object_get(expected, "tensors_with_nul"), i, tensor)
    {
        char key[256];
        check_tensor(b, key, golden_bytes(json_object_get(tensor, "name"), key), tensor);
    }
    rig_ok(sheaf_bundle_verify(b, &err), &err);
    sheaf_bundle_free(b);
}

static void reads_every_golden(void **state)
{
    (void)state;
    each_golden(read_one);
}

/* The public view: entries in the order of keys, without the keys of slices. */
static void lists_entries(void **state)
{
    (void)state;
    sheaf_bundle *b = open_golden("checkpoint/ps/sharded-1");
    sheaf_bundle_entry e;
    sheaf_error err;
    static const char *const keys[] = {"_CHECKPOINTABLE_OBJECT_GRAPH",
                                       "emb/.ATTRIBUTES/VARIABLE_VALUE",
                                       "half/.ATTRIBUTES/VARIABLE_VALUE"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(sheaf_bundle_get(b, i, &e), SHEAF_OK);
        assert_string_equal(e.key, keys[i]);
    }
    assert_int_equal(e.dtype, SHEAF_FLOAT16);
    assert_int_equal(e.slices, 2);
    assert_int_equal(e.bytes, -1);
    assert_int_equal(sheaf_bundle_get(b, 8, &e), SHEAF_END);
    assert_int_equal(sheaf_bundle_shards(b), 3);
    assert_null(sheaf_bundle_description(b));
    sheaf_tensor *t = NULL;
    rig_ok(sheaf_bundle_read(b, "emb/.ATTRIBUTES/VARIABLE_VALUE", &t, &err), &err);
    for (int i = 0; i < 28; i++)
        assert_true(sheaf_tensor_number(t, i) == i);
    rig_fails(sheaf_bundle_read(b, "emb", &t, &err), &err, SHEAF_ERR_NOT_FOUND, "no tensor 'emb'");
    sheaf_bundle_free(b);
    sheaf_frame_clear();
}

/* A slice of a tensor that is stored in other slices, or whole (R8.33, R8.34). */
static void reads_slices(void **state)
{
    (void)state;
    sheaf_bundle *b = open_golden("checkpoint/ps/sharded-1");
    sheaf_error err;
    const struct sheaf__bundle_item *item = sheaf__bundle_find(b, "emb/.ATTRIBUTES/VARIABLE_VALUE");
    for (int64_t first = 0; first < 7; first++) {
        for (int64_t rows = 1; rows <= 7 - first; rows++) {
            struct sheaf__slice want = sheaf__slice_all(SHEAF_SHAPE(7, 4));
            want.offset[0] = first;
            want.offset[1] = 1;
            want.shape = SHEAF_SHAPE(rows, 2);
            float out[14];
            rig_ok(sheaf__bundle_read_into(b, item, &want, out, &err), &err);
            for (int64_t i = 0; i < rows; i++) {
                assert_true(out[2 * i] == (float)(4 * (first + i) + 1));
                assert_true(out[2 * i + 1] == (float)(4 * (first + i) + 2));
            }
        }
    }
    struct sheaf__slice other = sheaf__slice_all(SHEAF_SHAPE(4, 7));
    float out[28];
    rig_fails(sheaf__bundle_read_into(b, item, &other, out, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "it is of shape (7, 4), expected (4, 7)");
    sheaf_bundle_free(b);

    b = open_golden("checkpoint/dtypes/all");
    item = sheaf__bundle_find(b, "string/vector");
    sheaf_tensor *whole = sheaf__bundle_read_slice(b, item, NULL, &err);
    struct sheaf__slice want = sheaf__slice_all(item->shape);
    want.offset[0] = 1;
    want.shape.dims[0] = 2;
    sheaf_tensor *part = sheaf__bundle_read_slice(b, item, &want, &err);
    for (int i = 0; i < 2; i++) {
        sheaf_bytes x = sheaf_tensor_bytes(whole, 1 + i), y = sheaf_tensor_bytes(part, i);
        assert_int_equal(x.size, y.size);
        assert_memory_equal(x.data, y.data, x.size);
    }
    sheaf__unref(whole);
    sheaf__unref(part);
    sheaf_bundle_free(b);
}

/* Rebuilding. */

/* What to add to the bundle of one shard: an item, and the tensor and slice it is of. */
struct piece {
    const struct sheaf__bundle_item *item, *of;
    const struct sheaf__extent *extents;
};

static int compare_places(const void *a, const void *b)
{
    const struct sheaf__bundle_item *x = ((const struct piece *)a)->item;
    const struct sheaf__bundle_item *y = ((const struct piece *)b)->item;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->size > y->size) - (x->size < y->size);
}

/* All items of a shard that have bytes, in the order of their bytes. */
static size_t collect(sheaf_bundle *b, int shard, struct piece *pieces)
{
    size_t count = 0;
    for (size_t i = b->first; i < b->index.count; i++) {
        const struct sheaf__bundle_item *item = &b->index.items[i];
        if (!item->slices && item->shard == shard)
            pieces[count++] = (struct piece){item, item, NULL};
        for (int32_t k = 0; k < item->slices; k++) {
            struct sheaf__buf key = {0};
            const struct sheaf__extent *extents = item->extents + k * item->shape.rank;
            sheaf__slice_key(&key, item->key, item->key_size, extents, item->shape.rank);
            const struct sheaf__bundle_item *part =
                sheaf__bundle_index_find(&b->index, key.data, key.size);
            if (part->shard == shard)
                pieces[count++] = (struct piece){part, item, extents};
            sheaf__buf_free(&key);
        }
    }
    qsort(pieces, count, sizeof(*pieces), compare_places);
    return count;
}

static void write_shard(sheaf_bundle *b, int shard, const char *path)
{
    struct piece *pieces = calloc(b->index.count, sizeof(*pieces));
    struct sheaf__bundle_writer *w = NULL;
    sheaf_error err;
    size_t count = collect(b, shard, pieces);
    rig_ok(sheaf__bundle_writer_open(path, &w, &err), &err);
    for (size_t i = 0; i < count; i++) {
        const struct piece *p = &pieces[i];
        sheaf_tensor *t = sheaf__bundle_read_slice(b, p->item, NULL, &err);
        assert_non_null(t);
        rig_ok(sheaf__bundle_writer_add(w, p->of->key, p->of->key_size,
                                        p->extents ? &p->of->shape : NULL, p->extents, t, &err),
               &err);
        sheaf__unref(t);
    }
    rig_ok(sheaf__bundle_writer_finish(w, &err), &err);
    free(pieces);
}

static void compare_files(const char *a, const char *b)
{
    char *x = NULL, *y = NULL;
    size_t x_size = 0, y_size = 0;
    sheaf_error err;
    rig_ok(sheaf__file_read_all(a, 1 << 30, &x, &x_size, &err), &err);
    rig_ok(sheaf__file_read_all(b, 1 << 30, &y, &y_size, &err), &err);
    if (x_size != y_size || memcmp(x, y, x_size) != 0)
        fail_msg("%s differs from %s", a, b);
    sheaf__free(x);
    sheaf__free(y);
}

static void rebuild_one(const char *prefix, json_t *expected)
{
    if (!json_is_true(json_object_get(expected, "rebuilt_byte_for_byte")))
        return;
    sheaf_bundle *b = open_golden(prefix);
    sheaf_error err;
    char part[300];
    const char *parts[64];
    int shards = sheaf_bundle_shards(b);
    assert_true(shards <= 64);
    for (int i = 0; i < shards; i++) {
        snprintf(part, sizeof(part), "part-%05d-of-%05d", i, shards);
        parts[i] = rig_path(part);
        write_shard(b, i, parts[i]);
    }
    const char *name = sheaf__path_name(prefix);
    struct sheaf__bundle_merge merge = {
        .prefix = rig_path(name), .parts = parts, .count = (size_t)shards};
    rig_ok(sheaf__bundle_merge(&merge, &err), &err);
    const char *file;
    json_t *value;
    json_object_foreach(json_object_get(expected, "files"), file, value)
    {
        const char *ours = rig_path(file);
        char golden[300];
        snprintf(golden, sizeof(golden), "%.*s%s", (int)(name - prefix), prefix, file);
        compare_files(ours, rig_golden(golden));
    }
    for (int i = 0; i < shards; i++)
        assert_false(sheaf__file_exists(parts[i]));
    sheaf_bundle_free(b);
    rig_ok(sheaf__bundle_delete(merge.prefix, &err), &err);
}

static void rebuilds_every_golden(void **state)
{
    (void)state;
    each_golden(rebuild_one);
    struct sheaf__strings left = {0};
    sheaf_error err;
    rig_ok(sheaf__file_list(rig_folder(), &left, &err), &err);
    assert_int_equal(left.count, 0);
}

/* Byte vectors of the specification. */

static void add(struct sheaf__bundle_writer *w, const char *key, sheaf_tensor *t)
{
    sheaf_error err;
    rig_ok(sheaf__bundle_writer_add(w, key, strlen(key), NULL, NULL, t, &err), &err);
}

static void check_file(const char *name, const char *hex)
{
    char *data = NULL, *found;
    size_t size = 0;
    sheaf_error err;
    rig_ok(sheaf__file_read_all(rig_path(name), 1 << 20, &data, &size, &err), &err);
    found = calloc(2 * size + 1, 1);
    for (size_t i = 0; i < size; i++)
        snprintf(found + 2 * i, 3, "%02x", (unsigned char)data[i]);
    assert_string_equal(found, hex);
    free(found);
    sheaf__free(data);
}

#define ZEROS_36 "000000000000000000000000000000000000000000000000000000000000000000000000"
#define MAGIC    "57fb808b247547db"

/* Vector A: floats, an empty tensor, a scalar, strings. */
static void vector_a(void **state)
{
    (void)state;
    struct sheaf__bundle_writer *w = NULL;
    sheaf_error err;
    rig_ok(sheaf__bundle_writer_open(rig_path("a"), &w, &err), &err);
    add(w, "a", sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2), (float[]){1, 2}));
    add(w, "e", sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(0, 3), NULL));
    add(w, "n", sheaf_long(7));
    add(w, "s",
        sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE(3),
                         (sheaf_bytes[]){{"", 0}, {"x", 1}, {"h\xc3\xa9llo", 6}}));
    rig_ok(sheaf__bundle_writer_finish(w, &err), &err);
    check_file("a.data-00000-of-00001", "0000803f000000400700000000000000000106"
                                        "0b379456"
                                        "7868c3a96c6c6f");
    check_file("a.index", "00000608011a02080100010f6108011204120208022808"
                          "35593ce53500011165"
                          "08011206120012020803200835d8ea82a20001"
                          "0d6e08091200200828"
                          "0835bbd7"
                          "9f11000111730807120412020803201028"
                          "0e3503a96b820000000001000000"
                          "008bec2a890000000001000000"
                          "00c0f2a1b0"
                          "00010274005f000000000100"
                          "000000539ea3256408710e" ZEROS_36 MAGIC);
}

/* T8.21: a tensor in two shards; and R8.27: adding twice is refused. */
static void t8_21_two_shards(void **state)
{
    (void)state;
    sheaf_error err;
    sheaf_shape full = SHEAF_SHAPE(4);
    const char *parts[] = {rig_path("p0"), rig_path("p1")};
    for (int i = 0; i < 2; i++) {
        struct sheaf__bundle_writer *w = NULL;
        struct sheaf__extent extent = {2 * i, 2};
        sheaf_tensor *t = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2),
                                           (float[]){(float)(2 * i + 1), (float)(2 * i + 2)});
        rig_ok(sheaf__bundle_writer_open(parts[i], &w, &err), &err);
        rig_ok(sheaf__bundle_writer_add(w, "v0", 2, &full, &extent, t, &err), &err);
        rig_fails(sheaf__bundle_writer_add(w, "v0", 2, &full, &extent, t, &err), &err,
                  SHEAF_ERR_INVALID_ARGUMENT, "was added before");
        rig_fails(sheaf__bundle_writer_add(w, "v0", 2, NULL, NULL, t, &err), &err,
                  SHEAF_ERR_INVALID_ARGUMENT, "was added before");
        extent.start = 3;
        rig_fails(sheaf__bundle_writer_add(w, "v0", 2, &full, &extent, t, &err), &err,
                  SHEAF_ERR_INVALID_ARGUMENT, "does not fit");
        rig_ok(sheaf__bundle_writer_finish(w, &err), &err);
    }
    struct sheaf__bundle_merge merge = {.prefix = rig_path("v"), .parts = parts, .count = 2};
    rig_ok(sheaf__bundle_merge(&merge, &err), &err);
    check_file("v.data-00000-of-00002", "0000803f00000040");
    check_file("v.data-00001-of-00002", "0000404000008040");
    check_file("v.index", "00000608021a02080100090f0076300001010180820801120412020802280835593ce535"
                          "070211828208011204120208021801280835620a976b"
                          "000216763008011204120208043a040a0210023a060a0408021002"
                          "0000000001000000000550eefc"
                          "000000000100000000c0f2a1b0"
                          "00010277005d000000000100000000b61d7a1b"
                          "62086f0e" ZEROS_36 MAGIC);
}

static void write_scalar(const char *path, const char *key, float value)
{
    struct sheaf__bundle_writer *w = NULL;
    sheaf_error err;
    rig_ok(sheaf__bundle_writer_open(path, &w, &err), &err);
    if (key)
        add(w, key, sheaf_float(value));
    rig_ok(sheaf__bundle_writer_finish(w, &err), &err);
}

/* Vector M, with a part without tensors between the two (R8.30): it leaves no trace. */
static void vector_m_and_an_empty_part(void **state)
{
    (void)state;
    sheaf_error err;
    const char *parts[] = {rig_path("p0"), rig_path("p1"), rig_path("p2")};
    write_scalar(parts[0], "a", 1);
    write_scalar(parts[1], NULL, 0);
    write_scalar(parts[2], "b", 2);
    struct sheaf__bundle_merge merge = {.prefix = rig_path("m"), .parts = parts, .count = 3};
    rig_ok(sheaf__bundle_merge(&merge, &err), &err);
    check_file("m.data-00000-of-00002", "0000803f");
    check_file("m.data-00001-of-00002", "00000040");
    check_file("m.index", "00000608021a02080100010b610801120028043581a5da2b00010d62080112001801"
                          "28043510fd"
                          "784f000000000100000000"
                          "50b709b0000000000100000000c0f2a1b00001026300310000000001"
                          "0000000054f2762d3608430e" ZEROS_36 MAGIC);
    struct sheaf__strings left = {0};
    rig_ok(sheaf__file_list(rig_folder(), &left, &err), &err);
    assert_int_equal(left.count, 3);
    sheaf__strings_clear(&left);
}

/* R8.29: one tensor in two parts. Nothing is visible then. */
static void merge_refuses_duplicates(void **state)
{
    (void)state;
    sheaf_error err;
    const char *parts[] = {rig_path("p0"), rig_path("p1")};
    write_scalar(parts[0], "a", 1);
    write_scalar(parts[1], "a", 2);
    struct sheaf__bundle_merge merge = {.prefix = rig_path("m"), .parts = parts, .count = 2};
    rig_fails(sheaf__bundle_merge(&merge, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "is in another part, too");
    assert_false(sheaf__file_exists(rig_path("m.index")));
    merge.count = 0;
    rig_fails(sheaf__bundle_merge(&merge, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "no tensor");
    parts[1] = rig_path("p9");
    merge.count = 2;
    rig_fails(sheaf__bundle_merge(&merge, &err), &err, SHEAF_ERR_NOT_FOUND, "");
}

/* A checkpoint that is written again is replaced at one moment: its files are not those of the new
 * one, and go afterwards. */
static void merge_over_an_old_one(void **state)
{
    (void)state;
    sheaf_error err;
    const char *part = rig_path("p");
    struct sheaf__bundle_merge merge = {.prefix = rig_path("m"), .parts = &part, .count = 1};
    for (int i = 0; i < 4; i++) {
        write_scalar(part, "a", (float)i);
        rig_ok(sheaf__bundle_merge(&merge, &err), &err);
        sheaf_bundle *b = NULL;
        sheaf_tensor *t = NULL;
        rig_ok(sheaf_bundle_open(merge.prefix, &b, &err), &err);
        rig_ok(sheaf_bundle_read(b, "a", &t, &err), &err);
        assert_true(sheaf_tensor_number(t, 0) == i);
        rig_ok(sheaf_bundle_verify(b, &err), &err);
        sheaf_bundle_free(b);
        struct sheaf__strings left = {0};
        rig_ok(sheaf__file_list(rig_folder(), &left, &err), &err);
        assert_int_equal(left.count, 2);
        sheaf__strings_clear(&left);
    }
}

/* Large tensors go past the writer's buffer, small ones through it, in any mixture. */
static void large_and_small(void **state)
{
    (void)state;
    enum { LARGE = 700000, COUNT = 6 };
    struct sheaf__bundle_writer *w = NULL;
    sheaf_error err;
    float *data = calloc(LARGE, sizeof(float));
    for (int i = 0; i < LARGE; i++)
        data[i] = (float)i;
    static const int sizes[COUNT] = {3, LARGE, 5, 262144, 262143, 1};
    char key[] = "t0";
    rig_ok(sheaf__bundle_writer_open(rig_path("l"), &w, &err), &err);
    for (int i = 0; i < COUNT; i++) {
        key[1] = (char)('0' + i);
        add(w, key, sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(sizes[i]), data));
    }
    rig_ok(sheaf__bundle_writer_finish(w, &err), &err);
    sheaf_bundle *b = NULL;
    rig_ok(sheaf_bundle_open(rig_path("l"), &b, &err), &err);
    for (int i = 0; i < COUNT; i++) {
        sheaf_tensor *t = NULL;
        key[1] = (char)('0' + i);
        rig_ok(sheaf_bundle_read(b, key, &t, &err), &err);
        assert_int_equal(sheaf_tensor_elements(t), sizes[i]);
        assert_memory_equal(sheaf_tensor_data(t), data, (size_t)sizes[i] * sizeof(float));
    }
    rig_ok(sheaf_bundle_verify(b, &err), &err);
    sheaf_bundle_free(b);
    free(data);
}

static sheaf_status read_all(void *user, sheaf_error *err)
{
    sheaf_bundle *b = NULL;
    sheaf_status status = sheaf_bundle_open(user, &b, err);
    for (size_t i = 0; status >= 0 && i < b->index.count; i++) {
        if (!b->index.items[i].slices && b->index.items[i].key[0] == 0)
            continue;
        sheaf_error fault = {0};
        sheaf_tensor *t = sheaf__bundle_read_slice(b, &b->index.items[i], NULL, &fault);
        if (!t) {
            *err = fault;
            status = fault.status;
        }
        sheaf__unref(t);
    }
    if (status >= 0)
        status = sheaf_bundle_verify(b, err);
    sheaf_bundle_free(b);
    sheaf__heap_trim(sheaf__heap_current(NULL), 0); /* pooled memory is no leak */
    return status;
}

static sheaf_status write_all(void *user, sheaf_error *err)
{
    struct sheaf__bundle_writer *w = NULL;
    const char *const *paths = user;
    float data[4] = {1, 2, 3, 4};
    sheaf_shape full = SHEAF_SHAPE(8);
    struct sheaf__extent extent = {4, 4};
    /* Nothing to be replaced: else what a failed clean-up left would make each round longer. */
    (void)unlink(paths[2]);
    sheaf_status status = sheaf__bundle_writer_open(paths[0], &w, err);
    if (status < 0)
        return status;
    sheaf_frame frame = {0};
    sheaf_frame_open(&frame);
    sheaf_tensor *t = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(4), data);
    status = sheaf__bundle_writer_add(w, "v", 1, &full, &extent, t, err);
    if (status >= 0)
        status = sheaf__bundle_writer_add(w, "w", 1, NULL, NULL, t, err);
    if (status >= 0)
        status = sheaf__bundle_writer_finish(w, err);
    else
        sheaf__bundle_writer_free(w);
    sheaf_frame_close(&frame);
    struct sheaf__bundle_merge merge = {.prefix = paths[1], .parts = paths, .count = 1};
    if (status >= 0)
        status = sheaf__bundle_merge(&merge, err);
    sheaf__heap_trim(sheaf__heap_current(NULL), 0);
    return status;
}

/* Data files that were opened, and bytes that were read of files that are not mapped. */
static int data_files;
static uint64_t bytes_read;

static int watch_open(void *user, const char *path, enum sheaf__file_mode mode, void **handle)
{
    data_files += strstr(path, ".data-") != NULL;
    return sheaf__fs_system()->open(user, path, mode, handle);
}

static int watch_read(void *user, void *handle, uint64_t offset, void *data, size_t size,
                      size_t *got)
{
    bytes_read += size;
    return sheaf__fs_system()->read_at(user, handle, offset, data, size, got);
}

/* Adds a tensor of zeros to an index. */
static void add_zeros(struct sheaf__bundle_index *index, const char *key, int64_t count,
                      uint64_t offset)
{
    static const uint8_t zeros[16];
    struct sheaf__bundle_item *item = sheaf__bundle_index_add(index, key, strlen(key));
    item->dtype = SHEAF_FLOAT64;
    item->shape = SHEAF_SHAPE(count);
    item->offset = offset;
    item->size = (uint64_t)count * 8;
    item->crc = sheaf__crc32c_mask(sheaf__crc32c(zeros, count == 2 ? 16 : 0));
}

/* Of a checkpoint of 100 GB (most of it a hole) opening and listing read the index alone, and a tensor its own bytes. */
static void reads_no_more_than_it_must(void **state)
{
    (void)state;
    const int64_t large = INT64_C(12500000000);
    struct sheaf__bundle_index index = {.shards = 1};
    struct sheaf__table_writer table;
    struct sheaf__file *file = NULL;
    sheaf_bundle *b = NULL;
    sheaf_bundle_entry e;
    sheaf_tensor *t;
    sheaf_error err;
    add_zeros(&index, "large", large, 0);
    add_zeros(&index, "small", 2, (uint64_t)large * 8);
    sheaf__table_begin(&table);
    rig_ok(sheaf__bundle_index_write(&index, &table, &err), &err);
    rig_ok(sheaf__file_replace(rig_path("x.index"), table.file.data, table.file.size, &err), &err);
    rig_ok(sheaf__file_open(rig_path("x.data-00000-of-00001"), SHEAF__FILE_CREATE, &file, &err),
           &err);
    rig_ok(sheaf__file_truncate(file, (uint64_t)large * 8 + 16, &err), &err);
    rig_ok(sheaf__file_close(file, &err), &err);
    sheaf__table_writer_free(&table);
    sheaf__bundle_index_free(&index);

    struct sheaf__fs fs = *sheaf__fs_system();
    fs.open = watch_open;
    fs.read_at = watch_read;
    sheaf__context_set_fs(sheaf__context(), &fs);
    data_files = 0;
    bytes_read = 0;
    const int64_t before = sheaf__mem_stats().live_bytes;
    rig_ok(sheaf_bundle_open(rig_path("x"), &b, &err), &err);
    assert_int_equal(sheaf_bundle_get(b, 0, &e), SHEAF_OK);
    assert_int_equal(e.bytes, large * 8);
    assert_int_equal(data_files, 0);
    assert_true(bytes_read < 4096 && sheaf__mem_stats().live_bytes - before < 1 << 16);
    rig_ok(sheaf_bundle_read(b, "small", &t, &err), &err);
    assert_int_equal(data_files, 1);
    assert_true(bytes_read < 4096);
    sheaf_bundle_free(b);
    sheaf_frame_clear();
    sheaf__context_set_fs(sheaf__context(), NULL);
}

/* No file of a checkpoint is mapped: one that is cut while it is read is an error, and kills nobody. */
static void maps_no_file(void **state)
{
    (void)state;
    const char *prefix = rig_golden("checkpoint/ps/sharded-1");
    sheaf_bundle *b = NULL;
    sheaf_error err;
    rig_map_files(false);
    rig_ok(sheaf_bundle_open(prefix, &b, &err), &err);
    rig_ok(sheaf_bundle_verify(b, &err), &err);
    sheaf_bundle_free(b);
    rig_map_files(true);
}

static void without_memory(void **state)
{
    (void)state;
    /* Paths are made before: they are the rig's until the test ends. */
    void *sharded = (void *)(uintptr_t)rig_golden("checkpoint/ps/sharded-1");
    void *strings = (void *)(uintptr_t)rig_golden("checkpoint/object/simple-1");
    const char *paths[] = {rig_path("part"), rig_path("memory"), rig_path("memory.index")};
    sheaf_error err;
    /* The first round makes devices, which stay. */
    rig_ok(read_all(sharded, &err), &err);
    rig_ok(read_all(strings, &err), &err);
    rig_ok(write_all(paths, &err), &err);
    assert_true(rig_fail_allocations(read_all, sharded) > 20);
    assert_true(rig_fail_allocations(read_all, strings) > 10);
    assert_true(rig_fail_allocations(write_all, paths) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(reads_every_golden),
        rig_test(lists_entries),
        rig_test(reads_slices),
        rig_test(rebuilds_every_golden),
        rig_test(vector_a),
        rig_test(t8_21_two_shards),
        rig_test(vector_m_and_an_empty_part),
        rig_test(merge_refuses_duplicates),
        rig_test(merge_over_an_old_one),
        rig_test(large_and_small),
        rig_test(reads_no_more_than_it_must),
        rig_test(maps_no_file),
        rig_test(without_memory),
    };
    return rig_run(tests);
}
