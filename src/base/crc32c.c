/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32c.h"

#include <isa-l/crc.h>
#include <limits.h>

/* ISA-L takes and gives the register itself; the checksum is its complement. Its size is an int,
 * and its prototype has no const though it only reads. */
uint32_t sheaf__crc32c_extend(uint32_t crc, const void *data, size_t size)
{
    union {
        const void *given;
        unsigned char *bytes;
    } at = {.given = data};
    uint32_t state = ~crc;
    while (size > 0) {
        int n = size < INT_MAX / 2 ? (int)size : INT_MAX / 2;
        state = crc32_iscsi(at.bytes, n, state);
        at.bytes += n;
        size -= (size_t)n;
    }
    return ~state;
}

uint32_t sheaf__crc32c(const void *data, size_t size)
{
    return sheaf__crc32c_extend(0, data, size);
}
