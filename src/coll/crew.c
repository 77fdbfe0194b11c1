/* SPDX-License-Identifier: Apache-2.0 */
/* How the local replicas of a channel make one call: each brings its arguments, the last to come leads, the others wait,
 * help with the leader's loops, and go on with its result. */
#include "base/error.h"
#include "coll/core.h"

#include <stdio.h>
#include <string.h>

/* ---- loops ---- */

static void run_loop(struct sheaf__channel *c)
{
    size_t i;
    while ((i = atomic_fetch_add(&c->loop_next, 1)) < c->loop_end)
        c->loop(i, c->loop_user);
}

/* Takes part in the leader's loop, if there is one. With the lock, which is released meanwhile. */
static void help(struct sheaf__channel *c)
{
    if (!atomic_load(&c->loop_open) || atomic_load(&c->loop_next) >= c->loop_end)
        return;
    atomic_fetch_add(&c->loop_helpers, 1);
    sheaf__mutex_unlock(&c->lock);
    run_loop(c);
    sheaf__mutex_lock(&c->lock);
    if (atomic_fetch_sub(&c->loop_helpers, 1) == 1)
        sheaf__cond_signal(&c->loop_left);
}

void sheaf__crew_loop(struct sheaf__channel *c, size_t n, void (*fn)(size_t i, void *user),
                      void *user)
{
    if (c->local == 1 || n == 1) {
        for (size_t i = 0; i < n; i++)
            fn(i, user);
        return;
    }
    sheaf__mutex_lock(&c->lock);
    c->loop = fn;
    c->loop_user = user;
    c->loop_end = n;
    atomic_store(&c->loop_next, 0);
    atomic_store(&c->loop_open, true);
    sheaf__cond_broadcast(&c->cond);
    sheaf__mutex_unlock(&c->lock);
    run_loop(c);
    /* Who is inside has taken its last part. */
    struct sheaf__spin spin = sheaf__spin_for(c->spin);
    while (atomic_load(&c->loop_helpers) > 0 && sheaf__spin_again(&spin))
        ;
    sheaf__mutex_lock(&c->lock);
    atomic_store(&c->loop_open, false);
    while (atomic_load(&c->loop_helpers) > 0)
        sheaf__cond_wait_until(&c->loop_left, &c->lock, SHEAF__NO_DEADLINE, SHEAF__NO_TOKEN, NULL);
    sheaf__mutex_unlock(&c->lock);
}

/* ---- acting ---- */

static sheaf_status compare(struct sheaf__channel *c, struct sheaf__coll_args *const *args,
                            sheaf_error *err)
{
    char first[32], other[32];
    int base = c->layout->replica[c->team->rank];
    for (int i = 1; i < c->local; i++) {
        struct sheaf__coll_what a = args[0]->what, b = args[i]->what;
        a.own = b.own = 0;
        if (memcmp(&a, &b, sizeof(a)) == 0)
            continue;
        snprintf(first, sizeof(first), "replica %d", base);
        snprintf(other, sizeof(other), "replica %d", base + i);
        return sheaf__coll_mismatch(c->core, first, &a, other, &b, err);
    }
    return SHEAF_OK;
}

/* Members of a larger team are checked when they meet. */
static sheaf_status check_alone(struct sheaf__channel *c, sheaf_error *err)
{
    sheaf__mutex_lock(&c->team->lock);
    sheaf_status status = sheaf__core_check(c->core, c->core->seq, err);
    sheaf__mutex_unlock(&c->team->lock);
    return status;
}

/* Says where the call is made. */
static void stamp(const struct sheaf__channel *c, struct sheaf__coll_args *const *args)
{
    for (int i = 0; i < c->local; i++) {
        args[i]->what.by_process = c->by_process;
        args[i]->what.when = c->core->when;
    }
}

static sheaf_status act(struct sheaf__channel *c, struct sheaf__coll_args **args,
                        const struct sheaf__wait *wait, sheaf_error *e)
{
    sheaf_status status = c->team->size == 1 ? check_alone(c, e) : SHEAF_OK;
    stamp(c, args);
    if (status == SHEAF_OK)
        status = compare(c, args, e);
    if (status == SHEAF_OK)
        status = sheaf__coll_acts[args[0]->what.kind](c, args, wait, e);
    if (status < 0)
        sheaf__core_fail(c->core, e);
    atomic_store_explicit(&c->core->calling, false, memory_order_relaxed);
    return status;
}

/* Members answer each other one call after the other; a member alone may act for several at once. */
sheaf_status sheaf__crew_act(struct sheaf__channel *c, struct sheaf__coll_args **args,
                             const struct sheaf__wait *wait, sheaf_error *err)
{
    sheaf_error local = {0};
    char call[112];
    if (c->team->size == 1)
        return act(c, args, wait, err ? err : &local);
    SHEAF__TRY(sheaf__core_enter(c->core, err));
    sheaf_status status = act(c, args, wait, err ? err : &local);
    sheaf__core_leave(c->core);
    if (status == SHEAF_ERR_TEAM_LOST) {
        sheaf__coll_describe(&args[0]->what, call, sizeof(call));
        sheaf__error_prefix(err, "%s", call);
    }
    return status;
}

