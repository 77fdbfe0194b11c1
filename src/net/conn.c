/* SPDX-License-Identifier: Apache-2.0 */
/* Connections on their way to become peers: listening, accepting, shaking hands. The driver's. */
#include "base/counter.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/ring.h"
#include "net/state.h"

#include <string.h>

#define HANDSHAKE_TIME (5 * SHEAF__S)

bool sheaf__task_equal(const sheaf_task *a, const sheaf_task *b)
{
    return a->index == b->index && strncmp(a->job, b->job, sizeof(a->job)) == 0;
}

/* An order of tasks that both ends see alike. */
static bool task_before(const sheaf_task *a, const sheaf_task *b)
{
    int c = strncmp(a->job, b->job, sizeof(a->job));
    return c < 0 || (c == 0 && a->index < b->index);
}

/* ---- life ---- */

void sheaf__conn_free(struct sheaf__conn *conn)
{
    sheaf__stream_free(conn->stream);
    sheaf__segment_close(&conn->segment);
    sheaf__ucx_close(conn->ucx);
    sheaf__socket_close(conn->bell);
    sheaf__handshake_clear(&conn->handshake);
    sheaf__free(conn);
}

/* Takes it out of the net; an accepted one is freed after the round, a dialed one by its thread. */
static void detach(struct sheaf__conn *conn)
{
    struct sheaf__net *net = conn->net;
    sheaf__list_remove(&conn->node);
    if (conn->watch.fd >= 0 && conn->stream)
        sheaf__poller_remove(net->poller, &conn->watch);
    if (!conn->dialer) {
        net->strangers -= !conn->proved;
        sheaf__list_append(&net->dead_conns, &conn->node);
        conn->finished = true;
        return;
    }
    sheaf__mutex_lock(&net->lock);
    conn->finished = true;
    net->changes++;
    sheaf__cond_broadcast(&net->changed);
    sheaf__mutex_unlock(&net->lock);
}

void sheaf__conn_fail(struct sheaf__conn *conn, bool retry, const sheaf_error *error)
{
    if (!conn->dialer) {
        sheaf__count("net.refused", 1);
        sheaf__refuse_tell(conn, error);
    }
    conn->error = *error;
    conn->retry = retry;
    detach(conn);
}

static void fail_text(struct sheaf__conn *conn, bool retry, sheaf_status status, const char *text)
{
    sheaf_error error;
    sheaf__error(&error, status, "%s", text);
    sheaf__conn_fail(conn, retry, &error);
}

/* ---- lanes that are offered ---- */

static bool both_can(const struct sheaf__conn *conn, enum sheaf__lane_kind kind)
{
    return (conn->net->identity.transports & conn->handshake.peer.transports & (1U << kind)) != 0;
}

static bool same_host(const struct sheaf__conn *conn)
{
    uint64_t host = conn->net->identity.host;
    return host != 0 && host == conn->handshake.peer.host;
}

/* Not a failure: there are other ways. */
static void say_why_not(const char *way, const sheaf_error *error)
{
    sheaf__log_limited(SHEAF_LOG_WARN, 1, way, "transport %s cannot be used, sockets are: %s", way,
                       error->message);
}

static void name_bell(const struct sheaf__conn *conn, struct sheaf__offer *offer)
{
    offer->bell_pid = sheaf__segment_pid();
    offer->bell_fd = sheaf__poller_bell(conn->net->poller);
}

static void make_offer(struct sheaf__conn *conn, struct sheaf__offer *offer)
{
    sheaf_error error;
    memset(offer, 0, sizeof(*offer));
    if (both_can(conn, SHEAF__LANE_SHM) && same_host(conn)) {
        if (sheaf__segment_make(sheaf__ring_bytes(), &conn->segment, &offer->ticket, &error) == 0)
            offer->lane = SHEAF__LANE_SHM;
        else
            say_why_not("shm", &error);
        name_bell(conn, offer);
    } else if (both_can(conn, SHEAF__LANE_UCX) &&
               (same_host(conn) || both_can(conn, SHEAF__LANE_FAR))) {
        offer->ucx_size = sizeof(offer->ucx);
        if (sheaf__ucx_open(same_host(conn), &conn->ucx, offer->ucx, &offer->ucx_size, &error) == 0)
            offer->lane = SHEAF__LANE_UCX;
        else
            say_why_not("ucx", &error);
        if (offer->lane == SHEAF__LANE_SAME)
            offer->ucx_size = 0;
    }
}

