/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/buf.h"
#include "base/mem.h"
#include "format/packed.h"

#include <string.h>

/* Packed varints, decoded one by one and by every loop there is. */

enum { MOST = 300 };

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return *state >> 16;
}

/* One by one, as base/buf.h does it. */
static bool plainly(const uint8_t *data, size_t size, int64_t *out, size_t room, size_t *count)
{
    struct sheaf__cursor c = sheaf__cursor_of(data, size);
    uint64_t v;
    for (*count = 0; sheaf__cursor_left(&c) > 0; ++*count) {
        if (!sheaf__cursor_varint(&c, &v))
            return false;
        if (*count < room)
            out[*count] = (int64_t)v;
    }
    return true;
}

/* The bytes stand at the end of their memory, so that a look beyond them is found. */
static void check(sheaf__packed_fn fn, const uint8_t *bytes, size_t size, size_t room)
{
    int64_t expected[MOST], found[MOST];
    size_t n = 0, m = 0;
    uint8_t *data = sheaf__memdup(bytes, size);
    memset(expected, 0x5a, sizeof(expected));
    memset(found, 0x5a, sizeof(found));
    const bool good = plainly(data, size, expected, room, &n);
    assert_int_equal(fn(data, data + size, found, room, &m), good);
    if (good) {
        assert_int_equal(m, n);
        assert_memory_equal(found, expected, sizeof(found));
    }
    sheaf__free(data);
}

static void check_random(sheaf__packed_fn fn)
{
    uint64_t random = 1;
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[MOST];
        const size_t size = (size_t)next_random(&random) % (round % 2 ? MOST : 40);
        const unsigned often = (unsigned)next_random(&random) % 12; /* of 12 bytes, so many go on */
        for (size_t i = 0; i < size; i++) {
            const uint64_t r = next_random(&random);
            bytes[i] = (uint8_t)((r & 0x7f) | (r >> 8 & 0xff) % 12 % (often + 1) << 7);
        }
        check(fn, bytes, size, round % 3 ? MOST : size / 4);
    }
}

/* Numbers of one size each, from 1 to 10 bytes, and one that is longer, or cut. */
static void check_sizes(sheaf__packed_fn fn)
{
    uint8_t bytes[MOST];
    for (size_t each = 1; each <= 11; each++)
        for (size_t count = 0; count * each + each <= MOST && count < 25; count++) {
            for (size_t i = 0; i < count * each; i++)
                bytes[i] = (uint8_t)(i % each + 1 < each ? 0x80 | i : i % each ? 1 : 0x7f);
            check(fn, bytes, count * each, MOST);
            if (count > 0)
                check(fn, bytes, count * each - 1, MOST);
        }
}

static void every_loop_decodes_alike(void **state)
{
    (void)state;
    const sheaf__packed_fn fns[] = {sheaf__packed_ints_portable, sheaf__packed_ints_bmi2(),
                                    sheaf__packed_ints()};
    for (size_t i = 0; i < 3; i++)
        if (fns[i]) {
            check_sizes(fns[i]);
            check_random(fns[i]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(every_loop_decodes_alike)};
    return rig_run(tests);
}
