/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

/* A table of a recommender as parameter servers hold it: in parts, with a slot beside each. */

enum { ROWS = 793470, COLUMNS = 8, MOST_PARTS = 11 };

/* Both tables over tasks; `values` NULL: zeros. */
struct tables {
    struct fake_group *group;
    struct fake *root, *table, *slot;
    char devices[MOST_PARTS][64];
};

/* Part `missing` is left out. */
static void make_tables(struct tables *w, int parts, sheaf_tensor *table, sheaf_tensor *slot,
                        int missing)
{
    *w = (struct tables){.group = fake_group_new(FAKE_DEVICE("chief", "0")),
                         .root = fake_new(),
                         .table = fake_new(),
                         .slot = fake_new()};
    int64_t first = 0;
    for (int p = 0; p < parts; p++) {
        const int64_t rows = ROWS / parts + (p < ROWS % parts);
        snprintf(w->devices[p], sizeof(w->devices[p]), "/job:ps/replica:0/task:%d/device:CPU:0", p);
        if (p != missing) {
            fake_hold(w->group, w->table, w->devices[p], table, first, rows);
            fake_hold(w->group, w->slot, w->devices[p], slot, first, rows);
        }
        first += rows;
    }
    fake_add_child(w->root, "table", w->table);
    fake_add_child(w->root, "accumulator", w->slot);
}

static void free_tables(struct tables *w)
{
    fake_free(w->root);
    fake_free(w->table);
    fake_free(w->slot);
    fake_group_free(w->group);
}

static sheaf_tensor *numbers(uint32_t seed)
{
    uint32_t *data = malloc(sizeof(*data) * ROWS * COLUMNS);
    assert_non_null(data);
    for (uint32_t i = 0; i < (uint32_t)ROWS * COLUMNS; i++)
        data[i] = (i + seed) * 2654435761U; /* any bits: they come back as they are */
    sheaf_tensor *t = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(ROWS, COLUMNS), data);
    free(data);
    return t;
}

/* The parts held, one after the other, are the tensor. */
static void check_parts(const struct tables *w, bool slot, const sheaf_tensor *expected)
{
    const uint8_t *bytes = sheaf_tensor_data(expected);
    for (size_t i = slot; i < w->group->count; i += 2) {
        const sheaf_tensor *t = w->group->held[i].value;
        const size_t size = (size_t)sheaf_tensor_elements(t) * sizeof(float);
        assert_memory_equal(sheaf_tensor_data(t), bytes, size);
        bytes += size;
    }
    assert_int_equal(bytes - (const uint8_t *)sheaf_tensor_data(expected),
                     sizeof(float) * ROWS * COLUMNS);
}

static sheaf_status save(struct tables *w, const sheaf_sharding_callback *policy, sheaf_error *err)
{
    bool skipped;
    const sheaf_checkpoint_options options = {.sharding = policy};
    struct sheaf__ckpt_save save = {
        .root = &w->root->trackable, .path = rig_path("x"), .options = &options, .writes = true};
    return sheaf__ckpt_save(&save, &skipped, err);
}

/* T56: saved in 8 parts, six of 99,184 rows and two of 99,183, with slots; read as 1, 3, 8 and 11; whatever the policy. */
static void t56_parts_of_any_number(void **state)
{
    (void)state;
    const sheaf_sharding_callback policies[] = {*sheaf_shard_by_task(),
                                                sheaf_shard_max_size(1000003)};
    static const int counts[] = {1, 3, 8, 11};
    SHEAF_FRAME
    {
        struct tables w;
        sheaf_error err;
        sheaf_tensor *table = numbers(1), *slot = numbers(77);
        sheaf_tensor *zeros = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(ROWS, COLUMNS), NULL);
        make_tables(&w, 8, table, slot, -1);
        assert_int_equal(w.table->saveables[5].shape.dims[0], 99184);
        assert_int_equal(w.table->saveables[6].shape.dims[0], 99183);
        for (int p = 0; p < 2; p++) {
            rig_ok(save(&w, &policies[p], &err), &err);
            for (int i = 0; i < 4; i++) {
                struct tables r;
                make_tables(&r, counts[i], zeros, zeros, -1);
                rig_ok(fake_restore(&r.root->trackable, rig_path("x"), &err), &err);
                check_parts(&r, false, table);
                check_parts(&r, true, slot);
                free_tables(&r);
            }
        }
        free_tables(&w);
    }
}

/* T56: a part that is not there is told of by its rows. */
static void t56_a_missing_part(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        struct tables w, r;
        sheaf_error err;
        sheaf_tensor *zeros = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(ROWS, COLUMNS), NULL);
        make_tables(&w, 8, zeros, zeros, 3);
        rig_ok(save(&w, NULL, &err), &err);
        make_tables(&r, 1, zeros, zeros, -1);
        rig_fails(fake_restore(&r.root->trackable, rig_path("x"), &err), &err,
                  SHEAF_ERR_INVALID_ARGUMENT, "its slices do not have rows 297552 to 396735");
        free_tables(&w);
        free_tables(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(t56_parts_of_any_number),
        rig_test(t56_a_missing_part),
    };
    return rig_run(tests);
}
