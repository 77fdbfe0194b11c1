/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/sweep.h"

#include "base/array.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/directory.h"
#include "format/bundle.h"

#include <stddef.h>
#include <string.h>

/* False if it cannot even be looked into: it is gone, or will stay. */
static bool empty(const char *path)
{
    struct sheaf__strings names = {0};
    const bool there = sheaf__file_list(path, &names, NULL) >= 0;
    for (size_t i = 0; there && i < names.count; i++) {
        char *file = sheaf__path_join(path, names.items[i]);
        if (file)
            (void)sheaf__file_unlink(file, NULL);
        sheaf__free(file);
    }
    sheaf__strings_clear(&names);
    return there;
}

/* A task that has not heard yet that the save is given up may put files into it until it is gone. */
void sheaf__sweep_temporary(const char *path)
{
    enum { MOST_TRIES = 64 };
    for (int i = 0; i < MOST_TRIES && empty(path); i++)
        if (sheaf__file_rmdir(path, NULL) >= 0)
            return;
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

static void sweep_one(const char *directory, const char *file, const char *name)
{
    const char *rest = after_number(file[0] == '.' ? file + 1 : file, name);
    const bool replaces =
        sheaf__file_is_temporary(file) &&
        (rest || sheaf__str_starts(file, "checkpoint.tmp-") || sheaf__str_starts(file, name));
    const bool temporary = rest && strcmp(rest, "_temp") == 0;
    char *path = replaces || temporary ? sheaf__path_join(directory, file) : NULL;
    if (path && replaces)
        (void)sheaf__file_unlink(path, NULL);
    else if (path)
        sheaf__sweep_temporary(path);
    sheaf__free(path);
}

void sheaf__sweep_leftovers(const char *directory, const char *name)
{
    struct sheaf__strings files = {0};
    if (sheaf__file_list(directory, &files, NULL) >= 0)
        for (size_t i = 0; i < files.count; i++)
            sweep_one(directory, files.items[i], name);
    sheaf__strings_clear(&files);
}
