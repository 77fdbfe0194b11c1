/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_CPU_H
#define SHEAF_BASE_CPU_H

/* What this machine's processors offer. Any thread. */

#include <sheaf/status.h>

/* Cores this process may really use: the smaller of its affinity mask and the CPU limit of its
 * control group (v1 or v2, of every level up to the root), rounded up; at least 1. Counted at the
 * first call. */
int sheaf__cpu_count(void);
/* The numbers of the cores in the affinity mask, ascending: up to `capacity` into `cpus`; returns
 * how many there are. */
size_t sheaf__cpu_list(int *cpus, size_t capacity);

struct sheaf__cpu_features {
    bool sse42;
    bool avx2;
    bool bmi2; /* and BMI1; where its instructions are quick: not before AMD's Zen 3 */
    bool fma;
    bool f16c;
    bool avx512f;
    bool avx512bw;
    bool avx512vl;
    bool avx512bf16;
};
/* What the processor and the system both support. Static storage. */
const struct sheaf__cpu_features *sheaf__cpu_features(void);

#endif
