/* SPDX-License-Identifier: Apache-2.0 */

/* Document A, ParameterServerStrategy: every worker runs its own loop (S3, S5, S7-S11). */

#include "cluster.h"

enum { STEPS = 5, MOST_REPLICAS = 16 };

struct model {
    sheaf_variable *w, *global_step;
};

static sheaf_status step_fn(sheaf_replica *r, const sheaf_element *in, sheaf_element *out,
                            void *user)
{
    const struct model *m = user;
    (void)in;
    sheaf_tensor *gradient =
        sheaf_add(sheaf_cast(sheaf_int(sheaf_replica_id(r)), SHEAF_FLOAT32), sheaf_float(1));
    sheaf_element_put(out, "gradient", gradient);
    sheaf_status status = sheaf_assign_add(m->w, gradient, NULL);
    return status < 0 ? status : sheaf_assign_add(m->global_step, sheaf_long(1), NULL);
}

static void train(sheaf_strategy *s, struct model *m, int worker)
{
    printf("worker %d: w on %s\n", worker, sheaf_variable_device(m->w));
    for (int step = 0; step < STEPS; step++)
        SHEAF_FRAME
        {
            sheaf_values *out;
            must(sheaf_run(s, step_fn, m, NULL, &out, &err));
            for (int r = 0; step == 0 && r < sheaf_strategy_local_replicas(s); r++)
                printf("worker %d: gradient on %s\n", worker, sheaf_strategy_worker_device(s, r));
        }
    must(sheaf_strategy_join(s, 0, &err)); /* worker 0 waits for the others */
    if (worker == 0)
        printf("w %g, global_step %lld\n", sheaf_tensor_number(sheaf_value(m->w), 0),
               (long long)sheaf_tensor_integer(sheaf_value(m->global_step), 0));
}

static int task(int argc, char **argv)
{
    sheaf_cluster *cluster = NULL;
    sheaf_strategy *s = NULL;
    struct model m = {0};
    const sheaf_variable_options sum = {.aggregation = SHEAF_AGGREGATION_SUM};
    const sheaf_variable_options first = {.aggregation = SHEAF_AGGREGATION_ONLY_FIRST_REPLICA,
                                          .not_trainable = true};
    must(sheaf_cluster_resolve(NULL, &cluster, &err));
    if (sheaf_cluster_is(cluster, "ps")) {
        must(sheaf_server_run(cluster, NULL, &err));
    } else {
        must(sheaf_devices_configure(argument(argc, argv, 1, 2), &err));
        must(sheaf_strategy_new("experimental.ParameterServerStrategy", cluster, NULL, &s, &err));
        SHEAF_SCOPE(s)
        {
            m.w = sheaf_variable_new("w", sheaf_float(0), &sum);
            m.global_step = sheaf_variable_new("global_step", sheaf_long(0), &first);
        }
        train(s, &m, sheaf_cluster_task_index(cluster));
    }
    sheaf_variable_free(m.w);
    sheaf_variable_free(m.global_step);
    sheaf_strategy_free(s);
    sheaf_cluster_free(cluster);
    return 0;
}

int main(int argc, char **argv)
{
    return in_cluster(argv, (struct jobs){.worker = 2, .ps = 1}, task, argc);
}
