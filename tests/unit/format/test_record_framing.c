/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of text and records of fixed size (R9.34, R9.35) in files that are mapped, read in chunks, or
 * compressed: all give what a naive reader finds in the bytes. */
#include "rig.h"

#include "base/context.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/inflate.h"
#include "base/mem.h"
#include "base/random.h"
#include "format/record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE (5 * 1024 * 1024 / 2) /* some chunks */

/* ---- files ---- */

static const char *write_plain(const char *name, const void *data, size_t size)
{
    const char *path = rig_path(name);
    sheaf_error err = {0};
    rig_ok(sheaf__file_replace(path, data, size, &err), &err);
    return path;
}

/* `cut` bytes at the end are left away. */
static const char *write_packed(const char *name, enum sheaf__zip kind, const void *data,
                                size_t size, size_t cut)
{
    struct sheaf__deflate *z;
    sheaf_error err = {0};
    uint8_t *packed = malloc(size + 4096);
    struct sheaf__zip_io io = {data, size, packed, size + 4096};
    rig_ok(sheaf__deflate_new(kind, 1, &z, &err), &err);
    assert_int_equal(sheaf__deflate_next(z, &io, true, &err), SHEAF_END);
    sheaf__deflate_free(z);
    const char *path = write_plain(name, packed, size + 4096 - io.out_size - cut);
    free(packed);
    return path;
}

/* The ways to read the same bytes: each is a file and options to open it with. */
struct way {
    const char *path;
    struct sheaf__record_options options;
};
#define WAYS 4

static void make_ways(struct way ways[WAYS], const struct sheaf__record_options *options,
                      const void *data, size_t size)
{
    for (int i = 0; i < WAYS; i++)
        ways[i].options = *options;
    ways[0].path = write_plain("plain", data, size);
    ways[1].path = ways[0].path;
    ways[1].options.chunk = 1001;
    ways[2].path = write_packed("gz", SHEAF__ZIP_GZIP, data, size, 0);
    ways[2].options.compression = SHEAF_COMPRESSION_GZIP;
    ways[3].path = write_packed("zz", SHEAF__ZIP_ZLIB, data, size, 0);
    ways[3].options.compression = SHEAF_COMPRESSION_ZLIB;
}

/* ---- what must come out ---- */

/* Records one after the other, and where each ends. */
struct records {
    char *bytes;
    size_t size, room;
    size_t *ends;
    size_t count, capacity;
};

static void records_free(struct records *r)
{
    free(r->bytes);
    free(r->ends);
}

static void add(struct records *r, const char *data, size_t size)
{
    if (r->count == r->capacity) {
        r->capacity = 2 * r->capacity + 64;
        r->ends = realloc(r->ends, r->capacity * sizeof(*r->ends));
    }
    if (r->size + size >= r->room) {
        r->room = 2 * (r->size + size) + 64;
        r->bytes = realloc(r->bytes, r->room);
    }
    memcpy(r->bytes + r->size, data, size);
    r->size += size;
    r->ends[r->count++] = r->size;
}

/* R9.34, byte by byte. */
static struct records lines_of(const char *text, size_t size)
{
    struct records r = {0};
    char *line = malloc(size + 1);
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\n') {
            add(&r, line, n);
            n = 0;
        } else if (text[i] != '\r') {
            line[n++] = text[i];
        }
    }
    if (n > 0)
        add(&r, line, n);
    free(line);
    return r;
}

static struct records read_all(const struct way *way, size_t block, sheaf_status *end,
                               sheaf_error *err)
{
    struct records r = {0};
    struct sheaf__record_source *s;
    rig_ok(sheaf__record_source_open(way->path, &way->options, &s, err), err);
    for (;;) {
        sheaf_bytes views[64];
        size_t count;
        struct sheaf__object *owner;
        *end = sheaf__record_source_next(s, views, block, &count, &owner, err);
        if (*end != SHEAF_OK)
            break;
        assert_true(count > 0 && count <= block);
        assert_int_equal(sheaf__record_source_position(s, NULL), r.count + count);
        for (size_t i = 0; i < count; i++)
            add(&r, views[i].data, views[i].size);
    }
    sheaf_bytes again;
    assert_int_equal(
        sheaf__record_source_next(s, &again, 1, &(size_t){0}, &(struct sheaf__object *){0}, err),
        *end);
    sheaf__record_source_free(s);
    return r;
}

static void assert_same(const struct records *found, const struct records *expected)
{
    assert_int_equal(found->count, expected->count);
    assert_int_equal(found->size, expected->size);
    if (found->count > 0)
        assert_memory_equal(found->ends, expected->ends, found->count * sizeof(*found->ends));
    if (found->size > 0)
        assert_memory_equal(found->bytes, expected->bytes, found->size);
}

