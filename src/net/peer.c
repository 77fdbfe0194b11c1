/* SPDX-License-Identifier: Apache-2.0 */
/* Peers: their beginning, what they send, their end. */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/ring.h"
#include "net/state.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* ---- counting and looking ---- */

static void destroy(void *object)
{
    struct sheaf__peer *peer = object;
    struct sheaf__net *net = peer->net;
    if (peer->data && peer->data != peer->ctl)
        peer->data->ops->free(peer->data);
    if (peer->ctl)
        peer->ctl->ops->free(peer->ctl);
    sheaf__socket_close(peer->bell);
    sheaf__free(peer->slots);
    sheaf__free(peer);
    sheaf__unref(net);
}

static const struct sheaf__class peer_class = {.name = "peer", .destroy = destroy};

struct sheaf__peer *sheaf__peer_ref(struct sheaf__peer *peer)
{
    return sheaf__ref(peer);
}

void sheaf__peer_unref(struct sheaf__peer *peer)
{
    sheaf__unref(peer);
}

sheaf_task sheaf__peer_task(const struct sheaf__peer *peer)
{
    return peer->task;
}

uint64_t sheaf__peer_incarnation(const struct sheaf__peer *peer)
{
    return peer->incarnation;
}

struct sheaf__net *sheaf__peer_net(const struct sheaf__peer *peer)
{
    return peer->net;
}

const char *sheaf__peer_address(const struct sheaf__peer *peer)
{
    return peer->address;
}

const char *sheaf__peer_transport(const struct sheaf__peer *peer)
{
    return peer->data->name;
}

/* An error that names the peer and what has come of it. */
static sheaf_status describe(const struct sheaf__peer *peer, const sheaf_error *cause,
                             enum sheaf__peer_end end, sheaf_error *err)
{
    sheaf__error(err, SHEAF_ERR_UNAVAILABLE, SHEAF__TASK " at %s%s: %s", peer->task.job,
                 peer->task.index, peer->address, end == SHEAF__PEER_LEFT ? "" : " was lost",
                 cause->message);
    sheaf__error_set_peer(err, peer->task.job, peer->task.index);
    return SHEAF_ERR_UNAVAILABLE;
}

static bool take_cut(struct sheaf__peer *peer, sheaf_error *cause)
{
    if (!atomic_load_explicit(&peer->cut_wanted, memory_order_acquire))
        return false;
    sheaf__mutex_lock(&peer->lock);
    *cause = peer->cut;
    sheaf__mutex_unlock(&peer->lock);
    return true;
}

sheaf_status sheaf__peer_status(struct sheaf__peer *peer, sheaf_error *err)
{
    sheaf_error cause;
    if (atomic_load(&peer->status) < 0)
        return sheaf__error_copy(err, &peer->cause);
    return take_cut(peer, &cause) ? describe(peer, &cause, SHEAF__PEER_LOST, err) : SHEAF_OK;
}

enum sheaf__peer_end sheaf__peer_end(struct sheaf__peer *peer)
{
    return (enum sheaf__peer_end)atomic_load(&peer->end);
}

/* ---- sending ---- */

sheaf_status sheaf__peer_post(struct sheaf__peer *peer, struct sheaf__message *message,
                              sheaf_error *err)
{
    if (atomic_load_explicit(&peer->status, memory_order_relaxed) < 0 ||
        atomic_load_explicit(&peer->cut_wanted, memory_order_relaxed))
        return sheaf__peer_status(peer, err);
    if (peer->data == peer->ctl)
        atomic_store_explicit(&peer->spoke, true, memory_order_relaxed);
    sheaf_status status = peer->data->ops->post(peer->data, message, err);
    if (status == SHEAF_ERR_UNAVAILABLE)
        sheaf__error_set_peer(err, peer->task.job, peer->task.index);
    return status;
}

/* A lane has something that it cannot send now, or is broken. */
static void data_blocked(void *user)
{
    sheaf__net_kick(((struct sheaf__peer *)user)->net);
}

static void ctl_blocked(void *user)
{
    struct sheaf__peer *peer = user;
    if (peer->watch.fd >= 0)
        sheaf__poller_want_out(peer->net->poller, &peer->watch, true);
    sheaf__net_kick(peer->net);
}

/* The other side sleeps and there is something for it in the shared memory. */
static void ring_bell(void *user)
{
    struct sheaf__peer *peer = user;
    struct sheaf__message bell = {.frame.type = SHEAF__FRAME_BELL};
    if (peer->bell >= 0 && (write(peer->bell, "", 1) == 1 || errno == EAGAIN))
        return;
    atomic_store_explicit(&peer->spoke, true, memory_order_relaxed);
    peer->ctl->ops->post(peer->ctl, &bell, NULL);
}

