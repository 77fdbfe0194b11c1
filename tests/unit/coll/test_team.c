/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include "coll/core.h"
#include "tensor/half.h"

#include <stdlib.h>

/* Teams: every call against the naive result, disagreement, loss, giving up. */

/* ---- every call, with many counts and dtypes ---- */

/* Value of element i of replica r: small integers, exact in every dtype. */
static int value(int r, size_t i)
{
    return (int)((i * 7 + (size_t)r * 3) % 17) - 8;
}

static int sum_of(int replicas, size_t i)
{
    int sum = 0;
    for (int r = 0; r < replicas; r++)
        sum += value(r, i);
    return sum;
}

static void put(void *data, sheaf_dtype dtype, size_t i, int v)
{
    switch (dtype) {
    case SHEAF_FLOAT32:
        ((float *)data)[i] = (float)v;
        break;
    case SHEAF_FLOAT64:
        ((double *)data)[i] = v;
        break;
    case SHEAF_BFLOAT16:
        ((uint16_t *)data)[i] = sheaf__bfloat16_of_float((float)v);
        break;
    case SHEAF_INT32:
        ((int32_t *)data)[i] = v;
        break;
    default:
        ((int64_t *)data)[i] = v;
    }
}

static double get(const void *data, sheaf_dtype dtype, size_t i)
{
    switch (dtype) {
    case SHEAF_FLOAT32:
        return ((const float *)data)[i];
    case SHEAF_FLOAT64:
        return ((const double *)data)[i];
    case SHEAF_BFLOAT16:
        return sheaf__bfloat16_to_float(((const uint16_t *)data)[i]);
    case SHEAF_INT32:
        return ((const int32_t *)data)[i];
    default:
        return (double)((const int64_t *)data)[i];
    }
}

static const size_t counts[] = {0, 1, 2, 5, 100, 4097, 20000, 300001};
static const sheaf_dtype dtypes[] = {SHEAF_FLOAT32, SHEAF_FLOAT64, SHEAF_BFLOAT16, SHEAF_INT32,
                                     SHEAF_INT64};

static sheaf_status reduce_once(struct player *p, sheaf_dtype dtype, size_t count, bool in_place,
                                bool mean)
{
    size_t bytes = count * sheaf_dtype_size(dtype);
    char *in = malloc(bytes + 1), *out = in_place ? in : malloc(bytes + 1);
    struct sheaf__wait wait = world_wait(20);
    for (size_t i = 0; i < count; i++)
        put(in, dtype, i, value(p->replica, i));
    const struct sheaf__reduction r = {.op = mean ? SHEAF_REDUCE_MEAN : SHEAF_REDUCE_SUM,
                                       .dtype = dtype,
                                       .count = count,
                                       .in = in,
                                       .out = out,
                                       .name = "w"};
    sheaf_status status = sheaf__channel_all_reduce(p->channel, p->local, &r, &wait, &p->err);
    size_t wrong = 0;
    for (size_t i = 0; status == SHEAF_OK && i < count; i++) {
        int sum = sum_of(p->replicas, i);
        double expected = sum;
        if (mean && (dtype == SHEAF_INT32 || dtype == SHEAF_INT64))
            expected = sum / p->replicas;
        else if (mean && dtype == SHEAF_FLOAT64)
            expected = (double)sum / p->replicas;
        else if (mean)
            continue; /* rounded; compared in test_tree */
        wrong += get(out, dtype, i) != expected;
    }
    if (!in_place)
        free(out);
    free(in);
    SHEAF__TRY(status);
    CHECK(p, wrong == 0);
    return SHEAF_OK;
}

static sheaf_status play_reduce(struct player *p)
{
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
        for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++)
            SHEAF__TRY(reduce_once(p, dtypes[d], counts[c], (c + d) % 2 == 0, (c + d) % 3 == 0));
    return SHEAF_OK;
}

static sheaf_status play_scatter(struct player *p)
{
    struct sheaf__wait wait = world_wait(20);
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        size_t count = counts[c], wrong = 0;
        float *in = malloc((count + 1) * sizeof(float));
        for (size_t i = 0; i < count; i++)
            in[i] = (float)value(p->replica, i);
        const struct sheaf__reduction r = {
            .dtype = SHEAF_FLOAT32, .count = count, .in = in, .out = in};
        sheaf_status status =
            sheaf__channel_reduce_scatter(p->channel, p->local, &r, &wait, &p->err);
        size_t first = count * (size_t)p->replica / (size_t)p->replicas;
        size_t end = count * (size_t)(p->replica + 1) / (size_t)p->replicas;
        for (size_t i = first; status == SHEAF_OK && i < end; i++)
            wrong += in[i - first] != (float)sum_of(p->replicas, i);
        free(in);
        SHEAF__TRY(status);
        CHECK(p, wrong == 0);
    }
    return SHEAF_OK;
}

