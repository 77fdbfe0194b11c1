/* SPDX-License-Identifier: Apache-2.0 */
#include "format/bundle.h"

#include "base/array.h"
#include "base/error.h"
#include "base/mem.h"

#include <string.h>

/* A data file of a part: what it is called and what it becomes. */
struct moved_file {
    size_t part;
    int32_t shard;
};

struct merging {
    const struct sheaf__bundle_merge *job;
    struct sheaf__bundle_index *parts; /* of every part */
    struct sheaf__bundle_index whole;
    struct moved_file *files; /* in the order of their new numbers */
    size_t file_count, file_capacity;
};

static sheaf_status read_parts(struct merging *m, sheaf_error *err)
{
    for (size_t i = 0; i < m->job->count; i++) {
        char *path = sheaf__bundle_index_path(m->job->parts[i]);
        if (!path)
            return sheaf__no_memory(err, "the name of a file");
        struct sheaf__map *map = NULL;
        struct sheaf__table table;
        sheaf_status status = sheaf__file_load(path, &map, err);
        if (status >= 0)
            status = sheaf__table_open(&table, map->data, map->size, path, err);
        if (status >= 0)
            status = sheaf__bundle_index_read(&m->parts[i], &table, err);
        sheaf__unref(map);
        sheaf__free(path);
        SHEAF__TRY(status);
        if (m->parts[i].big_endian)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "'%s' is big endian and cannot be merged", m->job->parts[i]);
    }
    return SHEAF_OK;
}

/* The new number of a data file: given when it is first met. -1: no memory. */
static int32_t number_file(struct merging *m, size_t part, int32_t shard)
{
    for (size_t i = m->file_count; i-- > 0;) {
        if (m->files[i].part == part && m->files[i].shard == shard)
            return (int32_t)i;
        if (m->files[i].part != part)
            break;
    }
    if (!sheaf__array_reserve(&m->files, &m->file_capacity, m->file_count + 1, sizeof(*m->files)))
        return -1;
    m->files[m->file_count] = (struct moved_file){part, shard};
    return (int32_t)m->file_count++;
}

static sheaf_status duplicate(const struct sheaf__bundle_item *item, const char *part,
                              const char *why, sheaf_error *err)
{
    bool slice = sheaf__bundle_is_slice_key(item->key, item->key_size);
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "%s '%s' of '%s' %s",
                        slice ? "a slice of tensor" : "tensor", item->key + slice, part, why);
}

/* Takes over one entry of a part. */
static sheaf_status merge_item(struct merging *m, size_t part,
                               const struct sheaf__bundle_item *item, sheaf_error *err)
{
    const char *name = m->job->parts[part];
    int32_t number = number_file(m, part, item->shard);
    if (number < 0)
        return sheaf__no_memory(err, "merging a checkpoint");
    struct sheaf__bundle_item *have =
        sheaf__bundle_index_added(&m->whole, item->key, item->key_size);
    if (!have) {
        have = sheaf__bundle_index_add(&m->whole, item->key, item->key_size);
        if (!have)
            return sheaf__no_memory(err, "merging a checkpoint");
        const char *key = have->key;
        *have = *item;
        have->key = key;
        have->shard = number;
        have->slices = 0;
        have->extents = NULL;
        have->extent_capacity = 0;
    } else if (!have->slices || !item->slices) {
        return duplicate(item, name, "is in another part, too", err);
    } else if (have->dtype != item->dtype || !sheaf_shape_equal(have->shape, item->shape)) {
        return duplicate(item, name, "has another dtype or shape than in another part", err);
    }
    if (item->slices && !sheaf__bundle_item_append(have, item->extents, item->slices))
        return sheaf__no_memory(err, "merging a checkpoint");
    return SHEAF_OK;
}

static sheaf_status merge_indexes(struct merging *m, sheaf_error *err)
{
    for (size_t i = 0; i < m->job->count; i++) {
        for (size_t k = 0; k < m->parts[i].count; k++) {
            const struct sheaf__bundle_item *item = &m->parts[i].items[k];
            if (item->fault < 0 && item->dtype != SHEAF__DTYPE_VARIANT)
                return duplicate(item, m->job->parts[i], item->why, err);
            SHEAF__TRY(merge_item(m, i, item, err));
        }
    }
    if (!m->file_count)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "there is no tensor to be saved");
    return SHEAF_OK;
}