/* ---- ending ---- */

/* What all that concerns the peer fails with from now on is `cause`. */
static void lose(struct sheaf__peer *peer, const sheaf_error *cause, enum sheaf__peer_end end)
{
    struct sheaf__net *net = peer->net;
    struct sheaf__list_node *node, *next;
    if (atomic_load(&peer->status) < 0)
        return;
    peer->cause = *cause;
    atomic_store(&peer->end, (int)end);
    atomic_store(&peer->status, cause->status);
    sheaf__mutex_lock(&net->lock);
    sheaf__list_remove(&peer->node);
    net->changes++;
    sheaf__cond_broadcast(&net->changed);
    sheaf__mutex_unlock(&net->lock);
    if (peer->watch.fd >= 0) {
        sheaf__poller_remove(net->poller, &peer->watch);
        if (peer->data == peer->ctl)
            net->sockets_with_data--;
    }
    if (peer->data_watch.fd >= 0)
        sheaf__poller_remove(net->poller, &peer->data_watch);
    sheaf__serve_broken(&peer->ctl->in);
    peer->ctl->ops->stop(peer->ctl);
    if (peer->data != peer->ctl) {
        sheaf__serve_broken(&peer->data->in);
        peer->data->ops->stop(peer->data);
    }
    sheaf__reply_lost(peer);
    sheaf__serve_lost(peer);
    for (node = sheaf__list_first(&net->events); node; node = next) {
        struct sheaf__net_events *e = SHEAF__CONTAINER(node, struct sheaf__net_events, node);
        next = sheaf__list_next(&net->events, node);
        if (e->down)
            e->down(peer, &peer->cause, e->user);
    }
    sheaf__list_append(&net->dead_peers, &peer->node);
}

void sheaf__peer_lose(struct sheaf__peer *peer, const sheaf_error *cause, enum sheaf__peer_end end)
{
    sheaf_error error;
    describe(peer, cause, end, &error);
    lose(peer, &error, end);
}

void sheaf__peer_cut(struct sheaf__peer *peer, const sheaf_error *cause)
{
    sheaf__mutex_lock(&peer->lock);
    if (!peer->cut_wanted)
        peer->cut = *cause;
    atomic_store(&peer->cut_wanted, true);
    sheaf__mutex_unlock(&peer->lock);
    sheaf__poller_kick(peer->net->poller);
}

/* ---- receiving ---- */

static void begin(void *user, struct sheaf__incoming *in)
{
    struct sheaf__peer *peer = user;
    in->call = NULL;
    in->request = NULL;
    switch (in->frame.type) {
    case SHEAF__FRAME_REQUEST:
    case SHEAF__FRAME_POST:
        sheaf__serve_begin(peer, in);
        break;
    case SHEAF__FRAME_REPLY:
    case SHEAF__FRAME_FAILURE:
        sheaf__reply_begin(peer, in);
        break;
    default:
        in->sink.discard = true;
        break;
    }
}

/* Its goodbye: in order, or because of a cause that is then ours, too; one that names nobody is what it
 * has against us. */
static void part(struct sheaf__peer *peer, const struct sheaf__buf *meta)
{
    sheaf_error cause;
    if (sheaf__error_unpack(&cause, meta->data, meta->size)) {
        cause.status = SHEAF_ERR_UNAVAILABLE;
        if (cause.peer.job[0])
            lose(peer, &cause, SHEAF__PEER_GAVE_UP);
        else
            sheaf__peer_lose(peer, &cause, SHEAF__PEER_LOST);
        return;
    }
    sheaf__error(&cause, SHEAF_ERR_UNAVAILABLE, "it has left the job");
    sheaf__peer_lose(peer, &cause, SHEAF__PEER_LEFT);
}

static sheaf_status end(void *user, struct sheaf__incoming *in, sheaf_error *err)
{
    struct sheaf__peer *peer = user;
    switch (in->frame.type) {
    case SHEAF__FRAME_REQUEST:
    case SHEAF__FRAME_POST:
        sheaf__serve_end(in);
        break;
    case SHEAF__FRAME_REPLY:
    case SHEAF__FRAME_FAILURE:
        sheaf__reply_end(peer, in);
        break;
    case SHEAF__FRAME_CANCEL:
        sheaf__serve_cancel(peer, in->frame.id);
        break;
    case SHEAF__FRAME_GOODBYE:
        part(peer, &in->meta);
        return sheaf__error_copy(err, &peer->cause);
    default: /* BEAT and BELL have done their work by coming */
        break;
    }
    return SHEAF_OK;
}

