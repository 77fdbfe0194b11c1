/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "ckpt/checkpoint.h"
#include "ckpt/directory.h"
#include "ckpt/sweep.h"

#include <string.h>

/* A directory of checkpoints: retention, resuming, following. */

struct run {
    struct fake *w;
    sheaf_checkpoint *checkpoint;
    sheaf_checkpoint_manager *manager;
};

/* One that only reads. */
static struct run reader(void)
{
    struct run r = {.w = fake_floats(SHEAF_SHAPE(2), 0)};
    r.checkpoint = sheaf_checkpoint_new();
    sheaf_checkpoint_add(r.checkpoint, "w", &r.w->trackable);
    return r;
}

static struct run start(const sheaf_manager_options *options)
{
    struct run r = reader();
    sheaf_error err;
    rig_ok(sheaf_checkpoint_manager_new(r.checkpoint, rig_path("run"), options, &r.manager, &err),
           &err);
    return r;
}

static void put_file(const char *folder, const char *name)
{
    sheaf_error err;
    char *path = sheaf__path_join(rig_path(folder), name);
    rig_ok(sheaf__file_replace(path, "x", 1, &err), &err);
    sheaf__free(path);
}

static void end(struct run *r)
{
    sheaf_checkpoint_manager_free(r->manager);
    sheaf_checkpoint_free(r->checkpoint);
    fake_free(r->w);
}

static void set(struct run *r, float value)
{
    sheaf_tensor_free(r->w->values[0]);
    r->w->values[0] =
        sheaf_tensor_keep(sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(2), (float[]){value, value}));
}

static double get(const struct run *r)
{
    return sheaf_tensor_number(r->w->values[0], 0);
}

/* Saves a value; returns the name of the checkpoint. */
static const char *save(struct run *r, float value)
{
    sheaf_error err;
    const char *path = NULL;
    set(r, value);
    rig_ok(sheaf_manager_save(r->manager, false, &path, &err), &err);
    return sheaf__path_name(path);
}

static void max_to_keep(void **state)
{
    (void)state;
    struct run r = start(&(sheaf_manager_options){.max_to_keep = 2});
    for (int i = 1; i <= 4; i++)
        save(&r, (float)i);
    assert_string_equal(rig_list("run"), ".checkpoint.lock .ckpt-3.sheaf .ckpt-4.sheaf checkpoint "
                                         "ckpt-3.data-00000-of-00001 ckpt-3.index "
                                         "ckpt-4.data-00000-of-00001 ckpt-4.index");
    struct sheaf__state_file s;
    sheaf_error err;
    rig_ok(sheaf__state_file_read(&s, rig_path("run"), &err), &err);
    assert_string_equal(s.latest, "ckpt-4");
    assert_int_equal(s.paths.count, 2);
    assert_string_equal(s.paths.items[0], "ckpt-3");
    assert_int_equal(s.time_count, 2);
    assert_true(s.times[1] > s.times[0] && s.times[0] > s.last_preserved);
    assert_true(s.has_last_preserved);
    sheaf__state_file_free(&s);
    end(&r);

    /* The next run goes on: its manager deletes what the first one left. */
    const char *path = NULL;
    r = start(&(sheaf_manager_options){.max_to_keep = 2});
    rig_ok(sheaf_manager_restore(r.manager, &path, &err), &err);
    assert_string_equal(sheaf__path_name(path), "ckpt-4");
    assert_true(get(&r) == 4);
    assert_string_equal(save(&r, 5), "ckpt-5");
    assert_string_equal(rig_list("run"), ".checkpoint.lock .ckpt-4.sheaf .ckpt-5.sheaf checkpoint "
                                         "ckpt-4.data-00000-of-00001 ckpt-4.index "
                                         "ckpt-5.data-00000-of-00001 ckpt-5.index");
    end(&r);
    sheaf_frame_clear();
}

static void keeps_all_and_foreign_files(void **state)
{
    (void)state;
    sheaf_error err;
    rig_ok(sheaf__file_mkdir(rig_path("run"), 0, &err), &err);
    static const char *const foreign[] = {"run/notes.txt", "run/ckpt-1.data-x", "run/other-1.index",
                                          "run/ckpt-12.data-00000-of-00001"};
    for (size_t i = 0; i < 4; i++)
        rig_ok(sheaf__file_replace(rig_path(foreign[i]), "x", 1, &err), &err);
    struct run r = start(&(sheaf_manager_options){.max_to_keep = 1});
    save(&r, 1);
    save(&r, 2);
    for (size_t i = 0; i < 4; i++)
        assert_true(sheaf__file_exists(rig_path(foreign[i])));
    end(&r);
    r = start(&(sheaf_manager_options){.max_to_keep = -1, .name = "all"});
    for (int i = 0; i < 8; i++)
        save(&r, 1);
    for (int i = 1; i <= 8; i++) {
        char name[32];
        snprintf(name, sizeof(name), "run/all-%d.index", i);
        assert_true(sheaf__file_exists(rig_path(name)));
    }
    assert_true(sheaf__file_exists(rig_path("run/ckpt-2.index")));
    end(&r);
    sheaf_frame_clear();
}

