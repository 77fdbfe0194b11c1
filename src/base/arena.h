/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_ARENA_H
#define SHEAF_BASE_ARENA_H

/* Memory of many small things that end together. */

#include <stdbool.h>
#include <stddef.h>

/* Zeroed is empty. */
struct sheaf__arena {
    void *blocks; /* the newest first */
    char *at;     /* of what is left of it */
    size_t left;
};

/* Memory at a multiple of 8, not cleared, until the arena ends. NULL: no memory. */
void *sheaf__arena_alloc(struct sheaf__arena *arena, size_t size);
/* A copy of `size` bytes with a terminating zero. NULL: no memory. */
char *sheaf__arena_text(struct sheaf__arena *arena, const void *text, size_t size);
/* As sheaf__array_reserve() for arrays in the arena, which grow by doubling; what they grew out of stays until the end. */
bool sheaf__arena_reserve(struct sheaf__arena *arena, void *array, size_t *capacity, size_t count,
                          size_t size);
/* Everything in it ends; usable again. */
void sheaf__arena_clear(struct sheaf__arena *arena);

#endif
