/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/file.h"
#include "base/mem.h"
#include "format/state_file.h"

#include <string.h>

/* The text file "checkpoint" (formats.md 4.8). */

static sheaf_status parse(struct sheaf__state_file *s, const char *text, sheaf_error *err)
{
    return sheaf__state_file_parse(s, text, strlen(text), "dir/checkpoint", err);
}

static void golden_manager(void **state)
{
    (void)state;
    struct sheaf__state_file s;
    sheaf_error err;
    rig_ok(sheaf__state_file_read(&s, rig_golden("checkpoint/manager"), &err), &err);
    assert_string_equal(s.latest, "ckpt-5");
    assert_int_equal(s.paths.count, 3);
    assert_string_equal(s.paths.items[0], "ckpt-3");
    assert_int_equal(s.time_count, 3);
    assert_true(s.times[1] == 1795992373.0970178);
    assert_true(s.has_last_preserved && s.last_preserved == 1795992372.0298858);

    /* Written again, it is the same text. */
    char *ours = NULL, *theirs = NULL;
    rig_ok(sheaf__state_file_write(&s, rig_folder(), NULL, NULL, &err), &err);
    rig_ok(sheaf__file_read_all(rig_path("checkpoint"), 9999, &ours, NULL, &err), &err);
    rig_ok(sheaf__file_read_all(rig_golden("checkpoint/manager/checkpoint"), 9999, &theirs, NULL,
                                &err),
           &err);
    assert_string_equal(ours, theirs);
    sheaf__free(ours);
    sheaf__free(theirs);
    sheaf__state_file_free(&s);
}

/* Everything that TensorFlow's parser takes. */
static void spellings(void **state)
{
    (void)state;
    struct sheaf__state_file s;
    sheaf_error err;
    rig_ok(parse(&s,
                 "# a comment\n"
                 "model_checkpoint_path :\t\"old\"; model_checkpoint_path:'ck' \"-1\",\n"
                 "all_model_checkpoint_paths:[\"a\" , 'b\\n\\x41\\101\\'\\\"\\\\\\t\\?'] # more\n"
                 "all_model_checkpoint_paths : \"\xc3\xa9\"\r\n"
                 "all_model_checkpoint_timestamps: [1, -2.5, 1e3, 4.0f, .5]\n"
                 "last_preserved_timestamp: 17 all_model_checkpoint_paths: [ ]",
                 &err),
           &err);
    assert_string_equal(s.latest, "ck-1");
    assert_int_equal(s.paths.count, 3);
    assert_string_equal(s.paths.items[1], "b\nAA'\"\\\t?");
    assert_string_equal(s.paths.items[2], "\xc3\xa9");
    static const double times[] = {1, -2.5, 1000, 4, .5};
    assert_int_equal(s.time_count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_true(s.times[i] == times[i]);
    assert_true(s.last_preserved == 17);
    sheaf__state_file_free(&s);
}

static void refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "all_model_checkpoint_paths: \"a\"",
        "model_checkpoint_path",
        "model_checkpoint_path \"a\"",
        "model_checkpoint_path:",
        "model_checkpoint_path: a",
        "model_checkpoint_path: \"a",
        "model_checkpoint_path: \"a\n\"",
        "model_checkpoint_path: \"\\q\"",
        "model_checkpoint_path: \"\\x\"",
        "model_checkpoint_path: \"\\777\"",
        "model_checkpoint_path: [\"a\"]",
        "model_checkpoint_path: \"a\" all_model_checkpoint_paths: [\"a\",]",
        "model_checkpoint_path: \"a\" all_model_checkpoint_paths: [\"a\" 1",
        "model_checkpoint_path: \"a\" last_preserved_timestamp: x",
        "model_checkpoint_path: \"a\" last_preserved_timestamp: \"1\"",
        "model_checkpoint_path: \"a\" other_field: 1",
        "model_checkpoint_path: \"a\",, last_preserved_timestamp: 1",
        "model_checkpoint_pat: \"a\"",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sheaf__state_file s;
        sheaf_error err = {0};
        if (parse(&s, bad[i], &err) != SHEAF_ERR_DATA_LOSS)
            fail_msg("'%s' was accepted", bad[i]);
        assert_string_equal(err.file, "dir/checkpoint");
    }
    struct sheaf__state_file s;
    sheaf_error err;
    assert_int_equal(sheaf__state_file_parse(&s, "model_checkpoint_path: \"a\0\"", 27, "f", &err),
                     SHEAF_ERR_DATA_LOSS);
    rig_fails(sheaf__state_file_read(&s, rig_folder(), &err), &err, SHEAF_ERR_NOT_FOUND, "");
}

/* Any name and any time come back. */
static void written_and_read(void **state)
{
    (void)state;
    struct sheaf__state_file s = {0}, t;
    sheaf_error err;
    char all[256];
    for (int i = 1; i < 256; i++)
        all[i - 1] = (char)i;
    all[255] = 0;
    s.latest = sheaf__strdup(all);
    for (int i = 0; i < 3; i++)
        assert_true(sheaf__state_file_add(&s, i ? "x" : all, 1700000000.25 + i / 7.0));
    rig_ok(sheaf__state_file_write(&s, rig_folder(), NULL, NULL, &err), &err);
    rig_ok(sheaf__state_file_read(&t, rig_folder(), &err), &err);
    assert_string_equal(t.latest, all);
    assert_string_equal(t.paths.items[0], all);
    assert_int_equal(t.time_count, 3);
    assert_memory_equal(t.times, s.times, 3 * sizeof(double));
    assert_false(t.has_last_preserved);
    sheaf__state_file_drop(&t, 1);
    assert_int_equal(t.paths.count, 2);
    assert_true(t.times[1] == s.times[2]);
    sheaf__state_file_free(&s);
    sheaf__state_file_free(&t);
}

static sheaf_status parse_some(void *user, sheaf_error *err)
{
    struct sheaf__state_file s;
    (void)user;
    sheaf_status status = parse(&s,
                                "model_checkpoint_path: 'a' all_model_checkpoint_paths: ['a','b']"
                                "all_model_checkpoint_timestamps: 1",
                                err);
    if (status >= 0)
        sheaf__state_file_free(&s);
    return status;
}

static void without_memory(void **state)
{
    (void)state;
    assert_true(rig_fail_allocations(parse_some, NULL) >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(golden_manager),   rig_test(spellings),      rig_test(refused),
        rig_test(written_and_read), rig_test(without_memory),
    };
    return rig_run(tests);
}
