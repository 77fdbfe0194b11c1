/* SPDX-License-Identifier: Apache-2.0 */
/* A lane over UCX's active messages. A message is one active message: frame, number and (if small) meta part in its
 * header, the payload as its data, which UCX sends at once or, if large, when the receiver has said where it goes. A large
 * meta part goes ahead as an active message of its own. The receiver handles messages strictly by number. */
#include "net/ucx.h"

#include "base/array.h"
#include "base/error.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/thread.h"
#include "net/net.h"
#include "net/ucx_api.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { AM_MESSAGE = 1, META_INLINE = 1024, PARTS_INLINE = 8, SETTLE_MS = 1000 };

/* What precedes the meta part in the header of an active message. */
struct head {
    struct sheaf__frame frame;
    uint64_t number;
    uint32_t meta_here; /* bytes of the meta part that follow */
    uint32_t meta_only; /* the data is the meta part of the next message */
};

/* A message that UCX has not finished with. */
struct sending {
    struct sheaf__list_node node;
    struct sheaf__ucx *ucx;
    void (*sent)(void *user);
    void *user;
    const void *owner;
    void *copied; /* payload */
    ucp_dt_iov_t *iov;
    ucp_dt_iov_t few[PARTS_INLINE];
    struct head head; /* the meta part follows in memory */
    uint8_t meta[];
};

/* A message that came. */
struct arrival {
    struct sheaf__list_node node;
    struct head head;
    void *desc;     /* UCX's, with the payload or a promise of it; NULL: none */
    uint8_t *bytes; /* payload in memory of ours */
    size_t size;
    bool later; /* a promise */
    uint8_t meta[];
};

struct sheaf__ucx {
    struct sheaf__lane lane;
    const struct sheaf__ucx_api *api;
    bool local;
    ucp_worker_h worker;
    ucp_ep_h ep;
    size_t header_most;
    struct sheaf__receiver receiver;
    void (*blocked)(void *user);
    void *user;

    struct sheaf__mutex lock; /* guards all use of the worker, and what follows */
    struct sheaf__list sending;
    struct sheaf__list ended;    /* through; `sent` is due */
    struct sheaf__list arrivals; /* by number */
    uint64_t next_out, next_in;
    bool stopped;
    bool no_memory;      /* a message that came could not be kept */
    sheaf_error failure; /* status < 0 */

    /* The driver's. */
    struct arrival *current; /* whose payload is on its way */
    _Atomic int receiving;   /* 1: UCX writes into the sink; 0: it is through */
    ucs_status_t received;
    ucp_dt_iov_t *iov;
    size_t iov_capacity;
    struct sheaf__part meta_part; /* where a large meta part goes */
};

static struct sheaf__ucx *of(struct sheaf__lane *lane)
{
    return SHEAF__CONTAINER(lane, struct sheaf__ucx, lane);
}

static sheaf_status failed(struct sheaf__ucx *u, ucs_status_t status, const char *what,
                           sheaf_error *err)
{
    return sheaf__error(err, SHEAF_ERR_UNAVAILABLE, "UCX: %s: %s", what,
                        u->api->ucs_status_string(status));
}

/* ---- sending ---- */

static void free_sending(struct sending *s)
{
    if (s->iov != s->few)
        sheaf__free(s->iov);
    sheaf__free(s->copied);
    sheaf__free(s);
}

/* UCX is through with a message; with the lock. */
static void on_sent(void *request, ucs_status_t status, void *user)
{
    struct sending *s = user;
    struct sheaf__ucx *u = s->ucx;
    if (status != UCS_OK && status != UCS_ERR_CANCELED && u->failure.status == SHEAF_OK)
        failed(u, status, "send", &u->failure);
    sheaf__list_remove(&s->node);
    sheaf__list_append(&u->ended, &s->node);
    u->api->ucp_request_free(request);
}

/* Without the lock: tells those whose memory is free again. */
static void end_sends(struct sheaf__ucx *u)
{
    struct sheaf__list_node *node;
    do {
        sheaf__mutex_lock(&u->lock);
        node = sheaf__list_pop(&u->ended);
        sheaf__mutex_unlock(&u->lock);
        if (node) {
            struct sending *s = SHEAF__CONTAINER(node, struct sending, node);
            if (s->sent)
                s->sent(s->user);
            free_sending(s);
        }
    } while (node);
}

