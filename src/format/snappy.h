/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_SNAPPY_H
#define SHEAF_FORMAT_SNAPPY_H

/* Reading raw Snappy blocks (formats.md 2.4). Any thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The size that a block claims to have when decoded; false if it has no such field, or if the block
 * is too short for it by any coding, so that it is safe to allocate. */
bool sheaf__snappy_size(const uint8_t *block, size_t size, size_t *decoded);
/* Decodes into exactly `decoded` bytes; false if the block is corrupt. */
bool sheaf__snappy_decode(const uint8_t *block, size_t size, uint8_t *out, size_t decoded);

#endif
