/* SPDX-License-Identifier: Apache-2.0 */
#include "net/lane.h"

#include "base/config.h"
#include "base/error.h"
#include "base/mem.h"
#include "net/patience.h"

#include <string.h>

enum {
    PARTS_AT_ONCE = 64,
    MOST_AT_ONCE = 1 << 20, /* bytes a lane may receive before the others have their turn */
    WRITE_MOST = 4 << 20,   /* bytes that a sender may write before it does something else */
    SCRATCH = 16 << 10,
    PIECE_MOST = 32 << 10, /* bytes that a sink takes at once */
    META_KEPT = 1 << 20    /* memory of the meta part that is kept for the next message */
};

/* A queued message. Its memory is one block: parts, then meta, then (if copied) the payload. */
struct sheaf__send {
    struct sheaf__list_node node;
    struct sheaf__frame frame;
    struct sheaf__part *parts; /* frame, meta, payload */
    size_t count;
    size_t done, size; /* bytes */
    void (*sent)(void *user);
    void *user;
    const void *owner;
    void *copied; /* payload that was copied later, when its owner gave it up */
};

enum rx_state { RX_FRAME, RX_META, RX_PAYLOAD };

/* What meta parts and payloads are filled up with. */
static const uint8_t nothing[8];

struct stream_lane {
    struct sheaf__lane lane;
    struct sheaf__stream *stream;
    struct sheaf__receiver receiver;
    void (*blocked)(void *user);
    void *user;

    struct sheaf__mutex lock; /* guards what follows and all writing */
    struct sheaf__list queue;
    bool stopped;
    _Atomic bool broken; /* a write failed, or a message was left torn */
    _Atomic bool queued; /* not empty: a look without the lock */
    struct sheaf__patience patience;
    int64_t spin; /* ns without progress after which a writer gives up */

    /* The driving thread's. */
    enum rx_state state;
    size_t have; /* bytes of the frame or the meta part */
    size_t fill; /* zeros behind the payload */
};

static struct stream_lane *of(struct sheaf__lane *lane)
{
    return SHEAF__CONTAINER(lane, struct stream_lane, lane);
}

struct sheaf__stream *sheaf__lane_stream(struct sheaf__lane *lane)
{
    return of(lane)->stream;
}

/* ---- sending ---- */

static struct sheaf__part fill_of(uint64_t size)
{
    return (struct sheaf__part){(void *)(uintptr_t)nothing,
                                (size_t)(sheaf__frame_room(size) - size)};
}

/* Bytes of a message on the stream. */
static size_t message_size(const struct sheaf__frame *frame)
{
    return sizeof(*frame) +
           (size_t)(sheaf__frame_room(frame->meta_size) + sheaf__frame_room(frame->payload_size));
}

/* Queues what is left of a message after its first `done` bytes. */
static struct sheaf__send *new_send(const struct sheaf__message *m, size_t done)
{
    size_t payload = (size_t)m->frame.payload_size;
    size_t meta = (size_t)sheaf__frame_room(m->frame.meta_size);
    size_t most = 3 + (m->copy ? 1 : m->count); /* frame, meta part, payload, what fills it up */
    size_t head = sizeof(struct sheaf__send) + most * sizeof(struct sheaf__part);
    struct sheaf__send *s = sheaf__alloc(head + meta + (m->copy ? payload : 0));
    if (!s)
        return NULL;
    uint8_t *at = (uint8_t *)s + head;
    *s = (struct sheaf__send){.frame = m->frame,
                              .parts = (struct sheaf__part *)(void *)(s + 1),
                              .count = 2,
                              .done = done,
                              .size = message_size(&m->frame),
                              .sent = m->sent,
                              .user = m->user,
                              .owner = m->owner};
    s->parts[0] = (struct sheaf__part){&s->frame, sizeof(s->frame)};
    s->parts[1] = (struct sheaf__part){at, meta};
    memset(at, 0, meta);
    if (meta > 0)
        memcpy(at, m->meta, m->frame.meta_size);
    at += meta;
    if (m->copy) {
        s->parts[s->count++] = (struct sheaf__part){at, payload};
        for (size_t i = 0; i < m->count; at += m->parts[i].size, i++)
            if (m->parts[i].size > 0)
                memcpy(at, m->parts[i].data, m->parts[i].size);
    } else if (m->count > 0) {
        memcpy(s->parts + 2, m->parts, m->count * sizeof(*m->parts));
        s->count += m->count;
    }
    s->parts[s->count++] = fill_of(payload);
    return s;
}