static struct sending *new_sending(struct sheaf__ucx *u, size_t meta, size_t parts)
{
    struct sending *s = sheaf__alloc(sizeof(*s) + meta);
    if (!s)
        return NULL;
    *s = (struct sending){.ucx = u};
    s->iov = parts <= PARTS_INLINE ? s->few : sheaf__alloc_array(parts, sizeof(*s->iov));
    if (s->iov)
        return s;
    sheaf__free(s);
    return NULL;
}

/* Hands an active message to UCX. True: it is through, or has failed (u->failure). With the lock. */
static bool submit(struct sheaf__ucx *u, struct sending *s, size_t header, size_t parts)
{
    const ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE,
        .cb.send = on_sent,
        .user_data = s,
        .datatype = parts == 1 ? ucp_dt_make_contig(1) : ucp_dt_make_iov(),
    };
    const void *data = parts == 1 ? s->iov[0].buffer : (const void *)s->iov;
    size_t count = parts == 1 ? s->iov[0].length : parts;
    sheaf__list_append(&u->sending, &s->node);
    s->head.number = u->next_out++;
    ucs_status_ptr_t request =
        u->api->ucp_am_send_nbx(u->ep, AM_MESSAGE, &s->head, header, data, count, &param);
    if (request && !UCS_PTR_IS_ERR(request))
        return false;
    if (request && u->failure.status == SHEAF_OK)
        failed(u, UCS_PTR_STATUS(request), "send", &u->failure);
    sheaf__list_remove(&s->node);
    return true;
}

/* The parts of a payload, copied if they do not last. */
static size_t fill_iov(struct sending *s, const struct sheaf__message *m, size_t payload)
{
    size_t count = 0, at = 0;
    for (size_t i = 0; i < m->count; i++) {
        if (m->parts[i].size == 0)
            continue;
        if (s->copied)
            memcpy((uint8_t *)s->copied + at, m->parts[i].data, m->parts[i].size);
        else
            s->iov[count++] = (ucp_dt_iov_t){m->parts[i].data, m->parts[i].size};
        at += m->parts[i].size;
    }
    if (s->copied && payload > 0)
        s->iov[count++] = (ucp_dt_iov_t){s->copied, payload};
    return count;
}

/* A meta part that is too large for the header goes ahead. */
static struct sending *new_ahead(struct sheaf__ucx *u, const struct sheaf__message *m)
{
    struct sending *s = new_sending(u, m->frame.meta_size, 1);
    if (!s)
        return NULL;
    memcpy(s->meta, m->meta, m->frame.meta_size);
    s->head = (struct head){.meta_only = 1};
    s->iov[0] = (ucp_dt_iov_t){s->meta, m->frame.meta_size};
    return s;
}

static struct sending *new_message(struct sheaf__ucx *u, const struct sheaf__message *m,
                                   size_t meta_here, size_t *parts)
{
    size_t payload = m->frame.payload_size;
    struct sending *s = new_sending(u, meta_here, m->count + 1);
    if (!s)
        return NULL;
    s->head = (struct head){.frame = m->frame, .meta_here = (uint32_t)meta_here};
    if (meta_here > 0)
        memcpy(s->meta, m->meta, meta_here);
    s->sent = m->sent;
    s->user = m->user;
    s->owner = m->owner;
    if (m->copy && payload > 0 && !(s->copied = sheaf__alloc(payload))) {
        free_sending(s);
        return NULL;
    }
    *parts = fill_iov(s, m, payload);
    return s;
}

