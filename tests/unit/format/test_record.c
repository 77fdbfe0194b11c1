/* SPDX-License-Identifier: Apache-2.0 */
/* TFRecord files: reading (formats.md 2). Expected: tests/golden/tfrecord. */
#include "golden.h"

#include "base/buf.h"
#include "base/file.h"
#include "format/record.h"

#include <sheaf/record.h>

#include <unistd.h>

/* All that a file gives: the records, then how it ends. */
struct content {
    char *bytes[512];
    size_t sizes[512];
    size_t count;
    sheaf_status end;
    sheaf_error err;
    uint64_t offset; /* where the next record would start */
};

static void content_free(struct content *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->bytes[i]);
}

static void content_add(struct content *c, sheaf_bytes record)
{
    assert_true(c->count < 512);
    c->bytes[c->count] = malloc(record.size + 1);
    memcpy(c->bytes[c->count], record.data, record.size);
    c->sizes[c->count++] = record.size;
}

/* Reads in blocks of `block` records. */
static void read_all(struct content *c, const char *path,
                     const struct sheaf__record_options *options, size_t block)
{
    struct sheaf__record_source *s;
    memset(c, 0, sizeof(*c));
    c->end = sheaf__record_source_open(path, options, &s, &c->err);
    if (c->end < 0)
        return;
    sheaf_bytes records[64];
    for (;;) {
        size_t count;
        struct sheaf__object *owner;
        c->end = sheaf__record_source_next(s, records, block, &count, &owner, &c->err);
        if (c->end != SHEAF_OK)
            break;
        assert_true(count > 0 && count <= block);
        for (size_t i = 0; i < count; i++)
            content_add(c, records[i]);
    }
    assert_int_equal(sheaf__record_source_position(s, &c->offset) >= c->count, 1);
    sheaf__record_source_free(s);
}

static sheaf_compression compression_named(const char *name)
{
    static const char *const names[] = {"", "GZIP", "ZLIB", "SNAPPY"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0)
            return (sheaf_compression)(SHEAF_COMPRESSION_NONE + i);
    fail_msg("compression %s", name);
    return SHEAF_COMPRESSION_AUTO;
}

static void compare_record(const json_t *expected, const char *bytes, size_t size, const char *file)
{
    assert_int_equal(size, json_integer_value(json_object_get(expected, "length")));
    const json_t *data = json_object_get(expected, "data");
    if (data) {
        char want[512];
        assert_int_equal(golden_bytes(data, want), size);
        if (memcmp(want, bytes, size) != 0)
            fail_msg("%s: a record has other bytes", file);
        return;
    }
    uint8_t digest[SHEAF__SHA256_SIZE];
    char hex[65];
    struct sheaf__bytes part = {bytes, size};
    assert_int_equal(sheaf__sha256(&part, 1, digest, NULL), SHEAF_OK);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(hex, json_string_value(json_object_get(expected, "sha256")));
}

/* Where we mean to differ from TensorFlow: it throws away what it has decompressed when a check
 * value of the stream is wrong, ignores what follows a ZLIB stream, asks for a negative number of
 * bytes, and cannot read all Snappy blocks that it writes. */
static const struct difference {
    const char *file;
    size_t records;
    sheaf_status end;
} differences[] = {
    {"bad/gzip-crc.tfrecord", 2, SHEAF_ERR_DATA_LOSS},
    {"bad/gzip-length.tfrecord", 2, SHEAF_ERR_DATA_LOSS},
    {"bad/zlib-check.tfrecord", 2, SHEAF_ERR_DATA_LOSS},
    {"bad/gzip-crc-late.tfrecord", 300, SHEAF_ERR_DATA_LOSS},
    {"zlib-twice.tfrecord", 2, SHEAF_END},
    {"zlib-garbage.tfrecord", 2, SHEAF_ERR_DATA_LOSS},
    {"bad/huge-2e64-6.tfrecord", 1, SHEAF_ERR_DATA_LOSS},
    {"bad/snappy-big.tfrecord", 1, SHEAF_END},
};

