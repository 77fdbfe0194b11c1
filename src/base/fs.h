/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_FS_H
#define SHEAF_BASE_FS_H

/* What stands behind base/file.h: a table of operations that a context holds. Operations return 0
 * or an errno value; base/file_state.h turns it into an error that names the file. */

#include "base/file.h"

struct sheaf__fs {
    void *user;
    int (*open)(void *user, const char *path, enum sheaf__file_mode mode, void **handle);
    int (*close)(void *user, void *handle);
    /* EAGAIN: a pipe, to which nothing was written for a while. */
    int (*read_at)(void *user, void *handle, uint64_t offset, void *data, size_t size, size_t *got);
    int (*write_at)(void *user, void *handle, uint64_t offset, const void *data, size_t size,
                    size_t *done);
    int (*sync)(void *user, void *handle);
    /* A hint that the bytes from `offset` on will be synced, and that the disk may begin. */
    void (*begin_sync)(void *user, void *handle, uint64_t offset, uint64_t size);
    int (*look)(void *user, void *handle, struct sheaf__file_stat *stat);
    int (*truncate)(void *user, void *handle, uint64_t size);
    int (*lock)(void *user, void *handle);
    bool (*is_stream)(void *user, void *handle);
    bool (*mappable)(void *user, void *handle);
    int (*map)(void *user, void *handle, size_t size, const uint8_t **data);
    void (*unmap)(void *user, const uint8_t *data, size_t size);
    int (*stat)(void *user, const char *path, struct sheaf__file_stat *stat);
    bool (*is_link)(void *user, const char *path);
    int (*rename)(void *user, const char *from, const char *to);
    int (*unlink)(void *user, const char *path);
    int (*mkdir)(void *user, const char *path, uint32_t mode);
    int (*rmdir)(void *user, const char *path);
    int (*sync_dir)(void *user, const char *path);
    int (*chmod)(void *user, const char *path, uint32_t mode);
    int (*list)(void *user, const char *path, struct sheaf__strings *names);
};

/* The system's. Static storage. */
const struct sheaf__fs *sheaf__fs_system(void);

/* A file system in memory. Freed after every file of it is closed. What was not synced can be
 * dropped, as a crash of the machine does: data since the last sync of the file, names since the
 * last sync of the directory. */
struct sheaf__fs *sheaf__fs_memory_new(void);
void sheaf__fs_memory_free(struct sheaf__fs *fs);
void sheaf__fs_memory_crash(struct sheaf__fs *fs);

/* Another file system with faults: the `fail_at`-th operation from now (1 = the next; 0 = none)
 * that is in `kinds` fails with `code`; a failing write writes half. With `sticky` all later ones
 * fail, too. */
enum sheaf__fs_kind {
    SHEAF__FS_OPEN = 1,
    SHEAF__FS_READ = 2,
    SHEAF__FS_WRITE = 4,
    SHEAF__FS_SYNC = 8,
    SHEAF__FS_NAME = 16, /* rename, unlink, mkdir, rmdir, chmod */
    SHEAF__FS_LOOK = 32, /* stat, list, size */
    SHEAF__FS_CLOSE = 64,
    SHEAF__FS_ANY = 127
};
struct sheaf__fs_fault {
    uint64_t fail_at;
    unsigned kinds;
    int code;
    bool sticky;
};
struct sheaf__fs *sheaf__fs_faulty_new(const struct sheaf__fs *inner);
void sheaf__fs_faulty_free(struct sheaf__fs *fs);
void sheaf__fs_faulty_set(struct sheaf__fs *fs, const struct sheaf__fs_fault *fault);
/* True if a fault has happened since it was set. */
bool sheaf__fs_faulty_hit(const struct sheaf__fs *fs);

#endif