static sheaf_status post(struct sheaf__lane *lane, struct sheaf__message *m, sheaf_error *err)
{
    struct sheaf__ucx *u = of(lane);
    size_t parts = 0;
    m->frame.payload_size = sheaf__parts_size(m->parts, m->count);
    bool ahead = m->frame.meta_size > u->header_most - sizeof(struct head);
    struct sending *meta = ahead ? new_ahead(u, m) : NULL;
    struct sending *s =
        ahead && !meta ? NULL : new_message(u, m, ahead ? 0 : m->frame.meta_size, &parts);
    if (!s) {
        if (meta)
            free_sending(meta);
        return sheaf__no_memory(err, "a message");
    }
    sheaf__mutex_lock(&u->lock);
    sheaf_status status = SHEAF_OK;
    if (u->stopped)
        status = sheaf__error(err, SHEAF_ERR_UNAVAILABLE, "the connection is closed");
    else if (u->failure.status < 0)
        status = sheaf__error_copy(err, &u->failure);
    bool through = status < 0;
    if (status == SHEAF_OK) {
        if (meta && submit(u, meta, sizeof(struct head), 1))
            sheaf__list_append(&u->ended, &meta->node);
        meta = NULL;
        size_t header = sizeof(struct head) + s->head.meta_here;
        through = submit(u, s, header, parts);
        if (!through)
            u->blocked(u->user);
    }
    sheaf__mutex_unlock(&u->lock);
    if (meta)
        free_sending(meta);
    if (through) {
        if (status == SHEAF_OK && s->sent)
            s->sent(s->user);
        free_sending(s);
    }
    return status;
}

/* ---- receiving ---- */

static void free_arrival(struct arrival *a)
{
    sheaf__free(a->bytes);
    sheaf__free(a);
}

/* Puts it where its number belongs, which is at the end but for rare cases. */
static void enqueue(struct sheaf__ucx *u, struct arrival *a)
{
    struct sheaf__list_node *at = u->arrivals.head.prev;
    while (at != &u->arrivals.head &&
           SHEAF__CONTAINER(at, struct arrival, node)->head.number > a->head.number)
        at = at->prev;
    sheaf__list_insert_before(at->next, &a->node);
}

/* UCX has a message; within its progress, with the lock. */
static ucs_status_t on_message(void *arg, const void *header, size_t header_size, void *data,
                               size_t size, const ucp_am_recv_param_t *param)
{
    struct sheaf__ucx *u = arg;
    struct head head = {.meta_here = UINT32_MAX};
    if (header_size >= sizeof(head))
        memcpy(&head, header, sizeof(head));
    if (head.meta_here != header_size - sizeof(head)) {
        sheaf__error(&u->failure, SHEAF_ERR_DATA_LOSS, "a message is malformed");
        return UCS_OK;
    }
    struct arrival *a = sheaf__alloc(sizeof(*a) + head.meta_here);
    if (!a) {
        u->no_memory = true;
        return UCS_OK;
    }
    *a = (struct arrival){.head = head, .size = size};
    memcpy(a->meta, (const uint8_t *)header + sizeof(head), head.meta_here);
    a->later = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
    bool keep = a->later || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA);
    if (keep) {
        a->desc = data;
    } else if (size > 0) {
        a->bytes = sheaf__memdup(data, size);
        if (!a->bytes) {
            u->no_memory = true;
            free_arrival(a);
            return UCS_OK;
        }
    }
    enqueue(u, a);
    return keep ? UCS_INPROGRESS : UCS_OK;
}

static void on_received(void *request, ucs_status_t status, size_t length, void *user)
{
    struct sheaf__ucx *u = user;
    (void)length;
    u->received = status;
    atomic_store(&u->receiving, 0);
    if (request)
        u->api->ucp_request_free(request);
}

/* Copies bytes into the sink. */
static void fill_sink(struct sheaf__sink *sink, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; !sink->discard && size > 0 && i < sink->count; i++) {
        size_t n = sink->parts[i].size < size ? sink->parts[i].size : size;
        if (n > 0)
            memcpy(sink->parts[i].data, bytes, n);
        bytes += n;
        size -= n;
    }
}

/* Describes the first `size` bytes of the sink to UCX; 0: no memory. */
static size_t describe_sink(struct sheaf__ucx *u, const struct sheaf__sink *sink, size_t size)
{
    size_t count = 0;
    if (!sheaf__array_reserve((void **)&u->iov, &u->iov_capacity, sink->count + 1, sizeof(*u->iov)))
        return 0;
    for (size_t i = 0; size > 0 && i < sink->count; i++) {
        size_t n = sink->parts[i].size < size ? sink->parts[i].size : size;
        if (n > 0)
            u->iov[count++] = (ucp_dt_iov_t){sink->parts[i].data, n};
        size -= n;
    }
    return count;
}

