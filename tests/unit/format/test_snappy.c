/* SPDX-License-Identifier: Apache-2.0 */
/* Snappy blocks that we make (formats.md 2.4); those of others are in test_record.c, wrong ones in
 * test_table.c. */
#include "rig.h"

#include "format/snappy.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of some kind: all the same, a pattern of a few, words, noise. */
static void fill(uint8_t *data, size_t size, int kind)
{
    uint32_t random = 1;
    for (size_t i = 0; i < size; i++) {
        random = random * 1664525 + 1013904223;
        if (kind == 0)
            data[i] = 'a';
        else if (kind <= 20)
            data[i] = (uint8_t)('a' + i % (size_t)kind);
        else if (kind == 21)
            data[i] = (uint8_t) "the quick brown fox "[(i / 7 * (i >> 9)) % 20];
        else
            data[i] = (uint8_t)(random >> 24);
    }
}

static void what_is_encoded_decodes_to_itself(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,     1,     2,     3,     4,      5,      11,    12,
                                   13,    59,    60,    61,    64,     65,     67,    68,
                                   127,   128,   255,   256,   257,    258,    300,   5000,
                                   65535, 65536, 65537, 65540, 131072, 262144, 300000};
    static uint16_t table[SHEAF__SNAPPY_TABLE];
    static uint8_t data[300000], back[300000], block[400000];
    for (int kind = 0; kind <= 22; kind++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            const size_t size = sizes[i];
            size_t claimed;
            fill(data, size, kind);
            size_t packed = sheaf__snappy_encode(data, size, block, table);
            assert_true(packed <= sheaf__snappy_bound(size));
            if (kind <= 20 && size >= 5000) /* no element gives more than 64 bytes for 3 */
                assert_true(packed < size / 19);
            assert_true(sheaf__snappy_size(block, packed, &claimed));
            assert_int_equal(claimed, size);
            memset(back, 0, size);
            assert_true(sheaf__snappy_decode(block, packed, back, size));
            assert_memory_equal(back, data, size);
            assert_true(sheaf__snappy_peek(block, packed, back, size / 2));
            assert_false(sheaf__snappy_peek(block, packed, back, size + 1));
            assert_false(packed > 1 && sheaf__snappy_decode(block, packed - 1, back, size));
        }
}

/* A file has the blocks that TensorFlow can read: 256 KiB at most, a size before each. */
static void files_have_small_blocks(void **state)
{
    (void)state;
    static uint8_t data[600000], file[700000];
    struct sheaf__snap *z;
    sheaf_error err = {0};
    fill(data, sizeof(data), 22);
    struct sheaf__zip_io io = {data, sizeof(data), file, sizeof(file)};
    rig_ok(sheaf__snap_new(&z, &err), &err);
    assert_int_equal(sheaf__snap_next(z, &io, true), SHEAF_END);
    sheaf__snap_free(z);
    size_t at = 0, blocks = 0, done = 0, used = sizeof(file) - io.out_size;
    while (at < used) {
        size_t size = (size_t)file[at] << 24 | (size_t)file[at + 1] << 16 |
                      (size_t)file[at + 2] << 8 | file[at + 3];
        size_t claimed;
        assert_true(sheaf__snappy_size(file + at + 4, size, &claimed));
        assert_true(claimed <= 262144);
        done += claimed;
        at += 4 + size;
        blocks++;
    }
    assert_int_equal(at, used);
    assert_int_equal(done, sizeof(data));
    assert_int_equal(blocks, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(what_is_encoded_decodes_to_itself),
        rig_test(files_have_small_blocks),
    };
    return rig_run(tests);
}
