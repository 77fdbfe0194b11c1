/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"

#include "base/cgroup.h"
#include "base/thread.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <math.h>
#include <sched.h>
#include <unistd.h>

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
    double quota = ceil(sheaf__cgroup_cpus(SHEAF__CGROUP_ROOT, SHEAF__CGROUP_SELF));
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
        .bmi2 = __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                !__builtin_cpu_is("znver1") && !__builtin_cpu_is("znver2"),
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
