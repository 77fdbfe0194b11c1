/* SPDX-License-Identifier: Apache-2.0 */
#include "net/ring.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/tsan.h"

#include <stdalign.h>
#include <string.h>

/* A ring stays in the second level cache of a core, and is published in pieces so that both sides
 * copy at the same time. */
enum { RING_SIZE = 512 << 10, PIECE = 16 << 10 };

/* The reader is woken by its bell, or sleeps on the word. */
enum { AWAKE, BY_BELL, BY_WORD };

/* One direction. What one side writes often stands on a line of its own. The indices count bytes
 * and never wrap. */
struct shared {
    alignas(64) _Atomic uint64_t tail;          /* written up to here */
    alignas(64) _Atomic uint64_t head;          /* read up to here */
    alignas(64) _Atomic uint32_t reader_asleep; /* AWAKE, or what to do after writing */
    _Atomic uint32_t word;                      /* on which a reader sleeps */
    _Atomic uint64_t wanted;                    /* until so much is written */
    alignas(64) _Atomic uint32_t writer_waits;  /* ring the bell after reading */
    _Atomic uint32_t closed;                    /* the writer is gone */
    alignas(64) uint8_t data[RING_SIZE];
};

struct ring_stream {
    struct sheaf__stream stream;
    struct sheaf__bell bell;
    struct shared *out, *in;
    /* Writer's: where it is, and how far the reader was when last looked at. */
    uint64_t tail, seen_head;
    /* Reader's. */
    uint64_t head, seen_tail, told_head;
    bool broken;                          /* the other side wrote nonsense into the indices */
    alignas(8) uint8_t straight[4 << 10]; /* copy of bytes that do not lie aligned */
    struct sheaf__segment segment;
    void (*release)(struct ring_stream *r);
};

static struct ring_stream *of(struct sheaf__stream *s)
{
    return SHEAF__CONTAINER(s, struct ring_stream, stream);
}

size_t sheaf__ring_bytes(void)
{
    return 2 * sizeof(struct shared);
}

/* ---- the indices ---- */

/* Two ends in one process have a segment at two addresses, and the thread sanitizer takes an index for two. What is known
 * from an index is known from this one, too: of which ring does not matter. */
static char any_index;

static void publish(const struct ring_stream *r, _Atomic uint64_t *index, uint64_t value)
{
    if (r->segment.data)
        sheaf__tsan_give(&any_index);
    atomic_store(index, value);
}

static uint64_t look(const struct ring_stream *r, _Atomic uint64_t *index)
{
    uint64_t value = atomic_load(index);
    if (r->segment.data)
        sheaf__tsan_take(&any_index);
    return value;
}

/* ---- writing ---- */

static size_t room(struct ring_stream *r)
{
    size_t left = RING_SIZE - (size_t)(r->tail - r->seen_head);
    if (left >= PIECE)
        return left;
    uint64_t head = look(r, &r->out->head);
    if (r->tail - head > RING_SIZE) {
        r->broken = true;
        return 0;
    }
    r->seen_head = head;
    return RING_SIZE - (size_t)(r->tail - head);
}

static void copy_in(struct ring_stream *r, const void *data, size_t size)
{
    size_t at = (size_t)(r->tail % RING_SIZE);
    size_t first = RING_SIZE - at < size ? RING_SIZE - at : size;
    memcpy(r->out->data + at, data, first);
    memcpy(r->out->data, (const uint8_t *)data + first, size - first);
    r->tail += size;
}

static void poke(struct shared *ring)
{
    atomic_fetch_add(&ring->word, 1);
    sheaf__segment_wake(&ring->word);
}

static void wake_reader(struct ring_stream *r)
{
    uint32_t how = atomic_exchange(&r->out->reader_asleep, AWAKE);
    if (how == BY_BELL)
        r->bell.ring(r->bell.user);
    if (how == BY_WORD)
        poke(r->out);
}

/* The store and the look at the flag are in one order with the reader's flag and its look at the
 * tail: one of the two sees the other. */
static void publish_tail(struct ring_stream *r)
{
    publish(r, &r->out->tail, r->tail);
    if (atomic_load(&r->out->reader_asleep) != AWAKE &&
        r->tail >= atomic_load_explicit(&r->out->wanted, memory_order_relaxed))
        wake_reader(r);
}

static ptrdiff_t write_ring(struct sheaf__stream *s, const struct sheaf__part *parts, size_t count)
{
    struct ring_stream *r = of(s);
    size_t done = 0, unpublished = 0;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *data = parts[i].data;
        size_t left = parts[i].size;
        while (left > 0) {
            size_t free_bytes = room(r);
            size_t n = left < PIECE ? left : PIECE;
            n = n < free_bytes ? n : free_bytes;
            if (n == 0)
                goto out;
            copy_in(r, data, n);
            data += n;
            left -= n;
            done += n;
            unpublished += n;
            if (unpublished >= PIECE) {
                publish_tail(r);
                unpublished = 0;
            }
        }
    }
