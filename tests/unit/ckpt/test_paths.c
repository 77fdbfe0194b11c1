/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include "base/file.h"
#include "base/str.h"

#include <unistd.h>

/* T54: directories and tensors of any name. Saving, the newest one, restoring and retention work in each directory, below the
 * working directory too, and where it has been moved to; no two tensors share a place. */

static const char *const directories[] = {"a[b]*?",  "x=[1, 2] y",     "d//m", "Genév/数据",
                                          "{a,b}~$", "%s%d\\-*.index", "./r"};
enum { DIRECTORIES = sizeof(directories) / sizeof(directories[0]) };

/* 300 bytes, and names that an escape could make equal. */
static const char *const names[] = {"a",
                                    "a.b",
                                    "a..b",
                                    "a .b",
                                    ".",
                                    "..",
                                    " ",
                                    "c/b",
                                    "c.Sb",
                                    "c/.b",
                                    "ä/数据",
                                    "b.ATTRIBUTES",
                                    "w.OPTIMIZER_SLOT",
                                    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
                                    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
                                    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
                                    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
                                    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
                                    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

struct model {
    struct fake *objects[NAMES];
    sheaf_checkpoint *checkpoint;
};

static void set(struct model *m, int base)
{
    for (int i = 0; i < NAMES; i++) {
        sheaf_tensor_free(m->objects[i]->values[0]);
        m->objects[i]->values[0] = sheaf_tensor_keep(sheaf_float((float)(base + i)));
    }
}

static void expect(const struct model *m, int base)
{
    for (int i = 0; i < NAMES; i++)
        assert_true(sheaf_tensor_number(m->objects[i]->values[0], 0) == base + i);
}

static struct model make(void)
{
    struct model m = {.checkpoint = sheaf_checkpoint_new()};
    for (int i = 0; i < NAMES; i++) {
        m.objects[i] = fake_floats(SHEAF_SCALAR, 0);
        sheaf_checkpoint_add(m.checkpoint, names[i], &m.objects[i]->trackable);
    }
    return m;
}

static void end(struct model *m)
{
    sheaf_checkpoint_free(m->checkpoint);
    for (int i = 0; i < NAMES; i++)
        fake_free(m->objects[i]);
    sheaf_frame_clear();
}

static void save_three(struct model *m, const char *directory)
{
    const sheaf_manager_options options = {.max_to_keep = 2};
    sheaf_checkpoint_manager *manager = NULL;
    sheaf_error err;
    const char *path = NULL;
    rig_ok(sheaf_checkpoint_manager_new(m->checkpoint, directory, &options, &manager, &err), &err);
    for (int k = 1; k <= 3; k++) {
        set(m, 100 * k);
        rig_ok(sheaf_manager_save(manager, false, &path, &err), &err);
        assert_string_equal(path, sheaf_checkpoint_latest(directory));
    }
    set(m, 0);
    rig_ok(sheaf_manager_restore(manager, &path, &err), &err);
    expect(m, 300);
    sheaf_checkpoint_manager_free(manager);
}

/* Two checkpoints are kept, and nothing else is there. */
static void check_files(const char *directory, int first, int last, int others)
{
    struct sheaf__strings there = {0};
    sheaf_error err;
    char file[64];
    rig_ok(sheaf__file_list(directory, &there, &err), &err);
    for (int k = first; k <= last; k++) {
        snprintf(file, sizeof(file), "ckpt-%d.index", k);
        assert_true(sheaf__strings_has(&there, file));
        snprintf(file, sizeof(file), "ckpt-%d.data-00000-of-00001", k);
        assert_true(sheaf__strings_has(&there, file));
        snprintf(file, sizeof(file), ".ckpt-%d.sheaf", k);
        assert_true(sheaf__strings_has(&there, file));
    }
    assert_int_equal(there.count, 3 * (last - first + 1) + others);
    sheaf__strings_clear(&there);
}

static void goes_on_in(struct model *m, const char *directory)
{
    sheaf_checkpoint_manager *manager = NULL;
    sheaf_error err;
    const char *path = NULL;
    const sheaf_manager_options options = {.max_to_keep = 2};
    rig_ok(sheaf_checkpoint_manager_new(m->checkpoint, directory, &options, &manager, &err), &err);
    set(m, 0);
    rig_ok(sheaf_manager_restore(manager, &path, &err), &err);
    expect(m, 300);
    rig_ok(sheaf_manager_save(manager, false, &path, &err), &err);
    check_files(directory, 3, 4, 2); /* the state file, the lock */
    sheaf_checkpoint_manager_free(manager);
}

static void try_directory(const char *directory, const char *moved)
{
    struct model m = make();
    save_three(&m, directory);
    check_files(directory, 2, 3, 1);
    assert_int_equal(rename(directory, moved), 0);
    goes_on_in(&m, moved);
    end(&m);
}

static void T54_absolute(void **state)
{
    (void)state;
    for (int i = 0; i < DIRECTORIES - 1; i++) {
        char *directory = sheaf__path_join(rig_path("run"), directories[i]);
        char *moved = sheaf__printf("%s moved", directory);
        try_directory(directory, moved);
        sheaf__free(directory);
        sheaf__free(moved);
    }
}

static void T54_relative(void **state)
{
    (void)state;
    sheaf_error err;
    char *before = getcwd(NULL, 0);
    rig_ok(sheaf__file_mkdir(rig_path("here"), 0, &err), &err);
    assert_int_equal(chdir(rig_path("here")), 0);
    for (int i = 0; i < DIRECTORIES; i++) {
        char moved[32];
        snprintf(moved, sizeof(moved), "moved %d", i);
        try_directory(directories[i], moved);
    }
    assert_int_equal(chdir(before), 0);
    free(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {rig_test(T54_absolute), rig_test(T54_relative)};
    return rig_run(tests);
}
