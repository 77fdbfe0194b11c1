/* SPDX-License-Identifier: Apache-2.0 */
#include "format/bundle_sums.h"

#include "base/array.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/mem.h"
#include "format/bundle.h"

#include <stdlib.h>

bool sheaf__bundle_sums_add(struct sheaf__bundle_sums *sums, const struct sheaf__bundle_sum *sum)
{
    if (!sheaf__array_reserve(&sums->list, &sums->capacity, sums->count + 1, sizeof(*sums->list)))
        return false;
    sums->list[sums->count++] = *sum;
    return true;
}

void sheaf__bundle_sums_free(struct sheaf__bundle_sums *sums)
{
    sheaf__free(sums->list);
    *sums = (struct sheaf__bundle_sums){0};
}

/* ---- checking ---- */

static int compare_tensors(const struct sheaf__bundle_sum *x, const struct sheaf__bundle_sum *y)
{
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int compare_sums(const void *a, const void *b)
{
    const struct sheaf__bundle_sum *x = a, *y = b;
    const int tensors = compare_tensors(x, y);
    if (tensors)
        return tensors;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* The first sum of the tensor that an item describes, among sorted ones; NULL: there is none. */
static const struct sheaf__bundle_sum *find_first(const struct sheaf__bundle_sums *sums,
                                                  const struct sheaf__bundle_item *item)
{
    const struct sheaf__bundle_sum key = {.shard = item->shard, .offset = item->offset};
    size_t low = 0, high = sums->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_tensors(&sums->list[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sums->count && compare_tensors(&sums->list[low], &key) == 0 ? &sums->list[low]
                                                                             : NULL;
}

/* Number of the sums at `first` that are of one tensor. */
static size_t count_of_tensor(const struct sheaf__bundle_sums *sums,
                              const struct sheaf__bundle_sum *first)
{
    const struct sheaf__bundle_sum *end = sums->list + sums->count, *s = first;
    while (s < end && compare_tensors(s, first) == 0)
        s++;
    return (size_t)(s - first);
}

static sheaf_status check_tensor(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                 const struct sheaf__bundle_sum *sums, size_t count,
                                 sheaf_error *err)
{
    static const struct sheaf__bundle_sink nowhere;
    uint64_t done = 0;
    uint32_t crc = 0;
    for (size_t i = 0; i < count && sums[i].at == done; i++) {
        crc = sheaf__crc32c_join(crc, sums[i].crc, sums[i].size);
        done += sums[i].size;
    }
    return done == item->size ? sheaf__bundle_check_crc(b, item, crc, err)
                              : sheaf__bundle_stream(b, item, &nowhere, err);
}

sheaf_status sheaf__bundle_sums_check(struct sheaf__bundle_sums *sums, sheaf_bundle *b,
                                      sheaf_error *err)
{
    const struct sheaf__place place = {b->prefix, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
    size_t checked = 0;
    if (sums->count == 0)
        return SHEAF_OK;
    qsort(sums->list, sums->count, sizeof(*sums->list), compare_sums);
    for (size_t i = 0; i < b->index.count; i++) {
        const struct sheaf__bundle_item *item = &b->index.items[i];
        const bool has_bytes = !item->slices && item->size > 0;
        const struct sheaf__bundle_sum *first = has_bytes ? find_first(sums, item) : NULL;
        if (!first)
            continue;
        const size_t count = count_of_tensor(sums, first);
        SHEAF__TRY(check_tensor(b, item, first, count, err));
        checked += count;
    }
    return checked >= sums->count
               ? SHEAF_OK
               : sheaf__error_at(err, SHEAF_ERR_DATA_LOSS, &place,
                                 "the checkpoint became another one while it was read");
}

/* ---- travelling ---- */

void sheaf__bundle_sums_put(struct sheaf__buf *buf, const struct sheaf__bundle_sums *sums)
{
    for (size_t i = 0; i < sums->count; i++) {
        const struct sheaf__bundle_sum *s = &sums->list[i];
        sheaf__buf_fixed32(buf, (uint32_t)s->shard);
        sheaf__buf_fixed32(buf, s->crc);
        sheaf__buf_fixed64(buf, s->offset);
        sheaf__buf_fixed64(buf, s->at);
        sheaf__buf_fixed64(buf, s->size);
    }
}

bool sheaf__bundle_sums_get(struct sheaf__cursor *c, struct sheaf__bundle_sums *sums)
{
    while (sheaf__cursor_left(c) > 0) {
        struct sheaf__bundle_sum s;
        uint32_t shard;
        if (!sheaf__cursor_fixed32(c, &shard) || !sheaf__cursor_fixed32(c, &s.crc) ||
            !sheaf__cursor_fixed64(c, &s.offset) || !sheaf__cursor_fixed64(c, &s.at) ||
            !sheaf__cursor_fixed64(c, &s.size) || shard > INT32_MAX)
            return false;
        s.shard = (int32_t)shard;
        if (!sheaf__bundle_sums_add(sums, &s))
            return false;
    }
    return true;
}
