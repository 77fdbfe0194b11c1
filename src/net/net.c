/* SPDX-License-Identifier: Apache-2.0 */
/* A net: its life, who drives it, and who sleeps on it. */
#include "net/net.h"

#include "base/config.h"
#include "base/context.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/state.h"

#include <string.h>

#define DRIVE_MOST (10 * SHEAF__MS)

/* ---- hubs ---- */

sheaf_status sheaf__hub_new(struct sheaf__hub **hub, sheaf_error *err)
{
    struct sheaf__hub *h = sheaf__calloc(1, sizeof(*h));
    if (!h)
        return sheaf__no_memory(err, "a hub");
    sheaf__list_init(&h->nets);
    h->next_port = 1;
    *hub = h;
    return SHEAF_OK;
}

void sheaf__hub_free(struct sheaf__hub *hub)
{
    sheaf__free(hub);
}

/* A context remembers its hub in a slot. */
struct hub_slot {
    struct sheaf__hub *hub;
};

static sheaf_status make_hub_slot(sheaf_context *context, void **value, sheaf_error *err)
{
    (void)context;
    *value = sheaf__calloc(1, sizeof(struct hub_slot));
    return *value ? SHEAF_OK : sheaf__no_memory(err, "a hub");
}

static const struct sheaf__slot hub_slot = {
    .name = "net.hub", .create = make_hub_slot, .destroy = sheaf__free};

sheaf_status sheaf__net_set_hub(sheaf_context *context, struct sheaf__hub *hub, sheaf_error *err)
{
    void *value;
    SHEAF__TRY(sheaf__context_slot(context, &hub_slot, &value, err));
    ((struct hub_slot *)value)->hub = hub;
    return SHEAF_OK;
}

static struct sheaf__hub *hub_of(sheaf_context *context)
{
    struct hub_slot *slot = sheaf__context_peek(context, &hub_slot);
    return slot ? slot->hub : NULL;
}

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

static void free_dead(struct sheaf__net *net)
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
    free_dead(net);
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
    free_dead(net);
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

static void keep(void *user)
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
static void beat(void *user)
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

/* ---- events ---- */

void sheaf__net_listen(struct sheaf__net *net, struct sheaf__net_events *events)
{
    sheaf__mutex_lock(&net->lock);
    sheaf__list_append(&net->events, &events->node);
    sheaf__mutex_unlock(&net->lock);
}

void sheaf__net_unlisten(struct sheaf__net *net, struct sheaf__net_events *events)
{
    /* Events run on the driver alone. */
    struct sheaf__drive drive = sheaf__drive_lock(net);
    sheaf__mutex_lock(&net->lock);
    sheaf__list_remove(&events->node);
    sheaf__mutex_unlock(&net->lock);
    sheaf__drive_unlock(net, drive);
}

/* ---- life ---- */

static void destroy(void *object)
{
    struct sheaf__net *net = object;
    sheaf__serve_free_pool(net);
    sheaf__token_unref(net->token);
    sheaf__poller_free(net->poller);
    sheaf__secret_wipe(&net->secret);
    sheaf__free(net);
}

static const struct sheaf__class net_class = {.name = "net", .destroy = destroy};

/* The ways of the configuration, as a set of lanes. */
static uint32_t transports(void)
{
    const uint32_t shm = 1U << SHEAF__LANE_SHM, ucx = 1U << SHEAF__LANE_UCX,
                   far = 1U << SHEAF__LANE_FAR;
    bool trusted = sheaf__config_int(SHEAF__CONFIG_FABRIC) == SHEAF__FABRIC_TRUSTED;
    switch (sheaf__config_int(SHEAF__CONFIG_TRANSPORT)) {
    case SHEAF__TRANSPORT_TCP:
        return 0;
    case SHEAF__TRANSPORT_SHM:
        return shm;
    case SHEAF__TRANSPORT_UCX:
        return trusted ? ucx | far : ucx;
    default:
        return trusted ? shm | ucx | far : shm;
    }
}

