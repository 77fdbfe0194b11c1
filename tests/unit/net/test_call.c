/* SPDX-License-Identifier: Apache-2.0 */
#include "nets.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Requests, replies and posts, over every way. */

enum { ECHO = SHEAF__CALL_TEST, PLACED, FAIL, HOLD, COUNT };

/* The service's side. */
struct server {
    _Atomic int served, dropped, freed;
    _Atomic int fence; /* orders the test and the service, which are one process only here */
    uint8_t *table;    /* where PLACED payloads go */
    size_t table_size;
    struct sheaf__call *_Atomic held;
};

static void echo(struct sheaf__call *call, void *user)
{
    struct server *s = user;
    struct sheaf__bytes meta = sheaf__call_meta(call);
    struct sheaf__part part = {sheaf__call_payload(call), sheaf__call_payload_size(call)};
    struct sheaf__reply reply = {
        .meta = meta.data, .meta_size = meta.size, .parts = &part, .count = 1};
    atomic_fetch_add(&s->served, 1);
    sheaf__call_reply(call, &reply);
}

static sheaf_status place(struct sheaf__call *call, void *user, sheaf_error *err)
{
    struct server *s = user;
    size_t half = s->table_size / 2;
    struct sheaf__part parts[2] = {{s->table, half}, {s->table + half, s->table_size - half}};
    atomic_fetch_add(&s->fence, 1);
    return sheaf__call_place(call, parts, 2, err);
}

static void freed(void *user)
{
    struct server *s = user;
    atomic_fetch_add(&s->freed, 1);
}

static void placed(struct sheaf__call *call, void *user)
{
    struct server *s = user;
    struct sheaf__part part = {s->table, s->table_size};
    struct sheaf__reply reply = {.parts = &part, .count = 1, .sent = freed, .user = s};
    atomic_fetch_add(&s->served, 1);
    sheaf__call_reply(call, &reply);
}

static void dropped(struct sheaf__call *call, void *user)
{
    struct server *s = user;
    (void)call;
    atomic_fetch_add(&s->dropped, 1);
}

static void fail_it(struct sheaf__call *call, void *user)
{
    sheaf_error error;
    (void)user;
    sheaf__error(&error, SHEAF_ERR_NOT_FOUND, "no variable \"w\"");
    error.origin = nets_task(1);
    sheaf__call_fail(call, &error);
}

static void hold(struct sheaf__call *call, void *user)
{
    struct server *s = user;
    sheaf__call_token(call);
    atomic_store(&s->held, call);
    sheaf__net_wake(sheaf__peer_net(sheaf__call_peer(call)));
}

static void count_it(struct sheaf__call *call, void *user)
{
    struct server *s = user;
    atomic_fetch_add(&s->served, 1);
    struct sheaf__net *net = sheaf__peer_net(sheaf__call_peer(call));
    sheaf__call_reply(call, NULL);
    sheaf__net_wake(net);
}

static struct sheaf__peer *open_pair(struct nets *n, enum way way, struct server *s)
{
    sheaf_error err = {0};
    nets_context(n, way);
    nets_make(n, 0, 0);
    nets_make(n, 1, 0);
    const struct sheaf__service services[] = {
        {.kind = ECHO, .serve = echo, .user = s},
        {.kind = PLACED, .serve = placed, .place = place, .drop = dropped, .user = s},
        {.kind = FAIL, .serve = fail_it, .user = s},
        {.kind = HOLD, .serve = hold, .user = s},
        {.kind = COUNT, .serve = count_it, .user = s},
    };
    for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++)
        rig_ok(sheaf__net_serve(n->net[1], &services[i], &err), &err);
    nets_start(n, 1);
    nets_start(n, 0);
    return nets_connect(n, 0, 1);
}

/* ---- small and large, in and out ---- */

