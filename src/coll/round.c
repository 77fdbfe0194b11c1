/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds: where members are among their steps. A call from one place fits no call from another. Who has gone on without a
 * call that another member is in says so, at whichever comes last: its own going on, or the other's call. In shared memory
 * the other sees it as well (shm.c). */
#include "base/error.h"
#include "coll/core.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- in words ---- */

const char *sheaf__round_text(const struct sheaf__core *core, uint64_t when, char text[48])
{
    const char *noun = core->noun ? core->noun : "round";
    const char *where = when == 0 ? "before" : when % 2 ? "in" : "after";
    snprintf(text, 48, " %s %s %" PRIu64, where, noun, when == 0 ? 1 : (when + 1) / 2);
    return text;
}

sheaf_status sheaf__round_left_out(const struct sheaf__core *core, int rank,
                                   const struct sheaf__coll_what *what, int beyond, uint64_t when,
                                   sheaf_error *err)
{
    const struct sheaf__team *team = core->team;
    const sheaf_task *a = &team->members[rank].task, *b = &team->members[beyond].task;
    const sheaf_task *other = rank == team->rank ? b : a;
    char call[112], here[48], there[48];
    sheaf__coll_describe(what, call, sizeof(call));
    sheaf__error(err, SHEAF_ERR_TEAM_MISMATCH,
                 SHEAF__TASK " is in %s%s, " SHEAF__TASK " is%s without it", a->job, a->index, call,
                 sheaf__round_text(core, what->when, here), b->job, b->index,
                 sheaf__round_text(core, when, there));
    sheaf__error_set_peer(err, other->job, other->index);
    return SHEAF_ERR_TEAM_MISMATCH;
}

/* ---- looking ---- */

bool sheaf__round_has_left_out(const struct sheaf__core *core, const struct sheaf__coll_head *head,
                               sheaf_error *err)
{
    if (head->epoch != core->epoch || head->seq < core->seq || head->u.what.when >= core->when)
        return false;
    sheaf__round_left_out(core, head->rank, &head->u.what, core->team->rank, core->when, err);
    return true;
}

/* Among the calls that came. With team->lock. */
static sheaf_status find_left_out(struct sheaf__core *core, sheaf_error *err)
{
    struct sheaf__list_node *node;
    for (node = sheaf__list_first(&core->arrivals); node;
         node = sheaf__list_next(&core->arrivals, node)) {
        const struct sheaf__arrival *a = SHEAF__CONTAINER(node, struct sheaf__arrival, node);
        if (sheaf__round_has_left_out(core, a->head, err))
            return SHEAF_ERR_TEAM_MISMATCH;
    }
    return SHEAF_OK;
}

/* ---- going on ---- */

static sheaf_status go_on(struct sheaf__channel *c, sheaf_error *err)
{
    struct sheaf__core *core = c->core;
    sheaf_error error = {0};
    sheaf__mutex_lock(&c->team->lock);
    /* What a member has aborted after the round concerns the calls after it. */
    sheaf_status failed = sheaf__core_check_until(core, core->seq, core->when, err);
    sheaf_status status = SHEAF_OK;
    if (failed == SHEAF_OK) {
        core->when++;
        status = find_left_out(core, &error);
    }
    sheaf__mutex_unlock(&c->team->lock);
    if (failed < 0)
        return failed;
    if (status == SHEAF_OK && c->team->shm)
        status = sheaf__shm_go_on(c, &error);
    if (status == SHEAF_OK)
        return SHEAF_OK;
    sheaf__core_fail(core, &error);
    return sheaf__error_copy(err, &error);
}

sheaf_status sheaf__channel_begin_round(struct sheaf__channel *channel, sheaf_error *err)
{
    return go_on(channel, err);
}

sheaf_status sheaf__channel_end_round(struct sheaf__channel *channel, sheaf_error *err)
{
    return go_on(channel, err);
}

void sheaf__channel_name_rounds(struct sheaf__channel *channel, const char *noun)
{
    sheaf__mutex_lock(&channel->team->lock);
    channel->core->noun = noun;
    sheaf__mutex_unlock(&channel->team->lock);
}
