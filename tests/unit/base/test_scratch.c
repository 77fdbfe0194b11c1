/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/scratch.h"
#include "base/thread.h"

#include <string.h>

static void is_the_same_until_more_is_asked(void **state)
{
    (void)state;
    char *first = sheaf__scratch(1000);
    assert_non_null(first);
    assert_int_equal((uintptr_t)first % SHEAF__MEM_ALIGN, 0);
    memset(first, 1, 1000);
    assert_ptr_equal(sheaf__scratch(10), first);
    struct sheaf__mem_stats before = sheaf__mem_stats();
    char *more = sheaf__scratch(100000);
    assert_non_null(more);
    memset(more, 2, 100000);
    assert_ptr_equal(sheaf__scratch(100000), more);
    assert_int_equal(sheaf__mem_stats().live_blocks, before.live_blocks);
}

static void survives_what_cannot_be_had(void **state)
{
    (void)state;
    char *mine = sheaf__scratch(1000);
    assert_null(sheaf__scratch(SIZE_MAX - 10));
    sheaf__mem_fail_at(1);
    assert_null(sheaf__scratch(1 << 20));
    assert_true(sheaf__mem_fail_hit());
    assert_ptr_equal(sheaf__scratch(1000), mine);
}

static void use(void *user)
{
    *(void **)user = sheaf__scratch(5000);
}

static void belongs_to_its_thread(void **state)
{
    (void)state;
    void *mine = sheaf__scratch(1), *other = NULL;
    struct sheaf__thread *thread = NULL;
    sheaf_error err = {0};
    struct sheaf__mem_stats before = sheaf__mem_stats();
    rig_ok(sheaf__thread_start("other", use, &other, NULL, &thread, &err), &err);
    rig_ok(sheaf__thread_join(thread, sheaf__clock_deadline(30), &err), &err);
    assert_non_null(other);
    assert_ptr_not_equal(other, mine);
    assert_int_equal(sheaf__mem_stats().live_blocks, before.live_blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(is_the_same_until_more_is_asked),
        rig_test(survives_what_cannot_be_had),
        rig_test(belongs_to_its_thread),
    };
    return rig_run(tests);
}
