/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as text, and patterns of them. */
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"

#include <string.h>

char *sheaf__path_join(const char *directory, const char *name)
{
    size_t size = strlen(directory);
    if (size == 0)
        return sheaf__strdup(name);
    return sheaf__printf("%s%s%s", directory, directory[size - 1] == '/' ? "" : "/", name);
}

const char *sheaf__path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *sheaf__path_directory(const char *path)
{
    const char *name = sheaf__path_name(path);
    if (name == path)
        return sheaf__strdup(".");
    size_t size = (size_t)(name - path);
    while (size > 1 && path[size - 1] == '/')
        size--;
    return sheaf__strndup(path, size);
}

/* ---- patterns ---- */

/* Matches one character against the set that starts after "[": "a-z", "!x" or "^x" for none of
 * them, "]" first is itself. The end of the set goes to `*end`; NULL if it is not closed, and then
 * "[" is an ordinary character. */
static bool in_set(const char *set, char c, const char **end)
{
    bool negated = *set == '!' || *set == '^';
    const char *s = set + negated;
    bool found = false;
    const char *first = s;
    for (; *s && (*s != ']' || s == first); s++) {
        if (*s == '\\' && s[1])
            s++;
        unsigned char low = (unsigned char)*s;
        unsigned char high = low;
        if (s[1] == '-' && s[2] && s[2] != ']') {
            s += 2;
            if (*s == '\\' && s[1])
                s++;
            high = (unsigned char)*s;
        }
        if ((unsigned char)c >= low && (unsigned char)c <= high)
            found = true;
    }
    *end = *s ? s + 1 : NULL;
    return found != negated && c != '/';
}

/* Matches one pattern element against a character; `*next` is the pattern after it. */
static bool match_one(const char *pattern, char c, const char **next)
{
    const char *end;
    if (*pattern == '[') {
        bool matches = in_set(pattern + 1, c, &end);
        if (end) {
            *next = end;
            return matches;
        }
    } else if (*pattern == '?') {
        *next = pattern + 1;
        return c != '/';
    } else if (*pattern == '\\' && pattern[1]) {
        *next = pattern + 2;
        return c == pattern[1];
    }
    *next = pattern + 1;
    return c == *pattern;
}

bool sheaf__glob_match(const char *pattern, const char *text)
{
    /* Where to go on when the last star takes one character more. */
    const char *star = NULL;
    const char *star_text = NULL;
    for (;;) {
        const char *next;
        if (*pattern == '*') {
            star = ++pattern;
            star_text = text;
        } else if (*text && *pattern && match_one(pattern, *text, &next)) {
            pattern = next;
            text++;
        } else if (!*text && !*pattern) {
            return true;
        } else if (star && *star_text && *star_text != '/') {
            pattern = star;
            text = ++star_text;
        } else {
            return false;
        }
    }
}

static bool has_magic(const char *part, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (strchr("*?[\\", part[i]))
            return true;
    return false;
}

/* One level: adds to `out` what the part of the pattern matches in each directory of `in`. */
static sheaf_status expand(const struct sheaf__strings *in, const char *part, bool last,
                           struct sheaf__strings *out, sheaf_error *err)
{
    for (size_t i = 0; i < in->count; i++) {
        const char *directory = in->items[i];
        struct sheaf__strings names = {0};
        /* What is no directory, or may not be read, matches nothing. */
        sheaf_status status = sheaf__file_list(*directory ? directory : ".", &names, NULL);
        bool room = true;
        for (size_t k = 0; status == SHEAF_OK && k < names.count && room; k++) {
            if (!sheaf__glob_match(part, names.items[k]))
                continue;
            char *path = sheaf__path_join(directory, names.items[k]);
            struct sheaf__file_stat info;
            if (path && !last &&
                (sheaf__file_stat(path, &info, NULL) < 0 || info.kind != SHEAF__FILE_DIRECTORY))
                sheaf__free(path);
            else
                room = sheaf__strings_take(out, path);
        }
        sheaf__strings_clear(&names);
        if (!room || status == SHEAF_ERR_RESOURCE_EXHAUSTED)
            return sheaf__no_memory(err, "file names");
    }
    return SHEAF_OK;
}

/* A part without magic is appended without looking, except the last: the file must exist. */
static sheaf_status append(const struct sheaf__strings *in, const char *part, bool last,
                           struct sheaf__strings *out, sheaf_error *err)
{
    for (size_t i = 0; i < in->count; i++) {
        char *path = sheaf__path_join(in->items[i], part);
        if (path && last && !sheaf__file_exists(path))
            sheaf__free(path);
        else if (!sheaf__strings_take(out, path))
            return sheaf__no_memory(err, "file names");
    }
    return SHEAF_OK;
}

sheaf_status sheaf__file_glob(const char *directory, const char *pattern,
                              struct sheaf__strings *paths, sheaf_error *err)
{
    struct sheaf__strings found = {0};
    sheaf_status status = SHEAF_OK;
    const char *at = pattern;
    if (!directory || !*directory)
        directory = *at == '/' ? "/" : "";
    if (!sheaf__strings_add(&found, directory))
        return sheaf__no_memory(err, "file names");
    while (status == SHEAF_OK && *(at += strspn(at, "/"))) {
        size_t size = strcspn(at, "/");
        bool last = at[size + strspn(at + size, "/")] == '\0';
        char *part = sheaf__strndup(at, size);
        struct sheaf__strings next = {0};
        if (!part)
            status = sheaf__no_memory(err, "file names");
        else if (has_magic(part, size))
            status = expand(&found, part, last, &next, err);
        else
            status = append(&found, part, last, &next, err);
        sheaf__free(part);
        sheaf__strings_clear(&found);
        found = next;
        at += size;
    }
    for (size_t i = 0; i < found.count && status == SHEAF_OK; i++)
        if (*found.items[i] && !sheaf__strings_add(paths, found.items[i]))
            status = sheaf__no_memory(err, "file names");
    sheaf__strings_clear(&found);
    if (status == SHEAF_OK)
        sheaf__strings_sort(paths);
    return status;
}
