/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_DECODE_RAW_H
#define SHEAF_TENSOR_DECODE_RAW_H

#include "tensor/tensor.h"

#include <sheaf/features.h>

/** Whether numbers of the dtype can be decoded with these options. */
sheaf_status sheaf__decode_raw_check(sheaf_dtype dtype, const sheaf_decode_raw_options *options,
                                     sheaf_error *err);
/** sheaf_decode_raw() with options that were checked; one count, the caller's. */
sheaf_tensor *sheaf__decode_raw(const sheaf_tensor *strings, sheaf_dtype dtype,
                                const sheaf_decode_raw_options *options, sheaf_error *err);

#endif
