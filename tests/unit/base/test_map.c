/* SPDX-License-Identifier: Apache-2.0 */
/* base/map.h and base/list.h */
#include "rig.h"

#include "base/list.h"
#include "base/map.h"

#include <stdio.h>
#include <string.h>

static void keeps_order(void **state)
{
    (void)state;
    struct sheaf__strmap map = {0};
    char key[16];
    for (uintptr_t i = 0; i < 1000; i++) {
        snprintf(key, sizeof(key), "key-%d", (int)((i * 7919) % 1000));
        assert_true(sheaf__strmap_set(&map, key, (void *)(i + 1), NULL));
    }
    assert_int_equal(map.count, 1000);
    struct sheaf__map_entry *e;
    uintptr_t i = 0;
    for (size_t at = 0; (e = sheaf__strmap_next(&map, &at)); i++) {
        snprintf(key, sizeof(key), "key-%d", (int)((i * 7919) % 1000));
        assert_string_equal(e->key, key);
        assert_ptr_equal(e->value, (void *)(i + 1));
        assert_ptr_equal(sheaf__strmap_get(&map, key), e->value);
    }
    assert_int_equal(i, 1000);
    assert_null(sheaf__strmap_get(&map, "other"));
    sheaf__strmap_clear(&map, NULL);
}

/* Against a table that is too simple to be wrong. */
static void behaves_like_a_table(void **state)
{
    (void)state;
    enum { KEYS = 60 };
    struct sheaf__strmap map = {0};
    void *truth[KEYS] = {0};
    size_t live = 0;
    uint32_t x = 1;
    for (uintptr_t round = 1; round < 20000; round++) {
        char key[8];
        x = x * 1664525 + 1013904223;
        int k = (int)((x >> 16) % KEYS);
        snprintf(key, sizeof(key), "%d", k);
        if (x >> 31) {
            void *old = (void *)1;
            assert_true(sheaf__strmap_set(&map, key, (void *)round, &old));
            assert_ptr_equal(old, truth[k]);
            live += truth[k] == NULL;
            truth[k] = (void *)round;
        } else {
            assert_ptr_equal(sheaf__strmap_remove(&map, key), truth[k]);
            live -= truth[k] != NULL;
            truth[k] = NULL;
        }
        assert_int_equal(map.count, live);
        assert_int_equal(sheaf__strmap_has(&map, key), truth[k] != NULL);
    }
    assert_true(map.used < 4 * KEYS); /* removed entries are squeezed out */
    sheaf__strmap_clear(&map, NULL);
}

static void keys_are_bytes(void **state)
{
    (void)state;
    struct sheaf__strmap map = {0};
    assert_true(sheaf__strmap_set_bytes(&map, "a\0b", 3, (void *)1, NULL));
    assert_true(sheaf__strmap_set_bytes(&map, "a\0c", 3, (void *)2, NULL));
    assert_true(sheaf__strmap_set_bytes(&map, "", 0, (void *)3, NULL));
    assert_ptr_equal(sheaf__strmap_get_bytes(&map, "a\0b", 3), (void *)1);
    assert_ptr_equal(sheaf__strmap_get_bytes(&map, "a\0c", 3), (void *)2);
    assert_ptr_equal(sheaf__strmap_get(&map, ""), (void *)3);
    assert_null(sheaf__strmap_get(&map, "a"));
    sheaf__strmap_clear(&map, NULL);
}

static sheaf_status fill(void *user, sheaf_error *err)
{
    (void)user;
    struct sheaf__strmap map = {0};
    bool room = true;
    for (int i = 0; i < 100 && room; i++) {
        char key[8];
        snprintf(key, sizeof(key), "%d", i);
        size_t before = map.count;
        room = sheaf__strmap_set(&map, key, (void *)1, NULL);
        if (!room && (map.count != before || sheaf__strmap_has(&map, key)))
            return sheaf_error_set(err, SHEAF_ERR_INTERNAL, "changed by a failure");
    }
    sheaf__strmap_clear(&map, NULL);
    return room ? SHEAF_OK : sheaf_error_set(err, SHEAF_ERR_RESOURCE_EXHAUSTED, "x");
}

static void survives_failure(void **state)
{
    (void)state;
    assert_true(rig_fail_allocations(fill, NULL) > 10);
}

struct item {
    int value;
    struct sheaf__list_node node;
};

static void lists(void **state)
{
    (void)state;
    struct sheaf__list list;
    struct item items[3] = {{.value = 0}, {.value = 1}, {.value = 2}};
    sheaf__list_init(&list);
    assert_true(sheaf__list_empty(&list));
    sheaf__list_append(&list, &items[1].node);
    sheaf__list_append(&list, &items[2].node);
    sheaf__list_prepend(&list, &items[0].node);
    int i = 0;
    for (struct sheaf__list_node *n = sheaf__list_first(&list); n; n = sheaf__list_next(&list, n))
        assert_int_equal(SHEAF__CONTAINER(n, struct item, node)->value, i++);
    assert_int_equal(i, 3);
    sheaf__list_remove(&items[1].node);
    sheaf__list_remove(&items[1].node);
    assert_false(sheaf__list_linked(&items[1].node));
    assert_ptr_equal(sheaf__list_pop(&list), &items[0].node);
    assert_ptr_equal(sheaf__list_pop(&list), &items[2].node);
    assert_null(sheaf__list_pop(&list));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(keeps_order),    rig_test(behaves_like_a_table),
        rig_test(keys_are_bytes), rig_test(survives_failure),
        rig_test(lists),
    };
    return rig_run(tests);
}