/* Lets one lane move. False: the session is over. */
static bool progress_lane(struct sheaf__peer *peer, struct sheaf__lane *lane, bool *worked)
{
    sheaf_error error;
    bool moved = false;
    sheaf_status status = lane->ops->progress(lane, &moved, &error);
    peer->heard |= moved;
    *worked |= moved;
    if (atomic_load(&peer->status) < 0)
        return false;
    if (status >= 0)
        return true;
    /* What it sent before its end counts, a goodbye above all, on whichever lane that came. */
    struct sheaf__lane *other = lane == peer->ctl ? peer->data : peer->ctl;
    bool more = other != lane;
    while (more && atomic_load(&peer->status) == 0) {
        more = false;
        if (other->ops->progress(other, &more, NULL) < 0)
            break;
    }
    sheaf__peer_lose(peer, &error, SHEAF__PEER_LOST);
    return false;
}

static void on_ready(struct sheaf__watch *watch, bool in, bool out)
{
    struct sheaf__peer *peer = SHEAF__CONTAINER(watch, struct sheaf__peer, watch);
    bool worked = false;
    (void)in;
    if (atomic_load(&peer->status) < 0)
        return;
    if (out && watch->out) {
        /* Before the look at the queue: a message that is queued after it asks again. */
        sheaf__poller_want_out(peer->net->poller, watch, false);
        if (!progress_lane(peer, peer->ctl, &worked))
            return;
        if (!peer->ctl->ops->idle(peer->ctl))
            sheaf__poller_want_out(peer->net->poller, watch, true);
        return;
    }
    progress_lane(peer, peer->ctl, &worked);
}

bool sheaf__peer_progress(struct sheaf__peer *peer)
{
    bool worked = false;
    sheaf_error cause;
    if (take_cut(peer, &cause)) {
        sheaf__peer_lose(peer, &cause, SHEAF__PEER_LOST);
        return true;
    }
    /* A socket is progressed when the poller says so. */
    if (peer->data != peer->ctl || peer->watch.fd < 0)
        progress_lane(peer, peer->data, &worked);
    return worked;
}

bool sheaf__peer_arm(struct sheaf__peer *peer)
{
    if (atomic_load(&peer->cut_wanted))
        return false;
    return peer->data->ops->arm(peer->data);
}

void sheaf__peer_disarm(struct sheaf__peer *peer)
{
    peer->data->ops->disarm(peer->data);
}

/* ---- beginning ---- */

static sheaf_status make_shm_lane(struct sheaf__peer *peer, struct sheaf__conn *conn,
                                  const struct sheaf__receiver *receiver, sheaf_error *err)
{
    const struct sheaf__bell bell = {ring_bell, peer};
    const struct sheaf__offer *answer = &conn->handshake.offer;
    if (!conn->dialer)
        conn->bell = sheaf__segment_open_pipe(answer->bell_pid, answer->bell_fd);
    peer->bell = conn->bell;
    conn->bell = -1;
    /* Before the stream takes its copy, which would close the descriptor a second time. */
    sheaf__segment_seal(&conn->segment);
    struct sheaf__stream *stream =
        sheaf__stream_of_segment(&conn->segment, conn->dialer ? 0 : 1, &bell);
    if (!stream)
        return sheaf__no_memory(err, "a peer");
    conn->segment = (struct sheaf__segment){.fd = -1};
    struct sheaf__lane *data = sheaf__lane_of_stream(stream, receiver, data_blocked, peer);
    if (!data) {
        sheaf__stream_free(stream);
        return sheaf__no_memory(err, "a peer");
    }
    peer->data = data;
    return SHEAF_OK;
}

static sheaf_status make_ucx_lane(struct sheaf__peer *peer, struct sheaf__conn *conn,
                                  const struct sheaf__receiver *receiver, sheaf_error *err)
{
    const struct sheaf__offer *answer = &conn->handshake.offer;
    if (!conn->dialer)
        SHEAF__TRY(sheaf__ucx_connect(conn->ucx, answer->ucx, answer->ucx_size, err));
    struct sheaf__lane *data = sheaf__ucx_lane(conn->ucx, receiver, data_blocked, peer);
    if (!data)
        return sheaf__no_memory(err, "a peer");
    conn->ucx = NULL;
    peer->data = data;
    return SHEAF_OK;
}

static sheaf_status make_lanes(struct sheaf__peer *peer, struct sheaf__conn *conn, sheaf_error *err)
{
    const struct sheaf__receiver receiver = {.begin = begin, .end = end, .user = peer};
    enum sheaf__lane_kind kind = (enum sheaf__lane_kind)conn->handshake.offer.lane;
    peer->ctl = sheaf__lane_of_stream(conn->stream, &receiver, ctl_blocked, peer);
    if (!peer->ctl)
        return sheaf__no_memory(err, "a peer");
    conn->stream = NULL;
    peer->data = peer->ctl;
    if (kind == SHEAF__LANE_SHM)
        return make_shm_lane(peer, conn, &receiver, err);
    if (kind == SHEAF__LANE_UCX)
        return make_ucx_lane(peer, conn, &receiver, err);
    return SHEAF_OK;
}

