/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes from a connection. The first byte chooses: 0 a listener that shakes hands with them, 1 a dialer, 2 frames of a
 * peer, 3 a whole handshake between two tasks of which the other bytes change some bytes on the way (position in 16 bits,
 * what to flip in 8): then at least one of the two must refuse; 4 the body of a proof by one that knows the secret. Nothing
 * may be read or written beyond what came, and no more memory taken than a few times that. */
#include "target.h"

#include "net/handshake.h"
#include "net/lane.h"

#include "base/context.h"
#include "base/digest.h"
#include "base/mem.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

static const struct sheaf__secret secret = {.size = 16, .bytes = "0123456789abcdef"};

static struct sheaf__identity identity(const char *job)
{
    struct sheaf__identity id = {
        .task = {.index = 1}, .incarnation = 7, .run_id = "run", .host = 5};
    strcpy(id.task.job, job);
    strcpy(id.address, "10.0.0.7:2222");
    strcpy(id.tables[0].name, "functions");
    id.table_count = 1;
    return id;
}

/* ---- one side ---- */

static void feed(struct sheaf__handshake *h, const uint8_t *data, size_t size)
{
    size_t room;
    uint8_t *place;
    while ((place = sheaf__handshake_room(h, &room))) {
        size_t n = room < size ? room : size;
        must(room <= SHEAF__HANDSHAKE_MOST);
        if (n == 0)
            break;
        memcpy(place, data, n);
        data += n;
        size -= n;
        if (sheaf__handshake_took(h, n) != SHEAF_PENDING)
            break;
    }
    /* Without the secret nobody gets anywhere. */
    must(h->state != SHEAF__HANDSHAKE_PROVED && h->state != SHEAF__HANDSHAKE_WELCOMED &&
         h->state != SHEAF__HANDSHAKE_DONE);
}

static void one_side(bool dialer, const uint8_t *data, size_t size)
{
    struct sheaf__handshake h;
    struct sheaf__identity self = identity(dialer ? "worker" : "ps"), other = identity("ps");
    if (sheaf__handshake_init(&h, &self, &secret, dialer ? &other.task : NULL, NULL) == SHEAF_OK)
        feed(&h, data, size);
    sheaf__handshake_clear(&h);
}

/* ---- both sides ---- */

struct wire {
    const uint8_t *changes; /* of 3 bytes each */
    size_t count;
    size_t position; /* of the next byte, of both directions */
    bool changed;
};

/* Passes what one side says to the other. */
static void pass(struct wire *w, struct sheaf__handshake *from, struct sheaf__handshake *to)
{
    struct sheaf__buf *out = &from->out;
    for (size_t i = 0; i < out->size; i++, w->position++) {
        uint8_t before = out->data[i];
        for (size_t c = 0; c < w->count; c++)
            if (((size_t)w->changes[3 * c] << 8 | w->changes[3 * c + 1]) == w->position)
                out->data[i] ^= w->changes[3 * c + 2];
        w->changed |= out->data[i] != before;
    }
    const uint8_t *at = out->data;
    size_t left = out->size, room;
    uint8_t *place;
    while (left > 0 && (place = sheaf__handshake_room(to, &room))) {
        size_t n = room < left ? room : left;
        memcpy(place, at, n);
        at += n;
        left -= n;
        if (sheaf__handshake_took(to, n) != SHEAF_PENDING)
            break;
    }
    sheaf__buf_clear(out);
}

static void both_sides(const uint8_t *data, size_t size)
{
    struct sheaf__identity a = identity("worker"), b = identity("ps");
    struct sheaf__handshake dialer, listener;
    static struct sheaf__offer offer;
    struct wire w = {.changes = data, .count = size / 3 < 8 ? size / 3 : 8};
    must(sheaf__handshake_init(&listener, &b, &secret, NULL, NULL) == SHEAF_OK);
    must(sheaf__handshake_init(&dialer, &a, &secret, &b.task, NULL) == SHEAF_OK);
    for (int i = 0; i < 4; i++) {
        pass(&w, &dialer, &listener);
        if (listener.state == SHEAF__HANDSHAKE_PROVED)
            sheaf__handshake_welcome(&listener, &offer);
        pass(&w, &listener, &dialer);
        if (dialer.state == SHEAF__HANDSHAKE_WELCOMED)
            sheaf__handshake_ready(&dialer, &offer);
    }
    bool both = dialer.state == SHEAF__HANDSHAKE_DONE && listener.state == SHEAF__HANDSHAKE_DONE;
    must(both == !w.changed);
    sheaf__handshake_clear(&dialer);
    sheaf__handshake_clear(&listener);
}

/* ---- a proof ---- */

/* The listener has challenged; its transcript is what is proved, with the message itself. */
static void put_proof(struct sheaf__buf *message, const struct sheaf__buf *transcript,
                      const uint8_t *data, size_t size)
{
    static const char label[] = "sheaf dialer's proof";
    uint8_t mac[SHEAF__SHA256_SIZE];
    sheaf__buf_bytes(message, "SHEAF\3\0", 8);
    sheaf__buf_fixed32(message, (uint32_t)(size + sizeof(mac)));
    sheaf__buf_bytes(message, data, size);
    struct sheaf__buf said = {0};
    sheaf__buf_bytes(&said, transcript->data, transcript->size);
    sheaf__buf_bytes(&said, message->data, message->size);
    const struct sheaf__bytes parts[2] = {{label, sizeof(label) - 1}, {said.data, said.size}};
    must(sheaf__hmac_sha256(secret.bytes, secret.size, parts, 2, mac, NULL) == SHEAF_OK);
    sheaf__buf_bytes(message, mac, sizeof(mac));
    sheaf__buf_free(&said);
}

