/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "cluster/slurm_list.h"

#include <string.h>

/* The hosts of `text` joined by blanks must be `expected`. */
static void check_hosts(const char *text, const char *expected)
{
    struct sheaf__strings hosts = {0};
    struct sheaf__str joined = {0};
    sheaf_error err;
    if (sheaf__slurm_list_hosts(text, &hosts, &err) != SHEAF_OK)
        fail_msg("%s: %s", text, err.message);
    for (size_t i = 0; i < hosts.count; i++)
        sheaf__str_printf(&joined, "%s%s", i ? " " : "", hosts.items[i]);
    assert_string_equal(sheaf__str_text(&joined), expected);
    sheaf__str_free(&joined);
    sheaf__strings_clear(&hosts);
}

static void check_refused(const char *text, const char *message)
{
    struct sheaf__strings hosts = {0};
    sheaf_error err = {0};
    assert_int_equal(sheaf__slurm_list_hosts(text, &hosts, &err), SHEAF_ERR_INVALID_ARGUMENT);
    if (!strstr(err.message, message))
        fail_msg("\"%s\" does not say \"%s\"", err.message, message);
    assert_int_equal(hosts.count, 0);
}

static void hosts_t1_keep_leading_zeros(void **state)
{
    (void)state;
    check_hosts("n[009-011]", "n009 n010 n011");
    check_hosts("n[9-11]", "n9 n10 n11");
    check_hosts("n[098-101]", "n098 n099 n100 n101");
}

static void hosts_t2_keep_the_whole_prefix(void **state)
{
    (void)state;
    check_hosts("gpu-compute-on-demand-dy-g4dnxlarge-[1-4]",
                "gpu-compute-on-demand-dy-g4dnxlarge-1 gpu-compute-on-demand-dy-g4dnxlarge-2 "
                "gpu-compute-on-demand-dy-g4dnxlarge-3 gpu-compute-on-demand-dy-g4dnxlarge-4");
    check_hosts("c1009a-s17,c1010a-s11", "c1009a-s17 c1010a-s11");
}

static void hosts_t4_take_several_groups(void **state)
{
    (void)state;
    check_hosts("ml-16-node-[001-002,004],ml-17-node-[001-003]",
                "ml-16-node-001 ml-16-node-002 ml-16-node-004 ml-17-node-001 ml-17-node-002 "
                "ml-17-node-003");
    check_hosts("n[1-2],m5,o[3-4,6,7-9]", "n1 n2 m5 o3 o4 o6 o7 o8 o9");
}

static void hosts_t4_refuse_what_they_cannot_read(void **state)
{
    (void)state;
    check_refused("n[1-", "found \"the end\" at character 5, expected a number");
    check_refused("n[3-1]", "found \"3-1]\" at character 3, expected a range whose lower end");
    check_refused("n[]", "found \"]\" at character 3");
    check_refused("", "expected a host name");
    check_refused("a,", "expected a host name");
    check_refused(",a", "expected a host name");
    check_refused("a b", "found \" b\" at character 2");
    check_refused("n[1]x", "found \"x\" at character 5");
    check_refused("n[1,]", "expected a number");
    check_refused("n[1-2-3]", "found \"-3]\"");
    check_refused("n]1", "found \"]1\"");
    check_refused("n[1234567890]", "at most 9 digits");
}

/* T6.7 */
static void hosts_t6_7(void **state)
{
    (void)state;
    check_hosts("n1", "n1");
    check_hosts("n[1,3]", "n1 n3");
    check_hosts("n[1-3]", "n1 n2 n3");
    check_hosts("linux[1,2]", "linux1 linux2");
}

static void hosts_have_a_limit(void **state)
{
    (void)state;
    struct sheaf__strings hosts = {0};
    sheaf_error err = {0};
    assert_int_equal(sheaf__slurm_list_hosts("n[0-999999999]", &hosts, &err),
                     SHEAF_ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(sheaf__slurm_list_hosts("a[0-40000],b[0-40000]", &hosts, &err),
                     SHEAF_ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(hosts.count, 0);
}

static void check_counts(const char *text, size_t count, const int32_t *expected)
{
    int32_t *counts = NULL;
    size_t found = 0;
    sheaf_error err;
    if (sheaf__slurm_list_counts(text, &counts, &found, &err) != SHEAF_OK)
        fail_msg("%s: %s", text, err.message);
    assert_int_equal(found, count);
    assert_memory_equal(counts, expected, count * sizeof(*counts));
    sheaf__free(counts);
}

static void counts_t6_8(void **state)
{
    (void)state;
    check_counts("2", 1, (const int32_t[]){2});
    check_counts("2,1,3", 3, (const int32_t[]){2, 1, 3});
    check_counts("3(x2),2,1", 4, (const int32_t[]){3, 3, 2, 1});
    check_counts("3(x2),2,11(x4)", 7, (const int32_t[]){3, 3, 2, 11, 11, 11, 11});
}

static void counts_refuse_what_they_cannot_read(void **state)
{
    (void)state;
    static const char *const BAD[] = {"", "x", "2(", "2(x", "2(x3", "2(3)", "2,", "2 3", "-1"};
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        int32_t *counts = NULL;
        size_t count = 7;
        sheaf_error err = {0};
        if (sheaf__slurm_list_counts(BAD[i], &counts, &count, &err) != SHEAF_ERR_INVALID_ARGUMENT)
            fail_msg("\"%s\" was taken", BAD[i]);
        assert_null(counts);
        assert_int_equal(count, 7);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    int64_t before = sheaf__mem_stats().live_blocks;
    for (uint64_t k = 1;; k++) {
        struct sheaf__strings hosts = {0};
        int32_t *counts = NULL;
        size_t count;
        sheaf__mem_fail_at(k);
        sheaf_status a = sheaf__slurm_list_hosts("n[1-20],m", &hosts, NULL);
        sheaf_status b = sheaf__slurm_list_counts("1(x30)", &counts, &count, NULL);
        bool hit = sheaf__mem_fail_hit();
        sheaf__mem_fail_at(0);
        assert_true(hit ? (a < 0) != (b < 0) : a == SHEAF_OK && b == SHEAF_OK);
        sheaf__strings_clear(&hosts);
        sheaf__free(counts);
        assert_int_equal(sheaf__mem_stats().live_blocks, before);
        if (!hit)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_t1_keep_leading_zeros),
        cmocka_unit_test(hosts_t2_keep_the_whole_prefix),
        cmocka_unit_test(hosts_t4_take_several_groups),
        cmocka_unit_test(hosts_t4_refuse_what_they_cannot_read),
        cmocka_unit_test(hosts_t6_7),
        cmocka_unit_test(hosts_have_a_limit),
        cmocka_unit_test(counts_t6_8),
        cmocka_unit_test(counts_refuse_what_they_cannot_read),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
