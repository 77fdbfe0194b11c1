/* SPDX-License-Identifier: Apache-2.0 */
/* A file system in memory that can lose what was not synced. Paths are compared as they are, after
 * trailing slashes and a leading "./" are cut; there are no links and no permissions. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/object.h"
#include "base/str.h"
#include "base/thread.h"

#include <errno.h>
#include <string.h>

/* A file or directory. Counted by the names that lead to it and by open handles. */
struct inode {
    struct sheaf__object object;
    enum sheaf__file_kind kind;
    uint32_t mode;
    int64_t mtime_ns;
    struct sheaf__buf data;
    struct sheaf__buf synced; /* what a crash leaves */
    bool locked;
};

struct memory {
    struct sheaf__fs fs; /* first: what the context holds */
    struct sheaf__mutex lock;
    struct sheaf__strmap names;   /* path to inode */
    struct sheaf__strmap durable; /* the same as of the last sync of each directory */
};

struct handle {
    struct inode *inode;
    bool locked;
};

static void destroy_inode(void *object)
{
    struct inode *inode = object;
    sheaf__buf_free(&inode->data);
    sheaf__buf_free(&inode->synced);
    sheaf__free(inode);
}

static const struct sheaf__class inode_class = {.name = "inode", .destroy = destroy_inode};

static struct inode *new_inode(enum sheaf__file_kind kind, uint32_t mode)
{
    struct inode *inode = sheaf__calloc(1, sizeof(*inode));
    if (!inode)
        return NULL;
    sheaf__object_init(&inode->object, &inode_class);
    inode->kind = kind;
    inode->mode = mode;
    inode->mtime_ns = sheaf__clock_wall();
    return inode;
}

/* ---- names ---- */

/* The path in its one form, in new memory; "" is the root of all. */
static char *canonical(const char *path)
{
    while (path[0] == '.' && path[1] == '/')
        path += 2 + strspn(path + 2, "/");
    size_t size = strlen(path);
    while (size > 0 && path[size - 1] == '/')
        size--;
    if (size == 1 && path[0] == '.')
        size = 0;
    return sheaf__strndup(path, size);
}

/* True if `path` is an entry of the directory `parent`. */
static bool is_child(const char *path, const char *parent)
{
    size_t size = strlen(parent);
    if (size == 0)
        return strrchr(path, '/') == NULL || strrchr(path, '/') == path;
    return strncmp(path, parent, size) == 0 && path[size] == '/' && !strchr(path + size + 1, '/');
}

static bool is_directory(struct memory *m, const char *path)
{
    struct inode *inode = *path ? sheaf__strmap_get(&m->names, path) : NULL;
    return !*path || (inode && inode->kind == SHEAF__FILE_DIRECTORY);
}

/* The directory that `path` would be an entry of exists. */
static bool has_parent(struct memory *m, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return true;
    const struct inode *parent = sheaf__strmap_get_bytes(&m->names, path, (size_t)(slash - path));
    return parent && parent->kind == SHEAF__FILE_DIRECTORY;
}

/* Lets `path` name `inode` (NULL: nothing) in `map`, which takes a count of it. */
static int set_name(struct sheaf__strmap *map, const char *path, struct inode *inode)
{
    void *old = NULL;
    if (!inode) {
        sheaf__unref(sheaf__strmap_remove(map, path));
        return 0;
    }
    if (!sheaf__strmap_set(map, path, inode, &old))
        return ENOMEM;
    sheaf__ref(inode);
    sheaf__unref(old);
    return 0;
}

/* ---- operations on names, with the lock held and the path in its form ---- */

static int open_here(struct memory *m, const char *path, enum sheaf__file_mode mode,
                     struct handle *h)
{
    struct inode *inode = sheaf__strmap_get(&m->names, path);
    if (inode ? inode->kind == SHEAF__FILE_DIRECTORY : !*path)
        return EISDIR;
    if (!inode && mode == SHEAF__FILE_READ)
        return ENOENT;
    if (inode && mode == SHEAF__FILE_NEW)
        return EEXIST;
    if (!inode) {
        if (!has_parent(m, path))
            return ENOENT;
        inode = new_inode(SHEAF__FILE_REGULAR, 0644);
        int code = inode ? set_name(&m->names, path, inode) : ENOMEM;
        sheaf__unref(inode);
        if (code)
            return code;
    }
    if (mode == SHEAF__FILE_CREATE)
        inode->data.size = 0;
    h->inode = sheaf__ref(inode);
    return 0;
}

