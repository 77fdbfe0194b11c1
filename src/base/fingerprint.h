/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_FINGERPRINT_H
#define SHEAF_BASE_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

/* FarmHash's Fingerprint64, by which TensorFlow sorts unknown words into buckets (R10.26). It never
 * changes. */
uint64_t sheaf__fingerprint64(const void *data, size_t size);

#endif