static sheaf_status fill_identity(struct sheaf__net *net, const struct sheaf__net_options *options,
                                  sheaf_error *err)
{
    struct sheaf__identity *id = &net->identity;
    const char *run_id =
        options->run_id ? options->run_id : sheaf__config_text(SHEAF__CONFIG_RUN_ID);
    id->task = options->task;
    id->incarnation = options->incarnation;
    if (sheaf__str_copy(id->run_id, sizeof(id->run_id), run_id) >= sizeof(id->run_id))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "the run id has more than %d bytes: \"%s\"", SHEAF__RUN_ID_MAX, run_id);
    if (id->incarnation == 0)
        SHEAF__TRY(sheaf__random_bytes(&id->incarnation, sizeof(id->incarnation), err));
    if (net->hub)
        return SHEAF_OK;
    id->transports = transports();
    id->host = sheaf__segment_host();
    return SHEAF_OK;
}

static sheaf_status fill(struct sheaf__net *net, const struct sheaf__net_options *options,
                         sheaf_error *err)
{
    int64_t beat_ms = sheaf__config_int(SHEAF__CONFIG_HEARTBEAT_MS);
    SHEAF__TRY(fill_identity(net, options, err));
    if (options->address && sheaf__str_copy(net->listen_address, sizeof(net->listen_address),
                                            options->address) >= sizeof(net->listen_address))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "the address \"%s\" is too long",
                            options->address);
    net->heartbeat = options->heartbeat ? options->heartbeat : (beat_ms ? beat_ms : 1) * SHEAF__MS;
    net->silence = options->silence ? options->silence : net->heartbeat * 7 / 2;
    net->spin = sheaf__config_int(SHEAF__CONFIG_SPIN_US) * SHEAF__US;
    if (options->secret)
        net->secret = *options->secret;
    else
        SHEAF__TRY(sheaf__secret_find(net->hub || !options->address ||
                                          sheaf__socket_is_loopback(options->address),
                                      &net->secret, err));
    net->token = sheaf__token_new(NULL);
    if (!net->token)
        return sheaf__no_memory(err, "a net");
    return sheaf__poller_new(!net->hub, &net->poller, err);
}

static void answer_ping(struct sheaf__call *call, void *user)
{
    (void)user;
    sheaf__call_reply(call, NULL);
}

sheaf_status sheaf__net_new(const struct sheaf__net_options *options, struct sheaf__net **net,
                            sheaf_error *err)
{
    struct sheaf__net *n = sheaf__calloc(1, sizeof(*n));
    if (!n)
        return sheaf__no_memory(err, "a net");
    sheaf__object_init(&n->object, &net_class);
    n->context = sheaf__context();
    n->hub = hub_of(n->context);
    n->listener = -1;
    sheaf__list_init(&n->conns);
    sheaf__list_init(&n->dead_conns);
    sheaf__list_init(&n->dead_peers);
    sheaf__list_init(&n->peers);
    sheaf__list_init(&n->dials);
    sheaf__list_init(&n->events);
    sheaf__list_init(&n->incoming);
    sheaf__list_init(&n->call_pool);
    n->services[SHEAF__CALL_PING] =
        (struct sheaf__service){.kind = SHEAF__CALL_PING, .serve = answer_ping};
    sheaf_status status = fill(n, options, err);
    if (status < 0)
        sheaf__unref(n);
    else
        *net = n;
    return status;
}

sheaf_status sheaf__net_set_digest(struct sheaf__net *net, const char *name,
                                   const uint8_t digest[SHEAF__SHA256_SIZE], sheaf_error *err)
{
    struct sheaf__identity *id = &net->identity;
    if (id->table_count == SHEAF__TABLES_MAX || strlen(name) >= sizeof(id->tables[0].name) ||
        net->started)
        return sheaf__error(err, SHEAF_ERR_INTERNAL, "table \"%s\" cannot be proved", name);
    struct sheaf__table *table = &id->tables[id->table_count++];
    sheaf__str_copy(table->name, sizeof(table->name), name);
    memcpy(table->digest, digest, SHEAF__SHA256_SIZE);
    return SHEAF_OK;
}

