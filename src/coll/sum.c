/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/sum.h"

#include "tensor/kernel.h"

#include <string.h>

/* So many elements are summed at a time that all of the tree's levels stay in the first level cache; 16 levels hold
 * more leaves than there are replicas. */
enum { STRIP = 512, WIDEST = 8, LEVELS = 16 };

struct strip {
    const struct sheaf__sum *sum;
    sheaf_dtype wide;
    sheaf__kernel_binary add;
    size_t first, n; /* elements */
    uint8_t (*level)[STRIP * WIDEST];
};

bool sheaf__sum_can(sheaf_dtype dtype)
{
    return dtype == SHEAF_FLOAT32 || dtype == SHEAF_FLOAT64 || dtype == SHEAF_BFLOAT16 ||
           dtype == SHEAF_INT32 || dtype == SHEAF_INT64;
}

sheaf_dtype sheaf__sum_wide(sheaf_dtype dtype)
{
    return dtype == SHEAF_BFLOAT16 ? SHEAF_FLOAT32 : dtype;
}

/* A leaf's elements in the wide dtype: in place, or converted to `room`. */
static const void *leaf(const struct strip *s, int i, void *room)
{
    const uint8_t *data = s->sum->arrays[i];
    data += s->first * sheaf_dtype_size(s->sum->in);
    if (s->wide == s->sum->in)
        return data;
    sheaf__kernels()->bfloat16_to_float(room, (const uint16_t *)(const void *)data, s->n);
    return room;
}

/* The sum of blocks [begin, end), which make up the node at `first` of `span` leaves: where it is, in an array itself or
 * in the memory of a level from `depth` on. */
static const void *node(const struct strip *s, int begin, int end, int span, int depth)
{
    if (end - begin == 1)
        return leaf(s, begin, s->level[depth]);
    const struct sheaf__block *blocks = s->sum->blocks + begin;
    int first = blocks[0].first / span * span;
    int middle = begin + sheaf__tree_split(blocks, end - begin, first, &span);
    const void *a = node(s, begin, middle, span, depth);
    const void *b = node(s, middle, end, span, depth + 1);
    s->add(s->level[depth], a, b, s->n);
    return s->level[depth];
}

static void divide(sheaf_dtype dtype, void *data, size_t n, int divisor)
{
    float *f = data;
    double *d = data;
    int32_t *i = data;
    int64_t *l = data;
    switch (dtype) {
    case SHEAF_FLOAT32:
        for (size_t k = 0; k < n; k++)
            f[k] /= (float)divisor;
        break;
    case SHEAF_FLOAT64:
        for (size_t k = 0; k < n; k++)
            d[k] /= divisor;
        break;
    case SHEAF_INT32:
        for (size_t k = 0; k < n; k++)
            i[k] /= divisor;
        break;
    default:
        for (size_t k = 0; k < n; k++)
            l[k] /= divisor;
    }
}

static void finish(const struct strip *s, const void *sum, void *out)
{
    if (s->sum->divisor > 1) {
        if (sum != s->level[0])
            memcpy(s->level[0], sum, s->n * sheaf_dtype_size(s->wide));
        divide(s->wide, s->level[0], s->n, s->sum->divisor);
        sum = s->level[0];
    }
    if (s->sum->out == SHEAF_BFLOAT16)
        sheaf__kernels()->float_to_bfloat16(out, sum, s->n);
    else if (out != sum)
        memcpy(out, sum, s->n * sheaf_dtype_size(s->wide));
}

void sheaf__sum_range(const struct sheaf__sum *sum, void *out, size_t first, size_t n)
{
    _Alignas(64) uint8_t level[LEVELS][STRIP * WIDEST];
    size_t size = sheaf_dtype_size(sum->out);
    struct strip s = {.sum = sum, .wide = sheaf__sum_wide(sum->in), .level = level};
    s.add = sheaf__kernels()->add[s.wide];
    if (sum->count == 2 && sum->divisor <= 1 && s.wide == sum->in && sum->out == sum->in) {
        /* The most frequent case needs no memory between. */
        const uint8_t *a = sum->arrays[0], *b = sum->arrays[1];
        s.add((uint8_t *)out + first * size, a + first * size, b + first * size, n);
        return;
    }
    for (size_t end = first + n; first < end; first += STRIP) {
        s.first = first;
        s.n = end - first < STRIP ? end - first : STRIP;
        finish(&s, node(&s, 0, sum->count, sum->span, 0), (uint8_t *)out + first * size);
    }
}
