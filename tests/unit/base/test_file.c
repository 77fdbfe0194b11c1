/* SPDX-License-Identifier: Apache-2.0 */
/* base/file.h over the system, over memory and over faults: the same tests where they are the same.
 */
#include "rig.h"

#include "base/context.h"
#include "base/fs.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void put(const char *path, const char *text)
{
    sheaf_error err = {0};
    rig_ok(sheaf__file_replace(path, text, strlen(text), &err), &err);
}

static void expect(const char *path, const char *text)
{
    char *data = NULL;
    size_t size = 0;
    sheaf_error err = {0};
    rig_ok(sheaf__file_read_all(path, 1 << 20, &data, &size, &err), &err);
    assert_int_equal(size, strlen(text));
    assert_string_equal(data, text);
    sheaf__free(data);
}

static void expect_names(const char *path, const char *names)
{
    struct sheaf__strings list = {0};
    char joined[256] = "";
    sheaf_error err = {0};
    rig_ok(sheaf__file_list(path, &list, &err), &err);
    for (size_t i = 0; i < list.count; i++) {
        strcat(joined, list.items[i]);
        strcat(joined, " ");
    }
    assert_string_equal(joined, names);
    sheaf__strings_clear(&list);
}

/* ---- the same on every file system; `d` is an empty directory ---- */

static void reads_and_writes(const char *d)
{
    char *path = sheaf__path_join(d, "a.bin");
    struct sheaf__file *f = NULL;
    struct sheaf__file *again = NULL;
    char data[8] = "";
    size_t got = 0;
    uint64_t size = 0;
    sheaf_error err = {0};
    rig_fails(sheaf__file_open(path, SHEAF__FILE_READ, &f, &err), &err, SHEAF_ERR_NOT_FOUND,
              "cannot open: no such file");
    assert_string_equal(err.file, path);
    rig_ok(sheaf__file_open(path, SHEAF__FILE_NEW, &f, &err), &err);
    rig_fails(sheaf__file_open(path, SHEAF__FILE_NEW, &again, &err), &err, SHEAF_ERR_ALREADY_EXISTS,
              "cannot open");
    rig_ok(sheaf__file_write(f, "0123", 4, &err), &err);
    rig_ok(sheaf__file_write(f, "4567", 4, &err), &err);
    rig_ok(sheaf__file_write_at(f, 2, "xy", 2, &err), &err);
    rig_ok(sheaf__file_sync(f, &err), &err);
    rig_ok(sheaf__file_read_at(f, 1, data, 4, &got, &err), &err);
    assert_int_equal(got, 4);
    assert_memory_equal(data, "1xy4", 4);
    rig_ok(sheaf__file_read_at(f, 6, data, 8, &got, &err), &err);
    assert_int_equal(got, 2);
    rig_ok(sheaf__file_read_at(f, 100, data, 8, &got, &err), &err);
    assert_int_equal(got, 0);
    rig_ok(sheaf__file_truncate(f, 3, &err), &err);
    rig_ok(sheaf__file_size(f, &size, &err), &err);
    assert_int_equal(size, 3);
    rig_ok(sheaf__file_write(f, "!", 1, &err), &err);
    rig_ok(sheaf__file_close(f, &err), &err);
    expect(path, "01x!");
    rig_ok(sheaf__file_open(path, SHEAF__FILE_APPEND, &f, &err), &err);
    rig_ok(sheaf__file_write(f, "++", 2, &err), &err);
    rig_ok(sheaf__file_close(f, &err), &err);
    expect(path, "01x!++");
    rig_ok(sheaf__file_open(path, SHEAF__FILE_CREATE, &f, &err), &err);
    rig_ok(sheaf__file_close(f, &err), &err);
    expect(path, "");
    rig_ok(sheaf__file_close(NULL, &err), &err);
    sheaf__free(path);
}

