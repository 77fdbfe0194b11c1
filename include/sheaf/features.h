/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_FEATURES_H
#define SHEAF_FEATURES_H

/** @file
 *  From what files hold to what models compute with: bytes as numbers.
 *
 *  Builders, as operations are: a failed tensor carries the error. For a whole dataset there is a stage of the same
 *  name in dataset.h; inside a map's function these are called for an element. */

#include <sheaf/tensor.h>

SHEAF_BEGIN_DECLS

typedef struct sheaf_decode_raw_options {
    bool big_endian; /**< how the numbers lie in the bytes */
    /** Bytes taken of every string: longer ones are cut, shorter ones filled up with zero bytes; a multiple of the
     *  dtype's size. 0: all strings must have one size, which is such a multiple. */
    int64_t fixed_length;
    uint64_t reserved[4];
} sheaf_decode_raw_options;
/** The bytes of strings as numbers, which become a new last axis (R9.37). A large string alone is not copied but viewed,
 *  where the machine's own order allows. Floats, integers, complex numbers, bool (every byte but 0 is true). */
SHEAF_API sheaf_tensor *sheaf_decode_raw(sheaf_tensor *strings, sheaf_dtype dtype,
                                         const sheaf_decode_raw_options *options);

SHEAF_END_DECLS

#endif
