/* SPDX-License-Identifier: Apache-2.0 */

/* Large pushes, which a server computes while they come in: the same bits as if they were applied
 * when they are there, all or nothing, once. Two workers and a third net talk to a server's services
 * in this process. */

#include "../net/nets.h"

#include "ps/server.h"

enum { A, SERVER, B, STALLER };
enum { STALL = SHEAF__CALL_TEST };
enum { WIDE = 2, ROWS = 2 << 20, BYTES = ROWS * WIDE * 4 }; /* of variable 0 */
enum { ODD = 65537 };                                       /* elements of variable 1 */

struct scene {
    struct nets n;
    struct sheaf__ps_server server;
    struct sheaf__peer *peer[NETS_MOST]; /* the server as each net sees it */
    _Atomic bool stalled, released;
};

/* ---- making one ---- */

/* Keeps the thread that drives the server, until the others have sent what they have to send. */
static void stall_here(struct sheaf__call *call, void *user)
{
    struct scene *s = user;
    atomic_store(&s->stalled, true);
    while (!atomic_load(&s->released))
        sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), SHEAF__NO_TOKEN, NULL);
    sheaf__call_reply(call, NULL);
}

static void make_variable(struct sheaf__ps_table *t, uint32_t number, sheaf_dtype dtype,
                          sheaf_shape shape)
{
    sheaf_error err = {0};
    struct sheaf__ps_variable *v;
    const struct sheaf__ps_definition d = {.variable = number,
                                           .dtype = dtype,
                                           .full = shape,
                                           .shape = shape,
                                           .name = "v",
                                           .name_size = 1};
    rig_ok(sheaf__ps_define(t, &d, &v, &err), &err);
    struct sheaf__buffer *b = sheaf__buffer_new(NULL, v->bytes, &err);
    assert_non_null(b);
    memset(b->data, 0, v->bytes);
    assert_true(sheaf__ps_initialise(v, b));
    sheaf__unref(b);
}

static void fill_table(struct sheaf__ps_table *t)
{
    make_variable(t, 0, SHEAF_FLOAT32, SHEAF_SHAPE(ROWS, WIDE));
    make_variable(t, 1, SHEAF_FLOAT32, SHEAF_SHAPE(ODD));
    make_variable(t, 2, SHEAF_INT64, SHEAF_SHAPE(1));
}

static void begin(struct scene *s, enum way way)
{
    static struct sheaf__ps_worker workers[2];
    sheaf_error err = {0};
    memset(s, 0, sizeof(*s));
    memset(workers, 0, sizeof(workers));
    nets_context(&s->n, way);
    for (int i = 0; i < NETS_MOST; i++)
        nets_make(&s->n, i, 0);
    workers[0].task = nets_task(A);
    workers[1].task = nets_task(B);
    s->server.net = s->n.net[SERVER];
    s->server.workers = workers;
    s->server.worker_count = 2;
    const struct sheaf__pool_options pool = {.threads = 1};
    const struct sheaf__service stall = {.kind = STALL, .serve = stall_here, .user = s};
    rig_ok(sheaf__pool_new(&pool, &s->server.pool, &err), &err);
    rig_ok(sheaf__ps_serve_values(&s->server, &err), &err);
    rig_ok(sheaf__ps_serve_pushes(&s->server, &err), &err);
    rig_ok(sheaf__net_serve(s->server.net, &stall, &err), &err);
    fill_table(&s->server.table);
    nets_start(&s->n, SERVER);
    for (int i = 0; i < NETS_MOST; i++) {
        if (i == SERVER)
            continue;
        nets_start(&s->n, i);
        s->peer[i] = nets_connect(&s->n, i, SERVER); /* in this order they are served */
    }
}

static void end(struct scene *s)
{
    for (int i = 0; i < NETS_MOST; i++)
        sheaf__peer_unref(s->peer[i]);
    for (int i = 0; i < NETS_MOST; i++) {
        if (s->n.net[i])
            nets_stop(&s->n, i);
    }
    sheaf__pool_free(s->server.pool);
    sheaf__ps_table_free(&s->server.table);
    nets_end(&s->n);
}

