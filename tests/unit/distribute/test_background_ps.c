/* SPDX-License-Identifier: Apache-2.0 */

/* Saves in the background under parameter servers: each writes what it had at one moment while it goes on serving. The disk
 * of the last server is the test's, which lets it wait or fail. */

#include "helpers.h"
#include "tables.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/wait.h"
#include "format/bundle.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { WORKERS = 2, SERVERS = 2, STEPS = 4, MORE_STEPS = 3, SEEDS = 5 };

/* ---- the disk ---- */

static struct sheaf__fs disk;
static _Atomic bool closed;  /* nothing is written before it is opened */
static _Atomic int code;     /* what a write fails with */
static _Atomic int64_t slow; /* to open a file of data takes so long, ns */

static int open_file(void *user, const char *path, enum sheaf__file_mode mode, void **handle)
{
    if (strstr(path, ".data-"))
        (void)sheaf__wait_sleep(sheaf__clock_after(slow), SHEAF__NO_TOKEN, NULL);
    return sheaf__fs_system()->open(user, path, mode, handle);
}

static int write_at(void *user, void *handle, uint64_t offset, const void *data, size_t size,
                    size_t *done)
{
    const int64_t end = sheaf__clock_deadline(60);
    while (closed && sheaf__clock_left(end) > 0)
        (void)sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), SHEAF__NO_TOKEN, NULL);
    return code ? code : sheaf__fs_system()->write_at(user, handle, offset, data, size, done);
}

/* ---- jobs ---- */

struct worker {
    struct rig_task *task;
    struct job *job;
    sheaf_strategy *s;
    struct tables t;
    sheaf_checkpoint_manager *manager;
};

struct job {
    sheaf_status (*play)(struct worker *w, sheaf_error *err);
    const char *folder;
    double deadline;
    sheaf_manager_options options;
    _Atomic int at[4]; /* how many workers have come to a place */
};

static const struct tables_rule adam = {"adam", {.learning_rate = 0.05}};

static sheaf_status meet(struct worker *w, int place, sheaf_error *err)
{
    const int64_t end = sheaf__clock_deadline(60);
    atomic_fetch_add(&w->job->at[place], 1);
    while (atomic_load(&w->job->at[place]) < WORKERS && sheaf__clock_left(end) > 0)
        SHEAF__TRY(sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), NULL, err));
    return atomic_load(&w->job->at[place]) == WORKERS
               ? SHEAF_OK
               : sheaf__error(err, SHEAF_ERR_INTERNAL, "nobody comes to place %d", place);
}

static sheaf_status work(struct rig_task *task)
{
    struct worker w = {.task = task, .job = task->user};
    const sheaf_strategy_options options = {.deadline = w.job->deadline,
                                            .variable_partitioner = sheaf_partitioner_fixed(3)};
    SHEAF__TRY(sheaf_strategy_new("ps", NULL, &options, &w.s, &task->err));
    sheaf_status status = tables_make(&w.t, w.s, &adam, &task->err);
    if (status >= 0)
        status = sheaf_checkpoint_manager_new(w.t.checkpoint, w.job->folder, &w.job->options,
                                              &w.manager, &task->err);
    if (status >= 0)
        status = w.job->play(&w, &task->err);
    if (status < 0)
        closed = false;
    if (status >= 0)
        status = sheaf_strategy_join(w.s, 0, &task->err);
    sheaf_checkpoint_manager_free(w.manager);
    tables_free(&w.t);
    sheaf_strategy_free(w.s);
    return status;
}

/* In a simulation of that seed; 0: with the system's threads. */
static void run(struct job *job, uint64_t seed)
{
    const struct jobs jobs = {.worker = WORKERS, .ps = SERVERS, .disk = &disk};
    char name[32];
    snprintf(name, sizeof(name), "run-%d", (int)seed);
    job->folder = rig_path(name);
    job->options.background = true;
    job->deadline = job->deadline > 0 ? job->deadline : 120;
    disk = *sheaf__fs_system();
    disk.write_at = write_at;
    disk.open = open_file;
    slow = 0;
    closed = false;
    code = 0;
    if (seed)
        simulate_cluster(seed, jobs, work, job, 3600);
    else
        run_cluster(jobs, work, job, 120);
}

