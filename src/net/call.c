/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that go out, and the replies to them. */
#include "net/call.h"

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"
#include "net/state.h"

#include <string.h>

/* PENDING until the driver makes it DONE; SLEEPING, or PARKED on the lane's word, while its thread sleeps, so that only
 * then it is woken. */
enum { IDLE, PENDING, SLEEPING, PARKED, DONE };

/* ---- pending requests of a peer ---- */

static bool enter(struct sheaf__peer *peer, struct sheaf__request *request)
{
    size_t i = peer->free_hint;
    while (i < peer->slot_count && peer->slots[i].request)
        i++;
    if (i == peer->slot_count)
        for (i = 0; i < peer->slot_count && peer->slots[i].request;)
            i++;
    if (i == peer->slot_count) {
        size_t capacity = peer->slot_count;
        if (!sheaf__array_reserve((void **)&peer->slots, &capacity, i + 1, sizeof(*peer->slots)))
            return false;
        memset(peer->slots + i, 0, (capacity - i) * sizeof(*peer->slots));
        peer->slot_count = capacity;
    }
    peer->slots[i].request = request;
    peer->slots[i].turn++;
    peer->free_hint = (uint32_t)i;
    request->id = (uint64_t)peer->slots[i].turn << 32 | i;
    return true;
}

/* Takes the request with that id out of its slot; NULL: it is not there any more. */
static struct sheaf__request *take(struct sheaf__peer *peer, uint64_t id)
{
    size_t i = id & UINT32_MAX;
    struct sheaf__request *request = NULL;
    sheaf__mutex_lock(&peer->lock);
    if (i < peer->slot_count && peer->slots[i].turn == id >> 32) {
        request = peer->slots[i].request;
        peer->slots[i].request = NULL;
        peer->free_hint = (uint32_t)i;
    }
    sheaf__mutex_unlock(&peer->lock);
    return request;
}

/* ---- completion; driver ---- */

static void poke(_Atomic uint32_t *word)
{
    atomic_fetch_add(word, 1);
    sheaf__segment_wake(word);
}

static void complete(struct sheaf__request *request)
{
    struct sheaf__net *net = request->peer->net;
    int pending = PENDING;
    request->status = request->error.status < 0 ? request->error.status : SHEAF_OK;
    if (request->done) {
        atomic_store_explicit(&request->state, DONE, memory_order_relaxed);
        request->done(request, request->user);
        return;
    }
    if (atomic_compare_exchange_strong(&request->state, &pending, DONE))
        return;
    if (pending == PARKED) {
        struct sheaf__peer *peer = request->peer;
        atomic_store(&request->state, DONE); /* it may be gone from here on */
        poke(peer->data->ops->word(peer->data));
        return;
    }
    sheaf__mutex_lock(&net->lock);
    atomic_store(&request->state, DONE);
    sheaf__cond_signal(&request->cond);
    sheaf__mutex_unlock(&net->lock);
}

static void complete_with(struct sheaf__request *request, const sheaf_error *cause)
{
    request->error = *cause;
    complete(request);
}

void sheaf__reply_begin(struct sheaf__peer *peer, struct sheaf__incoming *in)
{
    struct sheaf__request *request = take(peer, in->frame.id);
    in->request = request;
    in->sink.discard = true;
    if (!request)
        return;
    size_t capacity = sheaf__parts_size(request->into, request->into_count);
    if (in->frame.payload_size > capacity) {
        sheaf__error(&request->error, SHEAF_ERR_INVALID_ARGUMENT,
                     SHEAF__TASK " replied with %zu bytes, expected at most %zu", peer->task.job,
                     peer->task.index, (size_t)in->frame.payload_size, capacity);
        return;
    }
    in->sink.discard = false;
    in->sink.parts = request->into;
    in->sink.count = request->into_count;
}

void sheaf__reply_end(struct sheaf__peer *peer, struct sheaf__incoming *in)
{
    struct sheaf__request *request = in->request;
    (void)peer;
    in->request = NULL;
    if (!request)
        return;
    if (in->frame.type == SHEAF__FRAME_FAILURE) {
        if (!sheaf__error_unpack(&request->error, in->meta.data, in->meta.size))
            sheaf__error(&request->error, SHEAF_ERR_INTERNAL, "a failure without an error");
    } else {
        if (in->meta.size > 0) {
            struct sheaf__buf meta = request->reply_meta;
            request->reply_meta = in->meta;
            in->meta = meta;
        }
        request->reply_size = in->frame.payload_size;
    }
    complete(request);
}

static struct sheaf__request *take_incoming(struct sheaf__lane *lane)
{
    struct sheaf__request *request = lane->in.request;
    lane->in.request = NULL;
    return request;
}

