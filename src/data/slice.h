/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_SLICE_H
#define SHEAF_DATA_SLICE_H

#include "tensor/tensor.h"

/* Rows begin … end - 1 of a tensor of any layout but ROWS: a view where it is dense, values as
 * views where it is sparse (indices in row order) or ragged. The caller's count. */
sheaf_tensor *sheaf__slice(sheaf_tensor *t, int64_t begin, int64_t end, sheaf_error *err);
/* Tensors of one layout one behind the other along the first axis, copied. SHEAF_ERR_INVALID_ARGUMENT
 * (NULL): other dtypes or inner sizes. The caller's count. */
sheaf_tensor *sheaf__join(sheaf_tensor *const *parts, size_t count, sheaf_error *err);
/* Rows of a tensor: the first size, -1 for a scalar. */
int64_t sheaf__slice_rows(const sheaf_tensor *t);

#endif
