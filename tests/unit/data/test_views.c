/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include <unistd.h>

/* Records are views of their files. Whoever keeps elements keeps what they view: until the last of
 * them is gone, whatever was read, closed and opened meanwhile. */

#define FILES   3
#define RECORDS 7
#define ALL     (FILES * RECORDS)

/* Record `n` of all has these bytes and no others. */
static int text_of_number(int n, char text[16])
{
    return snprintf(text, 16, "%09d", n);
}

static const char *path_of(const char *kind, int file)
{
    char name[64];
    snprintf(name, sizeof(name), "%s-%d", kind, file);
    return rig_path(name);
}

static void write_records(const char *path, int first, sheaf_compression compression)
{
    sheaf_record_writer *w;
    sheaf_error err;
    rig_ok(sheaf_record_writer_open(path, compression, &w, &err), &err);
    for (int i = first; i < first + RECORDS; i++) {
        char text[16];
        const size_t size = (size_t)text_of_number(i, text);
        rig_ok(sheaf_record_writer_put(w, (sheaf_bytes){text, size}, &err), &err);
    }
    rig_ok(sheaf_record_writer_close(w, false, &err), &err);
}

static void write_text(const char *path, int first, const char *end)
{
    char all[RECORDS * 16 + 1];
    size_t used = 0;
    sheaf_error err;
    for (int i = first; i < first + RECORDS; i++) {
        used += (size_t)text_of_number(i, all + used);
        used += (size_t)sprintf(all + used, "%s", end);
    }
    rig_ok(sheaf__file_replace(path, all, used, &err), &err);
}

/* ---- sources ---- */

static sheaf_dataset *tfrecords(const char *const *paths, size_t count)
{
    return sheaf_tfrecord_files(paths, count);
}

static sheaf_dataset *lines(const char *const *paths, size_t count)
{
    return sheaf_text_lines_files(paths, count, NULL);
}

static sheaf_dataset *fixed(const char *const *paths, size_t count)
{
    const sheaf_fixed_records_options o = {.record_bytes = 9};
    return sheaf_fixed_records_files(paths, count, &o);
}

static sheaf_dataset *csv(const char *const *paths, size_t count)
{
    const sheaf_csv_column column = {.dtype = SHEAF_STRING};
    const sheaf_csv_options o = {.columns = &column, .column_count = 1};
    return sheaf_csv_files(paths, count, &o);
}

/* The files as an interleave of two takes them. */
static sheaf_dataset *in_turns(const char *const *paths, size_t count)
{
    const sheaf_bytes names[FILES] = {
        {paths[0], strlen(paths[0])}, {paths[1], strlen(paths[1])}, {paths[2], strlen(paths[2])}};
    sheaf_frame frame = {0};
    sheaf_frame_open(&frame);
    const sheaf_interleave_options o = {.cycle_length = 2};
    sheaf_dataset *d = sheaf_dataset_from_slices(
        sheaf_element_of(sheaf_tensor_new(SHEAF_STRING, SHEAF_SHAPE((int64_t)count), names)));
    d = sheaf_dataset_interleave(d, sheaf_open_tfrecord, NULL, &o);
    sheaf_frame_close(&frame);
    return d;
}

static const struct source {
    const char *name;
    sheaf_dataset *(*open)(const char *const *paths, size_t count);
    sheaf_compression compression; /* of TFRecords */
    const char *end;               /* of text; NULL: TFRecords */
} sources[] = {
    {"tfrecord", tfrecords, SHEAF_COMPRESSION_NONE, NULL},
    {"gzip", tfrecords, SHEAF_COMPRESSION_GZIP, NULL},
    {"snappy", tfrecords, SHEAF_COMPRESSION_SNAPPY, NULL},
    {"in turns", in_turns, SHEAF_COMPRESSION_NONE, NULL},
    {"lines", lines, SHEAF_COMPRESSION_NONE, "\n"},
    {"lines with \\r", lines, SHEAF_COMPRESSION_NONE, "\r\n"},
    {"fixed", fixed, SHEAF_COMPRESSION_NONE, ""},
    {"csv", csv, SHEAF_COMPRESSION_NONE, "\n"},
};
#define SOURCES (sizeof(sources) / sizeof(*sources))

/* All records of the source's files, twice. */
static sheaf_dataset *open_source(size_t i)
{
    const struct source *s = &sources[i];
    const char *paths[FILES];
    char kind[32];
    snprintf(kind, sizeof(kind), "source%zu", i);
    for (int k = 0; k < FILES; k++) {
        paths[k] = path_of(kind, k);
        if (s->end)
            write_text(paths[k], k * RECORDS, s->end);
        else
            write_records(paths[k], k * RECORDS, s->compression);
    }
    return sheaf_dataset_repeat(s->open(paths, FILES), 2);
}

