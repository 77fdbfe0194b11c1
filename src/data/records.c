/* SPDX-License-Identifier: Apache-2.0 */
#include "data/records.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/files.h"

/* Records of the files that the input names, one file after the other, as views of the files: what
 * the stages of TFRecords, lines and records of fixed size have in common. */

struct records {
    struct sheaf__params params;
    struct sheaf__record_options options;
    sheaf_error error;
};

struct records_iter {
    struct sheaf__iter base;
    struct sheaf__record_source *source; /* NULL: between files */
};

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const struct records *p = (const void *)d->params;
    if (p->error.status < 0)
        return sheaf__error_copy(err, &p->error);
    SHEAF__TRY(sheaf__files_check(d, err));
    sheaf_element_spec_free(d->spec);
    d->spec = sheaf__spec_of_tensor(SHEAF_STRING, SHEAF_SCALAR, err);
    d->cardinality = SHEAF_UNKNOWN;
    return d->spec ? SHEAF_OK : err->status;
}

static sheaf_status open_next(struct records_iter *it, sheaf_error *err)
{
    const struct records *p = sheaf__iter_params(&it->base);
    char *path = NULL;
    sheaf_status status = sheaf__files_next(it->base.inputs[0], &path, err);
    if (status == SHEAF_OK)
        status = sheaf__record_source_open(path, &p->options, &it->source, err);
    sheaf__free(path);
    return status;
}

static void close_file(struct records_iter *it)
{
    sheaf__record_source_free(it->source);
    it->source = NULL;
}

/* Some records of the open file. Behind a record with a bad CRC the file can be read on; any other
 * error ends it, and the next call goes on with the next file. */
static sheaf_status read_some(struct records_iter *it, size_t want, struct sheaf__rows *rows,
                              sheaf_error *err)
{
    struct sheaf__block *block;
    size_t room, count = 0;
    struct sheaf__object *owner = NULL;
    SHEAF__TRY(sheaf__rows_room(rows, it->base.dataset->spec, want, &block, &room, err));
    sheaf_tensor *column = block->columns->items[0].tensor;
    uint64_t before = sheaf__record_source_position(it->source, NULL);
    sheaf_status status = sheaf__record_source_next(
        it->source, (sheaf_bytes *)column->data + block->first + block->count, room, &count, &owner,
        err);
    if (status == SHEAF_OK && block->kept != owner) {
        status = sheaf__string_keep(column, owner, err);
        block->kept = owner;
    }
    if (status == SHEAF_OK)
        sheaf__rows_grow(rows, block, count);
    else if (status == SHEAF_END || sheaf__record_source_position(it->source, NULL) == before)
        close_file(it);
    return status;
}

static sheaf_status next(struct sheaf__iter *base, size_t want, struct sheaf__rows *rows,
                         sheaf_error *err)
{
    struct records_iter *it = (struct records_iter *)base;
    size_t before = rows->count;
    while (rows->count - before < want) {
        if (!it->source) {
            sheaf_status status = open_next(it, err);
            if (status != SHEAF_OK)
                return status;
        }
        sheaf_status status = read_some(it, want - (rows->count - before), rows, err);
        if (status < 0)
            return status;
    }
    return SHEAF_OK;
}

static void stop(struct sheaf__iter *base)
{
    close_file((struct records_iter *)base);
}

const struct sheaf__stage_ops sheaf__records_ops = {
    .describe = describe,
    .iter_size = sizeof(struct records_iter),
    .next = next,
    .stop = stop,
};

sheaf_dataset *sheaf__records_of(enum sheaf__stage_id id, sheaf_dataset *names,
                                 const struct sheaf__record_options *options,
                                 const sheaf_error *err)
{
    struct records *p = sheaf__params_new(sizeof(*p), id);
    if (p) {
        p->options = *options;
        p->error = *err;
    }
    return sheaf__dataset_new(id, p, &names, 1);
}