out:
    if (unpublished > 0)
        publish_tail(r);
    return r->broken ? -1 : (ptrdiff_t)done;
}

static bool want_room_ring(struct sheaf__stream *s)
{
    struct ring_stream *r = of(s);
    atomic_store(&r->out->writer_waits, 1);
    r->seen_head = look(r, &r->out->head);
    if (r->tail - r->seen_head > RING_SIZE / 2)
        return false;
    atomic_store(&r->out->writer_waits, 0);
    return true;
}

/* ---- reading ---- */

/* The writer at the other end is the one who reads there, too: a thread that sleeps on the word waits
 * for the answer to what it has not written yet. */
static void wake_writer(struct ring_stream *r)
{
    uint32_t by_word = BY_WORD;
    if (atomic_compare_exchange_strong(&r->out->reader_asleep, &by_word, AWAKE))
        poke(r->out);
    else
        r->bell.ring(r->bell.user);
}

static void publish_head(struct ring_stream *r)
{
    if (r->told_head == r->head)
        return;
    r->told_head = r->head;
    publish(r, &r->in->head, r->head);
    if (!atomic_load(&r->in->writer_waits))
        return;
    /* The writer goes on when the ring is half empty: a bell for every piece would cost more than
     * it brings. */
    uint64_t tail = atomic_load_explicit(&r->in->tail, memory_order_relaxed);
    if (tail - r->head <= RING_SIZE / 2 && atomic_exchange(&r->in->writer_waits, 0))
        wake_writer(r);
}

/* Bytes that are there; looks at the writer's index when it knows of less than `least`. */
static size_t available(struct ring_stream *r, size_t least)
{
    if (r->seen_tail - r->head >= least)
        return (size_t)(r->seen_tail - r->head);
    r->seen_tail = look(r, &r->in->tail);
    if (r->seen_tail - r->head > RING_SIZE) {
        r->broken = true;
        r->seen_tail = r->head;
    }
    return (size_t)(r->seen_tail - r->head);
}

/* The same as a stream says it: 0 is less than `least`. */
static ptrdiff_t there(struct ring_stream *r, size_t least)
{
    /* Before the look at the bytes: what it wrote before it closed is still read. */
    bool closed = atomic_load_explicit(&r->in->closed, memory_order_acquire);
    size_t n = available(r, least);
    if (n >= least)
        return (ptrdiff_t)n;
    publish_head(r);
    return closed || r->broken ? -1 : 0;
}

/* Copies the next bytes, which may go on at the start of the ring. */
static void copy_out(struct ring_stream *r, void *data, size_t size)
{
    size_t at = (size_t)(r->head % RING_SIZE);
    size_t first = RING_SIZE - at < size ? RING_SIZE - at : size;
    memcpy(data, r->in->data + at, first);
    memcpy((uint8_t *)data + first, r->in->data, size - first);
}

static void skip_ring(struct sheaf__stream *s, size_t size)
{
    struct ring_stream *r = of(s);
    r->head += size;
    if (r->head - r->told_head >= PIECE)
        publish_head(r);
}

static ptrdiff_t read_ring(struct sheaf__stream *s, void *data, size_t size)
{
    struct ring_stream *r = of(s);
    ptrdiff_t n = there(r, 1);
    if (n <= 0)
        return n;
    n = (size_t)n < size ? n : (ptrdiff_t)size;
    copy_out(r, data, (size_t)n);
    skip_ring(s, (size_t)n);
    return n;
}

static ptrdiff_t peek_ring(struct sheaf__stream *s, size_t least, const void **data)
{
    struct ring_stream *r = of(s);
    ptrdiff_t n = there(r, least);
    if (n <= 0)
        return n;
    size_t at = (size_t)(r->head % RING_SIZE), size = (size_t)n;
    if (at % 8 == 0) {
        *data = r->in->data + at;
        return (ptrdiff_t)(RING_SIZE - at < size ? RING_SIZE - at : size);
    }
    size = size < sizeof(r->straight) ? size : sizeof(r->straight);
    copy_out(r, r->straight, size);
    *data = r->straight;
    return (ptrdiff_t)size;
}

/* Where both sides share a core, a reader that wakes for every piece takes turns with the writer at
 * every piece. */
static bool arm_for(struct ring_stream *r, uint32_t how, size_t least)
{
    least = least < RING_SIZE / 2 ? least : RING_SIZE / 2;
    publish_head(r);
    atomic_store_explicit(&r->in->wanted, r->head + least, memory_order_relaxed);
    atomic_store(&r->in->reader_asleep, how);
    uint64_t tail = look(r, &r->in->tail);
    if (tail - r->head < least && !atomic_load(&r->in->closed))
        return false;
    atomic_store(&r->in->reader_asleep, AWAKE);
    return true;
}

