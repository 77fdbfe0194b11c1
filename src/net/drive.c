/* SPDX-License-Identifier: Apache-2.0 */
/* Who drives a net, what is done in a round, and who sleeps until something comes. */
#include "net/state.h"

#define DRIVE_MOST (10 * SHEAF__MS)

/* ---- who drives ---- */

bool sheaf__drive_is_mine(struct sheaf__net *net)
{
    return atomic_load_explicit(&net->driver, memory_order_relaxed) == sheaf__thread_id();
}

static void drive_enter(struct sheaf__net *net)
{
    atomic_fetch_add(&net->gate_waiters, 1);
    sheaf__mutex_lock(&net->gate);
    sheaf__mutex_lock(&net->drive);
    sheaf__mutex_unlock(&net->gate);
    atomic_fetch_sub(&net->gate_waiters, 1);
    atomic_store_explicit(&net->driver, sheaf__thread_id(), memory_order_relaxed);
}

static bool drive_try(struct sheaf__net *net)
{
    if (atomic_load(&net->gate_waiters) > 0 || !sheaf__mutex_trylock(&net->drive))
        return false;
    atomic_store_explicit(&net->driver, sheaf__thread_id(), memory_order_relaxed);
    return true;
}

static void drive_leave(struct sheaf__net *net)
{
    atomic_store_explicit(&net->driver, 0, memory_order_relaxed);
    sheaf__mutex_unlock(&net->drive);
}

struct sheaf__drive sheaf__drive_lock(struct sheaf__net *net)
{
    struct sheaf__drive drive = {.nested = sheaf__drive_is_mine(net)};
    if (!drive.nested)
        drive_enter(net);
    return drive;
}

void sheaf__drive_unlock(struct sheaf__net *net, struct sheaf__drive drive)
{
    if (!drive.nested)
        drive_leave(net);
}

/* ---- rounds ---- */

void sheaf__drive_free_dead(struct sheaf__net *net)
{
    struct sheaf__list_node *node;
    while ((node = sheaf__list_pop(&net->dead_conns)))
        sheaf__conn_free(SHEAF__CONTAINER(node, struct sheaf__conn, node));
    while ((node = sheaf__list_pop(&net->dead_peers)))
        sheaf__peer_unref(SHEAF__CONTAINER(node, struct sheaf__peer, node));
}

/* Moves what can be moved. `sockets`: look at the descriptors, too. */
static bool round_once(struct sheaf__net *net, bool sockets)
{
    struct sheaf__list_node *node, *next;
    bool worked = sockets && sheaf__poller_dispatch(net->poller);
    for (node = sheaf__list_first(&net->peers); node; node = next) {
        next = sheaf__list_next(&net->peers, node);
        worked |= sheaf__peer_progress(SHEAF__CONTAINER(node, struct sheaf__peer, node));
    }
    worked |= sheaf__conn_progress_all(net);
    sheaf__drive_free_dead(net);
    return worked;
}

static void disarm_all(struct sheaf__net *net)
{
    struct sheaf__list_node *node;
    for (node = sheaf__list_first(&net->peers); node; node = sheaf__list_next(&net->peers, node))
        sheaf__peer_disarm(SHEAF__CONTAINER(node, struct sheaf__peer, node));
}

/* Before the keeper sleeps, or goes on sleeping: false if there is something to do. */
static bool arm_all(struct sheaf__net *net)
{
    struct sheaf__list_node *node;
    bool quiet = true;
    for (node = sheaf__list_first(&net->peers); node; node = sheaf__list_next(&net->peers, node))
        quiet &= sheaf__peer_arm(SHEAF__CONTAINER(node, struct sheaf__peer, node));
    return quiet & sheaf__conn_arm_all(net);
}