/* ---- pushing ---- */

struct push {
    struct sheaf__request request;
    struct sheaf__buf meta;
    struct sheaf__part parts[3];
};

static void put(struct push *p, uint64_t sequence, bool again, const struct sheaf__ps_update *u,
                uint32_t updates)
{
    const struct sheaf__hyper sgd = {.rule = SHEAF__RULE_SGD, .step = 1, .lr = 1};
    const struct sheaf__ps_push head = {
        .sequence = sequence, .hypers = 1, .updates = updates, .again = again};
    sheaf__buf_clear(&p->meta);
    sheaf__buf_bytes(&p->meta, &head, sizeof(head));
    sheaf__buf_bytes(&p->meta, &sgd, sizeof(sgd));
    sheaf__buf_bytes(&p->meta, u, updates * sizeof(*u));
    p->request.kind = SHEAF__PS_PUSH;
    p->request.meta = p->meta.data;
    p->request.meta_size = p->meta.size;
    p->request.parts = p->parts;
    p->request.count = updates;
}

/* A gradient of -1 for all of variable 0: every element goes up by one. */
static void put_ones(struct push *p, uint64_t sequence, bool again)
{
    static float ones[ROWS * WIDE];
    const struct sheaf__ps_update u = {.kind = SHEAF__PS_GRADIENT, .bytes = BYTES};
    for (size_t i = 0; i < ROWS * WIDE && ones[i] == 0; i++)
        ones[i] = -1;
    p->parts[0] = (struct sheaf__part){ones, BYTES};
    put(p, sequence, again, &u, 1);
}

/* The first row goes up by ten. */
static void put_row(struct push *p, uint64_t sequence)
{
    static struct {
        int64_t id;
        float values[WIDE];
    } row = {0, {-10, -10}};
    const struct sheaf__ps_update u = {.kind = SHEAF__PS_ROWS, .count = 1, .bytes = sizeof(row)};
    p->parts[0] = (struct sheaf__part){&row, sizeof(row)};
    put(p, sequence, false, &u, 1);
}

static void start(struct scene *s, int net, struct push *p)
{
    sheaf_error err = {0};
    rig_ok(sheaf__request_start(s->peer[net], &p->request, &err), &err);
}

/* True if the server wants it again. */
static bool finish(struct push *p)
{
    sheaf_error err = {0};
    struct sheaf__wait wait = nets_wait(30);
    rig_ok(sheaf__request_finish(&p->request, &wait, &err), &err);
    if (p->request.reply_meta.size == 0)
        return false;
    assert_int_equal(p->request.reply_meta.size, 1);
    assert_int_equal(p->request.reply_meta.data[0], SHEAF__PS_AGAIN);
    return true;
}

static bool push(struct scene *s, int net, struct push *p)
{
    start(s, net, p);
    return finish(p);
}

static void clear(struct push *p)
{
    sheaf__request_clear(&p->request);
    sheaf__buf_free(&p->meta);
}

/* The server's variable 0: the first row, all others, updates. */
static void expect(struct scene *s, float first, float others, uint64_t updates)
{
    struct sheaf__ps_variable *v = s->server.table.variables[0];
    uint64_t version;
    struct sheaf__buffer *now = sheaf__ps_snapshot(v, 0, &version);
    const float *values = now->data;
    for (size_t i = 0; i < WIDE; i++)
        assert_true(values[i] == first);
    for (size_t i = WIDE; i < ROWS * WIDE; i++)
        assert_true(values[i] == others);
    assert_int_equal(version, updates);
    sheaf__unref(now);
    assert_true(sheaf__ps_expect(v)); /* nothing is on its way any more */
    sheaf__ps_expected(v);
}

/* ---- the same bits, once ---- */