static const char *path_of(const struct job *job, const char *name)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/%s", strrchr(job->folder, '/') + 1, name);
    return rig_path(path);
}

static bool has(const struct job *job, const char *name)
{
    return sheaf__file_exists(path_of(job, name));
}

/* The saving thread begins when the scheduler lets it. */
static bool comes(const struct job *job, const char *name)
{
    const int64_t deadline = sheaf__clock_deadline(20);
    while (!has(job, name) && sheaf__clock_left(deadline) > 0)
        sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), NULL, NULL);
    return has(job, name);
}

static bool is_latest(const struct job *job, const char *name)
{
    const char *latest = sheaf_checkpoint_latest(job->folder);
    return latest && strcmp(latest, path_of(job, name)) == 0;
}

/* ---- comparing ---- */

/* Every tensor of `expected` but its object graph is in `path`, bit for bit. */
static void assert_holds(const char *path, const char *expected)
{
    sheaf_error err = {0};
    sheaf_bundle *a = open_bundle(path), *b = open_bundle(expected);
    sheaf_bundle_entry e;
    int count = 0;
    for (size_t i = 0; sheaf_bundle_get(b, i, &e) != SHEAF_END; i++) {
        sheaf_tensor *x = NULL, *y = NULL;
        if (e.dtype == SHEAF_STRING)
            continue;
        rig_ok(sheaf_bundle_read(a, e.key, &x, &err), &err);
        rig_ok(sheaf_bundle_read(b, e.key, &y, &err), &err);
        assert_true(sheaf_shape_equal(sheaf_tensor_shape(x), sheaf_tensor_shape(y)));
        assert_memory_equal(sheaf_tensor_data(x), sheaf_tensor_data(y),
                            (size_t)sheaf_tensor_elements(y) * sheaf_dtype_size(e.dtype));
        count++;
    }
    assert_true(count >= 3 * TABLE_VARIABLES); /* values and two slots of each */
    sheaf_bundle_free(a);
    sheaf_bundle_free(b);
}

/* What one process alone has after STEPS. */
static const char *alone(void)
{
    sheaf_error err = {0};
    struct tables t;
    const char *path = rig_path("alone");
    sheaf_strategy *s = strategy("one");
    rig_ok(tables_make(&t, s, &adam, &err), &err);
    rig_ok(tables_train(&t, s, 0, STEPS, &err), &err);
    rig_ok(sheaf_checkpoint_write(t.checkpoint, path, NULL, &err), &err);
    tables_free(&t);
    sheaf_strategy_free(s);
    return path;
}

/* ---- the moment ---- */

static sheaf_status play_moment(struct worker *w, sheaf_error *err)
{
    const bool saves = w->task->index == 0;
    const char *path = NULL;
    if (saves) {
        SHEAF__TRY(tables_train(&w->t, w->s, 0, STEPS, err));
        closed = true;
    }
    SHEAF__TRY(meet(w, 0, err));
    SHEAF__TRY(sheaf_manager_save(w->manager, false, &path, err));
    RIG_CHECK(w->task, saves ? strstr(path, "ckpt-1") != NULL : !path);
    SHEAF__TRY(meet(w, 1, err));
    /* Both go on, and what they push is applied. */
    SHEAF__TRY(tables_train(&w->t, w->s, STEPS, MORE_STEPS, err));
    SHEAF__TRY(meet(w, 2, err));
    if (!saves)
        return SHEAF_OK;
    RIG_CHECK(w->task, comes(w->job, "ckpt-1_temp") && !has(w->job, "ckpt-1.index"));
    closed = false;
    SHEAF__TRY(sheaf_manager_wait(w->manager, err));
    RIG_CHECK(w->task, is_latest(w->job, "ckpt-1") && !has(w->job, "ckpt-1_temp"));
    /* The same, in the background and not. */
    SHEAF__TRY(sheaf_manager_save(w->manager, false, NULL, err));
    SHEAF__TRY(sheaf_checkpoint_write(w->t.checkpoint, path_of(w->job, "foreground"), NULL, err));
    return sheaf_manager_wait(w->manager, err);
}

