/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_TENSOR_KERNEL_TABLE_H
#define SHEAF_TENSOR_KERNEL_TABLE_H

/** @file
 *  Who fills the kernel table. Each replaces the entries it has better ones for. */

#include "tensor/kernel.h"

/** For processors with AVX2 and F16C. */
void sheaf__kernels_avx2(struct sheaf__kernels *table);

#endif
