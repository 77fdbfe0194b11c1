/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include <sheaf/features.h>

/* Stages that cannot use the bytes of a record say which one it is: file, record and offset. */

enum { RECORDS = 400, BAD = 377, LONG = 9000 };

/* How the records lie in the file. */
enum lying { TFRECORD, GZIP, EXAMPLES, SPARSE, LINES, GZIP_LINES, FIXED, LYINGS };

/* What is wrong with one: too short, or no word. All others are alike. */
static sheaf_bytes record(int i, bool large)
{
    static char text[LONG];
    memset(text, 'a', sizeof(text));
    text[0] = i == BAD ? '?' : 'a';
    return (sheaf_bytes){text, (large ? LONG : 8) - (i == BAD)};
}

static void put(sheaf_record_writer *w, sheaf_bytes bytes, bool as_example)
{
    sheaf_error err = {0};
    sheaf_example *x = sheaf_example_new();
    if (as_example) {
        sheaf_example_bytes(x, "b", &bytes, 1);
        rig_ok(sheaf_example_serialize(x, &bytes, &err), &err);
    }
    rig_ok(sheaf_record_writer_put(w, bytes, &err), &err);
    sheaf_example_free(x);
}

/* These write a file and return the offset of the bad record. */
static int64_t write_records(const char *path, enum lying lying, bool large)
{
    const bool gzip = lying == GZIP;
    sheaf_record_writer *w;
    sheaf_error err = {0};
    int64_t framed = 16 + (int64_t)record(0, large).size;
    rig_ok(sheaf_record_writer_open(path, gzip ? SHEAF_COMPRESSION_GZIP : SHEAF_COMPRESSION_NONE,
                                    &w, &err),
           &err);
    for (int i = 0; i < RECORDS; i++)
        put(w, record(i, large), lying == EXAMPLES || lying == SPARSE);
    rig_ok(sheaf_record_writer_close(w, false, &err), &err);
    if (lying != EXAMPLES && lying != SPARSE)
        return BAD * framed;
    sheaf_example *x = sheaf_example_new();
    sheaf_bytes bytes = record(0, large);
    sheaf_example_bytes(x, "b", &bytes, 1);
    rig_ok(sheaf_example_serialize(x, &bytes, &err), &err);
    framed = 16 + (int64_t)bytes.size;
    sheaf_example_free(x);
    return BAD * framed;
}

static int64_t write_lines(const char *path, bool large, bool gzip)
{
    const char *plain = rig_path("plain");
    FILE *f = fopen(plain, "wb");
    int64_t offset = 0;
    for (int i = 0; i < RECORDS; i++) {
        const sheaf_bytes bytes = record(i, large);
        fprintf(f, "%.*s\n", (int)bytes.size, bytes.data);
        offset += i < BAD ? (int64_t)bytes.size + 1 : 0;
    }
    fclose(f);
    char command[9000];
    snprintf(command, sizeof(command), gzip ? "gzip -c <%s >%s" : "cat <%s >%s", plain, path);
    assert_int_equal(system(command), 0);
    return offset;
}

enum { HEADER = 5 };

static int64_t write_fixed(const char *path, bool large)
{
    FILE *f = fopen(path, "wb");
    const size_t size = record(0, large).size;
    fprintf(f, "head:");
    for (int i = 0; i < RECORDS; i++)
        fwrite(record(i, large).data, 1, size, f);
    fclose(f);
    return HEADER + BAD * (int64_t)size;
}

static sheaf_dataset *source(const char *path, enum lying lying, bool large, int threads)
{
    static sheaf_fixed_records_options fixed;
    const sheaf_interleave_options io = {.cycle_length = 2, .parallel = threads};
    sheaf_open_fn open = lying == FIXED                          ? sheaf_open_fixed_records
                         : lying == LINES || lying == GZIP_LINES ? sheaf_open_text_lines
                                                                 : sheaf_open_tfrecord;
    fixed = (sheaf_fixed_records_options){.record_bytes = large ? LONG : 8, .header_bytes = HEADER};
    sheaf_dataset *d = sheaf_list_files(path, NULL);
    return sheaf_dataset_interleave(d, open, lying == FIXED ? &fixed : NULL, &io);
}

/* Iterates `d` (used up) up to its first error. */
static void assert_located(sheaf_dataset *d, const char *text, const char *path, int64_t offset)
{
    sheaf_iterator *it = sheaf_dataset_iterate(d);
    sheaf_error err = {0};
    sheaf_status status = SHEAF_OK;
    while (status == SHEAF_OK)
        SHEAF_FRAME
        {
            sheaf_element *e;
            status = sheaf_iterator_next(it, &e, &err);
        }
    rig_fails(status, &err, SHEAF_ERR_INVALID_ARGUMENT, text);
    assert_string_equal(err.file, path);
    assert_int_equal(err.record, BAD);
    assert_int_equal(err.offset, offset);
    sheaf_iterator_free(it);
    sheaf_dataset_free(d);
}

static sheaf_dataset *parsed(sheaf_dataset *d, enum lying lying)
{
    const sheaf_feature b = {.key = "b",
                             .dtype = SHEAF_STRING,
                             .kind = lying == SPARSE ? SHEAF_FEATURE_VAR : SHEAF_FEATURE_FIXED};
    return lying == EXAMPLES || lying == SPARSE ? sheaf_dataset_parse_example(d, &b, 1) : d;
}

static sheaf_vocabulary *known(bool large)
{
    const sheaf_bytes word = record(0, large);
    sheaf_vocabulary *v;
    sheaf_error err = {0};
    rig_ok(
        sheaf_vocabulary_new(&(sheaf_vocabulary_options){.tokens = sheaf_tensor_new(
                                                             SHEAF_STRING, SHEAF_SHAPE(1), &word),
                                                         .no_unknown = true},
                             &v, &err),
        &err);
    return v;
}

/* Each way for records to lie in a file, read by several threads or not, one by one or in batches. */
static void test_bad_records_are_named(void **state)
{
    (void)state;
    for (int c = 0; c < LYINGS * 2 * 2 * 2; c++) {
        const enum lying lying = (enum lying)(c % LYINGS);
        const bool large = c / LYINGS % 2, batch = c / LYINGS / 2 % 2;
        const int threads = c / LYINGS / 4 % 2;
        const char *path = rig_path("records");
        const int64_t offset = lying == FIXED ? write_fixed(path, large)
                               : lying == LINES || lying == GZIP_LINES
                                   ? write_lines(path, large, lying == GZIP_LINES)
                                   : write_records(path, lying, large);
        sheaf_dataset *d = source(path, lying, large, threads);
        if (batch)
            d = sheaf_dataset_batch(d, 64, NULL);
        d = parsed(d, lying);
        sheaf_vocabulary *v = known(large);
        assert_located(sheaf_dataset_lookup(sheaf_dataset_ref(d), NULL, v),
                       "the vocabulary does not have", path, offset);
        if (lying == FIXED ||
            lying == SPARSE) /* no record is too short; decode_raw takes dense strings */
            sheaf_dataset_free(d);
        else
            assert_located(sheaf_dataset_decode_raw(d, NULL, SHEAF_INT64, NULL),
                           batch ? "bytes and string 0 has" : "bytes are no multiple of 8", path,
                           offset);
        sheaf_vocabulary_free(v);
        sheaf_frame_clear();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(test_bad_records_are_named)};
    return rig_run(tests);
}
