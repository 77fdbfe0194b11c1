/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file of NumPy's: it is refused with a message, or all elements that its header says can be read, whose
 * bytes are those of the file: numbers as they lie (a column-major array by columns), byte strings without their zeros.
 * The array is never larger than the file has bytes for. */
#include "target.h"

#include "base/file.h"
#include "base/mem.h"
#include "format/npy.h"
#include "tensor/shape.h"

#include <string.h>

/* Where element `i` of the array (row-major) lies in the file, in elements. */
static size_t place_of(const struct sheaf__npy *npy, int64_t i)
{
    int64_t at = 0, step = 1, index[SHEAF_MAX_RANK];
    if (!npy->column_major)
        return (size_t)i;
    for (int axis = npy->shape.rank - 1; axis >= 0; axis--) {
        index[axis] = i % npy->shape.dims[axis];
        i /= npy->shape.dims[axis];
    }
    for (int axis = 0; axis < npy->shape.rank; axis++) {
        at += index[axis] * step;
        step *= npy->shape.dims[axis];
    }
    return (size_t)at;
}

static void check_number(const struct sheaf__npy *npy, const uint8_t *found, const uint8_t *file)
{
    uint8_t right[16];
    const size_t size = sheaf_dtype_size(npy->dtype);
    memcpy(right, file, size);
    if (npy->big_endian)
        sheaf__dtype_swap(npy->dtype, right, size);
    if (npy->dtype == SHEAF_BOOL)
        right[0] = right[0] != 0;
    must(memcmp(found, right, size) == 0);
}

static void check(const struct sheaf__npy *npy, const sheaf_tensor *t, const uint8_t *data)
{
    const uint8_t *elements = sheaf__tensor_host(t, NULL);
    const int64_t count = sheaf_shape_elements(npy->shape);
    must(elements && sheaf_shape_equal(t->shape, npy->shape) && t->dtype == npy->dtype);
    for (int64_t i = 0; i < count; i++) {
        const size_t at = place_of(npy, i);
        if (npy->kind == SHEAF__NPY_NUMBERS) {
            const size_t size = sheaf_dtype_size(npy->dtype);
            check_number(npy, elements + (size_t)i * size, data + at * size);
            continue;
        }
        const sheaf_bytes text = ((const sheaf_bytes *)(const void *)elements)[i];
        if (npy->kind == SHEAF__NPY_TEXT) {
            must(text.size <= 4 * npy->width);
            must(text.size == 0 || text.data[text.size - 1] != 0);
        } else {
            must(text.size <= npy->width);
            must(text.size == 0 || memcmp(text.data, data + at * npy->width, text.size) == 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sheaf__npy npy;
    sheaf_error err = {0};
    files_in_memory(NULL);
    must(sheaf__file_replace("/a.npy", data, size, NULL) == SHEAF_OK);
    const sheaf_status status = sheaf__npy_parse(data, size, "/a.npy", &npy, &err);
    sheaf_tensor *t = sheaf__npy_load("/a.npy", &err);
    must((t != NULL) == (status >= 0) || (npy.kind == SHEAF__NPY_TEXT && err.message[0]));
    must(t || (err.status < 0 && err.message[0]));
    if (t)
        check(&npy, t, data + npy.offset);
    sheaf__unref(t);
    return 0;
}