/* ---- stages that keep elements back, or copy their views ---- */

static sheaf_dataset *cached(sheaf_dataset *d)
{
    return sheaf_dataset_cache(d, NULL);
}

static sheaf_dataset *cached_in_a_file(sheaf_dataset *d)
{
    const sheaf_cache_options o = {.file = rig_path("kept")};
    return sheaf_dataset_cache(d, &o);
}

static sheaf_dataset *shuffled(sheaf_dataset *d)
{
    return sheaf_dataset_shuffle(d, ALL, &(sheaf_shuffle_options){.seed = 3});
}

static sheaf_status any(const sheaf_element *in, void *user)
{
    (void)in, (void)user;
    return SHEAF_OK;
}

static sheaf_dataset *filtered(sheaf_dataset *d)
{
    return sheaf_dataset_filter(d, any, NULL);
}

static sheaf_dataset *sharded(sheaf_dataset *d)
{
    return sheaf_dataset_concatenate(sheaf_dataset_shard(sheaf_dataset_ref(d), 2, 0),
                                     sheaf_dataset_shard(d, 2, 1));
}

static sheaf_dataset *batched(sheaf_dataset *d)
{
    return sheaf_dataset_unbatch(sheaf_dataset_batch(d, 5, NULL));
}

static sheaf_dataset *padded(sheaf_dataset *d)
{
    return sheaf_dataset_unbatch(sheaf_dataset_padded_batch(d, 5, NULL));
}

static sheaf_dataset *rebatched(sheaf_dataset *d)
{
    const int64_t sizes[] = {2, 3};
    return sheaf_dataset_unbatch(
        sheaf_dataset_rebatch(sheaf_dataset_batch(d, 4, NULL), sizes, 2, false));
}

static sheaf_dataset *ahead(sheaf_dataset *d)
{
    return sheaf_dataset_prefetch(d, 4);
}

static sheaf_dataset *shuffled_and_cached(sheaf_dataset *d)
{
    return cached(shuffled(filtered(d)));
}

static const struct stage {
    const char *name;
    sheaf_dataset *(*add)(sheaf_dataset *d);
} stages[] = {
    {"cache", cached},        {"cache in a file", cached_in_a_file},
    {"shuffle", shuffled},    {"filter", filtered},
    {"shard", sharded},       {"batch", batched},
    {"padded_batch", padded}, {"rebatch", rebatched},
    {"prefetch", ahead},      {"filter, shuffle, cache", shuffled_and_cached},
};
#define STAGES (sizeof(stages) / sizeof(*stages))

/* ---- the check ---- */

/* Every element of a pass, counted. */
static size_t keep_all(sheaf_dataset *d, sheaf_tensor *kept[2 * ALL + 1])
{
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_element *e;
    sheaf_error err;
    sheaf_status status = SHEAF_OK;
    size_t n = 0;
    while (status == SHEAF_OK && n <= 2 * ALL) {
        sheaf_frame frame = {0};
        sheaf_frame_open(&frame);
        status = sheaf_iterator_next(it, &e, &err);
        if (status == SHEAF_OK)
            kept[n++] = sheaf_tensor_keep(sheaf_element_get(e, NULL));
        sheaf_frame_close(&frame);
    }
    if (status != SHEAF_END)
        fail_msg("after %zu elements: %s", n, err.message);
    sheaf_iterator_free(it);
    return n;
}

/* Takes addresses that files and chunks had before. */
static void read_others(void)
{
    const char *const paths[] = {path_of("other", 0), path_of("other", 1)};
    for (int k = 0; k < 2; k++)
        write_records(paths[k], 1000 + k * RECORDS, k ? SHEAF_COMPRESSION_GZIP : 0);
    sheaf_dataset *d = sheaf_tfrecord_files(paths, 2);
    sheaf_tensor *others[2 * ALL + 1];
    size_t n = keep_all(d, others);
    assert_int_equal(n, 2 * RECORDS);
    for (size_t i = 0; i < n; i++)
        sheaf_tensor_free(others[i]);
    sheaf_dataset_free(d);
}

/* Every record came twice, in any order, and has its own bytes. */
static void check_all(sheaf_tensor *kept[2 * ALL + 1], size_t n, const char *what)
{
    int seen[ALL] = {0};
    if (n != 2 * ALL)
        fail_msg("%s: %zu elements, expected %d", what, n, 2 * ALL);
    for (size_t i = 0; i < n; i++) {
        const sheaf_bytes bytes = sheaf_tensor_bytes(kept[i], 0);
        char text[16] = "", expected[16];
        memcpy(text, bytes.data, bytes.size < 15 ? bytes.size : 15);
        const int number = atoi(text);
        text_of_number(number, expected);
        if (number < 0 || number >= ALL || strcmp(text, expected) != 0 || ++seen[number] > 2)
            fail_msg("%s: element %zu is \"%s\"", what, i, text);
        sheaf_tensor_free(kept[i]);
    }
}

