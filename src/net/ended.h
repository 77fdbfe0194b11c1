/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NET_ENDED_H
#define SHEAF_NET_ENDED_H

/* Tasks that have ended before they could tell anybody. Who started them knows, and notes it in the file that SHEAF_ENDED_FILE
 * names: a line each, "worker:1 ended with exit code 3". Nobody need wait for them. */

#include <sheaf/status.h>

/* How often who waits for a task looks. */
#define SHEAF__ENDED_PAUSE_MS 200

/* Whether there is such a file at all. */
bool sheaf__ended_is_known(void);
/* Whether the task is in it. `err` then says how it ended ("it ended with exit code 3"), status UNAVAILABLE. `*well` (may be
 * NULL): with exit code 0. */
bool sheaf__ended(const sheaf_task *task, bool *well, sheaf_error *err);

#endif
