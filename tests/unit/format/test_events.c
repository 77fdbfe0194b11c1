/* SPDX-License-Identifier: Apache-2.0 */
/* Event files for TensorBoard (formats.md 6). Expected: tests/golden/events. */
#include "golden.h"

#include "base/clock.h"
#include "base/context.h"
#include "base/file.h"

#include <sheaf/event.h>
#include <sheaf/record.h>

#include <math.h>

/* The wall clock of a test. */
static int64_t wall_ns;

static int64_t wall(void *user)
{
    (void)user;
    return wall_ns;
}

static void set_wall(double seconds)
{
    wall_ns = (int64_t)llround(seconds * 1e6) * 1000;
    sheaf__clock_set_wall(sheaf__context(), wall, NULL);
}

/* The only event file of a folder. */
static char *only_file(const char *folder)
{
    struct sheaf__strings names = {0};
    sheaf_error err = {0};
    rig_ok(sheaf__file_list(folder, &names, &err), &err);
    assert_int_equal(names.count, 1);
    char *path = sheaf__path_join(folder, names.items[0]);
    sheaf__strings_clear(&names);
    return path;
}

static sheaf_record_reader *open_records(const char *path)
{
    sheaf_record_reader *r;
    sheaf_error err = {0};
    rig_ok(sheaf_record_reader_open(path, SHEAF_COMPRESSION_NONE, &r, &err), &err);
    return r;
}

static void assert_next(sheaf_record_reader *r, const void *bytes, size_t size)
{
    sheaf_bytes record;
    sheaf_error err = {0};
    rig_ok(sheaf_record_reader_next(r, &record, &err), &err);
    assert_int_equal(record.size, size);
    assert_memory_equal(record.data, bytes, size);
}

/* The vectors of formats.md 6.2. */
static void bytes_of_a_scalar(void **state)
{
    (void)state;
    static const uint8_t version[] = {0x09, 0x00, 0x00, 0x00, 0x40, 0xfc, 0x54, 0xd9, 0x41,
                                      0x1a, 0x0d, 'b',  'r',  'a',  'i',  'n',  '.',  'E',
                                      'v',  'e',  'n',  't',  ':',  '2',  0x52, 0x07, 0x0a,
                                      0x05, 's',  'h',  'e',  'a',  'f'};
    static const uint8_t scalar[] = {0x09, 0x00, 0x00, 0x40, 0x40, 0xfc, 0x54, 0xd9, 0x41, 0x10,
                                     0x07, 0x2a, 0x21, 0x0a, 0x1f, 0x0a, 0x04, 0x6c, 0x6f, 0x73,
                                     0x73, 0x42, 0x0a, 0x08, 0x01, 0x12, 0x00, 0x22, 0x04, 0x00,
                                     0x00, 0x00, 0x3f, 0x4a, 0x0b, 0x0a, 0x09, 0x0a, 0x07, 0x73,
                                     0x63, 0x61, 0x6c, 0x61, 0x72, 0x73};
    sheaf_event_writer *w;
    sheaf_error err = {0};
    const char *folder = rig_path("logs/run");
    set_wall(1700000000.25);
    rig_ok(sheaf_event_writer_open(folder, &w, &err), &err);
    set_wall(1700000001);
    rig_ok(sheaf_event_scalar(w, "loss", 7, 0.5, &err), &err);
    rig_ok(sheaf_event_writer_close(w, &err), &err);
    char *path = only_file(folder);
    assert_non_null(strstr(path, "/events.out.tfevents.1700000000."));
    assert_string_equal(path + strlen(path) - 3, ".v2");
    sheaf_record_reader *r = open_records(path);
    assert_next(r, version, sizeof(version));
    assert_next(r, scalar, sizeof(scalar));
    sheaf_bytes record;
    assert_int_equal(sheaf_record_reader_next(r, &record, &err), SHEAF_END);
    sheaf_record_reader_free(r);
    sheaf__free(path);
}

static double number_of(const json_t *v)
{
    if (!json_is_string(v))
        return json_number_value(v);
    const char *text = json_string_value(v);
    return strcmp(text, "nan") == 0 ? NAN : *text == '-' ? -INFINITY : INFINITY;
}

/* What tf.summary.scalar wrote, byte for byte. */
static void scalars_are_tensorflows(void **state)
{
    (void)state;
    json_t *root = golden_json("events");
    const json_t *run = json_array_get(json_object_get(root, "by_tf_summary"), 0);
    const json_t *events = json_object_get(run, "events");
    sheaf_record_reader *golden =
        open_records(rig_golden("events/scalars/events.out.tfevents.1700000000.host.1.0.golden"));
    sheaf_event_writer *w;
    sheaf_error err = {0};
    const char *folder = rig_path("scalars");
    sheaf_bytes record;
    size_t i, written = 0;
    const json_t *event;
    char *want[64];
    size_t sizes[64];
    set_wall(json_number_value(json_object_get(json_array_get(events, 0), "wall_time")));
    rig_ok(sheaf_event_writer_open(folder, &w, &err), &err);
    json_array_foreach(events, i, event)
    {
        rig_ok(sheaf_record_reader_next(golden, &record, &err), &err);
        const json_t *value = json_array_get(json_object_get(event, "values"), 0);
        if (!value || json_object_get(value, "description"))
            continue;
        want[written] = malloc(record.size);
        memcpy(want[written], record.data, record.size);
        sizes[written++] = record.size;
        set_wall(json_number_value(json_object_get(event, "wall_time")));
        rig_ok(
            sheaf_event_scalar(w, json_string_value(json_object_get(value, "tag")),
                               json_integer_value(json_object_get(event, "step")),
                               number_of(json_array_get(
                                   json_object_get(json_object_get(value, "tensor"), "values"), 0)),
                               &err),
            &err);
    }
    assert_true(written >= 5);
    rig_ok(sheaf_event_writer_close(w, &err), &err);
    sheaf_record_reader_free(golden);
    char *path = only_file(folder);
    sheaf_record_reader *ours = open_records(path);
    rig_ok(sheaf_record_reader_next(ours, &record, &err), &err); /* the version */
    for (i = 0; i < written; i++) {
        assert_next(ours, want[i], sizes[i]);
        free(want[i]);
    }
    sheaf_record_reader_free(ours);
    sheaf__free(path);
    json_decref(root);
}

