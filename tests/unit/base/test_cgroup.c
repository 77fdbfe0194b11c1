/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/cgroup.h"
#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static void write_file(const char *name, const char *text)
{
    sheaf_error err = {0};
    char *directory = sheaf__path_directory(rig_path(name));
    rig_ok(sheaf__file_mkdir(directory, 0, &err), &err);
    rig_ok(sheaf__file_replace(rig_path(name), text, strlen(text), &err), &err);
    sheaf__free(directory);
}

static void check(double expected)
{
    double found = sheaf__cgroup_cpus(rig_path("cgroup"), rig_path("self"));
    if (found != expected)
        fail_msg("found %g cores, expected %g", found, expected);
}

static void v2_takes_the_smallest_on_the_way_up(void **state)
{
    (void)state;
    write_file("self", "0::/a/b\n");
    write_file("cgroup/a/b/cpu.max", "max 100000\n");
    check(0);
    write_file("cgroup/a/cpu.max", "150000 100000\n");
    check(1.5);
    write_file("cgroup/a/b/cpu.max", "400000 100000\n");
    check(1.5);
    write_file("cgroup/a/b/cpu.max", "50000 100000\n");
    check(0.5);
}

/* In a container with its own namespace the path is "/", or one that is not there. */
static void v2_in_a_container(void **state)
{
    (void)state;
    write_file("self", "0::/\n");
    write_file("cgroup/cpu.max", "200000 100000\n");
    check(2);
    write_file("self", "0::/../../outside\n");
    check(2);
}

static void v1_has_two_files(void **state)
{
    (void)state;
    write_file("self", "12:memory:/x\n4:cpu,cpuacct:/x/y\n1:name=systemd:/\n");
    write_file("cgroup/cpu,cpuacct/x/y/cpu.cfs_quota_us", "-1\n");
    write_file("cgroup/cpu,cpuacct/x/y/cpu.cfs_period_us", "100000\n");
    check(0);
    write_file("cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "300000\n");
    write_file("cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
    check(3);
    /* cpuset and memory groups do not count. */
    write_file("self", "3:cpuset:/x\n");
    check(0);
}

static void nothing_there_is_no_limit(void **state)
{
    (void)state;
    check(0);
    write_file("self", "garbage\n::\n0::\n");
    check(0);
}

static void check_bytes(double expected)
{
    double found = sheaf__cgroup_bytes(rig_path("cgroup"), rig_path("self"));
    if (found != expected)
        fail_msg("found %g bytes, expected %g", found, expected);
}

static void memory_of_v2_and_v1(void **state)
{
    (void)state;
    write_file("self", "0::/a/b\n");
    check_bytes(0);
    write_file("cgroup/a/b/memory.max", "max\n");
    check_bytes(0);
    write_file("cgroup/a/memory.max", "1048576\n");
    check_bytes(1048576);
    write_file("self", "12:memory:/x\n4:cpu,cpuacct:/x/y\n");
    check_bytes(0);
    write_file("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    check_bytes(0);
    write_file("cgroup/memory/x/memory.limit_in_bytes", "4096\n");
    check_bytes(4096);
}

static void memory_that_may_be_used(void **state)
{
    (void)state;
    const double limit = sheaf__cgroup_bytes(SHEAF__CGROUP_ROOT, SHEAF__CGROUP_SELF);
    assert_true(sheaf__memory_total() > 1 << 20);
    assert_true(limit == 0 || sheaf__memory_total() <= (uint64_t)limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(v2_takes_the_smallest_on_the_way_up),
        rig_test(v2_in_a_container),
        rig_test(v1_has_two_files),
        rig_test(nothing_there_is_no_limit),
        rig_test(memory_of_v2_and_v1),
        rig_test(memory_that_may_be_used),
    };
    return rig_run(tests);
}
