/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include "coll/core.h"

/* Sums in two halves: nobody waits for who has said its part, and what is dropped holds nobody up. */

struct ahead {
    struct sheaf__channel *channel, *aside;
    struct sheaf__wait wait;
};

static sheaf_status open_channels(struct player *p, struct ahead *a)
{
    a->wait = world_wait(40);
    SHEAF__TRY(sheaf__channel_open(p->team, 4, 1, &a->channel, &p->err));
    sheaf__channel_name_rounds(a->channel, "end");
    return sheaf__channel_open(p->team, 5, 1, &a->aside, &p->err);
}

static void close_channels(struct ahead *a)
{
    sheaf__channel_free(a->channel);
    sheaf__channel_free(a->aside);
}

static sheaf_status aside(struct player *p, struct ahead *a)
{
    return sheaf__channel_barrier(a->aside, 0, &a->wait, &p->err);
}

static sheaf_status say(struct player *p, struct ahead *a, int number, const char *name)
{
    const int64_t numbers[] = {number, p->member};
    const struct sheaf__ahead_sum sum = {.numbers = numbers, .count = 2, .name = name};
    return sheaf__ahead_say(a->channel, &sum, &a->wait, &p->err);
}

static sheaf_status hear(struct player *p, struct ahead *a, int number)
{
    int64_t sums[2];
    const int members = p->world->size;
    SHEAF__TRY(sheaf__ahead_hear(a->channel, sums, &a->wait, &p->err));
    CHECK(p, sums[0] == (int64_t)number * members && sums[1] == members * (members - 1) / 2);
    return SHEAF_OK;
}

static void run(int size, sheaf_status (*play)(struct player *p))
{
    struct world hub = {.size = size, .play = play};
    world_run(&hub);
    struct world tcp = {.size = size, .environment = {"SHEAF_TRANSPORT=tcp"}, .play = play};
    world_run(&tcp);
    struct world shm = {.size = size, .environment = {"SHEAF_TRANSPORT=shm"}, .play = play};
    world_run(&shm);
}

/* ---- in order ---- */

/* What all have said is heard although the last member does nothing for it: it waits for the others to have heard. */
static sheaf_status not_waited_for(struct player *p, struct ahead *a)
{
    SHEAF__TRY(say(p, a, 7, "a"));
    SHEAF__TRY(aside(p, a));
    if (p->member != 0)
        SHEAF__TRY(hear(p, a, 7));
    SHEAF__TRY(aside(p, a));
    if (p->member == 0)
        SHEAF__TRY(hear(p, a, 7));
    return SHEAF_OK;
}

static sheaf_status many(struct player *p, struct ahead *a)
{
    for (int i = 0; i < 200; i++) {
        SHEAF__TRY(say(p, a, i, "many"));
        if (i % 5 == p->member) /* who drops says the next as any other */
            sheaf__ahead_drop(a->channel);
        else
            SHEAF__TRY(hear(p, a, i));
        if (i % 50 == 7) /* other calls between */
            SHEAF__TRY(sheaf__channel_barrier(a->channel, 0, &a->wait, &p->err));
    }
    SHEAF__TRY(say(p, a, 1, "the end")); /* closing drops it */
    return aside(p, a);
}

static sheaf_status play_in_order(struct player *p)
{
    struct ahead a = {0};
    sheaf_status status = open_channels(p, &a);
    if (status >= 0)
        status = not_waited_for(p, &a);
    if (status >= 0)
        status = many(p, &a);
    close_channels(&a);
    return status;
}

static void test_in_order(void **state)
{
    (void)state;
    struct world alone = {.size = 1, .play = play_in_order};
    world_run(&alone);
    run(2, play_in_order);
    run(3, play_in_order);
}

/* ---- wrong uses ---- */

static sheaf_status play_wrong(struct player *p)
{
    struct ahead a = {0};
    int64_t sums[2];
    const int64_t nine[9] = {0};
    const struct sheaf__ahead_sum much = {.numbers = nine, .count = 9};
    SHEAF__TRY(open_channels(p, &a));
    CHECK_FAILS(p, sheaf__ahead_hear(a.channel, sums, &a.wait, &p->err), SHEAF_ERR_INTERNAL,
                "nothing was said");
    CHECK_FAILS(p, sheaf__ahead_say(a.channel, &much, &a.wait, &p->err), SHEAF_ERR_INTERNAL,
                "9 numbers");
    SHEAF__TRY(say(p, &a, 1, "a"));
    CHECK_FAILS(p, say(p, &a, 1, "a"), SHEAF_ERR_INTERNAL, "before the last were heard");
    sheaf_status status = hear(p, &a, 1);
    close_channels(&a);
    return status;
}

