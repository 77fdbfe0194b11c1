/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/config.h"
#include "base/context.h"
#include "base/counter.h"
#include "base/cpu.h"
#include "base/env.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/wait.h"

#include <sheaf/version.h>
#include <stdio.h>
#include <string.h>

/* A context with this environment, entered; the rig's own is entered again by leave(). */
static sheaf_context *rigs;

static sheaf_context *enter(const char *const *environment)
{
    sheaf_context *context = NULL;
    sheaf_error err = {0};
    rig_ok(sheaf_context_new(&(sheaf_context_options){.environment = environment}, &context, &err),
           &err);
    rigs = sheaf_context_enter(context);
    return context;
}

static void leave(void)
{
    sheaf_context_free(sheaf_context_enter(rigs));
}

static void is_per_thread(void **state)
{
    (void)state;
    static const char *const environment[] = {"A=1", "SHEAF_THREADS=3", NULL};
    sheaf_context *a = enter(environment);
    assert_ptr_equal(sheaf__context(), a);
    assert_string_equal(sheaf__env_get("A"), "1");
    assert_null(sheaf__env_get("SHEAF_THREAD"));
    assert_null(sheaf__env_get("B"));
    assert_int_equal(sheaf__config_threads(), 3);
    leave();
    assert_null(sheaf__env_get("A"));
    assert_int_equal(sheaf__config_threads(), sheaf__cpu_count());
}

