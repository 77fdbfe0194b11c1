/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/mem.h"
#include "format/record.h"
#include "format/window.h"

#include <string.h>

/* A line that had to be copied, to get rid of what is inside it. */
struct copy {
    struct sheaf__object object;
    char text[];
};

static void copy_destroy(void *object)
{
    sheaf__free(object);
}

static const struct sheaf__class copy_class = {"line", copy_destroy};

/* The next line: `*size` bytes, with its line end `*whole`. */
static sheaf_status look(const struct sheaf__record_cursor *c, size_t *size, size_t *whole)
{
    const uint8_t *line = sheaf__record_cursor_at(c);
    size_t left = sheaf__record_cursor_left(c);
    const uint8_t *end = left > 0 ? memchr(line, '\n', left) : NULL;
    if (!end && c->more)
        return SHEAF_PENDING;
    *size = end ? (size_t)(end - line) : left;
    *whole = end ? *size + 1 : left;
    while (*size > 0 && line[*size - 1] == '\r')
        --*size;
    return end || *size > 0 ? SHEAF_OK : SHEAF_END;
}

static void step(struct sheaf__record_cursor *c, size_t whole)
{
    c->offset += whole;
    c->record++;
}

static sheaf_status copy_line(struct sheaf__record_cursor *c, size_t size, sheaf_bytes *line,
                              sheaf_error *err)
{
    struct copy *copy = sheaf__alloc(sizeof(*copy) + size);
    if (!copy)
        return sheaf__no_memory(err, "a line");
    sheaf__object_init(&copy->object, &copy_class);
    const char *from = (const char *)sheaf__record_cursor_at(c);
    size_t n = 0;
    for (size_t i = 0; i < size; i++)
        if (from[i] != '\r')
            copy->text[n++] = from[i];
    *line = (sheaf_bytes){copy->text, n};
    c->copy = &copy->object;
    return SHEAF_OK;
}

static sheaf_status next(struct sheaf__record_cursor *c, sheaf_bytes *lines, size_t capacity,
                         size_t *count, sheaf_error *err)
{
    size_t n = 0;
    sheaf_status status = SHEAF_OK;
    sheaf__unref(c->copy);
    c->copy = NULL;
    while (n < capacity && !c->copy) {
        size_t size = 0, whole = 0;
        status = look(c, &size, &whole);
        if (status != SHEAF_OK)
            break;
        const char *line = (const char *)sheaf__record_cursor_at(c);
        lines[n] = (sheaf_bytes){line, size};
        if (size > 0 && memchr(line, '\r', size)) {
            if (n > 0) /* a copy has an owner of its own: it comes alone */
                break;
            status = copy_line(c, size, &lines[n], err);
            if (status < 0)
                break;
        }
        n++;
        step(c, whole);
    }
    *count = n;
    return n > 0 ? SHEAF_OK : status;
}

static sheaf_status skip(struct sheaf__record_cursor *c, uint64_t count, uint64_t *skipped,
                         sheaf_error *err)
{
    uint64_t n = 0;
    sheaf_status status = SHEAF_OK;
    (void)err;
    while (n < count) {
        size_t size = 0, whole = 0;
        status = look(c, &size, &whole);
        if (status != SHEAF_OK)
            break;
        step(c, whole);
        n++;
    }
    *skipped = n;
    return n > 0 ? SHEAF_OK : status;
}

/* A line can be of any length: twice as much as was not enough. */
static uint64_t need(const struct sheaf__record_cursor *c)
{
    return 2 * (uint64_t)sheaf__record_cursor_left(c) + 1;
}

const struct sheaf__framing sheaf__framing_lines = {
    .next = next,
    .skip = skip,
    .need = need,
    .sniff = sheaf__window_sniff_text,
};
