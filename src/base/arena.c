/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include "base/mem.h"

#include <string.h>

enum { ALIGN = 8, BLOCK_LEAST = 1 << 10, BLOCK_MOST = 1 << 18 };

struct block {
    struct block *next;
    size_t size; /* of what follows */
    char data[];
};

/* Blocks grow with the arena, so that small ones are small. */
static bool add_block(struct sheaf__arena *arena, size_t least)
{
    const struct block *newest = arena->blocks;
    size_t size = newest ? 2 * newest->size : BLOCK_LEAST;
    size_t whole;
    size = size > BLOCK_MOST ? BLOCK_MOST : size;
    size = size < least ? least : size;
    struct block *block =
        sheaf__add_overflows(size, sizeof(*block), &whole) ? NULL : sheaf__alloc(whole);
    if (!block)
        return false;
    block->next = arena->blocks;
    block->size = size < BLOCK_MOST ? size : BLOCK_MOST;
    arena->blocks = block;
    arena->at = block->data;
    arena->left = size;
    return true;
}

void *sheaf__arena_alloc(struct sheaf__arena *arena, size_t size)
{
    size_t padded;
    if (sheaf__add_overflows(size, ALIGN - 1, &padded))
        return NULL;
    padded -= padded % ALIGN;
    if (padded > arena->left && !add_block(arena, padded))
        return NULL;
    void *data = arena->at;
    arena->at += padded;
    arena->left -= padded;
    return data;
}

char *sheaf__arena_text(struct sheaf__arena *arena, const void *text, size_t size)
{
    char *copy = size < SIZE_MAX ? sheaf__arena_alloc(arena, size + 1) : NULL;
    if (!copy)
        return NULL;
    if (size)
        memcpy(copy, text, size);
    copy[size] = 0;
    return copy;
}

bool sheaf__arena_reserve(struct sheaf__arena *arena, void *array, size_t *capacity, size_t count,
                          size_t size)
{
    size_t bytes;
    if (count <= *capacity)
        return true;
    size_t want = *capacity > SIZE_MAX / 2 || 2 * *capacity < count ? count : 2 * *capacity;
    void *grown =
        sheaf__mul_overflows(want, size, &bytes) ? NULL : sheaf__arena_alloc(arena, bytes);
    if (!grown)
        return false;
    /* Copied as bytes: the pointer at `array` has a type of its own. */
    void *old;
    memcpy(&old, array, sizeof(old));
    if (*capacity)
        memcpy(grown, old, *capacity * size);
    memcpy(array, &grown, sizeof(grown));
    *capacity = want;
    return true;
}

void sheaf__arena_clear(struct sheaf__arena *arena)
{
    struct block *block = arena->blocks;
    while (block) {
        struct block *next = block->next;
        sheaf__free(block);
        block = next;
    }
    *arena = (struct sheaf__arena){0};
}
