/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/unlisted.h"

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/directory.h"

#include <string.h>

enum { MOST_BYTES = 1 << 16 };

static char *path_of(const char *directory, const char *name)
{
    return sheaf__printf("%s/.%s.unlisted", directory, name);
}

static void append(const char *path, const char *line)
{
    struct sheaf__file *file = NULL;
    uint64_t size;
    if (sheaf__file_open(path, SHEAF__FILE_UPDATE, &file, NULL) < 0)
        return;
    if (sheaf__file_size(file, &size, NULL) >= 0 && size < MOST_BYTES / 2)
        (void)sheaf__file_write_at(file, size, line, strlen(line), NULL);
    (void)sheaf__file_close(file, NULL);
}

void sheaf__unlisted_note(const char *directory, const char *name, const char *path)
{
    char *file = path_of(directory, name);
    char *line = sheaf__printf("%s\n", sheaf__path_name(path));
    if (file && line)
        append(file, line);
    sheaf__free(line);
    sheaf__free(file);
}

sheaf_status sheaf__unlisted_find(const char *directory, const char *name,
                                  struct sheaf__strings *found, sheaf_error *err)
{
    char *file = path_of(directory, name), *text = NULL;
    size_t size;
    bool enough = file != NULL;
    if (file && sheaf__file_read_all(file, MOST_BYTES, &text, &size, NULL) >= 0)
        for (const char *line = text, *end; enough && (end = strchr(line, '\n')); line = end + 1)
            if (sheaf__directory_number(line, (size_t)(end - line), name) >= 0) {
                char *checkpoint = sheaf__strndup(line, (size_t)(end - line));
                enough = checkpoint && sheaf__strings_take(found, checkpoint);
            }
    sheaf__free(text);
    sheaf__free(file);
    return enough ? SHEAF_OK : sheaf__no_memory(err, "a checkpoint manager");
}

/* The text without the lines that are `name`. */
static void drop_lines(char *text, const char *name)
{
    const size_t size = strlen(name);
    for (char *line = text, *end; (end = strchr(line, '\n'));)
        if ((size_t)(end - line) == size && memcmp(line, name, size) == 0)
            memmove(line, end + 1, strlen(end + 1) + 1);
        else
            line = end + 1;
}

void sheaf__unlisted_withdraw(const char *directory, const char *name, const char *path)
{
    char *file = path_of(directory, name), *text = NULL;
    size_t size;
    if (file && !sheaf__directory_has(path) &&
        sheaf__file_read_all(file, MOST_BYTES, &text, &size, NULL) >= 0) {
        drop_lines(text, sheaf__path_name(path));
        if (*text)
            (void)sheaf__file_replace(file, text, strlen(text), NULL);
        else
            (void)sheaf__file_unlink(file, NULL);
    }
    sheaf__free(text);
    sheaf__free(file);
}

void sheaf__unlisted_clear(const char *directory, const char *name)
{
    char *file = path_of(directory, name);
    if (file)
        (void)sheaf__file_unlink(file, NULL);
    sheaf__free(file);
}
