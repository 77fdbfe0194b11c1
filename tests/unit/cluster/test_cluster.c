/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cluster/cluster.h"
#include "world.h"
#include <sheaf/frame.h>

#define CONFIG(cluster, task) "TF_CONFIG={\"cluster\":" cluster ",\"task\":" task "}"
#define WORLD(...)  \
    struct world w; \
    world_enter(&w, (const char *const[]){__VA_ARGS__, NULL})

static sheaf_cluster *resolve(const sheaf_cluster_options *options)
{
    sheaf_cluster *c = NULL;
    sheaf_error err = {0};
    if (sheaf_cluster_resolve(options, &c, &err) != SHEAF_OK)
        fail_msg("%s", err.message);
    return c;
}

/* Resolving from `variable` alone must be refused with a message that says all of `words`. */
static void check_refused(const char *variable, const char *const *words)
{
    WORLD(variable);
    sheaf_cluster *c = NULL;
    sheaf_error err = {0};
    if (sheaf_cluster_resolve(NULL, &c, &err) != SHEAF_ERR_INVALID_ARGUMENT)
        fail_msg("%s was taken or refused with another status", variable);
    assert_null(c);
    for (size_t i = 0; words[i]; i++)
        if (!strstr(err.message, words[i]))
            fail_msg("\"%s\" does not say \"%s\"", err.message, words[i]);
    world_leave(&w);
}
#define CHECK_REFUSED(variable, ...) \
    check_refused((variable), (const char *const[]){__VA_ARGS__, NULL})

/* S19: the document's text, with further keys. */
static void s19_the_documents_tf_config(void **state)
{
    (void)state;
    WORLD("TF_CONFIG={\"cluster\": {\"worker\": [\"localhost:12345\", \"localhost:23456\"], "
          "\"ps\": [\"localhost:34567\"]}, \"task\": {\"type\": \"worker\", \"index\": 0, "
          "\"cloud\": true}, \"environment\": \"cloud\", \"service\": {}, \"model_dir\": \"/m\"}");
    sheaf_cluster *c = resolve(NULL);
    assert_string_equal(sheaf_cluster_task_type(c), "worker");
    assert_int_equal(sheaf_cluster_task_index(c), 0);
    assert_true(sheaf_cluster_is(c, "worker"));
    assert_false(sheaf_cluster_is(c, "ps"));
    assert_string_equal(sheaf_cluster_source(c), "TF_CONFIG");
    assert_string_equal(sheaf_cluster_job(c, 0), "worker");
    assert_string_equal(sheaf_cluster_job(c, 1), "ps");
    assert_null(sheaf_cluster_job(c, 2));
    assert_int_equal(sheaf_cluster_tasks(c, "worker"), 2);
    assert_int_equal(sheaf_cluster_tasks(c, "ps"), 1);
    assert_int_equal(sheaf_cluster_tasks(c, "chief"), 0);
    assert_string_equal(sheaf_cluster_address(c, "worker", 1), "localhost:23456");
    assert_string_equal(sheaf_cluster_address(c, "ps", 0), "localhost:34567");
    assert_null(sheaf_cluster_address(c, "ps", 1));
    assert_null(sheaf_cluster_address(c, "chief", 0));
    assert_string_equal(sheaf_cluster_master(c, NULL, 0), "localhost:12345");
    assert_true(sheaf_cluster_is_chief(c));
    assert_string_equal(w.log, "cluster from TF_CONFIG: this is worker:0 of worker 2, ps 1\n");
    sheaf_cluster_free(c);
    sheaf_frame_clear();
    world_leave(&w);
}