static sheaf_status take_shm(struct sheaf__conn *conn, struct sheaf__offer *answer,
                             sheaf_error *err)
{
    const struct sheaf__offer *offer = &conn->handshake.offer;
    conn->bell = sheaf__segment_open_pipe(offer->bell_pid, offer->bell_fd);
    name_bell(conn, answer);
    SHEAF__TRY(sheaf__segment_open(&conn->handshake.offer.ticket, &conn->segment, err));
    if (conn->segment.size < sheaf__ring_bytes())
        return sheaf__error(err, SHEAF_ERR_INCOMPATIBLE, "the memory is too small");
    return SHEAF_OK;
}

static sheaf_status take_ucx(struct sheaf__conn *conn, struct sheaf__offer *answer,
                             sheaf_error *err)
{
    const struct sheaf__offer *offer = &conn->handshake.offer;
    answer->ucx_size = sizeof(answer->ucx);
    sheaf_status status =
        sheaf__ucx_open(same_host(conn), &conn->ucx, answer->ucx, &answer->ucx_size, err);
    if (status == SHEAF_OK)
        status = sheaf__ucx_connect(conn->ucx, offer->ucx, offer->ucx_size, err);
    if (status < 0) {
        sheaf__ucx_close(conn->ucx);
        conn->ucx = NULL;
        answer->ucx_size = 0;
    }
    return status;
}

/* The dialer takes what is offered, or stays with the connection. */
static void take_offer(struct sheaf__conn *conn, struct sheaf__offer *answer)
{
    sheaf_error error;
    enum sheaf__lane_kind lane = (enum sheaf__lane_kind)conn->handshake.offer.lane;
    memset(answer, 0, sizeof(*answer));
    if (lane == SHEAF__LANE_SAME || !both_can(conn, lane))
        return;
    bool shm = lane == SHEAF__LANE_SHM;
    sheaf_status status = shm ? take_shm(conn, answer, &error) : take_ucx(conn, answer, &error);
    if (status == SHEAF_OK)
        answer->lane = (uint8_t)lane;
    else
        say_why_not(shm ? "shm" : "ucx", &error);
}

/* ---- decisions ---- */

/* A connection with the task that is on its way: one that this net dials, or one that it has welcomed. */
static struct sheaf__conn *on_its_way(struct sheaf__net *net, const sheaf_task *task, bool dialed)
{
    struct sheaf__list_node *node;
    for (node = sheaf__list_first(&net->conns); node; node = sheaf__list_next(&net->conns, node)) {
        struct sheaf__conn *conn = SHEAF__CONTAINER(node, struct sheaf__conn, node);
        const struct sheaf__handshake *h = &conn->handshake;
        if (conn->dialer == dialed && (dialed || h->state == SHEAF__HANDSHAKE_READY) &&
            sheaf__task_equal(dialed ? &h->wanted : &h->peer.task, task))
            return conn;
    }
    return NULL;
}

/* Whether the peer that has proved itself may have a session now: NULL, or why not (for the moment). If both dial, the
 * connection of the task that comes first counts: that task never has both on their way (see sheaf__conn_dial()). */
static const char *objection(struct sheaf__conn *conn, struct sheaf__peer **older)
{
    struct sheaf__net *net = conn->net;
    const struct sheaf__identity *peer = &conn->handshake.peer;
    sheaf__mutex_lock(&net->lock);
    struct sheaf__peer *have = sheaf__peer_find_locked(net, &peer->task);
    bool closing = net->closing;
    sheaf__mutex_unlock(&net->lock);
    *older = have;
    if (closing)
        return "it is ending";
    if (have && have->incarnation == peer->incarnation)
        return "it has a connection already";
    struct sheaf__conn *welcomed = on_its_way(net, &peer->task, false);
    if (welcomed && welcomed->handshake.peer.incarnation == peer->incarnation)
        return "it has welcomed a connection already";
    if (!have && task_before(&net->identity.task, &peer->task) &&
        on_its_way(net, &peer->task, true))
        return "it is connecting itself";
    return NULL;
}

static sheaf_status decide(struct sheaf__conn *conn)
{
    struct sheaf__peer *older;
    struct sheaf__offer offer;
    sheaf_error error;
    const char *why = objection(conn, &older);
    if (!conn->proved)
        conn->net->strangers--;
    conn->proved = true;
    if (why) {
        sheaf__error(&error, SHEAF_ERR_UNAVAILABLE, SHEAF__TASK " refuses for now: %s",
                     conn->net->identity.task.job, conn->net->identity.task.index, why);
        sheaf__handshake_refuse(&conn->handshake, true, &error);
        return error.status;
    }
    if (older) {
        sheaf__error(&error, SHEAF_ERR_UNAVAILABLE, "it was started again");
        sheaf__peer_lose(older, &error, SHEAF__PEER_LOST);
    }
    make_offer(conn, &offer);
    return sheaf__handshake_welcome(&conn->handshake, &offer);
}