static void drop_send(struct sheaf__send *s)
{
    sheaf__free(s->copied);
    sheaf__free(s);
}

/* Ends queued messages, without a lock: those who wait for their memory are told. */
static void end_sends(struct sheaf__list *list)
{
    struct sheaf__list_node *node;
    while ((node = sheaf__list_pop(list))) {
        struct sheaf__send *s = SHEAF__CONTAINER(node, struct sheaf__send, node);
        if (s->sent)
            s->sent(s->user);
        drop_send(s);
    }
}

/* Writes as much of the queue as there is room for; what is through goes to `ended`. True if
 * anything moved. With the lock. */
static bool flush(struct stream_lane *l, struct sheaf__list *ended)
{
    bool moved = false;
    struct sheaf__list_node *node;
    while (!l->broken && (node = sheaf__list_first(&l->queue))) {
        struct sheaf__send *s = SHEAF__CONTAINER(node, struct sheaf__send, node);
        struct sheaf__part parts[PARTS_AT_ONCE];
        size_t count = sheaf__parts_after(s->parts, s->count, s->done, parts, PARTS_AT_ONCE);
        ptrdiff_t n = count == 0 ? 0 : l->stream->ops->write(l->stream, parts, count);
        if (n < 0) {
            l->broken = true;
            break;
        }
        s->done += (size_t)n;
        moved |= n > 0;
        if (s->done < s->size) {
            if (n == 0)
                break;
            continue;
        }
        sheaf__list_remove(node);
        sheaf__list_append(ended, node);
        moved = true;
    }
    atomic_store(&l->queued, !sheaf__list_empty(&l->queue));
    return moved;
}

/* Parts of a message that is not queued, after its first `done` bytes. */
static size_t gather(const struct sheaf__message *m, size_t done, struct sheaf__part *parts)
{
    const struct sheaf__part head[3] = {
        {(void *)(uintptr_t)&m->frame, sizeof(m->frame)},
        {(void *)(uintptr_t)m->meta, m->frame.meta_size},
        fill_of(m->frame.meta_size),
    };
    const struct sheaf__part tail = fill_of(m->frame.payload_size);
    size_t size = sheaf__parts_size(head, 3), payload = (size_t)m->frame.payload_size;
    size_t count = sheaf__parts_after(head, 3, done, parts, 3);
    done = done > size ? done - size : 0;
    count += sheaf__parts_after(m->parts, m->count, done, parts + count, PARTS_AT_ONCE - count);
    done = done > payload ? done - payload : 0;
    if (count == PARTS_AT_ONCE) /* perhaps not all */
        return count;
    return count + sheaf__parts_after(&tail, 1, done, parts + count, 1);
}

/* Writes what there is room for after the first `done` bytes. Returns the bytes, -1 if the stream is broken. */
static ptrdiff_t write_some(struct stream_lane *l, const struct sheaf__message *m, size_t size,
                            size_t done)
{
    struct sheaf__part parts[PARTS_AT_ONCE];
    size_t before = done;
    while (done < size) {
        size_t count = gather(m, done, parts);
        ptrdiff_t n = l->stream->ops->write(l->stream, parts, count);
        if (n < 0)
            return -1;
        done += (size_t)n;
        if ((size_t)n < sheaf__parts_size(parts, count))
            break;
    }
    return (ptrdiff_t)(done - before);
}

/* Writes at once. While the other side empties a ring as fast as it is filled, both copy at the same time; this goes on
 * until it pauses. */
static ptrdiff_t write_now(struct stream_lane *l, const struct sheaf__message *m, size_t size)
{
    ptrdiff_t n = write_some(l, m, size, 0);
    size_t done = n > 0 ? (size_t)n : 0;
    if (n < 0 || done == size || !l->stream->ops->arm)
        return n;
    int64_t patience = sheaf__patience_spin(&l->patience, l->spin);
    struct sheaf__spin spin = sheaf__spin_for(patience);
    struct sheaf__runs runs = sheaf__runs_from_now();
    while (done < size && done < WRITE_MOST && sheaf__spin_again(&spin)) {
        n = write_some(l, m, size, done);
        sheaf__runs_look(&runs, n != 0);
        if (n < 0)
            return -1;
        if (n > 0)
            spin = sheaf__spin_for(patience);
        done += (size_t)n;
    }
    if (patience > 0)
        sheaf__patience_learn(&l->patience, done == size && !runs.broken);
    return (ptrdiff_t)done;
}

