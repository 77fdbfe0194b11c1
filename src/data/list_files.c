/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "data/from_slices.h"

/* Names of files that match patterns, shuffled anew for each iteration unless told not to (R9.23).
 * Built of a source of the sorted names and a shuffle, so that auto-sharding can move the shuffle
 * behind the shard (R2.16). */

static sheaf_status find(const char *const *patterns, size_t count,
                         const sheaf_list_files_options *o, struct sheaf__strings *paths,
                         sheaf_error *err)
{
    SHEAF__TRY(sheaf__reserved_check(o->reserved, err));
    if (!patterns || count == 0)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "there is no pattern");
    for (size_t i = 0; i < count; i++) {
        if (!patterns[i])
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "pattern %zu is NULL", i);
        SHEAF__TRY(sheaf__file_glob(o->directory, patterns[i], paths, err));
    }
    if (paths->count > 0)
        return SHEAF_OK;
    const char *below = o->directory ? o->directory : "";
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "no files matched pattern \"%s%s%s\"%s",
                        below, *below && !sheaf__str_ends(below, "/") ? "/" : "", patterns[0],
                        count > 1 ? " or any of the others" : "");
}

sheaf_dataset *sheaf_list_files_patterns(const char *const *patterns, size_t count,
                                         const sheaf_list_files_options *options)
{
    const sheaf_list_files_options o = options ? *options : (sheaf_list_files_options){0};
    struct sheaf__strings paths = {0};
    sheaf_error err = {0};
    sheaf_dataset *d;
    if (find(patterns, count, &o, &paths, &err) < 0) {
        d = sheaf__dataset_failed(NULL, SHEAF__STAGE_LIST_FILES, &err);
    } else {
        d = sheaf__from_strings(SHEAF__STAGE_LIST_FILES, (const char *const *)paths.items,
                                paths.count);
        const sheaf_shuffle_options shuffle = {.seed = o.seed, .has_seed = o.has_seed};
        if (!o.no_shuffle) {
            d->number = 0; /* both are one stage for the user */
            d = sheaf_dataset_shuffle(d, (int64_t)paths.count, &shuffle);
        }
    }
    sheaf__strings_clear(&paths);
    return d;
}

sheaf_dataset *sheaf_list_files(const char *pattern, const sheaf_list_files_options *options)
{
    return sheaf_list_files_patterns(&pattern, 1, options);
}
