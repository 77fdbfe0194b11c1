/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_UNLISTED_H
#define SHEAF_CKPT_UNLISTED_H

/* A checkpoint is complete before the state file names it, and its files go before its name does. If the process is killed in
 * between, what is left would belong to nobody: it looks like what somebody has copied there, which is never deleted. So the file
 * ".<name>.unlisted" names those that were begun, or began to be deleted, since the state file was written, a line each. It is a
 * help alone: where it cannot be written or is lost, such files stay. */

#include "base/array.h"

#include <sheaf/status.h>

/* Notes "<name>-N", the last part of `path`. */
void sheaf__unlisted_note(const char *directory, const char *name, const char *path);
/* It was given up: the note goes, unless it is complete. */
void sheaf__unlisted_withdraw(const char *directory, const char *name, const char *path);
/* Those that are noted, "<name>-N", complete or not. */
sheaf_status sheaf__unlisted_find(const char *directory, const char *name,
                                  struct sheaf__strings *found, sheaf_error *err);
/* The state file names all that there are, and no other. */
void sheaf__unlisted_clear(const char *directory, const char *name);

#endif