void sheaf__reply_lost(struct sheaf__peer *peer)
{
    struct sheaf__request *request = take_incoming(peer->ctl);
    if (request)
        complete_with(request, &peer->cause);
    request = take_incoming(peer->data);
    if (request)
        complete_with(request, &peer->cause);
    for (size_t i = 0;; i++) {
        sheaf__mutex_lock(&peer->lock);
        bool more = i < peer->slot_count;
        request = more ? peer->slots[i].request : NULL;
        if (request)
            peer->slots[i].request = NULL;
        sheaf__mutex_unlock(&peer->lock);
        if (!more)
            return;
        if (request)
            complete_with(request, &peer->cause);
    }
}

/* ---- calling ---- */

static sheaf_status check_sizes(size_t meta_size, uint32_t kind, sheaf_error *err)
{
    if (meta_size > SHEAF__META_MOST)
        return sheaf__error(err, SHEAF_ERR_RESOURCE_EXHAUSTED,
                            "a request's meta part of %zu bytes is too large", meta_size);
    if (kind == 0 || kind >= SHEAF__CALL_KINDS)
        return sheaf__error(err, SHEAF_ERR_INTERNAL, "request of unknown kind %u", kind);
    return SHEAF_OK;
}

static sheaf_status enter_locked(struct sheaf__peer *peer, struct sheaf__request *request,
                                 uint64_t *id, sheaf_error *err)
{
    /* The status again with the lock: the loss of a peer takes what is in the slots after it has set it. */
    SHEAF__TRY(sheaf__peer_status(peer, err));
    sheaf__mutex_lock(&peer->lock);
    sheaf_status status =
        atomic_load(&peer->status) < 0 ? sheaf__error_copy(err, &peer->cause) : SHEAF_OK;
    if (status == SHEAF_OK && !enter(peer, request))
        status = sheaf__no_memory(err, "a request");
    *id = request->id;
    sheaf__mutex_unlock(&peer->lock);
    return status;
}

sheaf_status sheaf__request_start(struct sheaf__peer *peer, struct sheaf__request *request,
                                  sheaf_error *err)
{
    SHEAF__TRY(check_sizes(request->meta_size, request->kind, err));
    request->peer = peer;
    request->status = SHEAF_OK;
    request->error.status = SHEAF_OK;
    request->reply_size = 0;
    sheaf__buf_clear(&request->reply_meta);
    atomic_store_explicit(&request->state, PENDING, memory_order_relaxed);
    uint64_t id; /* once it is sent the request may be over, and gone */
    SHEAF__TRY(enter_locked(peer, request, &id, err));
    struct sheaf__message m = {
        .frame = {.type = SHEAF__FRAME_REQUEST,
                  .kind = (uint16_t)request->kind,
                  .meta_size = (uint32_t)request->meta_size,
                  .id = id},
        .meta = request->meta,
        .parts = request->parts,
        .count = request->count,
        .owner = request,
    };
    sheaf_status status = sheaf__peer_post(peer, &m, err);
    /* If it is not there any more, the loss of the peer has ended it, and its error says so. */
    return status < 0 && take(peer, id) ? status : SHEAF_OK;
}

static bool is_done(void *user)
{
    struct sheaf__request *request = user;
    return atomic_load_explicit(&request->state, memory_order_acquire) == DONE;
}

/* Nobody will look at the request's memory any more. False: it is done already. */
static bool give_up(struct sheaf__request *request)
{
    struct sheaf__peer *peer = request->peer;
    struct sheaf__message m = {.frame = {.type = SHEAF__FRAME_CANCEL, .id = request->id}};
    sheaf_error error;
    bool torn = false;
    struct sheaf__drive drive = sheaf__drive_lock(peer->net);
    bool open = !is_done(request);
    if (open) {
        if (!take(peer, request->id)) {
            struct sheaf__lane *lane = peer->ctl->in.request == request ? peer->ctl : peer->data;
            if (lane->in.request == request) {
                take_incoming(lane);
                torn = !lane->ops->discard(lane);
            }
        }
        torn |= !peer->ctl->ops->disown(peer->ctl, request);
        if (peer->data != peer->ctl)
            torn |= !peer->data->ops->disown(peer->data, request);
        sheaf__peer_post(peer, &m, NULL);
    }
    sheaf__drive_unlock(peer->net, drive);
    if (torn) {
        sheaf__error(&error, SHEAF_ERR_UNAVAILABLE, "a message to or from it was given up midway");
        sheaf__peer_cut(peer, &error);
    }
    return open;
}

static void on_cancel(void *user)
{
    poke(user);
}

static sheaf_status check_wait(const struct sheaf__wait *wait, sheaf_error *err)
{
    if (wait->token != SHEAF__NO_TOKEN)
        SHEAF__TRY(sheaf__token_check(wait->token, err));
    if (sheaf__clock_left(wait->deadline) > 0)
        return SHEAF_OK;
    return sheaf__wait_over(wait, "a call", err);
}

