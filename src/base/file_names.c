/* SPDX-License-Identifier: Apache-2.0 */
/* Names of files and directories. */
#include "base/file_state.h"

#include "base/config.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>

int sheaf__file_sync_names(const struct sheaf__fs *fs, const char *directory)
{
    return sheaf__config_int(SHEAF__CONFIG_FSYNC) ? fs->sync_dir(fs->user, directory) : 0;
}

sheaf_status sheaf__file_stat(const char *path, struct sheaf__file_stat *stat, sheaf_error *err)
{
    const struct sheaf__fs *fs = sheaf__file_fs();
    return sheaf__file_result(fs->stat(fs->user, path, stat), path, "look at", err);
}

bool sheaf__file_is_link(const char *path)
{
    const struct sheaf__fs *fs = sheaf__file_fs();
    return fs->is_link(fs->user, path);
}

bool sheaf__file_exists(const char *path)
{
    struct sheaf__file_stat stat;
    return sheaf__file_stat(path, &stat, NULL) == SHEAF_OK;
}

sheaf_status sheaf__file_rename(const char *from, const char *to, sheaf_error *err)
{
    const struct sheaf__fs *fs = sheaf__file_fs();
    return sheaf__file_result(fs->rename(fs->user, from, to), to, "rename to", err);
}

sheaf_status sheaf__file_unlink(const char *path, sheaf_error *err)
{
    const struct sheaf__fs *fs = sheaf__file_fs();
    return sheaf__file_result(fs->unlink(fs->user, path), path, "remove", err);
}

/* Makes one directory; one that is there already is fine. */
static int make_one(const struct sheaf__fs *fs, const char *path, uint32_t mode)
{
    struct sheaf__file_stat stat;
    int code = fs->mkdir(fs->user, path, mode);
    if (code == 0 || code == ENOENT)
        return code;
    /* A root or a read-only parent refuses before it looks whether the directory is there. */
    if (fs->stat(fs->user, path, &stat) == 0)
        return stat.kind == SHEAF__FILE_DIRECTORY ? 0 : ENOTDIR;
    return code;
}

sheaf_status sheaf__file_mkdir(const char *path, uint32_t mode, sheaf_error *err)
{
    const struct sheaf__fs *fs = sheaf__file_fs();
    char *part = sheaf__strdup(path);
    int code = 0;
    if (!part)
        return sheaf__no_memory(err, "a path");
    mode = mode ? mode : 0777;
    /* Mostly only the last is missing. */
    if (make_one(fs, path, mode) != 0) {
        for (char *slash = strchr(part + (*part == '/'), '/'); slash && !code;
             slash = strchr(slash + 1, '/')) {
            *slash = '\0';
            code = make_one(fs, part, mode);
            *slash = '/';
        }
        if (!code)
            code = make_one(fs, path, mode);
    }
    sheaf__free(part);
    return sheaf__file_result(code, path, "make the directory", err);
}

sheaf_status sheaf__file_rmdir(const char *path, sheaf_error *err)
{
    const struct sheaf__fs *fs = sheaf__file_fs();
    return sheaf__file_result(fs->rmdir(fs->user, path), path, "remove the directory", err);
}

sheaf_status sheaf__file_sync_dir(const char *path, sheaf_error *err)
{
    const struct sheaf__fs *fs = sheaf__file_fs();
    return sheaf__file_result(sheaf__file_sync_names(fs, path), path, "sync the directory", err);
}

sheaf_status sheaf__file_chmod(const char *path, uint32_t mode, sheaf_error *err)
{
    const struct sheaf__fs *fs = sheaf__file_fs();
    return sheaf__file_result(fs->chmod(fs->user, path, mode), path, "change the mode of", err);
}

sheaf_status sheaf__file_list(const char *path, struct sheaf__strings *names, sheaf_error *err)
{
    const struct sheaf__fs *fs = sheaf__file_fs();
    struct sheaf__strings found = {0};
    const size_t before = names->count;
    int code = fs->list(fs->user, path, &found);
    for (size_t i = 0; i < found.count && !code; i++)
        code = sheaf__strings_add(names, found.items[i]) ? 0 : ENOMEM;
    while (code && names->count > before)
        sheaf__free(names->items[--names->count]);
    sheaf__strings_clear(&found);
    sheaf__strings_sort(names);
    return sheaf__file_result(code, path, "list", err);
}
