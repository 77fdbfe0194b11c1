/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_DATA_FROM_SLICES_H
#define SHEAF_DATA_FROM_SLICES_H

#include "base/array.h"
#include "data/stage.h"
#include "tensor/tensor.h"

/* A source of the strings, copied, under the name of stage `id` (FROM_SLICES or LIST_FILES). */
sheaf_dataset *sheaf__from_strings(enum sheaf__stage_id id, const char *const *strings,
                                   size_t count);
/* A source of the rows of `t`, whose count is used up; NULL: fails with `err`. */
sheaf_dataset *sheaf__from_tensor(enum sheaf__stage_id id, sheaf_tensor *t, const sheaf_error *err);

#endif
