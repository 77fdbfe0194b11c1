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

/* Checksums are polynomials over GF(2), bit 31 the lowest power; a byte that follows multiplies by x^8. */

#define POLYNOMIAL UINT32_C(0x82f63b78)
#define ONE        (UINT32_C(1) << 31)
#define X8         (ONE >> 8)

static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = ONE; bit; bit >>= 1) {
        if (a & bit)
            product ^= b;
        b = b >> 1 ^ (b & 1 ? POLYNOMIAL : 0);
    }
    return product;
}

uint32_t sheaf__crc32c_join(uint32_t crc, uint32_t next, uint64_t size)
{
    uint32_t shift = ONE;
    for (uint32_t power = X8; size; size >>= 1) {
        if (size & 1)
            shift = multiply(shift, power);
        power = multiply(power, power);
    }
    return multiply(crc, shift) ^ next;
}
