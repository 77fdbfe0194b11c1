/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_SWEEP_H
#define SHEAF_CKPT_SWEEP_H

/* What a save that was killed left behind. Harmless if it stays: taking it away never fails. */

#include <sheaf/status.h>

/* The file that shows the other tasks of a save that they see its temporary directory. */
#define SHEAF__SWEEP_TOKEN "part-token"

/* Removes a save's temporary directory with the files that a save makes in it: `part-token`, those of
 * bundles `part-N-of-M`, and the temporary ones beside them. Other files stay, and so the directory; a
 * symbolic link is nobody's temporary directory. */
void sheaf__sweep_temporary(const char *path);
/* Makes it, without what an earlier save left. Files of somebody else in it do no harm;
 * FAILED_PRECONDITION if it is a symbolic link, or no directory. */
sheaf_status sheaf__sweep_make_temporary(const char *path, sheaf_error *err);
/* Removes what processes that died were about to put in place of the file; NULL is nothing. */
void sheaf__sweep_file(const char *path);
/* Removes what processes that died were about to put in place as index and sidecar of `path`. */
void sheaf__sweep_beside(const char *path);
/* Removes the files of checkpoint `path` if a save of it did not come to its end: without an index. */
void sheaf__sweep_unfinished(const char *path);
/* Removes temporary files and directories of checkpoints "<name>-N" and of the state file from
 * `directory`, and what there is of checkpoints that are noted (unlisted.h) and not complete. Nobody else
 * may save there now. */
void sheaf__sweep_leftovers(const char *directory, const char *name);

#endif
