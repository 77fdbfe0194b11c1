/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "world.h"

#include <sheaf/frame.h>

/* Clusters that Slurm and MPI started: demands 21 and 33. */

#define WORLD(...)  \
    struct world w; \
    world_enter(&w, (const char *const[]){__VA_ARGS__, NULL})

static sheaf_cluster *resolve(void)
{
    sheaf_cluster *c = NULL;
    sheaf_error err = {0};
    if (sheaf_cluster_resolve(NULL, &c, &err) != SHEAF_OK)
        fail_msg("%s", err.message);
    return c;
}

static void check_refused(const char *const *variables, const char *words)
{
    struct world w;
    world_enter(&w, variables);
    sheaf_cluster *c = NULL;
    sheaf_error err = {0};
    assert_int_equal(sheaf_cluster_resolve(NULL, &c, &err), SHEAF_ERR_INVALID_ARGUMENT);
    if (!strstr(err.message, words))
        fail_msg("\"%s\" does not say \"%s\"", err.message, words);
    world_leave(&w);
}
#define CHECK_REFUSED(words, ...) check_refused((const char *const[]){__VA_ARGS__, NULL}, (words))

#define STEP_OF_5                                                         \
    "SLURM_STEP_NUM_TASKS=5", "SLURM_STEP_NODELIST=t02n13,t02n41,t02n43", \
        "SLURM_STEP_TASKS_PER_NODE=2(x2),1"

static void t6_9_slurm_deals_jobs_in_alphabetical_order(void **state)
{
    (void)state;
    WORLD(STEP_OF_5, "SLURM_PROCID=1", "SHEAF_JOBS=worker=4,ps=1");
    sheaf_cluster *c = resolve();
    assert_string_equal(sheaf_cluster_source(c), "Slurm");
    assert_string_equal(sheaf_cluster_address(c, "ps", 0), "t02n13:8888");
    assert_string_equal(sheaf_cluster_address(c, "worker", 0), "t02n13:8889");
    assert_string_equal(sheaf_cluster_address(c, "worker", 1), "t02n41:8888");
    assert_string_equal(sheaf_cluster_address(c, "worker", 2), "t02n41:8889");
    assert_string_equal(sheaf_cluster_address(c, "worker", 3), "t02n43:8888");
    assert_int_equal(sheaf_cluster_tasks(c, "worker"), 4);
    assert_true(sheaf_cluster_is(c, "worker"));
    assert_int_equal(sheaf_cluster_task_index(c), 0);
    sheaf_cluster_free(c);
    world_leave(&w);
}

/* T6.11 */
static void t6_11_slurm_master(void **state)
{
    (void)state;
    WORLD("SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_NODELIST=t02n13,t02n41,t02n43",
          "SLURM_STEP_TASKS_PER_NODE=1(x3)", "SLURM_PROCID=2", "SHEAF_JOBS=ps=1 worker=2");
    sheaf_cluster *c = resolve();
    assert_true(sheaf_cluster_is(c, "worker"));
    assert_int_equal(sheaf_cluster_task_index(c), 1);
    assert_string_equal(sheaf_cluster_master(c, NULL, 0), "grpc://t02n43:8888");
    sheaf_cluster_free(c);
    sheaf_frame_clear();
    world_leave(&w);
}

static void slurm_without_jobs_starts_workers(void **state)
{
    (void)state;
    WORLD("SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_NODELIST=n[009-010]", "SLURM_NODEID=1",
          "SLURM_STEP_TASKS_PER_NODE=2,1", "SLURM_PROCID=2", "SHEAF_PORT_BASE=7000");
    sheaf_cluster *c = resolve();
    assert_int_equal(sheaf_cluster_tasks(c, "worker"), 3);
    assert_string_equal(sheaf_cluster_address(c, "worker", 1), "n009:7001");
    assert_string_equal(sheaf_cluster_address(c, "worker", 2), "n010:7000");
    assert_int_equal(sheaf_cluster_task_index(c), 2);
    sheaf_cluster_free(c);
    world_leave(&w);
}

/* Node lists keep their order, so that a task is where srun put it: TensorFlow sorts n10 before n2
 * and then binds an address of another machine. */
static void slurm_keeps_the_order_of_the_nodes(void **state)
{
    (void)state;
    WORLD("SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_NODELIST=n[9-11]",
          "SLURM_STEP_TASKS_PER_NODE=1(x3)", "SLURM_PROCID=0", "SLURM_NODEID=0");
    sheaf_cluster *c = resolve();
    assert_string_equal(sheaf_cluster_address(c, "worker", 0), "n9:8888");
    sheaf_cluster_free(c);
    world_leave(&w);
}

