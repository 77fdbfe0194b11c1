/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FORMAT_PACKED_H
#define SHEAF_FORMAT_PACKED_H

/* Packed lists of protobuf's varints as numbers. */

#include <sheaf/status.h>

/* Decodes the numbers of the bytes from `at` to `end` and counts them; those beyond `room` are only
 * counted. False: a number is malformed. */
typedef bool (*sheaf__packed_fn)(const uint8_t *at, const uint8_t *end, int64_t *out, size_t room,
                                 size_t *count);

/* The best one for this processor; any thread. */
sheaf__packed_fn sheaf__packed_ints(void);

/* For tests: that of any processor, and that of x86-64 with BMI2, NULL elsewhere. */
bool sheaf__packed_ints_portable(const uint8_t *at, const uint8_t *end, int64_t *out, size_t room,
                                 size_t *count);
sheaf__packed_fn sheaf__packed_ints_bmi2(void);

#endif
