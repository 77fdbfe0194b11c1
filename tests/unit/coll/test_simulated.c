/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/context.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/sim.h"
#include "coll/team.h"

#include <stdio.h>
#include <string.h>

/* Teams in a simulation: a seeded scheduler decides who goes on at every blocking point, time is virtual. Thousands of
 * orders in which connecting, calling, failing and dying can happen, each repeatable. */

enum { MEMBERS = 3, CALLS = 6, LAST = 2 };

struct job {
    bool dies;            /* member 1, after some calls */
    bool skips;           /* member 1, a call in one of its rounds */
    bool leaves;          /* member 1, in order, after as many */
    bool only_joins;      /* and leaves at once, every member */
    _Atomic int wrong;    /* results that are not right */
    _Atomic int short_of; /* members that did not get all that member 1 had done its part of */
    _Atomic int
        ended[3]; /* members that ended well, with TEAM_LOST naming worker:1, with TEAM_MISMATCH */
    char other[300]; /* another end */
    struct sheaf__hub *hub;
    _Atomic int64_t dead_at, seen_at; /* virtual time; the last to see */
};

struct task {
    struct job *job;
    int index;
    struct sheaf__thread *thread;
};

static sheaf_status call(struct task *t, struct sheaf__channel *channel, int i, sheaf_error *err)
{
    int64_t values[2000];
    size_t count = i % 2 ? 2000 : 3;
    for (size_t k = 0; k < count; k++)
        values[k] = (int64_t)k * (t->index + 1) + i;
    const struct sheaf__wait wait = {.deadline = sheaf__clock_deadline(30), .what = "a call"};
    const struct sheaf__reduction r = {
        .dtype = SHEAF_INT64, .count = count, .in = values, .out = values};
    SHEAF__TRY(sheaf__channel_all_reduce(channel, 0, &r, &wait, err));
    for (size_t k = 0; k < count; k++)
        if (values[k] != (int64_t)k * 6 + 3 * i)
            atomic_fetch_add(&t->job->wrong, 1);
    return SHEAF_OK;
}

/* Beside the calls, something is agreed one round ahead. */
static sheaf_status say(struct task *t, struct sheaf__channel *ahead, int i, sheaf_error *err)
{
    const int64_t number = (t->index + 1) * i;
    const struct sheaf__ahead_sum sum = {.numbers = &number, .count = 1, .name = "ahead"};
    const struct sheaf__wait wait = {.deadline = sheaf__clock_deadline(30), .what = "ahead"};
    return sheaf__ahead_say(ahead, &sum, &wait, err);
}

static sheaf_status hear(struct task *t, struct sheaf__channel *ahead, int i, sheaf_error *err)
{
    int64_t sum;
    const struct sheaf__wait wait = {.deadline = sheaf__clock_deadline(30), .what = "ahead"};
    SHEAF__TRY(sheaf__ahead_hear(ahead, &sum, &wait, err));
    if (sum != 6 * i)
        atomic_fetch_add(&t->job->wrong, 1);
    return SHEAF_OK;
}

static sheaf_status calls(struct task *t, struct sheaf__channel *channel,
                          struct sheaf__channel *ahead, sheaf_error *err)
{
    SHEAF__TRY(say(t, ahead, 0, err));
    for (int i = 0; i < CALLS; i++) {
        SHEAF__TRY(hear(t, ahead, i, err));
        SHEAF__TRY(say(t, ahead, i + 1, err));
        SHEAF__TRY(sheaf__channel_begin_round(channel, err));
        if (!t->job->skips || t->index != 1 || i != 3)
            SHEAF__TRY(call(t, channel, i, err));
        SHEAF__TRY(sheaf__channel_end_round(channel, err));
        if (i == LAST)
            atomic_fetch_sub(&t->job->short_of, 1);
        if (t->index == 1 && i == LAST && (t->job->dies || t->job->leaves))
            return t->job->dies ? SHEAF_END : SHEAF_OK;
    }
    return hear(t, ahead, CALLS, err);
}

static sheaf_status member(struct task *t, struct sheaf__net *net, sheaf_error *err)
{
    char addresses[MEMBERS][32];
    struct sheaf__team_member members[MEMBERS];
    struct sheaf__team *team;
    struct sheaf__channel *channel = NULL, *ahead = NULL;
    const struct sheaf__wait wait = {.deadline = sheaf__clock_deadline(30), .what = "the team"};
    for (int i = 0; i < MEMBERS; i++) {
        snprintf(addresses[i], sizeof(addresses[i]), "sim:%d", i + 1);
        members[i] = (struct sheaf__team_member){{.job = "worker", .index = i}, addresses[i]};
    }
    const struct sheaf__team_options options = {
        .net = net, .members = members, .size = MEMBERS, .rank = t->index};
    SHEAF__TRY(sheaf__team_new(&options, &wait, &team, err));
    sheaf_status status = sheaf__channel_open(team, 0, 0, &channel, err);
    if (status == SHEAF_OK)
        status = sheaf__channel_open(team, 1, 1, &ahead, err);
    if (status == SHEAF_OK && !t->job->only_joins)
        status = calls(t, channel, ahead, err);
    sheaf__channel_free(channel);
    sheaf__channel_free(ahead);
    sheaf__team_free(team);
    return status;
}

