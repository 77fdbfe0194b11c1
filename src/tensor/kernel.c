/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/kernel.h"

#include "base/cpu.h"
#include "base/thread.h"
#include "tensor/kernel_table.h"

#include <string.h>

static struct sheaf__kernels table;
static struct sheaf__once once = SHEAF__ONCE_INIT;

static void fill_table(void)
{
    const struct sheaf__cpu_features *cpu = sheaf__cpu_features();
    table = *sheaf__kernels_portable();
    if (cpu->avx2 && cpu->f16c)
        sheaf__kernels_avx2(&table);
}

const struct sheaf__kernels *sheaf__kernels(void)
{
    sheaf__once(&once, fill_table);
    return &table;
}

/* ---- filling ---- */

static void repeat(void *out, const void *element, size_t size, size_t n)
{
    /* Copies what is there already, so that each round doubles it. */
    char *to = out;
    size_t total = size * n;
    size_t done = size;
    memcpy(to, element, size);
    while (done < total) {
        size_t more = done < total - done ? done : total - done;
        if (more > 4096)
            more = 4096 / size * size;
        memcpy(to + done, to, more);
        done += more;
    }
}

void sheaf__kernel_fill(void *out, sheaf_dtype dtype, double value, size_t n)
{
    char element[16] = {0};
    size_t size = sheaf_dtype_size(dtype);
    if (!n || !sheaf__kernel_can_cast(dtype, SHEAF_FLOAT64))
        return;
    sheaf__kernel_cast(element, dtype, &value, SHEAF_FLOAT64, 1);
    repeat(out, element, size, n);
}

/* ---- gathering ---- */

static void gather_row(char *out, const char *in, size_t size, int64_t n, int64_t stride)
{
    if (stride == 1) {
        memcpy(out, in, (size_t)n * size);
        return;
    }
    int64_t step = stride * (int64_t)size;
    switch (size) {
    case 4:
        for (int64_t i = 0; i < n; i++)
            memcpy(out + i * 4, in + i * step, 4);
        break;
    case 8:
        for (int64_t i = 0; i < n; i++)
            memcpy(out + i * 8, in + i * step, 8);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(out + i * (int64_t)size, in + i * step, size);
        break;
    }
}

/* Axes of size 1 dropped, and joined with the next where they lie one behind the other. */
static sheaf_shape simplify(sheaf_shape shape, const int64_t *strides, int64_t *out)
{
    sheaf_shape result = {.rank = 0};
    for (int i = 0; i < shape.rank; i++) {
        if (shape.dims[i] == 1)
            continue;
        int last = result.rank - 1;
        if (last >= 0 && out[last] == strides[i] * shape.dims[i]) {
            result.dims[last] *= shape.dims[i];
            out[last] = strides[i];
            continue;
        }
        result.dims[result.rank] = shape.dims[i];
        out[result.rank++] = strides[i];
    }
    return result;
}

void sheaf__kernel_gather(void *out, const void *in, size_t size, sheaf_shape shape,
                          const int64_t *strides)
{
    int64_t steps[SHEAF_MAX_RANK] = {0};
    int64_t at[SHEAF_MAX_RANK] = {0};
    char *to = out;
    const char *from = in;
    if (sheaf_shape_elements(shape) <= 0)
        return;
    sheaf_shape s = simplify(shape, strides, steps);
    if (s.rank == 0) {
        memcpy(to, from, size);
        return;
    }
    int inner = s.rank - 1;
    for (;;) {
        gather_row(to, from, size, s.dims[inner], steps[inner]);
        to += s.dims[inner] * (int64_t)size;
        int axis = inner - 1;
        /* Like an odometer: an axis at its end goes back and the one before it moves on. */
        for (; axis >= 0 && ++at[axis] == s.dims[axis]; axis--) {
            from -= (s.dims[axis] - 1) * steps[axis] * (int64_t)size;
            at[axis] = 0;
        }
        if (axis < 0)
            return;
        from += steps[axis] * (int64_t)size;
    }
}

/* ---- single elements ---- */

double sheaf__kernel_number(const void *data, sheaf_dtype dtype, int64_t i)
{
    double value = 0;
    const char *element = (const char *)data + (size_t)i * sheaf_dtype_size(dtype);
    if (sheaf__kernel_can_cast(SHEAF_FLOAT64, dtype))
        sheaf__kernel_cast(&value, SHEAF_FLOAT64, element, dtype, 1);
    return value;
}

int64_t sheaf__kernel_integer(const void *data, sheaf_dtype dtype, int64_t i)
{
    int64_t value = 0;
    const char *element = (const char *)data + (size_t)i * sheaf_dtype_size(dtype);
    if (!sheaf__kernel_can_cast(SHEAF_INT64, dtype))
        return 0;
    if (!sheaf__dtype_is_integer(dtype) && dtype != SHEAF_BOOL) {
        double number = sheaf__kernel_number(data, dtype, i);
        if (number != number)
            return 0;
        if (number >= 0x1p63)
            return INT64_MAX;
        return number < -0x1p63 ? INT64_MIN : (int64_t)number;
    }
    sheaf__kernel_cast(&value, SHEAF_INT64, element, dtype, 1);
    return dtype == SHEAF_UINT64 && value < 0 ? INT64_MAX : value;
}