/* Lets UCX fetch a payload into the sink. */
static sheaf_status fetch(struct sheaf__ucx *u, struct arrival *a, sheaf_error *err)
{
    const ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE,
        .cb.recv_am = on_received,
        .user_data = u,
        .datatype = ucp_dt_make_iov(),
    };
    size_t count = describe_sink(u, &u->lane.in.sink, a->size);
    if (count == 0)
        return sheaf__no_memory(err, "a message");
    u->received = UCS_OK;
    atomic_store(&u->receiving, 1);
    sheaf__mutex_lock(&u->lock);
    ucs_status_ptr_t request =
        u->api->ucp_am_recv_data_nbx(u->worker, a->desc, u->iov, count, &param);
    a->desc = NULL;
    sheaf__mutex_unlock(&u->lock);
    if (!request || UCS_PTR_IS_ERR(request)) {
        atomic_store(&u->receiving, 0);
        u->received = request ? UCS_PTR_STATUS(request) : UCS_OK;
    }
    return SHEAF_OK;
}

static void release_desc(struct sheaf__ucx *u, struct arrival *a)
{
    sheaf__mutex_lock(&u->lock);
    if (a->desc && !u->stopped)
        u->api->ucp_am_data_release(u->worker, a->desc);
    a->desc = NULL;
    sheaf__mutex_unlock(&u->lock);
}

/* Frame and meta part of the message to the receiver, who says where the payload goes. */
static sheaf_status begin(struct sheaf__ucx *u, struct arrival *a, sheaf_error *err)
{
    struct sheaf__incoming *in = &u->lane.in;
    in->frame = a->head.frame;
    SHEAF__TRY(sheaf__frame_check(&in->frame, err));
    if (a->head.meta_here > 0) {
        sheaf__buf_clear(&in->meta);
        sheaf__buf_bytes(&in->meta, a->meta, a->head.meta_here);
        SHEAF__TRY(sheaf__buf_check(&in->meta, "a message", err));
    }
    if (in->meta.size != in->frame.meta_size || in->frame.payload_size != a->size)
        return sheaf__error(err, SHEAF_ERR_DATA_LOSS, "a message of other sizes than it says");
    in->left = in->frame.payload_size;
    in->sink = (struct sheaf__sink){0};
    u->receiver.begin(u->receiver.user, in);
    return SHEAF_OK;
}

/* The payload is where it belongs. */
static sheaf_status end(struct sheaf__ucx *u, struct arrival *a, sheaf_error *err)
{
    struct sheaf__incoming *in = &u->lane.in;
    in->left = 0;
    release_desc(u, a);
    free_arrival(a);
    sheaf_status status = u->receiver.end(u->receiver.user, in, err);
    sheaf__buf_clear(&in->meta);
    return status;
}

static sheaf_status handle(struct sheaf__ucx *u, struct arrival *a, sheaf_error *err)
{
    struct sheaf__incoming *in = &u->lane.in;
    if (a->head.meta_only) {
        const void *bytes = a->desc && !a->later ? a->desc : a->bytes;
        in->frame.payload_size = a->size;
        if (a->later) { /* a large meta part: fetched as a payload is */
            void *data;
            sheaf__buf_clear(&in->meta);
            data = sheaf__buf_extend(&in->meta, a->size);
            SHEAF__TRY(sheaf__buf_check(&in->meta, "a message", err));
            u->meta_part = (struct sheaf__part){data, a->size};
            in->sink = (struct sheaf__sink){.parts = &u->meta_part, .count = 1};
            u->current = a;
            return fetch(u, a, err);
        }
        sheaf__buf_clear(&in->meta);
        sheaf__buf_bytes(&in->meta, bytes, a->size);
        release_desc(u, a);
        free_arrival(a);
        return sheaf__buf_check(&in->meta, "a message", err);
    }
    sheaf_status status = begin(u, a, err);
    if (status == SHEAF_OK && a->later && !in->sink.discard) {
        u->current = a;
        return fetch(u, a, err);
    }
    if (status == SHEAF_OK) {
        if (!a->later && a->size > 0)
            fill_sink(&in->sink, a->bytes ? a->bytes : a->desc, a->size);
        return end(u, a, err);
    }
    release_desc(u, a);
    free_arrival(a);
    return status;
}