static void check_echo(struct sheaf__peer *peer, size_t meta_size, size_t payload_size)
{
    sheaf_error err = {0};
    uint8_t *meta = malloc(meta_size + 1), *data = malloc(payload_size + 1),
            *back = malloc(payload_size + 1);
    for (size_t i = 0; i < meta_size; i++)
        meta[i] = (uint8_t)(i * 7);
    for (size_t i = 0; i < payload_size; i++)
        data[i] = (uint8_t)(i * 31 + (i >> 13));
    memset(back, 0, payload_size);
    size_t third = payload_size / 3;
    struct sheaf__part parts[3] = {
        {data, third}, {data + third, 0}, {data + third, payload_size - third}};
    struct sheaf__part into[2] = {{back, payload_size - third},
                                  {back + payload_size - third, third}};
    struct sheaf__request r = {.kind = ECHO,
                               .meta = meta,
                               .meta_size = meta_size,
                               .parts = parts,
                               .count = 3,
                               .into = into,
                               .into_count = 2};
    struct sheaf__wait wait = nets_wait(20);
    rig_ok(sheaf__call(peer, &r, &wait, &err), &err);
    assert_int_equal(r.reply_meta.size, meta_size);
    if (meta_size > 0)
        assert_memory_equal(r.reply_meta.data, meta, meta_size);
    assert_int_equal(r.reply_size, payload_size);
    assert_int_equal(memcmp(back, data, payload_size), 0);
    sheaf__request_clear(&r);
    free(meta);
    free(data);
    free(back);
}

static void echo_over(enum way way)
{
    struct nets n;
    struct server s = {0};
    struct sheaf__peer *peer = open_pair(&n, way, &s);
    static const size_t sizes[] = {0, 1, 31, 4096, 65537, 600000, 5000001};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (size_t j = 0; j < 6; j++)
            check_echo(peer, sizes[j], sizes[i]);
    assert_int_equal(s.served, 42);
    sheaf__peer_unref(peer);
    nets_end(&n);
}

static void test_echo_inproc(void **state)
{
    (void)state;
    echo_over(INPROC);
}

static void test_echo_tcp(void **state)
{
    (void)state;
    echo_over(TCP);
}

static void test_echo_shm(void **state)
{
    (void)state;
    echo_over(SHM);
}

static void test_echo_ucx(void **state)
{
    (void)state;
    echo_over(UCX);
}

/* ---- payload goes where the service says, without a copy of ours ---- */

