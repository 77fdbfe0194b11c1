/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"

#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool sheaf__array_reserve(void *array, size_t *capacity, size_t count, size_t size)
{
    if (count <= *capacity)
        return true;
    size_t want = *capacity + *capacity / 2;
    if (want < count || want < *capacity)
        want = count;
    if (want < 8)
        want = 8;
    /* Copied as bytes: the pointer at `array` has a type of its own. */
    void *data;
    memcpy(&data, array, sizeof(data));
    data = sheaf__realloc_array(data, want, size);
    if (!data)
        return false;
    memcpy(array, &data, sizeof(data));
    *capacity = want;
    return true;
}

bool sheaf__strings_take(struct sheaf__strings *list, char *text)
{
    if (!text)
        return false;
    if (!sheaf__array_reserve(&list->items, &list->capacity, list->count + 1,
                              sizeof(*list->items))) {
        sheaf__free(text);
        return false;
    }
    list->items[list->count++] = text;
    return true;
}

bool sheaf__strings_add(struct sheaf__strings *list, const char *text)
{
    return sheaf__strings_take(list, sheaf__strdup(text));
}

bool sheaf__strings_has(const struct sheaf__strings *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], text) == 0)
            return true;
    return false;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void sheaf__strings_sort(struct sheaf__strings *list)
{
    if (list->count > 1)
        qsort(list->items, list->count, sizeof(*list->items), compare);
}

void sheaf__strings_clear(struct sheaf__strings *list)
{
    for (size_t i = 0; i < list->count; i++)
        sheaf__free(list->items[i]);
    sheaf__free(list->items);
    *list = (struct sheaf__strings){0};
}

bool sheaf__pointers_add(struct sheaf__pointers *list, void *item)
{
    if (!sheaf__array_reserve(&list->items, &list->capacity, list->count + 1, sizeof(*list->items)))
        return false;
    list->items[list->count++] = item;
    return true;
}

void sheaf__pointers_clear(struct sheaf__pointers *list)
{
    sheaf__free(list->items);
    *list = (struct sheaf__pointers){0};
}
