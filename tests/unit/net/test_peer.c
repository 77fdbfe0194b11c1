/* SPDX-License-Identifier: Apache-2.0 */
#include "nets.h"

#include "base/file.h"
#include "net/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Who is let in and who is not; where a task listens; coming, going and coming again. */

struct log {
    _Atomic int up, down;
    struct sheaf__mutex lock;
    char cause[300];
    enum sheaf__peer_end end;
};

static void on_up(struct sheaf__peer *peer, void *user)
{
    (void)peer;
    atomic_fetch_add(&((struct log *)user)->up, 1);
}

static void on_down(struct sheaf__peer *peer, const sheaf_error *cause, void *user)
{
    struct log *log = user;
    sheaf__mutex_lock(&log->lock);
    snprintf(log->cause, sizeof(log->cause), "%s", cause->message);
    log->end = sheaf__peer_end(peer);
    sheaf__mutex_unlock(&log->lock);
    atomic_fetch_add(&log->down, 1);
    sheaf__net_wake(sheaf__peer_net(peer));
}

static bool went_down(void *user)
{
    return atomic_load(&((struct log *)user)->down) > 0;
}

static sheaf_status ping(struct sheaf__peer *peer, sheaf_error *err)
{
    struct sheaf__request r = {.kind = SHEAF__CALL_PING};
    struct sheaf__wait wait = nets_wait(10);
    return sheaf__call(peer, &r, &wait, err);
}

static sheaf_status connect_as(struct nets *n, int from, int to, double seconds,
                               struct sheaf__peer **peer, sheaf_error *err)
{
    sheaf_task task = nets_task(to);
    struct sheaf__wait wait = nets_wait(seconds);
    return sheaf__net_connect(n->net[from], &task, sheaf__net_address(n->net[1]), &wait, peer, err);
}

/* ---- strangers: T65 ---- */

static void test_wrong_secret_T65(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        struct nets n;
        sheaf_error err = {0};
        struct sheaf__peer *peer = NULL, *good;
        nets_context(&n, (enum way)way);
        nets_make(&n, 0, 0);
        nets_make(&n, 1, 0);
        n.secret.bytes[31] ^= 1;
        nets_make(&n, 2, 0);
        struct log log = {0};
        struct sheaf__net_events events = {.up = on_up, .down = on_down, .user = &log};
        sheaf__net_listen(n.net[1], &events);
        for (int i = 0; i < 3; i++)
            nets_start(&n, i);
        good = nets_connect(&n, 0, 1);
        rig_fails(connect_as(&n, 2, 1, 10, &peer, &err), &err, SHEAF_ERR_UNAUTHENTICATED,
                  "refused this task's proof: the secrets differ");
        assert_int_equal(err.peer.index, 1);
        assert_int_equal(log.up, 1);
        rig_ok(ping(good, &err), &err);
        sheaf__peer_unref(good);
        sheaf__net_unlisten(n.net[1], &events);
        nets_end(&n);
    }
}

static void test_other_run_table_or_task_T15_T65(void **state)
{
    (void)state;
    struct nets n;
    sheaf_error err = {0};
    struct sheaf__peer *peer = NULL;
    uint8_t digest[SHEAF__SHA256_SIZE] = {1};
    nets_context(&n, SHM);
    nets_make(&n, 0, 0);
    nets_make(&n, 1, 0);
    nets_make(&n, 3, 0);
    rig_ok(sheaf__net_set_digest(n.net[1], "functions", digest, &err), &err);
    digest[5] = 7;
    rig_ok(sheaf__net_set_digest(n.net[0], "functions", digest, &err), &err);
    rig_ok(sheaf__net_set_digest(n.net[0], "other", digest, &err), &err);
    const struct sheaf__net_options options = {
        .task = nets_task(2), .run_id = "yesterday", .secret = &n.secret};
    rig_ok(sheaf__net_new(&options, &n.net[2], &err), &err);
    for (int i = 0; i < 4; i++)
        nets_start(&n, i);
    rig_fails(connect_as(&n, 0, 1, 10, &peer, &err), &err, SHEAF_ERR_INCOMPATIBLE,
              "table \"functions\" of /job:worker/task:0 differs from that of /job:worker/task:1");
    /* What is left over from an earlier run may go away: it is tried until the deadline. */
    rig_fails(
        connect_as(&n, 2, 1, 0.3, &peer, &err), &err, SHEAF_ERR_INCOMPATIBLE,
        "/job:worker/task:2 belongs to run \"yesterday\", /job:worker/task:1 to run \"test\"");
    sheaf_task task = nets_task(2);
    struct sheaf__wait wait = nets_wait(10);
    rig_fails(sheaf__net_connect(n.net[3], &task, sheaf__net_address(n.net[1]), &wait, &peer, &err),
              &err, SHEAF_ERR_INCOMPATIBLE,
              "/job:worker/task:1 answers where /job:worker/task:2 was expected");
    nets_end(&n);
}

