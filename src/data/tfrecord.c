/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/mem.h"
#include "data/from_slices.h"
#include "data/function.h"
#include "format/record.h"

/* Records of the files that the input names, one file after the other, as views of the files. */

struct tfrecord_iter {
    struct sheaf__iter base;
    struct sheaf__rows name;
    struct sheaf__record_source *source; /* NULL: between files */
};

static sheaf_status describe(sheaf_dataset *d, sheaf_error *err)
{
    const sheaf_element_spec *names = d->spec;
    if (names && (names->count != 1 || names->specs[0].dtype != SHEAF_STRING ||
                  names->specs[0].shape.rank > 0))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "the input is no dataset of names of files: string scalars");
    sheaf_element_spec_free(d->spec);
    d->spec = sheaf__spec_of_tensor(SHEAF_STRING, SHEAF_SCALAR, err);
    d->cardinality = SHEAF_UNKNOWN;
    return d->spec ? SHEAF_OK : err->status;
}

static sheaf_status open_named(struct tfrecord_iter *it, sheaf_error *err)
{
    sheaf_element *e = sheaf__block_element(sheaf__rows_front(&it->name), 0, err);
    if (!e)
        return err->status;
    char *path = sheaf__path_of(e, err);
    sheaf_status status =
        path ? sheaf__record_source_open(path, NULL, &it->source, err) : err->status;
    sheaf__free(path);
    sheaf__unref(e);
    return status;
}

static sheaf_status open_next(struct tfrecord_iter *it, sheaf_error *err)
{
    sheaf_status status = sheaf__iter_pull(it->base.inputs[0], 1, &it->name, err);
    if (status != SHEAF_OK)
        return status;
    status = open_named(it, err);
    sheaf__rows_clear(&it->name);
    return status;
}

static void close_file(struct tfrecord_iter *it)
{
    sheaf__record_source_free(it->source);
    it->source = NULL;
}

/* Some records of the open file. Behind a record with a bad CRC the file can be read on; any other
 * error ends it, and the next call goes on with the next file. */
static sheaf_status read_some(struct tfrecord_iter *it, size_t want, struct sheaf__rows *rows,
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
    struct tfrecord_iter *it = (struct tfrecord_iter *)base;
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
    struct tfrecord_iter *it = (struct tfrecord_iter *)base;
    close_file(it);
    sheaf__rows_free(&it->name);
}

const struct sheaf__stage_ops sheaf__tfrecord_ops = {
    .describe = describe,
    .iter_size = sizeof(struct tfrecord_iter),
    .next = next,
    .stop = stop,
};

static sheaf_dataset *over_names(sheaf_dataset *names)
{
    names->number = 0; /* one stage for the user, who named the files in it */
    return sheaf__dataset_new(
        SHEAF__STAGE_TFRECORD,
        sheaf__params_new(sizeof(struct sheaf__params), SHEAF__STAGE_TFRECORD), &names, 1);
}

sheaf_dataset *sheaf_tfrecord_files(const char *const *paths, size_t count)
{
    return over_names(sheaf__from_strings(SHEAF__STAGE_FROM_SLICES, paths, count));
}

sheaf_dataset *sheaf_tfrecord(const char *path)
{
    return sheaf_tfrecord_files(&path, 1);
}

sheaf_dataset *sheaf_open_tfrecord(const sheaf_element *in, void *user)
{
    (void)user;
    sheaf_error err = {0};
    char *path = sheaf__path_of(in, &err);
    sheaf_dataset *d =
        path ? sheaf_tfrecord(path) : sheaf__dataset_failed(NULL, SHEAF__STAGE_TFRECORD, &err);
    sheaf__free(path);
    return d;
}