static void refuses_bad_options(void **state)
{
    (void)state;
    sheaf_context *context = NULL;
    sheaf_error err = {0};
    sheaf_context_options options = {.reserved = {0, 0, 1, 0}};
    rig_fails(sheaf_context_new(&options, &context, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "reserved");
    options = (sheaf_context_options){.log_level = (sheaf_log_level)9};
    rig_fails(sheaf_context_new(&options, &context, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
              "log level 9");
    rig_fails(sheaf_context_new(NULL, NULL, &err), &err, SHEAF_ERR_INVALID_ARGUMENT, "NULL");
    assert_null(context);
    sheaf_context_free(NULL);
}

/* ---- configuration ---- */

static void the_table_is_whole(void **state)
{
    (void)state;
    const sheaf_config_entry *e;
    size_t i = 0;
    for (; (e = sheaf_config_get(i)); i++) {
        assert_true(strncmp(e->name, "SHEAF_", 6) == 0);
        assert_true(strlen(e->help) > 5);
        assert_string_equal(sheaf_config_value(e->name), e->default_text);
    }
    assert_int_equal(i, SHEAF__CONFIG_COUNT);
    assert_null(sheaf_config_value("SHEAF_NONE"));
    assert_null(sheaf_config_value(NULL));
    assert_int_equal(sheaf__config_int(SHEAF__CONFIG_TRANSPORT), SHEAF__TRANSPORT_AUTO);
    assert_true(sheaf__config_seconds(SHEAF__CONFIG_DEADLINE_S) == 60);
    assert_false(sheaf__config_is_set(SHEAF__CONFIG_LOG));
}

static void values_come_from_the_environment(void **state)
{
    (void)state;
    static const char *const environment[] = {"SHEAF_TRANSPORT=shm",
                                              "SHEAF_KERNELS=reference",
                                              "SHEAF_DEADLINE_S=0.25",
                                              "SHEAF_INSECURE=1",
                                              "SHEAF_RUN_ID=abc",
                                              "SHEAF_LOG=debug",
                                              NULL};
    enter(environment);
    assert_int_equal(sheaf__config_int(SHEAF__CONFIG_TRANSPORT), SHEAF__TRANSPORT_SHM);
    assert_int_equal(sheaf__config_int(SHEAF__CONFIG_KERNELS), SHEAF__KERNELS_REFERENCE);
    assert_true(sheaf__config_seconds(SHEAF__CONFIG_DEADLINE_S) == 0.25);
    assert_int_equal(sheaf__config_int(SHEAF__CONFIG_INSECURE), 1);
    assert_string_equal(sheaf__config_text(SHEAF__CONFIG_RUN_ID), "abc");
    assert_string_equal(sheaf_config_value("SHEAF_TRANSPORT"), "shm");
    assert_true(sheaf__config_is_set(SHEAF__CONFIG_LOG));
    assert_true(sheaf__log_wants(SHEAF_LOG_DEBUG));
    leave();
    assert_false(sheaf__log_wants(SHEAF_LOG_INFO));
}

static void bad_values_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *entry;
        const char *message;
    } cases[] = {
        {"SHEAF_THREADS=two", "variable SHEAF_THREADS: found \"two\", expected a whole number"},
        {"SHEAF_THREADS=-1", "expected a whole number from 0 to 4096"},
        {"SHEAF_THREADS=4097", "found \"4097\", expected a whole number from 0 to 4096"},
        {"SHEAF_HEARTBEAT_MS=0", "found \"0\", expected a whole number from 10 to 600000"},
        {"SHEAF_HEARTBEAT_MS=600001", "expected a whole number from 10 to 600000"},
        {"SHEAF_SPIN_US=1000001", "expected a whole number from 0 to 1000000"},
        {"SHEAF_PORT_BASE=0", "expected a whole number from 1 to 65535"},
        {"SHEAF_PORT_BASE=65536", "expected a whole number from 1 to 65535"},
        {"SHEAF_PORT_BASE=99999999999999999999", "expected a whole number from 1 to 65535"},
        {"SHEAF_TRANSPORT=tpc", "found \"tpc\", expected auto|ucx|tcp|shm"},
        {"SHEAF_TRANSPORT=", "found \"\", expected auto|ucx|tcp|shm"},
        {"SHEAF_DEADLINE_S=0", "expected a number of seconds from 0.001 to 1000000"},
        {"SHEAF_DEADLINE_S=nan", "expected a number of seconds from 0.001 to 1000000"},
        {"SHEAF_DEADLINE_S=1e7", "expected a number of seconds from 0.001 to 1000000"},
        {"SHEAF_INSECURE=yes", "expected 0 or 1"},
        {"SHEAF_SEED=x", "variable SHEAF_SEED"},
        {"NOEQ", "environment: found \"NOEQ\" at 0, expected NAME=value"},
        {"=x", "environment: found \"=x\" at 0, expected NAME=value"},
        {"SHEAF_CONFIG=/dev/zero", "SHEAF_CONFIG: found a device or a pipe, expected a file"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *environment[] = {cases[i].entry, NULL};
        sheaf_context *context = NULL;
        sheaf_error err = {0};
        sheaf_context_options options = {.environment = environment};
        rig_fails(sheaf_context_new(&options, &context, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
                  cases[i].message);
        assert_null(context);
    }
    sheaf_error err = {0};
    rig_ok(sheaf__context_check(&err), &err);
}

/* The environment entry that names a configuration file with that text. */
static const char *config_file(const char *text)
{
    static char entry[4096];
    sheaf_error err = {0};
    const char *path = rig_path("sheaf.conf");
    rig_ok(sheaf__file_replace(path, text, strlen(text), &err), &err);
    snprintf(entry, sizeof(entry), "SHEAF_CONFIG=%s", path);
    return entry;
}

/* S219: by a file, too; the environment wins. */
static void values_come_from_a_file(void **state)
{
    (void)state;
    const char *environment[] = {config_file("# a comment\n\n  SHEAF_TRANSPORT = tcp \r\n"
                                             "SHEAF_THREADS=3\nSHEAF_STRATEGY =\tmirrored\n"
                                             "SHEAF_RUN_ID = a = b\nSHEAF_JOBS="),
                                 "SHEAF_THREADS=2", NULL};
    enter(environment);
    assert_string_equal(sheaf_config_value("SHEAF_TRANSPORT"), "tcp");
    assert_int_equal(sheaf__config_int(SHEAF__CONFIG_TRANSPORT), SHEAF__TRANSPORT_TCP);
    assert_string_equal(sheaf_config_value("SHEAF_STRATEGY"), "mirrored");
    assert_string_equal(sheaf_config_value("SHEAF_RUN_ID"), "a = b");
    assert_string_equal(sheaf_config_value("SHEAF_JOBS"), "");
    assert_int_equal(sheaf__config_int(SHEAF__CONFIG_THREADS), 2);
    assert_true(sheaf__config_is_set(SHEAF__CONFIG_TRANSPORT));
    assert_false(sheaf__config_is_set(SHEAF__CONFIG_KERNELS));
    leave();
}

static void bad_files_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"\nSHEAF_THREADS = two\n",
         "line 2: variable SHEAF_THREADS: found \"two\", expected a whole number"},
        {"SHEAF_THREDS=2", "line 1: found \"SHEAF_THREDS\", expected a variable"},
        {"SHEAF_CONFIG=other", "line 1: found \"SHEAF_CONFIG\", expected a variable"},
        {"SHEAF_LOG=info\nSHEAF_SEED=1\nSHEAF_LOG=warn", "line 3: SHEAF_LOG is in line 1 already"},
        {"SHEAF_LOG info", "line 1: found \"SHEAF_LOG info\", expected NAME = value"},
    };
    sheaf_context *context = NULL;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sheaf_error err = {0};
        const char *environment[] = {config_file(cases[i].text), NULL};
        sheaf_context_options options = {.environment = environment};
        rig_fails(sheaf_context_new(&options, &context, &err), &err, SHEAF_ERR_INVALID_ARGUMENT,
                  cases[i].message);
        assert_string_equal(err.file, rig_path("sheaf.conf"));
    }
    sheaf_error err = {0};
    static const char *const environment[] = {"SHEAF_CONFIG=/no/such/file", NULL};
    sheaf_context_options options = {.environment = environment};
    rig_fails(sheaf_context_new(&options, &context, &err), &err, SHEAF_ERR_NOT_FOUND,
              "SHEAF_CONFIG: cannot open");
    assert_string_equal(err.file, "/no/such/file");
    assert_null(context);
}