static int dial_raw(const char *address)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    sa.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    return fd;
}

/* True if the other side closes within some seconds, having said nothing but a refusal. */
static bool is_closed(int fd)
{
    struct timeval limit = {.tv_sec = 8};
    char bytes[64];
    ssize_t got, total = 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    while ((got = recv(fd, bytes, sizeof(bytes), 0)) > 0)
        total += got;
    close(fd);
    return total < 100 && (got == 0 || errno == ECONNRESET);
}

static void test_garbage_T65(void **state)
{
    (void)state;
    struct nets n;
    sheaf_error err = {0};
    nets_context(&n, TCP);
    nets_make(&n, 0, 0);
    nets_make(&n, 1, 0);
    struct log log = {0};
    struct sheaf__net_events events = {.up = on_up, .down = on_down, .user = &log};
    sheaf__net_listen(n.net[1], &events);
    nets_start(&n, 0);
    nets_start(&n, 1);
    struct sheaf__peer *good = nets_connect(&n, 0, 1);
    const char *address = sheaf__net_address(n.net[1]);
    struct sheaf__mem_stats before = sheaf__mem_stats();
    /* a megabyte of noise */
    int fd = dial_raw(address);
    uint8_t *noise = malloc(1 << 20);
    for (size_t i = 0; i < 1 << 20; i++)
        noise[i] = (uint8_t)(i * i >> 7);
    send(fd, noise, 1 << 20, MSG_NOSIGNAL);
    assert_true(is_closed(fd));
    /* noise after a right beginning, and a size that is too large */
    fd = dial_raw(address);
    memcpy(noise, "SHEAF\1\0\0\377\0\0\0", 12);
    send(fd, noise, 4000, MSG_NOSIGNAL);
    assert_true(is_closed(fd));
    fd = dial_raw(address);
    memcpy(noise, "SHEAF\1\0\0\377\377\377\177", 12);
    send(fd, noise, 4000, MSG_NOSIGNAL);
    assert_true(is_closed(fd));
    /* half a head, then nothing: closed when its time is over */
    fd = dial_raw(address);
    send(fd, "SHEAF\1", 6, MSG_NOSIGNAL);
    assert_true(is_closed(fd));
    free(noise);
    /* more strangers than are let to wait */
    int fds[100];
    for (int i = 0; i < 100; i++)
        fds[i] = dial_raw(address);
    rig_ok(ping(good, &err), &err);
    assert_true(is_closed(fds[0]));
    for (int i = 1; i < 100; i++)
        close(fds[i]);
    assert_int_equal(log.up, 1);
    assert_int_equal(log.down, 0);
    rig_ok(ping(good, &err), &err);
    assert_true(sheaf__mem_stats().live_bytes - before.live_bytes < 16 << 20);
    sheaf__peer_unref(good);
    sheaf__net_unlisten(n.net[1], &events);
    nets_end(&n);
}

/* ---- where it listens ---- */

static int count_listeners(const char *expected, int *open)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    int listeners = 0;
    *open = 0;
    while ((entry = readdir(dir))) {
        int fd = atoi(entry->d_name), listening = 0;
        socklen_t size = sizeof(listening);
        struct sockaddr_in sa;
        socklen_t sa_size = sizeof(sa);
        char text[64];
        if (fd <= 2 || fd == dirfd(dir))
            continue;
        ++*open;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || !listening)
            continue;
        listeners++;
        assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &sa_size), 0);
        assert_int_equal(sa.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
        snprintf(text, sizeof(text), "127.0.0.1:%d", ntohs(sa.sin_port));
        assert_string_equal(text, expected);
        assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    }
    closedir(dir);
    return listeners;
}

