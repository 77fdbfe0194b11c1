/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TEAM_H
#define SHEAF_TEAM_H

/** @file
 *  Collective calls between the workers of a job, for programs that move their own buffers.
 *
 *  Every member makes the same calls in the same order; a call that differs between members fails on all with
 *  SHEAF_ERR_TEAM_MISMATCH and says how. A lost member fails all calls with SHEAF_ERR_TEAM_LOST, naming it. One thread at a
 *  time. Deadlines in seconds, up to 1e9; 0: the strategy's. After a failure the bytes of a buffer that a call writes to are
 *  nothing in particular. */

#include <sheaf/strategy.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_team sheaf_team;

/** The team of all workers of a strategy, on a channel of its own; a team of one for a strategy without peers. Freed before
 *  the strategy. */
SHEAF_CHECKED sheaf_status sheaf_team_new(sheaf_strategy *s, sheaf_team **team, sheaf_error *err);
SHEAF_API void sheaf_team_free(sheaf_team *team);
SHEAF_API int sheaf_team_rank(const sheaf_team *team);
SHEAF_API int sheaf_team_size(const sheaf_team *team);

/** Sum (or mean) of `count` elements in place, the same bits on every member. float32, float64, bfloat16, int32, int64. */
SHEAF_CHECKED sheaf_status sheaf_team_all_reduce(sheaf_team *team, sheaf_reduce_op op,
                                                 sheaf_dtype dtype, void *data, size_t count,
                                                 double deadline, sheaf_error *err);
/** `bytes` bytes of member `root` to all. */
SHEAF_CHECKED sheaf_status sheaf_team_broadcast(sheaf_team *team, int root, void *data,
                                                size_t bytes, double deadline, sheaf_error *err);
/** Bytes of every member one after the other in rank order: `counts[i]` bytes of member i into `all`. */
SHEAF_CHECKED sheaf_status sheaf_team_all_gather(sheaf_team *team, const void *data,
                                                 const size_t *counts, void *all, double deadline,
                                                 sheaf_error *err);
/** Returns when every member has called it. */
SHEAF_CHECKED sheaf_status sheaf_team_barrier(sheaf_team *team, double deadline, sheaf_error *err);

SHEAF_END_DECLS

#endif
