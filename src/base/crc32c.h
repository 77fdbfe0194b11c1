/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_CRC32C_H
#define SHEAF_BASE_CRC32C_H

/* CRC-32C (Castagnoli) and the mask that TFRecord and checkpoints put on it. */

#include <stddef.h>
#include <stdint.h>

uint32_t sheaf__crc32c(const void *data, size_t size);
/* The checksum of what `crc` covers followed by `data`. Start with 0. */
uint32_t sheaf__crc32c_extend(uint32_t crc, const void *data, size_t size);

/* The checksum of what `crc` covers followed by the `size` bytes that `next` covers. */
uint32_t sheaf__crc32c_join(uint32_t crc, uint32_t next, uint64_t size);

static inline uint32_t sheaf__crc32c_mask(uint32_t crc)
{
    return ((crc >> 15) | (crc << 17)) + UINT32_C(0xa282ead8);
}
static inline uint32_t sheaf__crc32c_unmask(uint32_t masked)
{
    uint32_t rot = masked - UINT32_C(0xa282ead8);
    return (rot >> 17) | (rot << 15);
}

#endif