static void test_listens_on_its_address_alone(void **state)
{
    (void)state;
    for (int way = TCP; way < WAYS; way++) {
        struct nets n;
        int open;
        nets_context(&n, (enum way)way);
        sheaf_error err = {0};
        nets_make(&n, 1, 0);
        const struct sheaf__net_options options = {.task = nets_task(0), .secret = &n.secret};
        rig_ok(sheaf__net_new(&options, &n.net[0], &err), &err);
        nets_start(&n, 0);
        nets_start(&n, 1);
        struct sheaf__peer *peer = nets_connect(&n, 0, 1);
        assert_null(sheaf__net_address(n.net[0]));
        assert_int_equal(count_listeners(sheaf__net_address(n.net[1]), &open), 1);
        /* no descriptor is inherited by a program that this one starts */
        for (int fd = 3; fd < 256; fd++)
            if (fcntl(fd, F_GETFD) >= 0 && !(fcntl(fd, F_GETFD) & FD_CLOEXEC)) {
                char path[64], target[128] = "";
                snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
                ssize_t length = readlink(path, target, sizeof(target) - 1);
                target[length > 0 ? length : 0] = '\0';
                assert_null(strstr(target, "socket"));
                assert_null(strstr(target, "memfd"));
                assert_null(strstr(target, "event"));
            }
        sheaf__peer_unref(peer);
        nets_end(&n);
    }
}

static void test_port_in_use_T10(void **state)
{
    (void)state;
    struct nets n;
    sheaf_error err = {0};
    nets_context(&n, TCP);
    nets_make(&n, 0, 0);
    nets_start(&n, 0);
    const struct sheaf__net_options options = {
        .task = nets_task(1), .address = sheaf__net_address(n.net[0]), .secret = &n.secret};
    rig_ok(sheaf__net_new(&options, &n.net[1], &err), &err);
    n.count = 2;
    rig_fails(sheaf__net_start(n.net[1], &err), &err, SHEAF_ERR_ALREADY_EXISTS,
              "cannot listen on 127.0.0.1:");
    assert_string_equal(err.origin.job, "worker");
    assert_int_equal(err.origin.index, 1);
    assert_non_null(strstr(err.message, "the port is in use by another process"));
    nets_end(&n);
    nets_context(&n, TCP);
    const struct sheaf__net_options bad = {
        .task = nets_task(1), .address = "127.0.0.1", .secret = &n.secret};
    rig_ok(sheaf__net_new(&bad, &n.net[1], &err), &err);
    n.count = 2;
    rig_fails(sheaf__net_start(n.net[1], &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "expected host:port");
    nets_end(&n);
}

/* Start, use and stop two tasks on fixed ports 20 times: it works, and no descriptor is left. */
static void test_again_on_the_same_port_T11(void **state)
{
    (void)state;
    char address[64] = "127.0.0.1:0";
    int before = 0, after = 0;
    for (int round = 0; round < 20; round++) {
        struct nets n;
        sheaf_error err = {0};
        nets_context(&n, round % 2 ? TCP : SHM);
        nets_make(&n, 0, 0);
        const struct sheaf__net_options options = {
            .task = nets_task(1), .address = address, .secret = &n.secret};
        rig_ok(sheaf__net_new(&options, &n.net[1], &err), &err);
        n.count = 2;
        nets_start(&n, 0);
        nets_start(&n, 1);
        snprintf(address, sizeof(address), "%s", sheaf__net_address(n.net[1]));
        struct sheaf__peer *peer = nets_connect(&n, 0, 1);
        rig_ok(ping(peer, &err), &err);
        sheaf__peer_unref(peer);
        nets_end(&n);
        count_listeners("none", round == 0 ? &before : &after);
    }
    assert_int_equal(before, after);
}

/* T13: names are the resolver's business, in any case. */
static void test_names_T13(void **state)
{
    (void)state;
    struct nets n;
    sheaf_error err = {0};
    nets_context(&n, TCP);
    nets_make(&n, 0, 0);
    const struct sheaf__net_options options = {
        .task = nets_task(1), .address = "LocalHost:0", .secret = &n.secret};
    rig_ok(sheaf__net_new(&options, &n.net[1], &err), &err);
    n.count = 2;
    nets_start(&n, 0);
    nets_start(&n, 1);
    struct sheaf__peer *peer = NULL;
    char name[64];
    sheaf_task task = nets_task(1);
    struct sheaf__wait wait = nets_wait(10);
    snprintf(name, sizeof(name), "LOCALHOST%s", strrchr(sheaf__net_address(n.net[1]), ':'));
    rig_ok(sheaf__net_connect(n.net[0], &task, name, &wait, &peer, &err), &err);
    rig_ok(ping(peer, &err), &err);
    sheaf__peer_unref(peer);
    rig_fails(sheaf__net_connect(n.net[0], &(sheaf_task){"ps", 0}, "no.such.host.invalid:1",
                                 &(struct sheaf__wait){.deadline = sheaf__clock_deadline(0.1)},
                                 &peer, &err),
              &err, SHEAF_ERR_UNAVAILABLE,
              "cannot connect to /job:ps/task:0 at no.such.host.invalid:1");
    nets_end(&n);
}

/* ---- coming and going ---- */

static void test_goodbye(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        struct nets n;
        sheaf_error err = {0};
        struct log log = {0};
        struct sheaf__net_events events = {.up = on_up, .down = on_down, .user = &log};
        struct sheaf__wait wait = nets_wait(10);
        nets_context(&n, (enum way)way);
        nets_make(&n, 0, 0);
        nets_make(&n, 1, 0);
        sheaf__net_listen(n.net[0], &events);
        nets_start(&n, 0);
        nets_start(&n, 1);
        struct sheaf__peer *peer = nets_connect(&n, 0, 1);
        rig_ok(ping(peer, &err), &err); /* both ends have it */
        nets_stop(&n, 1);
        rig_ok(sheaf__net_wait(n.net[0], went_down, &log, &wait, &err), &err);
        assert_int_equal(log.up, 1);
        assert_int_equal(log.down, 1);
        assert_int_equal(log.end, SHEAF__PEER_LEFT);
        rig_fails(ping(peer, &err), &err, SHEAF_ERR_UNAVAILABLE, "it has left the job");
        assert_string_equal(err.peer.job, "worker");
        assert_int_equal(err.peer.index, 1);
        sheaf__peer_unref(peer);
        sheaf__net_unlisten(n.net[0], &events);
        nets_end(&n);
    }
}