static sheaf_status play_broadcast(struct player *p)
{
    struct sheaf__wait wait = world_wait(20);
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        size_t bytes = counts[c], wrong = 0;
        int root = (int)c % p->replicas;
        uint8_t *data = malloc(bytes + 1);
        memset(data, p->replica + 1, bytes);
        sheaf_status status =
            sheaf__channel_broadcast(p->channel, p->local, root, data, bytes, &wait, &p->err);
        for (size_t i = 0; i < bytes; i++)
            wrong += data[i] != root + 1;
        free(data);
        SHEAF__TRY(status);
        CHECK(p, wrong == 0);
    }
    return SHEAF_OK;
}

static sheaf_status gather_once(struct player *p, size_t unit, bool unknown)
{
    struct sheaf__wait wait = world_wait(20);
    size_t sizes[MEMBERS_MOST * LOCALS_MOST], found[MEMBERS_MOST * LOCALS_MOST] = {0};
    size_t total = 0, at = 0, wrong = 0;
    for (int r = 0; r < p->replicas; r++)
        total += sizes[r] = unit * (size_t)((r * 2 + 5) % 4); /* 0 among them */
    uint8_t *own = malloc(sizes[p->replica] + 1), *all = malloc(total + 1);
    memset(own, p->replica + 1, sizes[p->replica]);
    sheaf_status status;
    if (unknown) {
        void *got = NULL;
        status = sheaf__channel_gather_bytes(p->channel, p->local,
                                             (struct sheaf__bytes){own, sizes[p->replica]}, found,
                                             &got, &wait, &p->err);
        if (status == SHEAF_OK) {
            memcpy(all, got, total);
            wrong += memcmp(found, sizes, (size_t)p->replicas * sizeof(size_t)) != 0;
            sheaf__free(got);
        }
    } else {
        status = sheaf__channel_all_gather(p->channel, p->local, own, sizes, all, &wait, &p->err);
    }
    for (int r = 0; status == SHEAF_OK && r < p->replicas; r++)
        for (size_t i = 0; i < sizes[r]; i++)
            wrong += all[at++] != r + 1;
    free(own);
    free(all);
    SHEAF__TRY(status);
    CHECK(p, wrong == 0);
    return SHEAF_OK;
}

static sheaf_status play_gather(struct player *p)
{
    static const size_t units[] = {0, 1, 1000, 20000, 100000};
    for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++) {
        SHEAF__TRY(gather_once(p, units[u], false));
        SHEAF__TRY(gather_once(p, units[u], true));
    }
    return SHEAF_OK;
}

static sheaf_status play_everything(struct player *p)
{
    struct sheaf__wait wait = world_wait(20);
    SHEAF__TRY(play_reduce(p));
    SHEAF__TRY(play_scatter(p));
    SHEAF__TRY(play_broadcast(p));
    SHEAF__TRY(play_gather(p));
    return sheaf__channel_barrier(p->channel, p->local, &wait, &p->err);
}

/* T48 (d), (e), (f): uneven gathers, zero elements and one rank are ordinary. */
static void test_one_process_T48(void **state)
{
    (void)state;
    for (int locals = 1; locals <= 4; locals++) {
        struct world w = {.size = 1, .locals = {locals}, .play = play_everything};
        world_run(&w);
    }
}

static void test_members_2(void **state)
{
    (void)state;
    struct world w = {.size = 2, .play = play_everything};
    world_run(&w);
}

static void test_members_3_5_8(void **state)
{
    (void)state;
    static const int sizes[] = {3, 5, 8};
    for (int i = 0; i < 3; i++) {
        struct world w = {.size = sizes[i], .play = play_everything};
        world_run(&w);
    }
}

static void test_members_with_replicas(void **state)
{
    (void)state;
    struct world even = {.size = 2, .locals = {2, 2}, .play = play_everything};
    world_run(&even);
    struct world odd = {
        .size = 3, .locals = {1, 3, 2}, .play = play_everything, .reproducible = true};
    world_run(&odd);
    struct world mixed = {.size = 3, .locals = {3, 1, 1}, .play = play_everything};
    world_run(&mixed);
}

