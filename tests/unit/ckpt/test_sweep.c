/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include "base/file.h"
#include "base/mem.h"

#include <sheaf/tensor_file.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What saves leave behind is taken away, and nothing that is somebody else's. */

struct model {
    struct fake *w;
    sheaf_checkpoint *checkpoint;
};

static struct model make(float value)
{
    struct model m = {fake_floats(SHEAF_SHAPE(2), value), sheaf_checkpoint_new()};
    sheaf_checkpoint_add(m.checkpoint, "w", &m.w->trackable);
    return m;
}

static void end(struct model *m)
{
    sheaf_checkpoint_free(m->checkpoint);
    fake_free(m->w);
    sheaf_frame_clear();
}

static void put(const char *path)
{
    sheaf_error err;
    char *directory = sheaf__path_directory(rig_path(path));
    rig_ok(sheaf__file_mkdir(directory, 0, &err), &err);
    rig_ok(sheaf__file_replace(rig_path(path), "x", 1, &err), &err);
    sheaf__free(directory);
}

static sheaf_status write_model(const char *path, sheaf_error *err)
{
    struct model m = make(1);
    const sheaf_status status = sheaf_checkpoint_write(m.checkpoint, rig_path(path), NULL, err);
    end(&m);
    return status;
}

static sheaf_status convert(const char *path, sheaf_error *err)
{
    sheaf_tensor_file *from = NULL;
    rig_ok(sheaf_tensor_file_open(rig_golden("safetensors/single.safetensors"), &from, err), err);
    const sheaf_status status = sheaf_tensor_file_convert(from, rig_path(path), NULL, err);
    sheaf_tensor_file_free(from);
    return status;
}

/* A manager that has nothing to save. */
static void start_manager(const char *directory, const char *name)
{
    struct model m = make(1);
    sheaf_error err;
    sheaf_checkpoint_manager *manager = NULL;
    const sheaf_manager_options options = {.name = name};
    rig_ok(
        sheaf_checkpoint_manager_new(m.checkpoint, rig_path(directory), &options, &manager, &err),
        &err);
    sheaf_checkpoint_manager_free(manager);
    end(&m);
}

static const struct {
    const char *what;
    sheaf_status (*write)(const char *path, sheaf_error *err);
} writers[] = {{"write", write_model}, {"convert", convert}};

/* A directory of that name which holds more than a save's files: the save uses it, and takes its own away. */
static void foreign_files_stay(void **state)
{
    (void)state;
    static const char kept[] = "part-00000-of-00001.index.old part-1-of-x.index part-token.txt "
                               "part.txt thesis.txt token",
                      *const gone[] = {"part-00000-of-00007.index", "part-token.tmp-1-2",
                                       "part-00006-of-00007.data-00000-of-00001",
                                       "part-00006-of-00007.data-00000-of-00001.tmp-1-2"};
    for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++) {
        char path[64], file[96], names[sizeof(kept)], directory[80];
        sheaf_error err;
        snprintf(path, sizeof(path), "%s/model", writers[i].what);
        snprintf(directory, sizeof(directory), "%s_temp", path);
        memcpy(names, kept, sizeof(kept));
        for (char *rest = names, *name; (name = strsep(&rest, " "));) {
            snprintf(file, sizeof(file), "%s/%s", directory, name);
            put(file);
        }
        for (size_t k = 0; k < sizeof(gone) / sizeof(gone[0]); k++) {
            snprintf(file, sizeof(file), "%s/%s", directory, gone[k]);
            put(file);
        }
        rig_ok(writers[i].write(path, &err), &err);
        assert_string_equal(rig_list(directory), kept);
        snprintf(file, sizeof(file), "%s.index", path);
        assert_true(sheaf__file_exists(rig_path(file)));
    }
    put("run/ckpt-7_temp/thesis.txt");
    put("run/ckpt-7_temp/part-00000-of-00001.index");
    put("run/ckpt-8_temp/part-00000-of-00001.index");
    start_manager("run", NULL);
    assert_string_equal(rig_list("run"), "ckpt-7_temp");
    assert_string_equal(rig_list("run/ckpt-7_temp"), "thesis.txt");
}

/* Where a symbolic link leads nothing is deleted and nothing written. */
static void links_are_not_followed(void **state)
{
    (void)state;
    put("keep/part-00000-of-00001.index");
    for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++) {
        sheaf_error err;
        char link[64];
        snprintf(link, sizeof(link), "%s_temp", writers[i].what);
        assert_int_equal(symlink("keep", rig_path(link)), 0);
        rig_fails(writers[i].write(writers[i].what, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
                  "found a symbolic link, expected a directory for the parts");
        assert_string_equal(err.file, rig_path(link));
        assert_true(sheaf__file_is_link(rig_path(link)));
    }
    sheaf_error err;
    rig_ok(sheaf__file_mkdir(rig_path("run"), 0, &err), &err);
    assert_int_equal(symlink("../keep", rig_path("run/ckpt-7_temp")), 0);
    start_manager("run", NULL);
    assert_string_equal(rig_list("run"), "ckpt-7_temp");
    assert_string_equal(rig_list("keep"), "part-00000-of-00001.index");
}

/* Without a manager the next save to the same path takes away what one that was killed left; what a living
 * process has locked stays. */
