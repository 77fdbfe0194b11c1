/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TEST_RIG_H
#define SHEAF_TEST_RIG_H

/* What every unit test uses: a fresh context around each test, which may leave nothing behind;
 * temporary folders; N tasks as threads. Include this first: it brings cmocka. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sheaf/context.h>
#include <sheaf/status.h>

/* A test with a context of its own (environment empty, seed none, log kept). After it, no
 * allocation of the library may be left, and nothing may have been logged at warning or above
 * unless rig_log_take() took it. */
#define rig_test(fn) cmocka_unit_test_setup_teardown(fn, rig_setup, rig_teardown)
int rig_setup(void **state);
int rig_teardown(void **state);

/* Runs rig_test()s: the result of main. */
#define rig_run(tests) cmocka_run_group_tests(tests, NULL, NULL)

/* The log lines so far, one after the other with line ends, and forgets them. Valid until the next
 * call. */
const char *rig_log_take(void);

/* Lines up to `level` are kept, not only warnings: of the calling thread's context from now on. */
void rig_log_from(sheaf_log_level level);

/* A new empty folder for this test, removed with all in it at the end. */
const char *rig_folder(void);
/* A path in it, valid until the end of the test: rig_path("a.txt"). */
const char *rig_path(const char *name);
/* The names in a folder of it, sorted by bytes, with spaces between. Valid until the next call. */
const char *rig_list(const char *name);
/* A path below tests/golden. Valid until the end of the test. */
const char *rig_golden(const char *name);

/* Whether files can be mapped into memory, in the calling thread's context: not from now on, and as the system has it again. */
void rig_map_files(bool can);

/* Status must be SHEAF_OK; else the error is shown and the test fails. */
#define rig_ok(status, err) rig_ok_at((status), (err), __FILE__, __LINE__)
void rig_ok_at(sheaf_status status, const sheaf_error *err, const char *file, int line);
/* Status must be `expected` and err->message contain `part`. */
#define rig_fails(status, err, expected, part) \
    rig_fails_at((status), (err), (expected), (part), __FILE__, __LINE__)
void rig_fails_at(sheaf_status status, const sheaf_error *err, sheaf_status expected,
                  const char *part, const char *file, int line);

/* Runs fn(task, user) for task 0..n-1, each on its own thread under its own context, whose
 * environment is `environment(task, user)` (NULL-terminated "NAME=value", may be NULL). Returns
 * when all have ended, or fails the test after `seconds`. A task fails the test by returning a
 * negative status with `err` filled (cmocka's assertions work on the main thread alone); RIG_CHECK
 * does that. */
struct rig_task {
    int index;
    int count;
    void *user;
    sheaf_context *context;
    sheaf_error err;
};
void rig_tasks(int n, sheaf_status (*fn)(struct rig_task *task), void *user,
               const char *const *(*environment)(int task, void *user), double seconds);
#define RIG_CHECK(task, condition)                                                          \
    do {                                                                                    \
        if (!(condition))                                                                   \
            return sheaf_error_set(&(task)->err, SHEAF_ERR_INTERNAL, "%s:%d: %s", __FILE__, \
                                   __LINE__, #condition);                                   \
    } while (0)

/* Calls attempt(user) with the k-th allocation failing, for k = 1, 2, … until none was refused.
 * Each attempt must either succeed or return RESOURCE_EXHAUSTED, and leave nothing allocated.
 * Returns how many failures were tried. */
size_t rig_fail_allocations(sheaf_status (*attempt)(void *user, sheaf_error *err), void *user);

#endif
