/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include "base/config.h"
#include "base/context.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/wait.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* Bytes that the disk is asked to begin with at a time. */
#define SYNC_STEP (1 << 20)

struct sheaf__file {
    const struct sheaf__fs *fs;
    void *handle;
    char *path;      /* as the caller gave it */
    char *temporary; /* where SHEAF__FILE_REPLACE writes, else NULL */
    uint64_t at;     /* where sheaf__file_write goes on */
    bool early;      /* the disk is asked to begin while the file is written */
    uint64_t begun;  /* up to where it was */
};

static const struct sheaf__fs *the_fs(void)
{
    return sheaf__context_fs(sheaf__context());
}

/* 0 or an errno value as a result. */
static sheaf_status result(int code, const char *path, const char *op, sheaf_error *err)
{
    return code ? sheaf__errno_error(err, code, path, op) : SHEAF_OK;
}

/* ---- open and close ---- */

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

static int open_temporary(struct sheaf__file *f)
{
    int code = EAGAIN;
    for (int tries = 0; code == EAGAIN && tries < 1000; tries++) {
        sheaf__mutex_lock(&between);
        code = try_temporary(f);
        sheaf__mutex_unlock(&between);
    }
    return code;
}

static void free_file(struct sheaf__file *file)
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
    f->fs = the_fs();
    f->path = sheaf__strdup(path);
    if (!f->path) {
        free_file(f);
        return sheaf__no_memory(err, "a file");
    }
    f->early = replace && sheaf__config_int(SHEAF__CONFIG_FSYNC);
    int code = replace ? open_temporary(f) : f->fs->open(f->fs->user, path, mode, &f->handle);
    if (!code && mode == SHEAF__FILE_APPEND) {
        code = f->fs->look(f->fs->user, f->handle, &stat);
        f->at = stat.size;
        if (code)
            f->fs->close(f->fs->user, f->handle);
    }
    if (code) {
        free_file(f);
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
    sheaf_status status = result(code, file->path, "close", err);
    free_file(file);
    return status;
}

static int sync_data(const struct sheaf__file *file)
{
    return sheaf__config_int(SHEAF__CONFIG_FSYNC) ? file->fs->sync(file->fs->user, file->handle)
                                                  : 0;
}

static int sync_names(const struct sheaf__fs *fs, const char *directory)
{
    return sheaf__config_int(SHEAF__CONFIG_FSYNC) ? fs->sync_dir(fs->user, directory) : 0;
}

/* Makes a rename durable. A file system that cannot sync directories has nothing to make durable.
 */
static int sync_parent(const struct sheaf__fs *fs, const char *path)
{
    char *directory = sheaf__path_directory(path);
    if (!directory)
        return ENOMEM;
    int code = sync_names(fs, directory);
    sheaf__free(directory);
    return code == EINVAL || code == ENOTSUP ? 0 : code;
}

sheaf_status sheaf__file_commit(struct sheaf__file *file, sheaf_error *err)
{
    const struct sheaf__fs *fs = file->fs;
    const char *op = "sync";
    int code = sync_data(file);
    if (code) {
        sheaf_status status = sheaf__errno_error(err, code, file->path, op);
        sheaf__file_close(file, NULL);
        return status;
    }
    /* The lock is held until the file has its name: without it a sweep takes it for one left behind. */
    op = "rename to";
    code = fs->rename(fs->user, file->temporary, file->path);
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
    sheaf_status status = result(code, file->path, op, err);
    free_file(file);
    return status;
}

sheaf_status sheaf__file_sync(struct sheaf__file *file, sheaf_error *err)
{
    return result(sync_data(file), file->path, "sync", err);
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
    return result(file->fs->look(file->fs->user, file->handle, stat), file->path, "look at", err);
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
    return result(code, file->path, "truncate", err);
}