static void placed_over(enum way way)
{
    struct nets n;
    struct server s = {.table_size = 3000000};
    sheaf_error err = {0};
    s.table = calloc(1, s.table_size);
    struct sheaf__peer *peer = open_pair(&n, way, &s);
    uint8_t *data = malloc(s.table_size), *back = malloc(s.table_size + 10);
    for (size_t i = 0; i < s.table_size; i++)
        data[i] = (uint8_t)(i % 251);
    struct sheaf__part part = {data, s.table_size}, into = {back, s.table_size + 10};
    struct sheaf__request r = {
        .kind = PLACED, .parts = &part, .count = 1, .into = &into, .into_count = 1};
    struct sheaf__wait wait = nets_wait(20);
    rig_ok(sheaf__call(peer, &r, &wait, &err), &err);
    assert_int_equal(r.reply_size, s.table_size);
    assert_int_equal(atomic_load(&s.served), 1);
    assert_int_equal(memcmp(s.table, data, s.table_size), 0);
    assert_int_equal(memcmp(back, data, s.table_size), 0);
    atomic_fetch_add(&s.fence, 1);
    /* A payload of another size is refused, and the connection lives on. */
    part.size = 17;
    rig_fails(sheaf__call(peer, &r, &wait, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "17 bytes has come, expected 3000000");
    /* A reply that does not fit, too. */
    part.size = s.table_size;
    into.size = 10;
    rig_fails(sheaf__call(peer, &r, &wait, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "/job:worker/task:1 replied with 3000000 bytes, expected at most 10");
    check_echo(peer, 3, 3);
    sheaf__peer_unref(peer);
    nets_end(&n);
    sheaf__request_clear(&r);
    assert_int_equal(s.freed, 2);
    free(data);
    free(back);
    free(s.table);
}

static void test_placed_inproc(void **state)
{
    (void)state;
    placed_over(INPROC);
}

static void test_placed_tcp(void **state)
{
    (void)state;
    placed_over(TCP);
}

static void test_placed_shm(void **state)
{
    (void)state;
    placed_over(SHM);
}

static void test_placed_ucx(void **state)
{
    (void)state;
    placed_over(UCX);
}

/* ---- errors come back whole ---- */

static void test_errors(void **state)
{
    (void)state;
    struct nets n;
    struct server s = {0};
    sheaf_error err = {0};
    struct sheaf__peer *peer = open_pair(&n, INPROC, &s);
    struct sheaf__wait wait = nets_wait(20);
    struct sheaf__request r = {.kind = FAIL};
    rig_fails(sheaf__call(peer, &r, &wait, &err), &err, SHEAF_ERR_NOT_FOUND, "no variable \"w\"");
    assert_string_equal(err.origin.job, "worker");
    assert_int_equal(err.origin.index, 1);
    r.kind = SHEAF__CALL_TEST + 50;
    rig_fails(sheaf__call(peer, &r, &wait, &err), &err, SHEAF_ERR_UNIMPLEMENTED,
              "/job:worker/task:1 does not serve requests of kind 242");
    r.kind = SHEAF__CALL_PING;
    rig_ok(sheaf__call(peer, &r, &wait, &err), &err);
    sheaf__peer_unref(peer);
    nets_end(&n);
}

/* ---- many at once, in order ---- */

static void test_many_outstanding(void **state)
{
    (void)state;
    enum { MANY = 100, SIZE = 50000 };
    for (int way = 0; way < WAYS; way++) {
        struct nets n;
        struct server s = {0};
        sheaf_error err = {0};
        struct sheaf__peer *peer = open_pair(&n, (enum way)way, &s);
        struct sheaf__request *r = calloc(MANY, sizeof(*r));
        uint8_t *data = calloc(MANY, SIZE), *back = calloc(MANY, SIZE);
        struct sheaf__part part[MANY], into[MANY];
        struct sheaf__wait wait = nets_wait(20);
        for (int i = 0; i < MANY; i++) {
            memset(data + i * SIZE, i, SIZE);
            part[i] = (struct sheaf__part){data + i * SIZE, SIZE};
            into[i] = (struct sheaf__part){back + i * SIZE, SIZE};
            r[i] = (struct sheaf__request){
                .kind = ECHO, .parts = &part[i], .count = 1, .into = &into[i], .into_count = 1};
            rig_ok(sheaf__request_start(peer, &r[i], &err), &err);
        }
        for (int i = MANY - 1; i >= 0; i--)
            rig_ok(sheaf__request_finish(&r[i], &wait, &err), &err);
        assert_int_equal(memcmp(data, back, (size_t)MANY * SIZE), 0);
        free(r);
        free(data);
        free(back);
        sheaf__peer_unref(peer);
        nets_end(&n);
    }
}

/* ---- memory ---- */

/* After the first calls of a kind, memory of earlier ones is used again. */
static void test_nothing_is_allocated(void **state)
{
    (void)state;
    static const enum way ways[] = {INPROC, SHM};
    for (int w = 0; w < 2; w++) {
        struct nets n;
        struct server s = {0};
        struct sheaf__peer *peer = open_pair(&n, ways[w], &s);
        for (int i = 0; i < 3; i++)
            check_echo(peer, 100, 100000);
        uint64_t before = sheaf__mem_stats().allocations;
        for (int i = 0; i < 50; i++)
            check_echo(peer, 0, 100000);
        assert_int_equal(sheaf__mem_stats().allocations - before, 0);
        sheaf__peer_unref(peer);
        nets_end(&n);
    }
}

/* ---- descriptors ---- */

/* A program that was started with them closed prints into whatever gets their numbers. */
static void test_the_first_three_descriptors_are_the_programs(void **state)
{
    (void)state;
    static const enum way ways[] = {TCP, SHM};
    for (int w = 0; w < 2; w++) {
        struct nets n;
        struct server s = {0};
        bool closed = true;
        int kept[3];
        for (int i = 0; i < 3; i++) {
            kept[i] = fcntl(i, F_DUPFD_CLOEXEC, 3);
            close(i);
        }
        struct sheaf__peer *peer = open_pair(&n, ways[w], &s);
        check_echo(peer, 10, 600000);
        for (int i = 0; i < 3; i++) {
            closed = closed && fcntl(i, F_GETFD) < 0;
            dup2(kept[i], i);
            close(kept[i]);
        }
        assert_true(closed);
        sheaf__peer_unref(peer);
        nets_end(&n);
    }
}

/* ---- giving up ---- */

static bool is_held(void *user)
{
    struct server *s = user;
    return atomic_load(&s->held) != NULL;
}

static void test_deadline_and_cancel(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        struct nets n;
        struct server s = {0};
        sheaf_error err = {0};
        uint8_t byte = 1;
        struct sheaf__peer *peer = open_pair(&n, (enum way)way, &s);
        struct sheaf__part into = {&byte, 1};
        struct sheaf__request r = {.kind = HOLD, .into = &into, .into_count = 1};
        struct sheaf__wait wait = nets_wait(0.05), long_wait = nets_wait(20);
        wait.what = "pull of step 7";
        rig_fails(sheaf__call(peer, &r, &wait, &err), &err, SHEAF_ERR_DEADLINE,
                  "waited too long for pull of step 7");
        assert_int_equal(err.peer.index, 1);
        /* The service learns of it: its token is cancelled. Its late answer goes nowhere. */
        rig_ok(sheaf__net_wait(n.net[1], is_held, &s, &long_wait, &err), &err);
        struct sheaf__call *call = atomic_load(&s.held);
        struct sheaf__token *token = sheaf__call_token(call);
        sheaf_status status = SHEAF_OK;
        while (status == SHEAF_OK)
            status = sheaf__wait_sleep(sheaf__clock_deadline(20), token, NULL);
        assert_int_equal(status, SHEAF_ERR_CANCELLED);
        assert_true(sheaf__call_abandoned(call));
        uint8_t other = 2;
        struct sheaf__part part = {&other, 1};
        sheaf__call_reply(call, &(struct sheaf__reply){.parts = &part, .count = 1});
        check_echo(peer, 10, 10);
        assert_int_equal(byte, 1);
        sheaf__peer_unref(peer);
        nets_end(&n);
    }
}

/* A large request is given up while half of it is on its way: the rest still leaves, from a copy.
 */
static void test_give_up_half_sent(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        struct nets n;
        struct server s = {0};
        sheaf_error err = {0};
        enum { SIZE = 20 << 20 };
        struct sheaf__peer *peer = open_pair(&n, (enum way)way, &s);
        uint8_t *data = malloc(SIZE);
        memset(data, 5, SIZE);
        struct sheaf__part part = {data, SIZE};
        struct sheaf__request r = {.kind = HOLD, .parts = &part, .count = 1};
        struct sheaf__wait now = nets_wait(0);
        rig_fails(sheaf__call(peer, &r, &now, &err), &err, SHEAF_ERR_DEADLINE, "");
        memset(data, 9, SIZE);
        free(data);
        /* UCX cannot give a message up: if the other side is too slow, the session ends. */
        if (way == UCX && sheaf__peer_status(peer, &err) < 0) {
            assert_non_null(strstr(err.message, "given up midway"));
            sheaf__peer_unref(peer);
            nets_end(&n);
            continue;
        }
        check_echo(peer, 10, 10);
        struct sheaf__call *call = atomic_load(&s.held);
        if (call) { /* it had begun to leave, so it has come whole */
            const uint8_t *got = sheaf__call_payload(call);
            assert_int_equal(sheaf__call_payload_size(call), SIZE);
            for (size_t i = 0; i < SIZE; i += 1009)
                assert_int_equal(got[i], 5);
            sheaf__call_reply(call, NULL);
        }
        sheaf__peer_unref(peer);
        nets_end(&n);
    }
}