/* One push of three updates, of which one is no multiple of 8 bytes. */
static void put_three(struct push *p, uint64_t sequence)
{
    static float wide[ROWS * WIDE], odd[ODD + 1];
    static const int64_t one = 1;
    const struct sheaf__ps_update u[3] = {
        {.variable = 1, .kind = SHEAF__PS_GRADIENT, .bytes = ODD * sizeof(float)},
        {.variable = 2, .kind = SHEAF__PS_ADD, .bytes = sizeof(one)},
        {.variable = 0, .kind = SHEAF__PS_GRADIENT, .bytes = BYTES}};
    for (size_t i = 0; i < ROWS * WIDE; i++)
        wide[i] = 1 / (float)(i + 3);
    for (size_t i = 0; i < ODD; i++)
        odd[i] = 1 / (float)(i + 7);
    p->parts[0] = (struct sheaf__part){odd, sheaf__ps_room(ODD * sizeof(float))};
    p->parts[1] = (struct sheaf__part){(void *)(uintptr_t)&one, sizeof(one)};
    p->parts[2] = (struct sheaf__part){wide, BYTES};
    put(p, sequence, false, u, 3);
}

/* What the message says, applied when it is there. */
static void apply(struct sheaf__ps_table *t, const struct push *p)
{
    sheaf_error err = {0};
    struct sheaf__ps_push_view view;
    struct sheaf__ps_variable *v;
    const size_t size = p->parts[0].size + p->parts[1].size + p->parts[2].size;
    rig_ok(sheaf__ps_get_push((struct sheaf__bytes){p->meta.data, p->meta.size}, size, &view, &err),
           &err);
    const struct sheaf__hyper h = sheaf__ps_push_hyper(&view, 0);
    for (uint32_t i = 0; i < 3; i++) {
        const struct sheaf__ps_update u = sheaf__ps_push_update(&view, i);
        rig_ok(sheaf__ps_find(t, u.variable, &v, &err), &err);
        rig_ok(sheaf__ps_apply(v, &u, &h, p->parts[i].data, &err), &err);
    }
}

static void test_same_bits(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        struct scene s;
        struct push p = {0};
        struct sheaf__ps_table expected = {0};
        begin(&s, (enum way)way);
        fill_table(&expected);
        for (uint64_t sequence = 1; sequence < 4; sequence++) {
            put_three(&p, sequence);
            apply(&expected, &p);
            assert_false(push(&s, A, &p));
            assert_false(push(&s, A, &p)); /* the same again is acknowledged, not applied */
        }
        for (uint32_t i = 0; i < 3; i++) {
            uint64_t version;
            struct sheaf__ps_variable *v = s.server.table.variables[i];
            struct sheaf__buffer *is = sheaf__ps_snapshot(v, 0, &version),
                                 *should = sheaf__ps_snapshot(expected.variables[i], 0, NULL);
            assert_int_equal(memcmp(is->data, should->data, v->bytes), 0);
            assert_int_equal(version, 3);
            sheaf__unref(is);
            sheaf__unref(should);
        }
        clear(&p);
        sheaf__ps_table_free(&expected);
        end(&s);
    }
}

/* ---- another update comes in between ---- */

/* One round of the server reads the begin of A's push, then all of B's, then goes on with A's. */
static void test_again(void **state)
{
    (void)state;
    struct scene s;
    struct push wide = {0}, row = {0}, stall = {.request = {.kind = STALL}};
    struct sheaf__ps_variable *v;
    sheaf_error err = {0};
    begin(&s, SHM);
    v = s.server.table.variables[0];
    start(&s, STALLER, &stall);
    while (!atomic_load(&s.stalled))
        sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), SHEAF__NO_TOKEN, NULL);
    put_ones(&wide, 1, false);
    put_row(&row, 1);
    start(&s, A, &wide);
    start(&s, B, &row);
    atomic_store(&s.released, true);
    assert_false(finish(&row));
    assert_true(finish(&wide));
    finish(&stall);
    expect(&s, 10, 0, 1); /* nothing of it was applied */
    put_ones(&wide, 1, true);
    assert_false(push(&s, A, &wide));
    expect(&s, 11, 1, 2);
    /* Marked as sent again it is taken in whole, whatever comes meanwhile. */
    assert_true(sheaf__ps_expect(v));
    put_ones(&wide, 2, false); /* so is one while another is on its way */
    assert_false(push(&s, A, &wide));
    sheaf__ps_expected(v);
    expect(&s, 12, 2, 3);
    rig_ok(sheaf__peer_status(s.peer[A], &err), &err);
    clear(&wide);
    clear(&row);
    sheaf__request_clear(&stall.request);
    end(&s);
}

