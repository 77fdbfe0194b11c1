/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include <sys/statvfs.h>

/* T55: tensors of more than 2^31 bytes and of 2^32 elements. Of each there is one in memory at a time, besides a slice
 * where columns are cut, and up to two in the temporary folder: 5.7 GB of memory and 8.9 GB of disk are enough for all. */

static uint32_t word_at(uint32_t i)
{
    return i * 2654435761U;
}

static sheaf_tensor *make(sheaf_dtype dtype, sheaf_shape shape)
{
    sheaf_error err = {0};
    sheaf_tensor *t = sheaf__tensor_new(dtype, shape, NULL, &err);
    rig_ok(t ? SHEAF_OK : err.status, &err);
    uint32_t *words = sheaf__tensor_out(t);
    for (uint64_t i = 0; i < sheaf__tensor_size(t) / 4; i++)
        words[i] = word_at((uint32_t)i);
    return sheaf__tensor_give(t, NULL);
}

static void check(const sheaf_tensor *t)
{
    const uint32_t *words = sheaf_tensor_data(t);
    for (uint64_t i = 0; i < sheaf__tensor_size(t) / 4; i++)
        if (words[i] != word_at((uint32_t)i))
            fail_msg("bytes from %llu on are others", (unsigned long long)i * 4);
}

static uint64_t free_memory(void)
{
    unsigned long long kilobytes = 0;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "MemAvailable: %llu kB", &kilobytes) == 1)
            break;
    if (f)
        fclose(f);
    return (uint64_t)kilobytes << 10;
}

static uint64_t free_disk(void)
{
    struct statvfs s;
    return statvfs(rig_folder(), &s) < 0 ? 0 : (uint64_t)s.f_bavail * s.f_frsize;
}

#define SLICE INT64_C(1200000000)
/* What else the test needs is far below this. */
#define MARGIN (UINT64_C(256) << 20)

static bool has_room(uint64_t bytes, uint64_t slice)
{
    const uint64_t memory = bytes + slice + MARGIN, disk = 2 * bytes + MARGIN;
    if (free_memory() >= memory && free_disk() >= disk)
        return true;
    print_message("# %llu MB of memory and %llu MB in %s are not free\n",
                  (unsigned long long)memory >> 20, (unsigned long long)disk >> 20, rig_folder());
    return false;
}

static void save_and_restore(sheaf_dtype dtype, sheaf_shape shape,
                             const sheaf_sharding_callback *sharding)
{
    struct fake *w = fake_new();
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_error err;
    fake_add(w, make(dtype, shape));
    sheaf_checkpoint_add(c, "w", &w->trackable);
    sheaf_frame_clear();
    rig_ok(sheaf_checkpoint_write(c, rig_path("x"),
                                  &(sheaf_checkpoint_options){.sharding = sharding}, &err),
           &err);
    sheaf_tensor_free(w->values[0]);
    w->values[0] = NULL;
    rig_ok(sheaf_checkpoint_restore(c, rig_path("x"), &err), &err);
    assert_int_equal(sheaf_tensor_dtype(w->values[0]), dtype);
    assert_true(sheaf_shape_equal(sheaf_tensor_shape(w->values[0]), shape));
    check(w->values[0]);
    sheaf_checkpoint_free(c);
    fake_free(w);
    sheaf_frame_clear();
}

static void T55_more_than_31_bits_of_bytes(void **state)
{
    (void)state;
    const sheaf_shape shape = SHEAF_SHAPE(24500000, 22);
    const uint64_t bytes = UINT64_C(2156000000);
    assert_true((uint64_t)sheaf_shape_elements(shape) * sizeof(float) == bytes);
    if (!has_room(bytes, 0))
        skip();
    save_and_restore(SHEAF_FLOAT32, shape, NULL);
}

static void T55_32_bits_of_elements(void **state)
{
    (void)state;
    const sheaf_shape shape = SHEAF_SHAPE(65536, 65536);
    const sheaf_sharding_callback split = sheaf_shard_max_size(SLICE);
    if (!has_room(UINT64_C(1) << 32, SLICE))
        skip();
    save_and_restore(SHEAF_UINT8, shape, NULL);
    save_and_restore(SHEAF_UINT8, shape, &split);
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(T55_more_than_31_bits_of_bytes),
                                       rig_test(T55_32_bits_of_elements)};
    return rig_run(tests);
}