static int mkdir_here(struct memory *m, const char *path, uint32_t mode)
{
    if (!*path || sheaf__strmap_has(&m->names, path))
        return EEXIST;
    if (!has_parent(m, path))
        return ENOENT;
    struct inode *inode = new_inode(SHEAF__FILE_DIRECTORY, mode);
    int code = inode ? set_name(&m->names, path, inode) : ENOMEM;
    /* Journals write a new directory with the first file in it that is synced: here it is durable
     * at once. */
    if (!code)
        code = set_name(&m->durable, path, inode);
    sheaf__unref(inode);
    return code;
}

static int rename_here(struct memory *m, const char *from, const char *to)
{
    struct inode *inode = sheaf__strmap_get(&m->names, from);
    struct inode *there = sheaf__strmap_get(&m->names, to);
    if (!inode || !has_parent(m, to))
        return ENOENT;
    if (inode->kind == SHEAF__FILE_DIRECTORY)
        return ENOTSUP;
    if (there && there->kind == SHEAF__FILE_DIRECTORY)
        return EISDIR;
    if (inode == there)
        return 0;
    int code = set_name(&m->names, to, inode);
    return code ? code : set_name(&m->names, from, NULL);
}

static int remove_here(struct memory *m, const char *path, bool directory)
{
    struct inode *inode = sheaf__strmap_get(&m->names, path);
    struct sheaf__map_entry *e;
    size_t at = 0;
    if (!inode)
        return ENOENT;
    if (directory != (inode->kind == SHEAF__FILE_DIRECTORY))
        return directory ? ENOTDIR : EISDIR;
    while (directory && (e = sheaf__strmap_next(&m->names, &at)))
        if (is_child(e->key, path))
            return ENOTEMPTY;
    if (directory)
        set_name(&m->durable, path, NULL);
    return set_name(&m->names, path, NULL);
}

static int sync_dir_here(struct memory *m, const char *path)
{
    struct sheaf__map_entry *e;
    int code = 0;
    if (!is_directory(m, path))
        return ENOENT;
    for (size_t at = 0; (e = sheaf__strmap_next(&m->durable, &at));)
        if (is_child(e->key, path) && !sheaf__strmap_has(&m->names, e->key))
            set_name(&m->durable, e->key, NULL);
    for (size_t at = 0; !code && (e = sheaf__strmap_next(&m->names, &at));)
        if (is_child(e->key, path))
            code = set_name(&m->durable, e->key, e->value);
    return code;
}

static int list_here(struct memory *m, const char *path, struct sheaf__strings *names)
{
    struct sheaf__map_entry *e;
    if (!is_directory(m, path))
        return sheaf__strmap_has(&m->names, path) ? ENOTDIR : ENOENT;
    for (size_t at = 0; (e = sheaf__strmap_next(&m->names, &at));)
        if (is_child(e->key, path) && !sheaf__strings_add(names, sheaf__path_name(e->key)))
            return ENOMEM;
    return 0;
}

static struct sheaf__file_stat stat_of(const struct inode *inode)
{
    return (struct sheaf__file_stat){.kind = inode->kind,
                                     .mode = inode->mode,
                                     .inode = (uint64_t)(uintptr_t)inode,
                                     .size = inode->data.size,
                                     .mtime_ns = inode->mtime_ns};
}

static int stat_here(struct memory *m, const char *path, struct sheaf__file_stat *out)
{
    struct inode *inode = *path ? sheaf__strmap_get(&m->names, path) : NULL;
    if (*path && !inode)
        return ENOENT;
    *out = (struct sheaf__file_stat){.kind = SHEAF__FILE_DIRECTORY, .mode = 0755};
    if (inode)
        *out = stat_of(inode);
    return 0;
}

/* ---- the table: lock, form, work, unlock ---- */

/* Brings a path into its form and locks; NULL: no memory, and not locked. */
static char *enter(struct memory *m, const char *path)
{
    char *p = canonical(path);
    if (p)
        sheaf__mutex_lock(&m->lock);
    return p;
}

static int leave(struct memory *m, char *path, int code)
{
    sheaf__mutex_unlock(&m->lock);
    sheaf__free(path);
    return code;
}