static sheaf_status play_restore(struct worker *w, sheaf_error *err)
{
    const struct job *job = w->job;
    if (w->task->index > 0)
        return SHEAF_OK;
    SHEAF__TRY(sheaf_checkpoint_restore(w->t.checkpoint, path_of(job, "ckpt-1"), err));
    return sheaf_checkpoint_write(w->t.checkpoint, path_of(job, "again"), NULL, err);
}

/* What is saved is what was there when the save was called, bit for bit, with slots and in parts, whatever is pushed while it
 * is written; a save in the foreground and a restore give the same. */
static void test_the_moment(void **state)
{
    (void)state;
    const char *expected = alone();
    for (uint64_t seed = 0; seed <= SEEDS; seed++)
        SHEAF_FRAME
        {
            struct job job = {.play = play_moment}, again = {.play = play_restore};
            run(&job, seed);
            assert_holds(path_of(&job, "ckpt-1"), expected);
            assert_holds(path_of(&job, "ckpt-2"), path_of(&job, "foreground"));
            run(&again, seed);
            assert_holds(path_of(&again, "again"), expected);
        }
}

/* ---- pushes while it is cut ---- */

/* Parts on both servers, each of which is a push that the server does not apply at once. */
enum { ROWS = 3, COLUMNS = 300000, SAVES = 4, PART_BYTES = COLUMNS * 4 };

static sheaf_status add_one(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                            void *user)
{
    (void)r;
    (void)in;
    (void)out;
    return sheaf_assign_add(user, sheaf_ones(SHEAF_FLOAT32, SHEAF_SHAPE(ROWS, COLUMNS)), NULL);
}

static sheaf_status add(struct worker *w, sheaf_variable *v, int times, sheaf_error *err)
{
    for (int i = 0; i < times && err->status >= 0; i++)
        SHEAF_FRAME
        {
            (void)!sheaf_run(w->s, add_one, v, NULL, NULL, err);
        }
    return err->status;
}

/* Updates find what they change held, and what is held is let go when it is written: it takes no more memory with every save.
 * Threads may keep a block each for what comes next. */
static sheaf_status look_at_memory(struct worker *w, sheaf_variable *v, sheaf_error *err)
{
    enum { FIRST = 2, LAST = 10, KEPT = 4 };
    int64_t before = 0;
    for (int i = 0; i < LAST; i++) {
        closed = true;
        SHEAF__TRY(sheaf_manager_save(w->manager, false, NULL, err));
        SHEAF__TRY(add(w, v, 2, err));
        closed = false;
        SHEAF__TRY(sheaf_manager_wait(w->manager, err));
        SHEAF__TRY(add(w, v, 2, err));
        if (i < FIRST)
            before = sheaf__mem_stats().live_bytes;
    }
    RIG_CHECK(w->task, sheaf__mem_stats().live_bytes - before < (int64_t)KEPT * PART_BYTES);
    return SHEAF_OK;
}

static sheaf_status push_and_save(struct worker *w, sheaf_variable *v, sheaf_error *err)
{
    SHEAF__TRY(meet(w, 0, err));
    if (w->task->index > 0) {
        while (!w->job->at[1])
            SHEAF__TRY(add(w, v, 1, err));
        return meet(w, 1, err);
    }
    for (int i = 0; i < SAVES; i++) {
        SHEAF__TRY(add(w, v, 2, err));
        SHEAF__TRY(sheaf_manager_save(w->manager, false, NULL, err));
    }
    SHEAF__TRY(sheaf_manager_wait(w->manager, err));
    SHEAF__TRY(meet(w, 1, err));
    return look_at_memory(w, v, err);
}