static bool arm_ring(struct sheaf__stream *s, size_t least)
{
    return arm_for(of(s), BY_BELL, least);
}

static bool arm_word(struct sheaf__stream *s, size_t least)
{
    return arm_for(of(s), BY_WORD, least);
}

/* Within a process threads sleep in base/ alone. */
static _Atomic uint32_t *word(struct sheaf__stream *s)
{
    struct ring_stream *r = of(s);
    return r->segment.data ? &r->in->word : NULL;
}

static void disarm_ring(struct sheaf__stream *s)
{
    atomic_store_explicit(&of(s)->in->reader_asleep, AWAKE, memory_order_relaxed);
}

/* ---- making ---- */

static void free_ring(struct sheaf__stream *s)
{
    struct ring_stream *r = of(s);
    atomic_store(&r->out->closed, 1);
    wake_reader(r);
    r->release(r);
    sheaf__free(r);
}

static const struct sheaf__stream_ops ring_ops = {
    .write = write_ring,
    .read = read_ring,
    .peek = peek_ring,
    .skip = skip_ring,
    .arm = arm_ring,
    .disarm = disarm_ring,
    .want_room = want_room_ring,
    .arm_word = arm_word,
    .word = word,
    .free = free_ring,
};
static struct ring_stream *new_end(const char *name, uint8_t *memory, int side)
{
    struct ring_stream *r = sheaf__calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->stream = (struct sheaf__stream){.ops = &ring_ops, .name = name, .fd = -1};
    r->out = (struct shared *)(void *)memory + side;
    r->in = (struct shared *)(void *)memory + (1 - side);
    return r;
}

/* ---- between processes ---- */

static void release_segment(struct ring_stream *r)
{
    sheaf__segment_close(&r->segment);
}

struct sheaf__stream *sheaf__stream_of_segment(const struct sheaf__segment *segment, int side,
                                               const struct sheaf__bell *bell)
{
    struct ring_stream *r = new_end("shm", segment->data, side);
    if (!r)
        return NULL;
    r->segment = *segment;
    r->bell = *bell;
    r->release = release_segment;
    return &r->stream;
}

/* ---- within a process ---- */

/* Both ends hold it. The lock keeps a bell from being rung while its owner goes away. */
struct pair {
    int refs;
    struct sheaf__mutex lock;
    struct sheaf__bell bells[2]; /* ring: NULL once that end is freed */
    struct ring_stream *ends[2];
    uint8_t *memory;
};

static void ring_other(struct pair *pair, int side)
{
    sheaf__mutex_lock(&pair->lock);
    struct sheaf__bell bell = pair->bells[1 - side];
    if (bell.ring)
        bell.ring(bell.user);
    sheaf__mutex_unlock(&pair->lock);
}

static void ring_from_0(void *user)
{
    ring_other(user, 0);
}

static void ring_from_1(void *user)
{
    ring_other(user, 1);
}

static void release_pair(struct ring_stream *r)
{
    struct pair *pair = r->bell.user;
    sheaf__mutex_lock(&pair->lock);
    pair->bells[r == pair->ends[1]].ring = NULL;
    bool last = --pair->refs == 0;
    sheaf__mutex_unlock(&pair->lock);
    if (last) {
        sheaf__free(pair->memory);
        sheaf__free(pair);
    }
}

sheaf_status sheaf__stream_pair(const struct sheaf__bell bells[2], struct sheaf__stream *streams[2],
                                sheaf_error *err)
{
    struct pair *pair = sheaf__calloc(1, sizeof(*pair));
    uint8_t *memory = pair ? sheaf__alloc_aligned(sheaf__ring_bytes()) : NULL;
    struct ring_stream *a = memory ? new_end("inproc", memory, 0) : NULL;
    struct ring_stream *b = a ? new_end("inproc", memory, 1) : NULL;
    if (!b) {
        sheaf__free(a);
        sheaf__free(memory);
        sheaf__free(pair);
        return sheaf__no_memory(err, "a connection");
    }
    for (int side = 0; side < 2; side++)
        memset((struct shared *)(void *)memory + side, 0, offsetof(struct shared, data));
    *pair = (struct pair){.refs = 2, .ends = {a, b}, .memory = memory};
    memcpy(pair->bells, bells, sizeof(pair->bells));
    a->bell = (struct sheaf__bell){ring_from_0, pair};
    b->bell = (struct sheaf__bell){ring_from_1, pair};
    a->release = b->release = release_pair;
    streams[0] = &a->stream;
    streams[1] = &b->stream;
    return SHEAF_OK;
}