static void check_stage(size_t source, size_t stage)
{
    sheaf_tensor *first[2 * ALL + 1], *second[2 * ALL + 1];
    char what[64];
    snprintf(what, sizeof(what), "%s, %s", sources[source].name, stages[stage].name);
    sheaf_dataset *d = stages[stage].add(open_source(source));
    const size_t n = keep_all(d, first);
    read_others();
    const size_t m = keep_all(d, second);
    sheaf_dataset_free(d);
    read_others();
    check_all(first, n, what);
    check_all(second, m, what);
    if (sheaf__file_exists(rig_path("kept")))
        rig_ok(sheaf__file_unlink(rig_path("kept"), NULL), NULL);
}

static void test_elements_hold_what_they_view(void **state)
{
    (void)state;
    for (size_t i = 0; i < SOURCES; i++)
        for (size_t k = 0; k < STAGES; k++)
            check_stage(i, k);
}

/* ---- files that are cut short while they are read ---- */

#define MANY   400000 /* records, at least 4 MB of them */
#define CUT_TO (3 << 20)

/* What is 9 digits long has an end of one byte, or the frame of a TFRecord. */
static uint64_t write_many(const char *path, bool text)
{
    sheaf_error err;
    sheaf_record_writer *w = NULL;
    char *all = text ? malloc(MANY * 16) : NULL;
    size_t used = 0;
    if (!text)
        rig_ok(sheaf_record_writer_open(path, SHEAF_COMPRESSION_NONE, &w, &err), &err);
    for (int i = 0; i < MANY; i++) {
        char record[16];
        const size_t size = (size_t)text_of_number(i, record);
        if (w)
            rig_ok(sheaf_record_writer_put(w, (sheaf_bytes){record, size}, &err), &err);
        else
            used += (size_t)sprintf(all + used, "%s\n", record);
    }
    if (w)
        rig_ok(sheaf_record_writer_close(w, false, &err), &err);
    else
        rig_ok(sheaf__file_replace(path, all, used, &err), &err);
    free(all);
    struct sheaf__file_stat stat;
    rig_ok(sheaf__file_stat(path, &stat, &err), &err);
    return stat.size;
}

static sheaf_dataset *fixed_of_ten(const char *const *paths, size_t count)
{
    const sheaf_fixed_records_options o = {.record_bytes = 10};
    return sheaf_fixed_records_files(paths, count, &o);
}

/* Reads ten records, cuts the file, and reads on: right records, then an error that names the file
 * and its sizes, then the end. */
static void check_cut(sheaf_dataset *(*open)(const char *const *paths, size_t count), bool text)
{
    const char *path = rig_path("cut");
    const uint64_t size = write_many(path, text);
    sheaf_dataset *d = open(&path, 1);
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err;
    sheaf_status status = SHEAF_OK;
    int n = 0;
    while (status == SHEAF_OK && n <= MANY) {
        sheaf_frame frame = {0};
        sheaf_element *e;
        sheaf_frame_open(&frame);
        status = sheaf_iterator_next(it, &e, &err);
        char expected[16];
        if (status == SHEAF_OK) {
            text_of_number(n, expected);
            assert_memory_equal(sheaf_tensor_bytes(sheaf_element_get(e, NULL), 0).data, expected,
                                9);
        }
        sheaf_frame_close(&frame);
        if (++n == 10)
            assert_int_equal(truncate(path, CUT_TO), 0);
    }
    char part[160];
    snprintf(part, sizeof(part),
             "the file was cut while it was read: it has %d bytes, expected the %llu that it had",
             CUT_TO, (unsigned long long)size);
    rig_fails(status, &err, SHEAF_ERR_DATA_LOSS, part);
    assert_string_equal(err.file, path);
    assert_in_range(n, 10, CUT_TO / 10);
    sheaf_element *e;
    assert_int_equal(sheaf_iterator_next(it, &e, &err), SHEAF_END);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

static void test_a_file_that_is_cut(void **state)
{
    (void)state;
    check_cut(tfrecords, false);
    check_cut(lines, true);
    check_cut(fixed_of_ten, true);
    check_cut(csv, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_elements_hold_what_they_view),
                                       rig_test(test_a_file_that_is_cut)};
    return rig_run(tests);
}