/* ---- callbacks instead of waiting ---- */

struct chain {
    struct nets *n;
    struct sheaf__peer *peer;
    _Atomic int left;
    sheaf_status worst;
};

static void next_in_chain(struct sheaf__request *request, void *user)
{
    struct chain *c = user;
    if (request->status < 0)
        c->worst = request->status;
    if (atomic_fetch_sub(&c->left, 1) > 1)
        request->status = sheaf__request_start(c->peer, request, NULL);
    else
        sheaf__net_wake(c->n->net[0]);
}

static bool chain_ended(void *user)
{
    struct chain *c = user;
    return atomic_load(&c->left) == 0;
}

static void test_done_callback(void **state)
{
    (void)state;
    struct nets n;
    struct server s = {0};
    sheaf_error err = {0};
    struct chain c = {.n = &n, .left = 50};
    c.peer = open_pair(&n, SHM, &s);
    struct sheaf__request r = {.kind = ECHO, .done = next_in_chain, .user = &c};
    struct sheaf__wait wait = nets_wait(20);
    rig_ok(sheaf__request_start(c.peer, &r, &err), &err);
    rig_ok(sheaf__net_wait(n.net[0], chain_ended, &c, &wait, &err), &err);
    assert_int_equal(s.served, 50);
    assert_int_equal(c.worst, SHEAF_OK);
    /* One that is cancelled comes back with the cause. */
    c.left = 1;
    r.kind = HOLD;
    rig_ok(sheaf__request_start(c.peer, &r, &err), &err);
    sheaf_error cause;
    sheaf__error(&cause, SHEAF_ERR_CANCELLED, "the step was cancelled");
    sheaf__request_cancel(&r, &cause);
    assert_int_equal(c.left, 0);
    assert_int_equal(c.worst, SHEAF_ERR_CANCELLED);
    sheaf__request_cancel(&r, &cause); /* nothing: it is over */
    assert_int_equal(c.left, 0);
    rig_ok(sheaf__net_wait(n.net[1], is_held, &s, &wait, &err), &err);
    sheaf__call_reply(atomic_load(&s.held), NULL);
    sheaf__request_clear(&r);
    sheaf__peer_unref(c.peer);
    nets_end(&n);
}

