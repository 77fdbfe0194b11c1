/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/error.h"
#include "base/mem.h"
#include "net/handshake.h"
#include "net/ring.h"

#include <stdlib.h>
#include <string.h>

/* The handshake as messages alone, rings as memory alone, and both when memory runs out. */

static const struct sheaf__secret secret = {.size = 32,
                                            .bytes = "0123456789abcdef0123456789abcdef"};

static struct sheaf__identity identity(const char *job, int index)
{
    struct sheaf__identity id = {.task = {.index = index}, .incarnation = 3, .run_id = "r"};
    strcpy(id.task.job, job);
    return id;
}

/* Everything that `from` has to say goes to `to`, in pieces of `piece` bytes. */
static sheaf_status pass(struct sheaf__handshake *from, struct sheaf__handshake *to, size_t piece)
{
    sheaf_status status = SHEAF_PENDING;
    size_t at = 0, room;
    uint8_t *place;
    while (at < from->out.size && (place = sheaf__handshake_room(to, &room))) {
        size_t n = room < piece ? room : piece;
        n = n < from->out.size - at ? n : from->out.size - at;
        memcpy(place, from->out.data + at, n);
        at += n;
        status = sheaf__handshake_took(to, n);
        if (status != SHEAF_PENDING)
            break;
    }
    sheaf__buf_clear(&from->out);
    return to->state == SHEAF__HANDSHAKE_FAILED ? to->error.status : status;
}

static sheaf_status shake(size_t piece, sheaf_error *err)
{
    struct sheaf__identity a = identity("worker", 2), b = identity("ps", 0);
    struct sheaf__handshake dialer, listener;
    static struct sheaf__offer offer;
    strcpy(a.address, "worker-2:1234");
    offer.lane = SHEAF__LANE_SHM;
    offer.ticket.size = 4711;
    sheaf_status status = sheaf__handshake_init(&listener, &b, &secret, NULL, err);
    if (status == SHEAF_OK)
        status = sheaf__handshake_init(&dialer, &a, &secret, &b.task, err);
    for (int i = 0; i < 3 && status >= 0; i++) {
        status = pass(&dialer, &listener, piece);
        if (status == SHEAF_OK && listener.state == SHEAF__HANDSHAKE_PROVED)
            status = sheaf__handshake_welcome(&listener, &offer);
        if (status >= 0)
            status = pass(&listener, &dialer, piece);
        if (status == SHEAF_OK && dialer.state == SHEAF__HANDSHAKE_WELCOMED)
            status = sheaf__handshake_ready(&dialer, &dialer.offer);
    }
    if (status >= 0)
        status = listener.state == SHEAF__HANDSHAKE_DONE && dialer.state == SHEAF__HANDSHAKE_DONE &&
                         listener.offer.ticket.size == 4711 && listener.peer.task.index == 2 &&
                         strcmp(listener.peer.address, a.address) == 0 &&
                         strcmp(dialer.peer.task.job, "ps") == 0
                     ? SHEAF_OK
                     : sheaf__error(err, SHEAF_ERR_INTERNAL, "not done");
    else if (err)
        *err = listener.error.status < 0 ? listener.error : dialer.error;
    sheaf__handshake_clear(&dialer);
    sheaf__handshake_clear(&listener);
    return status;
}

static void test_in_any_pieces(void **state)
{
    (void)state;
    static const size_t pieces[] = {1, 7, 12, 100, 10000};
    sheaf_error err = {0};
    for (int i = 0; i < 5; i++)
        rig_ok(shake(pieces[i], &err), &err);
}

static sheaf_status shake_once(void *user, sheaf_error *err)
{
    (void)user;
    return shake(50, err);
}

static void test_without_memory(void **state)
{
    (void)state;
    assert_true(rig_fail_allocations(shake_once, NULL) > 5);
}

/* ---- rings ---- */

static void no_bell(void *user)
{
    ++*(int *)user;
}

static sheaf_status through_rings(void *user, sheaf_error *err)
{
    struct sheaf__stream *ends[2];
    int rung[2] = {0};
    const struct sheaf__bell bells[2] = {{no_bell, &rung[0]}, {no_bell, &rung[1]}};
    static uint8_t out[3000000], in[3000000];
    size_t written = 0, got = 0, turn = 0;
    (void)user;
    SHEAF__TRY(sheaf__stream_pair(bells, ends, err));
    for (size_t i = 0; i < sizeof(out); i++)
        out[i] = (uint8_t)(i * 13 + (i >> 16));
    /* in uneven pieces, so that every position of the ends of the ring comes up */
    while (got < sizeof(in)) {
        size_t n = 1 + turn * 7919 % 70000;
        n = n < sizeof(out) - written ? n : sizeof(out) - written;
        struct sheaf__part parts[2] = {{out + written, n / 3}, {out + written + n / 3, n - n / 3}};
        ptrdiff_t w = ends[0]->ops->write(ends[0], parts, 2);
        written += w > 0 ? (size_t)w : 0;
        size_t m = 1 + turn++ * 104729 % 90000;
        m = m < sizeof(in) - got ? m : sizeof(in) - got;
        ptrdiff_t r = ends[1]->ops->read(ends[1], in + got, m);
        got += r > 0 ? (size_t)r : 0;
    }
    bool same = memcmp(in, out, sizeof(in)) == 0;
    /* sleeping rings once, and only then; what was written before the end is still read */
    bool quiet = !ends[1]->ops->arm(ends[1], 1);
    struct sheaf__part last = {out, 10};
    ends[0]->ops->write(ends[0], &last, 1);
    ends[0]->ops->write(ends[0], &last, 1);
    bool once = rung[1] == 1;
    sheaf__stream_free(ends[0]);
    bool rest =
        ends[1]->ops->read(ends[1], in, 100) == 20 && ends[1]->ops->read(ends[1], in, 100) == -1;
    sheaf__stream_free(ends[1]);
    return same && quiet && once && rest ? SHEAF_OK
                                         : sheaf__error(err, SHEAF_ERR_INTERNAL, "wrong bytes");
}

