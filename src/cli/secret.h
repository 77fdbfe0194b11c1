/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_CLI_SECRET_H
#define SHEAF_CLI_SECRET_H

/* What only the tasks of one run know. */
struct sheaf__run_secret {
    char path[256]; /* file with the secret, mode 0600; empty: none was made */
    char run_id[33];
};

/* Makes both. Returns 0 or an errno value; then `path` names what failed. */
int sheaf__run_secret_make(struct sheaf__run_secret *secret);
void sheaf__run_secret_remove(struct sheaf__run_secret *secret);

#endif