/* Nobody waits for a task that has ended before it came, if who started it has noted that. */
static void test_has_ended(void **state)
{
    (void)state;
    char variable[300];
    const char *path = rig_path("ended");
    const char *const environment[] = {variable, NULL};
    const sheaf_task gone = nets_task(2), late = nets_task(3);
    snprintf(variable, sizeof(variable), "SHEAF_ENDED_FILE=%s", path);
    for (int way = 0; way < TCP + 1; way++) {
        struct nets n;
        sheaf_error err = {0};
        sheaf_context *noting;
        struct sheaf__peer *peer = NULL;
        const struct sheaf__wait wait = nets_wait(30), brief = nets_wait(0.3);
        nets_context(&n, (enum way)way);
        nets_make(&n, 0, 0);
        nets_start(&n, 0);
        rig_ok(
            sheaf_context_new(&(sheaf_context_options){.environment = environment}, &noting, &err),
            &err);
        sheaf_context *before = sheaf_context_enter(noting);
        const struct sheaf__wait first = nets_wait(0.3);
        rig_fails(sheaf__net_await(n.net[0], &gone, &first, &peer, &err), &err,
                  SHEAF_ERR_UNAVAILABLE, "/job:worker/task:2 did not connect within 0.3 s");
        static const char notes[] = "worker:22 ended with exit code 1\n"
                                    "worker:2 ended with exit code 3\nworker:3 ended with exit co";
        rig_ok(sheaf__file_replace(path, notes, sizeof(notes) - 1, &err), &err);
        rig_fails(sheaf__net_await(n.net[0], &gone, &wait, &peer, &err), &err,
                  SHEAF_ERR_UNAVAILABLE,
                  "waiting for /job:worker/task:2: it ended with exit code 3");
        rig_fails(sheaf__net_connect(n.net[0], &gone, "127.0.0.1:9", &wait, &peer, &err), &err,
                  SHEAF_ERR_UNAVAILABLE,
                  "cannot connect to /job:worker/task:2 at 127.0.0.1:9: it ended with exit code 3");
        assert_int_equal(err.peer.index, 2);
        rig_fails(sheaf__net_await(n.net[0], &late, &brief, &peer, &err), &err,
                  SHEAF_ERR_UNAVAILABLE, "did not connect within");
        rig_ok(sheaf__file_unlink(path, &err), &err);
        sheaf_context_enter(before);
        nets_end(&n);
        sheaf_context_free(noting);
    }
}

