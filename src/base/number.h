/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_NUMBER_H
#define SHEAF_BASE_NUMBER_H

/* Numbers in text of others, `size` bytes of it, with blanks around or without: as strtol() and
 * strtod() of the C locale take them. False for anything else. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Also false out of [min, max]. */
bool sheaf__number_int(const char *text, size_t size, int64_t min, int64_t max, int64_t *value);
/* Rounded right; too large is an infinity, too small a zero. No number is longer than 2048 bytes. */
bool sheaf__number_float(const char *text, size_t size, float *value);
bool sheaf__number_double(const char *text, size_t size, double *value);

#endif