/* What a pull brings while a push comes in is the value before it, whole. */
static void test_pull_meanwhile(void **state)
{
    (void)state;
    static float values[ROWS * WIDE];
    const uint32_t number = 0;
    const struct sheaf__part into = {values, BYTES};
    struct scene s;
    struct push wide = {0}, stall = {.request = {.kind = STALL}};
    struct push pull = {.request = {.kind = SHEAF__PS_PULL,
                                    .meta = &number,
                                    .meta_size = sizeof(number),
                                    .into = &into,
                                    .into_count = 1}};
    begin(&s, SHM);
    start(&s, STALLER, &stall);
    while (!atomic_load(&s.stalled))
        sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), SHEAF__NO_TOKEN, NULL);
    put_ones(&wide, 1, false);
    start(&s, A, &wide);
    start(&s, B, &pull);
    atomic_store(&s.released, true);
    struct sheaf__wait wait = nets_wait(30);
    sheaf_error err = {0};
    rig_ok(sheaf__request_finish(&pull.request, &wait, &err), &err);
    assert_false(finish(&wide));
    finish(&stall);
    for (size_t i = 0; i < ROWS * WIDE; i++)
        assert_true(values[i] == 0);
    expect(&s, 1, 1, 1);
    clear(&wide);
    clear(&pull);
    sheaf__request_clear(&stall.request);
    end(&s);
}

/* ---- the worker is lost ---- */

static void on_done(struct sheaf__request *request, void *user)
{
    (void)request;
    (void)user;
}

static void test_lost_midway(void **state)
{
    (void)state;
    static const enum way ways[] = {INPROC, TCP, SHM};
    for (int i = 0; i < 3; i++) {
        struct scene s;
        struct push half = {.request = {.done = on_done}}, wide = {0},
                    stall = {.request = {.kind = STALL}};
        begin(&s, ways[i]);
        /* The server is not there to take more than its buffers hold. */
        start(&s, STALLER, &stall);
        while (!atomic_load(&s.stalled))
            sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), SHEAF__NO_TOKEN, NULL);
        put_ones(&half, 1, false);
        start(&s, A, &half);
        sheaf__peer_unref(s.peer[A]);
        s.peer[A] = NULL;
        sheaf__net_free(s.n.net[A], -1);
        s.n.net[A] = NULL;
        atomic_store(&s.released, true);
        finish(&stall);
        put_ones(&wide, 1, false);
        while (push(&s, B, &wide))
            ;
        expect(&s, 1, 1, 1);
        clear(&half);
        clear(&wide);
        sheaf__request_clear(&stall.request);
        end(&s);
    }
}

/* ---- it is refused ---- */

static void test_refused(void **state)
{
    (void)state;
    struct scene s;
    struct push p = {0};
    struct sheaf__wait wait = nets_wait(30);
    sheaf_error err = {0};
    begin(&s, SHM);
    put_ones(&p, 1, false);
    struct sheaf__ps_update u = {.variable = 3, .kind = SHEAF__PS_GRADIENT, .bytes = BYTES};
    put(&p, 1, false, &u, 1);
    start(&s, A, &p);
    rig_fails(sheaf__request_finish(&p.request, &wait, &err), &err, SHEAF_ERR_NOT_FOUND,
              "variable 3");
    u.variable = 1;
    put(&p, 1, false, &u, 1);
    start(&s, A, &p);
    rig_fails(sheaf__request_finish(&p.request, &wait, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "an update of 16777216 bytes for variable 'v' of 262148");
    u.variable = 0;
    put(&p, 2, false, &u, 1);
    assert_false(push(&s, A, &p));
    expect(&s, 1, 1, 1);
    clear(&p);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_same_bits),   rig_test(test_again),   rig_test(test_pull_meanwhile),
        rig_test(test_lost_midway), rig_test(test_refused),
    };
    return rig_run(tests);
}
