/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cluster/membership.h"
#include "world.h"

static sheaf_cluster *resolve(const char *task)
{
    char json[400];
    snprintf(json, sizeof(json),
             "{\"cluster\":{\"ps\":[\"p0:1\",\"p1:1\"],\"worker\":[\"w0:1\",\"w1:1\"],"
             "\"chief\":[\"c0:1\"],\"evaluator\":[\"e0:1\"]},\"task\":%s}",
             task);
    sheaf_cluster *c = NULL;
    sheaf_error err;
    if (sheaf_cluster_resolve(&(sheaf_cluster_options){.json = json}, &c, &err) < 0)
        fail_msg("%s", err.message);
    return c;
}

/* The members as "chief:0=c0:1 …", this task in brackets. */
static void check(const sheaf_cluster *c, unsigned jobs, const char *expected, size_t self)
{
    struct sheaf__membership m;
    char text[256] = "";
    assert_int_equal(sheaf__membership_make(c, jobs, &m, NULL), SHEAF_OK);
    for (size_t i = 0; i < m.count; i++) {
        const struct sheaf__member *x = &m.members[i];
        size_t used = strlen(text);
        snprintf(text + used, sizeof(text) - used, x->self ? "[%s:%d=%s] " : "%s:%d=%s ",
                 x->task.job, x->task.index, x->address);
    }
    assert_string_equal(text, expected);
    assert_int_equal(m.self, self);
    sheaf__membership_free(&m);
}

static void lists_in_the_order_all_compute(void **state)
{
    (void)state;
    struct world w;
    world_enter(&w, NULL);
    sheaf_cluster *c = resolve("{\"type\":\"worker\",\"index\":1}");
    check(c, SHEAF__MEMBER_TEAM, "chief:0=c0:1 worker:0=w0:1 [worker:1=w1:1] ", 2);
    assert_int_equal(sheaf_cluster_worker_id(c), 2);
    check(c, SHEAF__MEMBER_PS, "ps:0=p0:1 ps:1=p1:1 ", 2);
    check(c, SHEAF__MEMBER_WORKER | SHEAF__MEMBER_EVALUATOR,
          "worker:0=w0:1 [worker:1=w1:1] evaluator:0=e0:1 ", 1);
    sheaf_cluster_free(c);
    world_leave(&w);
}

static void empty_on_a_machine_alone(void **state)
{
    (void)state;
    struct world w;
    world_enter(&w, NULL);
    sheaf_cluster *c = NULL;
    assert_int_equal(sheaf_cluster_resolve(NULL, &c, NULL), SHEAF_OK);
    check(c, SHEAF__MEMBER_TEAM | SHEAF__MEMBER_PS, "", 0);
    sheaf_cluster_free(c);
    world_leave(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_in_the_order_all_compute),
        cmocka_unit_test(empty_on_a_machine_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
