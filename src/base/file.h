/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_FILE_H
#define SHEAF_BASE_FILE_H

/* Files of the current context: the system's, or in tests memory, or either with faults
 * (base/fs.h). Errors name the file and what the system said. Paths are bytes; "/" separates. Any
 * thread; one file object by one thread at a time, except sheaf__file_read_at, which any number of
 * threads may call at once. */

#include "base/array.h"
#include "base/object.h"
#include <sheaf/status.h>

struct sheaf__file;

enum sheaf__file_kind { SHEAF__FILE_REGULAR, SHEAF__FILE_DIRECTORY, SHEAF__FILE_OTHER };
struct sheaf__file_stat {
    enum sheaf__file_kind kind;
    uint32_t mode; /* permission bits */
    uint32_t owner;
    uint64_t device, inode; /* which file it is, whatever its name */
    uint64_t size;
    int64_t mtime_ns;
};

enum sheaf__file_mode {
    SHEAF__FILE_READ,    /* must exist */
    SHEAF__FILE_CREATE,  /* write; made or truncated */
    SHEAF__FILE_NEW,     /* write; ALREADY_EXISTS if it does */
    SHEAF__FILE_UPDATE,  /* read and write; made if missing, not truncated */
    SHEAF__FILE_APPEND,  /* write at the end; made if missing */
    SHEAF__FILE_REPLACE, /* write beside it, under a lock; sheaf__file_commit() puts it in place,
                            close alone drops it */
};

sheaf_status sheaf__file_open(const char *path, enum sheaf__file_mode mode,
                              struct sheaf__file **file, sheaf_error *err);
/* Closes and frees. NULL is nothing. The file is gone in any case; a failure says that data may be
 * lost. */
sheaf_status sheaf__file_close(struct sheaf__file *file, sheaf_error *err);
/* Makes data and size durable. */
sheaf_status sheaf__file_sync(struct sheaf__file *file, sheaf_error *err);
/* For SHEAF__FILE_REPLACE: sync, rename over the path, sync the directory, close. On failure the
 * old file stands and nothing is left behind. The object is freed in any case. */
sheaf_status sheaf__file_commit(struct sheaf__file *file, sheaf_error *err);

/* Reads up to `size` bytes at `offset`; `*got` is less only at the end of the file. Of a stream the
 * offset is the reader's affair: it gives what comes next. */
sheaf_status sheaf__file_read_at(struct sheaf__file *file, uint64_t offset, void *data, size_t size,
                                 size_t *got, sheaf_error *err);
/* Writes all of it, at `offset` or after what was written last. */
sheaf_status sheaf__file_write_at(struct sheaf__file *file, uint64_t offset, const void *data,
                                  size_t size, sheaf_error *err);
sheaf_status sheaf__file_write(struct sheaf__file *file, const void *data, size_t size,
                               sheaf_error *err);
sheaf_status sheaf__file_look(struct sheaf__file *file, struct sheaf__file_stat *stat,
                              sheaf_error *err);
sheaf_status sheaf__file_size(struct sheaf__file *file, uint64_t *size, sheaf_error *err);
sheaf_status sheaf__file_truncate(struct sheaf__file *file, uint64_t size, sheaf_error *err);
/* Takes the exclusive lock of the file without waiting; ALREADY_EXISTS if another has it. Ends with
 * the close. */
sheaf_status sheaf__file_lock(struct sheaf__file *file, sheaf_error *err);
/* A pipe, a socket or a terminal: it has no size, and can be read once, from its start to its end. */
bool sheaf__file_is_stream(struct sheaf__file *file);
const char *sheaf__file_path(const struct sheaf__file *file);
/* False on a network file system, where a mapping would kill the process when the file shrinks, and of
 * a file that says to have no bytes, as those of /proc do, which have. Read it in blocks. */
bool sheaf__file_mappable(struct sheaf__file *file);

/* A whole file, readable as memory for as long as it is counted (sheaf__ref, sheaf__unref): mapped,
 * or read into memory where sheaf__file_mappable() is false. The bytes must not be written. */