/* A save may be under way until the manager is gone. */
static void free_with_manager(struct worker *w, sheaf_variable *v)
{
    sheaf_checkpoint_manager_free(w->manager);
    w->manager = NULL;
    sheaf_variable_free(v);
}

static sheaf_status play_pushes(struct worker *w, sheaf_error *err)
{
    sheaf_variable *v = NULL;
    SHEAF_SCOPE(w->s)
    {
        v = sheaf_variable_init("big", SHEAF_FLOAT32, SHEAF_SHAPE(ROWS, COLUMNS),
                                sheaf_init_zeros(), NULL);
    }
    sheaf_checkpoint_add_variable(w->t.checkpoint, "big", v);
    sheaf_status status = push_and_save(w, v, err);
    free_with_manager(w, v);
    return status;
}

/* Pushes of a worker that a server has noted. */
static int pushes_of(const sheaf_bundle *b, int server, int worker)
{
    char device[64], name[32];
    int pushes = 0;
    snprintf(device, sizeof(device), "/job:ps/replica:0/task:%d", server);
    snprintf(name, sizeof(name), "worker:%d ", worker);
    const char *note = sheaf__sidecar_note(&b->sidecar, device);
    const char *entry = note ? strstr(note, name) : NULL;
    if (entry)
        assert_int_equal(sscanf(entry + strlen(name), "%*u %d", &pushes), 1);
    return pushes;
}

/* A push is in all of a server's parts, or in none; which are, the server has noted. */
static void expect_whole_pushes(const char *path, int least)
{
    sheaf_error err = {0};
    sheaf_bundle *b = open_bundle(path);
    sheaf_tensor *t = NULL;
    rig_ok(sheaf_bundle_read(b, "big/.ATTRIBUTES/VARIABLE_VALUE", &t, &err), &err);
    const float *values = sheaf_tensor_data(t);
    for (int row = 0; row < ROWS; row++) {
        const float *v = values + (size_t)row * COLUMNS;
        const int server = row % SERVERS;
        assert_true(pushes_of(b, server, 0) >= least);
        assert_true(v[0] == (float)(pushes_of(b, server, 0) + pushes_of(b, server, 1)));
        for (int i = 1; i < COLUMNS; i++)
            if (v[i] != v[0])
                fail_msg("row %d: %g at %d, %g at 0", row, (double)v[i], i, (double)v[0]);
    }
    assert_int_equal(pushes_of(b, 0, 0), pushes_of(b, 1, 0)); /* its own were all acknowledged */
    sheaf_bundle_free(b);
}

static void test_pushes_while_it_is_cut(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed <= 2; seed++)
        SHEAF_FRAME
        {
            struct job job = {.play = play_pushes, .options = {.max_to_keep = -1}};
            run(&job, seed);
            for (int i = 1; i <= SAVES; i++) {
                char name[16];
                snprintf(name, sizeof(name), "ckpt-%d", i);
                expect_whole_pushes(path_of(&job, name), 2 * i);
            }
        }
}

/* ---- a disk that is full ---- */

static sheaf_status expect_full(struct worker *w, sheaf_status status, const sheaf_error *fault)
{
    RIG_CHECK(w->task, status == SHEAF_ERR_RESOURCE_EXHAUSTED);
    RIG_CHECK(w->task, strcmp(fault->origin.job, "ps") == 0 && fault->origin.index == SERVERS - 1);
    RIG_CHECK(w->task, strstr(fault->message, "no space left on device"));
    RIG_CHECK(w->task, strstr(fault->file, "ckpt-2_temp/part-"));
    RIG_CHECK(w->task, !has(w->job, "ckpt-2_temp") && !has(w->job, "ckpt-2.index"));
    RIG_CHECK(w->task, is_latest(w->job, "ckpt-1"));
    return SHEAF_OK;
}

