/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_LOCK_H
#define SHEAF_CKPT_LOCK_H

/* The lock of a directory of checkpoints: a file `.checkpoint.lock` in it, for one process at a time,
 * whatever it calls them: there is one state file. */

#include "base/file.h"

/* Takes that of the directory of "<prefix>-N"; FAILED_PRECONDITION if somebody else has it. A file system without locks refuses nobody. */
sheaf_status sheaf__ckpt_lock(const char *prefix, struct sheaf__file **lock, sheaf_error *err);
/* Whether it is still the lock of the directory of that name. It is not when that was moved or deleted, or
 * when a relative name means another one since the process works elsewhere: then somebody else may have
 * the lock of what is there now. */
bool sheaf__ckpt_lock_holds(struct sheaf__file *lock);
/* Gives it back, as the end of the process does. NULL is nothing. */
void sheaf__ckpt_unlock(struct sheaf__file *lock);

#endif
