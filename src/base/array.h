/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_ARRAY_H
#define SHEAF_BASE_ARRAY_H

/* Growing arrays. */

#include <stdbool.h>
#include <stddef.h>

/* Makes room for `count` items of `size` bytes in an array of `*capacity` items, growing by halves.
 * `array` is the address of the pointer to its first item:
 *     if (!sheaf__array_reserve(&items, &capacity, count + 1, sizeof(*items))) ...no memory...
 * False leaves everything as it was. */
bool sheaf__array_reserve(void *array, size_t *capacity, size_t count, size_t size);

/* A list of strings it owns. Zeroed is empty. */
struct sheaf__strings {
    char **items;
    size_t count;
    size_t capacity;
};
bool sheaf__strings_add(struct sheaf__strings *list,
                        const char *text);                         /* copies; false: no memory */
bool sheaf__strings_take(struct sheaf__strings *list, char *text); /* text is freed if that fails */
bool sheaf__strings_has(const struct sheaf__strings *list, const char *text);
void sheaf__strings_sort(struct sheaf__strings *list);  /* by bytes */
void sheaf__strings_clear(struct sheaf__strings *list); /* frees all, usable again */

/* A list of pointers it does not own. Zeroed is empty. */
struct sheaf__pointers {
    void **items;
    size_t count;
    size_t capacity;
};
bool sheaf__pointers_add(struct sheaf__pointers *list, void *item); /* false: no memory */
void sheaf__pointers_clear(struct sheaf__pointers *list);

#endif