static sheaf_status post_locked(struct stream_lane *l, struct sheaf__message *m, bool *through,
                                sheaf_error *err)
{
    size_t size = message_size(&m->frame);
    ptrdiff_t done = 0;
    *through = false;
    if (l->stopped || l->broken)
        return sheaf__error(err, SHEAF_ERR_UNAVAILABLE, "the connection is closed");
    if (sheaf__list_empty(&l->queue))
        done = write_now(l, m, size);
    if (done == (ptrdiff_t)size) {
        *through = true;
        return SHEAF_OK;
    }
    struct sheaf__send *s = done < 0 ? NULL : new_send(m, (size_t)done);
    if (!s) {
        if (done == 0)
            return sheaf__no_memory(err, "a message");
        /* Half a message is out: nothing sensible can follow it. */
        l->broken = true;
        l->blocked(l->user);
        return sheaf__error(err, SHEAF_ERR_UNAVAILABLE, "the connection is broken");
    }
    sheaf__list_append(&l->queue, &s->node);
    atomic_store(&l->queued, true);
    l->blocked(l->user);
    return SHEAF_OK;
}

static sheaf_status post(struct sheaf__lane *lane, struct sheaf__message *m, sheaf_error *err)
{
    struct stream_lane *l = of(lane);
    bool through;
    m->frame.payload_size = sheaf__parts_size(m->parts, m->count);
    sheaf__mutex_lock(&l->lock);
    sheaf_status status = post_locked(l, m, &through, err);
    sheaf__mutex_unlock(&l->lock);
    if (through && m->sent)
        m->sent(m->user);
    return status;
}

/* ---- receiving ---- */

static sheaf_status read_some(struct stream_lane *l, void *data, size_t size, size_t *got,
                              sheaf_error *err)
{
    ptrdiff_t n = size == 0 ? 0 : l->stream->ops->read(l->stream, data, size);
    if (n < 0)
        return sheaf__error(err, SHEAF_ERR_UNAVAILABLE, "it closed the connection");
    *got = (size_t)n;
    return SHEAF_OK;
}

static sheaf_status read_frame(struct stream_lane *l, size_t *got, sheaf_error *err)
{
    struct sheaf__incoming *in = &l->lane.in;
    SHEAF__TRY(
        read_some(l, (uint8_t *)&in->frame + l->have, sizeof(in->frame) - l->have, got, err));
    l->have += *got;
    if (l->have < sizeof(in->frame))
        return SHEAF_OK;
    SHEAF__TRY(sheaf__frame_check(&in->frame, err));
    sheaf__buf_clear(&in->meta);
    l->have = 0;
    l->state = RX_META;
    return SHEAF_OK;
}

/* Memory for the meta part grows with what really comes, not with what is announced. */
static sheaf_status read_meta(struct stream_lane *l, size_t *got, sheaf_error *err)
{
    enum { STEP = 256 << 10 };
    struct sheaf__incoming *in = &l->lane.in;
    size_t room = (size_t)sheaf__frame_room(in->frame.meta_size), left = room - l->have;
    size_t n = left < STEP ? left : STEP;
    *got = 0;
    if (n > 0) {
        if (!sheaf__buf_reserve(&in->meta, n))
            return sheaf__no_memory(err, "a message");
        SHEAF__TRY(read_some(l, in->meta.data + in->meta.size, n, got, err));
        in->meta.size += *got;
        l->have += *got;
        if (l->have < room)
            return SHEAF_OK;
    }
    in->meta.size = in->frame.meta_size;
    in->left = in->frame.payload_size;
    l->fill = (size_t)(sheaf__frame_room(in->left) - in->left);
    in->sink = (struct sheaf__sink){0};
    l->receiver.begin(l->receiver.user, in);
    l->state = RX_PAYLOAD;
    return SHEAF_OK;
}

/* The next piece of memory of the sink; past its end and for discarded payload: scratch. */
static struct sheaf__part sink_next(struct sheaf__sink *sink, uint64_t left, uint8_t *scratch)
{
    struct sheaf__part next = {scratch, SCRATCH};
    while (!sink->discard && sink->part < sink->count &&
           sink->offset == sink->parts[sink->part].size) {
        sink->part++;
        sink->offset = 0;
    }
    if (!sink->discard && sink->part < sink->count) {
        next.data = (uint8_t *)sink->parts[sink->part].data + sink->offset;
        next.size = sink->parts[sink->part].size - sink->offset;
    }
    if (next.size > left)
        next.size = (size_t)left;
    return next;
}

