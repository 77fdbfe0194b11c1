/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/said.h"

#include "cli/task.h"

#include <stdlib.h>
#include <string.h>

/* "worker:12: " and something behind it. */
static bool is_error(const char *text, size_t size)
{
    for (int role = 0; role < SHEAF__ROLES; role++) {
        const char *name = sheaf__role_names[role];
        size_t at = strlen(name);
        if (size <= at || memcmp(text, name, at) != 0 || text[at++] != ':')
            continue;
        const size_t digits = at;
        while (at < size && text[at] >= '0' && text[at] <= '9')
            at++;
        return at > digits && at + 2 < size && text[at] == ':' && text[at + 1] == ' ';
    }
    return false;
}

bool sheaf__said_before(struct sheaf__said *said, const void *who, const char *text, size_t size)
{
    if (!is_error(text, size))
        return false;
    for (int i = 0; i < said->count; i++)
        if (strlen(said->lines[i].text) == size && memcmp(said->lines[i].text, text, size) == 0)
            return said->lines[i].who != who;
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
