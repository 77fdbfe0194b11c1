/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/random.h"
#include "format/slice.h"

#include <stdio.h>
#include <string.h>

/* Slices: keys, texts and copying. */

static void check_key(const char *name, size_t name_size, const struct sheaf__extent *extents,
                      int rank, const char *hex)
{
    struct sheaf__buf key = {0};
    char found[256] = "";
    sheaf__slice_key(&key, name, name_size, extents, rank);
    for (size_t i = 0; i < key.size; i++)
        snprintf(found + 2 * i, 3, "%02x", key.data[i]);
    assert_string_equal(found, hex);
    sheaf__buf_free(&key);
}

/* R8.27, T8.20, formats.md 4.5: names and numbers in an order-preserving code. */
static void t8_20_keys(void **state)
{
    (void)state;
    check_key("v", 1, (struct sheaf__extent[]){{0, 2}, {1, 3}}, 2,
              "0076000101028082"
              "8183");
    check_key("w", 1, (struct sheaf__extent[]){{0, 2}, {0, -1}}, 2,
              "00770001010280828"
              "07f");
    check_key("w", 1, (struct sheaf__extent[]){{2, 2}, {0, -1}}, 2,
              "00770001010282828"
              "07f");
    check_key("emb", 3, (struct sheaf__extent[]){{100, 100}, {0, -1}}, 2,
              "00656d6200010102c064c064807f");
    check_key("a\0\xff", 3, NULL, 0, "006100ffff00000100");
    static const struct {
        int64_t value;
        const char *hex;
    } codes[] = {
        {0, "80"},
        {1, "81"},
        {63, "bf"},
        {64, "c040"},
        {100, "c064"},
        {-1, "7f"},
        {-64, "40"},
        {-65, "3fbf"},
        {8191, "dfff"},
        {8192, "e02000"},
        {0x424242, "f0424242"},
        {-2048, "3800"},
        {INT64_C(1) << 31, "f880000000"},
        {INT64_C(1) << 62, "ffc04000000000000000"},
        {INT64_MIN, "003f8000000000000000"},
        {INT64_MAX, "ffc07fffffffffffffff"},
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        char expected[64];
        snprintf(expected, sizeof(expected),
                 "0078000101"
                 "01%s80",
                 codes[i].hex);
        check_key("x", 1, (struct sheaf__extent[]){{codes[i].value, 0}}, 1, expected);
    }
}

