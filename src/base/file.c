/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file_state.h"

#include "base/config.h"
#include "base/mem.h"
#include "base/wait.h"

#include <errno.h>

/* Bytes that the disk is asked to begin with at a time. */
#define SYNC_STEP (1 << 20)

/* ---- open and close ---- */

void sheaf__file_free(struct sheaf__file *file)
{
    sheaf__free(file->path);
    sheaf__free(file->temporary);
    sheaf__free(file);
}

sheaf_status sheaf__file_open(const char *path, enum sheaf__file_mode mode,
                              struct sheaf__file **file, sheaf_error *err)
{
    struct sheaf__file *f = sheaf__calloc(1, sizeof(*f));
    struct sheaf__file_stat stat = {0};
    bool replace = mode == SHEAF__FILE_REPLACE;
    if (!f)
        return sheaf__no_memory(err, "a file");
    f->fs = sheaf__file_fs();
    f->path = sheaf__strdup(path);
    if (!f->path) {
        sheaf__file_free(f);
        return sheaf__no_memory(err, "a file");
    }
    f->early = replace && sheaf__config_int(SHEAF__CONFIG_FSYNC);
    int code =
        replace ? sheaf__file_open_temporary(f) : f->fs->open(f->fs->user, path, mode, &f->handle);
    if (!code && mode == SHEAF__FILE_APPEND) {
        code = f->fs->look(f->fs->user, f->handle, &stat);
        f->at = stat.size;
        if (code)
            f->fs->close(f->fs->user, f->handle);
    }
    if (code) {
        sheaf__file_free(f);
        return sheaf__errno_error(err, code, path, "open");
    }
    *file = f;
    return SHEAF_OK;
}

sheaf_status sheaf__file_close(struct sheaf__file *file, sheaf_error *err)
{
    if (!file)
        return SHEAF_OK;
    const struct sheaf__fs *fs = file->fs;
    int code = fs->close(fs->user, file->handle);
    if (file->temporary)
        fs->unlink(fs->user, file->temporary);
    sheaf_status status = sheaf__file_result(code, file->path, "close", err);
    sheaf__file_free(file);
    return status;
}

sheaf_status sheaf__file_sync(struct sheaf__file *file, sheaf_error *err)
{
    const int code =
        sheaf__config_int(SHEAF__CONFIG_FSYNC) ? file->fs->sync(file->fs->user, file->handle) : 0;
    return sheaf__file_result(code, file->path, "sync", err);
}

/* ---- reading and writing ---- */

sheaf_status sheaf__file_read_at(struct sheaf__file *file, uint64_t offset, void *data, size_t size,
                                 size_t *got, sheaf_error *err)
{
    size_t done = 0;
    while (done < size) {
        size_t n = 0;
        int code = file->fs->read_at(file->fs->user, file->handle, offset + done,
                                     (char *)data + done, size - done, &n);
        /* How long a pipe may rest only its writer knows, or who stops the program. */
        if (code == EAGAIN)
            SHEAF__TRY(sheaf__wait_sleep(sheaf__clock_now(), NULL, err));
        if (code == EINTR || code == EAGAIN)
            continue;
        if (code) {
            sheaf__errno_error(err, code, file->path, "read");
            if (err)
                err->offset = offset + done;
            return sheaf__errno_status(code);
        }
        if (n == 0)
            break;
        done += n;
    }
    *got = done;
    return SHEAF_OK;
}

sheaf_status sheaf__file_write_at(struct sheaf__file *file, uint64_t offset, const void *data,
                                  size_t size, sheaf_error *err)
{
    size_t done = 0;
    while (done < size) {
        size_t n = 0;
        int code = file->fs->write_at(file->fs->user, file->handle, offset + done,
                                      (const char *)data + done, size - done, &n);
        if (code == EINTR)
            continue;
        if (!code && n == 0)
            code = EIO; /* would go round for ever */
        if (code) {
            sheaf__errno_error(err, code, file->path, "write");
            if (err)
                err->offset = offset + done;
            return sheaf__errno_status(code);
        }
        done += n;
    }
    if (offset + size > file->at)
        file->at = offset + size;
    return SHEAF_OK;
}

/* A file that is synced at its end is written to the disk from its beginning on, while what follows is being made: the
 * sync then waits for the last of it alone. */
static void begin_sync(struct sheaf__file *file)
{
    if (!file->early || file->at - file->begun < SYNC_STEP)
        return;
    file->fs->begin_sync(file->fs->user, file->handle, file->begun, file->at - file->begun);
    file->begun = file->at;
}

sheaf_status sheaf__file_write(struct sheaf__file *file, const void *data, size_t size,
                               sheaf_error *err)
{
    SHEAF__TRY(sheaf__file_write_at(file, file->at, data, size, err));
    begin_sync(file);
    return SHEAF_OK;
}

sheaf_status sheaf__file_look(struct sheaf__file *file, struct sheaf__file_stat *stat,
                              sheaf_error *err)
{
    return sheaf__file_result(file->fs->look(file->fs->user, file->handle, stat), file->path,
                              "look at", err);
}

sheaf_status sheaf__file_size(struct sheaf__file *file, uint64_t *size, sheaf_error *err)
{
    struct sheaf__file_stat stat;
    SHEAF__TRY(sheaf__file_look(file, &stat, err));
    *size = stat.size;
    return SHEAF_OK;
}

sheaf_status sheaf__file_truncate(struct sheaf__file *file, uint64_t size, sheaf_error *err)
{
    int code = file->fs->truncate(file->fs->user, file->handle, size);
    if (!code && file->at > size)
        file->at = size;
    return sheaf__file_result(code, file->path, "truncate", err);
}

sheaf_status sheaf__file_lock(struct sheaf__file *file, sheaf_error *err)
{
    int code = file->fs->lock(file->fs->user, file->handle);
    if (code == EWOULDBLOCK || code == EACCES) {
        struct sheaf__place where = {file->path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
        return sheaf__error_at(err, SHEAF_ERR_ALREADY_EXISTS, &where,
                               "the file is locked by another process");
    }
    return sheaf__file_result(code, file->path, "lock", err);
}

const char *sheaf__file_path(const struct sheaf__file *file)
{
    return file->path;
}

bool sheaf__file_is_stream(struct sheaf__file *file)
{
    return file->fs->is_stream(file->fs->user, file->handle);
}

bool sheaf__file_mappable(struct sheaf__file *file)
{
    return file->fs->mappable(file->fs->user, file->handle);
}