/* S21: the same text as the ps. */
static void s21_the_branch_of_the_ps(void **state)
{
    (void)state;
    WORLD(CONFIG("{\"worker\":[\"localhost:12345\",\"localhost:23456\"],"
                 "\"ps\":[\"localhost:34567\"]}",
                 "{\"type\":\"ps\",\"index\":0}"));
    sheaf_cluster *c = resolve(NULL);
    assert_true(sheaf_cluster_is(c, "ps"));
    assert_int_equal(sheaf_cluster_task_index(c), 0);
    assert_string_equal(sheaf_cluster_master(c, NULL, 0), "localhost:34567");
    assert_false(sheaf_cluster_is_chief(c));
    assert_int_equal(sheaf_cluster_worker_id(c), -1);
    sheaf_cluster_free(c);
    sheaf_frame_clear();
    world_leave(&w);
}

#define LOCAL_TASK0 "{\"type\":\"worker\",\"index\":0}"

/* S2, #12: argument > TF_CONFIG > Slurm > MPI > this machine. */
static void s2_precedence_of_the_sources(void **state)
{
    (void)state;
    static const char *const ALL[] = {
        CONFIG("{\"worker\":[\"a:1\"]}", LOCAL_TASK0),
        "SLURM_STEP_NUM_TASKS=1",
        "SLURM_PROCID=0",
        "SLURM_STEP_NODELIST=b",
        "SLURM_STEP_TASKS_PER_NODE=1",
        "OMPI_COMM_WORLD_RANK=0",
        "OMPI_COMM_WORLD_SIZE=1",
        "OMPI_COMM_WORLD_LOCAL_SIZE=1",
    };
    static const struct {
        size_t first; /* variables from here on are set */
        const char *json, *source, *address;
    } CASES[] = {
        {0, "{\"cluster\":{\"worker\":[\"x:1\"]},\"task\":" LOCAL_TASK0 "}", "argument", "x:1"},
        {0, NULL, "TF_CONFIG", "a:1"},
        {1, NULL, "Slurm", "b:8888"},
        {5, NULL, "MPI", "127.0.0.1:8888"},
        {8, NULL, "local", NULL},
    };
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        const char *variables[9] = {NULL};
        for (size_t k = CASES[i].first; k < 8; k++)
            variables[k - CASES[i].first] = ALL[k];
        struct world w;
        world_enter(&w, variables);
        sheaf_cluster *c = resolve(&(sheaf_cluster_options){.json = CASES[i].json});
        assert_string_equal(sheaf_cluster_source(c), CASES[i].source);
        const char *address = sheaf_cluster_address(c, "worker", 0);
        if (CASES[i].address)
            assert_string_equal(address, CASES[i].address);
        else
            assert_null(address);
        sheaf_cluster_free(c);
        world_leave(&w);
    }
}

static void a_machine_alone(void **state)
{
    (void)state;
    WORLD("HOME=/");
    sheaf_cluster *c = resolve(NULL);
    assert_string_equal(sheaf_cluster_source(c), "local");
    assert_string_equal(sheaf_cluster_task_type(c), "");
    assert_int_equal(sheaf_cluster_task_index(c), -1);
    assert_true(sheaf_cluster_is_chief(c));
    assert_null(sheaf_cluster_job(c, 0));
    assert_int_equal(sheaf_cluster_tasks(c, "worker"), 0);
    assert_int_equal(sheaf_cluster_workers(c), 0);
    assert_int_equal(sheaf_cluster_worker_id(c), -1);
    assert_string_equal(sheaf_cluster_master(c, NULL, 0), "");
    assert_string_equal(w.log, "no cluster: this machine alone\n");
    sheaf_cluster_free(c);
    sheaf_frame_clear();
    world_leave(&w);
}

/* S6: each its own message that names what is missing. */
static void s6_broken_tf_configs(void **state)
{
    (void)state;
    CHECK_REFUSED("TF_CONFIG=", "TF_CONFIG", "empty");
    CHECK_REFUSED("TF_CONFIG=not json", "TF_CONFIG", "JSON");
    CHECK_REFUSED("TF_CONFIG={\"cluster\":", "TF_CONFIG", "JSON");
    CHECK_REFUSED("TF_CONFIG={}", "\"cluster\"");
    CHECK_REFUSED("TF_CONFIG={\"task\":" LOCAL_TASK0 "}", "\"cluster\"");
    CHECK_REFUSED("TF_CONFIG={\"cluster\":{},\"task\":" LOCAL_TASK0 "}", "\"cluster\"", "empty");
    CHECK_REFUSED("TF_CONFIG=[]", "object");
}

