/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include "base/array.h"
#include "base/mem.h"

#include <string.h>

uint64_t sheaf__hash(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    /* FNV leaves the high bits of short keys alike. */
    h ^= h >> 32;
    h *= UINT64_C(0xd6e8feb86659fd93);
    return h ^ (h >> 32);
}

/* The index has a power of two places; a removed entry keeps its place until the next rebuild. */
static size_t find(const struct sheaf__strmap *map, const void *key, size_t size, uint64_t hash)
{
    size_t mask = map->index_size - 1;
    for (size_t at = (size_t)hash & mask;; at = (at + 1) & mask) {
        uint32_t number = map->index[at];
        if (number == 0)
            return at;
        const struct sheaf__map_entry *e = &map->entries[number - 1];
        if (e->key && e->hash == hash && e->key_size == size &&
            (size == 0 || memcmp(e->key, key, size) == 0))
            return at;
    }
}

static struct sheaf__map_entry *lookup(const struct sheaf__strmap *map, const void *key,
                                       size_t size)
{
    if (map->count == 0)
        return NULL;
    uint32_t number = map->index[find(map, key, size, sheaf__hash(key, size))];
    return number ? &map->entries[number - 1] : NULL;
}

/* Squeezes removed entries out and makes an index for `places` of them. */
static bool rebuild(struct sheaf__strmap *map, size_t places)
{
    size_t size = 16;
    while (size < 2 * places)
        size *= 2;
    uint32_t *index = size > UINT32_MAX ? NULL : sheaf__calloc(size, sizeof(*index));
    if (!index)
        return false;
    size_t kept = 0;
    for (size_t i = 0; i < map->used; i++) {
        if (!map->entries[i].key)
            continue;
        map->entries[kept] = map->entries[i];
        size_t at = (size_t)map->entries[kept].hash & (size - 1);
        while (index[at])
            at = (at + 1) & (size - 1);
        index[at] = (uint32_t)++kept;
    }
    map->used = kept;
    sheaf__free(map->index);
    map->index = index;
    map->index_size = size;
    return true;
}

void *sheaf__strmap_get_bytes(const struct sheaf__strmap *map, const void *key, size_t size)
{
    const struct sheaf__map_entry *e = lookup(map, key, size);
    return e ? e->value : NULL;
}

void *sheaf__strmap_get(const struct sheaf__strmap *map, const char *key)
{
    return sheaf__strmap_get_bytes(map, key, strlen(key));
}

bool sheaf__strmap_has(const struct sheaf__strmap *map, const char *key)
{
    return lookup(map, key, strlen(key)) != NULL;
}

bool sheaf__strmap_set_bytes(struct sheaf__strmap *map, const void *key, size_t size, void *value,
                             void **old)
{
    struct sheaf__map_entry *e = lookup(map, key, size);
    if (old)
        *old = e ? e->value : NULL;
    if (e) {
        e->value = value;
        return true;
    }
    if ((2 * (map->used + 1) > map->index_size && !rebuild(map, 2 * (map->count + 1))) ||
        !sheaf__array_reserve(&map->entries, &map->capacity, map->used + 1, sizeof(*map->entries)))
        return false;
    const char *copy = sheaf__arena_text(&map->keys, key, size);
    if (!copy)
        return false;
    uint64_t hash = sheaf__hash(key, size);
    map->entries[map->used] =
        (struct sheaf__map_entry){.key = copy, .key_size = size, .hash = hash, .value = value};
    map->index[find(map, key, size, hash)] = (uint32_t)++map->used;
    map->count++;
    return true;
}

bool sheaf__strmap_set(struct sheaf__strmap *map, const char *key, void *value, void **old)
{
    return sheaf__strmap_set_bytes(map, key, strlen(key), value, old);
}

void *sheaf__strmap_remove(struct sheaf__strmap *map, const char *key)
{
    struct sheaf__map_entry *e = lookup(map, key, strlen(key));
    if (!e)
        return NULL;
    void *value = e->value;
    e->key = NULL;
    map->count--;
    return value;
}

struct sheaf__map_entry *sheaf__strmap_next(const struct sheaf__strmap *map, size_t *at)
{
    while (*at < map->used) {
        struct sheaf__map_entry *e = &map->entries[(*at)++];
        if (e->key)
            return e;
    }
    return NULL;
}

void sheaf__strmap_clear(struct sheaf__strmap *map, void (*drop)(void *value))
{
    for (size_t i = 0; drop && i < map->used; i++)
        if (map->entries[i].key)
            drop(map->entries[i].value);
    sheaf__arena_clear(&map->keys);
    sheaf__free(map->entries);
    sheaf__free(map->index);
    *map = (struct sheaf__strmap){0};
}
