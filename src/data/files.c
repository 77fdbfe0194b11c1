/* SPDX-License-Identifier: Apache-2.0 */
#include "data/files.h"

#include "base/error.h"
#include "base/mem.h"
#include "data/from_slices.h"
#include "data/function.h"

static sheaf_status check_names(const char *const *paths, size_t count, sheaf_error *err)
{
    if (!paths && count > 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "the list of %zu names of files is NULL", count);
    for (size_t i = 0; i < count; i++)
        if (!paths[i])
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "name %zu of %zu files is NULL",
                                i + 1, count);
    return SHEAF_OK;
}

sheaf_dataset *sheaf__files_of(enum sheaf__stage_id id, const char *const *paths, size_t count)
{
    sheaf_error err = {0};
    if (check_names(paths, count, &err) < 0)
        return sheaf__dataset_failed(NULL, id, &err);
    sheaf_dataset *d = sheaf__from_strings(SHEAF__STAGE_FROM_SLICES, paths, count);
    d->number = 0;
    return d;
}

sheaf_dataset *sheaf__files_of_element(enum sheaf__stage_id id, const sheaf_element *e)
{
    sheaf_error err = {0};
    char *path = sheaf__path_of(e, &err);
    sheaf_dataset *d = path ? sheaf__files_of(id, (const char *const *)&path, 1)
                            : sheaf__dataset_failed(NULL, id, &err);
    sheaf__free(path);
    return d;
}

sheaf_status sheaf__files_check(const sheaf_dataset *d, sheaf_error *err)
{
    const sheaf_element_spec *names = d->inputs[0]->spec;
    if (names && (names->count != 1 || names->specs[0].dtype != SHEAF_STRING ||
                  names->specs[0].shape.rank > 0))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "the input is no dataset of names of files: string scalars");
    return SHEAF_OK;
}

sheaf_status sheaf__files_next(struct sheaf__iter *names, char **path, sheaf_error *err)
{
    struct sheaf__rows row = {0};
    sheaf_element *e = NULL;
    sheaf_status status = sheaf__iter_pull(names, 1, &row, err);
    if (status == SHEAF_OK) {
        e = sheaf__block_element(sheaf__rows_front(&row), 0, err);
        *path = e ? sheaf__path_of(e, err) : NULL;
        status = *path ? SHEAF_OK : err->status;
    }
    sheaf__unref(e);
    sheaf__rows_free(&row);
    return status;
}