static const struct difference *difference_of(const char *file)
{
    for (size_t i = 0; i < sizeof(differences) / sizeof(differences[0]); i++) {
        if (strcmp(differences[i].file, file) == 0)
            return &differences[i];
    }
    return NULL;
}

static void check_case(const json_t *c, const struct sheaf__record_options *options, size_t block)
{
    struct content got;
    char path[256];
    const char *file = json_string_value(json_object_get(c, "file"));
    snprintf(path, sizeof(path), "tfrecord/%s", file);
    read_all(&got, rig_golden(path), options, block);
    const json_t *records = json_object_get(c, "records");
    const char *code = json_string_value(json_object_get(json_object_get(c, "end"), "code"));
    sheaf_status end = strcmp(code, "OUT_OF_RANGE") == 0 ? SHEAF_END : SHEAF_ERR_DATA_LOSS;
    size_t count = json_array_size(records);
    const struct difference *d = difference_of(file);
    if (d) {
        end = d->end;
        count = d->records;
    } else if (strstr(file, "-flip.")) {
        count = got.count; /* a flip inside of the deflate stream: the records before it may come */
        assert_true(count <= 1);
    }
    if (got.count != count)
        fail_msg("%s: %zu records, expected %zu", file, got.count, count);
    for (size_t i = 0; i < count && i < json_array_size(records); i++)
        compare_record(json_array_get(records, i), got.bytes[i], got.sizes[i], file);
    /* What TensorFlow passes over in silence at the end of a file is an error unless `lax`. */
    bool compressed = options->compression != SHEAF_COMPRESSION_NONE;
    uint64_t size = (uint64_t)json_integer_value(json_object_get(c, "bytes"));
    if (!options->lax && end == SHEAF_END && !d) {
        bool cut = strstr(file, "-cut-") || strstr(file, "snappy-garbage-3");
        if (compressed ? cut && size > 0 : got.offset < size)
            end = SHEAF_ERR_DATA_LOSS;
    }
    if (got.end != end)
        fail_msg("%s: ended with %s, expected %s: %s", file, sheaf_status_name(got.end),
                 sheaf_status_name(end), got.err.message);
    if (got.end < 0) {
        assert_non_null(strstr(got.err.file, file + (strchr(file, '/') ? 4 : 0)));
        assert_int_not_equal(got.err.record, UINT64_MAX);
        assert_int_not_equal(got.err.offset, UINT64_MAX);
    }
    content_free(&got);
}

static void goldens(bool lax, size_t chunk, size_t block)
{
    json_t *root = golden_json("tfrecord");
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(root, "cases"), i, c)
    {
        struct sheaf__record_options options = {
            .compression = compression_named(json_string_value(json_object_get(c, "compression"))),
            .lax = lax,
            .chunk = chunk};
        check_case(c, &options, block);
    }
    assert_true(i > 80);
    json_decref(root);
}

/* formats.md 2.2, 2.3; T29, T30, T32 */
static void reads_every_golden_strictly(void **state)
{
    (void)state;
    goldens(false, 0, 1);
    goldens(false, 0, 64);
}

static void reads_every_golden_in_chunks(void **state)
{
    (void)state;
    goldens(false, 1 << 20, 1);
    goldens(false, 16, 7);
}

static void reads_every_golden_laxly_as_tensorflow(void **state)
{
    (void)state;
    goldens(true, 0, 3);
    goldens(true, 16, 3);
    assert_non_null(strstr(rig_log_take(), "after the last record are ignored"));
    assert_true(sheaf_counter("record.partial") > 0);
}

