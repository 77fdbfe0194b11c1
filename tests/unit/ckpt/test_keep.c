/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include "base/clock.h"
#include "base/context.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/directory.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Which checkpoints a manager keeps: one in so many hours, as TensorFlow does, and the best; what becomes of one that was
 * interrupted. */

/* ---- a run at times of the test ---- */

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

struct run {
    struct fake *w;
    sheaf_checkpoint *checkpoint;
    sheaf_checkpoint_manager *manager;
};

static struct run start(const char *folder, const sheaf_manager_options *options)
{
    struct run r = {.w = fake_floats(SHEAF_SHAPE(2), 0)};
    sheaf_error err;
    r.checkpoint = sheaf_checkpoint_new();
    sheaf_checkpoint_add(r.checkpoint, "w", &r.w->trackable);
    rig_ok(sheaf_checkpoint_manager_new(r.checkpoint, rig_path(folder), options, &r.manager, &err),
           &err);
    rig_ok(sheaf_manager_restore(r.manager, NULL, &err), &err);
    return r;
}

static void end(struct run *r)
{
    if (!r->manager)
        return;
    sheaf_checkpoint_manager_free(r->manager);
    sheaf_checkpoint_free(r->checkpoint);
    fake_free(r->w);
    *r = (struct run){0};
    sheaf_frame_clear();
}

/* "2-3-5": the numbers of the checkpoints that are there. */
static const char *there(const char *folder)
{
    static char text[256];
    text[0] = 0;
    for (int i = 1; i < 100; i++) {
        char name[64];
        snprintf(name, sizeof(name), "%s/ckpt-%d", folder, i);
        const size_t at = strlen(text);
        if (sheaf__directory_has(rig_path(name)))
            snprintf(text + at, sizeof(text) - at, "%s%d", at ? "-" : "", i);
    }
    return text;
}

/* The same of those that the state file names, and its last_preserved_timestamp. */
static const char *listed(const char *folder, double *preserved)
{
    static char text[256];
    struct sheaf__state_file s;
    sheaf_error err;
    text[0] = 0;
    rig_ok(sheaf__state_file_read(&s, rig_path(folder), &err), &err);
    for (size_t i = 0; i < s.paths.count; i++) {
        const size_t at = strlen(text);
        snprintf(text + at, sizeof(text) - at, "%s%s", at ? "-" : "",
                 s.paths.items[i] + strlen("ckpt-"));
    }
    assert_int_equal(s.time_count, s.paths.count);
    *preserved = s.last_preserved;
    sheaf__state_file_free(&s);
    return text;
}

/* ---- one in so many hours ---- */

/* What TensorFlow's manager kept (tests/golden/checkpoint/make/keep_hours.py), save for save, over
 * restarts and with a clock that is put back. */
static void hours_as_tensorflow(void **state)
{
    (void)state;
    struct run r = {0};
    char folder[16] = "", *text = NULL, *rest = NULL;
    sheaf_error err;
    int runs = 0, saves = 0;
    rig_ok(
        sheaf__file_read_all(rig_golden("checkpoint/keep-hours.txt"), 1 << 20, &text, NULL, &err),
        &err);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        double time, hours, preserved, found;
        char files[128], names[128];
        int newest;
        if (sscanf(line, "manager %lf %d %lf", &time, &newest, &hours) == 3) {
            const sheaf_manager_options keep = {.max_to_keep = newest, .keep_every_hours = hours};
            end(&r);
            runs += time == 1700000000;
            snprintf(folder, sizeof(folder), "run%d", runs);
            set_wall(time);
            r = start(folder, &keep);
            continue;
        }
        assert_int_equal(sscanf(line, "save %lf %127s %127s %lf", &time, files, names, &preserved),
                         4);
        set_wall(time);
        rig_ok(sheaf_manager_save(r.manager, false, NULL, &err), &err);
        assert_string_equal(there(folder), files);
        assert_string_equal(listed(folder, &found), names);
        assert_true(fabs(found - preserved) < 1e-6);
        saves++;
    }
    assert_int_equal(runs, 4);
    assert_int_equal(saves, 4 * 24);
    assert_non_null(strstr(rig_log_take(), "run4/checkpoint is of the future"));
    end(&r);
    sheaf__free(text);
}

/* ---- the best ---- */

static void save_worth(struct run *r, double value)
{
    sheaf_error err;
    sheaf_manager_measure(r->manager, value);
    rig_ok(sheaf_manager_save(r->manager, false, NULL, &err), &err);
}

