/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include "coll/core.h"

/* Members that do not make the same calls in their rounds are told so at once, whichever comes first; long before the
 * deadline, which is the whole of these tests. */

enum { DEADLINE = 40 };

struct streams {
    struct sheaf__channel *replicas, *process; /* two ways into one stream */
    struct sheaf__channel *aside;              /* where members tell each other how far they are */
    struct sheaf__wait wait;
};

static sheaf_status open_streams(struct player *p, struct streams *s)
{
    *s = (struct streams){.wait = world_wait(DEADLINE)};
    SHEAF__TRY(sheaf__channel_open(p->team, 4, 0, &s->replicas, &p->err));
    SHEAF__TRY(sheaf__channel_open(p->team, 4, 1, &s->process, &p->err));
    sheaf__channel_name_rounds(s->replicas, "step");
    return sheaf__channel_open(p->team, 5, 1, &s->aside, &p->err);
}

static void close_streams(struct streams *s)
{
    sheaf__channel_free(s->replicas);
    sheaf__channel_free(s->process);
    sheaf__channel_free(s->aside);
}

static sheaf_status sum(struct player *p, struct sheaf__channel *channel, const char *name)
{
    float one = 1;
    struct sheaf__wait wait = world_wait(DEADLINE);
    const struct sheaf__reduction r = {
        .dtype = SHEAF_FLOAT32, .count = 1, .in = &one, .out = &one, .name = name};
    return sheaf__channel_all_reduce(channel, 0, &r, &wait, &p->err);
}

static sheaf_status begin(struct player *p, struct streams *s)
{
    return sheaf__channel_begin_round(s->replicas, &p->err);
}

static sheaf_status end(struct player *p, struct streams *s)
{
    return sheaf__channel_end_round(s->replicas, &p->err);
}

static sheaf_status round_of_two(struct player *p, struct streams *s)
{
    SHEAF__TRY(begin(p, s));
    SHEAF__TRY(sum(p, s->replicas, "a"));
    SHEAF__TRY(sum(p, s->process, "b"));
    return end(p, s);
}

/* Everybody has come here; not on the stream. */
static sheaf_status aside(struct player *p, struct streams *s)
{
    return sheaf__channel_barrier(s->aside, 0, &s->wait, &p->err);
}

static sheaf_status start_anew(struct player *p, struct streams *s)
{
    SHEAF__TRY(aside(p, s));
    sheaf__channel_reset(s->replicas);
    return round_of_two(p, s);
}

/* Runs the play in all ways in which members talk, with so many of them. */
static void run(int size, sheaf_status (*play)(struct player *p))
{
    struct world hub = {.size = size, .play = play};
    world_run(&hub);
    struct world tcp = {.size = size, .environment = {"SHEAF_TRANSPORT=tcp"}, .play = play};
    world_run(&tcp);
    struct world shm = {.size = size, .environment = {"SHEAF_TRANSPORT=shm"}, .play = play};
    world_run(&shm);
}

/* ---- a call that the other leaves out ---- */

static const char *const left_out = "/job:worker/task:0 is in all_reduce (sum) of 1 float32 \"c\" "
                                    "in step 2, /job:worker/task:1 is after step 2";

/* Member 1 ends its round without a call: before member 0 makes it, and after. */
static sheaf_status leave_out(struct player *p, struct streams *s, bool before)
{
    sheaf_status status = SHEAF_OK;
    SHEAF__TRY(round_of_two(p, s));
    SHEAF__TRY(begin(p, s));
    if (p->member == 1 && !before) /* so that the other is in its call, mostly */
        sheaf__wait_sleep(sheaf__clock_deadline(0.02), NULL, NULL);
    if (p->member == 1)
        status = end(p, s);
    if (before)
        SHEAF__TRY(aside(p, s));
    if (p->member == 0)
        CHECK_FAILS(p, sum(p, s->replicas, "c"), SHEAF_ERR_TEAM_MISMATCH, left_out);
    SHEAF__TRY(aside(p, s));
    if (p->member == 1 && status == SHEAF_OK) /* not told yet */
        status = begin(p, s);
    if (p->member == 1)
        CHECK_FAILS(p, status, SHEAF_ERR_TEAM_MISMATCH,
                    "task:0 is in all_reduce (sum) of 1 float32 \"c\" in step 2");
    return start_anew(p, s);
}