/* The next message that may be handled; NULL: none. */
static struct arrival *next_arrival(struct sheaf__ucx *u)
{
    sheaf__mutex_lock(&u->lock);
    struct sheaf__list_node *node = sheaf__list_first(&u->arrivals);
    struct arrival *a = node ? SHEAF__CONTAINER(node, struct arrival, node) : NULL;
    if (a && a->head.number == u->next_in) {
        sheaf__list_remove(node);
        u->next_in++;
    } else {
        a = NULL;
    }
    sheaf__mutex_unlock(&u->lock);
    return a;
}

/* The payload that was being fetched is there. */
static sheaf_status finish_fetch(struct sheaf__ucx *u, sheaf_error *err)
{
    struct arrival *a = u->current;
    u->current = NULL;
    if (u->received != UCS_OK) {
        ucs_status_t status = u->received;
        free_arrival(a);
        return failed(u, status, "receive", err);
    }
    if (!a->head.meta_only)
        return end(u, a, err);
    free_arrival(a);
    return SHEAF_OK;
}

static sheaf_status progress(struct sheaf__lane *lane, bool *worked, sheaf_error *err)
{
    enum { AT_ONCE = 64 };
    struct sheaf__ucx *u = of(lane);
    sheaf__mutex_lock(&u->lock);
    bool moved = false;
    for (int i = 0; i < AT_ONCE && !u->stopped && u->api->ucp_worker_progress(u->worker) > 0; i++)
        moved = true;
    bool ended = !sheaf__list_empty(&u->ended);
    if (u->no_memory)
        sheaf__no_memory(&u->failure, "a message");
    sheaf_error failure = u->failure;
    sheaf__mutex_unlock(&u->lock);
    *worked |= moved;
    if (ended)
        end_sends(u);
    for (int i = 0; i < AT_ONCE; i++) {
        if (u->current) {
            if (atomic_load(&u->receiving))
                break;
            SHEAF__TRY(finish_fetch(u, err));
        }
        struct arrival *a = next_arrival(u);
        if (!a)
            break;
        *worked = true;
        SHEAF__TRY(handle(u, a, err));
    }
    return failure.status < 0 && !*worked ? sheaf__error_copy(err, &failure) : SHEAF_OK;
}

/* ---- sleeping and ending ---- */

static bool arm(struct sheaf__lane *lane)
{
    struct sheaf__ucx *u = of(lane);
    sheaf__mutex_lock(&u->lock);
    bool quiet = u->stopped || (sheaf__list_empty(&u->arrivals) && u->failure.status == SHEAF_OK &&
                                u->api->ucp_worker_arm(u->worker) == UCS_OK);
    sheaf__mutex_unlock(&u->lock);
    return quiet;
}

static void disarm(struct sheaf__lane *lane)
{
    (void)lane;
}

static _Atomic uint32_t *word(struct sheaf__lane *lane)
{
    (void)lane;
    return NULL;
}

/* Drives the worker until `busy` is false. True if that happened in time; else the worker is ended. */
static bool settle(struct sheaf__ucx *u, bool (*busy)(struct sheaf__ucx *u, const void *what),
                   const void *what)
{
    int64_t deadline = sheaf__clock_after(SETTLE_MS * SHEAF__MS);
    sheaf__mutex_lock(&u->lock);
    while (!u->stopped && busy(u, what) && sheaf__clock_left(deadline) > 0)
        u->api->ucp_worker_progress(u->worker);
    bool settled = !busy(u, what);
    sheaf__mutex_unlock(&u->lock);
    if (!settled)
        u->lane.ops->stop(&u->lane);
    return settled;
}

static bool is_receiving(struct sheaf__ucx *u, const void *what)
{
    (void)what;
    return atomic_load(&u->receiving) != 0;
}

