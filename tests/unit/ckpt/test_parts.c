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

/* ---- a table that is stored whole, read in parts ---- */

enum { TABLE_BYTES = ROWS * COLUMNS * 4 };

/* Bytes that this process has read from files so far. */
static long long bytes_read(void)
{
    long long bytes = -1;
    FILE *f = fopen("/proc/self/io", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "rchar: %lld", &bytes), 1);
    fclose(f);
    return bytes;
}

static sheaf_status read_in_parts(int parts, int missing, struct tables *r, sheaf_error *err)
{
    sheaf_tensor *zeros = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(ROWS, COLUMNS), NULL);
    make_tables(r, parts, zeros, zeros, missing);
    return fake_restore(&r->root->trackable, rig_path("x"), err);
}

static void save_whole(sheaf_tensor *table, sheaf_tensor *slot)
{
    sheaf_error err;
    struct tables w;
    make_tables(&w, 1, table, slot, -1);
    rig_ok(save(&w, NULL, &err), &err);
    free_tables(&w);
}

/* Each task reads its rows and no others: together they read the table once. One that takes only some of them reads the rest
 * for the checksum. */
static void rows_are_read_once(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        sheaf_error err;
        struct tables r;
        sheaf_tensor *table = numbers(1), *slot = numbers(77);
        save_whole(table, slot);
        const long long before = bytes_read();
        rig_ok(read_in_parts(8, -1, &r, &err), &err);
        const long long bytes = bytes_read() - before;
        assert_in_range(bytes, 2 * TABLE_BYTES, 2 * TABLE_BYTES + 100000);
        check_parts(&r, false, table);
        check_parts(&r, true, slot);
        free_tables(&r);
        rig_ok(read_in_parts(8, 3, &r, &err), &err);
        free_tables(&r);
    }
}

/* A byte that is wrong is found, though no task has read all that the checksum is of; also where none has read that byte. Nothing
 * is restored then. */
static void a_wrong_byte_is_found(void **state)
{
    (void)state;
    SHEAF_FRAME
    {
        sheaf_error err;
        struct tables r;
        sheaf_tensor *zeros = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(ROWS, COLUMNS), NULL);
        save_whole(numbers(1), numbers(77));
        FILE *f = fopen(rig_path("x.data-00000-of-00002"), "r+b");
        assert_non_null(f);
        assert_int_equal(fseek(f, 12345678, SEEK_SET), 0); /* in a row of part 3 */
        const int c = fgetc(f);
        assert_int_equal(fseek(f, 12345678, SEEK_SET), 0);
        fputc(c ^ 4, f);
        fclose(f);
        for (int missing = -1; missing < 4; missing += 4) {
            rig_fails(read_in_parts(8, missing, &r, &err), &err, SHEAF_ERR_DATA_LOSS,
                      "'table/.ATTRIBUTES/VARIABLE_VALUE': checksum mismatch");
            assert_non_null(strstr(err.file, "x.data-00000-of-00002"));
            if (missing < 0)
                check_parts(&r, false, zeros);
            free_tables(&r);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(t56_parts_of_any_number),
        rig_test(t56_a_missing_part),
        rig_test(rows_are_read_once),
        rig_test(a_wrong_byte_is_found),
    };
    return rig_run(tests);
}