static void makes_names(const char *d)
{
    char *sub = sheaf__path_join(d, "x/y/z");
    char *file = sheaf__path_join(sub, "f");
    char *moved = sheaf__path_join(d, "x/g");
    struct sheaf__file_stat info;
    sheaf_error err = {0};
    rig_fails(sheaf__file_list(sub, &(struct sheaf__strings){0}, &err), &err, SHEAF_ERR_NOT_FOUND,
              "cannot list");
    rig_ok(sheaf__file_mkdir(sub, 0, &err), &err);
    rig_ok(sheaf__file_mkdir(sub, 0, &err), &err);
    put(file, "12345");
    rig_fails(sheaf__file_mkdir(file, 0, &err), &err, SHEAF_ERR_NOT_FOUND, "not a directory");
    rig_ok(sheaf__file_stat(file, &info, &err), &err);
    assert_int_equal(info.kind, SHEAF__FILE_REGULAR);
    assert_int_equal(info.size, 5);
    assert_true(info.mtime_ns > 0);
    rig_ok(sheaf__file_stat(sub, &info, &err), &err);
    assert_int_equal(info.kind, SHEAF__FILE_DIRECTORY);
    assert_true(sheaf__file_rmdir(sub, &err) < 0);
    put(moved, "old");
    rig_ok(sheaf__file_rename(file, moved, &err), &err);
    rig_ok(sheaf__file_sync_dir(sub, &err), &err);
    assert_false(sheaf__file_exists(file));
    expect(moved, "12345");
    rig_fails(sheaf__file_rename(file, moved, &err), &err, SHEAF_ERR_NOT_FOUND, "cannot rename");
    rig_ok(sheaf__file_rmdir(sub, &err), &err);
    rig_ok(sheaf__file_unlink(moved, &err), &err);
    assert_true(sheaf__file_unlink(moved, NULL) < 0);
    char *x = sheaf__path_join(d, "x");
    put(sheaf__file_exists(x) ? moved : file, "");
    expect_names(x, "g y ");
    sheaf__free(x);
    sheaf__free(sub);
    sheaf__free(file);
    sheaf__free(moved);
}

static void replaces_whole(const char *d)
{
    char *path = sheaf__path_join(d, "r");
    struct sheaf__file *f = NULL;
    sheaf_error err = {0};
    put(path, "old");
    rig_ok(sheaf__file_open(path, SHEAF__FILE_REPLACE, &f, &err), &err);
    rig_ok(sheaf__file_write(f, "new", 3, &err), &err);
    expect(path, "old");
    rig_ok(sheaf__file_commit(f, &err), &err);
    expect(path, "new");
    rig_ok(sheaf__file_open(path, SHEAF__FILE_REPLACE, &f, &err), &err);
    rig_ok(sheaf__file_write(f, "given up", 8, &err), &err);
    rig_ok(sheaf__file_close(f, &err), &err);
    expect(path, "new");
    expect_names(d, "r ");
    sheaf__free(path);
}

static void maps(const char *d)
{
    char *path = sheaf__path_join(d, "m");
    struct sheaf__map *map = NULL;
    sheaf_error err = {0};
    put(path, "content");
    rig_ok(sheaf__file_map(path, &map, &err), &err);
    rig_ok(sheaf__file_unlink(path, &err), &err);
    assert_int_equal(map->size, 7);
    assert_memory_equal(map->data, "content", 7);
    assert_string_equal(map->path, path);
    sheaf__ref(map);
    sheaf__unref(map);
    assert_memory_equal(map->data, "content", 7);
    sheaf__unref(map);
    put(path, "");
    rig_ok(sheaf__file_map(path, &map, &err), &err);
    assert_int_equal(map->size, 0);
    assert_non_null(map->data);
    sheaf__unref(map);
    sheaf__free(path);
}

static void locks(const char *d)
{
    char *path = sheaf__path_join(d, "lock");
    struct sheaf__file *a = NULL;
    struct sheaf__file *b = NULL;
    sheaf_error err = {0};
    rig_ok(sheaf__file_open(path, SHEAF__FILE_UPDATE, &a, &err), &err);
    rig_ok(sheaf__file_open(path, SHEAF__FILE_UPDATE, &b, &err), &err);
    rig_ok(sheaf__file_lock(a, &err), &err);
    rig_fails(sheaf__file_lock(b, &err), &err, SHEAF_ERR_ALREADY_EXISTS, "locked by another");
    rig_ok(sheaf__file_close(a, &err), &err);
    rig_ok(sheaf__file_lock(b, &err), &err);
    rig_ok(sheaf__file_close(b, &err), &err);
    sheaf__free(path);
}