static void test_over_sockets_and_shared_memory(void **state)
{
    (void)state;
    struct world tcp = {.size = 3,
                        .locals = {1, 2, 1},
                        .environment = {"SHEAF_TRANSPORT=tcp"},
                        .play = play_everything};
    world_run(&tcp);
    struct world shm = {.size = 3, .environment = {"SHEAF_TRANSPORT=shm"}, .play = play_everything};
    world_run(&shm);
    struct world uneven = {.size = 2,
                           .locals = {3, 1},
                           .reproducible = true,
                           .environment = {"SHEAF_TRANSPORT=shm"},
                           .play = play_everything};
    world_run(&uneven);
}

/* ---- the same bits wherever the replicas are ---- */

enum { BITS = 70000 };
struct bits {
    float result[BITS];
    bool have;
    int different;
    struct sheaf__mutex lock;
};

static sheaf_status play_bits(struct player *p)
{
    struct bits *b = p->world->user;
    struct sheaf__wait wait = world_wait(20);
    float *data = malloc(BITS * sizeof(float));
    uint64_t s = (uint64_t)p->replica * 7919 + 1;
    for (int i = 0; i < BITS; i++) {
        s = s * 6364136223846793005U + 1442695040888963407U;
        data[i] = (float)(int32_t)(s >> 32) * ((s & 64) ? 1e-3F : 1e3F);
    }
    const struct sheaf__reduction r = {
        .dtype = SHEAF_FLOAT32, .count = BITS, .in = data, .out = data};
    sheaf_status status = sheaf__channel_all_reduce(p->channel, p->local, &r, &wait, &p->err);
    sheaf__mutex_lock(&b->lock);
    if (!b->have)
        memcpy(b->result, data, sizeof(b->result));
    b->have = true;
    b->different += memcmp(b->result, data, sizeof(b->result)) != 0;
    sheaf__mutex_unlock(&b->lock);
    free(data);
    return status;
}

static void test_reproducible_over_placements(void **state)
{
    (void)state;
    static const int placements[][8] = {
        {6}, {4, 2}, {2, 4}, {1, 2, 3}, {3, 3}, {1, 1, 1, 1, 1, 1}, {5, 1}};
    static struct bits b;
    memset(&b, 0, sizeof(b));
    for (size_t i = 0; i < sizeof(placements) / sizeof(placements[0]); i++) {
        struct world w = {.reproducible = true, .play = play_bits, .user = &b};
        for (int m = 0; m < 8 && placements[i][m]; m++) {
            if (placements[i][m] > LOCALS_MOST)
                goto next;
            w.locals[m] = placements[i][m];
            w.size = m + 1;
        }
        world_run(&w);
        w.environment[0] = "SHEAF_TRANSPORT=shm";
        world_run(&w);
    next:;
    }
    assert_int_equal(b.different, 0);
}

/* ---- members that call different things: T48 (a), (b), (c) ---- */

static sheaf_status mismatch(struct player *p, const struct sheaf__reduction *a,
                             const struct sheaf__reduction *b, const char *part)
{
    struct sheaf__wait wait = world_wait(20);
    const struct sheaf__reduction *mine = p->member == 0 ? a : b;
    CHECK_FAILS(p, sheaf__channel_all_reduce(p->channel, p->local, mine, &wait, &p->err),
                SHEAF_ERR_TEAM_MISMATCH, part);
    CHECK_FAILS(p, sheaf__channel_barrier(p->channel, p->local, &wait, &p->err),
                SHEAF_ERR_TEAM_MISMATCH, part);
    sheaf__channel_reset(p->channel);
    return sheaf__channel_barrier(p->channel, p->local, &wait, &p->err);
}