static bool is_sending(struct sheaf__ucx *u, const void *owner)
{
    struct sheaf__list_node *node = sheaf__list_first(&u->sending);
    for (; node; node = sheaf__list_next(&u->sending, node))
        if (SHEAF__CONTAINER(node, struct sending, node)->owner == owner)
            return true;
    return false;
}

static bool discard(struct sheaf__lane *lane)
{
    struct sheaf__ucx *u = of(lane);
    bool settled = settle(u, is_receiving, NULL);
    lane->in.sink.discard = true;
    return settled;
}

static void forget_owner(struct sheaf__list *list, const void *owner)
{
    struct sheaf__list_node *node = sheaf__list_first(list);
    for (; node; node = sheaf__list_next(list, node)) {
        struct sending *s = SHEAF__CONTAINER(node, struct sending, node);
        if (s->owner == owner)
            s->sent = NULL;
    }
}

static bool disown(struct sheaf__lane *lane, const void *owner)
{
    struct sheaf__ucx *u = of(lane);
    sheaf__mutex_lock(&u->lock);
    forget_owner(&u->sending, owner);
    forget_owner(&u->ended, owner);
    sheaf__mutex_unlock(&u->lock);
    return settle(u, is_sending, owner);
}

static bool idle(struct sheaf__lane *lane)
{
    struct sheaf__ucx *u = of(lane);
    sheaf__mutex_lock(&u->lock);
    bool empty = sheaf__list_empty(&u->sending) && sheaf__list_empty(&u->ended);
    sheaf__mutex_unlock(&u->lock);
    return empty;
}

/* Ends an endpoint that notices lost peers: without that UCX would end the program. False: it does not end in time. */
static bool close_endpoint(struct sheaf__ucx *u)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    int64_t deadline = sheaf__clock_after(SETTLE_MS * SHEAF__MS);
    ucs_status_ptr_t request = u->ep ? u->api->ucp_ep_close_nbx(u->ep, &param) : NULL;
    if (!request || UCS_PTR_IS_ERR(request))
        return !request;
    ucs_status_t status = UCS_INPROGRESS;
    while (status == UCS_INPROGRESS && sheaf__clock_left(deadline) > 0) {
        u->api->ucp_worker_progress(u->worker);
        status = u->api->ucp_request_check_status(request);
    }
    u->api->ucp_request_free(request);
    return status != UCS_INPROGRESS;
}

/* The worker goes; what it was about to send or receive is given up. One that cannot go is left alone for ever, which keeps
 * it from our memory as well. */
static void stop(struct sheaf__lane *lane)
{
    struct sheaf__ucx *u = of(lane);
    struct sheaf__list_node *node;
    sheaf__mutex_lock(&u->lock);
    if (!u->stopped) {
        u->stopped = true;
        if (u->local || close_endpoint(u))
            u->api->ucp_worker_destroy(u->worker);
    }
    while ((node = sheaf__list_pop(&u->sending)))
        sheaf__list_append(&u->ended, node);
    while ((node = sheaf__list_pop(&u->arrivals)))
        free_arrival(SHEAF__CONTAINER(node, struct arrival, node));
    atomic_store(&u->receiving, 0);
    if (u->received == UCS_OK)
        u->received = UCS_ERR_CANCELED;
    sheaf__mutex_unlock(&u->lock);
    end_sends(u);
}

static void free_lane(struct sheaf__lane *lane)
{
    struct sheaf__ucx *u = of(lane);
    stop(lane);
    if (u->current)
        free_arrival(u->current);
    if (lane->fd >= 0)
        close(lane->fd);
    sheaf__buf_free(&lane->in.meta);
    sheaf__free(u->iov);
    sheaf__free(u);
}

static const struct sheaf__lane_ops ucx_ops = {
    .post = post,
    .progress = progress,
    .arm = arm,
    .disarm = disarm,
    .word = word,
    .discard = discard,
    .disown = disown,
    .idle = idle,
    .stop = stop,
    .free = free_lane,
};

/* ---- making ---- */

