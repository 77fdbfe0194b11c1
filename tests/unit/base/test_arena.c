/* SPDX-License-Identifier: Apache-2.0 */
/* base/arena.h */
#include "rig.h"

#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* What was handed out keeps its place and value, whatever comes after it and however large. */
static void keeps_what_it_gave(void **state)
{
    (void)state;
    enum { TEXTS = 20000 };
    static char *texts[TEXTS];
    struct sheaf__arena arena = {0};
    char text[40];
    for (int i = 0; i < TEXTS; i++) {
        int size = snprintf(text, sizeof(text), "%d/%.*s", i, i % 20, "abcdefghijklmnopqrstuvwxyz");
        texts[i] = sheaf__arena_text(&arena, text, (size_t)size);
        assert_non_null(texts[i]);
        if (i % 5000 == 0) {
            char *large = sheaf__arena_alloc(&arena, 1 << 20);
            assert_non_null(large);
            memset(large, 1, 1 << 20);
            assert_int_equal((uintptr_t)large % 8, 0);
        }
    }
    for (int i = 0; i < TEXTS; i++) {
        snprintf(text, sizeof(text), "%d/%.*s", i, i % 20, "abcdefghijklmnopqrstuvwxyz");
        assert_string_equal(texts[i], text);
    }
    assert_string_equal(sheaf__arena_text(&arena, "", 0), "");
    sheaf__arena_clear(&arena);
    sheaf__arena_clear(&arena);
}

static void lists_grow(void **state)
{
    (void)state;
    struct sheaf__arena arena = {0};
    int *numbers = NULL;
    size_t capacity = 0;
    for (int i = 0; i < 1000; i++) {
        assert_true(
            sheaf__arena_reserve(&arena, &numbers, &capacity, (size_t)i + 1, sizeof(*numbers)));
        assert_true(capacity > (size_t)i);
        numbers[i] = i;
    }
    for (int i = 0; i < 1000; i++)
        assert_int_equal(numbers[i], i);
    sheaf__arena_clear(&arena);
}

static void refuses_what_is_too_large(void **state)
{
    (void)state;
    struct sheaf__arena arena = {0};
    int *numbers = NULL;
    size_t capacity = 0;
    assert_null(sheaf__arena_alloc(&arena, SIZE_MAX));
    assert_null(sheaf__arena_alloc(&arena, SIZE_MAX - 8));
    assert_null(sheaf__arena_text(&arena, "", SIZE_MAX));
    assert_false(sheaf__arena_reserve(&arena, &numbers, &capacity, SIZE_MAX / 2, 4));
    assert_null(numbers);
    assert_int_equal(capacity, 0);
    sheaf__arena_clear(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(keeps_what_it_gave),
        rig_test(lists_grow),
        rig_test(refuses_what_is_too_large),
    };
    return rig_run(tests);
}
