/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_DIRECTORY_H
#define SHEAF_CKPT_DIRECTORY_H

/* A directory of checkpoints and its state file. */

#include "base/array.h"
#include "format/sidecar.h"
#include "format/state_file.h"

#include <sheaf/checkpoint.h>

/* Names checkpoint `path` as the latest in the state file of its directory. */
sheaf_status sheaf__directory_note(const char *path, sheaf_error *err);
/* A path of a state file: relative ones are the directory's. New memory; NULL: no memory. */
char *sheaf__directory_resolve(const char *directory, const char *path);
/* True if the checkpoint has an index. */
bool sheaf__directory_has(const char *path);
/* Checkpoints of the directory that might be restored, best first: those of the state file from the
 * newest on, then those named "<name>-N" that it does not know but that are newer than it is (a save
 * that ended between the two), or all of them if there is no state file. Only with an index. */
sheaf_status sheaf__directory_candidates(const char *directory, const char *name,
                                         struct sheaf__strings *paths, sheaf_error *err);
/* What is noted beside a checkpoint; zeroed if nothing is. */
sheaf_status sheaf__directory_sidecar(const char *path, struct sheaf__sidecar *sidecar,
                                      sheaf_error *err);

#endif