static void t5_unknown_jobs_are_listed(void **state)
{
    (void)state;
    CHECK_REFUSED(CONFIG("{\"chief\":[\"a:1\"],\"ps_hosts\":[\"b:1\"],\"worker_hosts\":[\"c:1\"]}",
                         LOCAL_TASK0),
                  "\"ps_hosts\"", "found chief, ps_hosts, worker_hosts",
                  "expected some of chief, worker, ps, evaluator");
}

#define TWO_WORKERS "{\"worker\":[\"a:1\",\"b:1\"]}"

static void t6_bad_tasks(void **state)
{
    (void)state;
    CHECK_REFUSED(CONFIG(TWO_WORKERS, "{\"type\":\"worker\",\"index\":2}"), "\"index\"", "is 2",
                  "2 tasks (0 to 1)");
    CHECK_REFUSED(CONFIG(TWO_WORKERS, "{\"type\":\"worker\",\"index\":-1}"), "index", "-1");
    CHECK_REFUSED(CONFIG(TWO_WORKERS, "{\"type\":\"worker\",\"index\":1.5}"), "index", "1.5");
    CHECK_REFUSED(CONFIG(TWO_WORKERS, "{\"type\":\"worker\"}"), "\"index\" of \"task\" is missing");
    CHECK_REFUSED(CONFIG(TWO_WORKERS, "{\"index\":0}"), "\"type\" of \"task\" is missing");
    CHECK_REFUSED("TF_CONFIG={\"cluster\":" TWO_WORKERS "}", "\"task\" is missing");
    CHECK_REFUSED(CONFIG(TWO_WORKERS, "{\"type\":\"\",\"index\":0}"), "type");
    CHECK_REFUSED(CONFIG(TWO_WORKERS, "{\"type\":\"master\",\"index\":0}"), "\"master\"",
                  "expected one of chief, worker, ps, evaluator");
    CHECK_REFUSED(CONFIG(TWO_WORKERS, "{\"type\":\"ps\",\"index\":0}"), "\"ps\"", "no such job",
                  "found worker");
    CHECK_REFUSED(CONFIG(TWO_WORKERS, "{\"type\":\"worker\",\"type\":\"worker\",\"index\":0}"),
                  "type");
}

/* T6: a string of digits is taken for the number, as TensorFlow does (R6.43). */
static void t6_index_as_a_string(void **state)
{
    (void)state;
    WORLD(CONFIG(TWO_WORKERS, "{\"type\":\"worker\",\"index\":\"1\"}"));
    sheaf_cluster *c = resolve(NULL);
    assert_int_equal(sheaf_cluster_task_index(c), 1);
    assert_false(sheaf_cluster_is_chief(c));
    sheaf_cluster_free(c);
    world_leave(&w);
}

/* T6: and what some programs make of the number, as int() does. */
static void t6_index_as_a_whole_float(void **state)
{
    (void)state;
    WORLD(CONFIG(TWO_WORKERS, "{\"type\":\"worker\",\"index\":1.0}"));
    sheaf_cluster *c = resolve(NULL);
    assert_int_equal(sheaf_cluster_task_index(c), 1);
    sheaf_cluster_free(c);
    world_leave(&w);
    CHECK_REFUSED(CONFIG(TWO_WORKERS, "{\"type\":\"worker\",\"index\":-1.0}"), "index", "-1");
    CHECK_REFUSED(CONFIG(TWO_WORKERS, "{\"type\":\"worker\",\"index\":1e30}"), "index", "1e");
}

