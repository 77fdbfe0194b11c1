/* SPDX-License-Identifier: Apache-2.0 */
#include "data/from_slices.h"

/* The rows of an array that is the program's, as views of it. */

sheaf_dataset *sheaf_dataset_from_array(sheaf_dtype dtype, sheaf_shape shape, const void *data,
                                        void (*release)(void *data, void *user), void *user)
{
    sheaf_error err = {0};
    return sheaf__from_tensor(SHEAF__STAGE_FROM_ARRAY,
                              sheaf__tensor_wrap(dtype, shape, data, release, user, &err), &err);
}
