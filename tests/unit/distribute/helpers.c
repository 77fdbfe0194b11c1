/* SPDX-License-Identifier: Apache-2.0 */

#include "helpers.h"

#include "base/context.h"
#include "base/sim.h"
#include "net/net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sheaf_strategy *strategy(const char *name)
{
    sheaf_error err = {0};
    sheaf_strategy *s = NULL;
    rig_ok(sheaf_strategy_new(name, NULL, NULL, &s, &err), &err);
    return s;
}

sheaf_strategy *mirrored(int replicas)
{
    sheaf_error err = {0};
    rig_ok(sheaf_devices_configure(replicas, &err), &err);
    return strategy("MirroredStrategy");
}

sheaf_strategy *strategy_of_task(struct rig_task *task, const char *name, int replicas)
{
    const sheaf_strategy_options options = {.deadline = 60};
    sheaf_strategy *s = NULL;
    if (sheaf_devices_configure(replicas, &task->err) < 0 ||
        sheaf_strategy_new(name, NULL, &options, &s, &task->err) < 0)
        return NULL;
    return s;
}

sheaf_values *floats(const float *data, const int *counts, int replicas)
{
    sheaf_element *parts[16];
    for (int r = 0; r < replicas; r++) {
        parts[r] = sheaf_element_of(sheaf_tensor_new(SHEAF_FLOAT32, SHEAF_SHAPE(counts[r]), data));
        data += counts[r];
    }
    return sheaf_values_per_replica(parts, replicas);
}

sheaf_tensor *only(const sheaf_element *e)
{
    return sheaf_element_get(e, NULL);
}

sheaf_bundle *open_bundle(const char *path)
{
    sheaf_error err = {0};
    sheaf_bundle *b = NULL;
    rig_ok(sheaf_bundle_open(path, &b, &err), &err);
    rig_ok(sheaf_bundle_verify(b, &err), &err);
    return b;
}

void assert_floats_at(const sheaf_tensor *t, const float *expected, size_t count, const char *file,
                      int line)
{
    if ((size_t)sheaf_tensor_elements(t) != count) {
        print_error("%lld elements, expected %zu\n", (long long)sheaf_tensor_elements(t), count);
        _fail(file, line);
    }
    for (size_t i = 0; i < count; i++) {
        const double x = sheaf_tensor_number(t, (int64_t)i);
        if (x != (double)expected[i] && !(isnan(x) && isnan(expected[i]))) {
            print_error("element %zu is %.9g, expected %.9g\n", i, x, (double)expected[i]);
            _fail(file, line);
        }
    }
}

/* Clusters in one process. */

struct cluster {
    struct jobs jobs;
    struct sheaf__hub *hub;
    sheaf_status (*fn)(struct rig_task *task);
    void *user;
    char config[16][1024];
    const char *environment[16][3];
};

static const char *place(const struct jobs *jobs, int task, int *index)
{
    *index = task;
    if (task < jobs->chief)
        return "chief";
    *index -= jobs->chief;
    if (*index < jobs->worker)
        return "worker";
    *index -= jobs->worker;
    return "ps";
}

static size_t put_job(char *text, size_t size, const char *name, int count, int first)
{
    size_t n = (size_t)snprintf(text, size, "%s\"%s\": [", first ? ", " : "", name);
    for (int i = 0; i < count; i++)
        n += (size_t)snprintf(text + n, size - n, "%s\"127.0.0.1:%d\"", i ? ", " : "",
                              20001 + first + i);
    return n + (size_t)snprintf(text + n, size - n, "]");
}

static void write_config(struct cluster *c, int task)
{
    char *text = c->config[task];
    const size_t size = sizeof(c->config[task]);
    const struct jobs *j = &c->jobs;
    int index;
    const char *type = place(j, task, &index);
    size_t n = (size_t)snprintf(text, size, "TF_CONFIG={\"cluster\": {");
    if (j->chief)
        n += put_job(text + n, size - n, "chief", j->chief, 0);
    if (j->worker)
        n += put_job(text + n, size - n, "worker", j->worker, j->chief);
    if (j->ps)
        n += put_job(text + n, size - n, "ps", j->ps, j->chief + j->worker);
    snprintf(text + n, size - n, "}, \"task\": {\"type\": \"%s\", \"index\": %d}}", type, index);
    c->environment[task][0] = text;
    c->environment[task][1] = "SHEAF_INSECURE=1";
    c->environment[task][2] = NULL;
}

static const char *const *environment(int task, void *user)
{
    return ((struct cluster *)user)->environment[task];
}

static sheaf_status run_task(struct rig_task *task)
{
    struct cluster *c = task->user;
    int index;
    sheaf_status status = sheaf__net_set_hub(task->context, c->hub, &task->err);
    if (status >= 0 && strcmp(place(&c->jobs, task->index, &index), "ps") == 0) {
        sheaf_cluster *cluster = NULL;
        if (index == c->jobs.ps - 1 && c->jobs.disk)
            sheaf__context_set_fs(task->context, c->jobs.disk);
        status = sheaf_cluster_resolve(NULL, &cluster, &task->err);
        if (status >= 0)
            status = sheaf_server_run(cluster, NULL, &task->err);
        sheaf_cluster_free(cluster);
        if (!c->jobs.ps_fails)
            return status;
        RIG_CHECK(task, status < 0 && strstr(task->err.message, c->jobs.ps_fails));
        return SHEAF_OK;
    }
    task->user = c->user;
    return status < 0 ? status : c->fn(task);
}

void run_cluster(struct jobs jobs, sheaf_status (*fn)(struct rig_task *task), void *user,
                 double seconds)
{
    sheaf_error err = {0};
    struct cluster *c = calloc(1, sizeof(*c));
    const int count = jobs.chief + jobs.worker + (jobs.ps_absent ? 0 : jobs.ps);
    assert_non_null(c);
    *c = (struct cluster){.jobs = jobs, .fn = fn, .user = user};
    for (int i = 0; i < count; i++)
        write_config(c, i);
    rig_ok(sheaf__hub_new(&c->hub, &err), &err);
    rig_tasks(count, run_task, c, environment, seconds);
    sheaf__hub_free(c->hub);
    free(c);
}

/* Arguments of run_cluster(). */
struct simulated {
    struct jobs jobs;
    sheaf_status (*fn)(struct rig_task *task);
    void *user;
    double seconds;
};

static void run_simulated(void *user)
{
    const struct simulated *s = user;
    run_cluster(s->jobs, s->fn, s->user, s->seconds);
}

void simulate_cluster(uint64_t seed, struct jobs jobs, sheaf_status (*fn)(struct rig_task *task),
                      void *user, double seconds)
{
    struct simulated s = {jobs, fn, user, seconds};
    sheaf_error err = {0};
    rig_ok(sheaf__sim_run(seed, run_simulated, &s, NULL, &err), &err);
}