static void check_all_ways(const struct sheaf__record_options *options, const void *data,
                           size_t size, const struct records *expected)
{
    static const size_t blocks[] = {1, 7, 64};
    struct way ways[WAYS];
    make_ways(ways, options, data, size);
    for (size_t w = 0; w < WAYS; w++)
        for (size_t b = 0; b < 3; b++) {
            sheaf_status end;
            sheaf_error err = {0};
            struct records found = read_all(&ways[w], blocks[b], &end, &err);
            assert_int_equal(end, SHEAF_END);
            assert_same(&found, expected);
            records_free(&found);
        }
}

/* ---- lines ---- */

static const struct sheaf__record_options lines = {.framing = &sheaf__framing_lines};

static void lines_of_small_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
    } cases[] = {{"", 0},           {"\n", 1},          {"\r", 1},        {"\r\n", 2},
                 {"a", 1},          {"a\n", 2},         {"a\r\n", 3},     {"a\rb\nc\r", 6},
                 {"a\n\r", 3},      {"\r\ra\r\r\n", 6}, {"\n\na\n\n", 5}, {"a\0b\nc\n", 6},
                 {"\n\r\r\n\r", 5}, {"a\r\rb\r", 5}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct records expected = lines_of(cases[i].text, cases[i].size);
        check_all_ways(&lines, cases[i].text, cases[i].size, &expected);
        records_free(&expected);
    }
}

/* Lines from empty to 1.5 MB, all line ends, returns in their midst. */
static char *random_text(uint64_t seed, size_t size)
{
    char *text = malloc(size);
    struct sheaf__philox r;
    sheaf__philox_init(&r, seed, 0);
    size_t at = 0;
    while (at < size) {
        uint64_t draw = sheaf__philox_below(&r, 1000);
        size_t length = at == 0 ? 1500000 : draw < 10 ? 5000 : draw % 60;
        for (size_t i = 0; i < length && at < size; i++)
            text[at++] = (char)('a' + i % 26);
        if (draw % 5 == 0 && at < size)
            text[at++] = '\r';
        if (draw % 17 != 0 && at < size)
            text[at++] = '\n';
    }
    return text;
}

static void lines_of_large_texts(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        char *text = random_text(seed, LARGE + seed);
        struct records expected = lines_of(text, LARGE + seed);
        assert_true(expected.count > 1000);
        check_all_ways(&lines, text, LARGE + seed, &expected);
        records_free(&expected);
        free(text);
    }
}

/* What is kept stays as it is, whatever is read meanwhile; a copied line, too. */
static void lines_live_as_long_as_their_owner(void **state)
{
    (void)state;
    char *text = random_text(9, LARGE);
    struct records expected = lines_of(text, LARGE), found = {0};
    struct way ways[WAYS];
    make_ways(ways, &lines, text, LARGE);
    sheaf_bytes *views = malloc(expected.count * sizeof(*views));
    void **owners = malloc(expected.count * sizeof(*owners));
    for (size_t w = 0; w < WAYS; w++) {
        struct sheaf__record_source *s;
        sheaf_error err = {0};
        size_t read = 0, kept = 0, count;
        struct sheaf__object *owner;
        rig_ok(sheaf__record_source_open(ways[w].path, &ways[w].options, &s, &err), &err);
        while (read < expected.count) {
            rig_ok(sheaf__record_source_next(s, views + read, expected.count - read, &count, &owner,
                                             &err),
                   &err);
            owners[kept++] = sheaf__ref(owner);
            read += count;
        }
        sheaf__record_source_free(s);
        for (size_t i = 0; i < read; i++)
            add(&found, views[i].data, views[i].size);
        assert_same(&found, &expected);
        records_free(&found);
        found = (struct records){0};
        while (kept > 0)
            sheaf__unref(owners[--kept]);
    }
    free(owners);
    free(views);
    records_free(&expected);
    free(text);
}

/* Every position that was given out can be gone to; skipping leads where reading does. */
static void positions_can_be_gone_to(void **state)
{
    (void)state;
    char *text = random_text(5, LARGE);
    struct records expected = lines_of(text, LARGE);
    struct way ways[WAYS];
    make_ways(ways, &lines, text, LARGE);
    for (size_t w = 0; w < WAYS; w++) {
        struct sheaf__record_source *s;
        struct sheaf__object *owner;
        sheaf_error err = {0};
        sheaf_bytes line;
        size_t count, middle = expected.count / 2;
        uint64_t skipped, offset;
        rig_ok(sheaf__record_source_open(ways[w].path, &ways[w].options, &s, &err), &err);
        rig_ok(sheaf__record_source_skip(s, middle, &skipped, &err), &err);
        assert_int_equal(sheaf__record_source_position(s, &offset), middle);
        for (int round = 0; round < 2; round++) {
            rig_ok(sheaf__record_source_next(s, &line, 1, &count, &owner, &err), &err);
            assert_int_equal(line.size, expected.ends[middle] - expected.ends[middle - 1]);
            rig_ok(sheaf__record_source_seek(s, 0, 0, &err), &err);
            rig_ok(sheaf__record_source_seek(s, middle, offset, &err), &err);
        }
        assert_int_equal(sheaf__record_source_skip(s, UINT64_MAX, &skipped, &err), SHEAF_END);
        assert_int_equal(skipped, expected.count - middle);
        sheaf__record_source_free(s);
    }
    records_free(&expected);
    free(text);
}

