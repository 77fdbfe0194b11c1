/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include "base/context.h"
#include "base/fs.h"
#include "ckpt/sweep.h"

#include <errno.h>
#include <stdio.h>

/* Every call to the file system fails once, or from there on (the process is killed), with or without
 * a crash of the machine afterwards (what was not synced is gone): the checkpoint before or the new
 * one is there, whole; and the new one if the save said so (demand 5, T58, S207). */

#define PS_0 FAKE_DEVICE("ps", "0")
#define PS_1 FAKE_DEVICE("ps", "1")

struct job {
    struct fake_group *group;
    struct fake *table, *own;
    sheaf_checkpoint *checkpoint;
    sheaf_checkpoint_manager *manager;
};

static void replace(sheaf_tensor **place, sheaf_tensor *t)
{
    sheaf_tensor_free(*place);
    *place = sheaf_tensor_keep(t);
}

/* Everything gets one value. */
static void set(struct job *j, float value)
{
    float data[8];
    for (int i = 0; i < 8; i++)
        data[i] = value;
    replace(&j->group->held[0].value, sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(4, 2), data));
    replace(&j->group->held[1].value, sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2, 2), data));
    replace(&j->own->values[0], sheaf_float(value));
}

/* A table over two tasks and a variable here. */
static sheaf_status start(struct job *j, bool background, sheaf_error *err)
{
    *j = (struct job){fake_group_new(FAKE_DEVICE("chief", "0")), fake_new(), fake_new(),
                      sheaf_checkpoint_new(), NULL};
    sheaf_tensor *t = sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(6, 2), NULL);
    fake_hold(j->group, j->table, PS_0, t, 0, 4);
    fake_hold(j->group, j->table, PS_1, t, 4, 2);
    fake_add(j->own, sheaf_float(0));
    sheaf_checkpoint_add(j->checkpoint, "table", &j->table->trackable);
    sheaf_checkpoint_add(j->checkpoint, "own", &j->own->trackable);
    return sheaf_checkpoint_manager_new(
        j->checkpoint, "run", &(sheaf_manager_options){.max_to_keep = 2, .background = background},
        &j->manager, err);
}

static void end(struct job *j)
{
    sheaf_checkpoint_manager_free(j->manager);
    sheaf_checkpoint_free(j->checkpoint);
    fake_free(j->table);
    fake_free(j->own);
    fake_group_free(j->group);
    sheaf_frame_clear();
}

/* The one value that everything has, or -1. */
static float value_of(const struct job *j)
{
    float value = (float)sheaf_tensor_number(j->own->values[0], 0);
    for (int p = 0; p < 2; p++) {
        const sheaf_tensor *t = j->group->held[p].value;
        for (int64_t i = 0; i < sheaf_tensor_elements(t); i++) {
            if ((float)sheaf_tensor_number(t, i) != value)
                return -1;
        }
    }
    return value;
}

struct trial {
    uint64_t k;
    bool sticky, crash;
    const char *over; /* a path that is written over; NULL: a manager's next number */
    bool background;
};

/* A program: goes on from what is there, then saves its own value, and changes it while it is written. */
static sheaf_status save(const struct trial *t, float value, const char *over, sheaf_error *err)
{
    struct job j;
    sheaf_status status = start(&j, t->background, err);
    if (status >= 0)
        status = sheaf_manager_restore(j.manager, NULL, err);
    if (status >= 0) {
        set(&j, value);
        status = over ? sheaf_checkpoint_write(j.checkpoint, over, NULL, err)
                      : sheaf_manager_save(j.manager, false, NULL, err);
        if (t->background)
            set(&j, -value);
    }
    if (status >= 0)
        status = sheaf_manager_wait(j.manager, err);
    end(&j);
    return status;
}

static float restored(const struct trial *t)
{
    const char *over = t->over;
    struct job j;
    sheaf_error err = {0};
    const char *path = NULL;
    rig_ok(start(&j, t->background, &err), &err);
    if (over)
        rig_ok(sheaf_checkpoint_restore(j.checkpoint, over, &err), &err);
    else
        rig_ok(sheaf_manager_restore(j.manager, &path, &err), &err);
    float value = value_of(&j);
    end(&j);
    return value;
}

static void no_log(sheaf_log_level level, const char *line, void *user)
{
    (void)level;
    (void)line;
    (void)user;
}