static void every_steps(void **state)
{
    (void)state;
    struct run r = start(&(sheaf_manager_options){.every_steps = 10, .max_to_keep = -1});
    sheaf_error err;
    static const struct {
        int64_t step;
        int saved;
    } steps[] = {{1, 0}, {9, 0}, {10, 1}, {10, 1}, {11, 1}, {25, 2}, {29, 2}, {61, 3}, {70, 4}};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        rig_ok(sheaf_manager_step(r.manager, steps[i].step, &err), &err);
        char name[32];
        snprintf(name, sizeof(name), "run/ckpt-%d.index", steps[i].saved);
        assert_int_equal(sheaf__file_exists(rig_path(name)), steps[i].saved > 0);
        snprintf(name, sizeof(name), "run/ckpt-%d.index", steps[i].saved + 1);
        assert_false(sheaf__file_exists(rig_path(name)));
    }
    end(&r);
    /* A run that goes on at step 71 does not save at once. */
    r = start(&(sheaf_manager_options){.every_steps = 10, .name = "b"});
    rig_ok(sheaf_manager_step(r.manager, 71, &err), &err);
    assert_false(sheaf__file_exists(rig_path("run/b-1.index")));
    rig_ok(sheaf_manager_step(r.manager, 80, &err), &err);
    assert_true(sheaf__file_exists(rig_path("run/b-1.index")));
    end(&r);
    r = start(&(sheaf_manager_options){.name = "never"});
    rig_ok(sheaf_manager_step(r.manager, 10, &err), &err);
    assert_false(sheaf__file_exists(rig_path("run/never-1.index")));
    end(&r);
}

static void flip(const char *name, uint64_t at)
{
    struct sheaf__file *file = NULL;
    sheaf_error err;
    rig_ok(sheaf__file_open(rig_path(name), SHEAF__FILE_UPDATE, &file, &err), &err);
    rig_ok(sheaf__file_write_at(file, at, "\x99", 1, &err), &err);
    rig_ok(sheaf__file_close(file, &err), &err);
}

static double restored(const char *expected)
{
    struct run r = start(NULL);
    sheaf_error err;
    const char *path = "?";
    rig_ok(sheaf_manager_restore(r.manager, &path, &err), &err);
    if (expected)
        assert_string_equal(sheaf__path_name(path), expected);
    else
        assert_null(path);
    double value = get(&r);
    end(&r);
    return value;
}

/* Demand 5, T59: the newest complete one is restored; damaged ones are named and left alone. */
static void t59_newest_complete(void **state)
{
    (void)state;
    sheaf_error err;
    assert_true(restored(NULL) == 0);
    struct run r = start(NULL);
    for (int i = 1; i <= 5; i++)
        save(&r, (float)i);
    end(&r);
    assert_true(restored("ckpt-5") == 5);

    flip("run/ckpt-5.data-00000-of-00001", 1);
    assert_true(restored("ckpt-4") == 4);
    const char *log = rig_log_take();
    assert_non_null(strstr(log, "ckpt-5' cannot be read and is left out"));
    assert_non_null(strstr(log, "checksum mismatch"));
    rig_ok(sheaf__file_unlink(rig_path("run/ckpt-4.data-00000-of-00001"), &err), &err);
    assert_true(restored("ckpt-3") == 3);
    log = rig_log_take();
    assert_non_null(strstr(log, "ckpt-4' cannot be read"));
    flip("run/ckpt-3.index", 3);
    assert_true(restored("ckpt-2") == 2);
    rig_log_take();
    rig_ok(sheaf__file_unlink(rig_path("run/ckpt-2.index"), &err), &err);
    assert_true(restored("ckpt-1") == 1);
    rig_log_take();

    /* Nothing whole is left: no silent start from nothing. */
    flip("run/ckpt-1.data-00000-of-00001", 1);
    r = start(NULL);
    rig_fails(sheaf_manager_restore(r.manager, NULL, &err), &err, SHEAF_ERR_DATA_LOSS,
              "checksum mismatch");
    log = rig_log_take(); /* the error speaks of the last one */
    assert_true(strstr(log, "ckpt-5' cannot be read") && !strstr(log, "ckpt-1"));
    end(&r);
    sheaf_frame_clear();
}