static int m_open(void *user, const char *path, enum sheaf__file_mode mode, void **handle)
{
    struct memory *m = user;
    struct handle *h = sheaf__calloc(1, sizeof(*h));
    char *p = h ? enter(m, path) : NULL;
    if (!p) {
        sheaf__free(h);
        return ENOMEM;
    }
    int code = leave(m, p, open_here(m, p, mode, h));
    if (code)
        sheaf__free(h);
    else
        *handle = h;
    return code;
}

static int m_close(void *user, void *handle)
{
    struct memory *m = user;
    struct handle *h = handle;
    sheaf__mutex_lock(&m->lock);
    if (h->locked)
        h->inode->locked = false;
    sheaf__unref(h->inode);
    sheaf__mutex_unlock(&m->lock);
    sheaf__free(h);
    return 0;
}

static int m_read_at(void *user, void *handle, uint64_t offset, void *data, size_t size,
                     size_t *got)
{
    struct memory *m = user;
    struct handle *h = handle;
    sheaf__mutex_lock(&m->lock);
    const struct sheaf__buf *b = &h->inode->data;
    size_t left = offset < b->size ? b->size - (size_t)offset : 0;
    *got = size < left ? size : left;
    if (*got)
        memcpy(data, b->data + offset, *got);
    sheaf__mutex_unlock(&m->lock);
    return 0;
}

/* Makes the file `size` bytes long, zeros where nothing was. */
static int resize(struct inode *inode, size_t size)
{
    struct sheaf__buf *b = &inode->data;
    size_t before = b->size;
    if (size > before && !sheaf__buf_reserve(b, size - before)) {
        b->failed = false;
        return ENOSPC;
    }
    if (size > before)
        memset(b->data + before, 0, size - before);
    b->size = size;
    inode->mtime_ns = sheaf__clock_wall();
    return 0;
}

static int m_write_at(void *user, void *handle, uint64_t offset, const void *data, size_t size,
                      size_t *done)
{
    struct memory *m = user;
    struct handle *h = handle;
    int code = 0;
    if (offset > SIZE_MAX / 2 || size > SIZE_MAX / 2)
        return EFBIG;
    sheaf__mutex_lock(&m->lock);
    if (offset + size > h->inode->data.size)
        code = resize(h->inode, (size_t)offset + size);
    if (!code && size)
        memcpy(h->inode->data.data + offset, data, size);
    sheaf__mutex_unlock(&m->lock);
    if (!code)
        *done = size;
    return code;
}

static int m_sync(void *user, void *handle)
{
    struct memory *m = user;
    struct handle *h = handle;
    sheaf__mutex_lock(&m->lock);
    struct sheaf__buf *to = &h->inode->synced;
    sheaf__buf_clear(to);
    sheaf__buf_bytes(to, h->inode->data.data, h->inode->data.size);
    int code = to->failed ? ENOSPC : 0;
    sheaf__mutex_unlock(&m->lock);
    return code;
}

/* Here nothing goes to a disk by itself. */
static void m_begin_sync(void *user, void *handle, uint64_t offset, uint64_t size)
{
    (void)user, (void)handle, (void)offset, (void)size;
}

static int m_look(void *user, void *handle, struct sheaf__file_stat *stat)
{
    struct memory *m = user;
    struct handle *h = handle;
    sheaf__mutex_lock(&m->lock);
    *stat = stat_of(h->inode);
    sheaf__mutex_unlock(&m->lock);
    return 0;
}

static int m_truncate(void *user, void *handle, uint64_t size)
{
    struct memory *m = user;
    struct handle *h = handle;
    sheaf__mutex_lock(&m->lock);
    int code = resize(h->inode, (size_t)size);
    sheaf__mutex_unlock(&m->lock);
    return code;
}

static int m_lock(void *user, void *handle)
{
    struct memory *m = user;
    struct handle *h = handle;
    sheaf__mutex_lock(&m->lock);
    int code = h->inode->locked && !h->locked ? EWOULDBLOCK : 0;
    if (!code)
        h->inode->locked = h->locked = true;
    sheaf__mutex_unlock(&m->lock);
    return code;
}

static bool m_is_stream(void *user, void *handle)
{
    (void)user;
    (void)handle;
    return false;
}

static bool m_mappable(void *user, void *handle)
{
    (void)user;
    (void)handle;
    return false; /* the bytes move when the file grows */
}

