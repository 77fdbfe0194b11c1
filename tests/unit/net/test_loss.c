/* SPDX-License-Identifier: Apache-2.0 */
#include "nets.h"
#include "processes.h"

/* A task dies, or falls silent: who talks to it learns so, soon and by name (T16). */

enum { HOLD = SHEAF__CALL_TEST, STALL, UNKNOWN };

static void hold(struct sheaf__call *call, void *user)
{
    (void)call;
    (void)user; /* never answered */
}

static bool never(void *user)
{
    (void)user;
    return false;
}

/* The other side of the task that is lost is gone. */
static void say_why(struct sheaf__peer *peer, const sheaf_error *cause, void *user)
{
    (void)peer;
    (void)user;
    printf("%s\n", cause->message);
    fflush(stdout);
}

/* The task that is lost: serves until it is killed. */
static int serve(const char *transport)
{
    struct sheaf__net_events events = {.down = say_why};
    static char variable[64];
    static const char *environment[] = {variable, "SHEAF_RUN_ID=test", "SHEAF_HEARTBEAT_MS=200",
                                        NULL};
    sheaf_error err = {0};
    sheaf_context *context;
    struct sheaf__net *net;
    struct sheaf__secret secret = {.size = 32};
    snprintf(variable, sizeof(variable), "SHEAF_TRANSPORT=%s", transport);
    memset(secret.bytes, 's', 32);
    if (sheaf_context_new(&(sheaf_context_options){.environment = environment}, &context, &err) < 0)
        return sheaf_error_exit(&err);
    sheaf_context_enter(context);
    const struct sheaf__net_options options = {
        .task = nets_task(1), .address = "127.0.0.1:0", .secret = &secret};
    const struct sheaf__service service = {.kind = HOLD, .serve = hold};
    if (sheaf__net_new(&options, &net, &err) < 0 || sheaf__net_serve(net, &service, &err) < 0)
        return sheaf_error_exit(&err);
    sheaf__net_listen(net, &events);
    if (sheaf__net_start(net, &err) < 0)
        return sheaf_error_exit(&err);
    printf("%s\n", sheaf__net_address(net));
    fflush(stdout);
    struct sheaf__wait wait = nets_wait(60);
    sheaf__net_wait(net, never, NULL, &wait, &err);
    return 1;
}

struct log {
    _Atomic int down;
};

static void on_down(struct sheaf__peer *peer, const sheaf_error *cause, void *user)
{
    (void)cause;
    atomic_fetch_add(&((struct log *)user)->down, 1);
    sheaf__net_wake(sheaf__peer_net(peer));
}

static bool is_down(void *user)
{
    return atomic_load(&((struct log *)user)->down) > 0;
}

/* Starts the child, has a call there, does `signal` to it; the call must fail with `part` within `seconds`. */
static void lose_by(enum way way, int signal, const char *part, double seconds)
{
    struct nets n;
    struct child child;
    struct log log = {0};
    struct sheaf__net_events events = {.down = on_down, .user = &log};
    char address[64];
    sheaf_error err = {0};
    struct sheaf__peer *peer = NULL;
    child_start(&child, "serve", way_names[way]);
    nets_context(&n, way);
    nets_make(&n, 0, 200 * SHEAF__MS);
    sheaf__net_listen(n.net[0], &events);
    nets_start(&n, 0);
    assert_true(child_line(&child, address, sizeof(address), 20));
    sheaf_task task = nets_task(1);
    struct sheaf__wait wait = nets_wait(20);
    rig_ok(sheaf__net_connect(n.net[0], &task, address, &wait, &peer, &err), &err);
    assert_string_equal(sheaf__peer_transport(peer), way_names[way]);
    static uint8_t data[3 << 20]; /* some of it is under way */
    struct sheaf__part part_of_it = {data, sizeof(data)};
    struct sheaf__request held = {.kind = HOLD},
                          large = {.kind = HOLD, .parts = &part_of_it, .count = 1};
    struct sheaf__request ping = {.kind = SHEAF__CALL_PING};
    rig_ok(sheaf__call(peer, &ping, &wait, &err), &err);
    rig_ok(sheaf__request_start(peer, &held, &err), &err);
    kill(child.pid, signal);
    double start = seconds_now();
    if (sheaf__request_start(peer, &large, &err) == SHEAF_OK)
        rig_fails(sheaf__request_finish(&large, &wait, &err), &err, SHEAF_ERR_UNAVAILABLE, part);
    rig_fails(sheaf__request_finish(&held, &wait, &err), &err, SHEAF_ERR_UNAVAILABLE, part);
    double took = seconds_now() - start;
    assert_non_null(strstr(err.message, "/job:worker/task:1 at 127.0.0.1:"));
    assert_string_equal(err.peer.job, "worker");
    assert_int_equal(err.peer.index, 1);
    if (took > seconds)
        print_message("%s: took %.2f s\n", way_names[way], took);
    assert_true(took <= seconds);
    rig_ok(sheaf__net_wait(n.net[0], is_down, &log, &wait, &err), &err);
    assert_int_equal(log.down, 1);
    kill(child.pid, SIGKILL);
    child_end(&child, 10);
    sheaf__peer_unref(peer);
    sheaf__net_unlisten(n.net[0], &events);
    nets_end(&n);
}

