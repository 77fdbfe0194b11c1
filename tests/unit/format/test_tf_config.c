/* SPDX-License-Identifier: Apache-2.0 */
/* The text of TF_CONFIG: what it alone can tell (R6.35, R6.40, R6.41; demands #12). What needs the whole
 * cluster is tested with cluster/. */
#include "rig.h"

#include "format/tf_config.h"

#include <string.h>

static struct sheaf__tf_config *parse(const char *json)
{
    struct sheaf__tf_config *c = NULL;
    sheaf_error err = {0};
    rig_ok(sheaf__tf_config_parse(json, strlen(json), "TF_CONFIG", &c, &err), &err);
    return c;
}

static void refuse(const char *json, const char *part)
{
    struct sheaf__tf_config *c = NULL;
    sheaf_error err = {0};
    rig_fails(sheaf__tf_config_parse(json, strlen(json), "TF_CONFIG", &c, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, part);
    assert_null(c);
    assert_non_null(strstr(err.message, "TF_CONFIG"));
    assert_null(strchr(err.message, '\n'));
}

/* S19: the text of the source document; unknown keys are accepted. */
static void s19_text_of_the_document(void **state)
{
    (void)state;
    struct sheaf__tf_config *c = parse(
        "{\"cluster\": {\"worker\": [\"host1:port\", \"host2:port\"], \"ps\": [\"host3:port\"]},\n"
        " \"task\": {\"type\": \"worker\", \"index\": 0},\n"
        " \"environment\": \"cloud\", \"service\": {\"x\": [1]}, \"model_dir\": null,"
        " \"rpc_layer\": \"grpc\", \"session_master\": \"grpc://h:1\"}");
    assert_int_equal(c->job_count, 2);
    assert_string_equal(c->jobs[0].name, "worker");
    assert_int_equal(c->jobs[0].task_count, 2);
    assert_string_equal(c->jobs[0].tasks[1].address, "host2:port");
    assert_int_equal(c->jobs[0].tasks[1].index, 1);
    assert_string_equal(c->jobs[1].name, "ps");
    assert_string_equal(c->jobs[1].tasks[0].address, "host3:port");
    assert_true(c->has_task && c->has_task_index);
    assert_string_equal(c->task_type, "worker");
    assert_int_equal(c->task_index, 0);
    assert_string_equal(c->rpc_layer, "grpc");
    assert_string_equal(c->session_master, "grpc://h:1");
    assert_string_equal(c->environment, "cloud");
    sheaf__tf_config_free(c);
}

/* T7, R6.40, T6.4: a map from numbers to addresses, in any order, with gaps. */
static void t7_sparse_maps(void **state)
{
    (void)state;
    struct sheaf__tf_config *c =
        parse("{\"cluster\": {\"worker\": {\"3\": \"b\", \"1\": \"worker1:2222\"}, \"ps\": {}},"
              " \"task\": {\"type\": \"worker\", \"index\": 1}}");
    assert_int_equal(c->jobs[0].task_count, 2);
    assert_int_equal(c->jobs[0].tasks[0].index, 1);
    assert_string_equal(c->jobs[0].tasks[0].address, "worker1:2222");
    assert_int_equal(c->jobs[0].tasks[1].index, 3);
    assert_int_equal(c->jobs[1].task_count, 0);
    sheaf__tf_config_free(c);
    refuse("{\"cluster\": {\"worker\": {\"x\": \"a:1\"}}}",
           "\"worker\" has a task \"x\", expected a whole number");
    refuse("{\"cluster\": {\"worker\": {\"-1\": \"a:1\"}}}", "\"-1\"");
    refuse("{\"cluster\": {\"worker\": {\"\": \"a:1\"}}}", "\"\"");
    refuse("{\"cluster\": {\"worker\": {\"4294967296\": \"a:1\"}}}", "\"4294967296\"");
    refuse("{\"cluster\": {\"worker\": {\"1\": \"a:1\", \"01\": \"b:1\"}}}", "task 1 twice");
}

/* S6: each way of not being there has its own error. */
static void s6_missing_parts(void **state)
{
    (void)state;
    refuse("", "TF_CONFIG is empty");
    refuse(" \n\t ", "TF_CONFIG is empty");
    refuse("{}", "has no \"cluster\"");
    refuse("{\"task\": {}}", "has no \"cluster\", its first key is \"task\"");
    refuse("{\"cluster\": {}}", "\"cluster\" is an empty object");
    refuse("{\"cluster\": null}", "\"cluster\" is null");
    refuse("{\"cluster\": [\"a:1\"]}", "\"cluster\" is a list");
    refuse("[]", "the text is an empty list, expected a JSON object");
    refuse("3", "the text is 3");
    refuse("{\"cluster\": {\"\": [\"a:1\"]}}", "a job without a name");
    refuse("{\"cluster\": {\"worker\": \"a:1\"}}", "\"worker\" is \"a:1\", expected a list");
    refuse("{\"cluster\": {\"worker\": 2}}", "\"worker\" is 2, expected a list");
    refuse("{\"cluster\": {\"worker\": [\"a:1\", 2]}}",
           "\"worker\": task 1 is 2, expected an address");
    refuse("{\"cluster\": {\"worker\": [\"\"]}}", "task 0 is \"\", expected an address");
    refuse("{\"cluster\": {\"worker\": [null]}}", "task 0 is null");
}

/* T6: each bad task is an error that names the key. */
static void t6_bad_tasks(void **state)
{
    (void)state;
#define TASK(text) "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}, \"task\": " text "}"
    refuse(TASK("{\"type\": \"worker\", \"index\": -1}"), "\"task\": \"index\" is -1");
    refuse(TASK("{\"type\": \"worker\", \"index\": 1.5}"), "\"task\": \"index\" is 1.5");
    refuse(TASK("{\"type\": \"worker\", \"index\": \"one\"}"), "\"task\": \"index\" is \"one\"");
    refuse(TASK("{\"type\": \"worker\", \"index\": \"\"}"), "\"task\": \"index\" is \"\"");
    refuse(TASK("{\"type\": \"worker\", \"index\": true}"), "\"task\": \"index\" is true");
    refuse(TASK("{\"type\": \"worker\", \"index\": 2147483648}"), "\"index\" is 2147483648");
    refuse(TASK("{\"type\": 3, \"index\": 0}"), "\"task\": \"type\" is 3, expected a string");
    refuse(TASK("\"worker\""), "\"task\" is \"worker\", expected an object");
    /* An index given as text is taken, as TensorFlow does. */
    struct sheaf__tf_config *c = parse(TASK("{\"type\": \"worker\", \"index\": \"1\"}"));
    assert_int_equal(c->task_index, 1);
    sheaf__tf_config_free(c);
    /* What may come from elsewhere is only noted as missing. */
    c = parse(TASK("{\"type\": \"worker\"}"));
    assert_true(c->has_task && !c->has_task_index);
    sheaf__tf_config_free(c);
    c = parse("{\"cluster\": {\"worker\": [\"a:1\"]}}");
    assert_true(!c->has_task && !c->task_type);
    sheaf__tf_config_free(c);
}

static void t6_not_json(void **state)
{
    (void)state;
    refuse("{\"cluster\": ", "is not JSON: line 1, column");
    refuse("{'cluster': {}}", "is not JSON: line 1, column");
    refuse("{\"cluster\": {\"worker\": [\"a:1\"]}} x", "is not JSON");
    refuse("{\"cluster\": {\"worker\": [\"a\n:1\"]}}", "is not JSON");
    refuse("{\"cluster\": {\"worker\": [\"a:1\"], \"worker\": [\"b:1\"]}}", "duplicate object key");
    refuse("{\"cluster\": {\"w\": [\"a:1\"]}, \"cluster\": {\"w\": [\"b:1\"]}}",
           "duplicate object key");
    refuse("\xff\xfe{}", "is not JSON");
    char nul[] = "{\"cluster\": {\"w\0\": [\"a:1\"]}}";
    struct sheaf__tf_config *c = NULL;
    sheaf_error err = {0};
    rig_fails(sheaf__tf_config_parse(nul, sizeof(nul) - 1, "TF_CONFIG", &c, &err), &err,
              SHEAF_ERR_INVALID_ARGUMENT, "is not JSON");
    refuse("{\"cluster\": {\"w\": [\"a:1\\u0000\"]}}", "is not JSON");
}

static void other_texts_must_be_texts(void **state)
{
    (void)state;
    refuse("{\"cluster\": {\"w\": [\"a:1\"]}, \"rpc_layer\": 3}", "\"rpc_layer\" is 3");
    refuse("{\"cluster\": {\"w\": [\"a:1\"]}, \"session_master\": []}",
           "\"session_master\" is an empty list");
    struct sheaf__tf_config *c = parse("{\"cluster\": {\"w\": [\"a:1\"]}, \"rpc_layer\": null}");
    assert_null(c->rpc_layer);
    sheaf__tf_config_free(c);
}

static sheaf_status parse_one(void *json, sheaf_error *err)
{
    struct sheaf__tf_config *c;
    sheaf_status status = sheaf__tf_config_parse(json, strlen(json), "TF_CONFIG", &c, err);
    if (status >= 0)
        sheaf__tf_config_free(c);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    char json[] = "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"], \"ps\": {\"1\": \"c:1\"}},"
                  " \"task\": {\"type\": \"ps\", \"index\": 1}, \"rpc_layer\": \"grpc\"}";
    assert_true(rig_fail_allocations(parse_one, json) >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(s19_text_of_the_document),
        rig_test(t7_sparse_maps),
        rig_test(s6_missing_parts),
        rig_test(t6_bad_tasks),
        rig_test(t6_not_json),
        rig_test(other_texts_must_be_texts),
        rig_test(every_allocation_may_fail),
    };
    return rig_run(tests);
}
