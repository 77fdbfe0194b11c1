/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPS_VECTOR_H
#define SHEAF_OPS_VECTOR_H

/** @file
 *  The few loops over float that a training step spends time in and that tensor/kernel.h does not
 * have, for the widest vectors of this processor. All versions give the same bits. `out` may be an
 * input itself. */

#include <stddef.h>

struct sheaf__vector {
    void (*relu)(float *out, const float *in, size_t n);
    /** relu(a + b) */
    void (*add_relu)(float *out, const float *a, const float *b, size_t n);
    /** dy where y > 0, else 0. */
    void (*relu_grad)(float *out, const float *dy, const float *y, size_t n);
};

/** For this processor. Static storage. */
const struct sheaf__vector *sheaf__vector(void);

#endif
