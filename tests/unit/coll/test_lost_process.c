/* SPDX-License-Identifier: Apache-2.0 */
#include "../net/processes.h"
#include "rig.h"

#include "base/clock.h"
#include "base/str.h"
#include "coll/team.h"

/* Three processes in a loop of all-reduces; one is killed, or stopped (T16). */

enum { MEMBERS = 3, COUNT = 100000 };

static int report(const sheaf_error *err)
{
    printf("failed %s\n", err->message);
    fflush(stdout);
    return 7;
}

static sheaf_status loop(struct sheaf__channel *channel, sheaf_error *err)
{
    static float data[COUNT];
    for (int i = 0;; i++) {
        const struct sheaf__wait wait = {.deadline = sheaf__clock_deadline(30), .what = "a step"};
        const struct sheaf__reduction r = {.op = SHEAF_REDUCE_MEAN,
                                           .dtype = SHEAF_FLOAT32,
                                           .count = i % 2 ? COUNT : 3,
                                           .in = data,
                                           .out = data};
        sheaf_status status = sheaf__channel_all_reduce(channel, 0, &r, &wait, err);
        if (status < 0)
            return status;
        if (i == 20) {
            printf("running\n");
            fflush(stdout);
        }
    }
}

static int member(const char *rank_text)
{
    static const char *environment[] = {"SHEAF_HEARTBEAT_MS=300", NULL};
    static char addresses[MEMBERS][64];
    int rank = atoi(rank_text);
    sheaf_error err = {0};
    sheaf_context *context;
    struct sheaf__net *net;
    struct sheaf__team *team;
    struct sheaf__channel *channel;
    struct sheaf__secret secret = {.size = 32};
    struct sheaf__team_member members[MEMBERS];
    if (sheaf_context_new(&(sheaf_context_options){.environment = environment}, &context, &err) < 0)
        return report(&err);
    sheaf_context_enter(context);
    const struct sheaf__net_options options = {.task = {.job = "worker", .index = rank},
                                               .address = "127.0.0.1:0",
                                               .secret = &secret,
                                               .run_id = "test"};
    if (sheaf__net_new(&options, &net, &err) < 0 || sheaf__team_serve(net, &err) < 0 ||
        sheaf__net_start(net, &err) < 0)
        return report(&err);
    printf("%s\n", sheaf__net_address(net));
    fflush(stdout);
    for (int i = 0; i < MEMBERS; i++) {
        child_ask(addresses[i], sizeof(addresses[i]));
        members[i] = (struct sheaf__team_member){{.job = "worker", .index = i}, addresses[i]};
    }
    const struct sheaf__team_options team_options = {
        .net = net, .members = members, .size = MEMBERS, .rank = rank};
    const struct sheaf__wait wait = {.deadline = sheaf__clock_deadline(20), .what = "start"};
    if (sheaf__team_new(&team_options, &wait, &team, &err) < 0 ||
        sheaf__channel_open(team, 0, 0, &channel, &err) < 0)
        return report(&err);
    if (loop(channel, &err) != SHEAF_ERR_TEAM_LOST || err.peer.index != 1) {
        report(&err);
        return 8;
    }
    int code = report(&err);
    sheaf__channel_free(channel);
    sheaf__team_free(team);
    sheaf__net_free(net, sheaf__clock_deadline(1));
    return code;
}

static void lose_by(int signal, const char *part, double seconds)
{
    struct child child[MEMBERS];
    char line[MEMBERS][400], victim[500], text[2];
    for (int i = 0; i < MEMBERS; i++) {
        snprintf(text, sizeof(text), "%d", i);
        child_start(&child[i], "member", text);
    }
    for (int i = 0; i < MEMBERS; i++)
        assert_true(child_line(&child[i], line[i], sizeof(line[i]), 20));
    for (int i = 0; i < MEMBERS; i++)
        for (int j = 0; j < MEMBERS; j++)
            child_tell(&child[i], line[j]);
    snprintf(victim, sizeof(victim), "/job:worker/task:1 at %s ", line[1]);
    for (int i = 0; i < MEMBERS; i++) {
        assert_true(child_line(&child[i], line[i], sizeof(line[i]), 20));
        assert_string_equal(line[i], "running");
    }
    kill(child[1].pid, signal);
    double start = seconds_now();
    for (int i = 0; i < MEMBERS; i += 2) {
        assert_true(child_line(&child[i], line[i], sizeof(line[i]), 20));
        if (!strstr(line[i], part) || !strstr(line[i], victim))
            print_error("member %d: %s\n", i, line[i]);
        assert_non_null(strstr(line[i], part));
        assert_non_null(strstr(line[i], victim));
    }
    assert_true(seconds_now() - start <= seconds);
    assert_int_equal(child_end(&child[0], 10), 7);
    assert_int_equal(child_end(&child[2], 10), 7);
    kill(child[1].pid, SIGKILL);
    child_end(&child[1], 10);
}

static void test_killed_T16(void **state)
{
    (void)state;
    lose_by(SIGKILL, "was lost: it closed the connection", 1);
}

static void test_stopped_T16(void **state)
{
    (void)state;
    lose_by(SIGSTOP, "was lost: nothing was heard from it", 5);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "member") == 0)
        return member(argv[2]);
    const struct CMUnitTest tests[] = {
        rig_test(test_killed_T16),
        rig_test(test_stopped_T16),
    };
    return rig_run(tests);
}