/* The best two stay whenever they were saved, in this run or an earlier one; the newest always does. */
static void the_best_stay(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *higher, *lower; /* what is there after it */
    } saves[] = {
        {0.5, "1", "1"},       {0.9, "1-2", "1-2"},    {0.7, "2-3", "1-3"},
        {0.1, "2-3-4", "1-4"}, {0.7, "2-5", "1-4-5"},  {NAN, "2-5-6", "1-4-6"},
        {0.8, "2-7", "1-4-7"}, {0.95, "2-8", "1-4-8"}, {-1e300, "2-8-9", "4-9"},
    };
    for (int lower = 0; lower < 2; lower++) {
        const char *folder = lower ? "lower" : "higher";
        const sheaf_manager_options keep = {
            .max_to_keep = 1, .keep_best = 2, .lower_is_better = lower};
        struct run r = start(folder, &keep);
        double preserved;
        for (size_t i = 0; i < sizeof(saves) / sizeof(saves[0]); i++) {
            if (i % 4 == 3) {
                end(&r);
                r = start(folder, &keep);
            }
            save_worth(&r, saves[i].value);
            assert_string_equal(there(folder), lower ? saves[i].lower : saves[i].higher);
            assert_string_equal(listed(folder, &preserved), there(folder));
        }
        end(&r);
    }
}

/* A value is that of one save, whoever makes it: of a step, in the background, of the end. */
static void a_value_is_of_one_save(void **state)
{
    (void)state;
    sheaf_error err;
    struct run r =
        start("run", &(sheaf_manager_options){
                         .max_to_keep = 1, .keep_best = 1, .background = true, .every_steps = 2});
    for (int step = 1; step <= 4; step++) { /* saves at 2, the last value counting, and at 4 */
        if (step <= 2)
            sheaf_manager_measure(r.manager, step);
        rig_ok(sheaf_manager_step(r.manager, step, &err), &err);
    }
    rig_ok(sheaf_manager_save(r.manager, false, NULL, &err), &err); /* without a value */
    rig_ok(sheaf_manager_wait(r.manager, &err), &err);
    assert_string_equal(there("run"), "1-3");
    sheaf_manager_measure(r.manager, 1.5);
    rig_ok(sheaf_manager_end(r.manager, true, NULL, &err), &err);
    assert_string_equal(there("run"), "1-4");
    sheaf_manager_measure(NULL, 1);
    end(&r);
}

/* One whose file beside it cannot be read may be the best: it stays, with a warning. */
static void the_unknown_stays(void **state)
{
    (void)state;
    sheaf_error err;
    struct run r = start("run", &(sheaf_manager_options){.max_to_keep = 1, .keep_best = 1});
    save_worth(&r, 3);
    rig_ok(sheaf__file_replace(rig_path("run/.ckpt-1.sheaf"), "{}", 2, &err), &err);
    save_worth(&r, 1);
    save_worth(&r, 2);
    assert_string_equal(there("run"), "1-3");
    assert_non_null(strstr(rig_log_take(), "'ckpt-1' stays, how good it is cannot be read"));
    end(&r);
}

/* Both rules at once: a good one that is beaten later is too old for the hours by then. */
static void best_and_hours(void **state)
{
    (void)state;
    static const struct {
        double hours, value;
        const char *there, *listed;
    } saves[] = {
        {1, 0.5, "1", "1"},           {1.5, 0.2, "1-2", "1-2"}, /* 1 is the best */
        {2.5, 0.1, "1-2-3", "1-3"},   /* 2 stays for ever: the hour has passed since the start */
        {2.7, 0.3, "1-2-3-4", "1-4"}, /* and 3 an hour after it */
        {3, 0.9, "2-3-5", "5"}, /* 1 is beaten, and older than what stays for ever; 4 goes, too */
    };
    set_wall(1700000000);
    struct run r = start(
        "run", &(sheaf_manager_options){.max_to_keep = 1, .keep_best = 1, .keep_every_hours = 1});
    for (size_t i = 0; i < sizeof(saves) / sizeof(saves[0]); i++) {
        double preserved;
        set_wall(1700000000 + saves[i].hours * 3600);
        save_worth(&r, saves[i].value);
        assert_string_equal(there("run"), saves[i].there);
        assert_string_equal(listed("run", &preserved), saves[i].listed);
    }
    end(&r);
}