/* What a lane has besides the connection only wakes whoever sleeps: the lane itself is looked at in every round. */
static sheaf_status watch_data(struct sheaf__peer *peer, sheaf_error *err)
{
    peer->data_watch = (struct sheaf__watch){.fd = peer->data->fd, .quiet = true};
    if (peer->data->fd < 0)
        return SHEAF_OK;
    return sheaf__poller_add(peer->net->poller, &peer->data_watch, err);
}

/* The socket is watched for the peer from now on. */
static sheaf_status move_watch(struct sheaf__peer *peer, struct sheaf__conn *conn, sheaf_error *err)
{
    peer->watch = (struct sheaf__watch){.fd = conn->watch.fd, .fn = on_ready};
    if (conn->watch.fd < 0)
        return SHEAF_OK;
    sheaf__poller_remove(peer->net->poller, &conn->watch);
    conn->watch.fd = -1;
    return sheaf__poller_add(peer->net->poller, &peer->watch, err);
}

static void tell_up(struct sheaf__peer *peer)
{
    struct sheaf__net *net = peer->net;
    struct sheaf__list_node *node = sheaf__list_first(&net->events);
    for (; node; node = sheaf__list_next(&net->events, node)) {
        struct sheaf__net_events *e = SHEAF__CONTAINER(node, struct sheaf__net_events, node);
        if (e->up)
            e->up(peer, e->user);
    }
}

sheaf_status sheaf__peer_establish(struct sheaf__conn *conn, sheaf_error *err)
{
    struct sheaf__net *net = conn->net;
    struct sheaf__peer *peer = sheaf__calloc(1, sizeof(*peer));
    if (!peer)
        return sheaf__no_memory(err, "a peer");
    sheaf__object_init(&peer->object, &peer_class);
    peer->net = sheaf__ref(net);
    peer->bell = -1;
    peer->task = conn->handshake.peer.task;
    peer->incarnation = conn->handshake.peer.incarnation;
    const char *listens = conn->handshake.peer.address;
    sheaf__str_copy(peer->address, sizeof(peer->address), *listens ? listens : conn->address);
    sheaf__list_init(&peer->calls);
    peer->last_heard = sheaf__clock_now();
    sheaf_status status = make_lanes(peer, conn, err);
    if (status == SHEAF_OK)
        status = move_watch(peer, conn, err);
    if (status == SHEAF_OK)
        status = watch_data(peer, err);
    if (status < 0) {
        sheaf__unref(peer);
        return status;
    }
    if (peer->watch.fd >= 0 && peer->data == peer->ctl)
        net->sockets_with_data++;
    tell_up(peer);
    sheaf__mutex_lock(&net->lock);
    sheaf__list_append(&net->peers, &peer->node);
    net->changes++;
    sheaf__cond_broadcast(&net->changed);
    sheaf__mutex_unlock(&net->lock);
    /* What the stream has read ahead is not announced by the poller. */
    bool worked = false;
    progress_lane(peer, peer->ctl, &worked);
    return SHEAF_OK;
}

/* ---- signs of life ---- */

void sheaf__peer_beat(struct sheaf__peer *peer)
{
    if (atomic_exchange_explicit(&peer->spoke, false, memory_order_relaxed))
        return;
    struct sheaf__message beat = {.frame.type = SHEAF__FRAME_BEAT};
    peer->ctl->ops->post(peer->ctl, &beat, NULL);
}

/* For the case that it was only slow: it finds out why nobody answers. */
static void give_up_silent(struct sheaf__peer *peer, double silent)
{
    sheaf_error cause;
    struct sheaf__message bye = {
        .frame = {.type = SHEAF__FRAME_GOODBYE, .meta_size = sizeof(cause)}, .meta = &cause};
    sheaf__error(&cause, SHEAF_ERR_UNAVAILABLE,
                 "it heard nothing from this task for %.1f s and goes on without it", silent);
    peer->ctl->ops->post(peer->ctl, &bye, NULL);
    sheaf__error(&cause, SHEAF_ERR_UNAVAILABLE, "nothing was heard from it for %.1f s", silent);
    sheaf__peer_lose(peer, &cause, SHEAF__PEER_LOST);
}

void sheaf__peer_timers(struct sheaf__peer *peer, int64_t now, bool stalled)
{
    if (peer->heard || stalled)
        peer->last_heard = now;
    peer->heard = false;
    if (now - peer->last_heard > peer->net->silence)
        give_up_silent(peer, (double)(now - peer->last_heard) / (double)SHEAF__S);
}
