/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_MAP_H
#define SHEAF_BASE_MAP_H

/* A map from strings (or bytes) to pointers that keeps the order of insertion. Zeroed is empty. No
 * locks. */

#include "base/arena.h"

#include <sheaf/export.h>

struct sheaf__map_entry {
    const char *key; /* own copy with a zero after it; NULL: removed */
    size_t key_size;
    uint64_t hash;
    void *value;
};

struct sheaf__strmap {
    struct sheaf__map_entry *entries; /* in order; some may be removed */
    size_t used;                      /* entries, the removed ones included */
    size_t count;                     /* live entries */
    size_t capacity;
    uint32_t *index; /* hash table of entry number + 1 */
    size_t index_size;
    struct sheaf__arena keys; /* those of removed entries stay until the map ends */
};

void *sheaf__strmap_get(const struct sheaf__strmap *map, const char *key);
void *sheaf__strmap_get_bytes(const struct sheaf__strmap *map, const void *key, size_t size);
bool sheaf__strmap_has(const struct sheaf__strmap *map, const char *key);
/* Inserts or overwrites; the old value goes to `*old` if given. False: no memory, nothing changed.
 */
bool sheaf__strmap_set(struct sheaf__strmap *map, const char *key, void *value, void **old);
bool sheaf__strmap_set_bytes(struct sheaf__strmap *map, const void *key, size_t size, void *value,
                             void **old);
/* Takes the entry out and returns its value, NULL if there is none. */
void *sheaf__strmap_remove(struct sheaf__strmap *map, const char *key);
/* Walks in order: start with 0, returns the entry after position `*at` or NULL. Removing while
 * walking is allowed. */
struct sheaf__map_entry *sheaf__strmap_next(const struct sheaf__strmap *map, size_t *at);
/* Frees the map; `drop` (may be NULL) gets every value. Usable again. */
void sheaf__strmap_clear(struct sheaf__strmap *map, void (*drop)(void *value));

/* A hash of bytes that is the same in every process (FNV-1a, mixed). */
uint64_t sheaf__hash(const void *data, size_t size);

#endif