/* What a killed process left beside a file, its owner gone, is told from what is being written. */
static void sweeps_leftovers(const char *d)
{
    char *path = sheaf__path_join(d, "s");
    char *left = sheaf__path_join(d, "s.tmp-1234-5"),
         *foreign = sheaf__path_join(d, "s2.tmp-1234-5");
    struct sheaf__file *f = NULL;
    sheaf_error err = {0};
    size_t count = 0;
    put(left, "half");
    put(foreign, "half");
    rig_ok(sheaf__file_open(path, SHEAF__FILE_REPLACE, &f, &err), &err);
    rig_ok(sheaf__file_write(f, "new", 3, &err), &err);
    rig_ok(sheaf__file_sweep(path, &count, &err), &err);
    assert_int_equal(count, 1);
    assert_false(sheaf__file_exists(left));
    assert_true(sheaf__file_exists(foreign));
    rig_ok(sheaf__file_commit(f, &err), &err);
    expect(path, "new");
    assert_true(sheaf__file_is_temporary("a.tmp-1-0"));
    assert_false(sheaf__file_is_temporary("a.tmp-1-"));
    assert_false(sheaf__file_is_temporary("a.tmp-1-0.b"));
    sheaf__free(path);
    sheaf__free(left);
    sheaf__free(foreign);
}

/* What was loaded stays, whatever becomes of the file. */
static void loads(const char *d)
{
    char *path = sheaf__path_join(d, "l");
    struct sheaf__map *map = NULL;
    struct sheaf__file *file = NULL;
    sheaf_error err = {0};
    put(path, "content");
    rig_ok(sheaf__file_load(path, &map, &err), &err);
    rig_ok(sheaf__file_open(path, SHEAF__FILE_UPDATE, &file, &err), &err);
    rig_ok(sheaf__file_truncate(file, 0, &err), &err);
    rig_ok(sheaf__file_close(file, &err), &err);
    assert_int_equal(map->size, 7);
    assert_memory_equal(map->data, "content", 7);
    sheaf__unref(map);
    rig_ok(sheaf__file_load(path, &map, &err), &err);
    assert_int_equal(map->size, 0);
    sheaf__unref(map);
    rig_fails(sheaf__file_load(d, &map, &err), &err, SHEAF_ERR_IO, "is a directory");
    sheaf__free(path);
}

static void limits_what_is_read(const char *d)
{
    char *path = sheaf__path_join(d, "big");
    char *data = NULL;
    sheaf_error err = {0};
    put(path, "0123456789");
    rig_fails(sheaf__file_read_all(path, 9, &data, NULL, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "10 bytes, expected at most 9");
    rig_fails(sheaf__file_read_all(d, 9, &data, NULL, &err), &err, SHEAF_ERR_IO, "is a directory");
    assert_null(data);
    sheaf__free(path);
}

static void (*const common[])(const char *d) = {
    reads_and_writes, makes_names,        replaces_whole, maps, loads, locks,
    sweeps_leftovers, limits_what_is_read};

static void run_common(void)
{
    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++) {
        char name[8] = {'d', (char)('0' + i), '\0'};
        char *d = sheaf__path_join(rig_folder(), name);
        sheaf_error err = {0};
        rig_ok(sheaf__file_mkdir(d, 0, &err), &err);
        common[i](d);
        sheaf__free(d);
    }
}

static void on_the_system(void **state)
{
    (void)state;
    run_common();
}

static void on_memory(void **state)
{
    (void)state;
    struct sheaf__fs *fs = sheaf__fs_memory_new();
    sheaf__context_set_fs(sheaf__context(), fs);
    run_common();
    assert_int_equal(access(rig_path("d0"), F_OK), -1);
    sheaf__context_set_fs(sheaf__context(), NULL);
    sheaf__fs_memory_free(fs);
}