sheaf_status sheaf__file_lock(struct sheaf__file *file, sheaf_error *err)
{
    int code = file->fs->lock(file->fs->user, file->handle);
    if (code == EWOULDBLOCK || code == EACCES) {
        struct sheaf__place where = {file->path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
        return sheaf__error_at(err, SHEAF_ERR_ALREADY_EXISTS, &where,
                               "the file is locked by another process");
    }
    return result(code, file->path, "lock", err);
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

/* ---- whole files ---- */

struct map {
    struct sheaf__map map;
    const struct sheaf__fs *fs; /* NULL: `data` is ours */
    char *path;
};

static void destroy_map(void *object)
{
    struct map *m = object;
    if (m->fs)
        m->fs->unmap(m->fs->user, m->map.data, m->map.size);
    else if (m->map.size)
        sheaf__free((void *)(uintptr_t)m->map.data);
    sheaf__free(m->path);
    sheaf__free(m);
}

static const struct sheaf__class map_class = {.name = "file map", .destroy = destroy_map};

bool sheaf__map_holds(const struct sheaf__object *object, const void *address)
{
    const struct sheaf__map *map = (const void *)object;
    return object->cls == &map_class && (const uint8_t *)address >= map->data &&
           (const uint8_t *)address < map->data + map->size;
}

/* Reads all of a file whose size is known; a file that shrank meanwhile is an error. */
static sheaf_status read_whole(struct sheaf__file *file, void *data, size_t size, sheaf_error *err)
{
    size_t got = 0;
    SHEAF__TRY(sheaf__file_read_at(file, 0, data, size, &got, err));
    if (got == size)
        return SHEAF_OK;
    struct sheaf__place where = {file->path, SHEAF__UNKNOWN, got};
    return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &where,
                           "the file ended after %zu bytes, expected %zu", got, size);
}

static sheaf_status fill_map(struct map *m, struct sheaf__file *file, bool mapped, sheaf_error *err)
{
    uint64_t size = 0;
    SHEAF__TRY(sheaf__file_size(file, &size, err));
    m->map.data = (const uint8_t *)"";
    m->map.size = (size_t)size;
    if (size == 0)
        return SHEAF_OK;
    if (mapped) {
        int code = file->fs->map(file->fs->user, file->handle, (size_t)size, &m->map.data);
        if (code == 0)
            m->fs = file->fs;
        return result(code, file->path, "map", err);
    }
    uint8_t *copy = sheaf__alloc((size_t)size);
    if (!copy)
        return sheaf__no_memory(err, file->path);
    sheaf_status status = read_whole(file, copy, (size_t)size, err);
    if (status < 0)
        sheaf__free(copy);
    else
        m->map.data = copy;
    return status;
}

static sheaf_status map_or_load(struct sheaf__file *file, bool mapped, struct sheaf__map **map,
                                sheaf_error *err)
{
    struct map *m = sheaf__calloc(1, sizeof(*m));
    if (!m || !(m->path = sheaf__strdup(file->path))) {
        sheaf__free(m);
        return sheaf__no_memory(err, "a file");
    }
    sheaf_status status = fill_map(m, file, mapped, err);
    if (status < 0) {
        sheaf__free(m->path);
        sheaf__free(m);
        return status;
    }
    sheaf__object_init(&m->map.object, &map_class);
    m->map.path = m->path;
    *map = &m->map;
    return SHEAF_OK;
}

sheaf_status sheaf__file_map_open(struct sheaf__file *file, struct sheaf__map **map,
                                  sheaf_error *err)
{
    return map_or_load(file, sheaf__file_mappable(file), map, err);
}

static sheaf_status map_path(const char *path, bool load, struct sheaf__map **map, sheaf_error *err)
{
    struct sheaf__file *file = NULL;
    SHEAF__TRY(sheaf__file_open(path, SHEAF__FILE_READ, &file, err));
    sheaf_status status = map_or_load(file, !load && sheaf__file_mappable(file), map, err);
    sheaf__file_close(file, NULL); /* only read: nothing can be lost */
    return status;
}

sheaf_status sheaf__file_map(const char *path, struct sheaf__map **map, sheaf_error *err)
{
    return map_path(path, false, map, err);
}

sheaf_status sheaf__file_load(const char *path, struct sheaf__map **map, sheaf_error *err)
{
    return map_path(path, true, map, err);
}

/* How many bytes it has, if it is one that has a size, and not more than `limit`. */
static sheaf_status size_to_read(struct sheaf__file *file, size_t limit, uint64_t *bytes,
                                 sheaf_error *err)
{
    const struct sheaf__place where = {file->path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    struct sheaf__file_stat stat;
    SHEAF__TRY(sheaf__file_look(file, &stat, err));
    if (stat.kind == SHEAF__FILE_OTHER)
        return sheaf__error_at(err, SHEAF_ERR_INVALID_ARGUMENT, &where,
                               "found a device or a pipe, expected a file");
    if (stat.size > limit)
        return sheaf__error_at(err, SHEAF_ERR_INVALID_ARGUMENT, &where,
                               "the file has %" PRIu64 " bytes, expected at most %zu", stat.size,
                               limit);
    *bytes = stat.size;
    return SHEAF_OK;
}

sheaf_status sheaf__file_read_all(const char *path, size_t limit, char **data, size_t *size,
                                  sheaf_error *err)
{
    struct sheaf__file *file = NULL;
    uint64_t bytes = 0;
    char *text = NULL;
    SHEAF__TRY(sheaf__file_open(path, SHEAF__FILE_READ, &file, err));
    sheaf_status status = size_to_read(file, limit, &bytes, err);
    if (status == SHEAF_OK && !(text = sheaf__alloc((size_t)bytes + 1)))
        status = sheaf__no_memory(err, path);
    if (status == SHEAF_OK)
        status = read_whole(file, text, (size_t)bytes, err);
    sheaf__file_close(file, NULL);
    if (status < 0) {
        sheaf__free(text);
        return status;
    }
    text[bytes] = '\0';
    *data = text;
    if (size)
        *size = (size_t)bytes;
    return SHEAF_OK;
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

/* ---- names ---- */

sheaf_status sheaf__file_stat(const char *path, struct sheaf__file_stat *stat, sheaf_error *err)
{
    const struct sheaf__fs *fs = the_fs();
    return result(fs->stat(fs->user, path, stat), path, "look at", err);
}

bool sheaf__file_is_link(const char *path)
{
    const struct sheaf__fs *fs = the_fs();
    return fs->is_link(fs->user, path);
}

bool sheaf__file_exists(const char *path)
{
    struct sheaf__file_stat stat;
    return sheaf__file_stat(path, &stat, NULL) == SHEAF_OK;
}

sheaf_status sheaf__file_rename(const char *from, const char *to, sheaf_error *err)
{
    const struct sheaf__fs *fs = the_fs();
    return result(fs->rename(fs->user, from, to), to, "rename to", err);
}

sheaf_status sheaf__file_unlink(const char *path, sheaf_error *err)
{
    const struct sheaf__fs *fs = the_fs();
    return result(fs->unlink(fs->user, path), path, "remove", err);
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
    const struct sheaf__fs *fs = the_fs();
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
    return result(code, path, "make the directory", err);
}

sheaf_status sheaf__file_rmdir(const char *path, sheaf_error *err)
{
    const struct sheaf__fs *fs = the_fs();
    return result(fs->rmdir(fs->user, path), path, "remove the directory", err);
}

sheaf_status sheaf__file_sync_dir(const char *path, sheaf_error *err)
{
    const struct sheaf__fs *fs = the_fs();
    return result(sync_names(fs, path), path, "sync the directory", err);
}

sheaf_status sheaf__file_chmod(const char *path, uint32_t mode, sheaf_error *err)
{
    const struct sheaf__fs *fs = the_fs();
    return result(fs->chmod(fs->user, path, mode), path, "change the mode of", err);
}

sheaf_status sheaf__file_list(const char *path, struct sheaf__strings *names, sheaf_error *err)
{
    const struct sheaf__fs *fs = the_fs();
    struct sheaf__strings found = {0};
    int code = fs->list(fs->user, path, &found);
    for (size_t i = 0; i < found.count && !code; i++)
        code = sheaf__strings_add(names, found.items[i]) ? 0 : ENOMEM;
    sheaf__strings_clear(&found);
    sheaf__strings_sort(names);
    return result(code, path, "list", err);
}