/* T64: two writers in one second in one folder. */
static void t64_writers_never_share_a_file(void **state)
{
    (void)state;
    sheaf_event_writer *writers[2];
    sheaf_error err = {0};
    const char *folder = rig_path("shared");
    set_wall(1700000000);
    for (int k = 0; k < 2; k++)
        rig_ok(sheaf_event_writer_open(folder, &writers[k], &err), &err);
    for (int i = 0; i < 1000; i++) {
        for (int k = 0; k < 2; k++)
            rig_ok(sheaf_event_scalar(writers[k], k ? "b" : "a", i, i * 0.5, &err), &err);
    }
    for (int k = 0; k < 2; k++)
        rig_ok(sheaf_event_writer_close(writers[k], &err), &err);
    struct sheaf__strings names = {0};
    rig_ok(sheaf__file_list(folder, &names, &err), &err);
    assert_int_equal(names.count, 2);
    for (size_t k = 0; k < 2; k++) {
        char *path = sheaf__path_join(folder, names.items[k]);
        sheaf_record_reader *r = open_records(path);
        sheaf_bytes record;
        size_t count = 0;
        while (sheaf_record_reader_next(r, &record, &err) == SHEAF_OK)
            count++;
        assert_int_equal(count, 1001);
        sheaf_record_reader_free(r);
        sheaf__free(path);
    }
    sheaf__strings_clear(&names);
}

/* A reader of the growing file sees the version at once, and scalars after a flush. */
static void flushed_events_are_seen(void **state)
{
    (void)state;
    sheaf_event_writer *w;
    sheaf_error err = {0};
    sheaf_bytes record;
    const char *folder = rig_path("live");
    rig_ok(sheaf_event_writer_open(folder, &w, &err), &err);
    char *path = only_file(folder);
    for (int flushed = 0; flushed < 2; flushed++) {
        sheaf_record_reader *r = open_records(path);
        rig_ok(sheaf_record_reader_next(r, &record, &err), &err);
        if (flushed)
            rig_ok(sheaf_record_reader_next(r, &record, &err), &err);
        assert_int_equal(sheaf_record_reader_next(r, &record, &err), SHEAF_END);
        sheaf_record_reader_free(r);
        rig_ok(sheaf_event_scalar(w, "x", flushed, 1, &err), &err);
        rig_ok(sheaf_event_writer_flush(w, &err), &err);
    }
    rig_ok(sheaf_event_writer_close(w, &err), &err);
    sheaf__free(path);
}

/* A program that fails before its first event leaves no file. */
static void unused_files_are_deleted(void **state)
{
    (void)state;
    sheaf_event_writer *w;
    sheaf_error err = {0};
    struct sheaf__strings names = {0};
    const char *folder = rig_path("unused");
    rig_ok(sheaf_event_writer_open(folder, &w, &err), &err);
    sheaf__free(only_file(folder));
    rig_ok(sheaf_event_writer_close(w, &err), &err);
    rig_ok(sheaf__file_list(folder, &names, &err), &err);
    assert_int_equal(names.count, 0);
}

static void bad_folders(void **state)
{
    (void)state;
    sheaf_event_writer *w = NULL;
    sheaf_error err = {0};
    rig_ok(sheaf__file_replace(rig_path("file"), "x", 1, &err), &err);
    assert_true(sheaf_event_writer_open(rig_path("file"), &w, &err) < 0);
    assert_null(w);
    rig_ok(sheaf_event_writer_close(NULL, &err), &err);
}

static sheaf_status write_events(void *folder, sheaf_error *err)
{
    sheaf_event_writer *w;
    sheaf_status status = sheaf_event_writer_open(folder, &w, err);
    if (status < 0)
        return status;
    status = sheaf_event_scalar(w, "a tag", 3, 1.5, err);
    sheaf_status closed = sheaf_event_writer_close(w, status < 0 ? NULL : err);
    return status < 0 ? status : closed;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    char folder[4096];
    strcpy(folder, rig_path("failing"));
    assert_true(rig_fail_allocations(write_events, folder) >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(bytes_of_a_scalar),
        rig_test(scalars_are_tensorflows),
        rig_test(t64_writers_never_share_a_file),
        rig_test(flushed_events_are_seen),
        rig_test(unused_files_are_deleted),
        rig_test(bad_folders),
        rig_test(every_allocation_may_fail),
    };
    return rig_run(tests);
}