static sheaf_status play_full(struct worker *w, sheaf_error *err)
{
    sheaf_error fault = {0};
    const char *path = NULL;
    if (w->task->index > 0)
        return SHEAF_OK;
    SHEAF__TRY(tables_train(&w->t, w->s, 0, 1, err));
    SHEAF__TRY(sheaf_manager_save(w->manager, false, NULL, err));
    SHEAF__TRY(sheaf_manager_wait(w->manager, err));
    code = ENOSPC;
    SHEAF__TRY(sheaf_manager_save(w->manager, false, &path, err));
    RIG_CHECK(w->task, strstr(path, "ckpt-2"));
    SHEAF__TRY(tables_train(&w->t, w->s, 1, 1, err));
    SHEAF__TRY(expect_full(w, sheaf_manager_save(w->manager, false, NULL, &fault), &fault));
    code = 0;
    SHEAF__TRY(tables_train(&w->t, w->s, 2, 1, err));
    SHEAF__TRY(sheaf_manager_save(w->manager, false, NULL, err));
    SHEAF__TRY(sheaf_manager_wait(w->manager, err));
    RIG_CHECK(w->task, is_latest(w->job, "ckpt-3"));
    return SHEAF_OK;
}

/* The next call says what became of it and where; the old checkpoint stays, and saving goes on. */
static void test_a_full_disk(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed <= SEEDS; seed++)
        SHEAF_FRAME
        {
            struct job job = {.play = play_full};
            run(&job, seed);
            sheaf_bundle_free(open_bundle(path_of(&job, "ckpt-1")));
            sheaf_bundle_free(open_bundle(path_of(&job, "ckpt-3")));
        }
}

/* ---- one at a time, and no longer than the deadline ---- */

static sheaf_status play_second(struct worker *w, sheaf_error *err)
{
    if (w->task->index > 0) {
        SHEAF__TRY(meet(w, 0, err));
        SHEAF__TRY(sheaf__wait_sleep(sheaf__clock_after(20 * SHEAF__MS), NULL, err));
        closed = false;
        return SHEAF_OK;
    }
    closed = true;
    SHEAF__TRY(sheaf_manager_save(w->manager, false, NULL, err));
    SHEAF__TRY(meet(w, 0, err));
    const char *path = NULL;
    SHEAF__TRY(sheaf_manager_save(w->manager, false, &path, err));
    RIG_CHECK(w->task, has(w->job, "ckpt-1.index") && !closed);
    RIG_CHECK(w->task, strstr(path, "ckpt-2"));
    SHEAF__TRY(sheaf_manager_end(w->manager, true, &path, err));
    RIG_CHECK(w->task, is_latest(w->job, "ckpt-3") && has(w->job, "ckpt-2.index"));
    return SHEAF_OK;
}

static void test_one_at_a_time(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed <= SEEDS; seed++) {
        struct job job = {.play = play_second};
        run(&job, seed);
    }
}

static sheaf_status play_stuck(struct worker *w, sheaf_error *err)
{
    sheaf_error fault = {0};
    if (w->task->index > 0)
        return SHEAF_OK;
    SHEAF__TRY(sheaf_manager_save(w->manager, false, NULL, err));
    SHEAF__TRY(sheaf_manager_wait(w->manager, err));
    closed = true;
    SHEAF__TRY(sheaf_manager_save(w->manager, false, NULL, err));
    const int64_t began = sheaf__clock_now();
    RIG_CHECK(w->task, sheaf_manager_wait(w->manager, &fault) == SHEAF_ERR_DEADLINE);
    RIG_CHECK(w->task, sheaf__clock_now() - began < 3 * SHEAF__S);
    RIG_CHECK(w->task, strcmp(fault.peer.job, "ps") == 0 && fault.peer.index == SERVERS - 1);
    RIG_CHECK(w->task, is_latest(w->job, "ckpt-1"));
    closed = false;
    SHEAF__TRY(sheaf_manager_save(w->manager, false, NULL, err));
    SHEAF__TRY(sheaf_manager_wait(w->manager, err));
    RIG_CHECK(w->task, is_latest(w->job, "ckpt-3") && !has(w->job, "ckpt-2_temp"));
    return SHEAF_OK;
}