static void finds_the_compression_itself(void **state)
{
    (void)state;
    static const char *const files[] = {"two.tfrecord",           "two.tfrecord.gzip",
                                        "two.tfrecord.zlib",      "two.tfrecord.snappy",
                                        "zlib-stored.tfrecord",   "gzip-members.tfrecord",
                                        "snappy-literal.tfrecord"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct content got;
        char path[64];
        snprintf(path, sizeof(path), "tfrecord/%s", files[i]);
        read_all(&got, rig_golden(path), NULL, 8);
        assert_int_equal(got.end, SHEAF_END);
        assert_int_equal(got.count, 2);
        assert_memory_equal(got.bytes[1], "defg", 4);
        content_free(&got);
    }
}

/* T29: file, record, offset, which CRC, found and expected; the next record comes after it. */
static void bad_data_names_its_place_and_reading_goes_on(void **state)
{
    (void)state;
    sheaf_record_reader *r;
    sheaf_error err = {0};
    sheaf_bytes record;
    rig_ok(sheaf_record_reader_open(rig_golden("tfrecord/bad/flip-12.tfrecord"),
                                    SHEAF_COMPRESSION_AUTO, &r, &err),
           &err);
    rig_fails(sheaf_record_reader_next(r, &record, &err), &err, SHEAF_ERR_DATA_LOSS,
              "data CRC of the record is 0x21f1576e, expected 0x");
    assert_int_equal(err.record, 0);
    assert_int_equal(err.offset, 0);
    assert_non_null(strstr(err.file, "flip-12.tfrecord"));
    uint64_t offset;
    assert_int_equal(sheaf_record_reader_position(r, &offset), 1);
    assert_int_equal(offset, 19);
    rig_ok(sheaf_record_reader_next(r, &record, &err), &err);
    assert_int_equal(record.size, 4);
    assert_memory_equal(record.data, "defg", 4);
    assert_int_equal(sheaf_record_reader_next(r, &record, &err), SHEAF_END);
    assert_int_equal(sheaf_record_reader_next(r, &record, &err), SHEAF_END);
    sheaf_record_reader_free(r);
}

static void bad_length_repeats(void **state)
{
    (void)state;
    sheaf_record_reader *r;
    sheaf_error err = {0};
    sheaf_bytes record;
    rig_ok(sheaf_record_reader_open(rig_golden("tfrecord/bad/flip-19.tfrecord"),
                                    SHEAF_COMPRESSION_NONE, &r, &err),
           &err);
    rig_ok(sheaf_record_reader_next(r, &record, &err), &err);
    for (int i = 0; i < 2; i++) {
        rig_fails(sheaf_record_reader_next(r, &record, &err), &err, SHEAF_ERR_DATA_LOSS,
                  "length CRC of the record is");
        assert_int_equal(err.record, 1);
        assert_int_equal(err.offset, 19);
    }
    sheaf_record_reader_free(r);
}