/* A program that fails while it is connected ends its part: the others learn why, at once, not when it has freed all. */
static void test_error_exit(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        struct nets n;
        sheaf_error err = {0}, own = {0};
        struct log log = {0};
        struct sheaf__net_events events = {.down = on_down, .user = &log};
        struct sheaf__wait wait = nets_wait(10);
        nets_context(&n, (enum way)way);
        for (int i = 0; i < 2; i++) {
            nets_make(&n, i, 0);
            nets_start(&n, i);
        }
        sheaf__net_listen(n.net[0], &events);
        struct sheaf__peer *peer = nets_connect(&n, 0, 1);
        rig_ok(ping(peer, &err), &err);
        sheaf__error(&own, SHEAF_ERR_PERMISSION, "cannot make the directory");
        /* the two share a context: that of the first is to stay */
        sheaf__farewell_remove(n.net[0]->context, &n.net[0]->farewell);
        assert_int_equal(sheaf_error_exit(&(sheaf_error){0}), 0);
        rig_ok(ping(peer, &err), &err);
        assert_int_equal(sheaf_error_exit(&own), 1);
        rig_ok(sheaf__net_wait(n.net[0], went_down, &log, &wait, &err), &err);
        assert_string_equal(log.cause, own.message);
        assert_int_equal(log.end, SHEAF__PEER_GAVE_UP);
        rig_fails(ping(peer, &err), &err, SHEAF_ERR_UNAVAILABLE, own.message);
        assert_int_equal(err.peer.index, 1);
        assert_int_equal(sheaf_error_exit(&own), 1); /* it has been said */
        sheaf__peer_unref(peer);
        sheaf__net_unlisten(n.net[0], &events);
        nets_end(&n);
    }
}

/* Who leaves because it lost another says so, and that is what its peers learn; unless it goes on after all. */
static void test_gives_up(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        struct nets n;
        sheaf_error err = {0}, cause;
        struct log log = {0};
        struct sheaf__net_events events = {.down = on_down, .user = &log};
        struct sheaf__wait wait = nets_wait(10);
        nets_context(&n, (enum way)way);
        for (int i = 0; i < 3; i++) {
            nets_make(&n, i, 0);
            nets_start(&n, i);
        }
        sheaf__net_listen(n.net[0], &events);
        struct sheaf__peer *one = nets_connect(&n, 0, 1), *two = nets_connect(&n, 0, 2);
        struct sheaf__peer *lost = nets_connect(&n, 1, 2);
        rig_ok(ping(one, &err), &err);
        sheaf__error(&cause, SHEAF_ERR_UNAVAILABLE, "it is broken");
        sheaf__peer_cut(lost, &cause);
        assert_int_equal(sheaf__peer_status(lost, &cause), SHEAF_ERR_UNAVAILABLE);
        sheaf__net_give_up(n.net[1], &err);
        sheaf__net_give_up(n.net[1], NULL);
        sheaf__net_give_up(n.net[1], &cause);
        sheaf__net_give_up(n.net[1], &err);
        sheaf__peer_unref(lost);
        nets_stop(&n, 1);
        rig_ok(sheaf__net_wait(n.net[0], went_down, &log, &wait, &err), &err);
        assert_string_equal(log.cause, cause.message);
        assert_non_null(strstr(log.cause, "/job:worker/task:2 at 127.0.0.1:"));
        assert_int_equal(log.end, SHEAF__PEER_GAVE_UP);
        rig_fails(ping(one, &err), &err, SHEAF_ERR_UNAVAILABLE, cause.message);
        assert_int_equal(err.peer.index, 2);
        rig_ok(ping(two, &err), &err);
        sheaf__peer_unref(one);
        sheaf__peer_unref(two);
        sheaf__net_unlisten(n.net[0], &events);
        nets_end(&n);
    }
}

/* Net 0, which listens at `address`, dials net 1 and leaves: what is said of it there. */
static void leave_after_dialing(struct nets *n, const char *address, struct log *log)
{
    sheaf_error err = {0};
    struct sheaf__net_events events = {.down = on_down, .user = log};
    struct sheaf__wait wait = nets_wait(10);
    const struct sheaf__net_options options = {
        .task = nets_task(0), .address = address, .secret = &n->secret};
    rig_ok(sheaf__net_new(&options, &n->net[0], &err), &err);
    sheaf__net_listen(n->net[1], &events);
    nets_start(n, 0);
    struct sheaf__peer *peer = nets_connect(n, 0, 1);
    rig_ok(ping(peer, &err), &err);
    sheaf__peer_unref(peer);
    nets_stop(n, 0);
    rig_ok(sheaf__net_wait(n->net[1], went_down, log, &wait, &err), &err);
    sheaf__net_unlisten(n->net[1], &events);
}

