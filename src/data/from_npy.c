/* SPDX-License-Identifier: Apache-2.0 */
#include "data/from_slices.h"
#include "format/npy.h"

/* The rows of the array in a file, as views of it. */

sheaf_dataset *sheaf_dataset_from_npy(const char *path)
{
    sheaf_error err = {0};
    return sheaf__from_tensor(SHEAF__STAGE_FROM_NPY, sheaf__npy_load(path, &err), &err);
}
