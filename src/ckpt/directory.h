/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_DIRECTORY_H
#define SHEAF_CKPT_DIRECTORY_H

/* A directory of checkpoints and its state file. */

#include "base/array.h"
#include "format/sidecar.h"
#include "format/state_file.h"

#include <sheaf/checkpoint.h>

/* Names checkpoint `path` as the latest in the state file of its directory; `before` and `user` as in
 * sheaf__file_replace_if(). */
sheaf_status sheaf__directory_note(const char *path,
                                   sheaf_status (*before)(void *user, sheaf_error *err), void *user,
                                   sheaf_error *err);
/* A path of a state file: relative ones are the directory's. New memory; NULL: no memory. */
char *sheaf__directory_resolve(const char *directory, const char *path);
/* The N of "<name>-N", of any name if that is NULL, which is `size` bytes of `text`; -1: it is no such name. */
int64_t sheaf__directory_number(const char *text, size_t size, const char *name);
/* True if the checkpoint has an index. */
bool sheaf__directory_has(const char *path);
/* Checkpoints of the directory that might be restored, best first: those of the state file from the
 * newest on, before them those named "<name>-N" that it does not know but that are newer than it is (a
 * save that ended between the two). A state file that is missing, cannot be read, or whose newest
 * checkpoint is not there counts for nothing: then it is all "<name>-N", the highest N first (with a
 * warning if `warn`, unless it is just missing). `name` NULL: the name is that of the state file's
 * newest, else any. Only with an index. */
sheaf_status sheaf__directory_candidates(const char *directory, const char *name, bool warn,
                                         struct sheaf__strings *paths, sheaf_error *err);
/* The highest N of the "<prefix>-N" that are there, 0 for none. */
sheaf_status sheaf__directory_highest(const char *prefix, int64_t *number, sheaf_error *err);
/* What is noted beside a checkpoint; zeroed if nothing is. */
sheaf_status sheaf__directory_sidecar(const char *path, struct sheaf__sidecar *sidecar,
                                      sheaf_error *err);
/* Notes beside a checkpoint that this run ends with it. */
sheaf_status sheaf__directory_end_run(const char *path, sheaf_error *err);

#endif