/* T30: says how much is missing. */
static void truncation_says_what_is_missing(void **state)
{
    (void)state;
    static const struct {
        const char *file, *message;
    } cases[] = {
        {"tfrecord/bad/cut-20.tfrecord",
         "truncated record: 11 of the 12 bytes of its header are missing"},
        {"tfrecord/bad/cut-33.tfrecord",
         "truncated record: 6 bytes are missing of its 4 bytes of data and their CRC"},
        {"tfrecord/bad/huge-2e64-1.tfrecord",
         "record of 18446744073709551615 bytes, more than any file holds"},
        {"tfrecord/bad/gzip-cut-41.tfrecord", "its last stream ends without its check value"},
        {"tfrecord/bad/snappy-cut-38.tfrecord", "its last block is not whole"},
        {"tfrecord/bad/snappy-garbage-3.tfrecord", "its last block is not whole"},
        {"tfrecord/bad/text.tfrecord", "is this a TFRecord file"},
        {"tfrecord/bad/zeros.tfrecord", "length CRC of the record is 0x00000000"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct content got;
        read_all(&got, rig_golden(cases[i].file), NULL, 8);
        rig_fails(got.end, &got.err, SHEAF_ERR_DATA_LOSS, cases[i].message);
        content_free(&got);
    }
}

/* Counters know what was read, not what was skipped. */
static void reading_is_counted(void **state)
{
    (void)state;
    static const struct sheaf__record_options ways[] = {{0}, {.chunk = 1 << 20}};
    for (size_t way = 0; way < 2; way++) {
        uint64_t records = sheaf_counter("record.count"), bytes = sheaf_counter("record.bytes");
        struct sheaf__record_source *s;
        struct sheaf__object *owner;
        sheaf_bytes record;
        sheaf_error err = {0};
        uint64_t skipped, start, end;
        size_t count;
        rig_ok(
            sheaf__record_source_open(rig_golden("tfrecord/many.tfrecord"), &ways[way], &s, &err),
            &err);
        rig_ok(sheaf__record_source_skip(s, 5, &skipped, &err), &err);
        sheaf__record_source_position(s, &start);
        for (int i = 0; i < 3; i++)
            rig_ok(sheaf__record_source_next(s, &record, 1, &count, &owner, &err), &err);
        sheaf__record_source_position(s, &end);
        rig_ok(sheaf__record_source_seek(s, 0, 0, &err), &err);
        sheaf__record_source_free(s);
        assert_int_equal(sheaf_counter("record.count") - records, 3);
        assert_int_equal(sheaf_counter("record.bytes") - bytes, end - start);
    }
}

static void missing_file_and_bad_arguments(void **state)
{
    (void)state;
    struct sheaf__record_source *s;
    sheaf_error err = {0};
    rig_fails(sheaf__record_source_open("/no/such/file", NULL, &s, &err), &err, SHEAF_ERR_NOT_FOUND,
              "");
    assert_string_equal(err.file, "/no/such/file");
    struct sheaf__record_options odd = {.compression = (sheaf_compression)9};
    rig_fails(sheaf__record_source_open(rig_golden("tfrecord/two.tfrecord"), &odd, &s, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "compression is 9");
}

/* Record `i` of the large stream below: sizes from 0 to some megabytes. */
static size_t large_size(size_t i)
{
    return i % 97 == 96 ? 3000000 + i : i * i * 31 % 70001;
}

/* The name of a pipe that holds the bytes of a golden file and has ended. */
static const char *pipe_of(const char *golden, int *fd)
{
    static char name[32];
    char *data;
    size_t size;
    int ends[2];
    assert_int_equal(sheaf__file_read_all(rig_golden(golden), 60000, &data, &size, NULL), SHEAF_OK);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], data, size), (ssize_t)size);
    close(ends[1]);
    sheaf__free(data);
    *fd = ends[0];
    snprintf(name, sizeof(name), "/dev/fd/%d", ends[0]);
    return name;
}

static void a_pipe_is_read_once_from_start_to_end(void **state)
{
    (void)state;
    static const char *const FILES[] = {"tfrecord/many.tfrecord", "tfrecord/many.tfrecord.gzip"};
    for (int i = 0; i < 2; i++) {
        struct content got, expected;
        int fd;
        read_all(&expected, rig_golden(FILES[i]), NULL, 64);
        read_all(&got, pipe_of(FILES[i], &fd), NULL, 1);
        close(fd);
        assert_int_equal(expected.end, SHEAF_END);
        assert_int_equal(got.end, SHEAF_END);
        assert_true(got.count > 1);
        assert_int_equal(got.count, expected.count);
        for (size_t k = 0; k < got.count; k++) {
            assert_int_equal(got.sizes[k], expected.sizes[k]);
            assert_memory_equal(got.bytes[k], expected.bytes[k], got.sizes[k]);
        }
        content_free(&got);
        content_free(&expected);
    }
}