/* Who has dialed us is named as its cluster does, not by the port that its connection happens to have. */
static void test_dialer_is_named_by_its_address(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        struct nets n;
        struct log log = {0};
        char address[64], expected[128];
        nets_context(&n, (enum way)way);
        nets_make(&n, 0, 0);
        nets_make(&n, 1, 0);
        nets_start(&n, 0);
        nets_start(&n, 1);
        /* a port that is free at the moment, and a name that is no number */
        const char *port = strrchr(sheaf__net_address(n.net[0]), ':');
        snprintf(address, sizeof(address), "localhost%s", port);
        nets_stop(&n, 0);
        leave_after_dialing(&n, address, &log);
        snprintf(expected, sizeof(expected), "/job:worker/task:0 at %s: it has left the job",
                 address);
        assert_string_equal(log.cause, expected);
        nets_end(&n);
    }
}

/* A task that comes back is another incarnation: the old session is over, a new one can be had. */
static void test_new_incarnation(void **state)
{
    (void)state;
    struct nets n;
    sheaf_error err = {0};
    struct log log = {0};
    struct sheaf__net_events events = {.up = on_up, .down = on_down, .user = &log};
    struct sheaf__wait wait = nets_wait(10);
    nets_context(&n, SHM);
    nets_make(&n, 0, 0);
    nets_make(&n, 1, 0);
    nets_make(&n, 2, 0);
    sheaf__net_listen(n.net[1], &events);
    nets_start(&n, 0);
    nets_start(&n, 1);
    struct sheaf__peer *old = nets_connect(&n, 0, 1);
    /* net 2 says that it is worker:0, too */
    sheaf__net_free(n.net[2], 0);
    const struct sheaf__net_options options = {.task = nets_task(0), .secret = &n.secret};
    rig_ok(sheaf__net_new(&options, &n.net[2], &err), &err);
    nets_start(&n, 2);
    struct sheaf__peer *new = nets_connect(&n, 2, 1);
    rig_ok(sheaf__net_wait(n.net[1], went_down, &log, &wait, &err), &err);
    assert_non_null(strstr(log.cause, "/job:worker/task:0 at"));
    assert_non_null(strstr(log.cause, "was lost: it was started again"));
    rig_ok(ping(new, &err), &err);
    assert_int_equal(ping(old, &err), SHEAF_ERR_UNAVAILABLE);
    sheaf__peer_unref(old);
    sheaf__peer_unref(new);
    sheaf__net_unlisten(n.net[1], &events);
    nets_end(&n);
}

struct dialer {
    struct nets *n;
    int from, to;
    sheaf_status status;
    sheaf_error err;
    struct sheaf__peer *peer;
};

static void dial(void *user)
{
    struct dialer *d = user;
    sheaf_task task = nets_task(d->to);
    struct sheaf__wait wait = nets_wait(20);
    d->status = sheaf__net_connect(d->n->net[d->from], &task, sheaf__net_address(d->n->net[d->to]),
                                   &wait, &d->peer, &d->err);
}

/* Both ends, and two threads of each, connect at once: there is one session. */
static void test_both_dial(void **state)
{
    (void)state;
    for (int round = 0; round < 30; round++) {
        struct nets n;
        sheaf_error err = {0};
        struct sheaf__thread *threads[4];
        nets_context(&n, (enum way)(round % WAYS));
        nets_make(&n, 0, 0);
        nets_make(&n, 1, 0);
        struct log logs[2] = {0};
        struct sheaf__net_events events[2];
        for (int i = 0; i < 2; i++) {
            events[i] = (struct sheaf__net_events){.up = on_up, .down = on_down, .user = &logs[i]};
            sheaf__net_listen(n.net[i], &events[i]);
            nets_start(&n, i);
        }
        struct dialer d[4];
        for (int i = 0; i < 4; i++)
            d[i] = (struct dialer){.n = &n, .from = i % 2, .to = 1 - i % 2};
        for (int i = 0; i < 4; i++)
            rig_ok(sheaf__thread_start("dial", dial, &d[i], NULL, &threads[i], &err), &err);
        for (int i = 0; i < 4; i++) {
            rig_ok(sheaf__thread_join(threads[i], sheaf__clock_deadline(30), &err), &err);
            rig_ok(d[i].status, &d[i].err);
            rig_ok(ping(d[i].peer, &err), &err);
        }
        assert_ptr_equal(d[0].peer, d[2].peer);
        assert_ptr_equal(d[1].peer, d[3].peer);
        for (int i = 0; i < 4; i++)
            sheaf__peer_unref(d[i].peer);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(logs[i].up, 1);
            assert_int_equal(logs[i].down, 0);
            sheaf__net_unlisten(n.net[i], &events[i]);
        }
        nets_end(&n);
    }
}