static sheaf_status restore_again(void *user, sheaf_error *err)
{
    struct run *r = user;
    const char *const before = "before", *path = before;
    sheaf_status status;
    SHEAF_FRAME
    {
        status = sheaf_manager_restore(r->manager, &path, err);
        assert_true(status < 0 ? path == before : !strcmp(sheaf__path_name(path), "ckpt-1"));
    }
    rig_log_take(); /* without the state file the names of the files do */
    return status;
}

/* The path is set on success only, whichever allocation fails. */
static void restore_without_memory(void **state)
{
    (void)state;
    struct run r = start(NULL);
    sheaf_error err;
    save(&r, 1);
    for (int i = 0; i < 2;
         i++) /* what one keeps, the next one replaces, from pools that are full */
        rig_ok(restore_again(&r, &err), &err);
    assert_true(rig_fail_allocations(restore_again, &r) > 10);
    end(&r);
    sheaf_frame_clear();
}

/* A save whose state file was not written any more is found, as it is newer; one that the state file
 * left behind is not. Without a state file, and with a broken one, the numbers decide. */
static void beyond_the_state_file(void **state)
{
    (void)state;
    sheaf_error err;
    char *old = NULL;
    size_t size;
    struct run r = start(NULL);
    for (int i = 1; i <= 2; i++)
        save(&r, (float)i);
    rig_ok(sheaf__file_read_all(rig_path("run/checkpoint"), 9999, &old, &size, &err), &err);
    save(&r, 3);
    end(&r);
    rig_ok(sheaf__file_replace(rig_path("run/checkpoint"), old, size, &err), &err);
    assert_true(restored("ckpt-2") == 2); /* ckpt-3 is older than the state file */
    r = start(NULL);
    rig_ok(sheaf_manager_restore(r.manager, NULL, &err), &err);
    set(&r, 33);
    rig_ok(sheaf_checkpoint_write(r.checkpoint, rig_path("run/ckpt-3"), NULL, &err), &err);
    end(&r);
    assert_true(restored("ckpt-3") == 33); /* now it is newer */
    rig_ok(sheaf__file_replace(rig_path("run/checkpoint"), "junk", 4, &err), &err);
    assert_true(restored("ckpt-3") == 33);
    assert_non_null(strstr(rig_log_take(), "looking at the files of the directory"));
    rig_ok(sheaf__file_unlink(rig_path("run/checkpoint"), &err), &err);
    assert_true(restored("ckpt-3") == 33);
    sheaf__free(old);
    sheaf_frame_clear();
}

static void put_state(const char *latest)
{
    sheaf_error err;
    char text[512];
    int size = snprintf(text, sizeof(text),
                        "model_checkpoint_path: \"%s\"\nall_model_checkpoint_paths: \"%s\"\n",
                        latest, latest);
    rig_ok(sheaf__file_replace(rig_path("run/checkpoint"), text, (size_t)size, &err), &err);
}

static int count_of(const char *text, const char *what)
{
    int count = 0;
    for (; (text = strstr(text, what)); text++)
        count++;
    return count;
}

/* A directory that was moved has a state file that names what is elsewhere: the files decide, for
 * everybody who looks for the newest one, with one warning. */
static void state_file_of_elsewhere(void **state)
{
    (void)state;
    static const char *const latest[] = {"/nowhere/run/ckpt-3", "ckpt-9"};
    sheaf_error err;
    struct run r = start(NULL);
    for (int i = 1; i <= 3; i++)
        save(&r, (float)i);
    end(&r);
    for (int i = 0; i < 2; i++) {
        put_state(latest[i]);
        assert_true(restored("ckpt-3") == 3);
        assert_int_equal(count_of(rig_log_take(), latest[i]), 1);
        assert_string_equal(sheaf_checkpoint_latest(rig_path("run")), rig_path("run/ckpt-3"));
        assert_int_equal(count_of(rig_log_take(), latest[i]), 1);
    }
    rig_ok(sheaf__file_replace(rig_path("run/checkpoint"), "junk", 4, &err), &err);
    assert_string_equal(sheaf_checkpoint_latest(rig_path("run")), rig_path("run/ckpt-3"));
    assert_non_null(strstr(rig_log_take(), "looking at the files of the directory"));
    rig_ok(sheaf__file_unlink(rig_path("run/checkpoint"), &err), &err);
    assert_string_equal(sheaf_checkpoint_latest(rig_path("run")), rig_path("run/ckpt-3"));
    sheaf_frame_clear();
}

