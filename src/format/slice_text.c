/* SPDX-License-Identifier: Apache-2.0 */
#include "format/slice.h"

#include "base/error.h"

#include <string.h>

void sheaf__slice_text(struct sheaf__str *text, const struct sheaf__slice *s)
{
    if (sheaf__slice_is_all(s))
        return;
    for (int32_t i = 0; i < s->full.rank; i++)
        sheaf__str_printf(text, "%lld ", (long long)s->full.dims[i]);
    for (int32_t i = 0; i < s->full.rank; i++)
        sheaf__str_printf(text, "%s%lld,%lld", i ? ":" : "", (long long)s->offset[i],
                          (long long)s->shape.dims[i]);
}

/* Reads a decimal number without sign that ends before `stop`, and steps over that character. */
static bool take_number(const char **text, char stop, int64_t *value)
{
    char digits[20];
    const char *end = strchr(*text, stop);
    size_t size = end ? (size_t)(end - *text) : strlen(*text);
    if (size == 0 || size >= sizeof(digits) || (stop && !end) || **text < '0' || **text > '9')
        return false;
    memcpy(digits, *text, size);
    digits[size] = 0;
    *text += size + (stop != 0);
    return sheaf__str_to_int(digits, value);
}

static bool take_extent(const char **text, bool last, struct sheaf__extent *extent)
{
    char stop = last ? '\0' : ':';
    if (**text == '-') {
        *extent = (struct sheaf__extent){0, SHEAF__WHOLE_AXIS};
        if ((*text)[1] != stop)
            return false;
        *text += last ? 1 : 2;
        return true;
    }
    return take_number(text, ',', &extent->start) && take_number(text, stop, &extent->length);
}

static bool parse(const char *text, sheaf_shape *full, struct sheaf__extent *extents)
{
    int32_t rank = 0;
    for (const char *c = text; *c; c++)
        rank += *c == ' ';
    if (rank < 1 || rank > SHEAF_MAX_RANK)
        return false;
    *full = (sheaf_shape){.rank = rank};
    for (int32_t i = 0; i < rank; i++) {
        if (!take_number(&text, ' ', &full->dims[i]))
            return false;
    }
    for (int32_t i = 0; i < rank; i++) {
        if (!take_extent(&text, i == rank - 1, &extents[i]))
            return false;
    }
    return true;
}

sheaf_status sheaf__slice_parse(const char *text, sheaf_shape full, struct sheaf__slice *s,
                                sheaf_error *err)
{
    if (!*text) {
        *s = sheaf__slice_all(full);
        return SHEAF_OK;
    }
    sheaf_shape written;
    struct sheaf__extent extents[SHEAF_MAX_RANK];
    struct sheaf__slice slice;
    if (!parse(text, &written, extents))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "slice '%s' is not of the form \"10 3 4,3:0,3\"", text);
    if (!sheaf_shape_equal(written, full)) {
        char found[96];
        sheaf_shape_format(full, found, sizeof(found));
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "slice '%s' is one of another shape than the tensor's %s", text, found);
    }
    if (!sheaf__slice_from(full, extents, &slice))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "slice '%s' is empty or reaches out of the tensor", text);
    *s = slice;
    return SHEAF_OK;
}
