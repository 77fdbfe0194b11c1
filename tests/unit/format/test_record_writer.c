/* SPDX-License-Identifier: Apache-2.0 */
/* TFRecord files: writing (formats.md 2.1, 2.3). */
#include "golden.h"

#include "base/context.h"
#include "base/file.h"
#include "base/fs.h"
#include "format/record.h"

#include <sheaf/record.h>

#include <errno.h>

static sheaf_status put(sheaf_record_writer *w, const char *data, size_t size, sheaf_error *err)
{
    return sheaf_record_writer_put(w, (sheaf_bytes){data, size}, err);
}

/* Copies the records of one file to another. */
static void copy(const char *from, const char *to, sheaf_compression compression)
{
    sheaf_record_reader *r;
    sheaf_record_writer *w;
    sheaf_error err = {0};
    sheaf_bytes record;
    sheaf_status status;
    rig_ok(sheaf_record_reader_open(from, SHEAF_COMPRESSION_AUTO, &r, &err), &err);
    rig_ok(sheaf_record_writer_open(to, compression, &w, &err), &err);
    while ((status = sheaf_record_reader_next(r, &record, &err)) == SHEAF_OK)
        rig_ok(sheaf_record_writer_put(w, record, &err), &err);
    assert_int_equal(status, SHEAF_END);
    rig_ok(sheaf_record_writer_close(w, false, &err), &err);
    sheaf_record_reader_free(r);
}

static void assert_same_files(const char *a, const char *b)
{
    char *one, *other;
    size_t one_size, other_size;
    sheaf_error err = {0};
    rig_ok(sheaf__file_read_all(a, 1 << 24, &one, &one_size, &err), &err);
    rig_ok(sheaf__file_read_all(b, 1 << 24, &other, &other_size, &err), &err);
    assert_int_equal(one_size, other_size);
    assert_memory_equal(one, other, one_size);
    sheaf__free(one);
    sheaf__free(other);
}

static const char *const goldens[] = {"tfrecord/empty.tfrecord", "tfrecord/two.tfrecord",
                                      "tfrecord/empty-record.tfrecord", "tfrecord/many.tfrecord"};

static void plain_files_are_tensorflows_byte_for_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(goldens) / sizeof(goldens[0]); i++) {
        const char *path = rig_path("copy");
        copy(rig_golden(goldens[i]), path, SHEAF_COMPRESSION_AUTO);
        assert_same_files(path, rig_golden(goldens[i]));
    }
}

static void compressed_files_hold_the_same_stream(void **state)
{
    (void)state;
    static const sheaf_compression kinds[] = {SHEAF_COMPRESSION_GZIP, SHEAF_COMPRESSION_ZLIB,
                                              SHEAF_COMPRESSION_SNAPPY};
    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i < sizeof(goldens) / sizeof(goldens[0]); i++) {
            const char *packed = rig_path("packed"), *back = rig_path("back");
            copy(rig_golden(goldens[i]), packed, kinds[k]);
            struct sheaf__file_stat stat;
            sheaf_error err = {0};
            rig_ok(sheaf__file_stat(packed, &stat, &err), &err);
            if (kinds[k] != SHEAF_COMPRESSION_SNAPPY)
                assert_true(stat.size > 0); /* an empty stream has its frame, too */
            copy(packed, back, SHEAF_COMPRESSION_NONE);
            assert_same_files(back, rig_golden(goldens[i]));
        }
    }
}

/* Larger than every buffer on the way, in all forms. */
static void records_of_any_size(void **state)
{
    (void)state;
    size_t sizes[] = {0, 1, 262143, 262144, 262145, 5000000, 3};
    char *data = malloc(5000000);
    for (size_t i = 0; i < 5000000; i++)
        data[i] = (char)(i * i >> 7);
    for (int kind = SHEAF_COMPRESSION_NONE; kind <= SHEAF_COMPRESSION_SNAPPY; kind++) {
        sheaf_record_writer *w;
        sheaf_record_reader *r;
        sheaf_error err = {0};
        sheaf_bytes record;
        const char *path = rig_path("sizes");
        rig_ok(sheaf_record_writer_open(path, (sheaf_compression)kind, &w, &err), &err);
        for (size_t i = 0; i < 7; i++)
            rig_ok(put(w, data, sizes[i], &err), &err);
        rig_ok(sheaf_record_writer_close(w, true, &err), &err);
        rig_ok(sheaf_record_reader_open(path, SHEAF_COMPRESSION_AUTO, &r, &err), &err);
        for (size_t i = 0; i < 7; i++) {
            rig_ok(sheaf_record_reader_next(r, &record, &err), &err);
            assert_int_equal(record.size, sizes[i]);
            assert_memory_equal(record.data, data, record.size);
        }
        assert_int_equal(sheaf_record_reader_next(r, &record, &err), SHEAF_END);
        sheaf_record_reader_free(r);
    }
    free(data);
}

