/* SPDX-License-Identifier: Apache-2.0 */
#include "data/trail.h"

#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/thread.h"

#include <string.h>

/* Files whose records are remembered: what they take in a position stays below 12 KiB. */
#define MOST_FILES 1024

struct sheaf__trail {
    struct sheaf__mutex lock; /* guards what follows */
    struct sheaf__strmap files;
};

struct sheaf__trail *sheaf__trail_new(void)
{
    return sheaf__calloc(1, sizeof(struct sheaf__trail));
}

void sheaf__trail_free(struct sheaf__trail *trail)
{
    if (!trail)
        return;
    sheaf__strmap_clear(&trail->files, NULL);
    sheaf__free(trail);
}

/* ---- files ---- */

uint64_t sheaf__trail_file(const char *path, uint64_t kind)
{
    struct sheaf__file_stat stat;
    if (sheaf__file_stat(path, &stat, NULL) < 0)
        return 0;
    const uint64_t facts[] = {kind, sheaf__hash(path, strlen(path)), stat.size,
                              (uint64_t)stat.mtime_ns};
    return sheaf__hash(facts, sizeof(facts));
}

void sheaf__trail_learn(struct sheaf__trail *trail, uint64_t file, uint64_t records)
{
    if (!trail || file == 0 || records >= UINTPTR_MAX)
        return;
    void *value = (void *)(uintptr_t)(records + 1);
    sheaf__mutex_lock(&trail->lock);
    /* Without memory for it the file is read again. */
    if (trail->files.count < MOST_FILES)
        (void)sheaf__strmap_set_bytes(&trail->files, &file, sizeof(file), value, NULL);
    sheaf__mutex_unlock(&trail->lock);
}

bool sheaf__trail_knows(struct sheaf__trail *trail, uint64_t file, uint64_t *records)
{
    if (!trail || file == 0)
        return false;
    sheaf__mutex_lock(&trail->lock);
    void *value = sheaf__strmap_get_bytes(&trail->files, &file, sizeof(file));
    sheaf__mutex_unlock(&trail->lock);
    *records = (uint64_t)(uintptr_t)value - 1;
    return value != NULL;
}