static sheaf_status play_mismatch(struct player *p)
{
    static float data[2][3][300000];
    struct sheaf__wait wait = world_wait(20);
    float *mine = data[p->member % 2][p->local];
    struct sheaf__reduction a = {
        .dtype = SHEAF_FLOAT32, .count = 12, .in = mine, .out = mine, .name = "a"};
    struct sheaf__reduction b = a;
    b.name = "b";
    SHEAF__TRY(mismatch(p, &a, &b, "all_reduce (sum) of 12 float32 \"b\""));
    b = a;
    b.count = 300000;
    SHEAF__TRY(mismatch(p, &a, &b, "all_reduce (sum) of 12 float32 \"a\""));
    b = a;
    b.dtype = SHEAF_INT32;
    SHEAF__TRY(mismatch(p, &a, &b, "all_reduce (sum) of 12 int32 \"a\""));
    b = a;
    b.op = SHEAF_REDUCE_MEAN;
    SHEAF__TRY(mismatch(p, &a, &b, "all_reduce (mean) of 12 float32 \"a\""));
    /* different roots, a different kind of call */
    CHECK_FAILS(p,
                sheaf__channel_broadcast(p->channel, p->local, p->member, mine, 8, &wait, &p->err),
                SHEAF_ERR_TEAM_MISMATCH, "broadcast of 8 bytes from 1");
    sheaf__channel_reset(p->channel);
    CHECK_FAILS(p,
                p->member == 0
                    ? sheaf__channel_barrier(p->channel, p->local, &wait, &p->err)
                    : sheaf__channel_all_reduce(p->channel, p->local, &a, &wait, &p->err),
                SHEAF_ERR_TEAM_MISMATCH, "barrier");
    sheaf__channel_reset(p->channel);
    return sheaf__channel_barrier(p->channel, p->local, &wait, &p->err);
}

static void test_mismatch_T48(void **state)
{
    (void)state;
    struct world w = {.size = 2, .play = play_mismatch};
    world_run(&w);
    struct world shm = {.size = 2, .environment = {"SHEAF_TRANSPORT=shm"}, .play = play_mismatch};
    world_run(&shm);
}

static sheaf_status play_local_mismatch(struct player *p)
{
    static float data[4][16];
    struct sheaf__wait wait = world_wait(20);
    struct sheaf__reduction r = {.dtype = SHEAF_FLOAT32,
                                 .count = p->local == 2 ? 5 : 6,
                                 .in = data[p->local],
                                 .out = data[p->local]};
    CHECK_FAILS(
        p, sheaf__channel_all_reduce(p->channel, p->local, &r, &wait, &p->err),
        SHEAF_ERR_TEAM_MISMATCH,
        "replica 0 calls all_reduce (sum) of 6 float32, replica 2 calls all_reduce (sum) of 5");
    return SHEAF_OK;
}

static void test_local_mismatch(void **state)
{
    (void)state;
    struct world w = {.size = 1, .locals = {3}, .play = play_local_mismatch};
    world_run(&w);
}

/* ---- who does not come ---- */

static sheaf_status play_late(struct player *p)
{
    struct sheaf__wait wait = world_wait(0.2), long_wait = world_wait(20);
    wait.what = "step 3";
    if (p->member == 2) {
        /* It comes when the others have given up, and learns why. */
        sheaf__wait_sleep(sheaf__clock_deadline(0.6), NULL, NULL);
        CHECK_FAILS(p, sheaf__channel_barrier(p->channel, p->local, &long_wait, &p->err),
                    SHEAF_ERR_DEADLINE, "not called by /job:worker/task:2");
        return SHEAF_OK;
    }
    CHECK_FAILS(p, sheaf__channel_barrier(p->channel, p->local, &wait, &p->err), SHEAF_ERR_DEADLINE,
                "waited too long for step 3; not called by /job:worker/task:2");
    return SHEAF_OK;
}

static void test_deadline_names_who_is_missing(void **state)
{
    (void)state;
    struct world w = {.size = 3, .play = play_late};
    world_run(&w);
    struct world shm = {.size = 3, .environment = {"SHEAF_TRANSPORT=shm"}, .play = play_late};
    world_run(&shm);
}

static sheaf_status play_nothing(struct player *p)
{
    (void)p;
    return SHEAF_OK;
}

static sheaf_status absent_member(struct rig_task *task)
{
    struct world *w = task->user;
    sheaf_status status = world_member(task);
    if (w->absent == task->index + 1)
        return status;
    if (status == SHEAF_ERR_UNAVAILABLE && strstr(task->err.message, "/job:worker/task:1 at"))
        return SHEAF_OK;
    return status < 0 ? status
                      : sheaf_error_set(&task->err, SHEAF_ERR_INTERNAL, "the team came together");
}

static void test_join_names_who_is_missing(void **state)
{
    (void)state;
    sheaf_error err = {0};
    struct world w = {.size = 3, .play = play_nothing, .deadline = 0.5, .absent = 2};
    w.secret.size = 32;
    rig_ok(sheaf__hub_new(&w.hub, &err), &err);
    rig_tasks(3, absent_member, &w, world_environment, 50);
    sheaf__hub_free(w.hub);
}