/* Hands out the next piece of the payload where it lies. */
static sheaf_status hand_out(struct stream_lane *l, size_t *got, sheaf_error *err)
{
    struct sheaf__incoming *in = &l->lane.in;
    const size_t least = in->left < 8 ? (size_t)in->left : 8;
    const void *data;
    ptrdiff_t there = l->stream->ops->peek(l->stream, least, &data);
    if (there < 0)
        return sheaf__error(err, SHEAF_ERR_UNAVAILABLE, "it closed the connection");
    if (there == 0)
        return SHEAF_OK;
    size_t n = there < PIECE_MOST ? (size_t)there : PIECE_MOST;
    n = n < in->left ? n - n % 8 : (size_t)in->left;
    in->sink.take(in->sink.user, data, n);
    l->stream->ops->skip(l->stream, n);
    *got = n;
    return SHEAF_OK;
}

static sheaf_status read_payload(struct stream_lane *l, size_t *got, sheaf_error *err)
{
    struct sheaf__incoming *in = &l->lane.in;
    uint8_t scratch[SCRATCH];
    *got = 0;
    if (in->left > 0 && in->sink.take && !in->sink.discard) {
        SHEAF__TRY(hand_out(l, got, err));
        in->left -= *got;
    } else if (in->left > 0) {
        struct sheaf__part next = sink_next(&in->sink, in->left, scratch);
        SHEAF__TRY(read_some(l, next.data, next.size, got, err));
        in->sink.offset += *got;
        in->left -= *got;
    } else {
        SHEAF__TRY(read_some(l, scratch, l->fill, got, err));
        l->fill -= *got;
    }
    if (in->left > 0 || l->fill > 0)
        return SHEAF_OK;
    l->state = RX_FRAME;
    l->have = 0;
    sheaf_status status = l->receiver.end(l->receiver.user, in, err);
    if (in->meta.capacity > META_KEPT)
        sheaf__buf_free(&in->meta);
    return status;
}

static sheaf_status receive(struct stream_lane *l, bool *worked, sheaf_error *err)
{
    size_t total = 0;
    while (total < MOST_AT_ONCE) {
        size_t got = 0;
        enum rx_state before = l->state;
        sheaf_status status = before == RX_FRAME  ? read_frame(l, &got, err)
                              : before == RX_META ? read_meta(l, &got, err)
                                                  : read_payload(l, &got, err);
        SHEAF__TRY(status);
        total += got;
        if (got > 0)
            *worked = true;
        else if (l->state == before)
            break;
    }
    return SHEAF_OK;
}

static sheaf_status progress(struct sheaf__lane *lane, bool *worked, sheaf_error *err)
{
    struct stream_lane *l = of(lane);
    struct sheaf__list ended;
    sheaf__list_init(&ended);
    if (atomic_load_explicit(&l->queued, memory_order_acquire)) {
        sheaf__mutex_lock(&l->lock);
        *worked |= flush(l, &ended);
        sheaf__mutex_unlock(&l->lock);
        end_sends(&ended);
    }
    SHEAF__TRY(receive(l, worked, err));
    if (!*worked && atomic_load_explicit(&l->broken, memory_order_relaxed))
        return sheaf__error(err, SHEAF_ERR_UNAVAILABLE, "the connection broke");
    return SHEAF_OK;
}

/* ---- sleeping and ending ---- */

/* False if something can be sent: there is no point in sleeping. */
static bool nothing_to_send(struct stream_lane *l)
{
    sheaf__mutex_lock(&l->lock);
    bool quiet =
        !l->broken && (sheaf__list_empty(&l->queue) || !l->stream->ops->want_room(l->stream));
    sheaf__mutex_unlock(&l->lock);
    return quiet;
}

/* Bytes that it is worth while to wake for: the rest of a payload. */
static size_t expected(const struct stream_lane *l)
{
    uint64_t rest = l->state == RX_PAYLOAD ? l->lane.in.left + l->fill : 0;
    return rest > 1 ? (size_t)rest : 1;
}

static bool arm(struct sheaf__lane *lane)
{
    struct stream_lane *l = of(lane);
    if (!l->stream->ops->arm)
        return true;
    bool quiet = nothing_to_send(l);
    return !l->stream->ops->arm(l->stream, expected(l)) && quiet;
}