/* gzip is known by its first bytes; text that begins like zlib is text. */
static void compression_of_text(void **state)
{
    (void)state;
    static const char curve[] = "x^2\nx\x9cy\n";
    struct way gz = {write_packed("gz", SHEAF__ZIP_GZIP, curve, 8, 0), lines};
    struct way plain = {write_plain("plain", curve, 8), lines};
    struct records expected = lines_of(curve, 8);
    sheaf_status end;
    sheaf_error err = {0};
    struct records a = read_all(&gz, 8, &end, &err), b = read_all(&plain, 8, &end, &err);
    assert_same(&a, &expected);
    assert_same(&b, &expected);
    records_free(&a);
    records_free(&b);
    records_free(&expected);
}

/* T30: the whole lines come, the cut one does not; then what is wrong and where. */
static void cut_compressed_text(void **state)
{
    (void)state;
    static const char text[] = "one\ntwo\nthree";
    struct way way = {write_packed("gz", SHEAF__ZIP_GZIP, text, sizeof(text) - 1, 8), lines};
    sheaf_status end;
    sheaf_error err = {0};
    struct records found = read_all(&way, 8, &end, &err);
    struct records expected = lines_of("one\ntwo\n", 8);
    rig_fails(end, &err, SHEAF_ERR_DATA_LOSS, "truncated compressed file");
    assert_non_null(strstr(err.file, "gz"));
    assert_int_equal(err.record, 2);
    assert_int_equal(err.offset, 8);
    assert_same(&found, &expected);
    records_free(&found);
    records_free(&expected);
}

/* A read that fails, as on a network file system: what came before is good, then the file, the line
 * and the system's reason; it does not become an end. */
static void failing_reads(void **state)
{
    (void)state;
    struct way way = {write_plain("plain", "one\ntwo\nthree\nfour\n", 19), lines};
    struct sheaf__fs *fs = sheaf__fs_faulty_new(sheaf__fs_system());
    const struct sheaf__fs *before = sheaf__context_fs(sheaf__context());
    sheaf_error err = {0};
    sheaf_status end;
    way.options.chunk = 10;
    way.options.compression = SHEAF_COMPRESSION_NONE;
    sheaf__context_set_fs(sheaf__context(), fs);
    sheaf__fs_faulty_set(fs,
                         &(struct sheaf__fs_fault){
                             .fail_at = 2, .kinds = SHEAF__FS_READ, .code = EIO, .sticky = true});
    struct records found = read_all(&way, 8, &end, &err);
    struct records expected = lines_of("one\ntwo\n", 8);
    rig_fails(end, &err, SHEAF_ERR_IO, "cannot read");
    assert_non_null(strstr(err.file, "plain"));
    assert_int_equal(err.record, 2);
    assert_int_equal(err.offset, 8);
    assert_same(&found, &expected);
    records_free(&found);
    records_free(&expected);
    sheaf__context_set_fs(sheaf__context(), before);
    sheaf__fs_faulty_free(fs);
}

/* ---- fixed size ---- */

static void fixed_records_of_large_files(void **state)
{
    (void)state;
    static const struct sheaf__fixed cases[] = {
        {1, 0, 0}, {4096, 0, 0}, {7, 3, 0}, {7, 0, 5}, {500003, 1100001, 0}, {300007, 1, 1200000}};
    uint8_t *data = malloc(LARGE + 100);
    for (size_t i = 0; i < LARGE + 100; i++)
        data[i] = (uint8_t)(i * 31 + (i >> 11));
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        const struct sheaf__fixed f = cases[c];
        const struct sheaf__record_options options = {.framing = &sheaf__framing_fixed, .fixed = f};
        size_t count = f.size == 1 ? 20000 : (LARGE - f.header - f.footer) / f.size;
        struct records expected = {0};
        for (size_t i = 0; i < count; i++)
            add(&expected, (char *)data + f.header + i * f.size, f.size);
        check_all_ways(&options, data, f.header + count * f.size + f.footer, &expected);
        records_free(&expected);
    }
    free(data);
}

