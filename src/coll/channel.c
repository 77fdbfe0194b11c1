/* SPDX-License-Identifier: Apache-2.0 */
/* Channels: opening, failing, starting anew, and the calls as they are seen from outside. */
#include "base/config.h"
#include "base/error.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/trace.h"
#include "coll/core.h"

#include <string.h>

const sheaf__coll_act sheaf__coll_acts[SHEAF__COLL_KINDS] = {
    [SHEAF__COLL_ALL_REDUCE] = sheaf__coll_reduce,
    [SHEAF__COLL_REDUCE_SCATTER] = sheaf__coll_reduce,
    [SHEAF__COLL_BROADCAST] = sheaf__coll_broadcast,
    [SHEAF__COLL_ALL_GATHER] = sheaf__coll_all_gather,
    [SHEAF__COLL_GATHER_BYTES] = sheaf__coll_gather_bytes,
    [SHEAF__COLL_BARRIER] = sheaf__coll_barrier,
};

/* ---- life ---- */

static sheaf_status take_core(struct sheaf__team *team, int number, struct sheaf__channel *c,
                              sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&team->lock);
    c->core = sheaf__core_get(team, number);
    if (!c->core)
        status = sheaf__no_memory(err, "a channel");
    else if (c->core->channels[c->by_process])
        status = sheaf__error(err, SHEAF_ERR_INTERNAL, "channel %d is open already", number);
    else
        c->core->channels[c->by_process] = c;
    sheaf__mutex_unlock(&team->lock);
    return status;
}

sheaf_status sheaf__channel_open(struct sheaf__team *team, int number, int local,
                                 struct sheaf__channel **channel, sheaf_error *err)
{
    if (number < 0 || number >= SHEAF__CHANNELS || local < 0 || local > 1)
        return sheaf__error(err, SHEAF_ERR_INTERNAL, "channel %d for %d replicas", number, local);
    struct sheaf__channel *c = sheaf__calloc(1, sizeof(*c));
    if (!c)
        return sheaf__no_memory(err, "a channel");
    c->team = team;
    c->by_process = local == 1;
    c->local = local ? 1 : team->local;
    c->spin = sheaf__config_int(SHEAF__CONFIG_SPIN_US) * SHEAF__US;
    c->layout = local ? &team->by_rank : &team->by_replica;
    c->args = sheaf__calloc((size_t)c->local, sizeof(struct sheaf__coll_args *));
    sheaf_status status =
        c->args ? take_core(team, number, c, err) : sheaf__no_memory(err, "a channel");
    if (status < 0) {
        sheaf__free(c->args);
        sheaf__free(c);
        return status;
    }
    *channel = c;
    return SHEAF_OK;
}

void sheaf__channel_free(struct sheaf__channel *channel)
{
    if (!channel)
        return;
    sheaf__jobs_free(channel);
    sheaf__ahead_free(channel);
    sheaf__mutex_lock(&channel->team->lock);
    channel->core->channels[channel->by_process] = NULL;
    sheaf__mutex_unlock(&channel->team->lock);
    sheaf__free(channel->args);
    sheaf__free(channel);
}

static void stop(struct sheaf__channel *channel, bool stopped)
{
    sheaf__mutex_lock(&channel->lock);
    channel->stopped = stopped;
    if (stopped)
        sheaf__cond_broadcast(&channel->cond);
    sheaf__mutex_unlock(&channel->lock);
    if (stopped)
        sheaf__jobs_wake(channel);
}

void sheaf__channel_abort(struct sheaf__channel *channel, const sheaf_error *cause)
{
    struct sheaf__core *core = channel->core;
    sheaf__core_fail(core, cause);
    for (int i = 0; i < 2; i++)
        if (core->channels[i])
            stop(core->channels[i], true);
}

/* Those of epochs that are over. */
static void forget_aborts(struct sheaf__core *core)
{
    size_t kept = 0;
    for (size_t i = 0; i < core->abort_count; i++)
        if (core->aborts[i].epoch >= core->epoch)
            core->aborts[kept++] = core->aborts[i];
    core->abort_count = kept;
}

void sheaf__channel_reset(struct sheaf__channel *channel)
{
    struct sheaf__core *core = channel->core;
    if (core->channels[1])
        sheaf__ahead_drop(core->channels[1]);
    sheaf__mutex_lock(&channel->team->lock);
    if (sheaf__core_check_failure(core, core->seq, NULL) < 0) {
        core->failure.status = SHEAF_OK;
        core->epoch++;
        core->seq = 0;
        core->when = 0;
        forget_aborts(core);
    }
    sheaf__mutex_unlock(&channel->team->lock);
    for (int i = 0; i < 2; i++)
        if (core->channels[i])
            stop(core->channels[i], false);
}

/* ---- calls ---- */