/* What the handshake has come to. SHEAF_PENDING: it goes on. */
static sheaf_status on_step(struct sheaf__conn *conn)
{
    struct sheaf__offer answer;
    struct sheaf__handshake *h = &conn->handshake;
    switch (h->state) {
    case SHEAF__HANDSHAKE_PROVED:
        return decide(conn) < 0 ? h->error.status : SHEAF_PENDING;
    case SHEAF__HANDSHAKE_WELCOMED:
        take_offer(conn, &answer);
        return sheaf__handshake_ready(h, &answer);
    default:
        return SHEAF_OK;
    }
}

/* ---- bytes ---- */

/* Sends what the handshake has to say. False: the other side is gone. */
static bool send_out(struct sheaf__conn *conn)
{
    struct sheaf__buf *out = &conn->handshake.out;
    if (out->size > 0) {
        struct sheaf__part part = {out->data, out->size};
        ptrdiff_t n = conn->stream->ops->write(conn->stream, &part, 1);
        if (n < 0)
            return false;
        memmove(out->data, out->data + n, out->size - (size_t)n);
        out->size -= (size_t)n;
    }
    bool blocked = out->size > 0;
    if (conn->watch.fd >= 0 && blocked != conn->watch.out)
        sheaf__poller_want_out(conn->net->poller, &conn->watch, blocked);
    return true;
}

/* Receives and answers until nothing more comes. SHEAF_OK: it is done. */
static sheaf_status receive(struct sheaf__conn *conn, bool *worked)
{
    struct sheaf__handshake *h = &conn->handshake;
    size_t size;
    uint8_t *place;
    while ((place = sheaf__handshake_room(h, &size))) {
        ptrdiff_t n = conn->stream->ops->read(conn->stream, place, size);
        if (n < 0)
            return sheaf__error(&h->error, SHEAF_ERR_UNAVAILABLE, "it closed the connection");
        if (n == 0)
            return SHEAF_PENDING;
        *worked = true;
        sheaf_status status = sheaf__handshake_took(h, (size_t)n);
        if (status == SHEAF_OK)
            status = on_step(conn);
        if (status != SHEAF_PENDING)
            return status;
        if (!send_out(conn))
            return sheaf__error(&h->error, SHEAF_ERR_UNAVAILABLE, "it closed the connection");
    }
    return h->state == SHEAF__HANDSHAKE_FAILED ? h->error.status : SHEAF_OK;
}

static bool progress(struct sheaf__conn *conn)
{
    bool worked = false;
    sheaf_error error;
    struct sheaf__handshake *h = &conn->handshake;
    sheaf_status status = h->state == SHEAF__HANDSHAKE_DONE ? SHEAF_OK : receive(conn, &worked);
    bool alive = send_out(conn);
    if (status < 0) {
        /* The other side closing is what a task that is being started or ended does. */
        bool retry = h->retry || status == SHEAF_ERR_UNAVAILABLE;
        sheaf__conn_fail(conn, retry, &h->error);
        return true;
    }
    if (!alive) {
        fail_text(conn, true, SHEAF_ERR_UNAVAILABLE, "it closed the connection");
        return true;
    }
    if (h->state == SHEAF__HANDSHAKE_DONE && h->out.size == 0) {
        if (sheaf__peer_establish(conn, &error) < 0)
            sheaf__conn_fail(conn, false, &error);
        else
            detach(conn);
        return true;
    }
    return worked;
}

static void on_ready(struct sheaf__watch *watch, bool in, bool out)
{
    struct sheaf__conn *conn = SHEAF__CONTAINER(watch, struct sheaf__conn, watch);
    (void)in;
    if (conn->finished) /* earlier in this round */
        return;
    if (conn->connecting) {
        if (!out)
            return;
        int code = sheaf__socket_connected(watch->fd);
        if (code != 0) {
            fail_text(conn, true, SHEAF_ERR_UNAVAILABLE, strerror(code));
            return;
        }
        conn->connecting = false;
    }
    progress(conn);
}

struct sheaf__conn *sheaf__conn_new(struct sheaf__net *net)
{
    struct sheaf__conn *conn = sheaf__calloc(1, sizeof(*conn));
    if (!conn)
        return NULL;
    conn->net = net;
    conn->watch = (struct sheaf__watch){.fd = -1, .fn = on_ready};
    conn->deadline = sheaf__clock_after(HANDSHAKE_TIME);
    conn->segment.fd = -1;
    conn->bell = -1;
    return conn;
}

/* ---- for the rest of net/ ---- */

/* The timers look at it in time. */
static void due(struct sheaf__net *net, int64_t deadline)
{
    if (deadline < atomic_load(&net->next_timer))
        atomic_store(&net->next_timer, deadline);
}