/* R8.6, T8.1. */
static void t8_1_texts(void **state)
{
    (void)state;
    struct sheaf__slice s = {.full = SHEAF_SHAPE(10, 3), .shape = SHEAF_SHAPE(3, 3), .offset = {4}};
    struct sheaf__slice found;
    struct sheaf__str text = {0};
    sheaf_error err;
    sheaf__slice_text(&text, &s);
    assert_string_equal(sheaf__str_text(&text), "10 3 4,3:0,3");
    rig_ok(sheaf__slice_parse(text.text, s.full, &found, &err), &err);
    assert_true(sheaf__slice_equal(&found, &s));
    sheaf__str_free(&text);

    s = sheaf__slice_all(SHEAF_SHAPE(2, 2));
    sheaf__slice_text(&text, &s);
    assert_string_equal(sheaf__str_text(&text), "");
    rig_ok(sheaf__slice_parse("", s.full, &found, &err), &err);
    assert_true(sheaf__slice_is_all(&found));
    rig_ok(sheaf__slice_parse("4 2 0,2:-", SHEAF_SHAPE(4, 2), &found, &err), &err);
    assert_int_equal(found.shape.dims[0], 2);
    assert_int_equal(found.shape.dims[1], 2);

    static const char *const bad[] = {
        "4",
        "4 2",
        "4 2 0,2",
        "4 2 0,2:",
        "4 2 0,2:0,2:0,1",
        "4 2 -1,2:-",
        "4 2 0,0:-",
        "4 2 3,2:-",
        "x 2 0,2:-",
        "4 2 0,x:-",
        "4 2 0:-",
        "4  0,2:-",
        "4 2 0,2:--",
        " 4 2 0,2:-",
        "4 2 0,2:- ",
        "4 2 +0,2:-",
        "4 2 -:-x",
        "99999999999999999999 2 0,2:-",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (sheaf__slice_parse(bad[i], SHEAF_SHAPE(4, 2), &found, &err) !=
            SHEAF_ERR_INVALID_ARGUMENT)
            fail_msg("'%s' was accepted", bad[i]);
    }
    rig_fails(sheaf__slice_parse("5 2 0,2:-", SHEAF_SHAPE(4, 2), &found, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "another shape");
}

static struct sheaf__slice random_slice(struct sheaf__philox *random, sheaf_shape full)
{
    struct sheaf__slice s = sheaf__slice_all(full);
    for (int i = 0; i < full.rank; i++) {
        s.offset[i] = (int64_t)sheaf__philox_below(random, (uint64_t)full.dims[i]);
        s.shape.dims[i] =
            1 + (int64_t)sheaf__philox_below(random, (uint64_t)(full.dims[i] - s.offset[i]));
    }
    return s;
}

/* Where element `i` of a slice stands in the whole tensor. */
static int64_t place_of(const struct sheaf__slice *s, int64_t i)
{
    int64_t at = 0, unit = 1;
    for (int k = s->full.rank - 1; k >= 0; k--) {
        at += (s->offset[k] + i % s->shape.dims[k]) * unit;
        i /= s->shape.dims[k];
        unit *= s->full.dims[k];
    }
    return at;
}

/* Any slice into any other, in chunks of any size, against an element-by-element copy. */
static void scatter_is_right(void **state)
{
    (void)state;
    struct sheaf__philox random;
    sheaf__philox_init(&random, 7, 0);
    for (int round = 0; round < 3000; round++) {
        sheaf_shape full = {.rank = (int)sheaf__philox_below(&random, 5)};
        for (int i = 0; i < full.rank; i++)
            full.dims[i] = 1 + (int64_t)sheaf__philox_below(&random, 5);
        struct sheaf__slice from = random_slice(&random, full), to = random_slice(&random, full);
        int64_t elements = sheaf_shape_elements(from.shape);
        uint16_t data[625], out[625], expected[625];
        memset(out, 0, sizeof(out));
        memset(expected, 0, sizeof(expected));
        int64_t shared = 0;
        for (int64_t i = 0; i < elements; i++)
            data[i] = (uint16_t)(1 + place_of(&from, i));
        for (int64_t i = 0; i < sheaf_shape_elements(to.shape); i++) {
            for (int64_t k = 0; k < elements; k++) {
                if (place_of(&from, k) == place_of(&to, i)) {
                    expected[i] = data[k];
                    shared++;
                }
            }
        }
        assert_int_equal(sheaf__slice_intersect(&from, &to, NULL), shared);
        struct sheaf__slice_copy copy = {&from, &to, sizeof(uint16_t), out};
        for (int64_t first = 0; first < elements;) {
            int64_t count = 1 + (int64_t)sheaf__philox_below(&random, (uint64_t)(elements - first));
            if (shared)
                sheaf__slice_scatter(&copy, first, count, data + first);
            first += count;
        }
        assert_memory_equal(out, expected, sizeof(out));
    }
}

static sheaf_shape random_shape(struct sheaf__philox *random, int most)
{
    sheaf_shape full = {.rank = (int32_t)sheaf__philox_below(random, 5)};
    for (int32_t i = 0; i < full.rank; i++)
        full.dims[i] = 1 + (int64_t)sheaf__philox_below(random, (uint64_t)most);
    return full;
}

/* Boxes of a slice follow each other without a gap, none larger than it may be. */
static void boxes_make_up_the_slice(void **state)
{
    (void)state;
    struct sheaf__philox random;
    sheaf__philox_init(&random, 3, 0);
    for (int round = 0; round < 500; round++) {
        const struct sheaf__slice s = random_slice(&random, random_shape(&random, 7));
        const int64_t count = sheaf_shape_elements(s.shape);
        const int64_t most = 1 + (int64_t)sheaf__philox_below(&random, 60);
        for (int64_t at = 0; at < count;) {
            const struct sheaf__slice box = sheaf__slice_box(&s, at, most);
            const int64_t size = sheaf_shape_elements(box.shape);
            assert_true(sheaf__slice_is_valid(&box) && size >= 1 && size <= most);
            for (int64_t i = 0; i < size; i++)
                assert_int_equal(place_of(&box, i), place_of(&s, at + i));
            at += size;
            assert_true(at <= count);
        }
    }
}

/* A file that holds a slice: element i is its number in the whole tensor. */
struct numbers {
    const struct sheaf__slice *slice;
    int64_t read, calls; /* elements */
    size_t most;         /* that may be read at once into `scratch` */
    void *scratch;
};

static sheaf_status fetch(void *user, int64_t first, int64_t count, void *out, sheaf_error *err)
{
    struct numbers *n = user;
    (void)err;
    assert_true(first >= 0 && count > 0 && first + count <= sheaf_shape_elements(n->slice->shape));
    assert_true(out != n->scratch || (size_t)count <= n->most);
    for (int64_t i = 0; i < count; i++)
        ((int64_t *)out)[i] = place_of(n->slice, first + i);
    n->read += count;
    n->calls++;
    return SHEAF_OK;
}

/* What two slices share comes to its place, and nothing else is touched. */
static void gathers_what_is_shared(void **state)
{
    (void)state;
    static int64_t out[20 * 20 * 20 * 20], scratch[64];
    struct sheaf__philox random;
    sheaf__philox_init(&random, 4, 0);
    for (int round = 0; round < 1000; round++) {
        const sheaf_shape full = random_shape(&random, round % 2 ? 20 : 6);
        const struct sheaf__slice from = random_slice(&random, full),
                                  to = random_slice(&random, full);
        const int64_t count = sheaf_shape_elements(to.shape);
        const size_t most = 1 + (size_t)sheaf__philox_below(&random, 64);
        struct numbers numbers = {.slice = &from, .most = most, .scratch = scratch};
        const struct sheaf__slice_gather gather = {
            {&from, &to, 8, out}, fetch, &numbers, scratch, most * 8};
        sheaf_error err;
        struct sheaf__slice common;
        memset(out, 0xff, (size_t)count * 8);
        rig_ok(sheaf__slice_gather(&gather, &err), &err);
        const int64_t shared = sheaf__slice_intersect(&from, &to, &common);
        int64_t found = 0;
        for (int64_t i = 0; i < count; i++) {
            found += out[i] >= 0;
            assert_true(out[i] < 0 || out[i] == place_of(&to, i));
        }
        assert_int_equal(found, shared);
    }
}

/* Rows of a large matrix are read by themselves; a column of it is read with what lies between, but only where that is
 * little. */
static void gathers_no_more_than_it_must(void **state)
{
    (void)state;
    static int64_t out[1000], scratch[1 << 16];
    const sheaf_shape full = SHEAF_SHAPE(1000, 1000000);
    const struct sheaf__slice all = sheaf__slice_all(full);
    struct sheaf__slice row = all, column = all;
    sheaf_error err;
    row.shape = SHEAF_SHAPE(1, 1000);
    row.offset[0] = 999;
    row.offset[1] = 500000;
    struct numbers numbers = {.slice = &all, .most = 1 << 16, .scratch = scratch};
    struct sheaf__slice_gather gather = {
        {&all, &row, 8, out}, fetch, &numbers, scratch, sizeof(scratch)};
    rig_ok(sheaf__slice_gather(&gather, &err), &err);
    assert_int_equal(numbers.read, 1000);
    assert_int_equal(numbers.calls, 1);
    assert_int_equal(out[999], 999 * INT64_C(1000000) + 500999);
    column.shape = SHEAF_SHAPE(1000, 1);
    gather.copy.to = &column;
    numbers.read = numbers.calls = 0;
    rig_ok(sheaf__slice_gather(&gather, &err), &err);
    assert_true(numbers.read <= 1000 * 4096);
    assert_int_equal(numbers.calls, 1000);
    assert_int_equal(out[999], 999 * INT64_C(1000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(t8_20_keys),
        rig_test(t8_1_texts),
        rig_test(scatter_is_right),
        rig_test(boxes_make_up_the_slice),
        rig_test(gathers_what_is_shared),
        rig_test(gathers_no_more_than_it_must),
    };
    return rig_run(tests);
}