/* A program that restores nothing, or not the newest, still replaces no checkpoint. */
static void none_is_replaced(void **state)
{
    (void)state;
    sheaf_error err;
    struct run r = start(NULL);
    for (int i = 1; i <= 3; i++)
        save(&r, (float)i);
    end(&r);
    r = start(NULL);
    assert_string_equal(save(&r, 9), "ckpt-4");
    end(&r);
    r = start(NULL);
    rig_ok(sheaf_checkpoint_restore(r.checkpoint, rig_path("run/ckpt-1"), &err), &err);
    assert_string_equal(save(&r, 10), "ckpt-5");
    end(&r);
    for (int i = 1; i <= 3; i++) {
        char name[32];
        snprintf(name, sizeof(name), "run/ckpt-%d", i);
        r = start(NULL);
        rig_ok(sheaf_checkpoint_restore(r.checkpoint, rig_path(name), &err), &err);
        assert_true(get(&r) == i);
        end(&r);
    }
    sheaf_frame_clear();
}

/* A follower passes over what a trainer passes over, with one warning, and waits for the next. */
static void follower_passes_over_damage(void **state)
{
    (void)state;
    sheaf_error err = {0};
    const char *path = NULL;
    struct run r = start(NULL), f = reader();
    for (int i = 1; i <= 2; i++)
        save(&r, (float)i);
    flip("run/ckpt-2.data-00000-of-00001", 1);
    rig_ok(sheaf_checkpoint_restore_next(f.checkpoint, rig_path("run"), NULL, 1, &path, &err),
           &err);
    assert_string_equal(sheaf__path_name(path), "ckpt-1");
    assert_true(get(&f) == 1);
    const char *log = rig_log_take();
    assert_int_equal(count_of(log, "ckpt-2' cannot be read and is left out"), 1);
    assert_non_null(strstr(log, "checksum mismatch"));
    assert_int_equal(
        sheaf_checkpoint_restore_next(f.checkpoint, rig_path("run"), path, 0.06, &path, &err),
        SHEAF_ERR_DEADLINE);
    assert_string_equal(rig_log_take(), "");
    assert_string_equal(save(&r, 3), "ckpt-3");
    rig_ok(sheaf_checkpoint_restore_next(f.checkpoint, rig_path("run"), path, 1, &path, &err),
           &err);
    assert_true(get(&f) == 3);
    end(&f);
    end(&r);
    sheaf_frame_clear();
}