static char lines[1024];

static void keep(sheaf_log_level level, const char *line, void *user)
{
    (void)user;
    snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%d %s\n", (int)level, line);
}

static void unknown_variables_are_one_warning(void **state)
{
    (void)state;
    static const char *const environment[] = {"SHEAF_TRANSPROT=tcp", "SHEAF_LOGS=1",
                                              "SHEAF_LOG=warn", "SHEAFX=1", NULL};
    sheaf_context *context = NULL;
    sheaf_error err = {0};
    lines[0] = '\0';
    rig_ok(sheaf_context_new(&(sheaf_context_options){.environment = environment, .log = keep},
                             &context, &err),
           &err);
    assert_string_equal(lines, "2 ignored in the environment, no such variable: SHEAF_TRANSPROT "
                               "SHEAF_LOGS\n");
    sheaf_context_free(context);
}

/* ---- log ---- */

static void lines_go_to_the_sink_by_level(void **state)
{
    (void)state;
    static const char *const environment[] = {NULL};
    sheaf_context *context = NULL;
    sheaf_error err = {0};
    sheaf_context_options options = {
        .environment = environment, .log = keep, .log_level = SHEAF_LOG_INFO};
    rig_ok(sheaf_context_new(&options, &context, &err), &err);
    sheaf_context *before = sheaf_context_enter(context);
    lines[0] = '\0';
    sheaf__log(SHEAF_LOG_DEBUG, "no");
    sheaf__log(SHEAF_LOG_INFO, "two\nlines %d", 7);
    for (int i = 0; i < 5; i++) {
        sheaf__log_once(SHEAF_LOG_WARN, "place", "once");
        sheaf__log_limited(SHEAF_LOG_ERROR, 2, "other place", "%d", i);
    }
    assert_string_equal(lines, "3 two lines 7\n2 once\n1 0\n1 1\n");
    sheaf_context_enter(before);
    sheaf_context_free(context);
}

/* ---- counters ---- */

static void count_many(void *user)
{
    struct sheaf__counter *c = sheaf__counter_get(sheaf__context(), "record.bytes");
    (void)user;
    for (int i = 0; i < 10000; i++)
        sheaf__counter_add(c, 2);
}

static void counters_count(void **state)
{
    (void)state;
    struct sheaf__thread *threads[3];
    sheaf_error err = {0};
    const char *name = NULL;
    uint64_t value = 0;
    assert_int_equal(sheaf_counter("record.bytes"), 0);
    assert_int_equal(sheaf_counter_get(0, &name, &value), SHEAF_END);
    sheaf__count("first", 1);
    for (int i = 0; i < 3; i++)
        rig_ok(sheaf__thread_start("count", count_many, NULL, NULL, &threads[i], &err), &err);
    for (int i = 0; i < 3; i++)
        rig_ok(sheaf__thread_join(threads[i], sheaf__clock_deadline(30), &err), &err);
    assert_int_equal(sheaf_counter("record.bytes"), 60000);
    assert_int_equal(sheaf_counter_get(1, &name, &value), SHEAF_OK);
    assert_string_equal(name, "record.bytes");
    assert_int_equal(value, 60000);
    assert_int_equal(sheaf_counter_get(2, &name, &value), SHEAF_END);
    assert_int_equal(sheaf_counter(NULL), 0);
}

/* ---- slots ---- */

static char order[64];
static _Atomic int creations;

static sheaf_status make_inner(sheaf_context *context, void **value, sheaf_error *err)
{
    (void)context;
    (void)err;
    atomic_fetch_add(&creations, 1);
    *value = sheaf__strdup("inner");
    return *value ? SHEAF_OK : sheaf__no_memory(err, "inner");
}

static void drop(void *value)
{
    strcat(order, value);
    sheaf__free(value);
}

static const struct sheaf__slot inner_slot = {"inner", make_inner, drop};

static sheaf_status make_outer(sheaf_context *context, void **value, sheaf_error *err)
{
    void *inner = NULL;
    SHEAF__TRY(sheaf__context_slot(context, &inner_slot, &inner, err));
    *value = sheaf__strdup("outer");
    return *value ? SHEAF_OK : sheaf__no_memory(err, "outer");
}

static const struct sheaf__slot outer_slot = {"outer", make_outer, drop};