static void proof(const uint8_t *data, size_t size)
{
    struct sheaf__identity a = identity("worker"), b = identity("ps");
    struct sheaf__handshake dialer, listener;
    struct sheaf__buf message = {0};
    struct wire w = {0};
    must(sheaf__handshake_init(&listener, &b, &secret, NULL, NULL) == SHEAF_OK);
    must(sheaf__handshake_init(&dialer, &a, &secret, &b.task, NULL) == SHEAF_OK);
    pass(&w, &dialer, &listener);
    must(listener.state == SHEAF__HANDSHAKE_PROOF);
    put_proof(&message, &listener.transcript, data, size);
    sheaf__buf_clear(&dialer.out);
    sheaf__buf_bytes(&dialer.out, message.data, message.size);
    pass(&w, &dialer, &listener);
    must(listener.state == SHEAF__HANDSHAKE_PROVED || listener.state == SHEAF__HANDSHAKE_FAILED);
    must(strnlen(listener.peer.address, sizeof(listener.peer.address)) < sizeof(a.address));
    sheaf__buf_free(&message);
    sheaf__handshake_clear(&dialer);
    sheaf__handshake_clear(&listener);
}

/* ---- frames ---- */

struct memory_stream {
    struct sheaf__stream stream;
    const uint8_t *data;
    size_t left, turn;
    alignas(8) uint8_t seen[512]; /* what was peeked at */
};

static ptrdiff_t read_memory(struct sheaf__stream *s, void *data, size_t size)
{
    struct memory_stream *m = (struct memory_stream *)(void *)s;
    size_t n = 1 + m->turn++ % 7 * 50; /* in pieces */
    n = n < size ? n : size;
    n = n < m->left ? n : m->left;
    if (n == 0)
        return -1;
    memcpy(data, m->data, n);
    m->data += n;
    m->left -= n;
    return (ptrdiff_t)n;
}

static ptrdiff_t peek_memory(struct sheaf__stream *s, size_t least, const void **data)
{
    struct memory_stream *m = (struct memory_stream *)(void *)s;
    size_t n = least + m->turn++ % 7 * 50;
    n = n < m->left ? n : m->left;
    if (n < least)
        return -1;
    memcpy(m->seen, m->data, n);
    *data = m->seen;
    return (ptrdiff_t)n;
}

static void skip_memory(struct sheaf__stream *s, size_t size)
{
    struct memory_stream *m = (struct memory_stream *)(void *)s;
    must(size <= m->left);
    m->data += size;
    m->left -= size;
}

static ptrdiff_t write_memory(struct sheaf__stream *s, const struct sheaf__part *parts,
                              size_t count)
{
    (void)s;
    return (ptrdiff_t)sheaf__parts_size(parts, count);
}

static void free_memory(struct sheaf__stream *s)
{
    (void)s;
}

struct sink {
    uint8_t bytes[100];
    struct sheaf__part part;
    uint64_t left; /* to be taken */
};

static void take(void *user, const void *data, size_t size)
{
    struct sink *sink = user;
    must(size > 0 && size <= sink->left && (uintptr_t)data % 8 == 0);
    must(size % 8 == 0 || size == sink->left);
    sink->left -= size;
}

/* As a service would: small payloads have a place, of others some are taken in pieces, some go by. */
static void begin(void *user, struct sheaf__incoming *in)
{
    struct sink *sink = user;
    must(in->meta.size == in->frame.meta_size);
    sink->part = (struct sheaf__part){sink->bytes, sizeof(sink->bytes)};
    in->sink.parts = &sink->part;
    in->sink.count = 1;
    in->sink.discard = in->frame.payload_size > sizeof(sink->bytes);
    sink->left = 0;
    if (!in->sink.discard || in->frame.id % 2 == 0)
        return;
    in->sink = (struct sheaf__sink){.take = take, .user = sink};
    sink->left = in->frame.payload_size;
}

static sheaf_status end(void *user, struct sheaf__incoming *in, sheaf_error *err)
{
    (void)err;
    must(in->left == 0 && ((const struct sink *)user)->left == 0);
    return SHEAF_OK;
}

static void blocked(void *user)
{
    (void)user;
}

static void frames(const uint8_t *data, size_t size)
{
    static const struct sheaf__stream_ops ops = {.write = write_memory,
                                                 .read = read_memory,
                                                 .peek = peek_memory,
                                                 .skip = skip_memory,
                                                 .free = free_memory};
    struct sink sink;
    struct memory_stream m = {
        .stream = {.ops = &ops, .name = "memory", .fd = -1}, .data = data, .left = size};
    const struct sheaf__receiver receiver = {.begin = begin, .end = end, .user = &sink};
    struct sheaf__lane *lane = sheaf__lane_of_stream(&m.stream, &receiver, blocked, NULL);
    must(lane != NULL);
    bool worked = true;
    while (lane->ops->progress(lane, &worked, NULL) == SHEAF_OK)
        ;
    lane->ops->stop(lane);
    lane->ops->free(lane);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sheaf__context(); /* made once, stays */
    int64_t before = sheaf__mem_stats().live_blocks;
    if (size == 0)
        return 0;
    switch (data[0] % 5) {
    case 0:
    case 1:
        one_side(data[0] % 5 == 1, data + 1, size - 1);
        break;
    case 2:
        frames(data + 1, size - 1);
        break;
    case 3:
        both_sides(data + 1, size - 1);
        break;
    default:
        proof(data + 1, size - 1);
    }
    must(sheaf__mem_stats().live_blocks == before);
    return 0;
}
