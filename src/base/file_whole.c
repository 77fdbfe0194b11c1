/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files in memory. */
#include "base/file_state.h"

#include "base/mem.h"

#include <inttypes.h>

struct map {
    struct sheaf__map map;
    const struct sheaf__fs *fs; /* NULL: `data` is ours */
    char *path;
};

static void destroy_map(void *object)
{
    struct map *m = object;
    if (m->fs)
        m->fs->unmap(m->fs->user, m->map.data, m->map.size);
    else if (m->map.size)
        sheaf__free((void *)(uintptr_t)m->map.data);
    sheaf__free(m->path);
    sheaf__free(m);
}

static const struct sheaf__class map_class = {.name = "file map", .destroy = destroy_map};

bool sheaf__map_holds(const struct sheaf__object *object, const void *address)
{
    const struct sheaf__map *map = (const void *)object;
    return object->cls == &map_class && (const uint8_t *)address >= map->data &&
           (const uint8_t *)address < map->data + map->size;
}

/* Reads all of a file whose size is known; a file that shrank meanwhile is an error. */
static sheaf_status read_whole(struct sheaf__file *file, void *data, size_t size, sheaf_error *err)
{
    size_t got = 0;
    SHEAF__TRY(sheaf__file_read_at(file, 0, data, size, &got, err));
    if (got == size)
        return SHEAF_OK;
    struct sheaf__place where = {file->path, SHEAF__UNKNOWN, got};
    return sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &where,
                           "the file ended after %zu bytes, expected %zu", got, size);
}

static sheaf_status fill_map(struct map *m, struct sheaf__file *file, bool mapped, sheaf_error *err)
{
    uint64_t size = 0;
    SHEAF__TRY(sheaf__file_size(file, &size, err));
    m->map.data = (const uint8_t *)"";
    m->map.size = (size_t)size;
    if (size == 0)
        return SHEAF_OK;
    if (mapped) {
        int code = file->fs->map(file->fs->user, file->handle, (size_t)size, &m->map.data);
        if (code == 0)
            m->fs = file->fs;
        return sheaf__file_result(code, file->path, "map", err);
    }
    uint8_t *copy = sheaf__alloc((size_t)size);
    if (!copy)
        return sheaf__no_memory(err, file->path);
    sheaf_status status = read_whole(file, copy, (size_t)size, err);
    if (status < 0)
        sheaf__free(copy);
    else
        m->map.data = copy;
    return status;
}

static sheaf_status map_or_load(struct sheaf__file *file, bool mapped, struct sheaf__map **map,
                                sheaf_error *err)
{
    struct map *m = sheaf__calloc(1, sizeof(*m));
    if (!m || !(m->path = sheaf__strdup(file->path))) {
        sheaf__free(m);
        return sheaf__no_memory(err, "a file");
    }
    sheaf_status status = fill_map(m, file, mapped, err);
    if (status < 0) {
        sheaf__free(m->path);
        sheaf__free(m);
        return status;
    }
    sheaf__object_init(&m->map.object, &map_class);
    m->map.path = m->path;
    *map = &m->map;
    return SHEAF_OK;
}

sheaf_status sheaf__file_map_open(struct sheaf__file *file, struct sheaf__map **map,
                                  sheaf_error *err)
{
    return map_or_load(file, sheaf__file_mappable(file), map, err);
}

static sheaf_status map_path(const char *path, bool load, struct sheaf__map **map, sheaf_error *err)
{
    struct sheaf__file *file = NULL;
    SHEAF__TRY(sheaf__file_open(path, SHEAF__FILE_READ, &file, err));
    sheaf_status status = map_or_load(file, !load && sheaf__file_mappable(file), map, err);
    sheaf__file_close(file, NULL); /* only read: nothing can be lost */
    return status;
}

sheaf_status sheaf__file_map(const char *path, struct sheaf__map **map, sheaf_error *err)
{
    return map_path(path, false, map, err);
}

sheaf_status sheaf__file_load(const char *path, struct sheaf__map **map, sheaf_error *err)
{
    return map_path(path, true, map, err);
}

/* How many bytes it has, if it is one that has a size, and not more than `limit`. */
static sheaf_status size_to_read(struct sheaf__file *file, size_t limit, uint64_t *bytes,
                                 sheaf_error *err)
{
    const struct sheaf__place where = {file->path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    struct sheaf__file_stat stat;
    SHEAF__TRY(sheaf__file_look(file, &stat, err));
    if (stat.kind == SHEAF__FILE_OTHER)
        return sheaf__error_at(err, SHEAF_ERR_INVALID_ARGUMENT, &where,
                               "found a device or a pipe, expected a file");
    if (stat.size > limit)
        return sheaf__error_at(err, SHEAF_ERR_INVALID_ARGUMENT, &where,
                               "the file has %" PRIu64 " bytes, expected at most %zu", stat.size,
                               limit);
    *bytes = stat.size;
    return SHEAF_OK;
}

sheaf_status sheaf__file_read_all(const char *path, size_t limit, char **data, size_t *size,
                                  sheaf_error *err)
{
    struct sheaf__file *file = NULL;
    uint64_t bytes = 0;
    char *text = NULL;
    SHEAF__TRY(sheaf__file_open(path, SHEAF__FILE_READ, &file, err));
    sheaf_status status = size_to_read(file, limit, &bytes, err);
    if (status == SHEAF_OK && !(text = sheaf__alloc((size_t)bytes + 1)))
        status = sheaf__no_memory(err, path);
    if (status == SHEAF_OK)
        status = read_whole(file, text, (size_t)bytes, err);
    sheaf__file_close(file, NULL);
    if (status < 0) {
        sheaf__free(text);
        return status;
    }
    text[bytes] = '\0';
    *data = text;
    if (size)
        *size = (size_t)bytes;
    return SHEAF_OK;
}