sheaf_status sheaf__net_start(struct sheaf__net *net, sheaf_error *err)
{
    atomic_store(&net->next_timer, sheaf__clock_now() + net->heartbeat / 2);
    if (net->listen_address[0]) {
        sheaf_status status = sheaf__accept_open(net, err);
        if (status < 0) {
            sheaf__error_prefix(err, "%s:%d", net->identity.task.job, net->identity.task.index);
            return status;
        }
    }
    net->started = true;
    SHEAF__TRY(sheaf__thread_start("sheaf-beat", beat, net, NULL, &net->beater, err));
    return sheaf__thread_start("sheaf-net", keep, net, NULL, &net->keeper, err);
}

/* Ends both threads. */
static void stop_threads(struct sheaf__net *net)
{
    sheaf__mutex_lock(&net->lock);
    atomic_store(&net->stop, true);
    sheaf__cond_signal(&net->stopped);
    sheaf__mutex_unlock(&net->lock);
    sheaf__poller_kick(net->poller);
    sheaf__thread_join(net->beater, SHEAF__NO_DEADLINE, NULL);
    sheaf__thread_join(net->keeper, SHEAF__NO_DEADLINE, NULL);
}

/* All that was sent has left, and who got our goodbye has closed. */
static bool all_said(void *user)
{
    struct sheaf__net *net = user;
    struct sheaf__list_node *node;
    bool said = true;
    sheaf__mutex_lock(&net->lock);
    for (node = sheaf__list_first(&net->peers); node; node = sheaf__list_next(&net->peers, node)) {
        struct sheaf__peer *peer = SHEAF__CONTAINER(node, struct sheaf__peer, node);
        /* What is in shared memory stays readable; a socket's bytes are safe once the other side
         * has closed. */
        if (peer->data == peer->ctl || !peer->data->ops->idle(peer->data))
            said = false;
    }
    sheaf__mutex_unlock(&net->lock);
    return said;
}

static void say_goodbye(struct sheaf__net *net, int64_t deadline)
{
    struct sheaf__list_node *node;
    struct sheaf__drive drive = sheaf__drive_lock(net);
    sheaf__accept_close(net);
    sheaf__conn_close_all(net);
    for (node = sheaf__list_first(&net->peers); node; node = sheaf__list_next(&net->peers, node)) {
        struct sheaf__message bye = {.frame.type = SHEAF__FRAME_GOODBYE};
        sheaf__peer_post(SHEAF__CONTAINER(node, struct sheaf__peer, node), &bye, NULL);
    }
    sheaf__drive_unlock(net, drive);
    struct sheaf__wait wait = {.deadline = deadline, .token = SHEAF__NO_TOKEN};
    sheaf__net_wait(net, all_said, net, &wait, NULL);
}

void sheaf__net_free(struct sheaf__net *net, int64_t deadline)
{
    struct sheaf__list_node *node;
    sheaf_error cause;
    if (!net)
        return;
    sheaf__mutex_lock(&net->lock);
    net->closing = true;
    sheaf__mutex_unlock(&net->lock);
    if (net->keeper && deadline >= 0)
        say_goodbye(net, deadline);
    stop_threads(net);
    sheaf__error(&cause, SHEAF_ERR_UNAVAILABLE, "this task has closed its connections");
    drive_enter(net);
    sheaf__accept_close(net);
    sheaf__conn_close_all(net);
    while ((node = sheaf__list_first(&net->peers)))
        sheaf__peer_lose(SHEAF__CONTAINER(node, struct sheaf__peer, node), &cause, true);
    free_dead(net);
    drive_leave(net);
    for (int i = 0; i < SHEAF__CALL_KINDS; i++)
        if (net->services[i].close)
            net->services[i].close(net->services[i].user);
    sheaf__unref(net);
}

const char *sheaf__net_address(const struct sheaf__net *net)
{
    return net->address[0] ? net->address : NULL;
}

sheaf_task sheaf__net_task(const struct sheaf__net *net)
{
    return net->identity.task;
}

uint64_t sheaf__net_incarnation(const struct sheaf__net *net)
{
    return net->identity.incarnation;
}

uint64_t sheaf__net_shared_host(const struct sheaf__net *net)
{
    return net->identity.transports & 1U << SHEAF__LANE_SHM ? net->identity.host : 0;
}
