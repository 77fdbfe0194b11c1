/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a gzip or zlib stream: decompression ends, stays in its buffers, and says the same whatever the sizes of
 * its windows. The first byte chooses the kind, the second the windows. */
#include "base/inflate.h"
#include "base/crc32c.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    sheaf_status status;
    uint64_t bytes;
    uint32_t crc;
    bool at_end;
};

/* Output after which a run is cut: a few bytes can expand to very many. */
enum { LIMIT = 1 << 20 };

static struct outcome expand(enum sheaf__zip kind, const uint8_t *data, size_t size, size_t in,
                             size_t out)
{
    struct outcome o = {0};
    struct sheaf__inflate *z = NULL;
    uint8_t window[4096];
    size_t at = 0;
    if (sheaf__inflate_new(kind, &z, NULL) < 0)
        abort();
    while (o.bytes < LIMIT) {
        size_t n = size - at < in ? size - at : in;
        struct sheaf__zip_io io = {data + at, n, window, out};
        o.status = sheaf__inflate_next(z, &io, NULL);
        size_t made = out - io.out_size;
        o.crc = sheaf__crc32c_extend(o.crc, window, made);
        o.bytes += made;
        at += n - io.in_size;
        if (o.status < 0 || (at == size && made < out))
            break;
        if (made == 0 && io.in_size == n && n > 0)
            abort(); /* no progress */
    }
    o.at_end = o.status >= 0 && sheaf__inflate_at_end(z);
    sheaf__inflate_free(z);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    enum sheaf__zip kind = data[0] & 1 ? SHEAF__ZIP_ZLIB : SHEAF__ZIP_GZIP;
    size_t step = (size_t)data[1] + 1;
    struct outcome whole = expand(kind, data + 2, size - 2, size, 4096);
    struct outcome parts = expand(kind, data + 2, size - 2, step, 257 - (size_t)data[1]);
    if (whole.bytes >= LIMIT || parts.bytes >= LIMIT)
        return 0;
    /* How much comes out before damage is noticed may differ, not what a good stream gives. */
    if (whole.at_end != parts.at_end)
        abort();
    if (whole.at_end && (whole.bytes != parts.bytes || whole.crc != parts.crc))
        abort();
    return 0;
}