static sheaf_status is_there(const char *path, bool *there, sheaf_error *err)
{
    struct sheaf__file_stat stat;
    sheaf_error fault = {0};
    sheaf_status status = path ? sheaf__file_stat(path, &stat, &fault)
                               : sheaf__no_memory(&fault, "the name of a file");
    *there = status >= 0;
    return status >= 0 || status == SHEAF_ERR_NOT_FOUND ? SHEAF_OK : sheaf__error_copy(err, &fault);
}

/* The number of shards that the names of the data files say. A checkpoint that is replaced must
 * stand until the new index does, so the new files get names that it does not use: the number may
 * be larger than the files. */
static sheaf_status choose_shards(struct merging *m, sheaf_error *err)
{
    bool taken;
    m->whole.shards = (int32_t)m->file_count;
    char *index = sheaf__bundle_index_path(m->job->prefix);
    sheaf_status status = is_there(index, &taken, err);
    sheaf__free(index);
    while (status >= 0 && taken) {
        taken = false;
        for (size_t i = 0; i < m->file_count && status >= 0 && !taken; i++) {
            char *path = sheaf__bundle_data_path(m->job->prefix, (int32_t)i, m->whole.shards);
            status = is_there(path, &taken, err);
            sheaf__free(path);
        }
        m->whole.shards += taken;
    }
    return status;
}

static sheaf_status move_files(struct merging *m, size_t *moved, sheaf_error *err)
{
    for (*moved = 0; *moved < m->file_count; ++*moved) {
        const struct moved_file *f = &m->files[*moved];
        char *from =
            sheaf__bundle_data_path(m->job->parts[f->part], f->shard, m->parts[f->part].shards);
        char *to = sheaf__bundle_data_path(m->job->prefix, (int32_t)*moved, m->whole.shards);
        sheaf_status status = from && to ? sheaf__file_rename(from, to, err)
                                         : sheaf__no_memory(err, "the name of a file");
        sheaf__free(from);
        sheaf__free(to);
        SHEAF__TRY(status);
    }
    return SHEAF_OK;
}

/* The index that is written. */
struct last_look {
    const struct sheaf__bundle_merge *job;
    const struct sheaf__buf *index;
};

static sheaf_status look(void *user, sheaf_error *err)
{
    const struct last_look *l = user;
    return l->job->before ? l->job->before(l->job->user, l->index->data, l->index->size, err)
                          : SHEAF_OK;
}

/* Makes the new names durable, then the index. */
static sheaf_status commit_index(struct merging *m, const struct sheaf__buf *index,
                                 sheaf_error *err)
{
    struct last_look last = {m->job, index};
    char *directory = sheaf__path_directory(m->job->prefix);
    char *path = sheaf__bundle_index_path(m->job->prefix);
    sheaf_status status = directory && path ? sheaf__file_sync_dir(directory, err)
                                            : sheaf__no_memory(err, "the name of a file");
    if (status >= 0)
        status = sheaf__file_replace_if(path, index->data, index->size, look, &last, err);
    sheaf__free(directory);
    sheaf__free(path);
    return status;
}

/* After a failure: whether the index in place may be the new one all the same (its directory could
 * not be synced after the rename). */
static bool may_be_visible(const struct merging *m, const struct sheaf__buf *index)
{
    sheaf_error fault = {0};
    char *data = NULL, *path = sheaf__bundle_index_path(m->job->prefix);
    size_t size = 0;
    if (!path || sheaf__file_read_all(path, SIZE_MAX - 1, &data, &size, &fault) < 0) {
        sheaf__free(path);
        return fault.status != SHEAF_ERR_NOT_FOUND;
    }
    bool same = size == index->size && !memcmp(data, index->data, size);
    sheaf__free(data);
    sheaf__free(path);
    return same;
}

static void drop_moved(const struct merging *m, size_t moved)
{
    for (size_t i = 0; i < moved; i++) {
        char *path = sheaf__bundle_data_path(m->job->prefix, (int32_t)i, m->whole.shards);
        if (path)
            (void)sheaf__file_unlink(path, NULL);
        sheaf__free(path);
    }
}

