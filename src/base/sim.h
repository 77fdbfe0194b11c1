/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_SIM_H
#define SHEAF_BASE_SIM_H

/* A simulated scheduler: real threads, of which one runs at a time. At every blocking point (lock,
 * unlock, park, wake, thread start, sheaf__thread_point) the seeded generator picks who goes on.
 * Time is virtual and moves only when nobody can run, then to the earliest deadline. The same seed
 * gives the same run. */

#include "base/thread.h"

struct sheaf__sim_result {
    uint64_t switches;
    int64_t virtual_ns;  /* how far time moved */
    uint64_t trace_hash; /* of all choices: equal for equal runs */
    bool deadlock;       /* all threads slept without deadline */
    char report[512];    /* then: who slept where */
};

/* Runs fn(user) and the threads it starts until all have ended. After a deadlock the threads are
 * ended where they are (what they own leaks) and SHEAF_ERR_ABORTED is returned with the report as
 * message. The caller may be any thread of the system's scheduler. `result` may be NULL. */
sheaf_status sheaf__sim_run(uint64_t seed, sheaf__thread_fn fn, void *user,
                            struct sheaf__sim_result *result, sheaf_error *err);

#endif