/* Sleeps on the word of the lane: the reply wakes this thread and no other, which then receives it itself. */
static sheaf_status park_until_done(struct sheaf__request *request, _Atomic uint32_t *word,
                                    const struct sheaf__wait *wait, sheaf_error *err)
{
    struct sheaf__peer *peer = request->peer;
    struct sheaf__token_callback callback = {.fn = on_cancel, .user = word};
    sheaf_status status = SHEAF_OK;
    int pending = PENDING;
    if (wait->token != SHEAF__NO_TOKEN)
        sheaf__token_on(wait->token, &callback);
    atomic_compare_exchange_strong(&request->state, &pending, PARKED);
    bool armed = false;
    while (status == SHEAF_OK) {
        uint32_t seen = atomic_load(word);
        armed = sheaf__net_arm_word(peer->net, peer->data);
        if (is_done(request))
            break;
        status = check_wait(wait, err);
        if (status < 0)
            break;
        sheaf__segment_park(word, seen, wait->deadline);
        sheaf__net_spin(peer->net, is_done, request);
        armed = false;
    }
    if (armed)
        sheaf__net_rearm(peer->net);
    if (wait->token != SHEAF__NO_TOKEN)
        sheaf__token_off(wait->token, &callback);
    return status;
}

static sheaf_status sleep_until_done(struct sheaf__request *request, const struct sheaf__wait *wait,
                                     sheaf_error *err)
{
    struct sheaf__net *net = request->peer->net;
    sheaf_status status = SHEAF_OK;
    int pending = PENDING;
    sheaf__mutex_lock(&net->lock);
    atomic_compare_exchange_strong(&request->state, &pending, SLEEPING);
    while (!is_done(request) && status == SHEAF_OK)
        status = sheaf__cond_wait(&request->cond, &net->lock, wait, err);
    sheaf__mutex_unlock(&net->lock);
    return status;
}

sheaf_status sheaf__request_finish(struct sheaf__request *request, const struct sheaf__wait *wait,
                                   sheaf_error *err)
{
    struct sheaf__peer *peer = request->peer;
    sheaf_status status = SHEAF_OK;
    if (!is_done(request))
        sheaf__net_spin(peer->net, is_done, request);
    if (!is_done(request)) {
        _Atomic uint32_t *word = peer->data->ops->word(peer->data);
        status =
            word ? park_until_done(request, word, wait, err) : sleep_until_done(request, wait, err);
    }
    if (status < 0 && give_up(request)) {
        sheaf__error_set_peer(err, peer->task.job, peer->task.index);
        request->status = status;
    } else {
        status = request->status < 0 ? sheaf__error_copy(err, &request->error) : SHEAF_OK;
    }
    atomic_store_explicit(&request->state, IDLE, memory_order_relaxed);
    return status;
}

bool sheaf__request_ready(struct sheaf__request *request)
{
    if (!is_done(request))
        sheaf__net_poll(request->peer->net);
    return is_done(request);
}

void sheaf__request_cancel(struct sheaf__request *request, const sheaf_error *cause)
{
    struct sheaf__net *net = request->peer->net;
    struct sheaf__drive drive = sheaf__drive_lock(net);
    if (give_up(request))
        complete_with(request, cause);
    sheaf__drive_unlock(net, drive);
}

void sheaf__request_clear(struct sheaf__request *request)
{
    sheaf__buf_free(&request->reply_meta);
}

sheaf_status sheaf__call(struct sheaf__peer *peer, struct sheaf__request *request,
                         const struct sheaf__wait *wait, sheaf_error *err)
{
    SHEAF__TRY(sheaf__request_start(peer, request, err));
    return sheaf__request_finish(request, wait, err);
}

sheaf_status sheaf__post(struct sheaf__peer *peer, const struct sheaf__post *post, sheaf_error *err)
{
    SHEAF__TRY(check_sizes(post->meta_size, post->kind, err));
    struct sheaf__message m = {
        .frame = {.type = SHEAF__FRAME_POST,
                  .kind = (uint16_t)post->kind,
                  .meta_size = (uint32_t)post->meta_size},
        .meta = post->meta,
        .parts = post->parts,
        .count = post->count,
        .copy = post->sent == NULL,
        .sent = post->sent,
        .user = post->user,
        .owner = post->owner,
    };
    return sheaf__peer_post(peer, &m, err);
}

void sheaf__post_disown(struct sheaf__peer *peer, const void *owner)
{
    sheaf_error error;
    struct sheaf__drive drive = sheaf__drive_lock(peer->net);
    bool whole = peer->data->ops->disown(peer->data, owner);
    sheaf__drive_unlock(peer->net, drive);
    if (whole)
        return;
    sheaf__error(&error, SHEAF_ERR_UNAVAILABLE, "a message to it was given up midway");
    sheaf__peer_cut(peer, &error);
}