static void test_rings(void **state)
{
    (void)state;
    sheaf_error err = {0};
    rig_ok(through_rings(NULL, &err), &err);
    assert_true(rig_fail_allocations(through_rings, NULL) >= 3);
}

/* A reader that wants more than a byte is told when it is there, or half a ring, or the end. */
static void test_bytes_wanted(void **state)
{
    (void)state;
    struct sheaf__stream *ends[2];
    int rung[2] = {0};
    const struct sheaf__bell bells[2] = {{no_bell, &rung[0]}, {no_bell, &rung[1]}};
    static uint8_t data[1 << 20];
    sheaf_error err = {0};
    rig_ok(sheaf__stream_pair(bells, ends, &err), &err);
    struct sheaf__part part = {data, 999}, one = {data, 1}, all = {data, sizeof(data)};
    assert_false(ends[1]->ops->arm(ends[1], 1000));
    ends[0]->ops->write(ends[0], &part, 1);
    assert_int_equal(rung[1], 0);
    ends[0]->ops->write(ends[0], &one, 1);
    assert_int_equal(rung[1], 1);
    assert_true(ends[1]->ops->arm(ends[1], 1000));
    assert_false(ends[1]->ops->arm(ends[1], 1001));
    assert_int_equal(ends[1]->ops->read(ends[1], data, 1000), 1000);
    assert_false(ends[1]->ops->arm(ends[1], SIZE_MAX));
    ptrdiff_t full = ends[0]->ops->write(ends[0], &all, 1);
    assert_int_equal(rung[1], 2);
    assert_true(ends[1]->ops->arm(ends[1], SIZE_MAX));
    assert_int_equal(ends[1]->ops->read(ends[1], data, (size_t)full / 2 + 1), full / 2 + 1);
    assert_false(ends[1]->ops->arm(ends[1], SIZE_MAX));
    sheaf__stream_free(ends[0]);
    assert_int_equal(rung[1], 3);
    sheaf__stream_free(ends[1]);
}

/* Room is told of when the ring is half empty, not for every byte. */
static void test_room(void **state)
{
    (void)state;
    struct sheaf__stream *ends[2];
    int rung[2] = {0};
    const struct sheaf__bell bells[2] = {{no_bell, &rung[0]}, {no_bell, &rung[1]}};
    static uint8_t data[1 << 20];
    sheaf_error err = {0};
    rig_ok(sheaf__stream_pair(bells, ends, &err), &err);
    struct sheaf__part part = {data, sizeof(data)};
    ptrdiff_t full = ends[0]->ops->write(ends[0], &part, 1);
    assert_true(full > 0 && full < (ptrdiff_t)sizeof(data));
    assert_int_equal(ends[0]->ops->write(ends[0], &part, 1), 0);
    assert_false(ends[0]->ops->want_room(ends[0]));
    assert_int_equal(ends[1]->ops->read(ends[1], data, 40000), 40000);
    assert_int_equal(rung[0], 0);
    assert_int_equal(ends[1]->ops->read(ends[1], data, (size_t)full / 2), full / 2);
    assert_int_equal(rung[0], 1);
    assert_true(ends[0]->ops->want_room(ends[0]));
    sheaf__stream_free(ends[0]);
    sheaf__stream_free(ends[1]);
}

/* ---- segments ---- */

static void test_segments(void **state)
{
    (void)state;
    struct sheaf__segment a, b;
    struct sheaf__segment_ticket ticket, wrong;
    sheaf_error err = {0};
    rig_ok(sheaf__segment_make(100000, &a, &ticket, &err), &err);
    rig_ok(sheaf__segment_open(&ticket, &b, &err), &err);
    assert_true(a.size >= 100000 && a.size == b.size);
    a.data[99999] = 7;
    assert_int_equal(b.data[99999], 7);
    sheaf__segment_close(&b);
    wrong = ticket;
    wrong.token[3] ^= 1;
    rig_fails(sheaf__segment_open(&wrong, &b, &err), &err, SHEAF_ERR_INCOMPATIBLE,
              "not the one that was offered");
    wrong = ticket;
    wrong.size += 4096;
    rig_fails(sheaf__segment_open(&wrong, &b, &err), &err, SHEAF_ERR_INCOMPATIBLE, "");
    wrong = ticket;
    wrong.fd = 0; /* something else */
    assert_true(sheaf__segment_open(&wrong, &b, &err) < 0);
    wrong.pid = -1;
    assert_true(sheaf__segment_open(&wrong, &b, &err) < 0);
    sheaf__segment_seal(&a);
    assert_true(sheaf__segment_open(&ticket, &b, &err) < 0);
    assert_true(sheaf__segment_host() != 0);
    sheaf__segment_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_in_any_pieces), rig_test(test_without_memory), rig_test(test_rings),
        rig_test(test_bytes_wanted),  rig_test(test_room),           rig_test(test_segments),
    };
    return rig_run(tests);
}
