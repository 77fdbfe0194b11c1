/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/mem.h"

#include <errno.h>
#include <string.h>

static void counts_blocks_and_bytes(void **state)
{
    (void)state;
    struct sheaf__mem_stats before = sheaf__mem_stats();
    char *a = sheaf__alloc(100);
    char *b = sheaf__calloc(3, 7);
    assert_non_null(a);
    assert_non_null(b);
    for (int i = 0; i < 21; i++)
        assert_int_equal(b[i], 0);
    struct sheaf__mem_stats during = sheaf__mem_stats();
    assert_int_equal(during.live_blocks - before.live_blocks, 2);
    assert_true(during.live_bytes - before.live_bytes >= 121);
    a = sheaf__realloc(a, 5000);
    assert_non_null(a);
    assert_true(sheaf__mem_stats().live_bytes - before.live_bytes >= 5021);
    sheaf__free(a);
    sheaf__free(b);
    sheaf__free(NULL);
    assert_int_equal(sheaf__mem_stats().live_blocks, before.live_blocks);
    assert_int_equal(sheaf__mem_stats().live_bytes, before.live_bytes);
}

static void refuses_overflow(void **state)
{
    (void)state;
    /* Not constants, or the compiler warns of what is tested. */
    volatile size_t half = SIZE_MAX / 2 + 1;
    volatile size_t most = SIZE_MAX - 10;
    assert_null(sheaf__alloc_array(half, 2));
    assert_null(sheaf__calloc(half, 2));
    assert_null(sheaf__alloc_aligned(most));
    char *p = sheaf__alloc(10);
    assert_null(sheaf__realloc_array(p, half, 2));
    sheaf__free(p);
}

static void aligns(void **state)
{
    (void)state;
    for (size_t size = 0; size < 300; size += 33) {
        void *p = sheaf__alloc_aligned(size);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % SHEAF__MEM_ALIGN, 0);
        memset(p, 1, size);
        sheaf__free(p);
    }
}

static void fails_the_kth(void **state)
{
    (void)state;
    sheaf__mem_fail_at(3);
    void *a = sheaf__alloc(1);
    void *b = sheaf__calloc(1, 1);
    assert_false(sheaf__mem_fail_hit());
    void *c = sheaf__alloc_aligned(1);
    assert_null(c);
    assert_true(sheaf__mem_fail_hit());
    void *d = sheaf__alloc(1);
    assert_non_null(d);
    sheaf__mem_fail_at(1);
    assert_null(sheaf__realloc(d, 100));
    sheaf__free(a);
    sheaf__free(b);
    sheaf__free(d);
}

static void formats(void **state)
{
    (void)state;
    char *text = sheaf__printf("%s:%d", "worker", 3);
    assert_string_equal(text, "worker:3");
    sheaf__free(text);
    text = sheaf__strndup("abcdef", 3);
    assert_string_equal(text, "abc");
    errno = 77;
    sheaf__free(text);
    assert_int_equal(errno, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(counts_blocks_and_bytes), rig_test(refuses_overflow), rig_test(aligns),
        rig_test(fails_the_kth),           rig_test(formats),
    };
    return rig_run(tests);
}