static void behind_faults_that_do_not_come(void **state)
{
    (void)state;
    struct sheaf__fs *fs = sheaf__fs_faulty_new(sheaf__fs_system());
    sheaf__context_set_fs(sheaf__context(), fs);
    run_common();
    assert_false(sheaf__fs_faulty_hit(fs));
    sheaf__context_set_fs(sheaf__context(), NULL);
    sheaf__fs_faulty_free(fs);
}

/* ---- crashes and faults ---- */

/* After a crash at any moment the file is the old one or the new one, whole. */
static void a_crash_leaves_old_or_new(void **state)
{
    (void)state;
    for (uint64_t k = 1;; k++) {
        struct sheaf__fs *memory = sheaf__fs_memory_new();
        struct sheaf__fs *faulty = sheaf__fs_faulty_new(memory);
        sheaf_error err = {0};
        char *data = NULL;
        sheaf__context_set_fs(sheaf__context(), faulty);
        put("f", "old");
        struct sheaf__fs_fault fault = {
            .fail_at = k, .kinds = SHEAF__FS_ANY, .code = EIO, .sticky = true};
        sheaf__fs_faulty_set(faulty, &fault);
        sheaf_status status = sheaf__file_replace("f", "new!", 4, &err);
        bool hit = sheaf__fs_faulty_hit(faulty);
        assert_int_equal(status, hit ? SHEAF_ERR_IO : SHEAF_OK);
        sheaf__fs_memory_crash(memory);
        sheaf__context_set_fs(sheaf__context(), memory);
        rig_ok(sheaf__file_read_all("f", 100, &data, NULL, &err), &err);
        assert_true(strcmp(data, "new!") == 0 || (hit && strcmp(data, "old") == 0));
        sheaf__free(data);
        sheaf__context_set_fs(sheaf__context(), NULL);
        sheaf__fs_faulty_free(faulty);
        sheaf__fs_memory_free(memory);
        if (!hit) {
            assert_true(k >= 6); /* open, write, sync, close, rename, sync of the directory */
            return;
        }
    }
}

/* Another process sweeps at the moment in which a file gets its name. */
static size_t swept;

static int rename_under_a_sweep(void *user, const char *from, const char *to)
{
    sheaf_error err = {0};
    size_t count = 0;
    rig_ok(sheaf__file_sweep(to, &count, &err), &err);
    swept += count;
    return sheaf__fs_system()->rename(user, from, to);
}

static void a_sweep_leaves_what_is_being_committed(void **state)
{
    (void)state;
    struct sheaf__fs fs = *sheaf__fs_system();
    fs.rename = rename_under_a_sweep;
    swept = 0;
    sheaf__context_set_fs(sheaf__context(), &fs);
    put(rig_path("committed"), "all");
    expect(rig_path("committed"), "all");
    sheaf__context_set_fs(sheaf__context(), NULL);
    assert_int_equal(swept, 0);
}

static void memory_loses_what_was_not_synced(void **state)
{
    (void)state;
    struct sheaf__fs *memory = sheaf__fs_memory_new();
    struct sheaf__file *f = NULL;
    sheaf_error err = {0};
    sheaf__context_set_fs(sheaf__context(), memory);
    put("kept", "x");
    rig_ok(sheaf__file_open("kept", SHEAF__FILE_CREATE, &f, &err), &err);
    rig_ok(sheaf__file_write(f, "lost", 4, &err), &err);
    rig_ok(sheaf__file_close(f, &err), &err);
    rig_ok(sheaf__file_open("nameless", SHEAF__FILE_NEW, &f, &err), &err);
    rig_ok(sheaf__file_sync(f, &err), &err);
    rig_ok(sheaf__file_close(f, &err), &err);
    sheaf__fs_memory_crash(memory);
    expect("kept", "x");
    assert_false(sheaf__file_exists("nameless"));
    sheaf__context_set_fs(sheaf__context(), NULL);
    sheaf__fs_memory_free(memory);
}

