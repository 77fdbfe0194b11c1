/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/lock.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"

/* A lock that is being taken. */
struct taking {
    const char *directory;
    char *path;
    struct sheaf__file *file;
};

bool sheaf__ckpt_lock_holds(struct sheaf__file *lock)
{
    struct sheaf__file_stat ours, named;
    return sheaf__file_look(lock, &ours, NULL) >= 0 &&
           sheaf__file_stat(sheaf__file_path(lock), &named, NULL) >= 0 &&
           ours.device == named.device && ours.inode == named.inode;
}

/* A file that cannot be made is of no interest, one that is in the way is. */
static sheaf_status no_saves(const struct taking *t, sheaf_error *fault, sheaf_error *err)
{
    if (!sheaf__file_exists(t->path))
        sheaf__str_copy(fault->file, sizeof(fault->file), t->directory);
    sheaf__error_prefix(fault, "no checkpoint can be saved in the directory");
    return sheaf__error_copy(err, fault);
}

/* Opens and locks. `*same` false: its last owner gave it back, and deleted it, in between; it is to be
 * tried again. */
static sheaf_status try_lock(struct taking *t, bool *same, sheaf_error *err)
{
    sheaf_error fault = {0};
    *same = true;
    if (sheaf__file_open(t->path, SHEAF__FILE_UPDATE, &t->file, &fault) < 0)
        return no_saves(t, &fault, err);
    const sheaf_status locked = sheaf__file_lock(t->file, NULL);
    sheaf_status status = SHEAF_OK;
    if (locked == SHEAF_ERR_ALREADY_EXISTS) {
        const struct sheaf__place where = {t->directory, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
        status = sheaf__error_at(err, SHEAF_ERR_FAILED_PRECONDITION, &where,
                                 "another process, or manager, saves checkpoints in the directory");
    } else if (locked >= 0) { /* a file system without locks refuses nobody */
        *same = sheaf__ckpt_lock_holds(t->file);
    }
    if (status < 0 || !*same) {
        sheaf__file_close(t->file, NULL);
        t->file = NULL;
    }
    return status;
}

static sheaf_status take(struct taking *t, sheaf_error *err)
{
    enum { TRIES = 100 };
    sheaf_status status = SHEAF_OK;
    bool same = false;
    for (int i = 0; i < TRIES && status >= 0 && !same; i++)
        status = try_lock(t, &same, err);
    if (status >= 0 && !same)
        status = sheaf__error(err, SHEAF_ERR_FAILED_PRECONDITION,
                              "%s was taken and given back %d times by others", t->path, TRIES);
    return status;
}

sheaf_status sheaf__ckpt_lock(const char *prefix, struct sheaf__file **lock, sheaf_error *err)
{
    char *directory = sheaf__path_directory(prefix);
    struct taking t = {.directory = directory};
    t.path = directory ? sheaf__path_join(directory, ".checkpoint.lock") : NULL;
    sheaf_status status = t.path ? take(&t, err) : sheaf__no_memory(err, "a checkpoint manager");
    if (status >= 0)
        *lock = t.file;
    sheaf__free(t.path);
    sheaf__free(directory);
    return status;
}

void sheaf__ckpt_unlock(struct sheaf__file *lock)
{
    if (lock && sheaf__ckpt_lock_holds(lock))
        sheaf__file_unlink(sheaf__file_path(lock), NULL); /* while it is ours */
    sheaf__file_close(lock, NULL);
}
