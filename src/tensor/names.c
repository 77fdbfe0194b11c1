/* SPDX-License-Identifier: Apache-2.0 */
/* Names of elements' tensors: one copy of each in a context. */
#include "base/error.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/thread.h"
#include "tensor/element.h"
#include "tensor/world.h"

#include <stdio.h>
#include <string.h>

#define POSITIONS 64
static const char positions[POSITIONS][3] = {
    "0",  "1",  "2",  "3",  "4",  "5",  "6",  "7",  "8",  "9",  "10", "11", "12", "13", "14", "15",
    "16", "17", "18", "19", "20", "21", "22", "23", "24", "25", "26", "27", "28", "29", "30", "31",
    "32", "33", "34", "35", "36", "37", "38", "39", "40", "41", "42", "43", "44", "45", "46", "47",
    "48", "49", "50", "51", "52", "53", "54", "55", "56", "57", "58", "59", "60", "61", "62", "63",
};

struct sheaf__names {
    struct sheaf__mutex lock;
    struct sheaf__strmap map; /* name to its copy */
};

struct sheaf__names *sheaf__names_new(sheaf_error *err)
{
    struct sheaf__names *names = sheaf__calloc(1, sizeof(*names));
    if (!names)
        sheaf__no_memory(err, "names");
    return names;
}

/* The static copy of "" and of positions; NULL for other names. */
static const char *static_name(const char *name)
{
    if (!name[0])
        return "";
    if (name[0] < '0' || name[0] > '9')
        return NULL;
    unsigned i = (unsigned)(name[0] - '0');
    if (name[1] >= '0' && name[1] <= '9' && i > 0 && !name[2])
        i = i * 10 + (unsigned)(name[1] - '0');
    else if (name[1])
        return NULL;
    return i < POSITIONS ? positions[i] : NULL;
}

void sheaf__names_delete(struct sheaf__names *names)
{
    if (names)
        sheaf__strmap_clear(&names->map, sheaf__free);
    sheaf__free(names);
}

const char *sheaf__name(const char *name)
{
    const char *found = static_name(name);
    if (found)
        return found;
    struct sheaf__world *world = sheaf__world(NULL);
    if (!world)
        return NULL;
    struct sheaf__names *names = world->names;
    sheaf__mutex_lock(&names->lock);
    char *copy = sheaf__strmap_get(&names->map, name);
    if (!copy) {
        copy = sheaf__strdup(name);
        if (copy && !sheaf__strmap_set(&names->map, name, copy, NULL)) {
            sheaf__free(copy);
            copy = NULL;
        }
    }
    sheaf__mutex_unlock(&names->lock);
    return copy;
}

const char *sheaf__name_of(size_t i)
{
    char text[24];
    if (i < POSITIONS)
        return positions[i];
    snprintf(text, sizeof(text), "%zu", i);
    return sheaf__name(text);
}

/* Length of the name up to its first dot. */
static size_t first_segment(const char *name)
{
    return strcspn(name, ".");
}

static bool is_position(const char *name, size_t i)
{
    const char *position = sheaf__name_of(i);
    return position && strlen(position) == first_segment(name) &&
           !memcmp(name, position, strlen(position));
}

char sheaf__name_pattern(const char *const *names, size_t stride, size_t count)
{
    const char *at = (const char *)names;
    size_t next = 0;
    for (size_t i = 0; i < count; i++, at += stride) {
        const char *name = *(const char *const *)(const void *)at;
        if (count == 1 && !name[0])
            return 0;
        if (next > 0 && is_position(name, next - 1))
            continue;
        if (!is_position(name, next))
            return '{';
        next++;
    }
    return '(';
}
