/* SPDX-License-Identifier: Apache-2.0 */

#include "ps/route.h"

#include "base/error.h"
#include "base/mem.h"
#include "ps/partition.h"
#include "tensor/frame.h"

#include <string.h>

static size_t part_of(const struct sheaf__ps_variable_ref *v, int64_t row)
{
    return (size_t)sheaf__ps_part_of(v->base.shape.dims[0], (int64_t)v->part_count, row);
}

/* starts[p + 1] becomes the number of rows of part p. */
static sheaf_status count_rows(const struct sheaf__ps_variable_ref *v, const int64_t *ids,
                               size_t count, const char *what, size_t *starts, sheaf_error *err)
{
    const int64_t rows = v->base.shape.dims[0];
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= rows)
            return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                                "id %lld (number %zu) of %s '%s', expected 0..%lld",
                                (long long)ids[i], i, what, v->base.name, (long long)rows - 1);
        starts[part_of(v, ids[i]) + 1]++;
    }
    return SHEAF_OK;
}

sheaf_status sheaf__ps_route(const struct sheaf__ps_variable_ref *v, const int64_t *ids,
                             size_t count, const char *what, struct sheaf__ps_route *route,
                             sheaf_error *err)
{
    /* One more than is handed out: while rows are dealt, starts[p + 1] is where the next of part p
     * goes. */
    const size_t slots = v->part_count + 2;
    size_t *starts = sheaf__frame_alloc(slots * sizeof(*starts));
    route->ids = sheaf__frame_alloc((count + 1) * sizeof(*route->ids));
    route->from = sheaf__frame_alloc((count + 1) * sizeof(*route->from));
    if (!starts || !route->ids || !route->from)
        return sheaf__no_memory(err, "the rows of a variable");
    memset(starts, 0, slots * sizeof(*starts));
    SHEAF__TRY(count_rows(v, ids, count, what, starts + 1, err));
    for (size_t p = 1; p < slots; p++)
        starts[p] += starts[p - 1];
    for (size_t i = 0; i < count; i++) {
        const size_t p = part_of(v, ids[i]);
        const size_t at = starts[p + 1]++;
        route->ids[at] = ids[i] - v->parts[p].first;
        route->from[at] = i;
    }
    route->starts = starts;
    return SHEAF_OK;
}