static void run_timers(struct sheaf__net *net)
{
    int64_t now = sheaf__clock_now();
    struct sheaf__list_node *node, *next;
    if (now < net->next_timer)
        return;
    /* Who was not run for long itself (stopped, swapped out) has not heard the others for that
     * reason. */
    bool stalled = now - net->next_timer > net->heartbeat;
    net->next_timer = now + net->heartbeat / 2;
    for (node = sheaf__list_first(&net->peers); node; node = next) {
        next = sheaf__list_next(&net->peers, node);
        sheaf__peer_timers(SHEAF__CONTAINER(node, struct sheaf__peer, node), now, stalled);
    }
    sheaf__conn_timers(net, now);
    sheaf__accept_timer(net);
    sheaf__drive_free_dead(net);
}

/* ---- the keeper ---- */

/* The keeper takes the drive. A waiter who drives the sockets, too, is not asked to leave: the keeper was woken by what
 * that one is reading. */
static void keeper_enter(struct sheaf__net *net)
{
    if (atomic_load(&net->drives_sockets) && sheaf__clock_now() < atomic_load(&net->next_timer)) {
        sheaf__mutex_lock(&net->drive);
        atomic_store_explicit(&net->driver, sheaf__thread_id(), memory_order_relaxed);
    } else {
        drive_enter(net);
    }
    if (net->keeper_sleeps)
        disarm_all(net);
    net->keeper_sleeps = false;
}

void sheaf__drive_keep(void *user)
{
    struct sheaf__net *net = user;
    struct sheaf__spin spin = sheaf__spin_for(0);
    struct sheaf__runs runs = sheaf__runs_from_now();
    bool spun = false;
    while (!atomic_load(&net->stop)) {
        keeper_enter(net);
        bool worked = round_once(net, true);
        run_timers(net);
        sheaf__runs_look(&runs, worked);
        if (worked) {
            if (spun)
                sheaf__patience_learn(&net->keeping, !runs.broken);
            spin = sheaf__spin_for(sheaf__patience_spin(&net->keeping, net->spin));
            spun = spin.end != 0;
            runs = sheaf__runs_from_now();
        }
        if (worked || sheaf__spin_again(&spin)) {
            drive_leave(net);
            sheaf__thread_point();
            continue;
        }
        if (spun)
            sheaf__patience_learn(&net->keeping, false);
        spun = false;
        bool sleep = arm_all(net);
        int64_t until = atomic_load(&net->next_timer);
        net->keeper_sleeps = sleep;
        drive_leave(net);
        if (!sleep)
            continue;
        sheaf__poller_sleep(net->poller, until);
    }
}

/* Signs of life come from a thread of their own, which needs no drive: whatever a driver, the keeper included, is at in a
 * handler, the others hear that this task lives. */
void sheaf__drive_beat(void *user)
{
    struct sheaf__net *net = user;
    struct sheaf__list_node *node;
    sheaf__mutex_lock(&net->lock);
    while (!atomic_load(&net->stop)) {
        for (node = sheaf__list_first(&net->peers); node;
             node = sheaf__list_next(&net->peers, node))
            sheaf__peer_beat(SHEAF__CONTAINER(node, struct sheaf__peer, node));
        sheaf__cond_wait_until(&net->stopped, &net->lock, sheaf__clock_after(net->heartbeat / 2),
                               SHEAF__NO_TOKEN, NULL);
    }
    sheaf__mutex_unlock(&net->lock);
}

void sheaf__net_kick(struct sheaf__net *net)
{
    if (!sheaf__drive_is_mine(net))
        sheaf__poller_kick(net->poller);
}

/* ---- waiting ---- */

/* As the driver, until ready or quiet for as long as it pays to spin. However much comes, the waiter looks at its deadline
 * and token now and then. */