static void test_wrong_uses(void **state)
{
    (void)state;
    run(2, play_wrong);
}

/* ---- disagreement ---- */

static sheaf_status differ(struct player *p, struct ahead *a)
{
    SHEAF__TRY(say(p, a, 1, p->member ? "b" : "a"));
    CHECK_FAILS(p, hear(p, a, 1), SHEAF_ERR_TEAM_MISMATCH, "2 int64 \"b\"");
    SHEAF__TRY(aside(p, a));
    sheaf__channel_reset(a->channel);
    /* What was dropped must agree, too, where it is looked at; what comes after it always. */
    SHEAF__TRY(say(p, a, 1, "a"));
    sheaf__ahead_drop(a->channel);
    sheaf_status status = say(p, a, 1, p->member ? "d" : "c");
    if (status == SHEAF_OK)
        status = hear(p, a, 1);
    CHECK_FAILS(p, status, SHEAF_ERR_TEAM_MISMATCH, "2 int64 \"d\"");
    SHEAF__TRY(aside(p, a));
    sheaf__channel_reset(a->channel);
    SHEAF__TRY(say(p, a, 3, "a"));
    return hear(p, a, 3);
}

/* Who goes on to another round drops what it said, and says no more; the other hears that, and is told at the next. */
static sheaf_status leave(struct player *p, struct ahead *a)
{
    SHEAF__TRY(say(p, a, 1, "a"));
    sheaf_status status = SHEAF_OK;
    if (p->member == 1) {
        sheaf__ahead_drop(a->channel);
        SHEAF__TRY(sheaf__channel_begin_round(a->channel, &p->err));
        SHEAF__TRY(aside(p, a));
        SHEAF__TRY(aside(p, a));
        status = sheaf__channel_end_round(a->channel, &p->err);
    } else {
        SHEAF__TRY(aside(p, a));
        SHEAF__TRY(hear(p, a, 1));
        status = say(p, a, 1, "b");
        if (status == SHEAF_OK)
            status = hear(p, a, 1);
        SHEAF__TRY(aside(p, a));
    }
    CHECK_FAILS(p, status, SHEAF_ERR_TEAM_MISMATCH,
                "/job:worker/task:0 is in all_reduce (sum) of 2 int64 \"b\" before end 1, "
                "/job:worker/task:1 is ");
    SHEAF__TRY(aside(p, a));
    sheaf__channel_reset(a->channel);
    SHEAF__TRY(say(p, a, 3, "a"));
    return hear(p, a, 3);
}

static sheaf_status play_disagree(struct player *p)
{
    struct ahead a = {0};
    sheaf_status status = open_channels(p, &a);
    for (int i = 0; i < 5 && status >= 0; i++) {
        status = differ(p, &a);
        if (status >= 0)
            status = leave(p, &a);
    }
    close_channels(&a);
    return status;
}

static void test_disagreement(void **state)
{
    (void)state;
    run(2, play_disagree);
}

/* ---- loss ---- */

/* What a member said before it went is heard; after that its loss is. */
static sheaf_status play_lost(struct player *p)
{
    struct ahead a = {0};
    SHEAF__TRY(open_channels(p, &a));
    sheaf_status status = say(p, &a, 1, "a");
    if (status >= 0)
        status = aside(p, &a);
    if (p->member > 0 && status >= 0) {
        status = hear(p, &a, 1);
        if (status >= 0)
            status = say(p, &a, 2, "b");
        if (status >= 0)
            status = hear(p, &a, 2);
        CHECK(p, status == SHEAF_ERR_TEAM_LOST);
        /* Whether it was saying or hearing that failed: this member's goodbye will say why it goes. */
        CHECK(p, p->team->blame.status == SHEAF_ERR_TEAM_LOST);
        status = SHEAF_OK;
    }
    close_channels(&a);
    return status;
}

static void test_lost(void **state)
{
    (void)state;
    run(2, play_lost);
    run(3, play_lost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_in_order),
        rig_test(test_wrong_uses),
        rig_test(test_disagreement),
        rig_test(test_lost),
    };
    return rig_run(tests);
}
