/* SPDX-License-Identifier: Apache-2.0 */
#include "nets.h"

#include <stdlib.h>

/* Payloads that a service takes piece by piece, over every way; and what comes midway. */

enum { TAKEN = SHEAF__CALL_TEST, KEPT };
enum { TABLE = 20 << 20 };

/* The service's side. */
struct server {
    _Atomic int served, dropped;
    _Atomic int fence; /* orders the test and the service, which are one process only here */
    uint8_t *table;    /* where the pieces go */
    size_t at, pieces;
    bool misaligned, torn; /* a piece was */
};

static sheaf_status place(struct sheaf__call *call, void *user, sheaf_error *err)
{
    struct server *s = user;
    atomic_fetch_add(&s->fence, 1);
    if (sheaf__call_payload_size(call) > TABLE)
        return sheaf__error(err, SHEAF_ERR_OUT_OF_RANGE, "no room for it");
    s->at = s->pieces = 0;
    sheaf__call_take(call);
    return SHEAF_OK;
}

static void take(struct sheaf__call *call, const void *data, size_t size, void *user)
{
    struct server *s = user;
    s->misaligned |= (uintptr_t)data % 8 != 0;
    s->torn |= size == 0 || (size % 8 != 0 && s->at + size < sheaf__call_payload_size(call));
    memcpy(s->table + s->at, data, size);
    s->at += size;
    s->pieces++;
}

static void dropped(struct sheaf__call *call, void *user)
{
    struct server *s = user;
    (void)call;
    atomic_fetch_add(&s->dropped, 1);
}

/* Sends back what was taken. */
static void serve(struct sheaf__call *call, void *user)
{
    struct server *s = user;
    const struct sheaf__part part = {s->table, s->at};
    struct sheaf__net *net = sheaf__peer_net(sheaf__call_peer(call));
    assert_null(sheaf__call_payload(call));
    atomic_fetch_add(&s->served, 1);
    atomic_fetch_add(&s->fence, 1);
    sheaf__call_reply(call, &(struct sheaf__reply){.parts = &part, .count = 1});
    sheaf__net_wake(net);
}

static void keep(struct sheaf__call *call, void *user)
{
    (void)user;
    sheaf__call_reply(call, NULL);
}

static struct sheaf__peer *open_pair(struct nets *n, enum way way, struct server *s)
{
    sheaf_error err = {0};
    nets_context(n, way);
    nets_make(n, 0, 0);
    nets_make(n, 1, 0);
    const struct sheaf__service services[] = {
        {.kind = TAKEN,
         .place = place,
         .take = take,
         .serve = serve,
         .drop = dropped,
         .user = s,
         .payload_limit = TABLE},
        {.kind = KEPT, .serve = keep},
    };
    s->table = malloc(TABLE);
    for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++)
        rig_ok(sheaf__net_serve(n->net[1], &services[i], &err), &err);
    nets_start(n, 1);
    nets_start(n, 0);
    return nets_connect(n, 0, 1);
}

/* ---- all of it comes, whatever came before ---- */

static void check_taken(struct sheaf__peer *peer, struct server *s, size_t meta, size_t size)
{
    static const uint8_t text[64];
    sheaf_error err = {0};
    uint8_t *data = malloc(size + 1), *back = calloc(1, size + 1);
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(i * 31 + (i >> 13));
    struct sheaf__part parts[2] = {{data, size / 3}, {data + size / 3, size - size / 3}};
    struct sheaf__part into = {back, size};
    struct sheaf__request r = {.kind = TAKEN,
                               .meta = text,
                               .meta_size = meta,
                               .parts = parts,
                               .count = 2,
                               .into = &into,
                               .into_count = 1};
    struct sheaf__wait wait = nets_wait(20);
    rig_ok(sheaf__call(peer, &r, &wait, &err), &err);
    atomic_fetch_add(&s->fence, 1);
    assert_int_equal(r.reply_size, size);
    assert_int_equal(memcmp(back, data, size), 0);
    assert_false(s->misaligned);
    assert_false(s->torn);
    atomic_fetch_add(&s->fence, 1);
    /* One that is kept, of a size that is no multiple of anything. */
    r.kind = KEPT;
    parts[0].size = size / 3 > 5 ? 5 : 0;
    r.count = 1;
    rig_ok(sheaf__call(peer, &r, &wait, &err), &err);
    sheaf__request_clear(&r);
    free(data);
    free(back);
}