/* R9.35: of a compressed file the records come before its size is known. */
static void odd_bodies(void **state)
{
    (void)state;
    static const char data[] = "abcdefghijklmnopqrst";
    static const struct sheaf__fixed three = {.size = 3}, headed = {1, 21, 0};
    struct way ways[WAYS];
    struct sheaf__record_options options = {.framing = &sheaf__framing_fixed, .fixed = three};
    sheaf_error err = {0};
    sheaf_status end;
    struct sheaf__record_source *s;
    make_ways(ways, &options, data, 20);
    for (int w = 0; w < 2; w++)
        rig_fails(sheaf__record_source_open(ways[w].path, &ways[w].options, &s, &err), &err,
                  SHEAF_ERR_INVALID_ARGUMENT,
                  "20 bytes between a header of 0 and a footer of 0, expected a multiple of 3");
    for (int w = 2; w < WAYS; w++) {
        struct records found = read_all(&ways[w], 4, &end, &err);
        rig_fails(end, &err, SHEAF_ERR_DATA_LOSS, "20 bytes between a header of 0");
        assert_int_equal(found.count, 6);
        assert_int_equal(err.record, 6);
        assert_int_equal(err.offset, 18);
        records_free(&found);
    }
    options.fixed = headed;
    make_ways(ways, &options, data, 20);
    for (int w = 0; w < 2; w++)
        rig_fails(sheaf__record_source_open(ways[w].path, &ways[w].options, &s, &err), &err,
                  SHEAF_ERR_INVALID_ARGUMENT, "the file has 20 bytes, expected a header of 21");
    for (int w = 2; w < WAYS; w++) {
        struct records found = read_all(&ways[w], 4, &end, &err);
        rig_fails(end, &err, SHEAF_ERR_INVALID_ARGUMENT, "the file has 20 bytes");
        assert_int_equal(found.count, 0);
        records_free(&found);
    }
}

/* Sizes that no file has are no overflow. */
static void huge_sizes(void **state)
{
    (void)state;
    static const struct sheaf__fixed cases[] = {{INT64_MAX, 0, 0},
                                                {1, INT64_MAX, INT64_MAX},
                                                {INT64_MAX, INT64_MAX, INT64_MAX},
                                                {1, 0, INT64_MAX}};
    static const sheaf_status plain[] = {SHEAF_ERR_INVALID_ARGUMENT, SHEAF_ERR_INVALID_ARGUMENT,
                                         SHEAF_ERR_INVALID_ARGUMENT, SHEAF_END};
    static const sheaf_status packed[] = {SHEAF_ERR_DATA_LOSS, SHEAF_ERR_INVALID_ARGUMENT,
                                          SHEAF_ERR_INVALID_ARGUMENT, SHEAF_END};
    for (size_t c = 0; c < 4; c++) {
        struct way ways[WAYS];
        const struct sheaf__record_options options = {.framing = &sheaf__framing_fixed,
                                                      .fixed = cases[c]};
        make_ways(ways, &options, "abc", 3);
        for (size_t w = 0; w < WAYS; w++) {
            struct sheaf__record_source *s;
            struct sheaf__object *owner;
            sheaf_error err = {0};
            sheaf_bytes view;
            size_t count;
            sheaf_status status =
                sheaf__record_source_open(ways[w].path, &ways[w].options, &s, &err);
            if (status >= 0) {
                status = sheaf__record_source_next(s, &view, 1, &count, &owner, &err);
                sheaf__record_source_free(s);
            }
            assert_int_equal(status, w < 2 ? plain[c] : packed[c]);
        }
    }
}

/* ---- memory ---- */

static sheaf_status read_way(void *user, sheaf_error *err)
{
    const struct way *way = user;
    struct sheaf__record_source *s;
    sheaf_bytes views[4];
    size_t count;
    struct sheaf__object *owner;
    SHEAF__TRY(sheaf__record_source_open(way->path, &way->options, &s, err));
    sheaf_status status;
    do {
        status = sheaf__record_source_next(s, views, 4, &count, &owner, err);
    } while (status == SHEAF_OK);
    sheaf__record_source_free(s);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    char *text = random_text(2, LARGE);
    struct way ways[WAYS];
    sheaf_error err = {0};
    make_ways(ways, &lines, text, LARGE);
    assert_int_equal(read_way(&ways[0], &err), SHEAF_END); /* makes the context's counters */
    for (size_t w = 0; w < WAYS; w++)
        assert_true(rig_fail_allocations(read_way, &ways[w]) >= (w == 0 ? 3 : 4));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(lines_of_small_texts),
        rig_test(lines_of_large_texts),
        rig_test(lines_live_as_long_as_their_owner),
        rig_test(positions_can_be_gone_to),
        rig_test(compression_of_text),
        rig_test(cut_compressed_text),
        rig_test(failing_reads),
        rig_test(fixed_records_of_large_files),
        rig_test(odd_bodies),
        rig_test(huge_sizes),
        rig_test(every_allocation_may_fail),
    };
    return rig_run(tests);
}