static sheaf_status play_left_out(struct player *p)
{
    struct streams s;
    SHEAF__TRY(open_streams(p, &s));
    sheaf_status status = SHEAF_OK;
    for (int i = 0; i < 6 && status >= 0; i++) {
        status = leave_out(p, &s, i % 2);
        if (status >= 0)
            status = aside(p, &s);
        /* rounds are counted from the last failure on */
        sheaf_error none = {.status = SHEAF_ERR_ABORTED};
        if (p->member == 0)
            sheaf__channel_abort(s.replicas, &none);
        if (status >= 0 && p->member == 1)
            status = round_of_two(p, &s) < 0 ? SHEAF_OK : SHEAF_ERR_INTERNAL;
        if (status >= 0)
            status = aside(p, &s);
        sheaf__channel_reset(s.replicas);
    }
    close_streams(&s);
    return status;
}

static void test_left_out(void **state)
{
    (void)state;
    run(2, play_left_out);
}

/* ---- other calls than the others' ---- */

/* Members 0 and 1 make other calls, and are told although member 2 has not come. */
static sheaf_status disagree(struct player *p, struct streams *s)
{
    sheaf_status status = begin(p, s); /* of member 2 it may fail with what the others do */
    if (p->member == 2)
        SHEAF__TRY(aside(p, s));
    if (p->member == 1 && status == SHEAF_OK)
        status = sheaf__channel_barrier(s->process, 0, &s->wait, &p->err);
    else if (status == SHEAF_OK)
        status = sum(p, s->replicas, "c");
    CHECK_FAILS(p, status, SHEAF_ERR_TEAM_MISMATCH, "calls barrier \"test\" of processes");
    if (p->member != 2)
        SHEAF__TRY(aside(p, s));
    return start_anew(p, s);
}

/* The same sum, called by replicas and for the process; in a round and after it; in two rounds. */
static sheaf_status differ(struct player *p, struct streams *s)
{
    SHEAF__TRY(begin(p, s));
    struct sheaf__channel *mine = p->member == 0 ? s->replicas : s->process;
    CHECK_FAILS(p, sum(p, mine, "c"), SHEAF_ERR_TEAM_MISMATCH, "\"c\" of processes");
    SHEAF__TRY(start_anew(p, s));
    sheaf_status status = p->member == 0 ? begin(p, s) : SHEAF_OK;
    if (status == SHEAF_OK)
        status = sum(p, s->process, "c");
    CHECK_FAILS(p, status, SHEAF_ERR_TEAM_MISMATCH, "in step 2");
    CHECK(p, strstr(p->err.message, "after step 1"));
    SHEAF__TRY(start_anew(p, s));
    SHEAF__TRY(begin(p, s));
    SHEAF__TRY(aside(p, s));
    status = p->member == 1 ? end(p, s) : SHEAF_OK;
    if (p->member == 1 && status == SHEAF_OK)
        status = begin(p, s);
    if (status == SHEAF_OK)
        status = sum(p, s->process, "c");
    CHECK_FAILS(p, status, SHEAF_ERR_TEAM_MISMATCH, "in step 2");
    CHECK(p, strstr(p->err.message, "step 3") || strstr(p->err.message, "after step 2"));
    return start_anew(p, s);
}

static sheaf_status play_other_calls(struct player *p)
{
    struct streams s;
    SHEAF__TRY(open_streams(p, &s));
    sheaf_status status = p->world->size == 3 ? disagree(p, &s) : differ(p, &s);
    close_streams(&s);
    return status;
}

static void test_other_calls(void **state)
{
    (void)state;
    run(3, play_other_calls);
    run(2, play_other_calls);
}

/* ---- failures that nobody was told of ---- */

/* A failure of another member, between two rounds, is the next round's; nobody goes on as if nothing had been. */
static sheaf_status play_told_later(struct player *p)
{
    struct streams s;
    const sheaf_error cause = {.status = SHEAF_ERR_DATA_LOSS, .message = "bad on purpose"};
    SHEAF__TRY(open_streams(p, &s));
    SHEAF__TRY(round_of_two(p, &s));
    SHEAF__TRY(aside(p, &s));
    if (p->member == 0)
        sheaf__channel_abort(s.process, &cause);
    SHEAF__TRY(aside(p, &s));
    sheaf_status status = begin(p, &s);
    if (status == SHEAF_OK) /* the cause came after it */
        status = sum(p, s.replicas, "a");
    CHECK_FAILS(p, status, SHEAF_ERR_DATA_LOSS, "bad on purpose");
    status = start_anew(p, &s);
    close_streams(&s);
    return status;
}

