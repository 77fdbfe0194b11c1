/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "format/snappy.h"
#include "format/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The index of a checkpoint as a table: bytes as TensorFlow writes them, and hostile ones. */

/* "00 00 06" to bytes; returns how many. */
static size_t from_hex(const char *hex, uint8_t *out)
{
    size_t n = 0;
    for (; *hex; hex++) {
        if (*hex == ' ')
            continue;
        char digits[3] = {hex[0], hex[1], 0};
        out[n++] = (uint8_t)strtoul(digits, NULL, 16);
        hex++;
    }
    return n;
}

struct list {
    char text[4096]; /* "key=value size;" of every entry */
    size_t count;
};

static sheaf_status note(void *user, const struct sheaf__table_entry *e, sheaf_error *err)
{
    struct list *list = user;
    (void)err;
    size_t at = strlen(list->text);
    if (at < sizeof(list->text) - 100)
        snprintf(list->text + at, sizeof(list->text) - at, "%.*s=%zu;", (int)e->key_size,
                 e->key ? (const char *)e->key : "", e->value_size);
    list->count++;
    return SHEAF_OK;
}

static sheaf_status walk(const void *data, size_t size, struct list *list, sheaf_error *err)
{
    struct sheaf__table table;
    memset(list, 0, sizeof(*list));
    sheaf_status status = sheaf__table_open(&table, data, size, "x.index", err);
    return status < 0 ? status : sheaf__table_walk(&table, note, list, err);
}

static const char empty_index[] =
    "00 00 06 08 01 1a 02 08 01 00 00 00 00 01 00 00 00 00 62 94 57 f9 00 00 00 00 01 00 00 00 00 "
    "c0 f2 a1 b0 00 00 02 00 11 00 00 00 00 01 00 00 00 00 cc bf 8b 5d 16 08 23 0d"
    "000000000000000000000000000000000000000000000000000000000000000000000000"
    "57 fb 80 8b 24 75 47 db";

/* formats.md 4.4, vector Z: nothing but a header. */
static void vector_z_empty(void **state)
{
    (void)state;
    uint8_t expected[256];
    size_t size = from_hex(empty_index, expected);
    assert_int_equal(size, 101);
    struct sheaf__table_writer w;
    sheaf_error err;
    sheaf__table_begin(&w);
    sheaf__table_add(&w, "", 0, "\x08\x01\x1a\x02\x08\x01", 6);
    rig_ok(sheaf__table_finish(&w, &err), &err);
    assert_int_equal(w.file.size, size);
    assert_memory_equal(w.file.data, expected, size);
    struct list list;
    rig_ok(walk(w.file.data, w.file.size, &list, &err), &err);
    assert_string_equal(list.text, "=6;");
    sheaf__table_writer_free(&w);
}

/* formats.md 4.4, vector S: a block compressed by libsnappy. */
static const char snappy_index[] =
    "6d a0 00 00 06 08 01 1a 02 08 01 00 0c 0b 6c 61 79 65 72 5f 30 2f 62 69 61 73 08 01 12 00 28 "
    "04 35 a6 7b 11 3a 06 06 0d 31 2f 62 0d 14 04 20 04 19 16 00 32 19 16 00 08 19 16 00 33 19 16 "
    "3c 0c 28 04 35 a6 7b 11 3a 00 00 00 00 01 00 00 00 01 c9 df 77 7f 00 00 00 00 01 00 00 00 00 "
    "c0 f2 a1 b0 00 01 02 6d 00 4f 00 00 00 00 01 00 00 00 00 3d cf 3f 3c 54 08 61 0e 00 00 00 00 "
    "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 "
    "00 57 fb 80 8b 24 75 47 db";

static void vector_s_snappy(void **state)
{
    (void)state;
    uint8_t data[256];
    struct list list;
    sheaf_error err;
    size_t size = from_hex(snappy_index, data);
    assert_int_equal(size, 164);
    rig_ok(walk(data, size, &list, &err), &err);
    assert_string_equal(list.text,
                        "=6;layer_0/bias=11;layer_1/bias=13;layer_2/bias=13;layer_3/bias=13;");
}

/* Every way in which a Snappy block can be wrong is refused. */
static void snappy_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        size_t claimed;
    } bad[] = {
        {"04 0c 61 62 63", 4},          /* literal longer than the block */
        {"03 0c 61 62 63 64", 3},       /* literal longer than the output */
        {"08 00 61 01 00", 8},          /* copy of offset 0 */
        {"08 00 61 01 02", 8},          /* copy from before the output */
        {"09 00 61 01 01 00 61", 9},    /* ends early */
        {"05 00 61 01", 5},             /* no offset */
        {"05 00 61 02 01", 5},          /* half an offset */
        {"05 f0", 5},                   /* no length of a literal */
        {"05 00 61 ff 01 00 00 00", 5}, /* copy longer than the output */
    };
    uint8_t block[64], out[64];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        size_t size = from_hex(bad[i].hex, block), claimed;
        assert_true(sheaf__snappy_size(block, size, &claimed));
        assert_int_equal(claimed, bad[i].claimed);
        assert_false(sheaf__snappy_decode(block, size, out, claimed));
    }
    size_t claimed;
    assert_false(sheaf__snappy_size(block, from_hex("ff ff ff ff 0f 00", block), &claimed));
    assert_false(sheaf__snappy_size(block, from_hex("ff ff", block), &claimed));
    size_t size = from_hex("06 04 61 62 0d 02", block); /* "ab", then 7 from 2 back: too long */
    assert_false(sheaf__snappy_decode(block, size, out, 6));
    size = from_hex("09 04 61 62 0d 02", block);
    assert_true(sheaf__snappy_decode(block, size, out, 9));
    assert_memory_equal(out,
                        "abababab"
                        "a",
                        9);
}