static void t7_sparse_jobs(void **state)
{
    (void)state;
    WORLD(CONFIG("{\"worker\":{\"1\":\"worker1:2222\"}}", "{\"type\":\"worker\",\"index\":1}"));
    sheaf_cluster *c = resolve(NULL);
    assert_int_equal(sheaf_cluster_tasks(c, "worker"), 1);
    assert_null(sheaf_cluster_address(c, "worker", 0));
    assert_string_equal(sheaf_cluster_address(c, "worker", 1), "worker1:2222");
    sheaf_cluster_free(c);
    world_leave(&w);
    CHECK_REFUSED(
        CONFIG("{\"worker\":{\"1\":\"a:1\",\"3\":\"b:1\"}}", "{\"type\":\"worker\",\"index\":2}"),
        "is 2", "2 tasks (1 to 3)");
}

/* T6.4 through the public functions. */
static void t6_4_sparse_jobs_have_gaps(void **state)
{
    (void)state;
    WORLD(
        CONFIG("{\"worker\":{\"1\":\"a:1\",\"3\":\"b:1\"}}", "{\"type\":\"worker\",\"index\":3}"));
    sheaf_cluster *c = resolve(NULL);
    assert_int_equal(sheaf_cluster_tasks(c, "worker"), 2);
    assert_null(sheaf_cluster_address(c, "worker", 0));
    assert_string_equal(sheaf_cluster_address(c, "worker", 1), "a:1");
    assert_null(sheaf_cluster_address(c, "worker", 2));
    assert_string_equal(sheaf_cluster_address(c, "worker", 3), "b:1");
    sheaf_cluster_free(c);
    world_leave(&w);
}

static void t9_evaluator_inside_or_outside(void **state)
{
    (void)state;
    static const char *const CONFIGS[] = {
        CONFIG("{\"worker\":[\"a:1\",\"b:1\"],\"evaluator\":[\"e:1\"]}",
               "{\"type\":\"evaluator\",\"index\":0}"),
        CONFIG(TWO_WORKERS, "{\"type\":\"evaluator\",\"index\":0}"),
    };
    for (size_t i = 0; i < 2; i++) {
        WORLD(CONFIGS[i]);
        sheaf_cluster *c = resolve(NULL);
        assert_true(sheaf_cluster_is(c, "evaluator"));
        assert_true(sheaf_cluster_is_chief(c)); /* R6.38 */
        assert_int_equal(sheaf_cluster_workers(c), 2);
        assert_int_equal(sheaf_cluster_worker_id(c), -1);
        sheaf_cluster_free(c);
        world_leave(&w);
    }
}

static void t10_duplicate_addresses(void **state)
{
    (void)state;
    CHECK_REFUSED(CONFIG("{\"worker\":[\"a:1\",\"b:1\"],\"ps\":[\"a:1\"]}", LOCAL_TASK0),
                  "\"a:1\" occurs twice", "worker:0", "ps:0");
    /* T13: names are compared without case */
    CHECK_REFUSED(CONFIG("{\"worker\":[\"node1:1\",\"Node1:1\"]}", LOCAL_TASK0), "occurs twice",
                  "worker:0", "worker:1");
}

/* T10, T13: however it is written. What is unknown here may be known to others, and other ports are
 * other addresses. */
