/* SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"

#include "base/context.h"
#include "base/fs.h"
#include "format/bundle.h"

#include <errno.h>

/* Tensors that several threads read (format/bundle_stripes.c). */

/* Five stripes and a piece of one, and how many reads that takes. */
enum {
    COUNT = (5 * SHEAF__BUNDLE_STRIPE + 12) / 4,
    READS = 5 * SHEAF__BUNDLE_STRIPE / SHEAF__BUNDLE_SCRATCH + 1
};

static uint32_t value_at(uint32_t i)
{
    return i * 2654435761U;
}

static void write_large(const char *prefix)
{
    struct sheaf__bundle_writer *w = NULL;
    sheaf_error err;
    uint32_t *values = malloc(COUNT * sizeof(*values));
    for (uint32_t i = 0; i < COUNT; i++)
        values[i] = value_at(i);
    rig_ok(sheaf__bundle_writer_open(prefix, &w, &err), &err);
    rig_ok(sheaf__bundle_writer_add(w, "a", 1, NULL, NULL, sheaf_float(1), &err), &err);
    rig_ok(sheaf__bundle_writer_add(w, "b", 1, NULL, NULL,
                                    sheaf_tensor_new(SHEAF_UINT32, SHEAF_SHAPE(COUNT), values),
                                    &err),
           &err);
    rig_ok(sheaf__bundle_writer_finish(w, &err), &err);
    free(values);
}

static void every_stripe(void **state)
{
    (void)state;
    const char *prefix = rig_path("large");
    sheaf_bundle *b = NULL;
    sheaf_tensor *t = NULL;
    sheaf_error err;
    write_large(prefix);
    rig_ok(sheaf_bundle_open(prefix, &b, &err), &err);
    for (int big = 0; big < 2; big++) {
        b->index.big_endian = big;
        rig_ok(sheaf_bundle_read(b, "b", &t, &err), &err);
        const uint32_t *values = sheaf_tensor_data(t);
        for (uint32_t i = 0; i < COUNT; i++)
            if (values[i] != (big ? __builtin_bswap32(value_at(i)) : value_at(i)))
                fail_msg("element %u of a %s endian file", i, big ? "big" : "little");
    }
    sheaf_bundle_free(b);
    sheaf_frame_clear();
}

/* A flipped bit is found wherever it is; a file that ends too soon, too. */
static void damage_is_found(void **state)
{
    (void)state;
    const char *prefix = rig_path("damaged");
    sheaf_error err;
    write_large(prefix);
    char *path = sheaf__bundle_data_path(prefix, 0, 1), *data = NULL;
    size_t size = 0;
    rig_ok(sheaf__file_read_all(path, SIZE_MAX, &data, &size, &err), &err);
    for (size_t at = 4; at <= size; at += (size - 4) / 7) {
        sheaf_bundle *b = NULL;
        sheaf_tensor *t = NULL;
        data[at < size ? at : size - 1] ^= 0x10;
        rig_ok(sheaf__file_replace(path, data, size, &err), &err);
        rig_ok(sheaf_bundle_open(prefix, &b, &err), &err);
        rig_fails(sheaf_bundle_read(b, "b", &t, &err), &err, SHEAF_ERR_DATA_LOSS,
                  "tensor 'b': checksum mismatch: stored ");
        assert_int_equal(err.offset, 4);
        sheaf_bundle_free(b);
        data[at < size ? at : size - 1] ^= 0x10;
    }
    sheaf__free(data);
    sheaf__free(path);
}

/* Whichever read fails, it is the error, and nothing is lost of it. */
static void reads_that_fail(void **state)
{
    (void)state;
    struct sheaf__fs *faulty = sheaf__fs_faulty_new(sheaf__fs_system());
    const char *prefix = rig_path("failing");
    sheaf_error err;
    int failed = 0;
    write_large(prefix);
    sheaf__context_set_fs(sheaf__context(), faulty);
    for (uint64_t k = 1; k < 100; k++) {
        sheaf_bundle *b = NULL;
        sheaf_tensor *t = NULL;
        rig_ok(sheaf_bundle_open(prefix, &b, &err), &err);
        sheaf__fs_faulty_set(faulty, &(struct sheaf__fs_fault){k, SHEAF__FS_READ, EIO, false});
        sheaf_status status = sheaf_bundle_read(b, "b", &t, &err);
        const bool hit = sheaf__fs_faulty_hit(faulty);
        sheaf__fs_faulty_set(faulty, &(struct sheaf__fs_fault){0});
        sheaf_bundle_free(b);
        if (!hit) {
            rig_ok(status, &err);
            break;
        }
        rig_fails(status, &err, SHEAF_ERR_IO, "");
        assert_non_null(strstr(err.file, "failing.data-00000-of-00001"));
        failed++;
    }
    assert_int_equal(failed, READS);
    sheaf__context_set_fs(sheaf__context(), NULL);
    sheaf__fs_faulty_free(faulty);
    sheaf_frame_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(every_stripe), rig_test(damage_is_found),
                                       rig_test(reads_that_fail)};
    return rig_run(tests);
}
