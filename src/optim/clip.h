/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_OPTIM_CLIP_H
#define SHEAF_OPTIM_CLIP_H

/* Clipping of gradients. float32, float64, bfloat16. `to` may be `from`. */

#include <sheaf/tensor.h>

/* Sum of the squares, added up in an order that depends on `count` alone. */
double sheaf__clip_sum_squares(sheaf_dtype dtype, const void *data, size_t count);
/* Factor that brings a gradient of norm `norm` down to `limit`: 1 if it is not above. */
double sheaf__clip_factor(double norm, double limit);
void sheaf__clip_scale(sheaf_dtype dtype, void *to, const void *from, size_t count, double factor);
/* Every element into [-limit, limit]; NaN stays. */
void sheaf__clip_value(sheaf_dtype dtype, void *to, const void *from, size_t count, double limit);

#endif
