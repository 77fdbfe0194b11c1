/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_FILE_STATE_H
#define SHEAF_BASE_FILE_STATE_H

/* What the parts of base/file.h share: file.c has open files, file_replace.c those that take the place of others,
 * file_whole.c whole ones in memory, file_names.c their names. */

#include "base/context.h"
#include "base/error.h"
#include "base/fs.h"

struct sheaf__file {
    const struct sheaf__fs *fs;
    void *handle;
    char *path;      /* as the caller gave it */
    char *temporary; /* where SHEAF__FILE_REPLACE writes, else NULL */
    uint64_t at;     /* where sheaf__file_write goes on */
    bool early;      /* the disk is asked to begin while the file is written */
    uint64_t begun;  /* up to where it was */
};

static inline const struct sheaf__fs *sheaf__file_fs(void)
{
    return sheaf__context_fs(sheaf__context());
}

/* 0 or an errno value as a result. */
static inline sheaf_status sheaf__file_result(int code, const char *path, const char *op,
                                              sheaf_error *err)
{
    return code ? sheaf__errno_error(err, code, path, op) : SHEAF_OK;
}

/* Frees the object, whose handle is closed. */
void sheaf__file_free(struct sheaf__file *file);
/* Makes and locks the temporary file of one with a path. 0 or an errno value. */
int sheaf__file_open_temporary(struct sheaf__file *file);
/* Makes the names in a directory durable, if files are synced at all. 0 or an errno value. */
int sheaf__file_sync_names(const struct sheaf__fs *fs, const char *directory);

#endif
