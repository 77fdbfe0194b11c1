/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cgroup.h"

#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Below the context: these small files of the kernel are read directly, and what is not there says
 * nothing. */
static bool read_small(const char *path, char *text, size_t size)
{
    int fd = sheaf__descriptor(open(path, O_RDONLY | O_CLOEXEC));
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
static double cpus_of(const char *directory, bool v2)
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

/* The same in bytes. v1 has a number beyond any memory for none. */
static double bytes_of(const char *directory, bool v2)
{
    char path[4352];
    char text[64];
    double bytes;
    snprintf(path, sizeof(path), "%s/%s", directory, v2 ? "memory.max" : "memory.limit_in_bytes");
    if (!read_small(path, text, sizeof(text)) || sscanf(text, "%lf", &bytes) != 1)
        return 0;
    return bytes < 0x1p60 ? bytes : 0;
}

/* What is limited, and how a group says so. */
struct controller {
    const char *name;
    double (*limit)(const char *directory, bool v2);
};

static double smaller(double a, double b)
{
    if (a <= 0)
        return b;
    return b > 0 && b < a ? b : a;
}

/* The smallest limit of the group `group` and of all above it. Inside a container the group's path
 * may not exist under the root that is mounted there; then the root's own files are the group's. */
static double path_limit(const struct controller *c, const char *root, const char *group, bool v2)
{
    char path[4224];
    double limit = 0;
    size_t base = (size_t)snprintf(path, sizeof(path), "%s", root);
    if (base + strlen(group) >= sizeof(path))
        return c->limit(root, v2);
    memcpy(path + base, group, strlen(group) + 1);
    for (size_t size = strlen(path); size > base;) {
        limit = smaller(limit, c->limit(path, v2));
        while (size > base && path[size - 1] != '/')
            size--;
        while (size > base && path[size - 1] == '/')
            size--;
        path[size] = '\0';
    }
    return smaller(limit, c->limit(root, v2));
}

/* True if `name` is one of the controllers "cpu,cpuacct". */
static bool has(const char *controllers, const char *name)
{
    const size_t size = strlen(name);
    for (const char *c = controllers;; c++) {
        size_t n = strcspn(c, ",");
        if (n == size && memcmp(c, name, n) == 0)
            return true;
        c += n;
        if (!*c)
            return false;
    }
}

static double limit_of(const struct controller *c, const char *cgroup_root, const char *self)
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
            limit = smaller(limit, path_limit(c, cgroup_root, group, true));
        } else if (has(controllers, c->name)) {
            snprintf(root, sizeof(root), "%s/%s", cgroup_root, controllers);
            limit = smaller(limit, path_limit(c, root, group, false));
            snprintf(root, sizeof(root), "%s/%s", cgroup_root, c->name);
            limit = smaller(limit, path_limit(c, root, group, false));
        }
    }
    return limit;
}

double sheaf__cgroup_cpus(const char *root, const char *self)
{
    static const struct controller cpu = {"cpu", cpus_of};
    return limit_of(&cpu, root, self);
}

double sheaf__cgroup_bytes(const char *root, const char *self)
{
    static const struct controller memory = {"memory", bytes_of};
    return limit_of(&memory, root, self);
}

uint64_t sheaf__memory_total(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const double all = pages > 0 && page > 0 ? (double)pages * (double)page : 0;
    return (uint64_t)smaller(all, sheaf__cgroup_bytes(SHEAF__CGROUP_ROOT, SHEAF__CGROUP_SELF));
}