static void test_told_later(void **state)
{
    (void)state;
    run(2, play_told_later);
}

/* ---- two threads ---- */

struct second {
    struct player *player;
    struct streams *streams;
    sheaf_status status;
    sheaf_error err;
};

/* The one who finds the stream taken tells the other member to come, so that the one who has it can end. */
static sheaf_status call(struct streams *s, struct sheaf__channel *channel, sheaf_error *err)
{
    sheaf_error ignored;
    sheaf_status status = sheaf__channel_barrier(channel, 0, &s->wait, err);
    if (status == SHEAF_ERR_FAILED_PRECONDITION)
        SHEAF__TRY(sheaf__channel_barrier(s->aside, 0, &s->wait, &ignored));
    return status;
}

static void second_thread(void *user)
{
    struct second *t = user;
    t->status = call(t->streams, t->streams->process, &t->err);
}

static sheaf_status two_threads(struct player *p, struct streams *s)
{
    struct second t = {.player = p, .streams = s};
    struct sheaf__thread *thread;
    SHEAF__TRY(sheaf__thread_start("second", second_thread, &t, NULL, &thread, &p->err));
    sheaf_status status = call(s, s->replicas, &p->err);
    sheaf__thread_join(thread, SHEAF__NO_DEADLINE, NULL);
    CHECK(p,
          (status == SHEAF_ERR_FAILED_PRECONDITION) != (t.status == SHEAF_ERR_FAILED_PRECONDITION));
    const sheaf_error *refused = status == SHEAF_ERR_FAILED_PRECONDITION ? &p->err : &t.err;
    CHECK(p, strstr(refused->message, "two threads"));
    return SHEAF_OK;
}

static sheaf_status play_two_threads(struct player *p)
{
    struct streams s;
    sheaf_status status = open_streams(p, &s);
    if (status >= 0 && p->member == 0) {
        status = two_threads(p, &s);
    } else if (status >= 0) {
        status = aside(p, &s);
        sheaf_status end = sheaf__channel_barrier(s.replicas, 0, &s.wait, &p->err);
        CHECK(p, end == SHEAF_OK || end == SHEAF_ERR_TEAM_MISMATCH);
    }
    close_streams(&s);
    return status;
}

static void test_two_threads(void **state)
{
    (void)state;
    run(2, play_two_threads);
}

/* ---- aborted after a round ---- */

static bool has_heard(void *user)
{
    struct sheaf__team *team = user;
    const struct sheaf__core *core = team->cores[4];
    sheaf__mutex_lock(&team->lock);
    bool heard = core->abort_count > 0 && core->aborts[core->abort_count - 1].epoch == core->epoch;
    sheaf__mutex_unlock(&team->lock);
    return heard;
}

/* What a member aborts when its round is over is no failure of a round that others are still in; what it aborts within one
 * is, even where no call is left that could fail. */
static sheaf_status abort_after(struct player *p, struct streams *s, bool within)
{
    sheaf_error cause;
    sheaf__error(&cause, SHEAF_ERR_ABORTED, "given up by %d", p->member);
    SHEAF__TRY(begin(p, s));
    SHEAF__TRY(sum(p, s->replicas, "a"));
    if (p->member == 0) {
        if (!within)
            SHEAF__TRY(end(p, s));
        sheaf__channel_abort(s->replicas, &cause);
        SHEAF__TRY(aside(p, s));
    } else {
        SHEAF__TRY(aside(p, s));
        SHEAF__TRY(sheaf__net_wait(p->team->net, has_heard, p->team, &s->wait, &p->err));
        if (within)
            CHECK_FAILS(p, end(p, s), SHEAF_ERR_ABORTED, "given up by 0");
        else
            SHEAF__TRY(end(p, s));
        CHECK_FAILS(p, begin(p, s), SHEAF_ERR_ABORTED, "given up by 0");
    }
    return start_anew(p, s);
}

static sheaf_status play_abort_after(struct player *p)
{
    struct streams s;
    sheaf_status status = open_streams(p, &s);
    for (int i = 0; i < 4 && status >= 0; i++)
        status = abort_after(p, &s, i % 2);
    close_streams(&s);
    return status;
}

static void test_aborted_after_it(void **state)
{
    (void)state;
    run(2, play_abort_after);
    run(3, play_abort_after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_left_out),    rig_test(test_other_calls),      rig_test(test_told_later),
        rig_test(test_two_threads), rig_test(test_aborted_after_it),
    };
    return rig_run(tests);
}
