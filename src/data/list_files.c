/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/from_slices.h"

#include <stdlib.h>
#include <string.h>

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

/* ---- sets: "<stem>-00002-of-00004<rest>" ---- */

struct member {
    size_t stem;        /* bytes before the number */
    int width;          /* digits of the number */
    long number, count; /* of the member; of all */
    const char *tail;   /* "-of-00004<rest>" */
};

static bool parse_member(const char *path, struct member *m)
{
    for (const char *of = path; (of = strstr(of, "-of-")); of++) {
        const char *number = of;
        while (number > path && number[-1] >= '0' && number[-1] <= '9')
            number--;
        if (number == of || number == path || number[-1] != '-' || of[4] < '0' || of[4] > '9')
            continue;
        *m = (struct member){.stem = (size_t)(number - path),
                             .width = (int)(of - number),
                             .number = strtol(number, NULL, 10),
                             .count = strtol(of + 4, NULL, 10),
                             .tail = of};
        return m->number < m->count;
    }
    return false;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names one member of the file's set that is not among the paths, which are sorted. */
static sheaf_status check_set(const struct sheaf__strings *paths, const char *path,
                              const struct member *m, sheaf_error *err)
{
    sheaf_status status = SHEAF_OK;
    for (long i = 0; i < m->count && status >= 0; i++) {
        char *name = sheaf__printf("%.*s%0*ld%s", (int)m->stem, path, m->width, i, m->tail);
        if (!name)
            status = sheaf__no_memory(err, "the name of a file");
        else if (!bsearch(&name, paths->items, paths->count, sizeof(name), compare_paths))
            status =
                sheaf__error(err, SHEAF_ERR_NOT_FOUND,
                             "file %s is missing, expected all %ld of its set", name, m->count);
        sheaf__free(name);
    }
    return status;
}

/* Of each set the first file speaks: the one before it is of another. */
static sheaf_status check_complete(const struct sheaf__strings *paths, sheaf_error *err)
{
    struct sheaf__strings sorted = {0};
    struct member m, before = {0};
    sheaf_status status = SHEAF_OK;
    for (size_t i = 0; i < paths->count && status >= 0; i++)
        if (!sheaf__strings_add(&sorted, paths->items[i]))
            status = sheaf__no_memory(err, "the names of files");
    sheaf__strings_sort(&sorted);
    for (size_t i = 0; i < sorted.count && status >= 0; i++) {
        const char *path = sorted.items[i];
        if (!parse_member(path, &m)) {
            before.tail = NULL;
            continue;
        }
        const bool again = before.tail && before.stem == m.stem && before.width == m.width &&
                           strncmp(path, sorted.items[i - 1], m.stem) == 0 &&
                           strcmp(before.tail, m.tail) == 0;
        if (!again)
            status = check_set(&sorted, path, &m, err);
        before = m;
    }
    sheaf__strings_clear(&sorted);
    return status;
}

sheaf_dataset *sheaf_list_files_patterns(const char *const *patterns, size_t count,
                                         const sheaf_list_files_options *options)
{
    const sheaf_list_files_options o = options ? *options : (sheaf_list_files_options){0};
    struct sheaf__strings paths = {0};
    sheaf_error err = {0};
    sheaf_dataset *d;
    sheaf_status status = find(patterns, count, &o, &paths, &err);
    if (status >= 0 && o.complete)
        status = check_complete(&paths, &err);
    if (status < 0) {
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