static void note_end(struct task *t, sheaf_status status, const sheaf_error *err)
{
    struct job *job = t->job;
    if (status == SHEAF_OK)
        atomic_fetch_add(&job->ended[0], 1);
    else if (status == SHEAF_ERR_TEAM_LOST && err->peer.index == 1)
        atomic_fetch_add(&job->ended[1], 1);
    else if (status == SHEAF_ERR_TEAM_MISMATCH)
        atomic_fetch_add(&job->ended[2], 1);
    else if (status < 0)
        snprintf(job->other, sizeof(job->other), "worker:%d: %s", t->index, err->message);
}

static void run_task(void *user)
{
    struct task *t = user;
    sheaf_error err = {0};
    struct sheaf__net *net;
    static const struct sheaf__secret secret = {.size = 32};
    char address[32];
    snprintf(address, sizeof(address), "sim:%d", t->index + 1);
    const struct sheaf__net_options options = {.task = {.job = "worker", .index = t->index},
                                               .address = address,
                                               .secret = &secret,
                                               .run_id = "sim",
                                               .incarnation = (uint64_t)t->index + 1};
    sheaf_status status = sheaf__net_new(&options, &net, &err);
    if (status == SHEAF_OK) {
        status = sheaf__team_serve(net, &err);
        if (status == SHEAF_OK)
            status = sheaf__net_start(net, &err);
        if (status == SHEAF_OK)
            status = member(t, net, &err);
        if (status == SHEAF_END)
            atomic_store(&t->job->dead_at, sheaf__clock_now());
        else if (status == SHEAF_ERR_TEAM_LOST)
            atomic_store(&t->job->seen_at, sheaf__clock_now());
        sheaf__net_free(net, status == SHEAF_END ? -1 : sheaf__clock_deadline(5));
    }
    note_end(t, status, &err);
}

static void play(void *user)
{
    struct job *job = user;
    struct task tasks[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) {
        tasks[i] = (struct task){.job = job, .index = i};
        const struct sheaf__thread_options options = {.stack_bytes = 1 << 20};
        if (sheaf__thread_start("task", run_task, &tasks[i], &options, &tasks[i].thread, NULL) < 0)
            snprintf(job->other, sizeof(job->other), "no thread");
    }
    for (int i = 0; i < MEMBERS; i++)
        sheaf__thread_join(tasks[i].thread, SHEAF__NO_DEADLINE, NULL);
}

static struct job simulate(uint64_t seed, struct job job, struct sheaf__sim_result *result)
{
    sheaf_error err = {0};
    rig_ok(sheaf__hub_new(&job.hub, &err), &err);
    rig_ok(sheaf__net_set_hub(sheaf__context(), job.hub, &err), &err);
    sheaf_status status = sheaf__sim_run(seed, play, &job, result, &err);
    if (status < 0)
        print_error("seed %u: %s\n", (unsigned)seed, result->report);
    rig_ok(status, &err);
    if (job.other[0])
        print_error("seed %u: %s\n", (unsigned)seed, job.other);
    assert_string_equal(job.other, "");
    assert_int_equal(job.wrong, 0);
    rig_ok(sheaf__net_set_hub(sheaf__context(), NULL, &err), &err);
    sheaf__hub_free(job.hub);
    return job;
}

static void test_many_orders(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct sheaf__sim_result result;
        struct job job = simulate(seed, (struct job){0}, &result);
        assert_int_equal(job.ended[0], MEMBERS);
    }
}

static void test_death_in_many_orders(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct sheaf__sim_result result;
        struct job job = simulate(seed, (struct job){.dies = true}, &result);
        assert_int_equal(job.ended[1], MEMBERS - 1);
        assert_true(job.seen_at - job.dead_at < 1 * SHEAF__S);
    }
}

/* What it did its part of before it left is done, by whichever way the others hear of its end: from itself or from one that
 * gives up because of it. */
static void test_leaving_in_many_orders(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct sheaf__sim_result result;
        const struct job leaves = {.leaves = true, .short_of = MEMBERS};
        struct job job = simulate(seed, leaves, &result);
        assert_int_equal(job.ended[0], 1);
        assert_int_equal(job.ended[1], MEMBERS - 1);
        assert_int_equal(job.short_of, 0);
    }
}

/* A call that one leaves out is an error of all at once, whoever is where. */
static void test_left_out_in_many_orders(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct sheaf__sim_result result;
        struct job job = simulate(seed, (struct job){.skips = true}, &result);
        assert_int_equal(job.ended[2], MEMBERS);
        assert_true(result.virtual_ns < 10 * SHEAF__S);
    }
}

/* Members that go as soon as their team is complete are no loss to the others, who still hear of each other. */
static void test_joining_in_many_orders(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct sheaf__sim_result result;
        struct job job = simulate(seed, (struct job){.only_joins = true}, &result);
        assert_string_equal(job.other, "");
        assert_int_equal(job.ended[0], MEMBERS);
    }
}

static void test_repeats(void **state)
{
    (void)state;
    struct sheaf__sim_result a, b, c;
    const struct job dies = {.dies = true};
    simulate(7, dies, &a);
    simulate(7, dies, &b);
    simulate(8, dies, &c);
    assert_true(a.switches > 1000);
    assert_true(a.trace_hash == b.trace_hash);
    assert_int_equal(a.virtual_ns, b.virtual_ns);
    assert_true(a.trace_hash != c.trace_hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_many_orders),
        rig_test(test_death_in_many_orders),
        rig_test(test_leaving_in_many_orders),
        rig_test(test_left_out_in_many_orders),
        rig_test(test_joining_in_many_orders),
        rig_test(test_repeats),
    };
    return rig_run(tests);
}
