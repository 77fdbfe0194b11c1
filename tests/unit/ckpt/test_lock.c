/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include "base/file.h"
#include "base/str.h"
#include "format/state_file.h"

#include <string.h>

/* One manager a directory: who is refused, and what becomes of one whose directory is another by now. */

struct run {
    struct fake *w;
    sheaf_checkpoint *checkpoint;
    sheaf_checkpoint_manager *manager;
};

static sheaf_status try_start(struct run *r, const char *name, sheaf_error *err)
{
    *r = (struct run){.w = fake_floats(SHEAF_SHAPE(2), 0), .checkpoint = sheaf_checkpoint_new()};
    sheaf_checkpoint_add(r->checkpoint, "w", &r->w->trackable);
    const sheaf_manager_options o = {.name = name};
    return sheaf_checkpoint_manager_new(r->checkpoint, rig_path("run"), &o, &r->manager, err);
}

static struct run start(void)
{
    struct run r;
    sheaf_error err;
    rig_ok(try_start(&r, NULL, &err), &err);
    return r;
}

static void end(struct run *r)
{
    sheaf_checkpoint_manager_free(r->manager);
    sheaf_checkpoint_free(r->checkpoint);
    fake_free(r->w);
    sheaf_frame_clear();
}

/* The name of the checkpoint. */
static const char *save(struct run *r)
{
    sheaf_error err;
    const char *path = NULL;
    rig_ok(sheaf_manager_save(r->manager, false, &path, &err), &err);
    return sheaf__path_name(path);
}

static void is_refused(const char *name)
{
    struct run r;
    sheaf_error err;
    rig_fails(try_start(&r, name, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
              "another process, or manager, saves checkpoints in the directory");
    assert_string_equal(err.file, rig_path("run"));
    end(&r);
}

static void move(const char *from, const char *to)
{
    sheaf_error err;
    rig_ok(sheaf__file_rename(rig_path(from), rig_path(to), &err), &err);
}

/* A second writer is refused and told why, whatever it calls its checkpoints: the state file is one. The
 * directory is free again when the first one ends. */
static void one_writer(void **state)
{
    (void)state;
    sheaf_error err;
    struct run r = start();
    is_refused(NULL);
    is_refused("best");
    end(&r);
    /* The lock goes with its owner; what one that was killed leaves holds nobody up. */
    assert_false(sheaf__file_exists(rig_path("run/.checkpoint.lock")));
    rig_ok(sheaf__file_replace(rig_path("run/.checkpoint.lock"), "left", 4, &err), &err);
    r = start();
    assert_string_equal(save(&r), "ckpt-1");
    end(&r);
    assert_false(sheaf__file_exists(rig_path("run/.checkpoint.lock")));
}

/* What cannot be written to is named itself, not a file of ours. */
static void no_place_for_a_lock(void **state)
{
    (void)state;
    sheaf_error err;
    sheaf_checkpoint_manager *m = NULL;
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    assert_true(sheaf_checkpoint_manager_new(c, "/proc", NULL, &m, &err) < 0);
    assert_string_equal(err.file, "/proc");
    sheaf_checkpoint_free(c);
}

/* Who saves while another job has begun in a new directory of that name saves nothing there, and leaves
 * the lock alone. When that job has ended, its checkpoints are kept like one's own. */
static void another_in_its_place(void **state)
{
    (void)state;
    sheaf_error err;
    struct sheaf__state_file listed;
    struct run r = start();
    assert_string_equal(save(&r), "ckpt-1");
    move("run", "old");
    struct run second = start();
    assert_string_equal(save(&second), "ckpt-1");
    for (int i = 0; i < 2; i++)
        rig_fails(sheaf_manager_save(r.manager, false, NULL, &err), &err,
                  SHEAF_ERR_FAILED_PRECONDITION,
                  "another process, or manager, saves checkpoints in the directory");
    assert_non_null(strstr(rig_log_take(), "no longer the one that this process has"));
    assert_string_equal(rig_list("run"), ".checkpoint.lock .ckpt-1.sheaf checkpoint "
                                         "ckpt-1.data-00000-of-00001 ckpt-1.index");
    end(&second);
    assert_string_equal(save(&r), "ckpt-2");
    rig_ok(sheaf__state_file_read(&listed, rig_path("run"), &err), &err);
    assert_int_equal(listed.paths.count, 2);
    sheaf__state_file_free(&listed);
    end(&r);
    assert_string_equal(rig_list("run"), ".ckpt-1.sheaf .ckpt-2.sheaf checkpoint "
                                         "ckpt-1.data-00000-of-00001 ckpt-1.index "
                                         "ckpt-2.data-00000-of-00001 ckpt-2.index");
}

/* One whose directory is gone takes the new one, and ends with a checkpoint that is there; the lock of
 * another that came before its end is not its own. */
static void directory_is_gone(void **state)
{
    (void)state;
    sheaf_error err;
    const char *path = NULL;
    struct run r = start();
    save(&r);
    move("run", "old");
    rig_ok(sheaf_manager_end(r.manager, false, &path, &err), &err);
    assert_string_equal(sheaf_checkpoint_latest(rig_path("run")), path);
    assert_non_null(strstr(rig_log_take(), "no longer the one that this process has"));
    is_refused(NULL);
    move("run", "older");
    struct run second = start();
    end(&r);
    assert_string_equal(rig_list("run"), ".checkpoint.lock");
    end(&second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(one_writer),
        rig_test(no_place_for_a_lock),
        rig_test(another_in_its_place),
        rig_test(directory_is_gone),
    };
    return rig_run(tests);
}