static void t10_the_same_address_under_other_names(void **state)
{
    (void)state;
    CHECK_REFUSED(CONFIG("{\"worker\":[\"localhost:5000\",\"127.0.0.1:5000\"]}", LOCAL_TASK0),
                  "\"localhost:5000\" of worker:0 and \"127.0.0.1:5000\" of worker:1 are the same");
    CHECK_REFUSED(CONFIG("{\"worker\":[\"127.0.0.1:5000\"],\"ps\":[\"x:1\",\"LocalHost:5000\"]}",
                         LOCAL_TASK0),
                  "\"127.0.0.1:5000\" of worker:0 and \"LocalHost:5000\" of ps:1 are the same");
    CHECK_REFUSED(CONFIG("{\"worker\":[\"[::1]:7\",\"[0:0::1]:7\"]}", LOCAL_TASK0), "worker:0 and",
                  "worker:1 are the same, [::1]:7");
    CHECK_REFUSED(CONFIG("{\"worker\":[\"127.0.0.1:07\",\"127.1:7\"]}", LOCAL_TASK0),
                  "worker:0 and", "worker:1 are the same, 127.0.0.1:7");
    WORLD(CONFIG("{\"worker\":[\"localhost:1\",\"127.0.0.1:2\",\"127.0.0.2:1\",\"unknown-1:1\","
                 "\"unknown-2:1\"]}",
                 LOCAL_TASK0));
    sheaf_cluster_free(resolve(NULL));
    world_leave(&w);
}

static void r6_37_how_many_tasks_a_job_may_have(void **state)
{
    (void)state;
    CHECK_REFUSED(CONFIG("{\"chief\":[\"a:1\",\"b:1\"]}", "{\"type\":\"chief\",\"index\":0}"),
                  "\"chief\" has 2 tasks", "at most 1");
    CHECK_REFUSED(CONFIG("{\"worker\":[\"w:1\"],\"evaluator\":[\"a:1\",\"b:1\"]}", LOCAL_TASK0),
                  "\"evaluator\" has 2 tasks");
}

static void bad_addresses_name_the_task(void **state)
{
    (void)state;
    CHECK_REFUSED(CONFIG("{\"worker\":[\"a:1\",\"b\"]}", LOCAL_TASK0), "TF_CONFIG: worker:1",
                  "\"b\" has no port");
    CHECK_REFUSED(CONFIG("{\"worker\":[\"fe80::1:22\"]}", LOCAL_TASK0), "ambiguous");
}

/* T6.3 */
static void t6_3_ids_in_the_cluster(void **state)
{
    (void)state;
    static const struct {
        const char *task;
        int32_t id;
        bool chief;
    } CASES[] = {
        {"{\"type\":\"chief\",\"index\":0}", 0, true},
        {"{\"type\":\"worker\",\"index\":0}", 1, false},
        {"{\"type\":\"worker\",\"index\":1}", 2, false},
        {"{\"type\":\"ps\",\"index\":0}", -1, false},
    };
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text),
                 "TF_CONFIG={\"cluster\":{\"chief\":[\"c:1\"],\"worker\":[\"w0:1\",\"w1:1\"],"
                 "\"ps\":[\"p:1\"]},\"task\":%s}",
                 CASES[i].task);
        WORLD(text);
        sheaf_cluster *c = resolve(NULL);
        assert_int_equal(sheaf_cluster_worker_id(c), CASES[i].id);
        assert_int_equal(sheaf_cluster_is_chief(c), CASES[i].chief);
        assert_int_equal(sheaf_cluster_workers(c), 3);
        sheaf_cluster_free(c);
        world_leave(&w);
    }
}

#define T6_5 "{\"ps\":[\"ps0:2222\"],\"worker\":[\"w0:2222\",\"w1:2222\"]}"

static void check_master(const char *variable, const sheaf_cluster_options *options,
                         const char *expected)
{
    WORLD(variable);
    sheaf_cluster *c = resolve(options);
    assert_string_equal(sheaf_cluster_master(c, NULL, 0), expected);
    sheaf_cluster_free(c);
    sheaf_frame_clear();
    world_leave(&w);
}

