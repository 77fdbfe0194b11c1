/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that come in: from the frame to the service and back with the answer. */
#include "base/error.h"
#include "base/mem.h"
#include "net/state.h"

#include <string.h>

/* Kept for the next request: calls, and memory with each of them; besides, large payloads together. */
enum { POOL_MOST = 64, KEPT_MOST = 64 << 10, PAYLOADS_KEPT = 256 << 20 };
#define PAYLOAD_LIMIT ((size_t)1 << 30)

struct sheaf__call {
    struct sheaf__list_node node; /* of peer->calls, or of the net's pool */
    struct sheaf__peer *peer;     /* counted */
    const struct sheaf__service *service;
    struct sheaf__frame frame;
    struct sheaf__buf meta;
    struct sheaf__buf payload; /* if it is kept here */
    struct sheaf__part *parts; /* where it goes */
    size_t count, capacity;
    bool placed, taken; /* by the service: not kept here */
    void *user;
    /* Under peer->lock. */
    bool abandoned;
    struct sheaf__token *token;
};

/* ---- memory ---- */

static void free_call(struct sheaf__call *call)
{
    sheaf__buf_free(&call->meta);
    sheaf__buf_free(&call->payload);
    sheaf__free(call->parts);
    sheaf__free(call);
}

void sheaf__serve_free_pool(struct sheaf__net *net)
{
    struct sheaf__list_node *node;
    while ((node = sheaf__list_pop(&net->call_pool)))
        free_call(SHEAF__CONTAINER(node, struct sheaf__call, node));
    for (size_t i = 0; i < net->payload_count; i++)
        sheaf__buf_free(&net->payloads[i]);
}

/* Fresh memory for a large payload would be cleared by the system page by page, which costs as much as the payload itself. */
static void keep_payload(struct sheaf__net *net, struct sheaf__buf *payload)
{
    const size_t most = sizeof(net->payloads) / sizeof(net->payloads[0]);
    sheaf__mutex_lock(&net->lock);
    if (net->payload_count < most && payload->capacity <= PAYLOADS_KEPT - net->payload_bytes) {
        net->payload_bytes += payload->capacity;
        net->payloads[net->payload_count++] = *payload;
        *payload = (struct sheaf__buf){0};
    }
    sheaf__mutex_unlock(&net->lock);
    sheaf__buf_free(payload);
}

/* The smallest kept one that is large enough, if any. */
static void take_payload(struct sheaf__net *net, size_t size, struct sheaf__buf *payload)
{
    sheaf__mutex_lock(&net->lock);
    size_t best = net->payload_count;
    for (size_t i = 0; i < net->payload_count; i++)
        if (net->payloads[i].capacity >= size &&
            (best == net->payload_count ||
             net->payloads[i].capacity < net->payloads[best].capacity))
            best = i;
    if (best < net->payload_count) {
        *payload = net->payloads[best];
        net->payload_bytes -= payload->capacity;
        net->payloads[best] = net->payloads[--net->payload_count];
    }
    sheaf__mutex_unlock(&net->lock);
}

static struct sheaf__call *take_call(struct sheaf__net *net)
{
    sheaf__mutex_lock(&net->lock);
    struct sheaf__list_node *node = sheaf__list_pop(&net->call_pool);
    net->call_pool_size -= node != NULL;
    sheaf__mutex_unlock(&net->lock);
    if (node)
        return SHEAF__CONTAINER(node, struct sheaf__call, node);
    return sheaf__calloc(1, sizeof(struct sheaf__call));
}

/* The call is over. Its memory is kept for the next one if it is little. */
static void release(struct sheaf__call *call)
{
    struct sheaf__peer *peer = call->peer;
    struct sheaf__net *net = peer->net;
    sheaf__mutex_lock(&peer->lock);
    sheaf__list_remove(&call->node);
    struct sheaf__token *token = call->token;
    sheaf__mutex_unlock(&peer->lock);
    sheaf__token_unref(token);
    if (call->meta.capacity > KEPT_MOST)
        sheaf__buf_free(&call->meta);
    if (call->payload.capacity > KEPT_MOST)
        keep_payload(net, &call->payload);
    struct sheaf__buf meta = call->meta, payload = call->payload;
    struct sheaf__part *parts = call->parts;
    size_t capacity = call->capacity;
    *call = (struct sheaf__call){
        .meta = meta, .payload = payload, .parts = parts, .capacity = capacity};
    sheaf__mutex_lock(&net->lock);
    bool keep = net->call_pool_size < POOL_MOST;
    net->call_pool_size += keep;
    if (keep)
        sheaf__list_append(&net->call_pool, &call->node);
    sheaf__mutex_unlock(&net->lock);
    if (!keep)
        free_call(call);
    sheaf__peer_unref(peer);
}