static void a_pipe_has_no_way_back(void **state)
{
    (void)state;
    struct sheaf__record_source *s;
    struct sheaf__object *owner;
    sheaf_bytes record;
    sheaf_error err = {0};
    size_t count;
    int fd;
    assert_int_equal(
        sheaf__record_source_open(pipe_of("tfrecord/two.tfrecord", &fd), NULL, &s, &err), SHEAF_OK);
    assert_int_equal(sheaf__record_source_next(s, &record, 1, &count, &owner, &err), SHEAF_OK);
    assert_int_equal(sheaf__record_source_seek(s, 1, 19, &err), SHEAF_ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(err.message, "a pipe, is read once"));
    sheaf__record_source_free(s);
    close(fd);
}

static void large_fill(size_t i, char *out)
{
    for (size_t k = 0; k < large_size(i); k++)
        out[k] = (char)(i * 7 + k * 13 + (k >> 8));
}

#define LARGE 200

static const char *write_large(sheaf_compression compression)
{
    const char *path = rig_path("large.tfrecord");
    sheaf_record_writer *w;
    sheaf_error err = {0};
    rig_ok(sheaf_record_writer_open(path, compression, &w, &err), &err);
    char *data = malloc(4000000);
    for (size_t i = 0; i < LARGE; i++) {
        large_fill(i, data);
        rig_ok(sheaf_record_writer_put(w, (sheaf_bytes){data, large_size(i)}, &err), &err);
    }
    free(data);
    rig_ok(sheaf_record_writer_close(w, true, &err), &err);
    return path;
}

static void check_large(size_t i, sheaf_bytes record)
{
    static char want[4000000];
    large_fill(i, want);
    assert_int_equal(record.size, large_size(i));
    assert_memory_equal(record.data, want, record.size);
}

/* Views stay as they are for as long as their owner has a count, whatever is read meanwhile. */
static void views_live_as_long_as_their_owner(void **state)
{
    (void)state;
    static const struct sheaf__record_options ways[] = {{0},
                                                        {.chunk = 1 << 20},
                                                        {.compression = SHEAF_COMPRESSION_GZIP},
                                                        {.compression = SHEAF_COMPRESSION_SNAPPY}};
    for (size_t way = 0; way < 4; way++) {
        const char *path = write_large(ways[way].compression);
        static sheaf_bytes records[LARGE];
        struct sheaf__object *owners[LARGE], *owner;
        struct sheaf__record_source *s;
        sheaf_error err = {0};
        size_t read = 0, kept = 0, count;
        rig_ok(sheaf__record_source_open(path, &ways[way], &s, &err), &err);
        while (read < LARGE) {
            rig_ok(sheaf__record_source_next(s, records + read, LARGE - read, &count, &owner, &err),
                   &err);
            read += count;
            owners[kept++] = sheaf__ref(owner);
        }
        sheaf__record_source_free(s);
        for (size_t i = 0; i < LARGE; i++)
            check_large(i, records[i]);
        for (size_t i = 0; i < kept; i++)
            sheaf__unref(owners[i]);
    }
}

