/* SPDX-License-Identifier: Apache-2.0 */

/* A task that counts steps in a variable of the cluster, and can be slow:
 *
 *     steps [--before SECONDS] [--pause SECONDS] [--steps N] [--strategy NAME] [--elements N] [--save FOLDER]
 *
 * waits before it makes the variable, pauses inside its first step. Says "cores N", "connected", "made", "paused" and
 * "step N" as it gets there, and at the end "total N", what all workers together counted. --elements makes a second variable
 * of that size, which every step changes. --save goes on from the newest checkpoint there, and saves after each step in the
 * background. A ps says "serving". SIGTERM asks the library to stop. */

#include <getopt.h>
#include <sheaf/sheaf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct model {
    sheaf_variable *steps, *weights;
    double pause;
    const char *folder; /* of checkpoints; NULL: none */
    sheaf_checkpoint_manager *manager;
};

static void say(const char *what, long long number)
{
    if (number >= 0)
        printf("%s %lld\n", what, number);
    else
        printf("%s\n", what);
    fflush(stdout);
}

static void rest(double seconds)
{
    const struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

static sheaf_status step(sheaf_replica *r, const sheaf_element *in, sheaf_element *out, void *user)
{
    struct model *m = user;
    sheaf_error err = {0};
    (void)r;
    (void)in;
    sheaf_tensor *w = sheaf_value(m->weights);
    if (m->pause > 0) {
        say("paused", -1);
        rest(m->pause);
        m->pause = 0;
    }
    sheaf_element_put(out, "", sheaf_value(m->steps));
    if (sheaf_assign_add(m->weights, sheaf_scale(w, 0, 1), &err) < 0)
        return err.status;
    return sheaf_assign_add(m->steps, sheaf_long(1), &err);
}

static sheaf_status work(sheaf_strategy *s, struct model *m, int steps, sheaf_error *err)
{
    for (int i = 0; i < steps; i++) {
        SHEAF_FRAME
        {
            if (sheaf_run(s, step, m, NULL, NULL, err) < 0)
                return err->status;
        }
        if (m->manager && sheaf_manager_step(m->manager, i + 1, err) != SHEAF_OK)
            return err->status;
        if (i == 0 || (i + 1) % 10 == 0)
            say("step", i + 1);
    }
    if (sheaf_strategy_join(s, 0, err) < 0 ||
        (m->manager && sheaf_manager_end(m->manager, true, NULL, err) < 0))
        return err->status;
    if (sheaf_strategy_should_checkpoint(s))
        say("total", (long long)sheaf_tensor_integer(sheaf_value(m->steps), 0));
    return SHEAF_OK;
}

static sheaf_status work_and_save(sheaf_strategy *s, struct model *m, int steps, sheaf_error *err)
{
    const sheaf_manager_options options = {.every_steps = 1, .background = true};
    sheaf_checkpoint *c = sheaf_checkpoint_new();
    sheaf_checkpoint_add_variable(c, "steps", m->steps);
    sheaf_checkpoint_add_variable(c, "weights", m->weights);
    if (sheaf_checkpoint_manager_new(c, m->folder, &options, &m->manager, err) >= 0 &&
        sheaf_manager_restore(m->manager, NULL, err) >= 0)
        work(s, m, steps, err);
    sheaf_checkpoint_manager_free(m->manager);
    sheaf_checkpoint_free(c);
    return err->status;
}

static sheaf_status train(sheaf_strategy *s, struct model *m, int64_t elements, int steps,
                          sheaf_error *err)
{
    const sheaf_variable_options sum = {.aggregation = SHEAF_AGGREGATION_SUM,
                                        .not_trainable = true};
    SHEAF_SCOPE(s)
    {
        m->steps = sheaf_variable_new("steps", sheaf_long(0), &sum);
        m->weights = sheaf_variable_init("weights", SHEAF_FLOAT32, SHEAF_SHAPE(elements),
                                         sheaf_init_zeros(), &sum);
    }
    if (sheaf_variable_status(m->steps, err) >= 0 && sheaf_variable_status(m->weights, err) >= 0) {
        say("made", -1);
        (m->folder ? work_and_save : work)(s, m, steps, err);
    }
    sheaf_variable_free(m->steps);
    sheaf_variable_free(m->weights);
    return err->status;
}

static void on_terminate(int number)
{
    (void)number;
    sheaf_stop();
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"before", 1, NULL, 'b'},
                                            {"pause", 1, NULL, 'p'},
                                            {"steps", 1, NULL, 's'},
                                            {"strategy", 1, NULL, 't'},
                                            {"elements", 1, NULL, 'e'},
                                            {"save", 1, NULL, 'S'},
                                            {0}};
    const char *name = NULL;
    double before = 0;
    int64_t elements = 1;
    int steps = 10;
    struct model m = {0};
    sheaf_cluster *cluster = NULL;
    sheaf_strategy *s = NULL;
    sheaf_error err = {0};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'b':
            before = atof(optarg);
            break;
        case 'p':
            m.pause = atof(optarg);
            break;
        case 's':
            steps = atoi(optarg);
            break;
        case 't':
            name = optarg;
            break;
        case 'e':
            elements = atoll(optarg);
            break;
        case 'S':
            m.folder = optarg;
            break;
        default:
            return 2;
        }
    }
    signal(SIGTERM, on_terminate);
    sheaf_device cpu;
    if (sheaf_devices_get(0, &cpu) >= 0)
        say("cores", cpu.threads);
    if (sheaf_cluster_resolve(NULL, &cluster, &err) < 0)
        return sheaf_error_exit(&err);
    if (sheaf_cluster_is(cluster, "ps")) {
        say("serving", -1);
        (void)!sheaf_server_run(cluster, NULL, &err);
    } else if (sheaf_strategy_new(name, cluster, NULL, &s, &err) >= 0) {
        say("connected", -1);
        rest(before);
        train(s, &m, elements, steps, &err);
    }
    sheaf_strategy_free(s);
    sheaf_cluster_free(cluster);
    return sheaf_error_exit(&err);
}
