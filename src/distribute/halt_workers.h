/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DISTRIBUTE_HALT_WORKERS_H
#define SHEAF_DISTRIBUTE_HALT_WORKERS_H

/* How workers that step together agree where to stop (base/halt.h). Whoever is asked tells worker 0; that one asks all how
 * many places they have passed, and says where they stop. Nobody waits: it is messages and their handlers. */

#include "base/halt.h"
#include "coll/team.h"

struct sheaf__halt_workers;

/* Before sheaf__net_start(). `context` is that of the strategy. */
sheaf_status sheaf__halt_workers_new(struct sheaf__net *net, sheaf_context *context,
                                     const struct sheaf__team_options *team,
                                     struct sheaf__halt_workers **workers, sheaf_error *err);
/* Borrowed. */
struct sheaf__halt *sheaf__halt_workers_halt(const struct sheaf__halt_workers *workers);
/* Before the net is freed: hears of nothing any more. NULL is nothing, here and below. */
void sheaf__halt_workers_leave(struct sheaf__halt_workers *workers);
/* After the net. */
void sheaf__halt_workers_free(struct sheaf__halt_workers *workers);

#endif