static sheaf_status play_lost(struct player *p)
{
    struct sheaf__wait wait = world_wait(20);
    float data[4] = {1, 2, 3, 4};
    const struct sheaf__reduction r = {.dtype = SHEAF_FLOAT32, .count = 4, .in = data, .out = data};
    SHEAF__TRY(sheaf__channel_all_reduce(p->channel, p->local, &r, &wait, &p->err));
    if (p->member == 1)
        return SHEAF_OK; /* leaves */
    CHECK_FAILS(p, sheaf__channel_all_reduce(p->channel, p->local, &r, &wait, &p->err),
                SHEAF_ERR_TEAM_LOST, "all_reduce (sum) of 4 float32: /job:worker/task:1 at");
    CHECK(p, p->err.peer.index == 1);
    sheaf__channel_reset(p->channel);
    CHECK_FAILS(p, sheaf__channel_barrier(p->channel, p->local, &wait, &p->err),
                SHEAF_ERR_TEAM_LOST, "barrier \"test\": /job:worker/task:1 at");
    return SHEAF_OK;
}

static void test_lost_member(void **state)
{
    (void)state;
    struct world w = {.size = 3, .play = play_lost};
    world_run(&w);
    struct world shm = {.size = 3, .environment = {"SHEAF_TRANSPORT=shm"}, .play = play_lost};
    world_run(&shm);
}

static bool is_told(void *user)
{
    return sheaf__team_status(user, NULL) < 0;
}

/* A member that ends because of a failure of its own says so to those whom the failure has not reached. */
static sheaf_status play_reason(struct player *p)
{
    struct sheaf__wait wait = world_wait(20);
    sheaf_error cause;
    SHEAF__TRY(sheaf__channel_barrier(p->channel, p->local, &wait, &p->err));
    if (p->member == 1) {
        sheaf__error(&cause, SHEAF_ERR_DATA_LOSS, "record 7 is damaged");
        sheaf__channel_abort(p->channel, &cause);
        return SHEAF_OK; /* leaves */
    }
    SHEAF__TRY(sheaf__net_wait(p->team->net, is_told, p->team, &wait, &p->err));
    CHECK_FAILS(p, sheaf__team_status(p->team, &p->err), SHEAF_ERR_TEAM_LOST,
                "record 7 is damaged");
    CHECK(p, p->err.peer.index == 1);
    return SHEAF_OK;
}

static void test_reason_to_end(void **state)
{
    (void)state;
    struct world w = {.size = 2, .play = play_reason};
    world_run(&w);
    struct world tcp = {.size = 3, .environment = {"SHEAF_TRANSPORT=tcp"}, .play = play_reason};
    world_run(&tcp);
}

/* ---- a replica fails its step ---- */

static sheaf_status play_abort(struct player *p)
{
    struct sheaf__wait wait = world_wait(20);
    for (int step = 0; step < 10; step++) {
        if (step % 3 == 2 && p->replica == step % p->replicas) {
            sheaf_error cause;
            sheaf__error(&cause, SHEAF_ERR_INVALID_ARGUMENT, "shapes differ in step %d", step);
            sheaf__channel_abort(p->channel, &cause);
        } else if (step % 3 == 2) {
            char expected[64];
            snprintf(expected, sizeof(expected), "shapes differ in step %d", step);
            CHECK_FAILS(p, sheaf__channel_barrier(p->channel, p->local, &wait, &p->err),
                        SHEAF_ERR_INVALID_ARGUMENT, expected);
        } else {
            SHEAF__TRY(reduce_once(p, SHEAF_FLOAT32, 1000, true, false));
            continue;
        }
        /* the strategy waits for its local replicas, then starts anew */
        SHEAF__TRY(sheaf__channel_barrier(p->world->user, p->replica, &wait, &p->err));
        if (p->local == 0)
            sheaf__channel_reset(p->channel);
        SHEAF__TRY(sheaf__channel_barrier(p->world->user, p->replica, &wait, &p->err));
    }
    return SHEAF_OK;
}

