/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_CGROUP_H
#define SHEAF_BASE_CGROUP_H

/* What the control groups of this process leave it (v1 or v2): the smallest limit of every level up
 * to the root. Any thread. */

#include <sheaf/status.h>

#define SHEAF__CGROUP_ROOT "/sys/fs/cgroup"
#define SHEAF__CGROUP_SELF "/proc/self/cgroup"

/* CPU limit in cores, and memory limit in bytes, found under `root` for the groups that the file
 * `self` names; 0 if there is none. Other names are for tests with made trees. */
double sheaf__cgroup_cpus(const char *root, const char *self);
double sheaf__cgroup_bytes(const char *root, const char *self);

/* Bytes of memory that this process may use: the machine's, or less if its groups say so; 0: not
 * known. */
uint64_t sheaf__memory_total(void);

#endif