static sheaf_status lead(struct sheaf__channel *c, const struct sheaf__wait *wait, sheaf_error *err)
{
    sheaf_error error = {0};
    sheaf_status status = sheaf__crew_act(c, c->args, wait, &error);
    sheaf__mutex_lock(&c->lock);
    if (status < 0)
        c->result = error;
    else
        c->result.status = SHEAF_OK;
    memset(c->args, 0, (size_t)c->local * sizeof(*c->args));
    c->arrived = 0;
    c->led = false;
    atomic_fetch_add(&c->round, 1);
    if (c->local > 1)
        sheaf__cond_broadcast(&c->cond);
    sheaf__mutex_unlock(&c->lock);
    return status < 0 ? sheaf__error_copy(err, &error) : SHEAF_OK;
}

/* ---- waiting for the others ---- */

/* Before it sleeps, a follower looks for a while without the lock. */
static void spin_for_news(struct sheaf__channel *c, uint64_t round)
{
    struct sheaf__spin spin = sheaf__spin_for(c->spin);
    while (atomic_load_explicit(&c->round, memory_order_acquire) == round &&
           !atomic_load_explicit(&c->loop_open, memory_order_acquire) && sheaf__spin_again(&spin))
        ;
}

/* Why the channel has failed. */
static sheaf_status cause_of(struct sheaf__channel *c, sheaf_error *err)
{
    sheaf__mutex_lock(&c->team->lock);
    sheaf_status status = sheaf__core_check(c->core, c->core->seq, err);
    sheaf__mutex_unlock(&c->team->lock);
    return status < 0 ? status
                      : sheaf__error(err, SHEAF_ERR_ABORTED, "the call was given up by a replica");
}

sheaf_status sheaf__channel_stopped(struct sheaf__channel *c, sheaf_error *err)
{
    sheaf__mutex_lock(&c->lock);
    bool stopped = c->stopped;
    sheaf__mutex_unlock(&c->lock);
    return stopped ? cause_of(c, err) : SHEAF_OK;
}

/* Waits for the end of the round, with the lock. A failure: given up before anybody led. */
static sheaf_status follow(struct sheaf__channel *c, uint64_t round, const struct sheaf__wait *wait,
                           sheaf_error *err)
{
    struct sheaf__wait w = *wait;
    while (atomic_load(&c->round) == round) {
        sheaf_error error;
        help(c);
        if (atomic_load(&c->round) != round)
            break;
        if (c->stopped && !c->led)
            return cause_of(c, err);
        sheaf_status status = sheaf__cond_wait(&c->cond, &c->lock, &w, &error);
        if (status == SHEAF_OK || atomic_load(&c->round) != round)
            continue;
        bool led = c->led;
        sheaf__mutex_unlock(&c->lock);
        if (!led)
            sheaf__error_prefix(&error, "waiting for the other replicas");
        sheaf__core_fail(c->core, &error);
        sheaf__mutex_lock(&c->lock);
        c->stopped = true;
        sheaf__cond_broadcast(&c->cond);
        if (!c->led && atomic_load(&c->round) == round)
            return sheaf__error_copy(err, &error);
        /* The leader may be using our memory: it comes back at once, now that the channel has failed. */
        w.deadline = SHEAF__NO_DEADLINE;
        w.token = SHEAF__NO_TOKEN;
    }
    return SHEAF_OK;
}

sheaf_status sheaf__crew_call(struct sheaf__channel *c, int local, struct sheaf__coll_args *args,
                              const struct sheaf__wait *wait, sheaf_error *err)
{
    if (local < 0 || local >= c->local)
        return sheaf__error(err, SHEAF_ERR_INTERNAL, "replica %d of %d calls", local, c->local);
    SHEAF__TRY(sheaf__jobs_drain(c, wait, err));
    sheaf__mutex_lock(&c->lock);
    if (c->args[local] || c->stopped) {
        bool twice = c->args[local] != NULL;
        sheaf__mutex_unlock(&c->lock);
        return twice ? sheaf__error(err, SHEAF_ERR_INTERNAL, "replica %d calls twice", local)
                     : cause_of(c, err);
    }
    c->args[local] = args;
    uint64_t round = atomic_load(&c->round);
    if (++c->arrived == c->local) {
        c->led = true;
        sheaf__mutex_unlock(&c->lock);
        return lead(c, wait, err);
    }
    sheaf__mutex_unlock(&c->lock);
    spin_for_news(c, round);
    sheaf__mutex_lock(&c->lock);
    sheaf_status status = follow(c, round, wait, err);
    if (status < 0) {
        c->args[local] = NULL;
        c->arrived--;
    } else if (c->result.status < 0) {
        status = sheaf__error_copy(err, &c->result);
    }
    sheaf__mutex_unlock(&c->lock);
    return status;
}
