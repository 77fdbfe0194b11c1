/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "format/record.h"

#include <inttypes.h>

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t need(const struct sheaf__record_cursor *c)
{
    uint64_t header = c->offset < c->fixed.header ? c->fixed.header - c->offset : 0;
    return plus(header, plus(c->fixed.size, c->fixed.footer));
}

static __attribute__((cold)) sheaf_status no_header(const struct sheaf__record_cursor *c,
                                                    uint64_t total, sheaf_error *err)
{
    const struct sheaf__place place = {c->path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    return sheaf__error_at(err, SHEAF_ERR_INVALID_ARGUMENT, &place,
                           "the file has %" PRIu64 " bytes, expected a header of %" PRIu64, total,
                           c->fixed.header);
}

/* `body` bytes are between header and footer. A file whose size is known is not read at all then;
 * of a compressed one the records came before it was known. */
static __attribute__((cold)) sheaf_status odd_body(const struct sheaf__record_cursor *c,
                                                   sheaf_status status, uint64_t body,
                                                   sheaf_error *err)
{
    const struct sheaf__place place = sheaf__record_cursor_place(c);
    return sheaf__error_at(err, status, &place,
                           "%" PRIu64 " bytes between a header of %" PRIu64
                           " and a footer of %" PRIu64 ", expected a multiple of %" PRIu64
                           " (the size of a record)",
                           body, c->fixed.header, c->fixed.footer, c->fixed.size);
}

static sheaf_status check(const struct sheaf__record_cursor *c, uint64_t total, sheaf_error *err)
{
    if (c->fixed.header > total)
        return no_header(c, total, err);
    uint64_t rest = total - c->fixed.header;
    if (rest > c->fixed.footer && (rest - c->fixed.footer) % c->fixed.size != 0)
        return odd_body(c, SHEAF_ERR_INVALID_ARGUMENT, rest - c->fixed.footer, err);
    return SHEAF_OK;
}

static sheaf_status skip_header(struct sheaf__record_cursor *c, sheaf_error *err)
{
    size_t left = sheaf__record_cursor_left(c);
    if (c->offset >= c->fixed.header)
        return SHEAF_OK;
    if (left < c->fixed.header - c->offset)
        return c->more ? SHEAF_PENDING : no_header(c, c->offset + left, err);
    c->offset = c->fixed.header;
    return SHEAF_OK;
}

/* How many whole records there are, at least one. The footer is known by what follows it: nothing. */
static sheaf_status look(struct sheaf__record_cursor *c, uint64_t *count, sheaf_error *err)
{
    sheaf_status status = skip_header(c, err);
    if (status != SHEAF_OK)
        return status;
    size_t left = sheaf__record_cursor_left(c);
    uint64_t body = left > c->fixed.footer ? left - c->fixed.footer : 0;
    *count = body / c->fixed.size;
    if (*count > 0)
        return SHEAF_OK;
    if (c->more)
        return SHEAF_PENDING;
    if (body == 0)
        return SHEAF_END;
    return odd_body(c, SHEAF_ERR_DATA_LOSS, c->offset - c->fixed.header + body, err);
}

static sheaf_status skip(struct sheaf__record_cursor *c, uint64_t count, uint64_t *skipped,
                         sheaf_error *err)
{
    uint64_t there = 0;
    sheaf_status status = look(c, &there, err);
    *skipped = there < count ? there : count;
    c->offset += *skipped * c->fixed.size;
    c->record += *skipped;
    return status;
}

static sheaf_status next(struct sheaf__record_cursor *c, sheaf_bytes *records, size_t capacity,
                         size_t *count, sheaf_error *err)
{
    uint64_t n = 0;
    sheaf_status status = skip(c, 0, &n, err);
    *count = 0;
    if (status != SHEAF_OK)
        return status;
    const char *data = (const char *)sheaf__record_cursor_at(c);
    status = skip(c, capacity, &n, err);
    for (size_t i = 0; i < n; i++)
        records[i] = (sheaf_bytes){data + i * c->fixed.size, (size_t)c->fixed.size};
    *count = (size_t)n;
    return status;
}

const struct sheaf__framing sheaf__framing_fixed = {
    .next = next,
    .skip = skip,
    .need = need,
    .check = check,
};