static void test_abort_and_reset(void **state)
{
    (void)state;
    sheaf_error err = {0};
    /* All replicas are threads of this process: another team of one member lets them meet. */
    const struct sheaf__team_options options = {.size = 1, .local_replicas = 4};
    struct sheaf__team *team;
    struct sheaf__channel *channel;
    struct sheaf__wait wait = world_wait(5);
    rig_ok(sheaf__team_new(&options, &wait, &team, &err), &err);
    rig_ok(sheaf__channel_open(team, 0, 0, &channel, &err), &err);
    struct world w = {.size = 2, .locals = {2, 2}, .play = play_abort, .user = channel};
    world_run(&w);
    struct world shm = {.size = 2,
                        .locals = {2, 2},
                        .environment = {"SHEAF_TRANSPORT=shm"},
                        .play = play_abort,
                        .user = channel};
    world_run(&shm);
    sheaf__channel_free(channel);
    sheaf__team_free(team);
}

/* ---- background ---- */

static sheaf_status play_jobs(struct player *p)
{
    enum { JOBS = 12, COUNT = 30000 };
    struct sheaf__reduce_job jobs[JOBS];
    struct sheaf__wait wait = world_wait(20);
    float *data = malloc(JOBS * COUNT * sizeof(float));
    memset(jobs, 0, sizeof(jobs));
    sheaf_status status = SHEAF_OK;
    size_t wrong = 0;
    for (int j = 0; j < JOBS && status == SHEAF_OK; j++) {
        for (size_t i = 0; i < COUNT; i++)
            data[(size_t)j * COUNT + i] = (float)(value(p->replica, i) + j);
        jobs[j].reduction = (struct sheaf__reduction){.dtype = SHEAF_FLOAT32,
                                                      .count = j % 4 == 3 ? 10 : COUNT,
                                                      .in = data + j * COUNT,
                                                      .out = data + j * COUNT};
        status = sheaf__reduce_start(p->channel, p->local, &jobs[j], &p->err);
    }
    for (int j = 0; j < JOBS && status == SHEAF_OK; j++) {
        status = sheaf__reduce_finish(p->channel, &jobs[j], &wait, &p->err);
        for (size_t i = 0; i < jobs[j].reduction.count; i++)
            wrong +=
                data[(size_t)j * COUNT + i] != (float)(sum_of(p->replicas, i) + j * p->replicas);
    }
    /* A call after them comes after them. */
    if (status == SHEAF_OK)
        status = reduce_once(p, SHEAF_INT64, 100, true, false);
    free(data);
    SHEAF__TRY(status);
    CHECK(p, wrong == 0);
    return SHEAF_OK;
}

static void test_background(void **state)
{
    (void)state;
    struct world alone = {.size = 1, .locals = {3}, .play = play_jobs};
    world_run(&alone);
    struct world two = {.size = 2, .play = play_jobs};
    world_run(&two);
    struct world many = {.size = 3, .locals = {2, 1, 3}, .play = play_jobs};
    world_run(&many);
    struct world shm = {
        .size = 2, .locals = {2, 1}, .environment = {"SHEAF_TRANSPORT=shm"}, .play = play_jobs};
    world_run(&shm);
}

static sheaf_status play_background_given_up(struct player *p)
{
    struct sheaf__wait wait = world_wait(0.2);
    float data[8] = {0};
    struct sheaf__reduce_job job = {
        .reduction = {.dtype = SHEAF_FLOAT32, .count = 8, .in = data, .out = data}};
    if (p->replica == 3)
        return SHEAF_OK; /* never starts its part */
    SHEAF__TRY(sheaf__reduce_start(p->channel, p->local, &job, &p->err));
    sheaf_status status = sheaf__reduce_finish(p->channel, &job, &wait, &p->err);
    CHECK(p, status < 0);
    return SHEAF_OK;
}

static void test_background_given_up(void **state)
{
    (void)state;
    struct world w = {.size = 2, .locals = {2, 2}, .play = play_background_given_up};
    world_run(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(test_one_process_T48),
        rig_test(test_members_2),
        rig_test(test_members_3_5_8),
        rig_test(test_members_with_replicas),
        rig_test(test_over_sockets_and_shared_memory),
        rig_test(test_reproducible_over_placements),
        rig_test(test_mismatch_T48),
        rig_test(test_local_mismatch),
        rig_test(test_deadline_names_who_is_missing),
        rig_test(test_join_names_who_is_missing),
        rig_test(test_lost_member),
        rig_test(test_reason_to_end),
        rig_test(test_abort_and_reset),
        rig_test(test_background),
        rig_test(test_background_given_up),
    };
    return rig_run(tests);
}