static int m_map(void *user, void *handle, size_t size, const uint8_t **data)
{
    (void)user;
    (void)handle;
    (void)size;
    (void)data;
    return ENOTSUP;
}

static void m_unmap(void *user, const uint8_t *data, size_t size)
{
    (void)user;
    (void)data;
    (void)size;
}

static int m_stat(void *user, const char *path, struct sheaf__file_stat *stat)
{
    struct memory *m = user;
    char *p = enter(m, path);
    return p ? leave(m, p, stat_here(m, p, stat)) : ENOMEM;
}

static bool m_is_link(void *user, const char *path)
{
    (void)user;
    (void)path;
    return false;
}

static int m_rename(void *user, const char *from, const char *to)
{
    struct memory *m = user;
    char *t = canonical(to);
    char *f = t ? enter(m, from) : NULL;
    int code = f ? leave(m, f, rename_here(m, f, t)) : ENOMEM;
    sheaf__free(t);
    return code;
}

static int m_unlink(void *user, const char *path)
{
    struct memory *m = user;
    char *p = enter(m, path);
    return p ? leave(m, p, remove_here(m, p, false)) : ENOMEM;
}

static int m_mkdir(void *user, const char *path, uint32_t mode)
{
    struct memory *m = user;
    char *p = enter(m, path);
    return p ? leave(m, p, mkdir_here(m, p, mode)) : ENOMEM;
}

static int m_rmdir(void *user, const char *path)
{
    struct memory *m = user;
    char *p = enter(m, path);
    return p ? leave(m, p, remove_here(m, p, true)) : ENOMEM;
}

static int m_sync_dir(void *user, const char *path)
{
    struct memory *m = user;
    char *p = enter(m, path);
    return p ? leave(m, p, sync_dir_here(m, p)) : ENOMEM;
}

static int m_chmod(void *user, const char *path, uint32_t mode)
{
    struct memory *m = user;
    char *p = enter(m, path);
    if (!p)
        return ENOMEM;
    struct inode *inode = sheaf__strmap_get(&m->names, p);
    if (inode)
        inode->mode = mode;
    return leave(m, p, inode ? 0 : ENOENT);
}

static int m_list(void *user, const char *path, struct sheaf__strings *names)
{
    struct memory *m = user;
    char *p = enter(m, path);
    return p ? leave(m, p, list_here(m, p, names)) : ENOMEM;
}

struct sheaf__fs *sheaf__fs_memory_new(void)
{
    struct memory *m = sheaf__calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->fs = (struct sheaf__fs){
        .user = m,
        .open = m_open,
        .close = m_close,
        .read_at = m_read_at,
        .write_at = m_write_at,
        .sync = m_sync,
        .begin_sync = m_begin_sync,
        .look = m_look,
        .truncate = m_truncate,
        .lock = m_lock,
        .is_stream = m_is_stream,
        .mappable = m_mappable,
        .map = m_map,
        .unmap = m_unmap,
        .stat = m_stat,
        .is_link = m_is_link,
        .rename = m_rename,
        .unlink = m_unlink,
        .mkdir = m_mkdir,
        .rmdir = m_rmdir,
        .sync_dir = m_sync_dir,
        .chmod = m_chmod,
        .list = m_list,
    };
    return &m->fs;
}

void sheaf__fs_memory_free(struct sheaf__fs *fs)
{
    if (!fs)
        return;
    struct memory *m = fs->user;
    sheaf__strmap_clear(&m->names, sheaf__unref);
    sheaf__strmap_clear(&m->durable, sheaf__unref);
    sheaf__free(m);
}

void sheaf__fs_memory_crash(struct sheaf__fs *fs)
{
    struct memory *m = fs->user;
    struct sheaf__map_entry *e;
    sheaf__mutex_lock(&m->lock);
    for (size_t at = 0; (e = sheaf__strmap_next(&m->names, &at));)
        set_name(&m->names, e->key, NULL);
    for (size_t at = 0; (e = sheaf__strmap_next(&m->durable, &at));) {
        struct inode *inode = e->value;
        set_name(&m->names, e->key, inode);
        sheaf__buf_clear(&inode->data);
        sheaf__buf_bytes(&inode->data, inode->synced.data, inode->synced.size);
    }
    sheaf__mutex_unlock(&m->lock);
}
