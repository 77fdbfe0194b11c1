/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are written beside the one they are to replace. */
#include "base/file_state.h"

#include "base/mem.h"
#include "base/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* A name beside the path that no other process makes: the number of the process and a count. */
static char *temporary_name(const char *path)
{
    static _Atomic uint64_t count;
    return sheaf__printf("%s.tmp-%d-%" PRIu64, path, (int)getpid(), atomic_fetch_add(&count, 1));
}

bool sheaf__file_is_temporary(const char *name)
{
    static const char digits[] = "0123456789";
    const char *end = strstr(name, ".tmp-");
    if (!end)
        return false;
    end += strlen(".tmp-");
    end += strspn(end, digits);
    return *end == '-' && end[1] && end[1 + strspn(end + 1, digits)] == '\0';
}

/* Held from making a temporary file to locking it, so that no thread of ours sweeps it away. */
static struct sheaf__mutex between;

/* Makes and locks the temporary file. 0, an errno value, or EAGAIN: somebody swept it away before
 * the lock, or one of that name was left behind. */
static int try_temporary(struct sheaf__file *f)
{
    struct sheaf__file_stat stat;
    sheaf__free(f->temporary);
    f->temporary = temporary_name(f->path);
    if (!f->temporary)
        return ENOMEM;
    int code = f->fs->open(f->fs->user, f->temporary, SHEAF__FILE_NEW, &f->handle);
    if (code)
        return code == EEXIST ? EAGAIN : code;
    /* A file system without locks is swept by nobody. */
    code = f->fs->lock(f->fs->user, f->handle);
    bool swept =
        code == EWOULDBLOCK || (!code && f->fs->stat(f->fs->user, f->temporary, &stat) == ENOENT);
    if (swept)
        f->fs->close(f->fs->user, f->handle);
    return swept ? EAGAIN : 0;
}

int sheaf__file_open_temporary(struct sheaf__file *f)
{
    int code = EAGAIN;
    for (int tries = 0; code == EAGAIN && tries < 1000; tries++) {
        sheaf__mutex_lock(&between);
        code = try_temporary(f);
        sheaf__mutex_unlock(&between);
    }
    return code;
}

/* Makes a rename durable. A file system that cannot sync directories has nothing to make durable.
 */
static int sync_parent(const struct sheaf__fs *fs, const char *path)
{
    char *directory = sheaf__path_directory(path);
    if (!directory)
        return ENOMEM;
    int code = sheaf__file_sync_names(fs, directory);
    sheaf__free(directory);
    return code == EINVAL || code == ENOTSUP ? 0 : code;
}

sheaf_status sheaf__file_commit(struct sheaf__file *file, sheaf_error *err)
{
    const struct sheaf__fs *fs = file->fs;
    sheaf_status status = sheaf__file_sync(file, err);
    if (status < 0) {
        sheaf__file_close(file, NULL);
        return status;
    }
    /* The lock is held until the file has its name: without it a sweep takes it for one left behind. */
    const char *op = "rename to";
    int code = fs->rename(fs->user, file->temporary, file->path);
    if (code)
        fs->unlink(fs->user, file->temporary);
    const int closed = fs->close(fs->user, file->handle);
    if (!code && closed) {
        op = "close";
        code = closed;
    } else if (!code) {
        op = "sync the directory of";
        code = sync_parent(fs, file->path);
    }
    status = sheaf__file_result(code, file->path, op, err);
    sheaf__file_free(file);
    return status;
}

sheaf_status sheaf__file_replace(const char *path, const void *data, size_t size, sheaf_error *err)
{
    return sheaf__file_replace_if(path, data, size, NULL, NULL, err);
}

sheaf_status sheaf__file_replace_if(const char *path, const void *data, size_t size,
                                    sheaf_status (*before)(void *user, sheaf_error *err),
                                    void *user, sheaf_error *err)
{
    struct sheaf__file *file = NULL;
    SHEAF__TRY(sheaf__file_open(path, SHEAF__FILE_REPLACE, &file, err));
    sheaf_status status = sheaf__file_write(file, data, size, err);
    if (status >= 0 && before)
        status = before(user, err);
    if (status < 0) {
        sheaf__file_close(file, NULL);
        return status;
    }
    return sheaf__file_commit(file, err);
}

/* Deletes a file that nobody has locked; whether it did. */
static bool sweep_one(const char *path)
{
    struct sheaf__file *file = NULL;
    sheaf__mutex_lock(&between);
    const bool gone = sheaf__file_open(path, SHEAF__FILE_READ, &file, NULL) == SHEAF_OK &&
                      sheaf__file_lock(file, NULL) == SHEAF_OK &&
                      sheaf__file_unlink(path, NULL) == SHEAF_OK;
    sheaf__file_close(file, NULL);
    sheaf__mutex_unlock(&between);
    return gone;
}

sheaf_status sheaf__file_sweep(const char *path, size_t *count, sheaf_error *err)
{
    struct sheaf__strings names = {0};
    const char *own = sheaf__path_name(path);
    const size_t size = strlen(own);
    char *directory = sheaf__path_directory(path);
    *count = 0;
    sheaf_status status = directory ? sheaf__file_list(directory, &names, err)
                                    : sheaf__no_memory(err, "the name of a directory");
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.items[i];
        const bool is_ours = strncmp(name, own, size) == 0 &&
                             strncmp(name + size, ".tmp-", 5) == 0 &&
                             sheaf__file_is_temporary(name + size);
        char *file = is_ours ? sheaf__path_join(directory, name) : NULL;
        *count += file && sweep_one(file);
        sheaf__free(file);
    }
    sheaf__strings_clear(&names);
    sheaf__free(directory);
    return status;
}