/* ---- looking ---- */

struct sheaf__peer *sheaf__call_peer(const struct sheaf__call *call)
{
    return call->peer;
}

struct sheaf__bytes sheaf__call_meta(const struct sheaf__call *call)
{
    return (struct sheaf__bytes){call->meta.data, call->meta.size};
}

size_t sheaf__call_payload_size(const struct sheaf__call *call)
{
    return call->frame.payload_size;
}

void *sheaf__call_payload(const struct sheaf__call *call)
{
    return call->placed || call->taken ? NULL : call->payload.data;
}

void **sheaf__call_user(struct sheaf__call *call)
{
    return &call->user;
}

bool sheaf__call_abandoned(struct sheaf__call *call)
{
    sheaf__mutex_lock(&call->peer->lock);
    bool abandoned = call->abandoned;
    sheaf__mutex_unlock(&call->peer->lock);
    return abandoned;
}

static void cancel_token(struct sheaf__token *token)
{
    sheaf__token_cancel_with(token, SHEAF_ERR_CANCELLED, "nobody waits for the answer any more");
}

struct sheaf__token *sheaf__call_token(struct sheaf__call *call)
{
    struct sheaf__peer *peer = call->peer;
    sheaf__mutex_lock(&peer->lock);
    if (!call->token)
        call->token = sheaf__token_new(peer->net->token);
    struct sheaf__token *token = call->token;
    bool abandoned = call->abandoned;
    sheaf__mutex_unlock(&peer->lock);
    if (token && abandoned)
        cancel_token(token);
    return token;
}

sheaf_status sheaf__call_place(struct sheaf__call *call, const struct sheaf__part *parts,
                               size_t count, sheaf_error *err)
{
    if (sheaf__parts_size(parts, count) != call->frame.payload_size)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "a payload of %zu bytes has come, expected %zu",
                            (size_t)call->frame.payload_size, sheaf__parts_size(parts, count));
    if (!sheaf__array_reserve((void **)&call->parts, &call->capacity, count, sizeof(*parts)))
        return sheaf__no_memory(err, "a request");
    memcpy(call->parts, parts, count * sizeof(*parts));
    call->count = count;
    call->placed = true;
    return SHEAF_OK;
}

void sheaf__call_take(struct sheaf__call *call)
{
    call->taken = true;
}

/* ---- answering ---- */

static void post_failure(struct sheaf__peer *peer, uint64_t id, const sheaf_error *err)
{
    struct sheaf__message m = {
        .frame = {.type = SHEAF__FRAME_FAILURE, .meta_size = sizeof(*err), .id = id},
        .meta = err,
    };
    sheaf__peer_post(peer, &m, NULL);
}

void sheaf__call_fail(struct sheaf__call *call, const sheaf_error *err)
{
    if (call->frame.type == SHEAF__FRAME_REQUEST)
        post_failure(call->peer, call->frame.id, err);
    release(call);
}

void sheaf__call_reply(struct sheaf__call *call, const struct sheaf__reply *reply)
{
    static const struct sheaf__reply empty;
    const struct sheaf__reply *r = reply ? reply : &empty;
    sheaf_error error;
    if (call->frame.type != SHEAF__FRAME_REQUEST) {
        release(call);
        if (r->sent)
            r->sent(r->user);
        return;
    }
    struct sheaf__message m = {
        .frame = {.type = SHEAF__FRAME_REPLY,
                  .meta_size = (uint32_t)r->meta_size,
                  .id = call->frame.id},
        .meta = r->meta,
        .parts = r->parts,
        .count = r->count,
        .copy = r->sent == NULL,
        .sent = r->sent,
        .user = r->user,
    };
    sheaf_status status = r->meta_size > SHEAF__META_MOST
                              ? sheaf__error(&error, SHEAF_ERR_RESOURCE_EXHAUSTED,
                                             "the reply's meta part is too large")
                              : sheaf__peer_post(call->peer, &m, &error);
    if (status < 0) {
        if (status != SHEAF_ERR_UNAVAILABLE)
            post_failure(call->peer, call->frame.id, &error);
        if (r->sent)
            r->sent(r->user);
    }
    release(call);
}