static void bad_options(void **state)
{
    (void)state;
    static const struct {
        sheaf_manager_options options;
        const char *said;
    } cases[] = {
        {{.keep_best = -1}, "options: keep_best is -1, expected 0 or more"},
        {{.keep_every_hours = -1}, "options: keep_every_hours is -1, expected a finite number, 0"},
        {{.keep_every_hours = NAN}, "options: keep_every_hours is nan, expected"},
        {{.keep_every_hours = INFINITY}, "options: keep_every_hours is inf, expected"},
    };
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_manager *m = NULL;
    sheaf_error err;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        rig_fails(sheaf_checkpoint_manager_new(c, rig_path("run"), &cases[i].options, &m, &err),
                  &err, SHEAF_ERR_INVALID_ARGUMENT, cases[i].said);
    sheaf_checkpoint_free(c);
}

/* ---- after a process that was killed ---- */

static void save(struct run *r)
{
    sheaf_error err;
    rig_ok(sheaf_manager_save(r->manager, false, NULL, &err), &err);
}

/* The state file says what the manager may delete: without it nobody's checkpoints stay, as TensorFlow's CheckpointManager lets
 * them. */
static void state_file_is_lost(void **state)
{
    (void)state;
    const sheaf_manager_options two = {.max_to_keep = 2};
    sheaf_error err;
    struct run r = start("run", &two);
    for (int i = 1; i <= 3; i++)
        save(&r);
    end(&r);
    rig_ok(sheaf__file_unlink(rig_path("run/checkpoint"), &err), &err);
    r = start("run", &two);
    for (int i = 4; i <= 6; i++)
        save(&r);
    end(&r);
    for (int i = 1; i <= 6; i++) {
        char name[32];
        snprintf(name, sizeof(name), "run/ckpt-%d", i);
        assert_int_equal(sheaf__directory_has(rig_path(name)), i != 1 && i != 4);
    }
}

/* From the k-th operation of a save on nothing works any more. True if it got so far; `*unlisted`: it
 * was complete all the same. */
static bool interrupt_save(struct sheaf__fs *faulty, uint64_t k, bool *unlisted)
{
    sheaf_error err;
    struct run r = start("run", &(sheaf_manager_options){.max_to_keep = 2});
    save(&r);
    save(&r);
    sheaf__fs_faulty_set(faulty, &(struct sheaf__fs_fault){k, SHEAF__FS_ANY, EIO, true});
    (void)!sheaf_manager_save(r.manager, false, NULL, &err);
    const bool hit = sheaf__fs_faulty_hit(faulty);
    end(&r);
    sheaf__fs_faulty_set(faulty, &(struct sheaf__fs_fault){0});
    *unlisted = hit && sheaf__directory_has(rig_path("run/ckpt-3"));
    return hit;
}

/* Whatever is there belongs to the next run, which keeps as many as it is told and leaves nothing else.
 * Somebody's copy under a higher number, complete as well, stays. */
static void nothing_is_left_behind(void **state)
{
    (void)state;
    sheaf_error err;
    bool hit = true, unlisted;
    int count = 0;
    for (uint64_t k = 1; hit; k++) {
        struct sheaf__fs *memory = sheaf__fs_memory_new(), *faulty = sheaf__fs_faulty_new(memory);
        sheaf__context_set_fs(sheaf__context(), faulty);
        hit = interrupt_save(faulty, k, &unlisted);
        count += unlisted;
        struct run r = start("run", &(sheaf_manager_options){.max_to_keep = 2});
        rig_ok(sheaf_checkpoint_write(r.checkpoint, rig_path("run/ckpt-90"), NULL, &err), &err);
        for (int i = 0; i < 3; i++)
            save(&r);
        sheaf__file_unlink(rig_path("run/.checkpoint.lock"), NULL);
        assert_string_equal(rig_list("run"),
                            ".ckpt-90.sheaf .ckpt-92.sheaf .ckpt-93.sheaf checkpoint "
                            "ckpt-90.data-00000-of-00001 ckpt-90.index "
                            "ckpt-92.data-00000-of-00001 ckpt-92.index "
                            "ckpt-93.data-00000-of-00001 ckpt-93.index");
        end(&r);
        sheaf__context_set_fs(sheaf__context(), NULL);
        sheaf__fs_faulty_free(faulty);
        sheaf__fs_memory_free(memory);
    }
    assert_true(count > 3);
    rig_log_take();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(nothing_is_left_behind), rig_test(state_file_is_lost),
        rig_test(hours_as_tensorflow),    rig_test(the_best_stay),
        rig_test(a_value_is_of_one_save), rig_test(the_unknown_stays),
        rig_test(best_and_hours),         rig_test(bad_options),
    };
    return rig_run(tests);
}
