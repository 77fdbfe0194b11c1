/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench.h"

#include <sheaf/team.h>

#include <stdlib.h>

/* Float sums in place over two processes, as a program that moves its own buffers makes them. */

enum { PROCESSES = 2, WARM_UP = 3 };

static const size_t COUNTS[] = {1, 256, 16384, 262144, 1 << 20, 1 << 24};

static sheaf_status sum(sheaf_team *team, float *data, size_t count, sheaf_error *err)
{
    return sheaf_team_all_reduce(team, SHEAF_REDUCE_SUM, SHEAF_FLOAT32, data, count, 0, err);
}

static void fill(float *data, size_t count, float value)
{
    for (size_t i = 0; i < count; i++)
        data[i] = value;
}

/* One sum of known numbers, looked at element by element. */
static sheaf_status check(sheaf_team *team, float *data, size_t count, sheaf_error *err)
{
    int size = sheaf_team_size(team);
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(i % 1000) + (float)sheaf_team_rank(team);
    sheaf_status status = sum(team, data, count, err);
    if (status < 0)
        return status;
    for (size_t i = 0; i < count; i++) {
        float expected = (float)size * (float)(i % 1000) + (float)(size * (size - 1) / 2);
        if (data[i] != expected)
            return sheaf_error_set(err, SHEAF_ERR_INTERNAL, "element %zu of %zu is %g, expected %g",
                                   i, count, data[i], expected);
    }
    return SHEAF_OK;
}

static sheaf_status measure(sheaf_team *team, float *data, size_t count, sheaf_error *err)
{
    int rounds = count >= 1 << 22 ? 10 : count >= 1 << 18 ? 50 : 300;
    sheaf_status status = check(team, data, count, err);
    fill(data, count, 0);
    for (int i = 0; i < WARM_UP && status >= 0; i++)
        status = sum(team, data, count, err);
    if (status >= 0)
        status = sheaf_team_barrier(team, 0, err);
    double begin = sheaf__bench_now();
    for (int i = 0; i < rounds && status >= 0; i++)
        status = sum(team, data, count, err);
    double seconds = (sheaf__bench_now() - begin) / rounds;
    if (status >= 0 && sheaf_team_rank(team) == 0)
        sheaf__bench_print(seconds * 1e6, "us", "all-reduce n=%d %zuB", sheaf_team_size(team),
                           count * sizeof(float));
    return status;
}

static sheaf_status measure_all(sheaf_team *team, sheaf_error *err)
{
    enum { SIZES = sizeof(COUNTS) / sizeof(COUNTS[0]) };
    float *data = aligned_alloc(64, COUNTS[SIZES - 1] * sizeof(*data));
    if (!data)
        return sheaf_error_set(err, SHEAF_ERR_RESOURCE_EXHAUSTED, "not enough memory");
    sheaf_status status = SHEAF_OK;
    for (size_t i = 0; i < SIZES && status >= 0; i++)
        status = measure(team, data, COUNTS[i], err);
    free(data);
    return status;
}

static int member(void)
{
    sheaf_error err = {0};
    sheaf_strategy *s = NULL;
    sheaf_team *team = NULL;
    sheaf_status status = sheaf_strategy_new("multiworker", NULL, NULL, &s, &err);
    if (status >= 0)
        status = sheaf_team_new(s, &team, &err);
    if (status >= 0)
        status = measure_all(team, &err);
    sheaf_team_free(team);
    sheaf_strategy_free(s);
    return status < 0 ? sheaf__bench_failed(&err) : 0;
}

int sheaf__bench_allreduce(const struct sheaf__bench_options *options)
{
    return options->inside ? member() : sheaf__bench_launch("allreduce", PROCESSES, 0, options);
}
