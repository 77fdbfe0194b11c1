/* SPDX-License-Identifier: Apache-2.0 */
/* The system's files. */
#include "base/fs.h"

#include "base/descriptor.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif
#define LUSTRE_MAGIC 0x0BD00BD0
#define GPFS_MAGIC   0x47504653
#define BEEGFS_MAGIC 0x19830326

/* How long a read waits for a pipe's writer before its caller looks whether to go on. */
#define PIPE_PATIENCE_MS 100

/* A handle is the descriptor itself. */
static int descriptor(void *handle)
{
    return (int)(intptr_t)handle;
}

static int open_file(void *user, const char *path, enum sheaf__file_mode mode, void **handle)
{
    static const int flags[] = {
        [SHEAF__FILE_READ] = O_RDONLY | O_NONBLOCK, /* of a pipe that nobody writes to yet */
        [SHEAF__FILE_CREATE] = O_RDWR | O_CREAT | O_TRUNC,
        [SHEAF__FILE_NEW] = O_RDWR | O_CREAT | O_EXCL,
        [SHEAF__FILE_UPDATE] = O_RDWR | O_CREAT,
        [SHEAF__FILE_APPEND] = O_RDWR | O_CREAT,
        [SHEAF__FILE_REPLACE] = O_RDWR | O_CREAT | O_EXCL,
    };
    struct stat st;
    (void)user;
    int fd = sheaf__descriptor(open(path, flags[mode] | O_CLOEXEC, 0666));
    if (fd < 0)
        return errno;
    /* Opening a directory for reading succeeds, reading it does not. */
    if (mode == SHEAF__FILE_READ && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        close(fd);
        return EISDIR;
    }
    *handle = (void *)(intptr_t)fd;
    return 0;
}

static int close_file(void *user, void *handle)
{
    (void)user;
    return close(descriptor(handle)) < 0 && errno != EINTR ? errno : 0;
}

/* A pipe that had no writer yet ends only after it had one: until then a read would say that it is over, and poll
 * does not. */
static ssize_t read_stream(int fd, void *data, size_t size)
{
    struct pollfd waited = {.fd = fd, .events = POLLIN};
    const int ready = poll(&waited, 1, PIPE_PATIENCE_MS);
    if (ready > 0)
        return read(fd, data, size);
    if (ready == 0)
        errno = EAGAIN;
    return -1;
}

static int read_at(void *user, void *handle, uint64_t offset, void *data, size_t size, size_t *got)
{
    (void)user;
    ssize_t n = pread(descriptor(handle), data, size, (off_t)offset);
    if (n < 0 && errno == ESPIPE)
        n = read_stream(descriptor(handle), data, size);
    if (n < 0)
        return errno;
    *got = (size_t)n;
    return 0;
}

static int write_at(void *user, void *handle, uint64_t offset, const void *data, size_t size,
                    size_t *done)
{
    (void)user;
    ssize_t n = pwrite(descriptor(handle), data, size, (off_t)offset);
    if (n < 0)
        return errno;
    *done = (size_t)n;
    return 0;
}

static int sync_file(void *user, void *handle)
{
    (void)user;
    return fdatasync(descriptor(handle)) < 0 ? errno : 0;
}

/* What goes wrong on the way to the disk is told by the sync. */
static void begin_sync(void *user, void *handle, uint64_t offset, uint64_t size)
{
    (void)user;
    (void)sync_file_range(descriptor(handle), (off_t)offset, (off_t)size, SYNC_FILE_RANGE_WRITE);
}

static struct sheaf__file_stat stat_of(const struct stat *st)
{
    return (struct sheaf__file_stat){
        .kind = S_ISREG(st->st_mode)   ? SHEAF__FILE_REGULAR
                : S_ISDIR(st->st_mode) ? SHEAF__FILE_DIRECTORY
                                       : SHEAF__FILE_OTHER,
        .mode = (uint32_t)st->st_mode & 07777,
        .owner = st->st_uid,
        .device = st->st_dev,
        .inode = st->st_ino,
        .size = (uint64_t)st->st_size,
        .mtime_ns = (int64_t)st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec,
    };
}

static int look_at(void *user, void *handle, struct sheaf__file_stat *out)
{
    struct stat st;
    (void)user;
    if (fstat(descriptor(handle), &st) < 0)
        return errno;
    *out = stat_of(&st);
    return 0;
}