/* Who connects before the other listens waits for it; who waits for a connection gets it. */
static void test_comes_up_later(void **state)
{
    (void)state;
    struct nets n;
    sheaf_error err = {0};
    struct sheaf__thread *thread;
    struct sheaf__peer *peer = NULL;
    struct sheaf__wait wait = nets_wait(20), now = nets_wait(0.1);
    sheaf_task zero = nets_task(0), one = nets_task(1);
    nets_context(&n, TCP);
    nets_make(&n, 0, 0);
    nets_make(&n, 1, 0);
    nets_start(&n, 1);
    /* a port that is free at the moment */
    char address[64];
    snprintf(address, sizeof(address), "%s", sheaf__net_address(n.net[1]));
    nets_stop(&n, 1);
    const struct sheaf__net_options options = {
        .task = one, .address = address, .secret = &n.secret};
    rig_ok(sheaf__net_new(&options, &n.net[1], &err), &err);
    nets_start(&n, 0);
    rig_fails(sheaf__net_connect(n.net[0], &one, address, &now, &peer, &err), &err,
              SHEAF_ERR_UNAVAILABLE, "cannot connect to /job:worker/task:1 at 127.0.0.1:");
    assert_non_null(strstr(err.message, " s: Connection refused"));
    assert_non_null(strstr(err.message, " within "));
    rig_fails(sheaf__net_await(n.net[0], &one, &now, &peer, &err), &err, SHEAF_ERR_UNAVAILABLE,
              "/job:worker/task:1 did not connect within ");
    n.count = 2;
    struct dialer d = {.n = &n, .from = 0, .to = 1};
    nets_start(&n, 1);
    rig_ok(sheaf__thread_start("dial", dial, &d, NULL, &thread, &err), &err);
    rig_ok(sheaf__net_await(n.net[1], &zero, &wait, &peer, &err), &err);
    rig_ok(sheaf__thread_join(thread, sheaf__clock_deadline(30), &err), &err);
    rig_ok(d.status, &d.err);
    rig_ok(ping(peer, &err), &err);
    sheaf__peer_unref(peer);
    sheaf__peer_unref(d.peer);
    nets_end(&n);
}

/* A handler that takes longer than the others wait for a sign of life: it is not lost, and nor are they. */
static void dawdle(struct sheaf__call *call, void *user)
{
    (void)user;
    sheaf__wait_sleep(sheaf__clock_deadline(1.5), NULL, NULL);
    sheaf__call_reply(call, NULL);
}

static void test_long_handler(void **state)
{
    (void)state;
    for (int way = 0; way < UCX; way++) {
        struct nets n;
        sheaf_error err = {0};
        const struct sheaf__service service = {.kind = SHEAF__CALL_TEST, .serve = dawdle};
        struct log logs[2] = {0};
        struct sheaf__net_events events[2];
        nets_context(&n, (enum way)way);
        for (int i = 0; i < 2; i++) {
            nets_make(&n, i, 200 * SHEAF__MS);
            events[i] = (struct sheaf__net_events){.down = on_down, .user = &logs[i]};
            sheaf__net_listen(n.net[i], &events[i]);
            rig_ok(sheaf__net_serve(n.net[i], &service, &err), &err);
            nets_start(&n, i);
        }
        struct sheaf__peer *peer = nets_connect(&n, 0, 1);
        struct sheaf__request r = {.kind = SHEAF__CALL_TEST};
        struct sheaf__wait wait = nets_wait(20);
        rig_ok(sheaf__call(peer, &r, &wait, &err), &err);
        assert_int_equal(logs[0].down + logs[1].down, 0);
        sheaf__peer_unref(peer);
        for (int i = 0; i < 2; i++)
            sheaf__net_unlisten(n.net[i], &events[i]);
        nets_end(&n);
    }
}

/* ---- secrets ---- */