/* ---- receiving ---- */

/* The payload goes to memory of the call. */
static sheaf_status keep(struct sheaf__call *call, sheaf_error *err)
{
    const struct sheaf__service *service = call->service;
    size_t size = call->frame.payload_size;
    size_t limit = service->payload_limit ? service->payload_limit : PAYLOAD_LIMIT;
    if (size > limit)
        return sheaf__error(err, SHEAF_ERR_RESOURCE_EXHAUSTED,
                            "a request of %zu bytes has come, the limit is %zu", size, limit);
    if (size > KEPT_MOST && size > call->payload.capacity) {
        sheaf__buf_free(&call->payload);
        take_payload(call->peer->net, size, &call->payload);
    }
    sheaf__buf_clear(&call->payload);
    void *data = sheaf__buf_extend(&call->payload, size);
    if (!data)
        return sheaf__no_memory(err, "a request");
    if (!sheaf__array_reserve((void **)&call->parts, &call->capacity, 1, sizeof(*call->parts)))
        return sheaf__no_memory(err, "a request");
    call->parts[0] = (struct sheaf__part){data, size};
    call->count = 1;
    return SHEAF_OK;
}

static void take(void *user, const void *data, size_t size)
{
    struct sheaf__call *call = user;
    call->service->take(call, data, size, call->service->user);
}

/* What the service has begun with the payload ends without it. */
static void drop(struct sheaf__call *call)
{
    if (call->service->place && call->service->drop)
        call->service->drop(call, call->service->user);
}

/* Where the payload goes: the service says, or memory of the call. A lane that cannot hand out pieces
 * has it all there first. */
static sheaf_status place(struct sheaf__call *call, struct sheaf__incoming *in, sheaf_error *err)
{
    const struct sheaf__service *service = call->service;
    if (call->frame.payload_size == 0)
        return SHEAF_OK;
    if (service->place)
        SHEAF__TRY(service->place(call, service->user, err));
    if (call->taken && in->takes) {
        in->sink.take = take;
        in->sink.user = call;
    } else if (!call->placed && keep(call, err) < 0) {
        drop(call);
        return err->status;
    }
    in->sink.parts = call->parts;
    in->sink.count = call->count;
    return SHEAF_OK;
}

/* Answers one that cannot be served, and lets its payload go by. */
static void refuse(struct sheaf__peer *peer, struct sheaf__incoming *in, const sheaf_error *why)
{
    in->sink.discard = true;
    if (in->frame.type == SHEAF__FRAME_REQUEST)
        post_failure(peer, in->frame.id, why);
}

void sheaf__serve_begin(struct sheaf__peer *peer, struct sheaf__incoming *in)
{
    struct sheaf__net *net = peer->net;
    sheaf_error why = {0};
    const struct sheaf__service *service =
        in->frame.kind < SHEAF__CALL_KINDS ? &net->services[in->frame.kind] : NULL;
    if (!service || !service->serve) {
        sheaf__error(&why, SHEAF_ERR_UNIMPLEMENTED,
                     SHEAF__TASK " does not serve requests of kind %d", net->identity.task.job,
                     net->identity.task.index, in->frame.kind);
        refuse(peer, in, &why);
        return;
    }
    struct sheaf__call *call = take_call(net);
    if (!call) {
        sheaf__no_memory(&why, "a request");
        refuse(peer, in, &why);
        return;
    }
    call->peer = sheaf__peer_ref(peer);
    call->service = service;
    call->frame = in->frame;
    /* The meta part changes owner, its old memory is used for the next message. */
    struct sheaf__buf meta = call->meta;
    call->meta = in->meta;
    in->meta = meta;
    sheaf__buf_clear(&in->meta);
    sheaf__mutex_lock(&peer->lock);
    sheaf__list_append(&peer->calls, &call->node);
    sheaf__mutex_unlock(&peer->lock);
    if (place(call, in, &why) < 0) {
        refuse(peer, in, &why);
        release(call);
        return;
    }
    in->call = call;
}