static bool arm_word(struct sheaf__lane *lane)
{
    struct stream_lane *l = of(lane);
    bool quiet = nothing_to_send(l);
    return !l->stream->ops->arm_word(l->stream, expected(l)) && quiet;
}

static _Atomic uint32_t *word(struct sheaf__lane *lane)
{
    struct stream_lane *l = of(lane);
    return l->stream->ops->word ? l->stream->ops->word(l->stream) : NULL;
}

static void disarm(struct sheaf__lane *lane)
{
    struct stream_lane *l = of(lane);
    if (l->stream->ops->disarm)
        l->stream->ops->disarm(l->stream);
}

/* Makes `s` independent of its owner's memory; what has left already stays as it is. */
static bool copy_payload(struct sheaf__send *s)
{
    size_t payload = (size_t)sheaf__frame_room(s->frame.payload_size);
    uint8_t *at = sheaf__alloc(payload);
    if (!at)
        return false;
    s->copied = at;
    for (size_t i = 2; i < s->count; at += s->parts[i].size, i++)
        memcpy(at, s->parts[i].data, s->parts[i].size);
    s->parts[2] = (struct sheaf__part){s->copied, payload};
    s->count = 3;
    return true;
}

static bool discard(struct sheaf__lane *lane)
{
    lane->in.sink.discard = true;
    return true;
}

static bool disown(struct sheaf__lane *lane, const void *owner)
{
    struct stream_lane *l = of(lane);
    struct sheaf__list_node *node, *next;
    bool ok = true;
    sheaf__mutex_lock(&l->lock);
    for (node = sheaf__list_first(&l->queue); node; node = next) {
        struct sheaf__send *s = SHEAF__CONTAINER(node, struct sheaf__send, node);
        next = sheaf__list_next(&l->queue, node);
        if (s->owner != owner)
            continue;
        s->owner = NULL;
        s->sent = NULL;
        if (s->done == 0) {
            sheaf__list_remove(node);
            drop_send(s);
        } else if (s->frame.payload_size > 0 && !copy_payload(s)) {
            l->broken = true;
            ok = false;
        }
    }
    atomic_store(&l->queued, !sheaf__list_empty(&l->queue));
    sheaf__mutex_unlock(&l->lock);
    return ok;
}

static bool idle(struct sheaf__lane *lane)
{
    return !atomic_load(&of(lane)->queued);
}

static void stop(struct sheaf__lane *lane)
{
    struct stream_lane *l = of(lane);
    struct sheaf__list ended;
    struct sheaf__list_node *node;
    sheaf__list_init(&ended);
    sheaf__mutex_lock(&l->lock);
    l->stopped = true;
    while ((node = sheaf__list_pop(&l->queue)))
        sheaf__list_append(&ended, node);
    atomic_store(&l->queued, false);
    /* Who still holds the peer must not keep the other side waiting for the end. */
    sheaf__stream_finish(l->stream);
    sheaf__mutex_unlock(&l->lock);
    end_sends(&ended);
}

static void free_lane(struct sheaf__lane *lane)
{
    struct stream_lane *l = of(lane);
    sheaf__stream_free(l->stream);
    sheaf__buf_free(&lane->in.meta);
    sheaf__free(l);
}

static const struct sheaf__lane_ops stream_ops = {
    .post = post,
    .progress = progress,
    .arm = arm,
    .disarm = disarm,
    .arm_word = arm_word,
    .word = word,
    .discard = discard,
    .disown = disown,
    .idle = idle,
    .stop = stop,
    .free = free_lane,
};

struct sheaf__lane *sheaf__lane_of_stream(struct sheaf__stream *stream,
                                          const struct sheaf__receiver *receiver,
                                          void (*blocked)(void *user), void *user)
{
    struct stream_lane *l = sheaf__calloc(1, sizeof(*l));
    if (!l)
        return NULL;
    l->lane.ops = &stream_ops;
    l->lane.name = stream->name;
    l->lane.fd = -1;
    l->lane.in.takes = true;
    l->stream = stream;
    l->spin = sheaf__config_int(SHEAF__CONFIG_SPIN_US) * SHEAF__US;
    l->receiver = *receiver;
    l->blocked = blocked;
    l->user = user;
    sheaf__list_init(&l->queue);
    return &l->lane;
}