static void test_secret_of_the_user(void **state)
{
    (void)state;
    sheaf_error err = {0};
    char variable[512];
    struct sheaf__secret a, b;
    struct sheaf__file_stat st;
    snprintf(variable, sizeof(variable), "XDG_STATE_HOME=%s", rig_path("state"));
    const char *const environment[] = {variable, NULL};
    sheaf_context *context;
    rig_ok(sheaf_context_new(&(sheaf_context_options){.environment = environment}, &context, &err),
           &err);
    sheaf_context *before = sheaf_context_enter(context);
    rig_ok(sheaf__secret_find(true, &a, &err), &err);
    rig_ok(sheaf__secret_find(true, &b, &err), &err);
    assert_int_equal(a.size, 64);
    assert_memory_equal(a.bytes, b.bytes, 64);
    rig_ok(sheaf__file_stat(rig_path("state/sheaf/key"), &st, &err), &err);
    assert_int_equal(st.mode & 0777, 0600);
    rig_fails(sheaf__secret_find(false, &b, &err), &err, SHEAF_ERR_FAILED_PRECONDITION,
              "no secret for a cluster with addresses that are not loopback: name a file that all "
              "tasks have with SHEAF_SECRET_FILE");
    rig_ok(sheaf__file_chmod(rig_path("state/sheaf/key"), 0644, &err), &err);
    rig_fails(sheaf__secret_find(true, &b, &err), &err, SHEAF_ERR_PERMISSION, "expected 0600");
    /* What cannot be made is told of as what it is for. */
    rig_ok(sheaf__file_unlink(rig_path("state/sheaf/key"), &err), &err);
    rig_ok(sheaf__file_mkdir(rig_path("state/sheaf/key.lock.d"), 0, &err), &err);
    rig_ok(sheaf__file_unlink(rig_path("state/sheaf/key.lock"), &err), &err);
    rig_ok(sheaf__file_rename(rig_path("state/sheaf/key.lock.d"), rig_path("state/sheaf/key.lock"),
                              &err),
           &err);
    assert_true(sheaf__secret_find(true, &b, &err) < 0);
    assert_non_null(strstr(err.message, "the user's key, for which SHEAF_SECRET_FILE may name "
                                        "another file: cannot open"));
    assert_non_null(strstr(err.file, "key.lock"));
    sheaf_context_enter(before);
    sheaf_context_free(context);
}

static void test_secret_of_a_file(void **state)
{
    (void)state;
    sheaf_error err = {0};
    char variable[512];
    struct sheaf__secret a;
    snprintf(variable, sizeof(variable), "SHEAF_SECRET_FILE=%s", rig_path("secret"));
    const char *const environment[] = {variable, NULL}, *const insecure[] = {"SHEAF_INSECURE=1",
                                                                             NULL};
    sheaf_context *context;
    rig_ok(sheaf_context_new(&(sheaf_context_options){.environment = environment}, &context, &err),
           &err);
    sheaf_context *before = sheaf_context_enter(context);
    rig_fails(sheaf__secret_find(false, &a, &err), &err, SHEAF_ERR_NOT_FOUND, "");
    rig_ok(sheaf__file_replace(rig_path("secret"), "short\n", 6, &err), &err);
    rig_ok(sheaf__file_chmod(rig_path("secret"), 0600, &err), &err);
    rig_fails(sheaf__secret_find(false, &a, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "has 5 bytes, expected at least 16");
    rig_ok(sheaf__file_replace(rig_path("secret"), "0123456789abcdef\n", 17, &err), &err);
    rig_ok(sheaf__file_chmod(rig_path("secret"), 0600, &err), &err);
    rig_ok(sheaf__secret_find(false, &a, &err), &err);
    assert_int_equal(a.size, 16);
    sheaf_context_enter(before);
    sheaf_context_free(context);
    rig_ok(sheaf_context_new(&(sheaf_context_options){.environment = insecure}, &context, &err),
           &err);
    before = sheaf_context_enter(context);
    rig_ok(sheaf__secret_find(true, &a, &err), &err);
    assert_int_equal(a.size, 0);
    sheaf_context_enter(before);
    sheaf_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_wrong_secret_T65),   rig_test(test_other_run_table_or_task_T15_T65),
        rig_test(test_garbage_T65),        rig_test(test_listens_on_its_address_alone),
        rig_test(test_port_in_use_T10),    rig_test(test_again_on_the_same_port_T11),
        rig_test(test_names_T13),          rig_test(test_goodbye),
        rig_test(test_has_ended),          rig_test(test_error_exit),
        rig_test(test_gives_up),           rig_test(test_dialer_is_named_by_its_address),
        rig_test(test_new_incarnation),    rig_test(test_both_dial),
        rig_test(test_comes_up_later),     rig_test(test_long_handler),
        rig_test(test_secret_of_the_user), rig_test(test_secret_of_a_file),
    };
    return rig_run(tests);
}