/* T6.5, R6.42, R6.43 */
static void t6_5_master(void **state)
{
    (void)state;
    check_master(CONFIG(T6_5, "{\"type\":\"worker\",\"index\":1}"), NULL, "w1:2222");
    check_master(CONFIG(T6_5, "{\"type\":\"worker\",\"index\":1},\"rpc_layer\":\"grpc\""), NULL,
                 "grpc://w1:2222");
    check_master(CONFIG(T6_5, "{\"type\":\"worker\",\"index\":1},\"session_master\":\"s:1\""), NULL,
                 "s:1");
    check_master(CONFIG(T6_5, "{\"type\":\"worker\",\"index\":1}"),
                 &(sheaf_cluster_options){.task_index = 0, .has_task_index = true}, "w0:2222");
    check_master(
        CONFIG(T6_5, "{\"type\":\"worker\",\"index\":1}"),
        &(sheaf_cluster_options){.task_type = "ps", .task_index = 0, .has_task_index = true},
        "ps0:2222");
    /* one job with one task has nobody to call */
    check_master(CONFIG("{\"worker\":[\"a:1\"]}", LOCAL_TASK0), NULL, "");
}

static void overrides_need_a_cluster(void **state)
{
    (void)state;
    WORLD("HOME=/");
    sheaf_cluster *c = NULL;
    sheaf_error err = {0};
    assert_int_equal(sheaf_cluster_resolve(&(sheaf_cluster_options){.task_type = "ps"}, &c, &err),
                     SHEAF_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "TF_CONFIG is not set"));
    world_leave(&w);
}

/* #31: an address that other machines cannot reach is pointed at. */
static void demand_31_loopback_among_others(void **state)
{
    (void)state;
    WORLD(CONFIG("{\"worker\":[\"localhost:1\",\"far:1\"]}", LOCAL_TASK0));
    sheaf_cluster *c = resolve(NULL);
    assert_non_null(strstr(w.log, "\"localhost:1\" is loopback, which \"far:1\" cannot reach"));
    sheaf_cluster_free(c);
    world_leave(&w);
}

/* The task becomes the origin of errors. */
static void errors_name_the_task(void **state)
{
    (void)state;
    WORLD(CONFIG(TWO_WORKERS, "{\"type\":\"worker\",\"index\":1}"));
    sheaf_cluster *c = resolve(NULL), *d = NULL;
    sheaf_error err = {0};
    assert_true(sheaf_cluster_resolve(&(sheaf_cluster_options){.json = "x"}, &d, &err) < 0);
    assert_string_equal(err.origin.job, "worker");
    assert_int_equal(err.origin.index, 1);
    sheaf_cluster_free(c);
    world_leave(&w);
}

static void reserved_fields_are_refused(void **state)
{
    (void)state;
    WORLD("HOME=/");
    sheaf_cluster *c = NULL;
    sheaf_error err = {0};
    assert_int_equal(sheaf_cluster_resolve(&(sheaf_cluster_options){.reserved = {0, 1}}, &c, &err),
                     SHEAF_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "reserved field 1"));
    assert_null(c);
    assert_int_equal(sheaf_cluster_resolve(NULL, NULL, &err), SHEAF_ERR_INVALID_ARGUMENT);
    world_leave(&w);
}

static void counts_of_a_cluster(void **state)
{
    (void)state;
    WORLD(CONFIG(TWO_WORKERS, LOCAL_TASK0));
    int64_t before = sheaf__mem_stats().live_blocks;
    sheaf_cluster *c = resolve(NULL);
    assert_ptr_equal(sheaf_cluster_ref(c), c);
    sheaf_cluster_free(c);
    assert_string_equal(sheaf_cluster_task_type(c), "worker");
    sheaf_cluster_free(c);
    assert_int_equal(sheaf__mem_stats().live_blocks, before);
    sheaf_cluster_free(NULL);
    world_leave(&w);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    WORLD(CONFIG(T6_5, "{\"type\":\"worker\",\"index\":1}"));
    sheaf_cluster_free(resolve(NULL)); /* what is made once stays */
    int64_t before = sheaf__mem_stats().live_blocks;
    for (uint64_t k = 1;; k++) {
        sheaf_cluster *c = NULL;
        sheaf_error err = {0};
        sheaf__mem_fail_at(k);
        sheaf_status status =
            sheaf_cluster_resolve(&(sheaf_cluster_options){.task_type = "worker"}, &c, &err);
        bool hit = sheaf__mem_fail_hit();
        sheaf__mem_fail_at(0);
        if (status < 0) {
            assert_true(hit);
            assert_int_equal(status, SHEAF_ERR_RESOURCE_EXHAUSTED);
            assert_null(c);
        }
        sheaf_cluster_free(c);
        assert_int_equal(sheaf__mem_stats().live_blocks, before);
        if (!hit)
            break;
    }
    world_leave(&w);
}

