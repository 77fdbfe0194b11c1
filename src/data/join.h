/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_JOIN_H
#define SHEAF_DATA_JOIN_H

#include "tensor/tensor.h"

/* Tensors of one layout one behind the other along the first axis, copied. SHEAF_ERR_INVALID_ARGUMENT
 * (NULL): other dtypes or inner sizes. The caller's count. */
sheaf_tensor *sheaf__join(sheaf_tensor *const *parts, size_t count, sheaf_error *err);
/* Rows of a tensor of any layout: the first size, -1 for a scalar. */
static inline int64_t sheaf__rows_in(const sheaf_tensor *t)
{
    return t->shape.rank > 0 ? t->shape.dims[0] : -1;
}

#endif
