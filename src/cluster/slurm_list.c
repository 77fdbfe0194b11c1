/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/slurm_list.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"

#include <string.h>

/* Reading goes forward over the text; `whole` is what errors quote. */
struct reader {
    const char *whole;
    const char *at;
    const char *what;
    sheaf_error *err;
};

static sheaf_status bad(const struct reader *r, const char *expected)
{
    return sheaf__error(r->err, SHEAF_ERR_INVALID_ARGUMENT,
                        "%s \"%s\": found \"%.20s\" at character %zu, expected %s", r->what,
                        r->whole, *r->at ? r->at : "the end", (size_t)(r->at - r->whole) + 1,
                        expected);
}

static sheaf_status too_long(const struct reader *r)
{
    return sheaf__error(r->err, SHEAF_ERR_RESOURCE_EXHAUSTED,
                        "%s \"%s\": more than %d entries, which is the limit", r->what, r->whole,
                        SHEAF__SLURM_LIST_MAX);
}

/* A run of digits as a number of at most 9 digits; `*width` is how many there were. */
static sheaf_status read_number(struct reader *r, int64_t *number, int *width)
{
    const char *start = r->at;
    int64_t value = 0;
    while (*r->at >= '0' && *r->at <= '9' && r->at - start < 9)
        value = value * 10 + (*r->at++ - '0');
    if (r->at == start || (*r->at >= '0' && *r->at <= '9'))
        return bad(r, "a number of at most 9 digits");
    *number = value;
    *width = (int)(r->at - start);
    return SHEAF_OK;
}

static sheaf_status add_host(struct reader *r, struct sheaf__strings *hosts, char *name)
{
    if (!name)
        return sheaf__no_memory(r->err, "the node list");
    if (hosts->count == SHEAF__SLURM_LIST_MAX) {
        sheaf__free(name);
        return too_long(r);
    }
    if (!sheaf__strings_take(hosts, name))
        return sheaf__no_memory(r->err, "the node list");
    return SHEAF_OK;
}

static sheaf_status read_range(struct reader *r, const char *prefix, int prefix_size,
                               struct sheaf__strings *hosts)
{
    const char *start = r->at;
    int64_t first, last;
    int width, ignored;
    SHEAF__TRY(read_number(r, &first, &width));
    last = first;
    if (*r->at == '-') {
        r->at++;
        SHEAF__TRY(read_number(r, &last, &ignored));
    }
    if (last < first) {
        r->at = start;
        return bad(r, "a range whose lower end comes first");
    }
    if (last - first >= SHEAF__SLURM_LIST_MAX)
        return too_long(r);
    for (int64_t n = first; n <= last; n++)
        SHEAF__TRY(add_host(r, hosts,
                            sheaf__printf("%.*s%0*lld", prefix_size, prefix, width, (long long)n)));
    return SHEAF_OK;
}

static sheaf_status read_item(struct reader *r, struct sheaf__strings *hosts)
{
    const char *prefix = r->at;
    size_t size = strcspn(prefix, "[],() \t");
    r->at += size;
    if (*r->at != '[') {
        if (size == 0)
            return bad(r, "a host name");
        return add_host(r, hosts, sheaf__strndup(prefix, size));
    }
    do {
        r->at++;
        SHEAF__TRY(read_range(r, prefix, (int)size, hosts));
    } while (*r->at == ',');
    if (*r->at != ']')
        return bad(r, "\",\", \"-\" or \"]\"");
    r->at++;
    return SHEAF_OK;
}

sheaf_status sheaf__slurm_list_hosts(const char *text, struct sheaf__strings *hosts,
                                     sheaf_error *err)
{
    struct reader r = {text, text, "node list", err};
    sheaf_status status;
    for (;;) {
        status = read_item(&r, hosts);
        if (status < 0)
            break;
        if (!*r.at)
            return SHEAF_OK;
        if (*r.at != ',') {
            status = bad(&r, "\",\" or the end");
            break;
        }
        r.at++;
    }
    sheaf__strings_clear(hosts);
    return status;
}

/* "(x4)" after a count, or nothing, which is once. */
static sheaf_status read_repeat(struct reader *r, int64_t *repeat)
{
    int ignored;
    *repeat = 1;
    if (*r->at != '(')
        return SHEAF_OK;
    r->at++;
    if (*r->at != 'x')
        return bad(r, "\"x\"");
    r->at++;
    SHEAF__TRY(read_number(r, repeat, &ignored));
    if (*r->at != ')')
        return bad(r, "\")\"");
    r->at++;
    return SHEAF_OK;
}

static sheaf_status read_counts(struct reader *r, int32_t **counts, size_t *count, size_t *capacity)
{
    for (;; r->at++) {
        int64_t value, repeat;
        int ignored;
        SHEAF__TRY(read_number(r, &value, &ignored));
        SHEAF__TRY(read_repeat(r, &repeat));
        if (*count + (size_t)repeat > SHEAF__SLURM_LIST_MAX)
            return too_long(r);
        if (!sheaf__array_reserve((void **)counts, capacity, *count + (size_t)repeat,
                                  sizeof(**counts)))
            return sheaf__no_memory(r->err, "the task counts");
        while (repeat-- > 0)
            (*counts)[(*count)++] = (int32_t)value;
        if (!*r->at)
            return SHEAF_OK;
        if (*r->at != ',')
            return bad(r, "\",\", \"(x\" or the end");
    }
}

sheaf_status sheaf__slurm_list_counts(const char *text, int32_t **counts, size_t *count,
                                      sheaf_error *err)
{
    struct reader r = {text, text, "tasks per node", err};
    int32_t *list = NULL;
    size_t size = 0, capacity = 0;
    sheaf_status status = read_counts(&r, &list, &size, &capacity);
    if (status < 0) {
        sheaf__free(list);
        return status;
    }
    *counts = list;
    *count = size;
    return SHEAF_OK;
}
