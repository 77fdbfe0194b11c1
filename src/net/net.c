/* SPDX-License-Identifier: Apache-2.0 */
/* A net: its life, its identity, who is told of peers. */
#include "net/net.h"

#include "base/config.h"
#include "base/context.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/state.h"

#include <string.h>

/* How long a program that fails stays for its goodbye to arrive. */
#define FAREWELL SHEAF__S

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

/* ---- events ---- */

/* Events run on the driver alone, which looks at the list without the lock. */
static void change_events(struct sheaf__net *net, struct sheaf__net_events *events, bool add)
{
    struct sheaf__drive drive = sheaf__drive_lock(net);
    sheaf__mutex_lock(&net->lock);
    if (add)
        sheaf__list_append(&net->events, &events->node);
    else
        sheaf__list_remove(&events->node);
    sheaf__mutex_unlock(&net->lock);
    sheaf__drive_unlock(net, drive);
}

void sheaf__net_listen(struct sheaf__net *net, struct sheaf__net_events *events)
{
    change_events(net, events, true);
}

void sheaf__net_unlisten(struct sheaf__net *net, struct sheaf__net_events *events)
{
    change_events(net, events, false);
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
    net->heartbeat = options->heartbeat ? options->heartbeat : beat_ms * SHEAF__MS;
    net->silence = options->silence ? options->silence : net->heartbeat * 7 / 2;
    net->spin = sheaf__config_int(SHEAF__CONFIG_SPIN_US) * SHEAF__US;
    if (options->secret)
        net->secret = *options->secret;
    else
        SHEAF__TRY(sheaf__secret_find(net->hub || options->loopback, &net->secret, err));
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

/* The name that the others know it by: the cluster's, but for a port that was left open. */
static void name_address(struct sheaf__net *net)
{
    const char *port = strrchr(net->listen_address, ':');
    const bool open = port && strcmp(port, ":0") == 0;
    sheaf__str_copy(net->identity.address, sizeof(net->identity.address),
                    open ? net->address : net->listen_address);
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
    sheaf__mutex_lock(&net->lock);
    const sheaf_error cause = net->given_up;
    sheaf__mutex_unlock(&net->lock);
    sheaf__accept_close(net);
    sheaf__conn_close_all(net);
    for (node = sheaf__list_first(&net->peers); node; node = sheaf__list_next(&net->peers, node)) {
        struct sheaf__message bye = {.frame.type = SHEAF__FRAME_GOODBYE, .meta = &cause};
        if (cause.status < 0)
            bye.frame.meta_size = sizeof(cause);
        sheaf__peer_post(SHEAF__CONTAINER(node, struct sheaf__peer, node), &bye, NULL);
    }
    sheaf__drive_unlock(net, drive);
    struct sheaf__wait wait = {.deadline = deadline, .token = SHEAF__NO_TOKEN};
    sheaf__net_wait(net, all_said, net, &wait, NULL);
}

void sheaf__net_give_up(struct sheaf__net *net, const sheaf_error *cause)
{
    sheaf__mutex_lock(&net->lock);
    if (cause)
        sheaf__error_keep_first(&net->given_up, cause);
    else
        net->given_up.status = SHEAF_OK;
    sheaf__mutex_unlock(&net->lock);
}

/* The program ends because of `cause`. Whoever else is to blame, for the others it is this task that
 * goes; but a team that lost a member names that one. */
static void end_because(void *user, const sheaf_error *cause)
{
    struct sheaf__net *net = user;
    sheaf_error reason = *cause;
    if (reason.status != SHEAF_ERR_TEAM_LOST || !reason.peer.job[0])
        sheaf__error_set_peer(&reason, net->identity.task.job, net->identity.task.index);
    sheaf__net_give_up(net, &reason);
    say_goodbye(net, sheaf__clock_after(FAREWELL));
}

sheaf_status sheaf__net_start(struct sheaf__net *net, sheaf_error *err)
{
    atomic_store(&net->next_timer, sheaf__clock_now() + net->heartbeat / 2);
    if (net->listen_address[0]) {
        sheaf_status status = sheaf__accept_open(net, err);
        if (status < 0) {
            if (err)
                err->origin = net->identity.task;
            return status;
        }
        name_address(net);
    }
    net->started = true;
    SHEAF__TRY(sheaf__thread_start("sheaf-beat", sheaf__drive_beat, net, NULL, &net->beater, err));
    SHEAF__TRY(sheaf__thread_start("sheaf-net", sheaf__drive_keep, net, NULL, &net->keeper, err));
    net->farewell.say = end_because;
    net->farewell.user = net;
    sheaf__farewell_add(net->context, &net->farewell);
    return SHEAF_OK;
}

void sheaf__net_free(struct sheaf__net *net, int64_t deadline)
{
    struct sheaf__list_node *node;
    sheaf_error cause;
    if (!net)
        return;
    sheaf__farewell_remove(net->context, &net->farewell);
    sheaf__mutex_lock(&net->lock);
    net->closing = true;
    sheaf__mutex_unlock(&net->lock);
    if (net->keeper && deadline >= 0)
        say_goodbye(net, deadline);
    stop_threads(net);
    sheaf__error(&cause, SHEAF_ERR_UNAVAILABLE, "this task has closed its connections");
    struct sheaf__drive drive = sheaf__drive_lock(net);
    sheaf__accept_close(net);
    sheaf__conn_close_all(net);
    while ((node = sheaf__list_first(&net->peers)))
        sheaf__peer_lose(SHEAF__CONTAINER(node, struct sheaf__peer, node), &cause,
                         SHEAF__PEER_LEFT);
    sheaf__drive_free_dead(net);
    sheaf__drive_unlock(net, drive);
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
