/* SPDX-License-Identifier: Apache-2.0 */

/* Document A, ParameterServerStrategy: what a task learns from TF_CONFIG (S19-S21). */

#include "cluster.h"

static void describe(const sheaf_cluster *cluster)
{
    if (sheaf_cluster_is(cluster, "worker"))
        printf("worker branch\n");
    else if (sheaf_cluster_is(cluster, "ps"))
        printf("ps branch\n");
}

/* The documents' TF_CONFIG as seen by task 0 of `type`. */
static void look(const char *type)
{
    char config[512];
    sheaf_cluster *cluster;
    snprintf(config, sizeof(config),
             "{\"cluster\": {\"worker\": [\"localhost:12345\", \"localhost:23456\"], \"ps\": "
             "[\"localhost:34567\"]},"
             " \"task\": {\"type\": \"%s\", \"index\": 0}}",
             type);
    setenv("TF_CONFIG", config, 1);
    must(sheaf_cluster_resolve(NULL, &cluster, &err));
    describe(cluster);
    printf("%s %d [", sheaf_cluster_task_type(cluster), sheaf_cluster_task_index(cluster));
    for (size_t i = 0; sheaf_cluster_job(cluster, i); i++)
        printf("%s'%s'", i ? ", " : "", sheaf_cluster_job(cluster, i));
    printf("] %d %d\n", sheaf_cluster_tasks(cluster, "worker"), sheaf_cluster_tasks(cluster, "ps"));
    printf("%s %s %s\n", sheaf_cluster_address(cluster, "worker", 1),
           sheaf_cluster_address(cluster, "ps", 0), sheaf_cluster_master(cluster, NULL, 0));
    sheaf_cluster_free(cluster);
}

static int task(int argc, char **argv)
{
    sheaf_strategy *strategy;
    (void)argc;
    (void)argv;
    must(sheaf_strategy_new("MultiWorkerMirroredStrategy", NULL, NULL, &strategy, &err));
    const sheaf_cluster *cluster = sheaf_strategy_cluster(strategy);
    if (sheaf_cluster_task_index(cluster) == 0) {
        describe(cluster);
        printf("%d %s\n", sheaf_strategy_num_replicas(strategy),
               sheaf_strategy_should_checkpoint(strategy) ? "True" : "False");
        look("worker");
        look("ps");
    }
    sheaf_strategy_free(strategy);
    return 0;
}

int main(int argc, char **argv)
{
    return in_cluster(argv, (struct jobs){.worker = 2}, task, argc);
}
