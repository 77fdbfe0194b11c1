/* SPDX-License-Identifier: Apache-2.0 */
/* base/trace.h and base/dl.h */
#include "rig.h"

#include "base/dl.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void off_is_nothing(void **state)
{
    (void)state;
    struct sheaf__span span = sheaf__trace_start("x");
    assert_null(span.name);
    sheaf__trace_end(&span);
    assert_int_equal(sheaf__trace_write(sheaf_context_enter(NULL), NULL), SHEAF_OK);
}

static void spans_are_written_with_the_context(void **state)
{
    (void)state;
    char variable[512];
    const char *environment[] = {variable, NULL};
    const char *path = rig_path("trace.json");
    char *text = NULL;
    sheaf_context *context = NULL;
    sheaf_error err = {0};
    snprintf(variable, sizeof(variable), "SHEAF_TRACE=%s", path);
    rig_ok(sheaf_context_new(&(sheaf_context_options){.environment = environment}, &context, &err),
           &err);
    sheaf_context *before = sheaf_context_enter(context);
    for (int i = 0; i < 10; i++) {
        struct sheaf__span outer = sheaf__trace_start("step");
        struct sheaf__span inner = sheaf__trace_start("ps.push");
        sheaf__trace_end(&inner);
        sheaf__trace_end(&outer);
    }
    sheaf_context_enter(before);
    sheaf_context_free(context);
    rig_ok(sheaf__file_read_all(path, 1 << 20, &text, NULL, &err), &err);
    int count = 0;
    for (const char *at = text; (at = strstr(at, "\"name\":\"ps.push\"")); at++)
        count++;
    assert_int_equal(count, 10);
    assert_true(strncmp(text, "{\"displayTimeUnit\"", 18) == 0);
    assert_string_equal(text + strlen(text) - 5, "}\n]}\n");
    sheaf__free(text);
}

/* The process default context is never freed: its trace is written when the process ends. */
static void the_default_writes_at_exit(void **state)
{
    (void)state;
    const char *path = rig_path("default.json");
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        /* This program again, as main() below knows by the variable. */
        setenv("SHEAF_TRACE", path, 1);
        execl("/proc/self/exe", "test_trace", "trace-at-exit", (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    char *text = NULL;
    sheaf_error err = {0};
    rig_ok(sheaf__file_read_all(path, 1 << 20, &text, NULL, &err), &err);
    assert_non_null(strstr(text, "\"name\":\"only span\""));
    sheaf__free(text);
}

static int trace_at_exit(void)
{
    struct sheaf__span span = sheaf__trace_start("only span");
    sheaf__trace_end(&span);
    return span.name ? 0 : 1;
}

static void opens_libraries(void **state)
{
    (void)state;
    static const char *const names[] = {"libsheaf-none.so.1", "libm.so.6", NULL};
    static const char *const none[] = {"libsheaf-none.so.1", "libsheaf-none.so.0", NULL};
    void *library = NULL;
    int found = -1;
    double (*cosine)(double) = NULL;
    void *missing = &missing;
    sheaf_error err = {0};
    rig_ok(sheaf__dl_open(names, "mathematics", &library, &found, &err), &err);
    assert_int_equal(found, 1);
    struct sheaf__dl_symbol good[] = {{"cos", (void **)&cosine}};
    rig_ok(sheaf__dl_symbols(library, "mathematics", good, 1, &err), &err);
    assert_true(cosine(0) == 1);
    struct sheaf__dl_symbol bad[] = {{"sin", &missing}, {"sheaf_none", &missing}};
    rig_fails(sheaf__dl_symbols(library, "mathematics", bad, 2, &err), &err, SHEAF_ERR_INCOMPATIBLE,
              "no function sheaf_none");
    assert_ptr_equal(missing, &missing);
    rig_fails(sheaf__dl_open(none, "dense kernels", &library, NULL, &err), &err,
              SHEAF_ERR_NOT_FOUND, "library for dense kernels not found: libsheaf-none.so.1");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "trace-at-exit") == 0)
        return trace_at_exit();
    const struct CMUnitTest tests[] = {
        rig_test(off_is_nothing),
        rig_test(spans_are_written_with_the_context),
        rig_test(the_default_writes_at_exit),
        rig_test(opens_libraries),
    };
    return rig_run(tests);
}