/* Cutting a table anywhere, or changing a byte, is found out: by reading, or of those that reading leaves out by verifying, as in
 * TensorFlow, which reads such a table. */
static void damage_is_found(void **state)
{
    (void)state;
    uint8_t data[256], copy[256];
    struct list list;
    sheaf_error err;
    size_t size = from_hex(empty_index, data);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(walk(data, cut, &list, &err), SHEAF_ERR_DATA_LOSS);
    for (size_t i = 0; i < size; i++) {
        bool meta = i >= 22 && i < 35;        /* read by nobody */
        bool padding = i >= 57 && i < 93;     /* of the footer */
        bool meta_handle = i >= 53 && i < 55; /* where the unread block stands */
        memcpy(copy, data, size);
        copy[i] ^= 0x10;
        sheaf_status status = walk(copy, size, &list, &err);
        if (!meta && !padding && !meta_handle)
            assert_int_equal(status, SHEAF_ERR_DATA_LOSS);
        struct sheaf__table table;
        if (meta || padding || meta_handle) {
            assert_int_equal(status, SHEAF_OK);
            rig_ok(sheaf__table_open(&table, copy, size, "x", &err), &err);
            rig_fails(sheaf__table_check_meta(&table, &err), &err, SHEAF_ERR_DATA_LOSS,
                      padding ? "something else than zeros" : "");
            assert_true(!padding || err.offset == i);
        }
    }
}

/* Seals a block (contents, type, checksum) and gives its handle. */
static void put_block(struct sheaf__buf *file, const void *contents, size_t size,
                      struct sheaf__buf *handle)
{
    struct sheaf__buf block = {0};
    sheaf__buf_bytes(&block, contents, size);
    sheaf__buf_byte(&block, 0);
    sheaf__buf_varint(handle, file->size);
    sheaf__buf_varint(handle, size);
    sheaf__buf_bytes(file, block.data, block.size);
    sheaf__buf_fixed32(file, sheaf__crc32c_mask(sheaf__crc32c(block.data, block.size)));
    sheaf__buf_free(&block);
}

/* A table of one data block with these contents, everything around it right. */
static sheaf_status walk_block(const char *hex, sheaf_error *err)
{
    uint8_t contents[256];
    struct sheaf__buf file = {0}, handle = {0}, index = {0}, handles = {0};
    struct list list;
    put_block(&file, contents, from_hex(hex, contents), &handle);
    put_block(&file, "\0\0\0\0\1\0\0\0", 8, &handles);
    sheaf__buf_bytes(&index, "\0\1", 2);
    sheaf__buf_varint(&index, handle.size);
    sheaf__buf_byte(&index, 'z');
    sheaf__buf_bytes(&index, handle.data, handle.size);
    sheaf__buf_bytes(&index, "\0\0\0\0\1\0\0\0", 8);
    put_block(&file, index.data, index.size, &handles);
    while (handles.size < 40)
        sheaf__buf_byte(&handles, 0);
    sheaf__buf_bytes(&file, handles.data, handles.size);
    sheaf__buf_fixed64(&file, UINT64_C(0xdb4775248b80fb57));
    sheaf_status status = walk(file.data, file.size, &list, err);
    sheaf__buf_free(&file);
    sheaf__buf_free(&handle);
    sheaf__buf_free(&index);
    sheaf__buf_free(&handles);
    return status;
}

