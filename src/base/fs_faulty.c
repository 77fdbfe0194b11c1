/* SPDX-License-Identifier: Apache-2.0 */
/* A file system that fails on demand, in front of another. */
#include "base/fs.h"
#include "base/mem.h"
#include "base/thread.h"

struct faulty {
    struct sheaf__fs fs; /* first: what the context holds */
    const struct sheaf__fs *inner;
    struct sheaf__mutex lock; /* of the rest */
    struct sheaf__fs_fault fault;
    bool hit;
};

/* Counts an operation of `kind`; 0, or the code with which it fails. */
static int due(struct faulty *f, unsigned kind)
{
    int code = 0;
    sheaf__mutex_lock(&f->lock);
    if ((f->fault.kinds & kind) && f->fault.fail_at > 0) {
        if (f->fault.fail_at == 1 || (f->hit && f->fault.sticky)) {
            code = f->fault.code;
            f->hit = true;
            f->fault.fail_at = f->fault.sticky ? 1 : 0;
        } else {
            f->fault.fail_at--;
        }
    }
    sheaf__mutex_unlock(&f->lock);
    return code;
}

static int f_open(void *user, const char *path, enum sheaf__file_mode mode, void **handle)
{
    struct faulty *f = user;
    int code = due(f, SHEAF__FS_OPEN);
    return code ? code : f->inner->open(f->inner->user, path, mode, handle);
}

/* As the system's: the handle is gone also when the close fails. */
static int f_close(void *user, void *handle)
{
    struct faulty *f = user;
    int code = due(f, SHEAF__FS_CLOSE);
    int inner = f->inner->close(f->inner->user, handle);
    return code ? code : inner;
}

static int f_read_at(void *user, void *handle, uint64_t offset, void *data, size_t size,
                     size_t *got)
{
    struct faulty *f = user;
    int code = due(f, SHEAF__FS_READ);
    return code ? code : f->inner->read_at(f->inner->user, handle, offset, data, size, got);
}

static int f_write_at(void *user, void *handle, uint64_t offset, const void *data, size_t size,
                      size_t *done)
{
    struct faulty *f = user;
    int code = due(f, SHEAF__FS_WRITE);
    if (!code)
        return f->inner->write_at(f->inner->user, handle, offset, data, size, done);
    /* What a full disk leaves: a part is there, and the call failed. */
    if (size / 2)
        f->inner->write_at(f->inner->user, handle, offset, data, size / 2, done);
    return code;
}

static int f_sync(void *user, void *handle)
{
    struct faulty *f = user;
    int code = due(f, SHEAF__FS_SYNC);
    return code ? code : f->inner->sync(f->inner->user, handle);
}

static void f_begin_sync(void *user, void *handle, uint64_t offset, uint64_t size)
{
    struct faulty *f = user;
    f->inner->begin_sync(f->inner->user, handle, offset, size);
}

static int f_look(void *user, void *handle, struct sheaf__file_stat *stat)
{
    struct faulty *f = user;
    int code = due(f, SHEAF__FS_LOOK);
    return code ? code : f->inner->look(f->inner->user, handle, stat);
}

static int f_truncate(void *user, void *handle, uint64_t size)
{
    struct faulty *f = user;
    int code = due(f, SHEAF__FS_WRITE);
    return code ? code : f->inner->truncate(f->inner->user, handle, size);
}

static int f_lock(void *user, void *handle)
{
    struct faulty *f = user;
    return f->inner->lock(f->inner->user, handle);
}

static bool f_is_stream(void *user, void *handle)
{
    struct faulty *f = user;
    return f->inner->is_stream(f->inner->user, handle);
}

static bool f_mappable(void *user, void *handle)
{
    struct faulty *f = user;
    return f->inner->mappable(f->inner->user, handle);
}

static int f_map(void *user, void *handle, size_t size, const uint8_t **data)
{
    struct faulty *f = user;
    int code = due(f, SHEAF__FS_READ);
    return code ? code : f->inner->map(f->inner->user, handle, size, data);
}

