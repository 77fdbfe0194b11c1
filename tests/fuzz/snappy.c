/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file of Snappy blocks: decoding ends, stays in its buffers, and gives and says the same whatever the
 * sizes of its windows. The same bytes as data: what is encoded decodes to them, from the start on as far as is asked
 * for, and as a file. The first two bytes are the windows. */
#include "target.h"

#include "format/snappy.h"

#include <stdlib.h>
#include <string.h>

struct outcome {
    sheaf_status status;
    bool at_end;
    uint8_t *bytes;
    size_t size;
};

static struct outcome expand(const uint8_t *data, size_t size, size_t in, size_t out)
{
    struct outcome o = {0};
    struct sheaf__unsnap *z = NULL;
    uint8_t window[4096];
    size_t at = 0;
    must(sheaf__unsnap_new(&z, NULL) == SHEAF_OK);
    for (;;) {
        size_t n = size - at < in ? size - at : in;
        struct sheaf__zip_io io = {data + at, n, window, out};
        o.status = sheaf__unsnap_next(z, &io, NULL);
        size_t made = out - io.out_size;
        o.bytes = realloc(o.bytes, o.size + made + 1);
        must(o.bytes);
        memcpy(o.bytes + o.size, window, made);
        o.size += made;
        at += n - io.in_size;
        if (o.status < 0 || (at == size && made < out))
            break;
        must(made > 0 || io.in_size < n);
    }
    o.at_end = sheaf__unsnap_at_end(z);
    sheaf__unsnap_free(z);
    return o;
}

static void decode(const uint8_t *data, size_t size, size_t in, size_t out)
{
    struct outcome whole = expand(data, size, size, 4096), parts = expand(data, size, in, out);
    must(whole.status == parts.status && whole.at_end == parts.at_end);
    must(whole.size == parts.size && memcmp(whole.bytes, parts.bytes, whole.size) == 0);
    free(whole.bytes);
    free(parts.bytes);
}

static void encode(const uint8_t *data, size_t size)
{
    static uint16_t table[SHEAF__SNAPPY_TABLE];
    uint8_t *block = malloc(sheaf__snappy_bound(size)), *back = malloc(size + 1);
    size_t decoded, half = size / 2;
    must(block && back);
    size_t packed = sheaf__snappy_encode(data, size, block, table);
    must(packed <= sheaf__snappy_bound(size));
    must(sheaf__snappy_size(block, packed, &decoded) && decoded == size);
    must(sheaf__snappy_decode(block, packed, back, size) && memcmp(back, data, size) == 0);
    must(sheaf__snappy_peek(block, packed, back, half) && memcmp(back, data, half) == 0);
    free(block);
    free(back);
}

static void write_file(const uint8_t *data, size_t size, size_t in, size_t out)
{
    uint8_t *file = malloc(size + size / 4 + 64);
    size_t at = 0, made = 0;
    struct sheaf__snap *z = NULL;
    sheaf_status status;
    must(file && sheaf__snap_new(&z, NULL) == SHEAF_OK);
    do {
        size_t n = size - at < in ? size - at : in;
        struct sheaf__zip_io io = {data + at, n, file + made, out};
        status = sheaf__snap_next(z, &io, at + n == size);
        made += out - io.out_size;
        at += n - io.in_size;
        must(made + out <= size + size / 4 + 64 + out);
    } while (status != SHEAF_END);
    struct outcome o = expand(file, made, made, 4096);
    must(o.status == SHEAF_END && o.at_end && o.size == size && memcmp(o.bytes, data, size) == 0);
    free(o.bytes);
    free(file);
    sheaf__snap_free(z);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t in = (size_t)data[0] + 1, out = (size_t)data[1] + 1;
    decode(data + 2, size - 2, in, out);
    encode(data + 2, size - 2);
    write_file(data + 2, size - 2, in, out < 16 ? out : 16);
    return 0;
}
