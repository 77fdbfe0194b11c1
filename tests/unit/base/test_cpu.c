/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/cpu.h"

static void counts_what_may_be_used(void **state)
{
    (void)state;
    int cpus[1024];
    size_t n = sheaf__cpu_list(cpus, 1024);
    assert_true(n >= 1);
    assert_true(sheaf__cpu_count() >= 1 && sheaf__cpu_count() <= (int)n);
    for (size_t i = 1; i < n; i++)
        assert_true(cpus[i] > cpus[i - 1]);
    assert_int_equal(sheaf__cpu_list(NULL, 0), n);
    const struct sheaf__cpu_features *f = sheaf__cpu_features();
    assert_true(!f->avx512bw || f->avx512f);
    assert_true(!f->f16c || f->avx2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(counts_what_may_be_used),
    };
    return rig_run(tests);
}