sheaf_status sheaf__coll_check_reduction(const struct sheaf__reduction *r, sheaf_error *err)
{
    if (r->op != SHEAF_REDUCE_SUM && r->op != SHEAF_REDUCE_MEAN)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "unknown reduce op %d", (int)r->op);
    if (!sheaf__sum_can(r->dtype))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "cannot reduce %s; expected float32, float64, bfloat16, int32 or int64",
                            sheaf_dtype_name(r->dtype));
    if (r->count > SIZE_MAX / 16)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "cannot reduce %zu elements",
                            r->count);
    return SHEAF_OK;
}

/* May be NULL. */
static void set_name(struct sheaf__coll_args *args, const char *name)
{
    if (name)
        sheaf__str_copy(args->what.name, sizeof(args->what.name), name);
}

void sheaf__coll_reduction_args(enum sheaf__coll_kind kind, const struct sheaf__reduction *r,
                                struct sheaf__coll_args *args)
{
    memset(args, 0, sizeof(*args));
    args->what.kind = (uint8_t)kind;
    args->what.op = (uint8_t)r->op;
    args->what.dtype = (uint8_t)r->dtype;
    args->what.count = r->count;
    set_name(args, r->name);
    args->in = r->in;
    args->out = r->out;
}

static sheaf_status reduce(struct sheaf__channel *channel, enum sheaf__coll_kind kind, int local,
                           const struct sheaf__reduction *reduction, const struct sheaf__wait *wait,
                           sheaf_error *err)
{
    SHEAF__TRACE("reduce");
    struct sheaf__coll_args args;
    SHEAF__TRY(sheaf__coll_check_reduction(reduction, err));
    sheaf__coll_reduction_args(kind, reduction, &args);
    return sheaf__crew_call(channel, local, &args, wait, err);
}

sheaf_status sheaf__channel_all_reduce(struct sheaf__channel *channel, int local,
                                       const struct sheaf__reduction *reduction,
                                       const struct sheaf__wait *wait, sheaf_error *err)
{
    return reduce(channel, SHEAF__COLL_ALL_REDUCE, local, reduction, wait, err);
}

sheaf_status sheaf__channel_reduce_scatter(struct sheaf__channel *channel, int local,
                                           const struct sheaf__reduction *reduction,
                                           const struct sheaf__wait *wait, sheaf_error *err)
{
    return reduce(channel, SHEAF__COLL_REDUCE_SCATTER, local, reduction, wait, err);
}

sheaf_status sheaf__channel_broadcast(struct sheaf__channel *channel, int local, int root,
                                      void *data, size_t bytes, const struct sheaf__wait *wait,
                                      sheaf_error *err)
{
    struct sheaf__coll_args args = {
        .what = {.kind = SHEAF__COLL_BROADCAST, .root = root, .count = bytes},
        .in = data,
        .out = data,
    };
    set_name(&args, wait->what);
    if (root < 0 || root >= channel->layout->total)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "broadcast from %d, expected 0 to %d",
                            root, channel->layout->total - 1);
    return sheaf__crew_call(channel, local, &args, wait, err);
}

sheaf_status sheaf__channel_all_gather(struct sheaf__channel *channel, int local, const void *data,
                                       const size_t *sizes, void *all,
                                       const struct sheaf__wait *wait, sheaf_error *err)
{
    int total = channel->layout->total;
    struct sheaf__coll_args args = {
        .what = {.kind = SHEAF__COLL_ALL_GATHER},
        .in = data,
        .out = all,
        .sizes = sizes,
    };
    set_name(&args, wait->what);
    for (int i = 0; i < total; i++)
        args.what.count += sizes[i];
    args.what.check = sheaf__hash(sizes, (size_t)total * sizeof(*sizes));
    return sheaf__crew_call(channel, local, &args, wait, err);
}

sheaf_status sheaf__channel_gather_bytes(struct sheaf__channel *channel, int local,
                                         struct sheaf__bytes mine, size_t *sizes, void **all,
                                         const struct sheaf__wait *wait, sheaf_error *err)
{
    void *result = NULL;
    struct sheaf__coll_args args = {
        .what = {.kind = SHEAF__COLL_GATHER_BYTES, .own = mine.size},
        .in = mine.data,
        .sizes_out = sizes,
        .all_out = &result,
    };
    set_name(&args, wait->what);
    SHEAF__TRY(sheaf__crew_call(channel, local, &args, wait, err));
    *all = result;
    return SHEAF_OK;
}

sheaf_status sheaf__channel_barrier(struct sheaf__channel *channel, int local,
                                    const struct sheaf__wait *wait, sheaf_error *err)
{
    struct sheaf__coll_args args = {.what = {.kind = SHEAF__COLL_BARRIER}};
    set_name(&args, wait->what);
    return sheaf__crew_call(channel, local, &args, wait, err);
}