static void f_unmap(void *user, const uint8_t *data, size_t size)
{
    struct faulty *f = user;
    f->inner->unmap(f->inner->user, data, size);
}

static int f_stat(void *user, const char *path, struct sheaf__file_stat *stat)
{
    struct faulty *f = user;
    int code = due(f, SHEAF__FS_LOOK);
    return code ? code : f->inner->stat(f->inner->user, path, stat);
}

static bool f_is_link(void *user, const char *path)
{
    struct faulty *f = user;
    return f->inner->is_link(f->inner->user, path);
}

static int f_rename(void *user, const char *from, const char *to)
{
    struct faulty *f = user;
    int code = due(f, SHEAF__FS_NAME);
    return code ? code : f->inner->rename(f->inner->user, from, to);
}

static int f_unlink(void *user, const char *path)
{
    struct faulty *f = user;
    int code = due(f, SHEAF__FS_NAME);
    return code ? code : f->inner->unlink(f->inner->user, path);
}

static int f_mkdir(void *user, const char *path, uint32_t mode)
{
    struct faulty *f = user;
    int code = due(f, SHEAF__FS_NAME);
    return code ? code : f->inner->mkdir(f->inner->user, path, mode);
}

static int f_rmdir(void *user, const char *path)
{
    struct faulty *f = user;
    int code = due(f, SHEAF__FS_NAME);
    return code ? code : f->inner->rmdir(f->inner->user, path);
}

static int f_sync_dir(void *user, const char *path)
{
    struct faulty *f = user;
    int code = due(f, SHEAF__FS_SYNC);
    return code ? code : f->inner->sync_dir(f->inner->user, path);
}

static int f_chmod(void *user, const char *path, uint32_t mode)
{
    struct faulty *f = user;
    int code = due(f, SHEAF__FS_NAME);
    return code ? code : f->inner->chmod(f->inner->user, path, mode);
}

static int f_list(void *user, const char *path, struct sheaf__strings *names)
{
    struct faulty *f = user;
    int code = due(f, SHEAF__FS_LOOK);
    return code ? code : f->inner->list(f->inner->user, path, names);
}

struct sheaf__fs *sheaf__fs_faulty_new(const struct sheaf__fs *inner)
{
    struct faulty *f = sheaf__calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->inner = inner;
    f->fs = (struct sheaf__fs){
        .user = f,
        .open = f_open,
        .close = f_close,
        .read_at = f_read_at,
        .write_at = f_write_at,
        .sync = f_sync,
        .begin_sync = f_begin_sync,
        .look = f_look,
        .truncate = f_truncate,
        .lock = f_lock,
        .is_stream = f_is_stream,
        .mappable = f_mappable,
        .map = f_map,
        .unmap = f_unmap,
        .stat = f_stat,
        .is_link = f_is_link,
        .rename = f_rename,
        .unlink = f_unlink,
        .mkdir = f_mkdir,
        .rmdir = f_rmdir,
        .sync_dir = f_sync_dir,
        .chmod = f_chmod,
        .list = f_list,
    };
    return &f->fs;
}

void sheaf__fs_faulty_free(struct sheaf__fs *fs)
{
    sheaf__free(fs);
}

void sheaf__fs_faulty_set(struct sheaf__fs *fs, const struct sheaf__fs_fault *fault)
{
    struct faulty *f = fs->user;
    sheaf__mutex_lock(&f->lock);
    f->fault = *fault;
    f->hit = false;
    sheaf__mutex_unlock(&f->lock);
}

bool sheaf__fs_faulty_hit(const struct sheaf__fs *fs)
{
    struct faulty *f = fs->user;
    sheaf__mutex_lock(&f->lock);
    bool hit = f->hit;
    sheaf__mutex_unlock(&f->lock);
    return hit;
}