static void slurm_refuses_what_does_not_fit(void **state)
{
    (void)state;
    CHECK_REFUSED("SLURM_PROCID is not set", STEP_OF_5);
    CHECK_REFUSED("SLURM_PROCID is \"x\"", STEP_OF_5, "SLURM_PROCID=x");
    CHECK_REFUSED("this is task 5, expected 0 to 4", STEP_OF_5, "SLURM_PROCID=5");
    CHECK_REFUSED("started 5 tasks, but SHEAF_JOBS \"ps=1\" has 1", STEP_OF_5, "SLURM_PROCID=0",
                  "SHEAF_JOBS=ps=1");
    CHECK_REFUSED("SHEAF_JOBS: found \"ps\"", STEP_OF_5, "SLURM_PROCID=0", "SHEAF_JOBS=ps");
    CHECK_REFUSED("SHEAF_JOBS: found", STEP_OF_5, "SLURM_PROCID=0", "SHEAF_JOBS=ps=1,ps=4");
    CHECK_REFUSED("unknown job \"boss\"", STEP_OF_5, "SLURM_PROCID=0",
                  "SHEAF_JOBS=boss=1,worker=4");
    CHECK_REFUSED("--distribution=block", STEP_OF_5, "SLURM_PROCID=1", "SLURM_NODEID=1");
    CHECK_REFUSED("MPI's launcher started 8", STEP_OF_5, "SLURM_PROCID=0",
                  "OMPI_COMM_WORLD_SIZE=8");
    CHECK_REFUSED("2 nodes, but SLURM_STEP_TASKS_PER_NODE has 1", "SLURM_STEP_NUM_TASKS=2",
                  "SLURM_STEP_NODELIST=a,b", "SLURM_STEP_TASKS_PER_NODE=2", "SLURM_PROCID=0");
    CHECK_REFUSED("has 3 tasks, expected SLURM_STEP_NUM_TASKS, which is 2",
                  "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NODELIST=a", "SLURM_STEP_TASKS_PER_NODE=3",
                  "SLURM_PROCID=0");
    CHECK_REFUSED("node list \"n[1-\"", "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NODELIST=n[1-",
                  "SLURM_STEP_TASKS_PER_NODE=2", "SLURM_PROCID=0");
}

static void mpi_on_one_machine(void **state)
{
    (void)state;
    WORLD("OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=3", "OMPI_COMM_WORLD_LOCAL_SIZE=3",
          "SHEAF_JOBS=chief=1,worker=1,ps=1");
    sheaf_cluster *c = resolve();
    assert_string_equal(sheaf_cluster_source(c), "MPI");
    assert_true(sheaf_cluster_is(c, "worker"));
    assert_string_equal(sheaf_cluster_address(c, "chief", 0), "127.0.0.1:8888");
    assert_string_equal(sheaf_cluster_address(c, "ps", 0), "127.0.0.1:8889");
    assert_string_equal(sheaf_cluster_address(c, "worker", 0), "127.0.0.1:8890");
    sheaf_cluster_free(c);
    world_leave(&w);
}

static void mpi_by_hydra(void **state)
{
    (void)state;
    WORLD("PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALNRANKS=2");
    sheaf_cluster *c = resolve();
    assert_int_equal(sheaf_cluster_task_index(c), 1);
    assert_int_equal(sheaf_cluster_workers(c), 2);
    sheaf_cluster_free(c);
    world_leave(&w);
}

static void mpi_over_machines_is_refused(void **state)
{
    (void)state;
    CHECK_REFUSED("8 tasks, 4 of them on this machine", "OMPI_COMM_WORLD_RANK=0",
                  "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_SIZE=4");
    CHECK_REFUSED("MPI_LOCALNRANKS is not set", "PMI_RANK=0", "PMI_SIZE=2");
    CHECK_REFUSED("PMI_SIZE is \"-2\"", "PMI_RANK=0", "PMI_SIZE=-2", "MPI_LOCALNRANKS=2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t6_9_slurm_deals_jobs_in_alphabetical_order),
        cmocka_unit_test(t6_11_slurm_master),
        cmocka_unit_test(slurm_without_jobs_starts_workers),
        cmocka_unit_test(slurm_keeps_the_order_of_the_nodes),
        cmocka_unit_test(slurm_refuses_what_does_not_fit),
        cmocka_unit_test(mpi_on_one_machine),
        cmocka_unit_test(mpi_by_hydra),
        cmocka_unit_test(mpi_over_machines_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
