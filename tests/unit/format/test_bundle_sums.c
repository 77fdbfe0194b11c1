/* SPDX-License-Identifier: Apache-2.0 */

/* Checksums of parts of tensors: together they prove what is stored. */

#include "rig.h"

#include "base/crc32c.h"
#include "format/bundle.h"

#include <string.h>

/* An item of 800 bytes: one half of a partitioned tensor. */
static const struct sheaf__bundle_item *open_item(sheaf_bundle **b)
{
    sheaf_error err = {0};
    rig_ok(sheaf_bundle_open(rig_golden("checkpoint/ps/sharded-1"), b, &err), &err);
    for (size_t i = 0; i < (*b)->index.count; i++)
        if (!(*b)->index.items[i].slices && (*b)->index.items[i].size == 800)
            return &(*b)->index.items[i];
    fail();
    return NULL;
}

/* Reads a part and adds its checksum. */
static void add_part(struct sheaf__bundle_sums *sums, sheaf_bundle *b,
                     const struct sheaf__bundle_item *item, uint64_t at, uint64_t size)
{
    sheaf_error err = {0};
    uint8_t data[800];
    const struct sheaf__bundle_sink sink = {.direct = data};
    struct sheaf__bundle_sum sum = {item->shard, 0, item->offset, at, size};
    rig_ok(sheaf__bundle_stream_range(b, item, at, size, &sink, &sum.crc, &err), &err);
    assert_int_equal(sum.crc, sheaf__crc32c(data, (size_t)size));
    assert_true(sheaf__bundle_sums_add(sums, &sum));
}

static void test_parts_in_any_order(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_bundle *b = NULL;
    const struct sheaf__bundle_item *item = open_item(&b);
    struct sheaf__bundle_sums sums = {0};
    rig_ok(sheaf__bundle_sums_check(&sums, b, &err), &err);
    add_part(&sums, b, item, 600, 200);
    add_part(&sums, b, item, 0, 8);
    add_part(&sums, b, item, 8, 592);
    rig_ok(sheaf__bundle_sums_check(&sums, b, &err), &err);
    sums.list[1].crc ^= 1;
    rig_fails(sheaf__bundle_sums_check(&sums, b, &err), &err, SHEAF_ERR_DATA_LOSS,
              "checksum mismatch");
    sheaf__bundle_sums_free(&sums);
    sheaf_bundle_free(b);
}

/* Where the parts leave gaps, or overlap, the tensor itself is read */
static void test_parts_that_do_not_fit(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_bundle *b = NULL;
    const struct sheaf__bundle_item *item = open_item(&b);
    static const uint64_t parts[][4] = {
        {0, 400, 408, 392}, {8, 400, 408, 392}, {0, 408, 400, 400}, {0, 400, 400, 392}};
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        struct sheaf__bundle_sums sums = {0};
        add_part(&sums, b, item, parts[i][0], parts[i][1]);
        add_part(&sums, b, item, parts[i][2], parts[i][3]);
        sums.list[1].crc ^= 1; /* does not count then */
        rig_ok(sheaf__bundle_sums_check(&sums, b, &err), &err);
        sheaf__bundle_sums_free(&sums);
    }
    sheaf_bundle_free(b);
}

/* What is not in the index was read of another checkpoint */
static void test_another_checkpoint(void **state)
{
    (void)state;
    sheaf_error err = {0};
    sheaf_bundle *b = NULL;
    const struct sheaf__bundle_item *item = open_item(&b);
    struct sheaf__bundle_sums sums = {0};
    add_part(&sums, b, item, 0, 800);
    sums.list[0].offset++;
    rig_fails(sheaf__bundle_sums_check(&sums, b, &err), &err, SHEAF_ERR_DATA_LOSS,
              "the checkpoint became another one while it was read");
    sheaf__bundle_sums_free(&sums);
    sheaf_bundle_free(b);
}

static void test_travel(void **state)
{
    (void)state;
    const struct sheaf__bundle_sum a = {3, 0xffffffff, UINT64_MAX, 1, UINT64_C(1) << 40};
    struct sheaf__bundle_sums sums = {0}, back = {0};
    struct sheaf__buf buf = {0};
    assert_true(sheaf__bundle_sums_add(&sums, &a));
    assert_true(sheaf__bundle_sums_add(&sums, &(struct sheaf__bundle_sum){0}));
    sheaf__bundle_sums_put(&buf, &sums);
    struct sheaf__cursor c = sheaf__cursor_of(buf.data, buf.size);
    assert_true(sheaf__bundle_sums_get(&c, &back));
    assert_int_equal(back.count, 2);
    assert_memory_equal(back.list, sums.list, 2 * sizeof(a));
    c = sheaf__cursor_of(buf.data, buf.size - 1);
    assert_false(sheaf__bundle_sums_get(&c, &back));
    sheaf__bundle_sums_free(&sums);
    sheaf__bundle_sums_free(&back);
    sheaf__buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_parts_in_any_order),
        rig_test(test_parts_that_do_not_fit),
        rig_test(test_another_checkpoint),
        rig_test(test_travel),
    };
    return rig_run(tests);
}