/* A plain record that fits in the buffer reaches the file whole: readers of a growing file (TensorBoard)
 * never see half of one. */
static void whole_records_are_handed_over(void **state)
{
    (void)state;
    sheaf_record_writer *w;
    sheaf_error err = {0};
    char data[1000];
    memset(data, 'x', sizeof(data));
    const char *path = rig_path("growing");
    rig_ok(sheaf_record_writer_open(path, SHEAF_COMPRESSION_NONE, &w, &err), &err);
    for (int i = 0; i < 2000; i++) {
        struct sheaf__file_stat stat;
        rig_ok(put(w, data, (size_t)(i % 1000), &err), &err);
        rig_ok(sheaf__file_stat(path, &stat, &err), &err);
        sheaf_record_reader *r;
        sheaf_bytes record;
        sheaf_status status = SHEAF_OK;
        if (i % 100)
            continue;
        rig_ok(sheaf_record_reader_open(path, SHEAF_COMPRESSION_NONE, &r, &err), &err);
        while (status == SHEAF_OK)
            status = sheaf_record_reader_next(r, &record, &err);
        assert_int_equal(status, SHEAF_END);
        sheaf_record_reader_free(r);
    }
    rig_ok(sheaf_record_writer_close(w, false, &err), &err);
}

/* A full disk is told by the call that meets it, and again by the close. */
static void a_failed_write_is_told_and_stays(void **state)
{
    (void)state;
    static char data[300000];
    for (int kind = SHEAF_COMPRESSION_NONE; kind <= SHEAF_COMPRESSION_SNAPPY; kind++) {
        struct sheaf__fs *fs = sheaf__fs_faulty_new(sheaf__fs_system());
        const struct sheaf__fs *before = sheaf__context_fs(sheaf__context());
        sheaf__context_set_fs(sheaf__context(), fs);
        sheaf__fs_faulty_set(
            fs, &(struct sheaf__fs_fault){.fail_at = 1, .kinds = SHEAF__FS_WRITE, .code = ENOSPC});
        sheaf_record_writer *w;
        sheaf_error err = {0};
        sheaf_status status = SHEAF_OK;
        uint32_t random = 1;
        for (size_t i = 0; i < sizeof(data); i++) {
            random = random * 1664525 + 1013904223;
            data[i] = (char)(random >> 24);
        }
        rig_ok(sheaf_record_writer_open(rig_path("full"), (sheaf_compression)kind, &w, &err), &err);
        for (int i = 0; i < 10 && status >= 0; i++)
            status = put(w, data, sizeof(data), &err);
        rig_fails(status, &err, SHEAF_ERR_RESOURCE_EXHAUSTED, "");
        err = (sheaf_error){0};
        rig_fails(put(w, data, 1, &err), &err, SHEAF_ERR_RESOURCE_EXHAUSTED, "");
        rig_fails(sheaf_record_writer_close(w, true, &err), &err, SHEAF_ERR_RESOURCE_EXHAUSTED, "");
        assert_non_null(strstr(err.file, "full"));
        sheaf__context_set_fs(sheaf__context(), before);
        sheaf__fs_faulty_free(fs);
    }
}

static void places_that_cannot_be_written(void **state)
{
    (void)state;
    sheaf_record_writer *w;
    sheaf_error err = {0};
    rig_fails(sheaf_record_writer_open("/no/such/folder/file", SHEAF_COMPRESSION_NONE, &w, &err),
              &err, SHEAF_ERR_NOT_FOUND, "");
    rig_fails(sheaf_record_writer_open(rig_path("x"), (sheaf_compression)7, &w, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "compression is 7");
    assert_false(sheaf__file_exists(rig_path("x")));
}

static sheaf_status write_some(void *path, sheaf_error *err)
{
    for (int kind = SHEAF_COMPRESSION_NONE; kind <= SHEAF_COMPRESSION_SNAPPY; kind++) {
        sheaf_record_writer *w;
        sheaf_status status = sheaf_record_writer_open(path, (sheaf_compression)kind, &w, err);
        if (status < 0)
            return status;
        status = put(w, "some", 4, err);
        sheaf_status closed = sheaf_record_writer_close(w, false, err);
        if (status < 0 || closed < 0)
            return status < 0 ? status : closed;
    }
    return SHEAF_OK;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    char path[4096];
    strcpy(path, rig_path("failing"));
    assert_true(rig_fail_allocations(write_some, path) >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(plain_files_are_tensorflows_byte_for_byte),
        rig_test(compressed_files_hold_the_same_stream),
        rig_test(records_of_any_size),
        rig_test(whole_records_are_handed_over),
        rig_test(a_failed_write_is_told_and_stays),
        rig_test(places_that_cannot_be_written),
        rig_test(every_allocation_may_fail),
    };
    return rig_run(tests);
}
