/* SPDX-License-Identifier: Apache-2.0 */

/* sheaf_team: collective calls of a program, on a channel of their own between a strategy's
 * workers. */

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "distribute/strategy.h"
#include "distribute/sync.h"

#include <sheaf/team.h>

#include <string.h>

struct sheaf_team {
    sheaf_strategy *strategy;  /* counted */
    struct sheaf__team *alone; /* where the strategy has none */
    struct sheaf__channel *channel;
};

sheaf_status sheaf_team_new(sheaf_strategy *s, sheaf_team **team, sheaf_error *err)
{
    s = sheaf__strategy_or_current(s);
    sheaf_team *t = sheaf__calloc(1, sizeof(*t));
    if (!t)
        return sheaf__no_memory(err, "a team");
    t->strategy = s == sheaf__strategy_default() ? s : sheaf__ref(s);
    sheaf_status status = SHEAF_OK;
    if (!s->sync) {
        const struct sheaf__team_options one = {.size = 1};
        const struct sheaf__wait wait = {.deadline = sheaf__clock_default_deadline(),
                                         .what = "a team"};
        status = sheaf__team_new(&one, &wait, &t->alone, err);
    }
    if (status >= 0)
        status = sheaf__channel_open(s->sync ? s->sync->team : t->alone, SHEAF__CHANNEL_USER, 1,
                                     &t->channel, err);
    if (status < 0) {
        sheaf_team_free(t);
        return status;
    }
    *team = t;
    return SHEAF_OK;
}

void sheaf_team_free(sheaf_team *team)
{
    if (!team)
        return;
    sheaf__channel_free(team->channel);
    sheaf__team_free(team->alone);
    sheaf_strategy_free(team->strategy);
    sheaf__free(team);
}

int sheaf_team_rank(const sheaf_team *team)
{
    return team ? team->strategy->worker_id : -1;
}

int sheaf_team_size(const sheaf_team *team)
{
    return team ? team->strategy->workers : 0;
}

static sheaf_status check(const sheaf_team *team, const char *what, bool has_data, sheaf_error *err)
{
    if (team && has_data)
        return SHEAF_OK;
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "%s: the %s is NULL", what,
                        team ? "data" : "team");
}

/* Of a call that `wait` names. */
static sheaf_status set_deadline(const sheaf_team *team, double deadline, struct sheaf__wait *wait,
                                 sheaf_error *err)
{
    SHEAF__TRY(sheaf__clock_check(deadline, wait->what, err));
    wait->deadline = deadline > 0 ? sheaf__clock_deadline(deadline)
                                  : sheaf__clock_after(team->strategy->deadline_ns);
    return SHEAF_OK;
}

sheaf_status sheaf_team_all_reduce(sheaf_team *team, sheaf_reduce_op op, sheaf_dtype dtype,
                                   void *data, size_t count, double deadline, sheaf_error *err)
{
    SHEAF__TRY(check(team, "all_reduce", data || !count, err));
    struct sheaf__wait wait = {.what = "all_reduce"};
    SHEAF__TRY(set_deadline(team, deadline, &wait, err));
    const struct sheaf__reduction reduction = {
        .op = op, .dtype = dtype, .count = count, .in = data, .out = data};
    return sheaf__channel_all_reduce(team->channel, 0, &reduction, &wait, err);
}

sheaf_status sheaf_team_broadcast(sheaf_team *team, int root, void *data, size_t bytes,
                                  double deadline, sheaf_error *err)
{
    SHEAF__TRY(check(team, "broadcast", data || !bytes, err));
    struct sheaf__wait wait = {.what = "broadcast"};
    SHEAF__TRY(set_deadline(team, deadline, &wait, err));
    return sheaf__channel_broadcast(team->channel, 0, root, data, bytes, &wait, err);
}

sheaf_status sheaf_team_all_gather(sheaf_team *team, const void *data, const size_t *counts,
                                   void *all, double deadline, sheaf_error *err)
{
    SHEAF__TRY(check(team, "all_gather", counts != NULL, err));
    SHEAF__TRY(check(team, "all_gather", all && (data || !counts[team->strategy->worker_id]), err));
    struct sheaf__wait wait = {.what = "all_gather"};
    SHEAF__TRY(set_deadline(team, deadline, &wait, err));
    return sheaf__channel_all_gather(team->channel, 0, data, counts, all, &wait, err);
}

sheaf_status sheaf_team_barrier(sheaf_team *team, double deadline, sheaf_error *err)
{
    SHEAF__TRY(check(team, "barrier", true, err));
    struct sheaf__wait wait = {.what = "barrier"};
    SHEAF__TRY(set_deadline(team, deadline, &wait, err));
    return sheaf__channel_barrier(team->channel, 0, &wait, err);
}
