/* SPDX-License-Identifier: Apache-2.0 */
#include "format/bundle.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "tensor/device.h"
#include "tensor/shape.h"

/* Large tensors are read in stripes by all of the device's threads: one thread can neither copy out of the page cache nor take
 * checksums as fast as memory is. */

struct stripes {
    const sheaf_bundle *bundle;
    struct sheaf__file *file;
    const struct sheaf__bundle_item *item;
    uint8_t *out;
    uint32_t *crcs;
    struct sheaf__mutex lock; /* of what follows */
    sheaf_error failure;      /* of one of them */
};

static size_t stripe_size(const struct sheaf__bundle_item *item, size_t number)
{
    const uint64_t left = item->size - (uint64_t)number * SHEAF__BUNDLE_STRIPE;
    return left < SHEAF__BUNDLE_STRIPE ? (size_t)left : SHEAF__BUNDLE_STRIPE;
}

static sheaf_status read_pieces(struct stripes *s, size_t number, sheaf_error *err)
{
    const uint64_t begin = (uint64_t)number * SHEAF__BUNDLE_STRIPE;
    const uint64_t end = begin + stripe_size(s->item, number);
    uint32_t crc = 0;
    for (uint64_t at = begin; at < end; at += SHEAF__BUNDLE_SCRATCH) {
        const size_t size =
            end - at < SHEAF__BUNDLE_SCRATCH ? (size_t)(end - at) : SHEAF__BUNDLE_SCRATCH;
        uint8_t *to = s->out + at;
        SHEAF__TRY(sheaf__bundle_read_exactly(s->bundle, s->item, s->file, at, to, size, err));
        crc = sheaf__crc32c_extend(crc, to, size);
        if (s->bundle->index.big_endian)
            sheaf__dtype_swap((sheaf_dtype)s->item->dtype, to, size);
    }
    s->crcs[number] = crc;
    return SHEAF_OK;
}

static void read_stripe(size_t number, void *user)
{
    struct stripes *s = user;
    sheaf_error fault = {0};
    if (read_pieces(s, number, &fault) >= 0)
        return;
    sheaf__mutex_lock(&s->lock);
    sheaf__error_keep_first(&s->failure, &fault);
    sheaf__mutex_unlock(&s->lock);
}

sheaf_status sheaf__bundle_read_stripes(sheaf_bundle *b, const struct sheaf__bundle_item *item,
                                        struct sheaf__file *file, void *out, uint32_t *crc,
                                        sheaf_error *err)
{
    const size_t count = (size_t)((item->size - 1) / SHEAF__BUNDLE_STRIPE + 1);
    struct stripes s = {.bundle = b, .file = file, .item = item, .out = out};
    struct sheaf__device *host = sheaf__device_host(err);
    if (!host)
        return err ? err->status : SHEAF_ERR_RESOURCE_EXHAUSTED;
    s.crcs = sheaf__alloc_array(count, sizeof(*s.crcs));
    if (!s.crcs)
        return sheaf__no_memory(err, "reading a checkpoint");
    sheaf__device_run(host, count, read_stripe, &s);
    const sheaf_status status = sheaf__error_copy(err, &s.failure);
    *crc = 0;
    for (size_t i = 0; i < count && status >= 0; i++)
        *crc = sheaf__crc32c_join(*crc, s.crcs[i], stripe_size(item, i));
    sheaf__free(s.crcs);
    return status;
}