static int truncate_file(void *user, void *handle, uint64_t size)
{
    (void)user;
    return ftruncate(descriptor(handle), (off_t)size) < 0 ? errno : 0;
}

static int lock_file(void *user, void *handle)
{
    (void)user;
    return flock(descriptor(handle), LOCK_EX | LOCK_NB) < 0 ? errno : 0;
}

static bool is_stream(void *user, void *handle)
{
    (void)user;
    return lseek(descriptor(handle), 0, SEEK_CUR) < 0 && errno == ESPIPE;
}

static bool mappable(void *user, void *handle)
{
    struct statfs fs;
    struct stat st;
    (void)user;
    if (fstatfs(descriptor(handle), &fs) < 0 || fstat(descriptor(handle), &st) < 0 ||
        !S_ISREG(st.st_mode) || st.st_size == 0) /* /proc does not say how long its files are */
        return false;
    switch ((unsigned long)fs.f_type & 0xffffffffUL) {
    case NFS_SUPER_MAGIC:
    case SMB_SUPER_MAGIC:
    case CIFS_SUPER_MAGIC:
    case SMB2_SUPER_MAGIC:
    case CEPH_SUPER_MAGIC:
    case AFS_SUPER_MAGIC:
    case V9FS_MAGIC:
    case FUSE_SUPER_MAGIC:
    case LUSTRE_MAGIC:
    case GPFS_MAGIC:
    case BEEGFS_MAGIC:
        return false;
    default:
        return true;
    }
}

static int map_file(void *user, void *handle, size_t size, const uint8_t **data)
{
    (void)user;
    void *at = mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor(handle), 0);
    if (at == MAP_FAILED)
        return errno;
    *data = at;
    return 0;
}

static void unmap_file(void *user, const uint8_t *data, size_t size)
{
    (void)user;
    munmap((void *)(uintptr_t)data, size);
}

static int stat_path(void *user, const char *path, struct sheaf__file_stat *out)
{
    struct stat st;
    (void)user;
    if (stat(path, &st) < 0)
        return errno;
    *out = stat_of(&st);
    return 0;
}

static bool is_link(void *user, const char *path)
{
    struct stat st;
    (void)user;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

static int rename_path(void *user, const char *from, const char *to)
{
    (void)user;
    return rename(from, to) < 0 ? errno : 0;
}

static int unlink_path(void *user, const char *path)
{
    (void)user;
    return unlink(path) < 0 ? errno : 0;
}

static int mkdir_path(void *user, const char *path, uint32_t mode)
{
    (void)user;
    return mkdir(path, (mode_t)mode) < 0 ? errno : 0;
}

static int rmdir_path(void *user, const char *path)
{
    (void)user;
    return rmdir(path) < 0 ? errno : 0;
}

static int sync_dir(void *user, const char *path)
{
    (void)user;
    int fd = sheaf__descriptor(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0)
        return errno;
    int code = fsync(fd) < 0 ? errno : 0;
    close(fd);
    return code;
}

static int chmod_path(void *user, const char *path, uint32_t mode)
{
    (void)user;
    return chmod(path, (mode_t)mode) < 0 ? errno : 0;
}

static int list_path(void *user, const char *path, struct sheaf__strings *names)
{
    (void)user;
    const int fd = sheaf__descriptor(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int code = dir ? 0 : errno;
    if (!dir && fd >= 0)
        close(fd);
    if (!dir)
        return code;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry) {
            code = errno;
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (!sheaf__strings_add(names, entry->d_name)) {
            code = ENOMEM;
            break;
        }
    }
    closedir(dir);
    return code;
}

const struct sheaf__fs *sheaf__fs_system(void)
{
    static const struct sheaf__fs fs = {
        .open = open_file,
        .close = close_file,
        .read_at = read_at,
        .write_at = write_at,
        .sync = sync_file,
        .begin_sync = begin_sync,
        .look = look_at,
        .truncate = truncate_file,
        .lock = lock_file,
        .is_stream = is_stream,
        .mappable = mappable,
        .map = map_file,
        .unmap = unmap_file,
        .stat = stat_path,
        .is_link = is_link,
        .rename = rename_path,
        .unlink = unlink_path,
        .mkdir = mkdir_path,
        .rmdir = rmdir_path,
        .sync_dir = sync_dir,
        .chmod = chmod_path,
        .list = list_path,
    };
    return &fs;
}