/* False when there is no k-th operation. */
static bool try_once(const struct trial *t)
{
    struct sheaf__fs *memory = sheaf__fs_memory_new(), *faulty = sheaf__fs_faulty_new(memory);
    sheaf_context *context = NULL;
    sheaf_error err = {0};
    rig_ok(sheaf_context_new(&(sheaf_context_options){.log = no_log}, &context, &err), &err);
    sheaf__context_set_fs(context, faulty);
    sheaf_context *before = sheaf_context_enter(context);
    rig_ok(save(t, 1, NULL, &err), &err);
    rig_ok(save(t, 2, NULL, &err), &err);
    if (t->over)
        rig_ok(save(t, 2, t->over, &err), &err);

    sheaf__fs_faulty_set(faulty, &(struct sheaf__fs_fault){t->k, SHEAF__FS_ANY, EIO, t->sticky});
    sheaf_status status = save(t, 3, t->over, &err);
    bool hit = sheaf__fs_faulty_hit(faulty);
    sheaf__fs_faulty_set(faulty, &(struct sheaf__fs_fault){0});
    if (t->crash)
        sheaf__fs_memory_crash(memory);
    float value = restored(t);
    if (value != 3 && (value != 2 || status >= 0))
        fail_msg("k %u, sticky %d, crash %d, over %s: restored %g after %s (%s)", (unsigned)t->k,
                 t->sticky, t->crash, t->over ? t->over : "-", (double)value,
                 sheaf_status_name(status), status < 0 ? err.message : "");
    /* And life goes on. */
    rig_ok(save(t, 4, t->over, &err), &err);
    assert_true(restored(t) == 4);

    sheaf_frame_clear();
    sheaf_context_enter(before);
    sheaf_context_free(context);
    sheaf__fs_faulty_free(faulty);
    sheaf__fs_memory_free(memory);
    return hit;
}

static void try_all(const char *over, bool background)
{
    for (int mode = 0; mode < 4; mode++) {
        struct trial t = {
            .sticky = mode & 1, .crash = mode & 2, .over = over, .background = background};
        for (t.k = 1; try_once(&t); t.k++)
            ;
        assert_true(t.k > 60);
    }
}

static void next_number(void **state)
{
    (void)state;
    try_all(NULL, false);
}

static void over_an_old_one(void **state)
{
    (void)state;
    try_all("run/fixed", false);
}

/* The values are those of the call, and what happened is said at the next one. */
static void in_the_background(void **state)
{
    (void)state;
    try_all(NULL, true);
}

/* ---- another task still writes ---- */

static const struct sheaf__fs *inner;
static int late_files;

/* Just before the directory would be gone, a file comes into it. */
static int rmdir_too_late(void *user, const char *path)
{
    char file[64];
    if (late_files > 0) {
        snprintf(file, sizeof(file), "%s/part-%05d-of-00009.index", path, late_files--);
        if (sheaf__file_replace(file, "x", 1, NULL) < 0)
            return EIO;
    }
    return inner->rmdir(user, path);
}

/* A save that is given up leaves nothing behind, whatever another task puts there meanwhile. */
static void late_writer(void **state)
{
    (void)state;
    struct sheaf__fs *memory = sheaf__fs_memory_new(), fs = *memory;
    struct sheaf__strings names = {0};
    sheaf_context *context = NULL;
    sheaf_error err = {0};
    inner = memory;
    late_files = 5;
    fs.rmdir = rmdir_too_late;
    rig_ok(sheaf_context_new(&(sheaf_context_options){.log = no_log}, &context, &err), &err);
    sheaf__context_set_fs(context, &fs);
    sheaf_context *before = sheaf_context_enter(context);
    rig_ok(sheaf__file_mkdir("run/ckpt-1_temp", 0, &err), &err);
    rig_ok(sheaf__file_replace("run/ckpt-1_temp/part-token", "x", 1, &err), &err);
    sheaf__sweep_temporary("run/ckpt-1_temp");
    assert_int_equal(late_files, 0);
    rig_ok(sheaf__file_list("run", &names, &err), &err);
    assert_int_equal(names.count, 0);
    sheaf__strings_clear(&names);
    sheaf_context_enter(before);
    sheaf_context_free(context);
    sheaf__fs_memory_free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(next_number),
        rig_test(over_an_old_one),
        rig_test(in_the_background),
        rig_test(late_writer),
    };
    return rig_run(tests);
}