static void drive_until(struct sheaf__net *net, int64_t patience, bool (*ready)(void *user),
                        void *user, struct sheaf__runs *runs)
{
    enum { LAST_ROUNDS = 4, LOOK_AT_CLOCK = 64 };
    int64_t end = sheaf__clock_after(DRIVE_MOST);
    unsigned rounds = 0;
    struct sheaf__spin spin = sheaf__spin_for(patience);
    bool sockets = net->sockets_with_data > 0;
    if (net->keeper_sleeps)
        disarm_all(net);
    atomic_store(&net->drives_sockets, sockets);
    do {
        bool worked = round_once(net, sockets);
        if (worked)
            spin = sheaf__spin_for(patience);
        sheaf__runs_look(runs, worked);
        if (++rounds % LOOK_AT_CLOCK == 0 && sheaf__clock_left(end) == 0)
            break;
    } while (!ready(user) && sheaf__spin_again(&spin) && atomic_load(&net->gate_waiters) == 0);
    atomic_store(&net->drives_sockets, false);
    if (!net->keeper_sleeps)
        return;
    /* The keeper goes on sleeping: what comes from now on must wake it. */
    for (int i = 0; i < LAST_ROUNDS; i++) {
        if (arm_all(net))
            return;
        round_once(net, sockets);
    }
    sheaf__poller_kick(net->poller);
}

void sheaf__net_spin(struct sheaf__net *net, bool (*ready)(void *user), void *user)
{
    if (ready(user))
        return;
    int64_t patience = sheaf__patience_spin(&net->waiters, net->spin);
    struct sheaf__spin spin = sheaf__spin_for(patience);
    struct sheaf__runs runs = sheaf__runs_from_now();
    bool there = false;
    do {
        bool drove = drive_try(net);
        if (drove) {
            drive_until(net, patience, ready, user, &runs);
            drive_leave(net);
        }
        sheaf__runs_look(&runs, drove);
        there = ready(user);
    } while (!there && sheaf__spin_again(&spin));
    if (patience > 0)
        sheaf__patience_learn(&net->waiters, there && !runs.broken);
}

static bool at_once(void *user)
{
    (void)user;
    return true;
}

static void drive_once(struct sheaf__net *net)
{
    struct sheaf__runs runs = sheaf__runs_from_now();
    drive_until(net, 0, at_once, NULL, &runs);
}

void sheaf__net_poll(struct sheaf__net *net)
{
    if (!drive_try(net))
        return;
    drive_once(net);
    drive_leave(net);
}

void sheaf__net_rearm(struct sheaf__net *net)
{
    struct sheaf__drive drive = sheaf__drive_lock(net);
    if (!drive.nested)
        drive_once(net);
    sheaf__drive_unlock(net, drive);
}

bool sheaf__net_arm_word(struct sheaf__net *net, struct sheaf__lane *lane)
{
    if (!drive_try(net))
        return false;
    bool armed = net->keeper_sleeps && lane->ops->arm_word(lane);
    /* What has come since must not be left to the keeper, which was told to sleep on. */
    if (!armed && net->keeper_sleeps)
        drive_once(net);
    drive_leave(net);
    return armed;
}

void sheaf__net_changed(struct sheaf__net *net)
{
    sheaf__mutex_lock(&net->lock);
    net->changes++;
    if (net->sleepers > 0)
        sheaf__cond_broadcast(&net->changed);
    sheaf__mutex_unlock(&net->lock);
}

void sheaf__net_wake(struct sheaf__net *net)
{
    sheaf__net_changed(net);
}

sheaf_status sheaf__net_wait(struct sheaf__net *net, bool (*ready)(void *user), void *user,
                             const struct sheaf__wait *wait, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    sheaf__net_spin(net, ready, user);
    while (status == SHEAF_OK) {
        /* The count is read before the condition, so that a change after the look is not missed. */
        sheaf__mutex_lock(&net->lock);
        uint64_t seen = net->changes;
        sheaf__mutex_unlock(&net->lock);
        if (ready(user))
            return SHEAF_OK;
        sheaf__mutex_lock(&net->lock);
        net->sleepers++;
        while (net->changes == seen && status == SHEAF_OK)
            status = sheaf__cond_wait(&net->changed, &net->lock, wait, err);
        net->sleepers--;
        sheaf__mutex_unlock(&net->lock);
    }
    return ready(user) ? SHEAF_OK : status;
}
