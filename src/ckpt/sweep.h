/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CKPT_SWEEP_H
#define SHEAF_CKPT_SWEEP_H

/* What a save that was killed left behind. Harmless if it stays: nothing here fails. */

/* Removes a save's temporary directory with the files in it. */
void sheaf__sweep_temporary(const char *path);
/* Removes the files of checkpoint `path` if a save of it did not come to its end: without an index. */
void sheaf__sweep_unfinished(const char *path);
/* Removes temporary files and directories of checkpoints "<name>-N" and of the state file from
 * `directory`. Nobody else may save there now. */
void sheaf__sweep_leftovers(const char *directory, const char *name);

#endif
