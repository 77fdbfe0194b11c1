/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/context_state.h"
#include "base/file.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One test at a time. */
static struct {
    sheaf_context *context;
    struct sheaf__mem_stats before;
    struct sheaf__mutex lock; /* of log, folder and paths, which tasks of a test share */
    char log[8192];
    size_t log_size;
    char taken[8192];
    char *folder;
    struct sheaf__strings paths;
} rig;

static void keep_line(sheaf_log_level level, const char *line, void *user)
{
    (void)level;
    (void)user;
    sheaf__mutex_lock(&rig.lock);
    int n = snprintf(rig.log + rig.log_size, sizeof(rig.log) - rig.log_size, "%s\n", line);
    if (n > 0 && rig.log_size + (size_t)n < sizeof(rig.log))
        rig.log_size += (size_t)n;
    sheaf__mutex_unlock(&rig.lock);
}

const char *rig_log_take(void)
{
    sheaf__mutex_lock(&rig.lock);
    memcpy(rig.taken, rig.log, rig.log_size);
    rig.taken[rig.log_size] = '\0';
    rig.log_size = 0;
    sheaf__mutex_unlock(&rig.lock);
    return rig.taken;
}

void rig_log_from(sheaf_log_level level)
{
    sheaf__context()->log_level = (int)level;
}

int rig_setup(void **state)
{
    static const char *const nothing[] = {NULL};
    sheaf_context_options options = {.log = keep_line, .environment = nothing};
    sheaf_error err = {0};
    *state = NULL;
    sheaf__context(); /* the process default is made once and stays */
    sheaf__local_release();
    rig.before = sheaf__mem_stats();
    rig.log_size = 0;
    if (sheaf_context_new(&options, &rig.context, &err) < 0) {
        sheaf_error_exit(&err);
        return -1;
    }
    sheaf_context_enter(rig.context);
    return 0;
}

/* The folder and what is in it, on the system's files whatever the test's context had. */
static void remove_tree(const char *path)
{
    struct sheaf__strings names = {0};
    struct sheaf__file_stat info;
    if (sheaf__file_stat(path, &info, NULL) == SHEAF_OK && info.kind == SHEAF__FILE_DIRECTORY) {
        sheaf__file_chmod(path, 0700, NULL);
        sheaf__file_list(path, &names, NULL);
        for (size_t i = 0; i < names.count; i++) {
            char *child = sheaf__path_join(path, names.items[i]);
            remove_tree(child);
            sheaf__free(child);
        }
        sheaf__strings_clear(&names);
        sheaf__file_rmdir(path, NULL);
    } else {
        sheaf__file_unlink(path, NULL);
    }
}

int rig_teardown(void **state)
{
    (void)state;
    int failed = 0;
    sheaf__mem_fail_at(0);
    sheaf_context_enter(rig.context);
    sheaf__context_set_fs(rig.context, NULL);
    if (rig.folder)
        remove_tree(rig.folder);
    sheaf__free(rig.folder);
    rig.folder = NULL;
    sheaf__strings_clear(&rig.paths);
    /* First the thread's root frame, whose tensors belong to the context; then what that end made.
     */
    sheaf__local_release();
    sheaf_context_enter(NULL);
    sheaf_context_free(rig.context);
    rig.context = NULL;
    sheaf__local_release();
    if (rig.log_size) {
        print_error("logged, but not expected:\n%s", rig_log_take());
        failed = -1;
    }
    struct sheaf__mem_stats after = sheaf__mem_stats();
    if (after.live_blocks != rig.before.live_blocks) {
        print_error("%" PRId64 " blocks, %" PRId64 " bytes are still allocated\n",
                    after.live_blocks - rig.before.live_blocks,
                    after.live_bytes - rig.before.live_bytes);
        failed = -1;
    }
    return failed;
}

static const char *keep_path(char *path)
{
    sheaf__mutex_lock(&rig.lock);
    const bool kept = sheaf__strings_take(&rig.paths, path);
    const char *same = kept ? rig.paths.items[rig.paths.count - 1] : NULL;
    sheaf__mutex_unlock(&rig.lock);
    if (!kept)
        fail_msg("no memory for a path");
    return same;
}

/* NULL: it cannot be made. */
static char *make_folder(void)
{
    const char *base = getenv("TMPDIR");
    char *folder = sheaf__printf("%s/sheaf-test-XXXXXX", base && *base ? base : "/tmp");
    if (folder && mkdtemp(folder))
        return folder;
    sheaf__free(folder);
    return NULL;
}

const char *rig_folder(void)
{
    sheaf__mutex_lock(&rig.lock);
    if (!rig.folder)
        rig.folder = make_folder();
    const char *folder = rig.folder;
    sheaf__mutex_unlock(&rig.lock);
    if (!folder)
        fail_msg("cannot make a temporary folder");
    return folder;
}

const char *rig_path(const char *name)
{
    return keep_path(sheaf__path_join(rig_folder(), name));
}

const char *rig_list(const char *name)
{
    static char text[1024];
    struct sheaf__strings names = {0};
    sheaf_error err;
    text[0] = '\0';
    rig_ok(sheaf__file_list(rig_path(name), &names, &err), &err);
    for (size_t i = 0; i < names.count; i++) {
        const size_t at = strlen(text);
        snprintf(text + at, sizeof(text) - at, "%s%s", at ? " " : "", names.items[i]);
    }
    sheaf__strings_clear(&names);
    return text;
}

