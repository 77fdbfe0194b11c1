/* SPDX-License-Identifier: Apache-2.0 */
#include "data/locate.h"

#include "base/error.h"
#include "format/window.h"

/* Where bytes come from. Views do not know, but what keeps them alive does: a piece of a file that begins
 * with a record, from which on the records are counted. */

static bool holds(void *object, const void *address)
{
    struct sheaf__origin ignored;
    return sheaf__window_origin(object, address, &ignored);
}

/* The record that byte `at` of the stream is in. False: the bytes do not lie as records do. */
static bool find_record(struct sheaf__record_cursor *c, const struct sheaf__framing *framing,
                        uint64_t at, struct sheaf__place *place)
{
    sheaf_error ignored;
    uint64_t one = 1;
    while (one == 1 && c->offset <= at) {
        *place = sheaf__record_cursor_place(c);
        const sheaf_status status = framing->skip(c, 1, &one, &ignored);
        if (status == SHEAF_PENDING)
            return true; /* the last one of the piece */
        if (status != SHEAF_OK)
            return false;
    }
    return true;
}

void sheaf__locate(const struct sheaf__iter *stage, const sheaf_tensor *t, sheaf_bytes bytes,
                   sheaf_error *err)
{
    struct sheaf__origin from;
    struct sheaf__record_options how;
    struct sheaf__object *owner =
        t->buffer ? sheaf__buffer_find(t->buffer, holds, bytes.data) : NULL;
    if (!owner || !sheaf__window_origin(owner, bytes.data, &from) ||
        !sheaf__account_reading(stage->flow->account, from.path, &how))
        return;
    struct sheaf__record_cursor c = {.data = from.data,
                                     .size = from.size,
                                     .base = from.base,
                                     .offset = from.base > how.fixed.header ? from.base
                                                                            : how.fixed.header,
                                     .record = from.record,
                                     .path = from.path,
                                     .more = true,
                                     .skip_check = true,
                                     .fixed = how.fixed};
    const uint64_t at = from.base + (uint64_t)((const uint8_t *)bytes.data - from.data);
    struct sheaf__place place;
    if (!find_record(&c, how.framing, at, &place))
        return;
    const sheaf_error said = *err;
    sheaf__error_at(err, said.status, &place, "%s", said.message);
}