/* A whole checkpoint of another program is no damage: the error is what differs. */
static void another_program_is_an_error(void **state)
{
    (void)state;
    sheaf_error err;
    struct run r = start(NULL);
    save(&r, 1);
    save(&r, 2);
    end(&r);
    struct fake *w = fake_floats(SHEAF_SHAPE(3), 0);
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_manager *m = NULL;
    sheaf_checkpoint_add(c, "w", &w->trackable);
    rig_ok(sheaf_checkpoint_manager_new(c, rig_path("run"), NULL, &m, &err), &err);
    rig_fails(sheaf_manager_restore(m, NULL, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "it is of shape (2,), expected (3,)");
    sheaf_checkpoint_manager_free(m);
    sheaf_checkpoint_free(c);
    fake_free(w);
    sheaf_frame_clear();
}

static void bad_options(void **state)
{
    (void)state;
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_manager *m = NULL;
    sheaf_error err;
    static const struct {
        sheaf_manager_options options;
        const char *message;
    } cases[] = {
        {{.every_steps = -1}, "every_steps is -1, expected 0 or more"},
        {{.name = "a/b"}, "name is 'a/b', expected that of a file"},
        {{.name = ""}, "name is '', expected that of a file"},
        {{.reserved = {0, 0, 7}}, "reserved[2] is not 0"},
        {{.save = {.reserved = {1}}}, "reserved[0] is not 0"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        rig_fails(sheaf_checkpoint_manager_new(c, rig_path("run"), &cases[i].options, &m, &err),
                  &err, SHEAF_ERR_INVALID_ARGUMENT, cases[i].message);
    rig_fails(sheaf_checkpoint_manager_new(c, "", NULL, &m, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "no directory");
    /* A directory that cannot be written to is found out before the training. */
    rig_ok(sheaf__file_replace(rig_path("file"), "x", 1, &err), &err);
    sheaf_status status = sheaf_checkpoint_manager_new(c, rig_path("file"), NULL, &m, &err);
    assert_true(status < 0);
    assert_non_null(strstr(err.file, "file"));
    sheaf_checkpoint_free(c);
}

/* Following, as an evaluator does. */

struct follower {
    const char *directory;
    char seen[256];
    sheaf_status status;
    sheaf_error err;
};

static void follow(void *user)
{
    struct follower *f = user;
    char previous[512];
    const char *path = NULL;
    while ((f->status = sheaf_checkpoint_wait(f->directory, path, 20, &path, &f->err)) ==
           SHEAF_OK) {
        size_t at = strlen(f->seen);
        snprintf(f->seen + at, sizeof(f->seen) - at, "%s ", sheaf__path_name(path));
        snprintf(previous, sizeof(previous), "%s", path);
        path = previous;
        sheaf_frame_clear();
    }
}

/* Every checkpoint that is the newest when it looks; the end after the last one of the run. */
static void follows_to_the_end(void **state)
{
    (void)state;
    struct follower f = {.directory = rig_path("run")};
    struct sheaf__thread *thread = NULL;
    sheaf_error err;
    rig_ok(sheaf__thread_start("follower", follow, &f, NULL, &thread, &err), &err);
    struct run r = start(NULL);
    for (int i = 0; i < 20; i++)
        save(&r, (float)i);
    rig_ok(sheaf_manager_save(r.manager, true, NULL, &err), &err);
    rig_ok(sheaf__thread_join(thread, sheaf__clock_deadline(30), &err), &err);
    assert_int_equal(f.status, SHEAF_END);
    assert_true(sheaf__str_ends(f.seen, "ckpt-21 "));
    end(&r);
    sheaf_frame_clear();
}

/* Where there are only damaged ones, what is wrong with the newest is the error, not that time is up. */
static void follower_tells_of_damage(void **state)
{
    (void)state;
    sheaf_error err = {0};
    const char *path = NULL;
    struct run r = start(NULL), f = reader();
    for (int i = 1; i <= 2; i++) {
        save(&r, (float)i);
        flip(i == 1 ? "run/ckpt-1.data-00000-of-00001" : "run/ckpt-2.data-00000-of-00001", 1);
    }
    rig_fails(sheaf_checkpoint_restore_next(f.checkpoint, rig_path("run"), NULL, 0.01, &path, &err),
              &err, SHEAF_ERR_DATA_LOSS, "checksum mismatch");
    assert_non_null(strstr(err.file, "ckpt-2.data"));
    assert_int_equal(count_of(rig_log_take(), "cannot be read and is left out"), 2);
    rig_fails(sheaf_checkpoint_restore_next(f.checkpoint, rig_path("run"), NULL, 0.01, &path, &err),
              &err, SHEAF_ERR_DEADLINE, "no checkpoint that can be read in");
    assert_null(path);
    end(&f);
    end(&r);
}

static void waits_no_longer_than_told(void **state)
{
    (void)state;
    sheaf_error err;
    const char *path = NULL;
    rig_fails(sheaf_checkpoint_wait(rig_path("run"), NULL, 0.01, &path, &err), &err,
              SHEAF_ERR_DEADLINE, "/run' after 0.01 s: no such directory");
    struct run r = start(NULL);
    rig_fails(sheaf_checkpoint_wait(rig_folder(), NULL, 0.01, &path, &err), &err,
              SHEAF_ERR_DEADLINE, "no checkpoint in");
    save(&r, 1);
    rig_ok(sheaf_checkpoint_wait(rig_path("run"), NULL, 0.01, &path, &err), &err);
    rig_fails(sheaf_checkpoint_wait(rig_path("run"), path, 0.12, &path, &err), &err,
              SHEAF_ERR_DEADLINE, "no new checkpoint in");
    assert_null(sheaf_checkpoint_latest(rig_path("none")));
    end(&r);
    sheaf_frame_clear();
}

/* The last checkpoint of an earlier run ends nothing: the runs have names. */
static void last_belongs_to_a_run(void **state)
{
    (void)state;
    static const char *const first[] = {"SHEAF_RUN_ID=first", NULL};
    static const char *const second[] = {"SHEAF_RUN_ID=second", NULL};
    const char *directory = rig_path("run"), *path = NULL;
    sheaf_error err;
    for (int i = 0; i < 2; i++) {
        sheaf_context *context = NULL;
        rig_ok(sheaf_context_new(&(sheaf_context_options){.environment = i ? second : first},
                                 &context, &err),
               &err);
        sheaf_context *before = sheaf_context_enter(context);
        if (i == 0) {
            struct run r = start(NULL);
            rig_ok(sheaf_manager_save(r.manager, true, NULL, &err), &err);
            end(&r);
        }
        rig_ok(sheaf_checkpoint_wait(directory, NULL, 1, &path, &err), &err);
        assert_string_equal(sheaf__path_name(path), "ckpt-1");
        sheaf_status status = sheaf_checkpoint_wait(directory, path, 0.06, &path, &err);
        assert_int_equal(status, i ? SHEAF_ERR_DEADLINE : SHEAF_END);
        sheaf_frame_clear();
        sheaf_context_enter(before);
        sheaf_context_free(context);
    }
}

/* A run that finds nothing to do ends with the checkpoint that is there, untouched but for that, even if
 * a newer one is damaged; one that changed something, or has none, saves. */
static void ends_with_what_is_there(void **state)
{
    (void)state;
    static const char *const first[] = {"SHEAF_RUN_ID=first", NULL};
    const char *path = NULL;
    sheaf_context *context = NULL;
    sheaf_error err;
    rig_ok(sheaf_context_new(&(sheaf_context_options){.environment = first}, &context, &err), &err);
    sheaf_context *before = sheaf_context_enter(context);
    struct run r = start(NULL);
    rig_ok(sheaf_manager_end(r.manager, false, &path, &err), &err);
    assert_string_equal(sheaf__path_name(path), "ckpt-1");
    rig_ok(sheaf_manager_end(r.manager, true, &path, &err), &err);
    assert_string_equal(sheaf__path_name(path), "ckpt-2");
    save(&r, 3);
    end(&r);
    sheaf_frame_clear();
    sheaf_context_enter(before);
    sheaf_context_free(context);

    flip("run/ckpt-3.data-00000-of-00001", 1);
    struct run f = reader();
    r = start(NULL);
    rig_ok(sheaf_manager_restore(r.manager, NULL, &err), &err);
    char files[1024];
    sheaf__str_copy(files, sizeof(files), rig_list("run"));
    for (int i = 0; i < 2; i++) {
        rig_ok(sheaf_manager_end(r.manager, false, &path, &err), &err);
        assert_string_equal(sheaf__path_name(path), "ckpt-2");
        assert_string_equal(rig_list("run"), files);
    }
    rig_ok(sheaf_checkpoint_restore_next(f.checkpoint, rig_path("run"), NULL, 1, &path, &err),
           &err);
    assert_string_equal(sheaf__path_name(path), "ckpt-2");
    assert_int_equal(
        sheaf_checkpoint_restore_next(f.checkpoint, rig_path("run"), path, 20, &path, &err),
        SHEAF_END);
    end(&r);
    end(&f);
    assert_int_equal(count_of(rig_log_take(), "ckpt-3' cannot be read and is left out"), 2);
    sheaf_frame_clear();
}

/* Where writers take turns. */

/* A run whose tensor is held by `g`'s task; it writes if `writes`. */
static struct run take_part(struct fake_group **g, bool writes)
{
    sheaf_error err;
    struct run r = {.w = fake_new()};
    *g = fake_group_new("/job:worker/replica:0/task:0");
    (*g)->group.cls = &fake_turns_class;
    (*g)->not_writer = !writes;
    (*g)->leaves = 1000;
    fake_hold(*g, r.w, "/job:ps/replica:0/task:0/device:CPU:0", sheaf_float(1), 0, 1);
    r.checkpoint = sheaf_checkpoint_new();
    sheaf_checkpoint_add(r.checkpoint, "w", &r.w->trackable);
    rig_ok(sheaf_checkpoint_manager_new(r.checkpoint, rig_path("run"), NULL, &r.manager, &err),
           &err);
    return r;
}

static void leave(struct run *r, struct fake_group *g)
{
    sheaf_checkpoint_manager_free(r->manager);
    sheaf_checkpoint_free(r->checkpoint);
    fake_free(r->w);
    fake_group_free(g);
}

/* Who takes over goes on behind the numbers that were given, without what a save left that did not
 * come to its end; nobody else's files are touched, the lock is the group's. */
static void takes_over(void **state)
{
    (void)state;
    static const char before[] = ".ckpt-3.sheaf .ckpt-3.sheaf.tmp-1-1 ckpt-3.data-00000-of-00001 "
                                 "ckpt-3_temp ckpt-7.data-00000-of-00001 notes.txt",
                      after[] = ".ckpt-4.sheaf checkpoint ckpt-4.data-00000-of-00002 "
                                "ckpt-4.data-00001-of-00002 ckpt-4.index "
                                "ckpt-7.data-00000-of-00001 notes.txt";
    struct fake_group *g;
    sheaf_error err;
    const char *path = "";
    rig_ok(sheaf__file_mkdir(rig_path("run"), 0, &err), &err);
    rig_ok(sheaf__file_mkdir(rig_path("run/ckpt-3_temp"), 0, &err), &err);
    put_file("run", ".ckpt-3.sheaf.tmp-1-1");
    put_file("run", ".ckpt-3.sheaf");
    put_file("run", "ckpt-3.data-00000-of-00001");
    put_file("run", "ckpt-7.data-00000-of-00001");
    put_file("run", "notes.txt");
    put_file("run/ckpt-3_temp", "part-00000-of-00001.index");
    struct run r = take_part(&g, false);
    rig_ok(sheaf_manager_save(r.manager, false, &path, &err), &err);
    assert_null(path);
    assert_string_equal(rig_list("run"), before);
    assert_int_equal(g->taken, 0);
    g->not_writer = false;
    g->last = 3;
    rig_ok(sheaf_manager_save(r.manager, false, &path, &err), &err);
    assert_string_equal(sheaf__path_name(path), "ckpt-4");
    assert_string_equal(rig_list("run"), after);
    rig_ok(sheaf_manager_save(r.manager, false, &path, &err), &err);
    assert_int_equal(g->taken, 1);
    leave(&r, g);
    sheaf_frame_clear();
}

/* What the last writer has put in place stays. */
static void takes_over_what_is_whole(void **state)
{
    (void)state;
    struct fake_group *g, *h;
    sheaf_error err;
    const char *path = "";
    struct run r = take_part(&g, true);
    rig_ok(sheaf_manager_save(r.manager, false, &path, &err), &err);
    struct run other = take_part(&h, false);
    h->not_writer = false;
    h->last = g->last;
    rig_ok(sheaf_manager_save(other.manager, false, &path, &err), &err);
    assert_string_equal(sheaf__path_name(path), "ckpt-2");
    assert_true(sheaf__directory_has(rig_path("run/ckpt-1")));
    leave(&other, h);
    leave(&r, g);
    sheaf_frame_clear();
}

/* Who has lost its turn makes nothing visible, whenever it finds out: before the index, or with the
 * checkpoint in place before the state file says so. */
static void loses_its_turn(void **state)
{
    (void)state;
    sheaf_error err;
    struct fake_group *g;
    struct run r = take_part(&g, true);
    rig_ok(sheaf_manager_save(r.manager, false, NULL, &err), &err);
    char *state_file = NULL, *found = NULL;
    rig_ok(sheaf__file_read_all(rig_path("run/checkpoint"), 999, &state_file, NULL, &err), &err);
    static const char before[] = ".ckpt-1.sheaf checkpoint ckpt-1.data-00000-of-00002 "
                                 "ckpt-1.data-00001-of-00002 ckpt-1.index";
    assert_string_equal(rig_list("run"), before);
    for (int given = 0; given < 2; given++) {
        g->not_writer = false;
        g->leaves = given;
        rig_fails(sheaf_manager_save(r.manager, false, NULL, &err), &err, SHEAF_ERR_UNAVAILABLE,
                  "another one writes");
        if (given == 0)
            assert_string_equal(rig_list("run"), before);
        rig_ok(sheaf__file_read_all(rig_path("run/checkpoint"), 999, &found, NULL, &err), &err);
        assert_string_equal(found, state_file);
        sheaf__free(found);
    }
    assert_true(sheaf__directory_has(rig_path("run/ckpt-3")));
    sheaf__free(state_file);
    leave(&r, g);
    sheaf_frame_clear();
}

/* Its files are gone, as the next writer has swept them: the turn is the cause, not the files. */
static sheaf_status swept(struct sheaf__save_group *g, sheaf_error *err)
{
    sheaf_status status = fake_leave(g, err);
    sheaf__sweep_leftovers(rig_path("run"), "ckpt");
    fake_group_of(g)->leaves = 0; /* and from now on */
    return status;
}

static void is_swept(void **state)
{
    (void)state;
    static const struct sheaf__save_turns turns = {
        .take = fake_take, .number = fake_number, .leave = swept};
    struct sheaf__save_group_class cls = fake_turns_class;
    sheaf_error err;
    struct fake_group *g;
    struct run r = take_part(&g, true);
    cls.turns = &turns;
    g->group.cls = &cls;
    g->leaves = 1;
    rig_fails(sheaf_manager_save(r.manager, false, NULL, &err), &err, SHEAF_ERR_UNAVAILABLE,
              "another one writes");
    assert_string_equal(rig_list("run"), ".ckpt-1.sheaf");
    leave(&r, g);
    sheaf_frame_clear();
}

/* ---- in the background ---- */

static sheaf_status refuse(sheaf_shardable *const *tensors, size_t count, sheaf_shard_plan *plan,
                           void *user)
{
    (void)tensors;
    (void)count;
    (void)plan;
    return *(bool *)user ? SHEAF_ERR_ABORTED
                         : sheaf_shard_all_in_one()->assign(tensors, count, plan, NULL);
}

/* A save has the values of its call, one is under way at a time, and the next call says what became of it. */
static void in_the_background(void **state)
{
    (void)state;
    bool refuses = false;
    const sheaf_sharding_callback callback = {refuse, "moody", &refuses};
    const sheaf_manager_options options = {
        .background = true, .max_to_keep = 2, .save.sharding = &callback};
    const char *path = NULL;
    sheaf_error err;
    struct run r = start(&options);
    rig_ok(sheaf_manager_wait(r.manager, &err), &err);
    for (int i = 1; i <= 3; i++) {
        char name[16];
        snprintf(name, sizeof(name), "ckpt-%d", i);
        assert_string_equal(save(&r, (float)i), name);
        set(&r, (float)-i);
    }
    rig_ok(sheaf_manager_wait(r.manager, &err), &err);
    assert_string_equal(rig_list("run"), ".checkpoint.lock .ckpt-2.sheaf .ckpt-3.sheaf checkpoint "
                                         "ckpt-2.data-00000-of-00001 ckpt-2.index "
                                         "ckpt-3.data-00000-of-00001 ckpt-3.index");
    assert_true(get(&r) == -3);
    assert_string_equal(save(&r, 4), "ckpt-4");
    set(&r, -4);
    rig_ok(sheaf_manager_restore(r.manager, &path, &err), &err);
    assert_string_equal(sheaf__path_name(path), "ckpt-4");
    assert_true(get(&r) == 4);

    refuses = true;
    save(&r, 5);
    refuses = false;
    rig_fails(sheaf_manager_save(r.manager, false, &path, &err), &err, SHEAF_ERR_ABORTED, "moody");
    assert_string_equal(save(&r, 6), "ckpt-5");
    rig_ok(sheaf_manager_end(r.manager, false, &path, &err), &err);
    assert_string_equal(sheaf__path_name(path), "ckpt-5");
    assert_string_equal(save(&r, 7), "ckpt-6"); /* the manager's end waits for it */
    end(&r);
    assert_string_equal(sheaf__path_name(sheaf_checkpoint_latest(rig_path("run"))), "ckpt-6");

    refuses = true;
    r = start(&options);
    save(&r, 8);
    end(&r);
    assert_non_null(strstr(rig_log_take(), "ckpt-7' was not saved: "));
    sheaf_frame_clear();
}

/* The second snapshot is written into the memory of the first. */
static void copies_into_the_same_memory(void **state)
{
    (void)state;
    struct run r = start(&(sheaf_manager_options){0});
    struct sheaf__snapshot snapshot = {0};
    struct sheaf__ckpt_objects objects;
    sheaf_error err;
    const void *memory[2];
    for (int i = 0; i < 2; i++) {
        set(&r, (float)i);
        rig_ok(sheaf__objects_walk(&objects, &r.checkpoint->trackable, "", &err), &err);
        rig_ok(sheaf__snapshot_take(&snapshot, &objects, &err), &err);
        set(&r, -1);
        assert_int_equal(snapshot.count, 1);
        memory[i] = sheaf_tensor_data(snapshot.copies[0]);
        assert_true(sheaf_tensor_number(snapshot.copies[0], 1) == i);
        sheaf__objects_free(&objects);
    }
    assert_ptr_equal(memory[0], memory[1]);
    sheaf__snapshot_free(&snapshot);
    end(&r);
    sheaf_frame_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(max_to_keep),
        rig_test(keeps_all_and_foreign_files),
        rig_test(every_steps),
        rig_test(t59_newest_complete),
        rig_test(restore_without_memory),
        rig_test(beyond_the_state_file),
        rig_test(state_file_of_elsewhere),
        rig_test(none_is_replaced),
        rig_test(follower_tells_of_damage),
        rig_test(follower_passes_over_damage),
        rig_test(another_program_is_an_error),
        rig_test(bad_options),
        rig_test(follows_to_the_end),
        rig_test(waits_no_longer_than_told),
        rig_test(last_belongs_to_a_run),
        rig_test(ends_with_what_is_there),
        rig_test(takes_over),
        rig_test(takes_over_what_is_whole),
        rig_test(loses_its_turn),
        rig_test(is_swept),
        rig_test(in_the_background),
        rig_test(copies_into_the_same_memory),
    };
    return rig_run(tests);
}
