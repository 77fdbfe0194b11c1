/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_SECRET_H
#define SHEAF_CLI_SECRET_H

/* What only the tasks of one run know. */
struct sheaf__run_secret {
    char path[256];  /* file with the secret, mode 0600 */
    char ended[272]; /* another beside it, of tasks that have ended (net/ended.h) */
    char run_id[33];
};

/* Chooses both, without writing anything: whoever cleans up can be told the name before there is
 * something to clean up. Returns 0 or an errno value. */
int sheaf__run_secret_choose(struct sheaf__run_secret *secret);
/* Writes the secret. Returns 0 or an errno value. */
int sheaf__run_secret_write(const struct sheaf__run_secret *secret);
/* Notes that a task has ended; `how` completes "it ". What cannot be noted is found out later, by a deadline. */
void sheaf__run_note_end(const struct sheaf__run_secret *secret, const char *task, const char *how);
void sheaf__run_secret_remove(const struct sheaf__run_secret *secret);

#endif