static sheaf_status put_in_place(struct merging *m, sheaf_error *err)
{
    size_t moved = 0;
    struct sheaf__table_writer table;
    sheaf__table_begin(&table);
    sheaf_status status = sheaf__bundle_index_write(&m->whole, &table, err);
    if (status >= 0)
        status = move_files(m, &moved, err);
    if (status >= 0)
        status = commit_index(m, &table.file, err);
    if (status < 0 && moved && !may_be_visible(m, &table.file))
        drop_moved(m, moved);
    sheaf__table_writer_free(&table);
    return status;
}

/* True if `name` is "<base>.data-00000-of-00001"; `*shards` is the last number. */
static bool is_data_file(const char *name, const char *base, int64_t *shards)
{
    size_t size = strlen(base);
    if (strncmp(name, base, size) != 0 || !sheaf__str_starts(name + size, ".data-"))
        return false;
    const char *digits = name + size + strlen(".data-");
    size_t count = strspn(digits, "0123456789");
    return count >= 5 && sheaf__str_starts(digits + count, "-of-") &&
           sheaf__str_to_int(digits + count + 4, shards);
}

/* Deletes the data files of a prefix, but those named after `keep` shards (0: none). */
static sheaf_status delete_data(const char *prefix, int64_t keep, sheaf_error *err)
{
    struct sheaf__strings names = {0};
    char *directory = sheaf__path_directory(prefix);
    sheaf_status status = directory ? sheaf__file_list(directory, &names, err)
                                    : sheaf__no_memory(err, "the name of a file");
    for (size_t i = 0; i < names.count && status >= 0; i++) {
        int64_t shards;
        if (!is_data_file(names.items[i], sheaf__path_name(prefix), &shards) || shards == keep)
            continue;
        char *path = sheaf__path_join(directory, names.items[i]);
        status = path ? sheaf__file_unlink(path, err) : sheaf__no_memory(err, "the name of a file");
        sheaf__free(path);
    }
    sheaf__strings_clear(&names);
    sheaf__free(directory);
    return status;
}

static void drop(char *path)
{
    if (path)
        (void)sheaf__file_unlink(path, NULL);
    sheaf__free(path);
}

/* What is left of the parts, by name: to look for it in the directory would take as long for each part as there are parts. It
 * is harmless if it stays. */
static void drop_parts(const struct merging *m)
{
    for (size_t i = 0; i < m->job->count; i++) {
        const char *part = m->job->parts[i];
        /* One without a tensor is there when nothing was put into it. */
        for (int32_t k = 0; k < m->parts[i].shards && (size_t)k <= m->parts[i].count; k++)
            drop(sheaf__bundle_data_path(part, k, m->parts[i].shards));
        drop(sheaf__bundle_index_path(part));
    }
}

sheaf_status sheaf__bundle_merge(const struct sheaf__bundle_merge *merge, sheaf_error *err)
{
    struct merging m = {.job = merge};
    m.parts = sheaf__calloc(merge->count + 1, sizeof(*m.parts));
    sheaf_status status =
        m.parts ? read_parts(&m, err) : sheaf__no_memory(err, "merging a checkpoint");
    if (status >= 0)
        status = merge_indexes(&m, err);
    if (status >= 0)
        status = choose_shards(&m, err);
    if (status >= 0)
        status = put_in_place(&m, err);
    if (status >= 0) {
        (void)delete_data(merge->prefix, m.whole.shards, NULL);
        drop_parts(&m);
    }
    for (size_t i = 0; m.parts && i < merge->count; i++)
        sheaf__bundle_index_free(&m.parts[i]);
    sheaf__free(m.parts);
    sheaf__bundle_index_free(&m.whole);
    sheaf__free(m.files);
    return status;
}

static sheaf_status delete_file(char *path, sheaf_error *err)
{
    if (!path)
        return sheaf__no_memory(err, "the name of a file");
    sheaf_error fault = {0};
    sheaf_status status = sheaf__file_unlink(path, &fault);
    sheaf__free(path);
    return status >= 0 || status == SHEAF_ERR_NOT_FOUND ? SHEAF_OK : sheaf__error_copy(err, &fault);
}

sheaf_status sheaf__bundle_delete(const char *prefix, sheaf_error *err)
{
    SHEAF__TRY(delete_file(sheaf__bundle_index_path(prefix), err));
    SHEAF__TRY(delete_data(prefix, 0, err));
    return delete_file(sheaf__sidecar_path(prefix), err);
}
