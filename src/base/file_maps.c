/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file_maps.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

/* The system lets a process have some 65,000 maps, and every allocator needs some. */
#define MOST_MAPS 1024

struct kept {
    struct sheaf__list_node node;
    struct sheaf__file_stat file; /* as it was when it was mapped */
    struct sheaf__map *map;       /* counted */
    uint64_t round;               /* when it was asked for last */
};

static struct kept *kept_of(struct sheaf__list_node *node)
{
    return node ? SHEAF__CONTAINER(node, struct kept, node) : NULL;
}

/* Under the lock. */
static void give_up(struct sheaf__file_maps *maps, struct kept *k)
{
    sheaf__list_remove(&k->node);
    maps->count--;
    atomic_fetch_sub_explicit(&maps->bytes, k->map->size, memory_order_relaxed);
    sheaf__unref(k->map);
    sheaf__free(k);
}

void sheaf__file_maps_begin(struct sheaf__file_maps *maps, uint64_t most)
{
    struct kept *k;
    sheaf__mutex_lock(&maps->lock);
    if (!maps->kept.head.next)
        sheaf__list_init(&maps->kept);
    maps->most = most;
    maps->round += maps->readers++ == 0;
    while ((k = kept_of(sheaf__list_first(&maps->kept))) && k->round + 1 < maps->round)
        give_up(maps, k);
    sheaf__mutex_unlock(&maps->lock);
}

void sheaf__file_maps_end(struct sheaf__file_maps *maps)
{
    sheaf__mutex_lock(&maps->lock);
    maps->readers--;
    sheaf__mutex_unlock(&maps->lock);
}

static bool is_same(const struct sheaf__file_stat *a, const struct sheaf__file_stat *b)
{
    return a->inode == b->inode && a->device == b->device && a->size == b->size &&
           a->mtime_ns == b->mtime_ns;
}

/* Under the lock. The map of the file of that name, if it is kept; one of another file that had the name
 * before is given up. Whoever goes through the files in the order of the last round finds it first. */
static struct sheaf__map *find(struct sheaf__file_maps *maps, const char *path,
                               const struct sheaf__file_stat *file)
{
    struct sheaf__list_node *node = sheaf__list_first(&maps->kept);
    while (node) {
        struct kept *k = kept_of(node);
        node = sheaf__list_next(&maps->kept, node);
        if (strcmp(k->map->path, path) != 0)
            continue;
        if (!is_same(&k->file, file)) {
            give_up(maps, k);
            continue;
        }
        sheaf__list_remove(&k->node);
        sheaf__list_append(&maps->kept, &k->node);
        k->round = maps->round;
        return sheaf__ref(k->map);
    }
    return NULL;
}

/* Under the lock. Keeps a map, if there is room. */
static void keep(struct sheaf__file_maps *maps, const struct sheaf__file_stat *file,
                 struct sheaf__map *map)
{
    const uint64_t bytes = sheaf__file_maps_bytes(maps);
    if (map->size != file->size || maps->count >= MOST_MAPS || bytes > maps->most ||
        map->size > maps->most - bytes)
        return;
    struct kept *k = sheaf__calloc(1, sizeof(*k));
    if (!k)
        return;
    k->file = *file;
    k->map = sheaf__ref(map);
    k->round = maps->round;
    sheaf__list_append(&maps->kept, &k->node);
    maps->count++;
    atomic_fetch_add_explicit(&maps->bytes, map->size, memory_order_relaxed);
}

sheaf_status sheaf__file_maps_get(struct sheaf__file_maps *maps, struct sheaf__file *file,
                                  struct sheaf__map **map, sheaf_error *err)
{
    struct sheaf__file_stat stat;
    if (!maps)
        return sheaf__file_map_open(file, map, err);
    SHEAF__TRY(sheaf__file_look(file, &stat, err));
    sheaf_status status = SHEAF_OK;
    sheaf__mutex_lock(&maps->lock);
    struct sheaf__map *found = find(maps, sheaf__file_path(file), &stat);
    if (!found) {
        status = sheaf__file_map_open(file, &found, err);
        if (status >= 0)
            keep(maps, &stat, found);
    }
    sheaf__mutex_unlock(&maps->lock);
    if (status >= 0)
        *map = found;
    return status;
}

uint64_t sheaf__file_maps_bytes(const struct sheaf__file_maps *maps)
{
    return maps ? atomic_load_explicit(&maps->bytes, memory_order_relaxed) : 0;
}

void sheaf__file_maps_clear(struct sheaf__file_maps *maps)
{
    struct kept *k;
    if (!maps->kept.head.next)
        return;
    sheaf__mutex_lock(&maps->lock);
    while ((k = kept_of(sheaf__list_first(&maps->kept))))
        give_up(maps, k);
    sheaf__mutex_unlock(&maps->lock);
}
