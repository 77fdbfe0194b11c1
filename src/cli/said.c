/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/said.h"

#include "cli/task.h"

#include <stdlib.h>
#include <string.h>

/* Length of "worker:12: ", if there is something behind it. */
static size_t origin(const char *text, size_t size)
{
    for (int role = 0; role < SHEAF__ROLES; role++) {
        const char *name = sheaf__role_names[role];
        size_t at = strlen(name);
        if (size <= at || memcmp(text, name, at) != 0 || text[at++] != ':')
            continue;
        const size_t digits = at;
        while (at < size && text[at] >= '0' && text[at] <= '9')
            at++;
        return at > digits && at + 2 < size && text[at] == ':' && text[at + 1] == ' ' ? at + 2 : 0;
    }
    return 0;
}

/* Whether two errors end alike. Who repeats one may say before it what it was about itself. */
static bool end_alike(const char *a, size_t a_size, const char *b, size_t b_size)
{
    if (a_size < b_size)
        return end_alike(b, b_size, a, a_size);
    const size_t before = a_size - b_size;
    return memcmp(a + before, b, b_size) == 0 &&
           (before == 0 || (before > 2 && memcmp(a + before - 2, ": ", 2) == 0));
}

bool sheaf__said_before(struct sheaf__said *said, const void *who, const char *text, size_t size)
{
    const size_t behind = origin(text, size);
    if (behind == 0)
        return false;
    for (int i = 0; i < said->count; i++) {
        const char *line = said->lines[i].text;
        const size_t length = strlen(line), at = origin(line, length);
        if (end_alike(line + at, length - at, text + behind, size - behind))
            return said->lines[i].who != who;
    }
    char *copy = said->count < SHEAF__SAID_MOST ? strndup(text, size) : NULL;
    if (copy) {
        said->lines[said->count].text = copy;
        said->lines[said->count++].who = who;
    }
    return false;
}

void sheaf__said_free(struct sheaf__said *said)
{
    for (int i = 0; i < said->count; i++)
        free(said->lines[i].text);
    said->count = 0;
}
