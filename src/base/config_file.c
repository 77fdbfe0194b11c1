/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config_file.h"

#include "base/error.h"
#include "base/file.h"

#include <string.h>

enum { LIMIT = 1 << 20 };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Without blanks at both ends; writes into the text. */
static char *trim(char *text)
{
    while (is_blank(*text))
        text++;
    size_t size = strlen(text);
    while (size && is_blank(text[size - 1]))
        size--;
    text[size] = '\0';
    return text;
}

static size_t find(const char *name)
{
    size_t id = 0;
    while (id < SHEAF__CONFIG_COUNT && strcmp(sheaf_config_get(id)->name, name) != 0)
        id++;
    return id;
}

static sheaf_status read_line(const char *path, size_t number, char *line,
                              struct sheaf__config_line *lines, sheaf_error *err)
{
    const struct sheaf__place where = {path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    char *name = trim(line), *equals = strchr(name, '=');
    if (!*name || *name == '#')
        return SHEAF_OK;
    if (!equals)
        return sheaf__error_at(err, SHEAF_ERR_INVALID_ARGUMENT, &where,
                               "line %zu: found \"%s\", expected NAME = value", number, name);
    *equals = '\0';
    name = trim(name);
    const size_t id = find(name);
    if (id == SHEAF__CONFIG_COUNT || id == SHEAF__CONFIG_CONFIG)
        return sheaf__error_at(err, SHEAF_ERR_INVALID_ARGUMENT, &where,
                               "line %zu: found \"%s\", expected a variable that sheaf --help "
                               "lists, but for SHEAF_CONFIG",
                               number, name);
    if (lines[id].text)
        return sheaf__error_at(err, SHEAF_ERR_INVALID_ARGUMENT, &where,
                               "line %zu: %s is in line %zu already", number, name,
                               lines[id].number);
    lines[id] = (struct sheaf__config_line){trim(equals + 1), number};
    return SHEAF_OK;
}

sheaf_status sheaf__config_file_read(const char *path,
                                     struct sheaf__config_line lines[SHEAF__CONFIG_COUNT],
                                     char **memory, sheaf_error *err)
{
    size_t size = 0, number = 1;
    SHEAF__TRY(sheaf__file_read_all(path, LIMIT, memory, &size, err));
    for (char *line = *memory, *end = *memory + size; line < end; number++) {
        char *newline = memchr(line, '\n', (size_t)(end - line));
        char *next = newline ? newline + 1 : end;
        if (newline)
            *newline = '\0';
        SHEAF__TRY(read_line(path, number, line, lines, err));
        line = next;
    }
    return SHEAF_OK;
}