/* ---- posts ---- */

struct expectation {
    struct server *s;
    int count;
};

static bool all_came(void *user)
{
    struct expectation *e = user;
    return atomic_load(&e->s->served) >= e->count;
}

static void test_posts(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        struct nets n;
        struct server s = {0};
        sheaf_error err = {0};
        struct sheaf__peer *peer = open_pair(&n, (enum way)way, &s);
        uint8_t data[1000] = {0};
        struct sheaf__part part = {data, sizeof(data)};
        struct sheaf__post post = {
            .kind = COUNT, .meta = "x", .meta_size = 1, .parts = &part, .count = 1};
        const struct sheaf__post nothing = {.kind = COUNT};
        for (int i = 0; i < 2000; i++)
            rig_ok(sheaf__post(peer, i % 2 ? &post : &nothing, &err), &err);
        struct expectation e = {&s, 2000};
        struct sheaf__wait wait = nets_wait(20);
        rig_ok(sheaf__net_wait(n.net[1], all_came, &e, &wait, &err), &err);
        /* What was sent before the goodbye arrives before it. */
        for (int i = 0; i < 2000; i++)
            rig_ok(sheaf__post(peer, &post, &err), &err);
        sheaf__peer_unref(peer);
        nets_stop(&n, 0);
        e.count = 4000;
        wait = nets_wait(20);
        rig_ok(sheaf__net_wait(n.net[1], all_came, &e, &wait, &err), &err);
        nets_end(&n);
    }
}

/* ---- several threads call and serve at the same time ---- */

struct caller {
    struct sheaf__peer *peer;
    int seed;
    _Atomic int wrong;
};

static void call_often(void *user)
{
    struct caller *c = user;
    sheaf_error err;
    uint8_t data[3000], back[3000];
    for (int i = 0; i < 200; i++) {
        size_t size = (size_t)((i * 37 + c->seed * 101) % 3000);
        memset(data, i + c->seed, size);
        struct sheaf__part part = {data, size}, into = {back, size};
        struct sheaf__request r = {
            .kind = ECHO, .parts = &part, .count = 1, .into = &into, .into_count = 1};
        struct sheaf__wait wait = nets_wait(30);
        if (sheaf__call(c->peer, &r, &wait, &err) < 0 || r.reply_size != size ||
            memcmp(data, back, size) != 0)
            atomic_fetch_add(&c->wrong, 1);
    }
}

static void test_threads(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        struct nets n;
        struct server s = {0};
        sheaf_error err = {0};
        struct sheaf__thread *threads[4];
        struct caller callers[4] = {0};
        struct sheaf__peer *peer = open_pair(&n, (enum way)way, &s);
        for (int i = 0; i < 4; i++) {
            callers[i].peer = peer;
            callers[i].seed = i;
            rig_ok(sheaf__thread_start("caller", call_often, &callers[i], NULL, &threads[i], &err),
                   &err);
        }
        for (int i = 0; i < 4; i++) {
            rig_ok(sheaf__thread_join(threads[i], sheaf__clock_deadline(50), &err), &err);
            assert_int_equal(callers[i].wrong, 0);
        }
        sheaf__peer_unref(peer);
        nets_end(&n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_echo_inproc),
        rig_test(test_echo_tcp),
        rig_test(test_echo_shm),
        rig_test(test_echo_ucx),
        rig_test(test_placed_inproc),
        rig_test(test_placed_tcp),
        rig_test(test_placed_shm),
        rig_test(test_placed_ucx),
        rig_test(test_errors),
        rig_test(test_many_outstanding),
        rig_test(test_nothing_is_allocated),
        rig_test(test_the_first_three_descriptors_are_the_programs),
        rig_test(test_deadline_and_cancel),
        rig_test(test_give_up_half_sent),
        rig_test(test_done_callback),
        rig_test(test_posts),
        rig_test(test_threads),
    };
    return rig_run(tests);
}