static void hostile_blocks(void **state)
{
    (void)state;
    sheaf_error err;
    rig_ok(walk_block("00 01 01 61 62 00000000 01000000", &err), &err);
    rig_ok(walk_block("00 01 01 61 62 01 01 00 63 00000000 01000000", &err), &err);
    static const struct {
        const char *hex, *said;
    } bad[] = {
        {"", "a block of 0 bytes says that it has 0 restart points"},
        {"00 00 00", "a block of 3 bytes says that it has 0 restart points"},
        {"00000000", "a block of 4 bytes says that it has 0 restart points"},
        {"00000000 ffffffff", "a block of 8 bytes says that it has 4294967295 restart points"},
        {"00000000 01000000", "a block has no entry"},
        {"01 01 01 61 62 00000000 01000000",
         "entry 0 of a block: shares 1 bytes with the key before it, which has 0"},
        {"00 01 02 61 62 00000000 01000000",
         "entry 0 of a block: 1 bytes of its key and 2 of its value, 2 are left"},
        {"00 01 01 61 62 00 7f 01 61 62 00000000 01000000",
         "entry 1 of a block: 127 bytes of its key and 1 of its value, 2 are left"},
        {"00 ffffffff1f 01 61 62 00000000 01000000", /* a length of more than 32 bits */
         "entry 0 of a block: its lengths do not parse"},
        {"00 ffffffff0f ffffffff0f 61 00000000 01000000", /* and a sum */
         "4294967295 bytes of its key and 4294967295 of its value, 1 are left"},
        {"00 01 01 61 62 0a000000 01000000",
         "a block has a restart point at byte 10, its entries end at 5"},
        {"00 01 00 62 00 01 00 61 00000000 01000000",
         "entry 1 of a block: its key 'a' is not above 'b', that before it"},
        {"00 01 00 61 01 00 00 00000000 01000000",
         "entry 1 of a block: its key 'a' is not above 'a', that before it"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        rig_fails(walk_block(bad[i].hex, &err), &err, SHEAF_ERR_DATA_LOSS, bad[i].said);
        assert_string_equal(err.file, "x.index");
        assert_int_equal(err.offset, 0);
    }
}

/* A footer whose handles lie anywhere. */
static void hostile_handles(void **state)
{
    (void)state;
    static const struct {
        const char *hex, *said;
    } handles[] = {
        {"00 00 ffffffffffffffffff01 00",
         "the index block of 0 bytes at offset 18446744073709551615 lies outside the file, which "
         "has 0 bytes before its footer"},
        {"00 00 00 ffffffffffffffffff01",
         "the index block of 18446744073709551615 bytes at offset 0 lies outside"},
        {"00 00 ffffffffffffffffff01 ffffffffffffffffff01",
         "the index block of 18446744073709551615 bytes at offset 18446744073709551615 lies"},
        {"00 00 80808080808020 05",
         "the index block of 5 bytes at offset 140737488355328 lies outside"},
        {"ffffffffffffffffffff01 00 00 00", "the footer does not say where the blocks are"},
    };
    uint8_t file[48];
    struct list list;
    sheaf_error err;
    for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++) {
        memset(file, 0, sizeof(file));
        from_hex(handles[i].hex, file);
        from_hex("57fb808b247547db", file + 40);
        rig_fails(walk(file, sizeof(file), &list, &err), &err, SHEAF_ERR_DATA_LOSS,
                  handles[i].said);
        assert_int_equal(err.offset, 0); /* of the footer */
    }
}

/* Entries of every size around the limits of a block come back, in order (formats.md 4.2). */
static void blocks_are_cut(void **state)
{
    (void)state;
    enum { MANY = 40 };
    struct sheaf__table_writer w;
    struct list list;
    sheaf_error err;
    char *value = calloc(1, 800000);
    sheaf__table_begin(&w);
    for (int i = 0; i < MANY; i++) {
        char key[16];
        size_t size = i % 5 == 4 ? 524288 + (size_t)i : i % 5 == 3 ? 262144 - 20 + (size_t)i : 3;
        int length = snprintf(key, sizeof(key), "k%03d", i);
        sheaf__table_add(&w, key, (size_t)length, value, size);
    }
    rig_ok(sheaf__table_finish(&w, &err), &err);
    rig_ok(walk(w.file.data, w.file.size, &list, &err), &err);
    assert_int_equal(list.count, MANY);
    assert_non_null(strstr(list.text, "k003=262127;k004=524292;k005=3;"));
    sheaf__table_writer_free(&w);
    free(value);
}

static sheaf_status write_and_walk(void *user, sheaf_error *err)
{
    (void)user;
    struct sheaf__table_writer w;
    struct list list;
    sheaf__table_begin(&w);
    sheaf__table_add(&w, "", 0, "header", 6);
    sheaf__table_add(&w, "a", 1, "one", 3);
    sheaf_status status = sheaf__table_finish(&w, err);
    if (status >= 0)
        status = walk(w.file.data, w.file.size, &list, err);
    sheaf__table_writer_free(&w);
    return status;
}

static sheaf_status walk_snappy(void *user, sheaf_error *err)
{
    (void)user;
    uint8_t data[256];
    struct list list;
    return walk(data, from_hex(snappy_index, data), &list, err);
}

static void without_memory(void **state)
{
    (void)state;
    assert_true(rig_fail_allocations(write_and_walk, NULL) > 5);
    assert_true(rig_fail_allocations(walk_snappy, NULL) > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(vector_z_empty),  rig_test(vector_s_snappy), rig_test(snappy_refuses),
        rig_test(damage_is_found), rig_test(hostile_blocks),  rig_test(hostile_handles),
        rig_test(blocks_are_cut),  rig_test(without_memory),
    };
    return rig_run(tests);
}