static void beside_the_same_path(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++) {
        sheaf_error err;
        struct sheaf__file *living = NULL;
        put("x/.m.sheaf.tmp-1-2");
        put("x/m.index.tmp-1-2");
        put("x/m.index.tmp-3-4");
        put("x/m2.index.tmp-1-2");
        rig_ok(sheaf__file_open(rig_path("x/m.index.tmp-3-4"), SHEAF__FILE_UPDATE, &living, &err),
               &err);
        rig_ok(sheaf__file_lock(living, &err), &err);
        rig_ok(writers[i].write("x/m", &err), &err);
        assert_false(sheaf__file_exists(rig_path("x/.m.sheaf.tmp-1-2")));
        assert_false(sheaf__file_exists(rig_path("x/m.index.tmp-1-2")));
        assert_true(sheaf__file_exists(rig_path("x/m.index.tmp-3-4")));
        assert_true(sheaf__file_exists(rig_path("x/m2.index.tmp-1-2")));
        sheaf__file_close(living, NULL);
    }
}

static void a_file_is_in_the_way(void **state)
{
    (void)state;
    put("model_temp");
    for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++) {
        sheaf_error err;
        rig_fails(writers[i].write("model", &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
                  "found a file, expected a directory for the parts");
        assert_string_equal(err.file, rig_path("model_temp"));
    }
    assert_string_equal(rig_list("."), "model_temp");
}

/* What saves that were killed left is taken away, nothing else: no other program's, and no other name's. */
static void only_what_saves_leave(void **state)
{
    (void)state;
    static const char *const gone[] = {
        ".ckpt-12.sheaf.tmp-77-3",        "checkpoint.tmp-1-2",
        ".ckpt.unlisted.tmp-5-7",         "ckpt-3.index.tmp-5-6",
        "ckpt-12_temp/part-0-of-1.index", "ckpt-12_temp/part-0-of-1.data-0-of-1.tmp-3-4"};
    static const char kept[] =
        ".ckpt-12.sheaf .ckpt-b-3.sheaf.tmp-1-2 .ckptx.unlisted.tmp-1-2 checkpoint-2.tmp-1-2 "
        "ckpt-1.index.tmp-x ckpt-1.old.tmp-1-2 ckpt-12.data ckpt-12_temporary "
        "ckpt-b-3.index.tmp-1-2 "
        "ckpt-b-3_temp ckpt.index.tmp-1-2 ckptx-3.index.tmp-1-2 notes.tmp-1-2";
    char names[sizeof(kept)], path[80];
    memcpy(names, kept, sizeof(kept));
    for (char *rest = names, *name; (name = strsep(&rest, " "));) {
        snprintf(path, sizeof(path), "run/%s", name);
        put(path);
    }
    for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++) {
        snprintf(path, sizeof(path), "run/%s", gone[i]);
        put(path);
    }
    start_manager("run", NULL);
    assert_string_equal(rig_list("run"), kept);
}

/* A save that was killed has its name for itself until its files are gone, not any longer: what somebody copies there
 * then is never deleted. One that was complete, but for the state file, is still ours. */
static void a_note_goes_with_the_files(void **state)
{
    (void)state;
    static const char notes[] = "ckpt-105\nckpt-106\nckpt-107\n";
    sheaf_error err;
    char *left = NULL;
    rig_ok(write_model("run/ckpt-105", &err), &err);
    put("run/ckpt-106_temp/part-00000-of-00001.index");
    put("run/ckpt-107.data-00000-of-00001");
    put("run/.ckpt-107.sheaf");
    rig_ok(sheaf__file_replace(rig_path("run/.ckpt.unlisted"), notes, strlen(notes), &err), &err);
    start_manager("run", NULL);
    assert_string_equal(rig_list("run"),
                        ".ckpt-105.sheaf .ckpt.unlisted ckpt-105.data-00000-of-00001 "
                        "ckpt-105.index");
    rig_ok(sheaf__file_read_all(rig_path("run/.ckpt.unlisted"), 99, &left, NULL, &err), &err);
    assert_string_equal(left, "ckpt-105\n");
    sheaf__free(left);

    struct model m = make(2);
    sheaf_checkpoint_manager *manager = NULL;
    const sheaf_manager_options options = {.max_to_keep = 1};
    rig_ok(write_model("run/ckpt-106", &err), &err);
    rig_ok(sheaf_checkpoint_manager_new(m.checkpoint, rig_path("run"), &options, &manager, &err),
           &err);
    for (int i = 0; i < 2; i++)
        rig_ok(sheaf_manager_save(manager, false, NULL, &err), &err);
    sheaf_checkpoint_manager_free(manager);
    end(&m);
    assert_string_equal(rig_list("run"),
                        ".ckpt-106.sheaf .ckpt-108.sheaf checkpoint ckpt-106.data-00000-of-00001 "
                        "ckpt-106.index ckpt-108.data-00000-of-00001 ckpt-108.index");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(foreign_files_stay),    rig_test(links_are_not_followed),
        rig_test(beside_the_same_path),  rig_test(a_file_is_in_the_way),
        rig_test(only_what_saves_leave), rig_test(a_note_goes_with_the_files),
    };
    return rig_run(tests);
}
