/* SPDX-License-Identifier: Apache-2.0 */

/* A parameter server and a worker in one process, on fixed ports, started, used and stopped again and again (T11):
 *
 *     restart TIMES WORKER_ADDRESS PS_ADDRESS
 *
 * Prints "round N descriptors D threads T" after each. */

#include <dirent.h>
#include <pthread.h>
#include <sheaf/sheaf.h>
#include <stdio.h>
#include <stdlib.h>

struct task {
    const char *type;
    char config[512];
    const char *environment[2];
    sheaf_error err;
};

static void describe(struct task *t, const char *type, char **addresses)
{
    t->type = type;
    snprintf(
        t->config, sizeof(t->config),
        "TF_CONFIG={\"cluster\": {\"worker\": [\"%s\"], \"ps\": [\"%s\"]}, \"task\": {\"type\": "
        "\"%s\", \"index\": 0}}",
        addresses[0], addresses[1], type);
    t->environment[0] = t->config;
    t->environment[1] = NULL;
}

static sheaf_status step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out, void *user)
{
    sheaf_error err = {0};
    (void)r;
    (void)in;
    (void)out;
    return sheaf_assign_add(user, sheaf_float(1), &err);
}

static void work(sheaf_cluster *c, sheaf_error *err)
{
    sheaf_strategy *s = NULL;
    sheaf_variable *v = NULL;
    if (sheaf_strategy_new(NULL, c, NULL, &s, err) < 0)
        return;
    SHEAF_SCOPE(s)
    {
        v = sheaf_variable_new("v", sheaf_float(0), NULL);
    }
    for (int i = 0; i < 3 && err->status >= 0; i++)
        (void)!sheaf_run(s, step, v, NULL, NULL, err);
    SHEAF_FRAME
    {
        const double value = sheaf_tensor_number(sheaf_value(v), 0);
        if (err->status >= 0 && value != 3)
            sheaf_error_set(err, SHEAF_ERR_INTERNAL, "the value is %g, expected 3", value);
    }
    if (err->status >= 0)
        (void)!sheaf_strategy_join(s, 0, err);
    sheaf_variable_free(v);
    sheaf_strategy_free(s);
}

static void *run(void *user)
{
    struct task *t = user;
    const char *home = getenv("HOME");
    char home_variable[512];
    const char *environment[] = {t->config, home_variable, NULL};
    const sheaf_context_options options = {.environment = environment};
    sheaf_context *context = NULL;
    sheaf_cluster *cluster = NULL;
    snprintf(home_variable, sizeof(home_variable), "HOME=%s", home ? home : "/");
    if (sheaf_context_new(&options, &context, &t->err) < 0)
        return NULL;
    sheaf_context_enter(context);
    if (sheaf_cluster_resolve(NULL, &cluster, &t->err) >= 0) {
        if (sheaf_cluster_is(cluster, "ps"))
            (void)!sheaf_server_run(cluster, NULL, &t->err);
        else
            work(cluster, &t->err);
    }
    sheaf_cluster_free(cluster);
    sheaf_frame_clear();
    sheaf_context_enter(NULL);
    sheaf_context_free(context);
    return NULL;
}

static int count(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

int main(int argc, char **argv)
{
    const int times = argc > 3 ? atoi(argv[1]) : 0;
    for (int i = 0; i < times; i++) {
        struct task tasks[2] = {{0}};
        pthread_t threads[2];
        describe(&tasks[0], "worker", argv + 2);
        describe(&tasks[1], "ps", argv + 2);
        for (int k = 0; k < 2; k++)
            if (pthread_create(&threads[k], NULL, run, &tasks[k]) != 0)
                return 2;
        for (int k = 0; k < 2; k++) {
            pthread_join(threads[k], NULL);
            if (tasks[k].err.status < 0)
                return sheaf_error_exit(&tasks[k].err);
        }
        printf("round %d descriptors %d threads %d\n", i, count("/proc/self/fd"),
               count("/proc/self/task"));
    }
    return times == 0;
}