void sheaf__conn_admit(struct sheaf__conn *conn)
{
    struct sheaf__net *net = conn->net;
    sheaf_error error;
    sheaf__list_append(&net->conns, &conn->node);
    net->strangers++;
    due(net, conn->deadline);
    sheaf_status status =
        sheaf__handshake_init(&conn->handshake, &net->identity, &net->secret, NULL, &error);
    if (status == SHEAF_OK && conn->watch.fd >= 0)
        status = sheaf__poller_add(net->poller, &conn->watch, &error);
    if (status < 0)
        sheaf__conn_fail(conn, false, &error);
}

sheaf_status sheaf__conn_dial(struct sheaf__net *net, const sheaf_task *task, const char *address,
                              unsigned attempt, unsigned *count, struct sheaf__conn **conn,
                              sheaf_error *err)
{
    struct sheaf__conn *c = sheaf__conn_new(net);
    if (!c)
        return sheaf__no_memory(err, "a connection");
    c->dialer = c->proved = true;
    sheaf__str_copy(c->address, sizeof(c->address), address);
    sheaf_status status;
    if (net->hub) {
        status = sheaf__accept_connect(net, address, &c->stream, err);
    } else {
        status = sheaf__socket_connect(address, attempt, count, &c->watch.fd, err);
        c->stream = status == SHEAF_OK ? sheaf__stream_of_socket(c->watch.fd) : NULL;
        if (status == SHEAF_OK && !c->stream) {
            sheaf__socket_close(c->watch.fd);
            status = sheaf__no_memory(err, "a connection");
        }
        c->connecting = true;
        c->watch.out = true;
    }
    if (status == SHEAF_OK)
        status = sheaf__handshake_init(&c->handshake, &net->identity, &net->secret, task, err);
    if (status < 0) {
        sheaf__conn_free(c);
        return status;
    }
    struct sheaf__drive drive = sheaf__drive_lock(net);
    if (on_its_way(net, task, false))
        status = sheaf__error(err, SHEAF_ERR_UNAVAILABLE, "it is connecting itself");
    if (status == SHEAF_OK && c->watch.fd >= 0)
        status = sheaf__poller_add(net->poller, &c->watch, err);
    if (status == SHEAF_OK) {
        sheaf__list_append(&net->conns, &c->node);
        due(net, c->deadline);
        *conn = c;
    } else {
        sheaf__conn_free(c);
    }
    sheaf__drive_unlock(net, drive);
    sheaf__net_kick(net);
    return status;
}

void sheaf__conn_drop(struct sheaf__conn *conn)
{
    struct sheaf__net *net = conn->net;
    struct sheaf__drive drive = sheaf__drive_lock(net);
    if (!conn->finished)
        detach(conn);
    sheaf__drive_unlock(net, drive);
}

bool sheaf__conn_progress_all(struct sheaf__net *net)
{
    struct sheaf__list_node *node, *next;
    bool worked = false;
    if (!net->hub)
        return false;
    sheaf__accept_incoming(net);
    for (node = sheaf__list_first(&net->conns); node; node = next) {
        next = sheaf__list_next(&net->conns, node);
        worked |= progress(SHEAF__CONTAINER(node, struct sheaf__conn, node));
    }
    return worked;
}

/* In-process conns are not watched: what comes must wake the keeper. */
bool sheaf__conn_arm_all(struct sheaf__net *net)
{
    struct sheaf__list_node *node;
    bool quiet = true;
    for (node = sheaf__list_first(&net->conns); net->hub && node;
         node = sheaf__list_next(&net->conns, node)) {
        struct sheaf__stream *s = SHEAF__CONTAINER(node, struct sheaf__conn, node)->stream;
        quiet &= !s->ops->arm(s, 1);
    }
    return quiet;
}

void sheaf__conn_timers(struct sheaf__net *net, int64_t now)
{
    struct sheaf__list_node *node, *next;
    for (node = sheaf__list_first(&net->conns); node; node = next) {
        struct sheaf__conn *conn = SHEAF__CONTAINER(node, struct sheaf__conn, node);
        next = sheaf__list_next(&net->conns, node);
        if (now >= conn->deadline)
            fail_text(conn, true, SHEAF_ERR_UNAVAILABLE, "it does not answer");
        else
            due(net, conn->deadline);
    }
}

void sheaf__conn_close_all(struct sheaf__net *net)
{
    struct sheaf__list_node *node;
    while ((node = sheaf__list_first(&net->conns)))
        fail_text(SHEAF__CONTAINER(node, struct sheaf__conn, node), false, SHEAF_ERR_UNAVAILABLE,
                  "this task is ending");
}
