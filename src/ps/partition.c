/* SPDX-License-Identifier: Apache-2.0 */

#include "ps/partition.h"

#include "base/error.h"
#include "tensor/called.h"
#include "tensor/shape.h"

enum { MIN_SIZE_DEFAULT = 256 << 10 };

/* The partitioners of TensorFlow. */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* The answer for axis 0: from 1 to the number of rows. */
static sheaf_shape answer(sheaf_shape shape, int64_t parts)
{
    const int64_t rows = shape.dims[0];
    for (int i = 1; i < shape.rank; i++)
        shape.dims[i] = 1;
    shape.dims[0] = parts > rows ? rows : parts;
    if (shape.dims[0] < 1)
        shape.dims[0] = 1;
    return shape;
}

/* Bytes of a row; 0: there is no element, or there are more than can be counted, and no such
 * variable. */
static int64_t row_bytes(sheaf_dtype dtype, sheaf_shape shape)
{
    int64_t elements;
    size_t bytes;
    if (sheaf__shape_bytes(dtype, shape, &elements, &bytes, NULL) < 0 || elements == 0)
        return 0;
    return (int64_t)(bytes / (size_t)shape.dims[0]);
}

static sheaf_shape fixed(sheaf_dtype dtype, sheaf_shape shape, const int64_t *args, void *user)
{
    (void)dtype;
    (void)user;
    return answer(shape, args[0]);
}

static sheaf_shape min_size(sheaf_dtype dtype, sheaf_shape shape, const int64_t *args, void *user)
{
    const int64_t bytes = row_bytes(dtype, shape) * shape.dims[0];
    (void)user;
    return answer(shape, least(args[1], divide_up(bytes, args[0])));
}

static sheaf_shape max_size(sheaf_dtype dtype, sheaf_shape shape, const int64_t *args, void *user)
{
    const int64_t row = row_bytes(dtype, shape);
    const int64_t rows = row && args[0] > row ? args[0] / row : 1; /* of a part */
    const int64_t parts = row ? divide_up(shape.dims[0], rows) : 1;
    (void)user;
    return answer(shape, args[1] > 0 ? least(parts, args[1]) : parts);
}

sheaf_partitioner sheaf_partitioner_fixed(int64_t parts)
{
    return (sheaf_partitioner){.fn = fixed, .args = {parts}};
}

sheaf_partitioner sheaf_partitioner_min_size(int64_t bytes, int64_t max_parts)
{
    return (sheaf_partitioner){.fn = min_size,
                               .args = {bytes ? bytes : MIN_SIZE_DEFAULT, max_parts}};
}

sheaf_partitioner sheaf_partitioner_max_size(int64_t bytes, int64_t max_parts)
{
    return (sheaf_partitioner){.fn = max_size, .args = {bytes, max_parts}};
}

sheaf_status sheaf__partitioner_check(const sheaf_partitioner *p, sheaf_error *err)
{
    if (p->fn == fixed && p->args[0] < 1)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "a partitioner of %lld parts, expected at least 1",
                            (long long)p->args[0]);
    if ((p->fn == min_size || p->fn == max_size) && p->args[0] < 1)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "a partitioner for parts of %lld bytes, expected at least 1",
                            (long long)p->args[0]);
    if ((p->fn == min_size && p->args[1] < 1) || (p->fn == max_size && p->args[1] < 0))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "a partitioner for at most %lld parts, expected at least %d",
                            (long long)p->args[1], p->fn == min_size);
    return SHEAF_OK;
}

/* Cutting. */

sheaf_status sheaf__ps_parts(const sheaf_partitioner *p, sheaf_dtype dtype, sheaf_shape shape,
                             int64_t *parts, sheaf_error *err)
{
    *parts = 1;
    if (!p->fn || shape.rank == 0)
        return SHEAF_OK;
    sheaf__error_listen();
    const sheaf_shape found = p->fn(dtype, shape, p->args, p->user);
    SHEAF__TRY(sheaf__called_mute(err, "the partitioner"));
    bool ours = found.rank >= 1 && found.rank <= SHEAF_MAX_RANK && found.dims[0] >= 1;
    for (int i = 1; ours && i < found.rank; i++)
        ours = found.dims[i] == 1;
    if (!ours)
        return sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "the partitioner's answer for shape %s is %s, expected a number of parts "
            "of axis 0, and 1 for all others",
            SHEAF__SHAPE_TEXT(shape), SHEAF__SHAPE_TEXT(found));
    *parts = least(found.dims[0], shape.dims[0] > 0 ? shape.dims[0] : 1);
    return SHEAF_OK;
}

int64_t sheaf__ps_first_row(int64_t rows, int64_t parts, int64_t i)
{
    return i * (rows / parts) + least(i, rows % parts);
}

int64_t sheaf__ps_part_of(int64_t rows, int64_t parts, int64_t row)
{
    const int64_t base = rows / parts, larger = rows % parts;
    return row < larger * (base + 1) ? row / (base + 1) : (row - larger) / base;
}