static sheaf_status make_worker(struct sheaf__ucx *u, ucp_context_h context, sheaf_error *err)
{
    const ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
    };
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER};
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = AM_MESSAGE,
        .cb = on_message,
        .arg = u,
    };
    ucs_status_t status = u->api->ucp_worker_create(context, &params, &u->worker);
    if (status != UCS_OK)
        return failed(u, status, "worker", err);
    u->stopped = false;
    int fd = -1;
    status = u->api->ucp_worker_query(u->worker, &attr);
    if (status == UCS_OK)
        status = u->api->ucp_worker_set_am_recv_handler(u->worker, &handler);
    if (status == UCS_OK)
        status = u->api->ucp_worker_get_efd(u->worker, &fd);
    if (status != UCS_OK)
        return failed(u, status, "worker", err);
    /* One of our own, which does not go with the worker while it is watched. */
    u->lane.fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (u->lane.fd < 0)
        return sheaf__errno_error(err, errno, NULL, "watch UCX");
    u->header_most = attr.max_am_header < META_INLINE ? attr.max_am_header : META_INLINE;
    if (u->header_most <= sizeof(struct head))
        return sheaf__error(err, SHEAF_ERR_INCOMPATIBLE, "UCX: headers of %zu bytes are too small",
                            attr.max_am_header);
    return SHEAF_OK;
}

static sheaf_status take_address(struct sheaf__ucx *u, uint8_t *address, size_t *size,
                                 sheaf_error *err)
{
    ucp_address_t *own;
    size_t length, room = *size;
    ucs_status_t status = u->api->ucp_worker_get_address(u->worker, &own, &length);
    if (status != UCS_OK)
        return failed(u, status, "address", err);
    if (length <= room)
        memcpy(address, own, length);
    *size = length;
    u->api->ucp_worker_release_address(u->worker, own);
    if (length > room)
        return sheaf__error(err, SHEAF_ERR_INCOMPATIBLE, "UCX: an address of %zu bytes", length);
    return SHEAF_OK;
}

sheaf_status sheaf__ucx_open(bool local, struct sheaf__ucx **ucx, uint8_t *address, size_t *size,
                             sheaf_error *err)
{
    struct sheaf__ucx_descriptors before;
    ucp_context_h context;
    struct sheaf__ucx *u = sheaf__calloc(1, sizeof(*u));
    if (!u)
        return sheaf__no_memory(err, "a connection");
    u->lane = (struct sheaf__lane){.ops = &ucx_ops, .name = "ucx", .fd = -1};
    u->stopped = true; /* there is no worker */
    u->local = local;
    sheaf__list_init(&u->sending);
    sheaf__list_init(&u->ended);
    sheaf__list_init(&u->arrivals);
    sheaf__ucx_note_descriptors(&before);
    sheaf_status status = sheaf__ucx_load(local, &u->api, &context, err);
    if (status == SHEAF_OK)
        status = make_worker(u, context, err);
    sheaf__ucx_keep_descriptors(&before);
    if (status == SHEAF_OK)
        status = take_address(u, address, size, err);
    if (status < 0)
        sheaf__ucx_close(u);
    else
        *ucx = u;
    return status;
}

sheaf_status sheaf__ucx_connect(struct sheaf__ucx *u, const uint8_t *address, size_t size,
                                sheaf_error *err)
{
    struct sheaf__ucx_descriptors before;
    /* Between machines UCX notices lost peers; on one it has no shared memory if it is asked to. */
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address = (const ucp_address_t *)address,
        .err_mode = u->local ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER,
    };
    (void)size;
    sheaf__ucx_note_descriptors(&before);
    ucs_status_t status = u->api->ucp_ep_create(u->worker, &params, &u->ep);
    sheaf__ucx_keep_descriptors(&before);
    return status == UCS_OK ? SHEAF_OK : failed(u, status, "endpoint", err);
}

struct sheaf__lane *sheaf__ucx_lane(struct sheaf__ucx *u, const struct sheaf__receiver *receiver,
                                    void (*blocked)(void *user), void *user)
{
    u->receiver = *receiver;
    u->blocked = blocked;
    u->user = user;
    return &u->lane;
}

void sheaf__ucx_close(struct sheaf__ucx *u)
{
    if (u)
        free_lane(&u->lane);
}