struct sheaf__map {
    struct sheaf__object object;
    const uint8_t *data; /* never NULL */
    size_t size;
    const char *path;
};
sheaf_status sheaf__file_map(const char *path, struct sheaf__map **map, sheaf_error *err);
/* The same of a file that was opened to be read, and that stays open. */
sheaf_status sheaf__file_map_open(struct sheaf__file *file, struct sheaf__map **map,
                                  sheaf_error *err);
/* As sheaf__file_map(), but always read into memory, so that it does no harm if the file is cut. For what is
 * gone through once. */
sheaf_status sheaf__file_load(const char *path, struct sheaf__map **map, sheaf_error *err);
/* Whether a counted object is a mapped file, and the address lies in it. */
bool sheaf__map_holds(const struct sheaf__object *object, const void *address);
/* Reads a whole file of at most `limit` bytes with a zero after it; freed with sheaf__free(). A
 * device or a pipe, which does not say how long it is, is refused. */
sheaf_status sheaf__file_read_all(const char *path, size_t limit, char **data, size_t *size,
                                  sheaf_error *err);
/* Puts a new content in the place of the old one, or leaves the old one (SHEAF__FILE_REPLACE in one
 * call). */
sheaf_status sheaf__file_replace(const char *path, const void *data, size_t size, sheaf_error *err);
/* The same; `before` (may be NULL) is asked when all is written beside the old one and only the rename
 * is left. Whoever deletes what stands beside `path` after that hinders the rename. */
sheaf_status sheaf__file_replace_if(const char *path, const void *data, size_t size,
                                    sheaf_status (*before)(void *user, sheaf_error *err),
                                    void *user, sheaf_error *err);

/* Whether a name is one of those "beside it": FILE.tmp-PROCESS-COUNT. */
bool sheaf__file_is_temporary(const char *name);
/* Deletes what stands beside `path` of processes that died before they put it in place; `*count` is
 * how many files. What has a living owner is locked, and stays. */
sheaf_status sheaf__file_sweep(const char *path, size_t *count, sheaf_error *err);

sheaf_status sheaf__file_stat(const char *path, struct sheaf__file_stat *stat, sheaf_error *err);
bool sheaf__file_exists(const char *path);
/* A symbolic link, wherever it leads: all else here follows it. */
bool sheaf__file_is_link(const char *path);
sheaf_status sheaf__file_rename(const char *from, const char *to, sheaf_error *err);
sheaf_status sheaf__file_unlink(const char *path, sheaf_error *err);
/* Makes the directory and those above it; nothing if it is there. `mode` 0: 0777 under the umask.
 */
sheaf_status sheaf__file_mkdir(const char *path, uint32_t mode, sheaf_error *err);
sheaf_status sheaf__file_rmdir(const char *path, sheaf_error *err);
/* Makes renames and new names in the directory durable. */
sheaf_status sheaf__file_sync_dir(const char *path, sheaf_error *err);
/* Adds the names in a directory to `names`, sorted by bytes, without "." and ".."; none if it fails. */
sheaf_status sheaf__file_list(const char *path, struct sheaf__strings *names, sheaf_error *err);
/* Permission bits. */
sheaf_status sheaf__file_chmod(const char *path, uint32_t mode, sheaf_error *err);

/* Adds the paths that match `pattern`, sorted by bytes. `*`, `?` and `[…]` as in TensorFlow's
 * list_files: none of them matches "/". No match is no error. The pattern is looked for below
 * `directory`, in which no byte means anything but itself; NULL: none. */
sheaf_status sheaf__file_glob(const char *directory, const char *pattern,
                              struct sheaf__strings *paths, sheaf_error *err);
bool sheaf__glob_match(const char *pattern, const char *text);

/* `directory` + "/" + `name` in new memory (NULL: no memory); directory "" gives the name. */
char *sheaf__path_join(const char *directory, const char *name);
/* The directory of a path in new memory: "." if it has none. */
char *sheaf__path_directory(const char *path);
/* The part after the last "/". */
const char *sheaf__path_name(const char *path);

#endif