static void a_fault_leaves_nothing_behind(void **state)
{
    (void)state;
    struct sheaf__fs *faulty = sheaf__fs_faulty_new(sheaf__fs_system());
    sheaf_error err = {0};
    const char *path = rig_path("f");
    put(path, "old");
    sheaf__context_set_fs(sheaf__context(), faulty);
    struct sheaf__fs_fault fault = {.fail_at = 1, .kinds = SHEAF__FS_WRITE, .code = ENOSPC};
    sheaf__fs_faulty_set(faulty, &fault);
    rig_fails(sheaf__file_replace(path, "new", 3, &err), &err, SHEAF_ERR_RESOURCE_EXHAUSTED,
              "cannot write: no space left on device");
    assert_string_equal(err.file, path);
    expect_names(rig_folder(), "f ");
    expect(path, "old");
    fault.kinds = SHEAF__FS_READ;
    fault.code = EIO;
    sheaf__fs_faulty_set(faulty, &fault);
    struct sheaf__map *map = NULL;
    rig_fails(sheaf__file_map(path, &map, &err), &err, SHEAF_ERR_IO, "cannot map");
    sheaf__context_set_fs(sheaf__context(), NULL);
    sheaf__fs_faulty_free(faulty);
}

static sheaf_status use_files(void *user, sheaf_error *err)
{
    struct sheaf__map *map = NULL;
    struct sheaf__strings names = {0};
    sheaf_status status = sheaf__file_replace(user, "abc", 3, err);
    if (status == SHEAF_OK)
        status = sheaf__file_map(user, &map, err);
    sheaf__unref(map);
    if (status == SHEAF_OK)
        status = sheaf__file_glob(NULL, user, &names, err);
    sheaf__strings_clear(&names);
    return status;
}

static void survives_failed_allocations(void **state)
{
    (void)state;
    const char *path = rig_path("f");
    char *given = sheaf__strdup(path);
    assert_true(rig_fail_allocations(use_files, given) >= 10);
    expect_names(rig_folder(), "f ");
    sheaf__free(given);
}

static void read_only_directories_refuse(void **state)
{
    (void)state;
    sheaf_error err = {0};
    uid_t user = geteuid();
    const char *path = rig_path("f");
    rig_ok(sheaf__file_chmod(rig_folder(), 0555, &err), &err);
    /* root may write anywhere: be nobody meanwhile. */
    if (user == 0)
        assert_int_equal(seteuid(65534), 0);
    sheaf_status status = sheaf__file_replace(path, "", 0, &err);
    if (user == 0)
        assert_int_equal(seteuid(0), 0);
    rig_fails(status, &err, SHEAF_ERR_PERMISSION, "cannot open: permission denied");
    assert_string_equal(err.file, path);
}

/* A program that was started with them closed prints into whatever gets their numbers. */
static void the_first_three_descriptors_are_the_programs(void **state)
{
    (void)state;
    const char *path = rig_path("f");
    const struct sheaf__fs *fs = sheaf__fs_system();
    struct sheaf__strings names = {0};
    void *handle = NULL;
    bool closed = true;
    int kept[3], code;
    for (int i = 0; i < 3; i++) {
        kept[i] = fcntl(i, F_DUPFD_CLOEXEC, 3);
        close(i);
    }
    code = fs->open(fs->user, path, SHEAF__FILE_NEW, &handle);
    const int flags = fcntl((int)(intptr_t)handle, F_GETFD);
    for (int i = 0; i < 3; i++)
        closed = closed && fcntl(i, F_GETFD) < 0;
    code = code ? code : fs->close(fs->user, handle);
    code = code ? code : fs->sync_dir(fs->user, rig_folder());
    code = code ? code : fs->list(fs->user, rig_folder(), &names);
    for (int i = 0; i < 3; i++) {
        closed = closed && fcntl(i, F_GETFD) < 0;
        dup2(kept[i], i);
        close(kept[i]);
    }
    assert_int_equal(code, 0);
    assert_true((intptr_t)handle > 2);
    assert_int_equal(flags, FD_CLOEXEC);
    assert_true(closed);
    assert_int_equal(names.count, 1);
    sheaf__strings_clear(&names);
}

/* What the disk was asked to begin with: all from the beginning, in one stretch. */
static uint64_t begun_to;