static sheaf_status make_none(sheaf_context *context, void **value, sheaf_error *err)
{
    (void)context;
    (void)value;
    return sheaf__error(err, SHEAF_ERR_NOT_FOUND, "no such library");
}

static const struct sheaf__slot none_slot = {"none", make_none, drop};

static void slots_end_in_reverse_order(void **state)
{
    (void)state;
    static const char *const environment[] = {NULL};
    sheaf_error err = {0};
    void *outer = NULL;
    void *inner = NULL;
    void *none = NULL;
    sheaf_context *context = enter(environment);
    order[0] = '\0';
    assert_null(sheaf__context_peek(context, &outer_slot));
    rig_ok(sheaf__context_slot(context, &outer_slot, &outer, &err), &err);
    rig_ok(sheaf__context_slot(context, &inner_slot, &inner, &err), &err);
    assert_ptr_equal(sheaf__context_peek(context, &outer_slot), outer);
    rig_fails(sheaf__context_slot(context, &none_slot, &none, &err), &err, SHEAF_ERR_NOT_FOUND,
              "no such library");
    assert_null(none);
    leave();
    assert_string_equal(order, "outerinner");
}

static void ask(void *user)
{
    void **value = user;
    (void)!sheaf__context_slot(sheaf__context(), &outer_slot, value, NULL);
}

static void slots_are_made_once(void **state)
{
    (void)state;
    static const char *const environment[] = {NULL};
    for (int round = 0; round < 20; round++) {
        struct sheaf__thread *threads[4];
        void *values[4] = {NULL};
        sheaf_error err = {0};
        enter(environment);
        order[0] = '\0';
        atomic_store(&creations, 0);
        for (int i = 0; i < 4; i++)
            rig_ok(sheaf__thread_start("ask", ask, &values[i], NULL, &threads[i], &err), &err);
        for (int i = 0; i < 4; i++)
            rig_ok(sheaf__thread_join(threads[i], sheaf__clock_deadline(30), &err), &err);
        for (int i = 0; i < 4; i++)
            assert_ptr_equal(values[i], values[0]);
        assert_non_null(values[0]);
        assert_int_equal(creations, 1);
        leave();
    }
}

static sheaf_status make_context(void *user, sheaf_error *err)
{
    static const char *const environment[] = {"SHEAF_LOG=warn", "SHEAF_SEED=3", NULL};
    sheaf_context *context = NULL;
    void *value;
    (void)user;
    sheaf_status status =
        sheaf_context_new(&(sheaf_context_options){.environment = environment}, &context, err);
    if (status == SHEAF_OK) {
        order[0] = '\0';
        status = sheaf__context_slot(context, &outer_slot, &value, err);
        sheaf_context_free(context);
    }
    return status;
}

static void survives_failed_allocations(void **state)
{
    (void)state;
    assert_true(rig_fail_allocations(make_context, NULL) >= 5);
}

/* S107: the version exists; nothing is printed. */
static void s107_version(void **state)
{
    (void)state;
    assert_string_equal(sheaf_version(), SHEAF_VERSION);
    assert_true(strlen(sheaf_version()) >= 5);
}

/* N tasks in one process: each has its own identity, counters and stop. */
static sheaf_status be_a_task(struct rig_task *task)
{
    sheaf_error err = {0};
    sheaf__context_set_task(sheaf__context(), "worker", task->index);
    sheaf__count("steps", (uint64_t)task->index + 1);
    if (task->index == 1)
        sheaf_stop();
    sheaf_status status = sheaf__wait_sleep(
        sheaf__clock_after(task->index == 1 ? 60 * SHEAF__S : SHEAF__MS), NULL, &err);
    RIG_CHECK(task, status == (task->index == 1 ? SHEAF_ERR_CANCELLED : SHEAF_OK));
    RIG_CHECK(task, task->index != 1 || err.origin.index == 1);
    RIG_CHECK(task, sheaf_counter("steps") == (uint64_t)task->index + 1);
    RIG_CHECK(task, sheaf_stopped() == (task->index == 1));
    return SHEAF_OK;
}

static void tasks_share_nothing(void **state)
{
    (void)state;
    rig_tasks(4, be_a_task, NULL, NULL, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(is_per_thread),
        rig_test(refuses_bad_options),
        rig_test(the_table_is_whole),
        rig_test(values_come_from_the_environment),
        rig_test(bad_values_are_named),
        rig_test(values_come_from_a_file),
        rig_test(bad_files_are_named),
        rig_test(unknown_variables_are_one_warning),
        rig_test(lines_go_to_the_sink_by_level),
        rig_test(counters_count),
        rig_test(slots_end_in_reverse_order),
        rig_test(slots_are_made_once),
        rig_test(survives_failed_allocations),
        rig_test(s107_version),
        rig_test(tasks_share_nothing),
    };
    return rig_run(tests);
}