static void test_taken(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 7, 8, 9, 4095, 65537, 1 << 20, 3000003};
    for (int way = 0; way < WAYS; way++) {
        struct nets n;
        struct server s = {0};
        struct sheaf__peer *peer = open_pair(&n, (enum way)way, &s);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            for (size_t meta = 0; meta < 20; meta += 3)
                check_taken(peer, &s, meta, sizes[i]);
        /* UCX brings it whole. */
        assert_true(way == UCX ? s.pieces == 1 : s.pieces >= 3000003 / (64 << 10));
        assert_int_equal(s.served, 7 * 8);
        sheaf__peer_unref(peer);
        nets_end(&n);
        free(s.table);
    }
}

/* ---- it is refused ---- */

static void test_refused(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        struct nets n;
        struct server s = {0};
        sheaf_error err = {0};
        struct sheaf__peer *peer = open_pair(&n, (enum way)way, &s);
        uint8_t *data = calloc(1, TABLE + 1);
        struct sheaf__part part = {data, TABLE + 1};
        struct sheaf__request r = {.kind = TAKEN, .parts = &part, .count = 1};
        struct sheaf__wait wait = nets_wait(20);
        rig_fails(sheaf__call(peer, &r, &wait, &err), &err, SHEAF_ERR_OUT_OF_RANGE, "no room");
        check_taken(peer, &s, 3, 100);
        assert_int_equal(s.dropped, 0);
        sheaf__peer_unref(peer);
        nets_end(&n);
        free(data);
        free(s.table);
    }
}

/* ---- the caller dies midway ---- */

static bool is_over(void *user)
{
    struct server *s = user;
    return atomic_load(&s->served) + atomic_load(&s->dropped) > 0;
}

static void on_down(struct sheaf__peer *peer, const sheaf_error *cause, void *user)
{
    (void)cause;
    (void)user;
    sheaf__net_wake(sheaf__peer_net(peer));
}

static void on_sent(void *user)
{
    (void)user;
}

/* One that has begun to come is served or dropped, once; true if it was dropped. */
static bool die_midway(enum way way)
{
    static uint8_t data[TABLE];
    struct nets n;
    struct server s = {0};
    sheaf_error err = {0};
    struct sheaf__net_events events = {.down = on_down};
    struct sheaf__peer *peer = open_pair(&n, way, &s);
    const struct sheaf__part part = {data, sizeof(data)};
    const struct sheaf__post post = {.kind = TAKEN, .parts = &part, .count = 1, .sent = on_sent};
    struct sheaf__wait wait = nets_wait(20);
    sheaf__net_listen(n.net[1], &events);
    rig_ok(sheaf__post(peer, &post, &err), &err);
    sheaf__peer_unref(peer);
    sheaf__net_free(n.net[0], -1);
    n.net[0] = NULL;
    rig_ok(sheaf__net_wait(n.net[1], is_over, &s, &wait, &err), &err);
    sheaf__net_unlisten(n.net[1], &events);
    nets_end(&n);
    assert_int_equal(s.served + s.dropped, 1);
    free(s.table);
    return s.dropped == 1;
}

static void test_dropped(void **state)
{
    (void)state;
    for (int way = 0; way < UCX; way++) {
        bool was_dropped = false;
        for (int i = 0; i < 20 && !was_dropped; i++)
            was_dropped = die_midway((enum way)way);
        assert_true(was_dropped);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_taken),
        rig_test(test_refused),
        rig_test(test_dropped),
    };
    return rig_run(tests);
}
