/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_NPY_H
#define SHEAF_NPY_H

/** @file
 *  NumPy's files of one array, `.npy` (formats.md 7.2). */

#include <sheaf/tensor.h>

SHEAF_BEGIN_DECLS

/** The array of a file, mapped rather than read, in the innermost frame; the file must stay as it is for as long as the
 *  tensor lives: another one may be put in its place, but whoever touches what was cut off is killed by SIGBUS. Copied
 *  where the bytes need a change: numbers of the other byte order, of an odd address, booleans that are neither 0 nor 1,
 *  and on network file systems. Column-major arrays are views with strides. Byte strings lose the zeros behind them, as in
 *  NumPy; texts become UTF-8.
 *
 *  A failed tensor: SHEAF_ERR_NOT_FOUND, SHEAF_ERR_IO; SHEAF_ERR_DATA_LOSS: names the file, what was found and expected, and
 *  where; SHEAF_ERR_UNIMPLEMENTED: dtypes that are no tensor's (objects, several fields, dates, raw bytes). */
SHEAF_API sheaf_tensor *sheaf_npy_load(const char *path);

SHEAF_END_DECLS

#endif
