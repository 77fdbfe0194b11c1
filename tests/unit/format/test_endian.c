/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "format/bundle.h"
#include "tensor/tensor.h"

#include <sheaf/frame.h>
#include <sheaf/tensor.h>

#include <stdio.h>
#include <string.h>

/* T62: an index that says BIG endian, and data in that order. TensorFlow on this machine writes none, so a checkpoint of ours
 * is turned around: every number in the data file, the checksums of the entries, the header (formats.md 4.3, 4.5). */

/* Numbers, the bytes that are swapped together, and how 1 is written in them. */
static const struct {
    sheaf_dtype dtype;
    size_t unit;
    uint64_t one;
} kinds[] = {{SHEAF_FLOAT32, 4, 0x3f800000},
             {SHEAF_FLOAT64, 8, 0x3ff0000000000000},
             {SHEAF_INT32, 4, 1},
             {SHEAF_UINT8, 1, 1},
             {SHEAF_INT16, 2, 1},
             {SHEAF_INT8, 1, 1},
             {SHEAF_INT64, 8, 1},
             {SHEAF_BOOL, 1, 1},
             {SHEAF_BFLOAT16, 2, 0x3f80},
             {SHEAF_FLOAT16, 2, 0x3c00},
             {SHEAF_UINT16, 2, 1},
             {SHEAF_UINT32, 4, 1},
             {SHEAF_UINT64, 8, 1},
             {SHEAF_COMPLEX64, 4, 0x3f800000},
             {SHEAF_COMPLEX128, 8, 0x3ff0000000000000}};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), COUNT = 3 };

static const char *name_of(size_t kind)
{
    static char name[16];
    snprintf(name, sizeof(name), "k%02zu", kind);
    return name;
}

/* 1, 0, 1; of complex numbers the real parts. */
static sheaf_tensor *value_of(size_t kind)
{
    uint8_t bytes[COUNT * 16] = {0};
    const size_t size = sheaf_dtype_size(kinds[kind].dtype);
    memcpy(bytes, &kinds[kind].one, kinds[kind].unit);
    memcpy(bytes + 2 * size, &kinds[kind].one, kinds[kind].unit);
    return sheaf_tensor_new(kinds[kind].dtype, SHEAF_SHAPE(COUNT), bytes);
}

static void swap(uint8_t *bytes, size_t size, size_t unit)
{
    for (size_t at = 0; at < size; at += unit)
        for (size_t i = 0; i < unit / 2; i++) {
            uint8_t b = bytes[at + i];
            bytes[at + i] = bytes[at + unit - 1 - i];
            bytes[at + unit - 1 - i] = b;
        }
}

struct turning {
    struct sheaf__table_writer table;
    uint8_t *data;
    sheaf_bundle *bundle;
};

/* The header gets its field 2, entries the checksums of what their bytes are now: the last field of each. */
static sheaf_status turn_entry(void *user, const struct sheaf__table_entry *e, sheaf_error *err)
{
    struct turning *t = user;
    uint8_t value[200];
    size_t size = e->value_size;
    (void)err;
    assert_true(size + 2 <= sizeof(value));
    memcpy(value, e->value, size);
    if (e->key_size == 0) {
        memmove(value + 4, value + 2, size - 2); /* after the number of shards */
        memcpy(value + 2, "\x10\x01", 2);
        size += 2;
    } else {
        const struct sheaf__bundle_item *item =
            sheaf__bundle_index_find(&t->bundle->index, e->key, e->key_size);
        assert_non_null(item);
        uint32_t crc =
            sheaf__crc32c_mask(sheaf__crc32c(t->data + item->offset, (size_t)item->size));
        assert_int_equal(value[size - 5], 6 << 3 | 5);
        memcpy(value + size - 4, &crc, 4);
    }
    sheaf__table_add(&t->table, e->key, e->key_size, value, size);
    return SHEAF_OK;
}

static void write_both(const char *prefix)
{
    struct sheaf__bundle_writer *w = NULL;
    sheaf_error err;
    rig_ok(sheaf__bundle_writer_open(prefix, &w, &err), &err);
    for (size_t i = 0; i < KINDS; i++)
        rig_ok(sheaf__bundle_writer_add(w, name_of(i), 3, NULL, NULL, value_of(i), &err), &err);
    rig_ok(sheaf__bundle_writer_finish(w, &err), &err);
}

static void turn_around(const char *prefix)
{
    struct turning t = {0};
    struct sheaf__table table;
    sheaf_error err;
    char *index = NULL, *data = NULL;
    size_t data_size = 0, index_size = 0;
    char *data_path = sheaf__bundle_data_path(prefix, 0, 1);
    char *index_path = sheaf__bundle_index_path(prefix);
    rig_ok(sheaf_bundle_open(prefix, &t.bundle, &err), &err);
    rig_ok(sheaf__file_read_all(data_path, SIZE_MAX, &data, &data_size, &err), &err);
    t.data = (uint8_t *)data;
    rig_ok(sheaf__file_read_all(index_path, SIZE_MAX, &index, &index_size, &err), &err);
    for (size_t i = 0; i < KINDS; i++) {
        const struct sheaf__bundle_item *item =
            sheaf__bundle_index_find(&t.bundle->index, name_of(i), 3);
        swap(t.data + item->offset, (size_t)item->size, kinds[i].unit);
    }
    rig_ok(sheaf__table_open(&table, index, index_size, index_path, &err), &err);
    sheaf__table_begin(&t.table);
    rig_ok(sheaf__table_walk(&table, turn_entry, &t, &err), &err);
    rig_ok(sheaf__table_finish(&t.table, &err), &err);
    rig_ok(sheaf__file_replace(data_path, t.data, data_size, &err), &err);
    rig_ok(sheaf__file_replace(index_path, t.table.file.data, t.table.file.size, &err), &err);
    sheaf__table_writer_free(&t.table);
    sheaf_bundle_free(t.bundle);
    sheaf__free(data);
    sheaf__free(index);
    sheaf__free(data_path);
    sheaf__free(index_path);
}

static void T62_big_endian(void **state)
{
    (void)state;
    const char *prefix = rig_path("big");
    sheaf_bundle *b = NULL;
    sheaf_error err;
    write_both(prefix);
    turn_around(prefix);
    rig_ok(sheaf_bundle_open(prefix, &b, &err), &err);
    assert_true(b->index.big_endian);
    rig_ok(sheaf_bundle_verify(b, &err), &err);
    for (size_t i = 0; i < KINDS; i++) {
        sheaf_tensor *t = NULL, *expected = value_of(i);
        rig_ok(sheaf_bundle_read(b, name_of(i), &t, &err), &err);
        assert_int_equal(sheaf_tensor_dtype(t), kinds[i].dtype);
        assert_memory_equal(sheaf_tensor_data(t), sheaf_tensor_data(expected),
                            sheaf__tensor_size(expected));
    }
    sheaf_bundle_free(b);
    sheaf_frame_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(T62_big_endian)};
    return rig_run(tests);
}