/* What the network is told: a cluster is on loopback only if all its tasks are, wherever this one is. */
static void a_cluster_on_loopback(void **state)
{
    (void)state;
    static const struct {
        const char *worker, *ps;
        bool loopback;
    } cases[] = {{"localhost:29001", "[::1]:29002", true},
                 {"127.0.0.1:29001", "10.1.2.3:29002", false},
                 {"10.1.2.3:29001", "127.8.9.1:29002", false}};
    for (int i = 0; i < 6; i++) {
        char config[300];
        const bool serves = i > 2;
        snprintf(config, sizeof(config),
                 CONFIG("{\"worker\":[\"%s\"],\"ps\":[\"%s\"]}", "{\"type\":\"%s\",\"index\":0}"),
                 cases[i % 3].worker, cases[i % 3].ps, serves ? "ps" : "worker");
        WORLD(config, "SHEAF_INSECURE=1");
        sheaf_error err = {0};
        struct sheaf__net *net = NULL;
        sheaf_cluster *c = resolve(NULL);
        const struct sheaf__net_options options = sheaf__cluster_net(c);
        assert_int_equal(options.loopback, cases[i % 3].loopback);
        assert_string_equal(options.task.job, serves ? "ps" : "worker");
        assert_int_equal(options.task.index, 0);
        assert_string_equal(options.address, serves ? cases[i % 3].ps : cases[i % 3].worker);
        if (sheaf__net_new(&options, &net, &err) < 0)
            fail_msg("%s", err.message);
        assert_int_equal(strstr(w.log, "SHEAF_INSECURE: every process that reaches this task may "
                                       "command it") != NULL,
                         !cases[i % 3].loopback);
        sheaf__net_free(net, -1);
        sheaf_cluster_free(c);
        world_leave(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s19_the_documents_tf_config),
        cmocka_unit_test(s21_the_branch_of_the_ps),
        cmocka_unit_test(s2_precedence_of_the_sources),
        cmocka_unit_test(a_machine_alone),
        cmocka_unit_test(s6_broken_tf_configs),
        cmocka_unit_test(t5_unknown_jobs_are_listed),
        cmocka_unit_test(t6_bad_tasks),
        cmocka_unit_test(t6_index_as_a_string),
        cmocka_unit_test(t6_index_as_a_whole_float),
        cmocka_unit_test(t7_sparse_jobs),
        cmocka_unit_test(t6_4_sparse_jobs_have_gaps),
        cmocka_unit_test(t9_evaluator_inside_or_outside),
        cmocka_unit_test(t10_duplicate_addresses),
        cmocka_unit_test(t10_the_same_address_under_other_names),
        cmocka_unit_test(r6_37_how_many_tasks_a_job_may_have),
        cmocka_unit_test(bad_addresses_name_the_task),
        cmocka_unit_test(t6_3_ids_in_the_cluster),
        cmocka_unit_test(t6_5_master),
        cmocka_unit_test(overrides_need_a_cluster),
        cmocka_unit_test(demand_31_loopback_among_others),
        cmocka_unit_test(a_cluster_on_loopback),
        cmocka_unit_test(errors_name_the_task),
        cmocka_unit_test(reserved_fields_are_refused),
        cmocka_unit_test(counts_of_a_cluster),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
