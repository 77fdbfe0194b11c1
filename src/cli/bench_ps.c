/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench.h"

#include <sheaf/sheaf.h>

#include <stdio.h>

/* A step that pulls a variable from one parameter server, pushes v * 1e-6, which is subtracted from
 * it there, and waits for the acknowledgement. */

enum { WARM_UP = 20 };

static const int64_t COUNTS[] = {256, 262144, 1 << 22};

struct work {
    sheaf_variable *v;
    sheaf_optimizer *subtract; /* plain descent with rate 1 */
};

static sheaf_status pull_and_push(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                                  void *user)
{
    struct work *w = user;
    (void)r;
    (void)in;
    (void)out;
    sheaf_tensor *gradient = sheaf_scale(sheaf_value(w->v), 1e-6, 0);
    return sheaf_optimizer_apply(w->subtract, &w->v, &gradient, 1, NULL);
}

static sheaf_status repeat(sheaf_strategy *s, sheaf_step *step, int times, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    for (int i = 0; i < times && status >= 0; i++)
        SHEAF_FRAME
        {
            status = sheaf_run_step(s, step, NULL, NULL, err);
        }
    return status;
}

static sheaf_status measure(sheaf_strategy *s, struct work *w, int64_t count, sheaf_error *err)
{
    int rounds = count < 1 << 20 ? 200 : 40;
    sheaf_step *step = sheaf_step_new(pull_and_push, w, NULL);
    sheaf_status status = repeat(s, step, WARM_UP, err);
    double begin = sheaf__bench_now();
    if (status >= 0)
        status = repeat(s, step, rounds, err);
    double seconds = (sheaf__bench_now() - begin) / rounds;
    sheaf_step_free(step);
    if (status >= 0)
        sheaf__bench_print(seconds * 1e6, "us", "ps pull+push %lldB dense step",
                           (long long)count * 4);
    return status;
}

/* All variables are made first: an optimizer serves one set of them. */
static sheaf_status work(sheaf_strategy *s, sheaf_error *err)
{
    enum { SIZES = sizeof(COUNTS) / sizeof(COUNTS[0]) };
    struct work works[SIZES] = {{0}};
    sheaf_status status = SHEAF_OK;
    const sheaf_optimizer_options rate = {.learning_rate = 1};
    char name[8];
    SHEAF_SCOPE(s)
    {
        for (size_t i = 0; i < SIZES; i++) {
            snprintf(name, sizeof(name), "v%zu", i);
            works[i].v = sheaf_variable_init(name, SHEAF_FLOAT32, SHEAF_SHAPE(COUNTS[i]),
                                             sheaf_init_constant(1), NULL);
            works[i].subtract = sheaf_sgd(&rate);
        }
    }
    for (size_t i = 0; i < SIZES && status >= 0; i++)
        status = measure(s, &works[i], COUNTS[i], err);
    for (size_t i = 0; i < SIZES; i++) {
        sheaf_optimizer_free(works[i].subtract);
        sheaf_variable_free(works[i].v);
    }
    return status;
}

static sheaf_status worker(sheaf_cluster *cluster, sheaf_error *err)
{
    sheaf_strategy *s = NULL;
    sheaf_status status = sheaf_strategy_new("ps", cluster, NULL, &s, err);
    if (status >= 0)
        status = work(s, err);
    if (status >= 0)
        status = sheaf_strategy_join(s, 0, err);
    sheaf_strategy_free(s);
    return status;
}

static int task(void)
{
    sheaf_error err = {0};
    sheaf_cluster *cluster = NULL;
    sheaf_status status = sheaf_cluster_resolve(NULL, &cluster, &err);
    if (status >= 0)
        status = sheaf_cluster_is(cluster, "ps") ? sheaf_server_run(cluster, NULL, &err)
                                                 : worker(cluster, &err);
    sheaf_cluster_free(cluster);
    return status < 0 ? sheaf__bench_failed(&err) : 0;
}

int sheaf__bench_ps(const struct sheaf__bench_options *options)
{
    return options->inside ? task() : sheaf__bench_launch("ps", 1, 1, options);
}