const char *rig_golden(const char *name)
{
    return keep_path(sheaf__path_join(SHEAF_TEST_GOLDEN, name));
}

static int map_nothing(void *user, void *handle, size_t size, const uint8_t **data)
{
    (void)user;
    (void)handle;
    (void)size;
    (void)data;
    return EIO;
}

void rig_map_files(bool can)
{
    static struct sheaf__fs fs;
    fs = *sheaf__fs_system();
    fs.map = map_nothing;
    sheaf__context_set_fs(sheaf__context(), can ? NULL : &fs);
}

void rig_ok_at(sheaf_status status, const sheaf_error *err, const char *file, int line)
{
    char text[1024] = "";
    if (status == SHEAF_OK)
        return;
    if (err)
        sheaf_error_format(err, text, sizeof(text));
    print_error("%s:%d: %s: %s\n", file, line, sheaf_status_name(status), text);
    _fail(file, line);
}

void rig_fails_at(sheaf_status status, const sheaf_error *err, sheaf_status expected,
                  const char *part, const char *file, int line)
{
    if (status == expected && err->status == expected && strstr(err->message, part))
        return;
    print_error("%s:%d: found %s \"%s\", expected %s \"...%s...\"\n", file, line,
                sheaf_status_name(status), err->message, sheaf_status_name(expected), part);
    _fail(file, line);
}

/* ---- tasks ---- */

struct runner {
    struct rig_task task;
    sheaf_status (*fn)(struct rig_task *task);
    sheaf_status status;
    struct sheaf__thread *thread;
};

static void run_task(void *user)
{
    struct runner *r = user;
    r->status = r->fn(&r->task);
}

static void start_task(struct runner *r, const char *const *environment)
{
    static const char *const nothing[] = {NULL};
    sheaf_context_options options = {.log = keep_line,
                                     .environment = environment ? environment : nothing};
    char name[32];
    sheaf_error err = {0};
    rig_ok(sheaf_context_new(&options, &r->task.context, &err), &err);
    snprintf(name, sizeof(name), "task-%d", r->task.index);
    sheaf_context *before = sheaf_context_enter(r->task.context);
    sheaf_status status = sheaf__thread_start(
        name, run_task, r, &(struct sheaf__thread_options){.stack_bytes = (size_t)8 << 20},
        &r->thread, &err);
    sheaf_context_enter(before);
    rig_ok(status, &err);
}

void rig_tasks(int n, sheaf_status (*fn)(struct rig_task *task), void *user,
               const char *const *(*environment)(int task, void *user), double seconds)
{
    struct runner *runners = sheaf__calloc((size_t)n, sizeof(*runners));
    int64_t deadline = sheaf__clock_deadline(seconds);
    int failures = 0;
    assert_non_null(runners);
    for (int i = 0; i < n; i++) {
        runners[i].task = (struct rig_task){.index = i, .count = n, .user = user};
        runners[i].fn = fn;
        start_task(&runners[i], environment ? environment(i, user) : NULL);
    }
    for (int i = 0; i < n; i++) {
        char text[1024];
        sheaf_error late = {0};
        if (sheaf__thread_join(runners[i].thread, deadline, &late) < 0) {
            /* It may still use everything here: nothing can go on. */
            fprintf(stderr, "task %d of %d has not ended after %g s\n", i, n, seconds);
            abort();
        }
        if (runners[i].status < 0) {
            sheaf_error_format(&runners[i].task.err, text, sizeof(text));
            print_error("task %d of %d: %s: %s\n", i, n, sheaf_status_name(runners[i].status),
                        text);
            failures++;
        }
    }
    for (int i = 0; i < n; i++)
        sheaf_context_free(runners[i].task.context);
    sheaf__free(runners);
    if (failures)
        fail();
}

/* The thread's table of pointers (sheaf__local_set) is there before and after: no leak. */
static void make_table_of_thread(void)
{
    static struct sheaf__local any = SHEAF__LOCAL_INIT(NULL);
    sheaf__local_set(&any, NULL);
}

size_t rig_fail_allocations(sheaf_status (*attempt)(void *user, sheaf_error *err), void *user)
{
    for (uint64_t k = 1;; k++) {
        sheaf_error err = {0};
        sheaf__mem_fail_at(0);
        make_table_of_thread();
        int64_t before = sheaf__mem_stats().live_blocks;
        sheaf__mem_fail_at(k);
        sheaf_status status = attempt(user, &err);
        bool hit = sheaf__mem_fail_hit();
        sheaf__mem_fail_at(0);
        make_table_of_thread();
        int64_t left = sheaf__mem_stats().live_blocks - before;
        if (status < 0 && (!hit || status != SHEAF_ERR_RESOURCE_EXHAUSTED))
            rig_ok(status, &err);
        if (left != 0)
            fail_msg("allocation %" PRIu64 " refused: %" PRId64 " blocks leaked", k, left);
        if (!hit)
            return (size_t)(k - 1);
    }
}