void sheaf__serve_end(struct sheaf__incoming *in)
{
    struct sheaf__call *call = in->call;
    in->call = NULL;
    if (!call)
        return;
    if (call->taken && !in->takes)
        take(call, call->payload.data, call->frame.payload_size);
    call->service->serve(call, call->service->user);
}

void sheaf__serve_broken(struct sheaf__incoming *in)
{
    struct sheaf__call *call = in->call;
    in->call = NULL;
    if (!call)
        return;
    drop(call);
    release(call);
}

void sheaf__net_discard(struct sheaf__net *net, uint32_t kind,
                        bool (*match)(struct sheaf__call *call, void *arg), void *arg)
{
    struct sheaf__list_node *node;
    struct sheaf__drive drive = sheaf__drive_lock(net);
    for (node = sheaf__list_first(&net->peers); node; node = sheaf__list_next(&net->peers, node)) {
        struct sheaf__peer *peer = SHEAF__CONTAINER(node, struct sheaf__peer, node);
        struct sheaf__incoming *in = &peer->data->in;
        struct sheaf__call *call = in->call;
        if (!call || call->frame.kind != kind || !match(call, arg))
            continue;
        in->call = NULL;
        if (!peer->data->ops->discard(peer->data)) {
            sheaf_error cause;
            sheaf__error(&cause, SHEAF_ERR_UNAVAILABLE, "it does not send what it has begun");
            sheaf__peer_cut(peer, &cause);
        }
        release(call);
    }
    sheaf__drive_unlock(net, drive);
}

/* Marks the call given up; its token, with a count, if somebody has asked for it. */
static struct sheaf__token *abandon(struct sheaf__call *call)
{
    call->abandoned = true;
    return sheaf__token_ref(call->token);
}

void sheaf__serve_cancel(struct sheaf__peer *peer, uint64_t id)
{
    struct sheaf__token *token = NULL;
    struct sheaf__list_node *node;
    sheaf__mutex_lock(&peer->lock);
    for (node = sheaf__list_first(&peer->calls); node;
         node = sheaf__list_next(&peer->calls, node)) {
        struct sheaf__call *call = SHEAF__CONTAINER(node, struct sheaf__call, node);
        if (call->frame.id == id && call->frame.type == SHEAF__FRAME_REQUEST)
            token = abandon(call);
    }
    sheaf__mutex_unlock(&peer->lock);
    if (token)
        cancel_token(token);
    sheaf__token_unref(token);
}

void sheaf__serve_lost(struct sheaf__peer *peer)
{
    struct sheaf__list_node *node;
    struct sheaf__token *token;
    do {
        token = NULL;
        sheaf__mutex_lock(&peer->lock);
        for (node = sheaf__list_first(&peer->calls); node && !token;
             node = sheaf__list_next(&peer->calls, node)) {
            struct sheaf__call *call = SHEAF__CONTAINER(node, struct sheaf__call, node);
            if (!call->abandoned)
                token = abandon(call);
        }
        sheaf__mutex_unlock(&peer->lock);
        if (token)
            cancel_token(token);
        sheaf__token_unref(token);
    } while (token);
}

sheaf_status sheaf__net_serve(struct sheaf__net *net, const struct sheaf__service *service,
                              sheaf_error *err)
{
    if (service->kind == 0 || service->kind >= SHEAF__CALL_KINDS || !service->serve || net->started)
        return sheaf__error(err, SHEAF_ERR_INTERNAL, "service %u cannot be added", service->kind);
    if (net->services[service->kind].serve)
        return sheaf__error(err, SHEAF_ERR_ALREADY_EXISTS, "service %u is there already",
                            service->kind);
    net->services[service->kind] = *service;
    return SHEAF_OK;
}

void *sheaf__net_service(struct sheaf__net *net, uint32_t kind)
{
    return kind < SHEAF__CALL_KINDS ? net->services[kind].user : NULL;
}
