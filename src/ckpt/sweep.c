/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/sweep.h"

#include "base/array.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/directory.h"
#include "ckpt/unlisted.h"
#include "format/bundle.h"

#include <stddef.h>
#include <string.h>

/* What follows "<start>N-of-M" in `file`; NULL: it does not begin so. */
static const char *after_count(const char *file, const char *start)
{
    static const char digits[] = "0123456789", of[] = "-of-";
    if (!sheaf__str_starts(file, start))
        return NULL;
    file += strlen(start);
    const size_t number = strspn(file, digits);
    if (!number || !sheaf__str_starts(file + number, of))
        return NULL;
    file += number + strlen(of);
    const size_t count = strspn(file, digits);
    return count ? file + count : NULL;
}

/* What a save puts into its temporary directory; the directory may have been somebody's before. */
static bool is_of_save(const char *file)
{
    static const char index[] = ".index";
    const char *rest = after_count(file, "part-");
    if (sheaf__str_starts(file, SHEAF__SWEEP_TOKEN))
        rest = file + strlen(SHEAF__SWEEP_TOKEN);
    else if (rest)
        rest = sheaf__str_starts(rest, index) ? rest + strlen(index) : after_count(rest, ".data-");
    return rest && (!*rest || (sheaf__str_starts(rest, ".tmp-") && sheaf__file_is_temporary(rest)));
}

/* Deletes what a save put there; how many files. */
static size_t empty(const char *path)
{
    struct sheaf__strings names = {0};
    size_t gone = 0;
    (void)sheaf__file_list(path, &names, NULL);
    for (size_t i = 0; i < names.count; i++) {
        char *file = is_of_save(names.items[i]) ? sheaf__path_join(path, names.items[i]) : NULL;
        gone += file && sheaf__file_unlink(file, NULL) >= 0;
        sheaf__free(file);
    }
    sheaf__strings_clear(&names);
    return gone;
}

/* A task that has not heard yet that the save is given up may put files into it until it is gone. What stays
 * though nothing came is not ours to take away. */
void sheaf__sweep_temporary(const char *path)
{
    enum { MOST_TRIES = 64 };
    bool goes_on = !sheaf__file_is_link(path);
    for (int i = 0; i < MOST_TRIES && goes_on; i++) {
        const size_t gone = empty(path);
        goes_on = sheaf__file_rmdir(path, NULL) < 0 && (gone > 0 || i == 0);
    }
}

sheaf_status sheaf__sweep_make_temporary(const char *path, sheaf_error *err)
{
    const struct sheaf__place where = {path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    struct sheaf__file_stat stat;
    if (sheaf__file_is_link(path))
        return sheaf__error_at(err, SHEAF_ERR_FAILED_PRECONDITION, &where,
                               "found a symbolic link, expected a directory for the parts of the "
                               "checkpoint, or nothing");
    if (sheaf__file_stat(path, &stat, NULL) >= 0 && stat.kind != SHEAF__FILE_DIRECTORY)
        return sheaf__error_at(err, SHEAF_ERR_FAILED_PRECONDITION, &where,
                               "found a file, expected a directory for the parts of the "
                               "checkpoint, or nothing");
    sheaf__sweep_temporary(path);
    return sheaf__file_mkdir(path, 0, err);
}

void sheaf__sweep_file(const char *path)
{
    size_t count;
    if (path)
        (void)sheaf__file_sweep(path, &count, NULL);
}

void sheaf__sweep_beside(const char *path)
{
    char *index = sheaf__bundle_index_path(path), *sidecar = sheaf__sidecar_path(path);
    sheaf__sweep_file(index);
    sheaf__sweep_file(sidecar);
    sheaf__free(sidecar);
    sheaf__free(index);
}

void sheaf__sweep_unfinished(const char *path)
{
    if (!sheaf__directory_has(path))
        (void)sheaf__bundle_delete(path, NULL);
}

/* What follows "<name>-N" in `file`; NULL: it does not begin so. */
static const char *after_number(const char *file, const char *name)
{
    const size_t size = strlen(name);
    if (strncmp(file, name, size) != 0 || file[size] != '-')
        return NULL;
    const size_t n = strspn(file + size + 1, "0123456789");
    return n > 0 ? file + size + 1 + n : NULL;
}

/* Whether `file` is what was to become "<start><end>". */
static bool replaces(const char *file, const char *start, const char *end)
{
    if (!file || !sheaf__str_starts(file, start))
        return false;
    file += strlen(start);
    return sheaf__str_starts(file, end) && sheaf__str_starts(file + strlen(end), ".tmp-") &&
           sheaf__file_is_temporary(file + strlen(end));
}

static void sweep_one(const char *directory, const char *file, const char *name)
{
    const bool hidden = file[0] == '.';
    const char *rest = after_number(file + hidden, name);
    const bool replaced =
        hidden ? replaces(rest, "", ".sheaf") || replaces(file + hidden, name, ".unlisted")
               : replaces(rest, "", ".index") || replaces(file, "checkpoint", "");
    const bool temporary = !hidden && rest && strcmp(rest, "_temp") == 0;
    char *path = replaced || temporary ? sheaf__path_join(directory, file) : NULL;
    if (path && replaced)
        (void)sheaf__file_unlink(path, NULL);
    else if (path)
        sheaf__sweep_temporary(path);
    sheaf__free(path);
}

/* What was begun, or began to be deleted, and is not complete. Its note goes, too: what has that name later may
 * be what somebody copies there. */
static void sweep_unlisted(const char *directory, const char *name)
{
    struct sheaf__strings found = {0};
    (void)sheaf__unlisted_find(directory, name, &found, NULL);
    for (size_t i = 0; i < found.count; i++) {
        char *path = sheaf__path_join(directory, found.items[i]);
        if (path) {
            sheaf__sweep_unfinished(path);
            sheaf__unlisted_withdraw(directory, name, path);
        }
        sheaf__free(path);
    }
    sheaf__strings_clear(&found);
}

void sheaf__sweep_leftovers(const char *directory, const char *name)
{
    struct sheaf__strings files = {0};
    if (sheaf__file_list(directory, &files, NULL) >= 0)
        for (size_t i = 0; i < files.count; i++)
            sweep_one(directory, files.items[i], name);
    sheaf__strings_clear(&files);
    sweep_unlisted(directory, name);
}