/* A server whose disk stands still is named at the deadline. */
static void test_a_disk_that_stands_still(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct job job = {.play = play_stuck, .deadline = 2};
        run(&job, seed);
    }
}

/* 24 MiB over the servers, for which the last one takes 3 s. */
static sheaf_status save_and_restore(struct worker *w, sheaf_error *err)
{
    slow = 3 * SHEAF__S;
    const int64_t began = sheaf__clock_now();
    SHEAF__TRY(sheaf_manager_save(w->manager, false, NULL, err));
    RIG_CHECK(w->task, sheaf__clock_now() - began < SHEAF__S);
    SHEAF__TRY(sheaf_manager_wait(w->manager, err));
    const int64_t saved = sheaf__clock_now();
    RIG_CHECK(w->task, saved - began >= 3 * SHEAF__S);
    SHEAF__TRY(sheaf_checkpoint_restore(w->t.checkpoint, path_of(w->job, "ckpt-1"), err));
    RIG_CHECK(w->task, sheaf__clock_now() - saved >= 3 * SHEAF__S);
    slow = 0;
    return SHEAF_OK;
}

static sheaf_status play_slow(struct worker *w, sheaf_error *err)
{
    sheaf_variable *v = NULL;
    SHEAF_SCOPE(w->s)
    {
        v = sheaf_variable_init("large", SHEAF_FLOAT32, SHEAF_SHAPE(ROWS, 2 << 20),
                                sheaf_init_zeros(), NULL);
    }
    sheaf_checkpoint_add_variable(w->t.checkpoint, "large", v);
    sheaf_status status = w->task->index == 0 ? save_and_restore(w, err) : SHEAF_OK;
    free_with_manager(w, v);
    return status;
}

/* The deadline is one for an answer: what takes long because it is large has the time that it takes. */
static void test_a_large_table(void **state)
{
    (void)state;
    struct job job = {.play = play_slow, .deadline = 2};
    run(&job, 1);
}

/* ---- the end of a job that is asked to stop ---- */

static sheaf_status play_stop(struct worker *w, sheaf_error *err)
{
    const bool saves = w->task->index == 0;
    const char *path = NULL;
    closed = true;
    SHEAF__TRY(sheaf_manager_save(w->manager, false, NULL, err));
    SHEAF__TRY(meet(w, 0, err));
    if (saves)
        sheaf_stop();
    for (int step = 0; sheaf_manager_step(w->manager, step, err) != SHEAF_END; step++) {
        SHEAF__TRY(err->status);
        SHEAF__TRY(sheaf__wait_sleep(sheaf__clock_after(7 * SHEAF__MS), NULL, err));
        SHEAF__TRY(tables_train(&w->t, w->s, step, 1, err));
    }
    SHEAF__TRY(sheaf_strategy_join(w->s, saves ? 0 : 0.01, err));
    if (!saves) {
        RIG_CHECK(w->task, !has(w->job, "ckpt-1.index"));
        closed = false;
    }
    SHEAF__TRY(sheaf_manager_end(w->manager, true, &path, err));
    RIG_CHECK(w->task, saves ? is_latest(w->job, "ckpt-2") : !path);
    return SHEAF_OK;
}

/* The save that is under way is waited for, and the last one comes after it. */
static void test_stop(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        SHEAF_FRAME
        {
            struct job job = {.play = play_stop, .options = {.save_on_stop = true}};
            run(&job, seed);
            sheaf_bundle_free(open_bundle(path_of(&job, "ckpt-1")));
            sheaf_bundle_free(open_bundle(path_of(&job, "ckpt-2")));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_the_moment),
        rig_test(test_pushes_while_it_is_cut),
        rig_test(test_a_full_disk),
        rig_test(test_one_at_a_time),
        rig_test(test_a_disk_that_stands_still),
        rig_test(test_a_large_table),
        rig_test(test_stop),
    };
    return rig_run(tests);
}