static void test_killed_T16(void **state)
{
    (void)state;
    for (int way = TCP; way < WAYS; way++)
        lose_by((enum way)way, SIGKILL, "was lost: it closed the connection", 1);
}

static void test_stopped_T16(void **state)
{
    (void)state;
    for (int way = TCP; way < WAYS; way++)
        lose_by((enum way)way, SIGSTOP, "was lost: nothing was heard from it for 0.", 3);
}

/* One that was only stopped is told why it has been given up. */
static void continue_by(enum way way)
{
    struct nets n;
    struct child child;
    struct log log = {0};
    struct sheaf__net_events events = {.down = on_down, .user = &log};
    struct sheaf__peer *peer = NULL;
    char line[512];
    sheaf_error err = {0};
    child_start(&child, "serve", way_names[way]);
    nets_context(&n, way);
    nets_make(&n, 0, 200 * SHEAF__MS);
    sheaf__net_listen(n.net[0], &events);
    nets_start(&n, 0);
    assert_true(child_line(&child, line, sizeof(line), 20));
    const sheaf_task task = nets_task(1);
    const struct sheaf__wait wait = nets_wait(20);
    rig_ok(sheaf__net_connect(n.net[0], &task, line, &wait, &peer, &err), &err);
    struct sheaf__request ping = {.kind = SHEAF__CALL_PING}; /* answered: it knows us, too */
    rig_ok(sheaf__call(peer, &ping, &wait, &err), &err);
    sheaf__request_clear(&ping);
    kill(child.pid, SIGSTOP);
    rig_ok(sheaf__net_wait(n.net[0], is_down, &log, &wait, &err), &err);
    kill(child.pid, SIGCONT);
    assert_true(child_line(&child, line, sizeof(line), 20));
    if (!strstr(line, "/job:worker/task:0 at ") ||
        !strstr(line, " was lost: it heard nothing from this task for 0."))
        fail_msg("%s: it says \"%s\"", way_names[way], line);
    kill(child.pid, SIGKILL);
    child_end(&child, 10);
    sheaf__peer_unref(peer);
    sheaf__net_unlisten(n.net[0], &events);
    nets_end(&n);
}

static void test_stopped_and_continued(void **state)
{
    (void)state;
    for (int way = TCP; way < WAYS; way++)
        continue_by((enum way)way);
}

/* ---- a task dies that has asked for something ---- */

struct stall {
    _Atomic bool stalled, released;
};

/* Keeps the driving thread. */
static void stall(struct sheaf__call *call, void *user)
{
    struct stall *s = user;
    atomic_store(&s->stalled, true);
    while (!atomic_load(&s->released))
        sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), SHEAF__NO_TOKEN, NULL);
    sheaf__call_reply(call, NULL);
}

static void on_done(struct sheaf__request *request, void *user)
{
    (void)user;
    assert_true(request->status < 0);
}

/* What it has asked for is read after its connection has ended, because the driver was at something
 * else until then; and it is nothing that is served. */
static void test_refused_to_the_dead_T16(void **state)
{
    (void)state;
    struct nets n;
    struct stall s = {false, false};
    sheaf_error err = {0};
    struct sheaf__request unknown = {.kind = UNKNOWN, .done = on_done}, stalls = {.kind = STALL};
    const struct sheaf__service service = {.kind = STALL, .serve = stall, .user = &s};
    struct sheaf__wait wait = nets_wait(20);
    nets_context(&n, SHM);
    for (int i = 0; i < 3; i++)
        nets_make(&n, i, 0);
    rig_ok(sheaf__net_serve(n.net[1], &service, &err), &err);
    for (int i = 0; i < 3; i++)
        nets_start(&n, i);
    struct sheaf__peer *peer = nets_connect(&n, 0, 1), *other = nets_connect(&n, 2, 1);
    rig_ok(sheaf__request_start(other, &stalls, &err), &err);
    while (!atomic_load(&s.stalled))
        sheaf__wait_sleep(sheaf__clock_after(SHEAF__MS), SHEAF__NO_TOKEN, NULL);
    rig_ok(sheaf__request_start(peer, &unknown, &err), &err);
    sheaf__peer_unref(peer);
    sheaf__net_free(n.net[0], -1);
    n.net[0] = NULL;
    atomic_store(&s.released, true);
    rig_ok(sheaf__request_finish(&stalls, &wait, &err), &err);
    stalls.kind = SHEAF__CALL_PING; /* net 1 lives */
    rig_ok(sheaf__call(other, &stalls, &wait, &err), &err);
    sheaf__request_clear(&stalls);
    sheaf__peer_unref(other);
    nets_end(&n);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "serve") == 0)
        return serve(argv[2]);
    const struct CMUnitTest tests[] = {
        rig_test(test_killed_T16),
        rig_test(test_stopped_T16),
        rig_test(test_stopped_and_continued),
        rig_test(test_refused_to_the_dead_T16),
    };
    return rig_run(tests);
}
