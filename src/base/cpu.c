/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"

#include "base/thread.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Below the context: these small files of the kernel are read directly, and what is not there says
 * nothing. */
static bool read_small(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t got = 0;
    while (got < size - 1) {
        ssize_t n = read(fd, text + got, size - 1 - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    close(fd);
    text[got] = '\0';
    return got > 0;
}

/* The limit in cores that one group says, 0 for none. v2: "cpu.max" holds "quota period" or "max
 * period"; v1 has two files, the quota -1 for none. */
static double group_limit(const char *directory, bool v2)
{
    char path[4352];
    char text[64];
    double quota;
    double period;
    if (v2) {
        snprintf(path, sizeof(path), "%s/cpu.max", directory);
        if (!read_small(path, text, sizeof(text)) || sscanf(text, "%lf %lf", &quota, &period) != 2)
            return 0;
    } else {
        snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", directory);
        if (!read_small(path, text, sizeof(text)) || sscanf(text, "%lf", &quota) != 1)
            return 0;
        snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", directory);
        if (!read_small(path, text, sizeof(text)) || sscanf(text, "%lf", &period) != 1)
            return 0;
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

static double smaller(double a, double b)
{
    if (a <= 0)
        return b;
    return b > 0 && b < a ? b : a;
}

/* The smallest limit of the group `group` and of all above it. Inside a container the group's path
 * may not exist under the root that is mounted there; then the root's own files are the group's. */
static double path_limit(const char *root, const char *group, bool v2)
{
    char path[4224];
    double limit = 0;
    size_t base = (size_t)snprintf(path, sizeof(path), "%s", root);
    if (base + strlen(group) >= sizeof(path))
        return group_limit(root, v2);
    memcpy(path + base, group, strlen(group) + 1);
    for (size_t size = strlen(path); size > base;) {
        limit = smaller(limit, group_limit(path, v2));
        while (size > base && path[size - 1] != '/')
            size--;
        while (size > base && path[size - 1] == '/')
            size--;
        path[size] = '\0';
    }
    return smaller(limit, group_limit(root, v2));
}

/* True if "cpu" is one of the controllers "cpu,cpuacct". */
static bool has_cpu(const char *controllers)
{
    for (const char *c = controllers;; c++) {
        size_t n = strcspn(c, ",");
        if (n == 3 && memcmp(c, "cpu", 3) == 0)
            return true;
        c += n;
        if (!*c)
            return false;
    }
}

double sheaf__cpu_quota(const char *cgroup_root, const char *self)
{
    char text[8192];
    char root[256];
    char *rest = NULL;
    double limit = 0;
    if (!read_small(self, text, sizeof(text)))
        return 0;
    /* Lines "number:controllers:path"; v2 has number 0 and no controllers. */
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        controllers++;
        if (!*controllers) {
            limit = smaller(limit, path_limit(cgroup_root, group, true));
        } else if (has_cpu(controllers)) {
            snprintf(root, sizeof(root), "%s/%s", cgroup_root, controllers);
            limit = smaller(limit, path_limit(root, group, false));
            snprintf(root, sizeof(root), "%s/cpu", cgroup_root);
            limit = smaller(limit, path_limit(root, group, false));
        }
    }
    return limit;
}

size_t sheaf__cpu_list(int *cpus, size_t capacity)
{
    cpu_set_t set;
    size_t count = 0;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 0;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &set))
            continue;
        if (count < capacity)
            cpus[count] = i;
        count++;
    }
    return count;
}

static int counted;

static void count_once(void)
{
    size_t cpus = sheaf__cpu_list(NULL, 0);
    if (cpus == 0) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        cpus = online > 0 ? (size_t)online : 1;
    }
    double quota = ceil(sheaf__cpu_quota("/sys/fs/cgroup", "/proc/self/cgroup"));
    if (quota >= 1 && quota < (double)cpus)
        cpus = (size_t)quota;
    counted = (int)cpus;
}

int sheaf__cpu_count(void)
{
    static struct sheaf__once once = SHEAF__ONCE_INIT;
    sheaf__once(&once, count_once);
    return counted;
}

static struct sheaf__cpu_features features;

static void detect(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    features = (struct sheaf__cpu_features){
        .sse42 = __builtin_cpu_supports("sse4.2"),
        .avx2 = __builtin_cpu_supports("avx2"),
        .fma = __builtin_cpu_supports("fma"),
        .avx512f = __builtin_cpu_supports("avx512f"),
        .avx512bw = __builtin_cpu_supports("avx512bw"),
        .avx512vl = __builtin_cpu_supports("avx512vl"),
        .avx512bf16 = __builtin_cpu_supports("avx512bf16"),
    };
    /* gcc 12 has no name for this one; AVX2 says that the system saves the wide registers it needs.
     */
    unsigned eax;
    unsigned ebx;
    unsigned ecx;
    unsigned edx;
    features.f16c = features.avx2 && __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
#endif
}

const struct sheaf__cpu_features *sheaf__cpu_features(void)
{
    static struct sheaf__once once = SHEAF__ONCE_INIT;
    sheaf__once(&once, detect);
    return &features;
}