static void note_begin(void *user, void *handle, uint64_t offset, uint64_t size)
{
    (void)user;
    (void)handle;
    assert_int_equal(offset, begun_to);
    begun_to += size;
}

/* Bytes that the disk was asked to begin with while a file of 3 MiB and a little was written. */
static uint64_t begun_by(enum sheaf__file_mode mode, const char *fsync)
{
    enum { PART = 300000, PARTS = 11 };
    const char *path = rig_path("begun"), *const environment[] = {fsync, NULL};
    struct sheaf__fs fs = *sheaf__fs_system();
    struct sheaf__file *f = NULL;
    sheaf_context *context = NULL;
    sheaf_error err = {0};
    char *part = sheaf__calloc(1, PART);
    rig_ok(sheaf_context_new(&(sheaf_context_options){.environment = environment}, &context, &err),
           &err);
    sheaf_context *before = sheaf_context_enter(context);
    fs.begin_sync = note_begin;
    sheaf__context_set_fs(context, &fs);
    begun_to = 0;
    rig_ok(sheaf__file_open(path, mode, &f, &err), &err);
    for (int i = 0; i < PARTS; i++)
        rig_ok(sheaf__file_write(f, part, PART, &err), &err);
    rig_ok(mode == SHEAF__FILE_REPLACE ? sheaf__file_commit(f, &err) : sheaf__file_close(f, &err),
           &err);
    sheaf_context_enter(before);
    sheaf_context_free(context);
    sheaf__free(part);
    return begun_to;
}

static void the_disk_begins_while_a_file_is_written(void **state)
{
    (void)state;
    assert_in_range(begun_by(SHEAF__FILE_REPLACE, "SHEAF_FSYNC=1"), 2 << 20, 11 * 300000);
    assert_int_equal(begun_by(SHEAF__FILE_REPLACE, "SHEAF_FSYNC=0"), 0);
    assert_int_equal(begun_by(SHEAF__FILE_CREATE, "SHEAF_FSYNC=1"), 0);
}

static void a_pipe_is_waited_for_until_the_program_is_stopped(void **state)
{
    (void)state;
    const char *path = rig_path("pipe");
    const struct sheaf__fs *fs = sheaf__fs_system();
    struct sheaf__file *f = NULL;
    void *handle = NULL;
    char data[8];
    size_t got = 9;
    sheaf_error err = {0};
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(fs->open(fs->user, path, SHEAF__FILE_READ, &handle), 0);
    assert_int_equal(fs->read_at(fs->user, handle, 0, data, 8, &got), EAGAIN);
    assert_int_equal(fs->close(fs->user, handle), 0);
    rig_ok(sheaf__file_open(path, SHEAF__FILE_READ, &f, &err), &err);
    const int writer = open(path, O_WRONLY | O_NONBLOCK);
    assert_int_equal(write(writer, "abc", 3), 3);
    close(writer);
    rig_ok(sheaf__file_read_at(f, 0, data, 8, &got, &err), &err);
    assert_int_equal(got, 3);
    assert_memory_equal(data, "abc", 3);
    rig_ok(sheaf__file_close(f, &err), &err);
    rig_ok(sheaf__file_open(path, SHEAF__FILE_READ, &f, &err), &err);
    sheaf_stop();
    rig_fails(sheaf__file_read_at(f, 0, data, 8, &got, &err), &err, SHEAF_ERR_CANCELLED,
              "asked to stop");
    rig_ok(sheaf__file_close(f, &err), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(on_the_system),
        rig_test(on_memory),
        rig_test(behind_faults_that_do_not_come),
        rig_test(a_crash_leaves_old_or_new),
        rig_test(a_sweep_leaves_what_is_being_committed),
        rig_test(memory_loses_what_was_not_synced),
        rig_test(a_fault_leaves_nothing_behind),
        rig_test(survives_failed_allocations),
        rig_test(read_only_directories_refuse),
        rig_test(the_first_three_descriptors_are_the_programs),
        rig_test(the_disk_begins_while_a_file_is_written),
        rig_test(a_pipe_is_waited_for_until_the_program_is_stopped),
    };
    return rig_run(tests);
}