/* Every position that was given out can be gone to again, forwards and back. */
static void positions_can_be_gone_to(void **state)
{
    (void)state;
    static const struct sheaf__record_options ways[] = {{0},
                                                        {.chunk = 1 << 20},
                                                        {.compression = SHEAF_COMPRESSION_ZLIB},
                                                        {.compression = SHEAF_COMPRESSION_SNAPPY}};
    for (size_t way = 0; way < 4; way++) {
        const char *path = write_large(ways[way].compression);
        uint64_t offsets[LARGE + 1];
        struct sheaf__record_source *s;
        struct sheaf__object *owner;
        sheaf_error err = {0};
        sheaf_bytes record;
        size_t count;
        uint64_t skipped;
        rig_ok(sheaf__record_source_open(path, &ways[way], &s, &err), &err);
        for (size_t i = 0; i <= LARGE; i++) {
            assert_int_equal(sheaf__record_source_position(s, &offsets[i]), i);
            if (i < LARGE)
                rig_ok(sheaf__record_source_skip(s, 1, &skipped, &err), &err);
        }
        assert_int_equal(sheaf__record_source_skip(s, 1, &skipped, &err), SHEAF_END);
        static const size_t visits[] = {5, 150, 149, 0, LARGE - 1, 96};
        for (size_t v = 0; v < sizeof(visits) / sizeof(visits[0]); v++) {
            size_t i = visits[v];
            rig_ok(sheaf__record_source_seek(s, i, offsets[i], &err), &err);
            rig_ok(sheaf__record_source_next(s, &record, 1, &count, &owner, &err), &err);
            check_large(i, record);
        }
        rig_ok(sheaf__record_source_seek(s, LARGE, offsets[LARGE], &err), &err);
        assert_int_equal(sheaf__record_source_next(s, &record, 1, &count, &owner, &err), SHEAF_END);
        rig_fails(sheaf__record_source_seek(s, LARGE + 1, offsets[LARGE] + 100, &err), &err,
                  SHEAF_ERR_DATA_LOSS, "no such position");
        sheaf__record_source_free(s);
    }
}

/* Every byte of a file flipped, one after the other: never anything but the records or an error. */
static void no_flipped_byte_goes_unnoticed(void **state)
{
    (void)state;
    char *good, *path = sheaf__strdup(rig_path("flipped"));
    size_t size;
    sheaf_error err = {0};
    rig_ok(sheaf__file_read_all(rig_golden("tfrecord/two.tfrecord"), 1000, &good, &size, &err),
           &err);
    for (size_t at = 0; at < size; at++) {
        good[at] ^= 0x20;
        rig_ok(sheaf__file_replace(path, good, size, &err), &err);
        good[at] ^= 0x20;
        struct content got;
        read_all(&got, path, NULL, 4);
        assert_int_equal(got.end, SHEAF_ERR_DATA_LOSS);
        assert_int_equal(got.count, at < 19 ? 0 : 1);
        content_free(&got);
    }
    sheaf__free(good);
    sheaf__free(path);
}

static sheaf_status read_file(void *path, sheaf_error *err)
{
    sheaf_record_reader *r;
    sheaf_status status = sheaf_record_reader_open(path, SHEAF_COMPRESSION_AUTO, &r, err);
    if (status < 0)
        return status;
    sheaf_bytes record;
    do {
        status = sheaf_record_reader_next(r, &record, err);
    } while (status == SHEAF_OK);
    sheaf_record_reader_free(r);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    char plain[4096], packed[4096], snapped[4096];
    strcpy(snapped, rig_golden("tfrecord/snappy-split.tfrecord"));
    strcpy(plain, rig_golden("tfrecord/many.tfrecord"));
    strcpy(packed, rig_golden("tfrecord/mib.tfrecord.gzip"));
    sheaf_error err = {0};
    assert_int_equal(read_file(plain, &err), SHEAF_END); /* makes the context's counters */
    assert_true(rig_fail_allocations(read_file, plain) >= 3);
    assert_true(rig_fail_allocations(read_file, packed) >= 5);
    assert_true(rig_fail_allocations(read_file, snapped) >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(reads_every_golden_strictly),
        rig_test(reads_every_golden_in_chunks),
        rig_test(reads_every_golden_laxly_as_tensorflow),
        rig_test(finds_the_compression_itself),
        rig_test(bad_data_names_its_place_and_reading_goes_on),
        rig_test(bad_length_repeats),
        rig_test(truncation_says_what_is_missing),
        rig_test(reading_is_counted),
        rig_test(missing_file_and_bad_arguments),
        rig_test(a_pipe_is_read_once_from_start_to_end),
        rig_test(a_pipe_has_no_way_back),
        rig_test(views_live_as_long_as_their_owner),
        rig_test(positions_can_be_gone_to),
        rig_test(no_flipped_byte_goes_unnoticed),
        rig_test(every_allocation_may_fail),
    };
    return rig_run(tests);
}
