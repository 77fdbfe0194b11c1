/* SPDX-License-Identifier: Apache-2.0 */
#include "format/tensor_file.h"

#include "base/error.h"
#include "tensor/kernel.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

#define BLOCK 512 /* elements that are looked at when their bytes differ */

/* The larger one; what is no number stays. */
static double larger(double a, double b)
{
    return isnan(a) || a > b ? a : b;
}

/* Absolute difference of two elements. Of 64 bits it is taken before it is made a double. */
static double difference_of(sheaf_dtype dtype, const void *a, const void *b)
{
    if (dtype == SHEAF_INT64 || dtype == SHEAF_UINT64) {
        uint64_t x, y;
        memcpy(&x, a, sizeof(x));
        memcpy(&y, b, sizeof(y));
        const bool above = dtype == SHEAF_INT64 ? (int64_t)x > (int64_t)y : x > y;
        return (double)(above ? x - y : y - x);
    }
    if (dtype == SHEAF_COMPLEX64 || dtype == SHEAF_COMPLEX128) {
        const sheaf_dtype part = dtype == SHEAF_COMPLEX64 ? SHEAF_FLOAT32 : SHEAF_FLOAT64;
        return hypot(sheaf__kernel_number(a, part, 0) - sheaf__kernel_number(b, part, 0),
                     sheaf__kernel_number(a, part, 1) - sheaf__kernel_number(b, part, 1));
    }
    if (!sheaf__kernel_can_cast(SHEAF_FLOAT64, dtype))
        return NAN;
    const double x = sheaf__kernel_number(a, dtype, 0), y = sheaf__kernel_number(b, dtype, 0);
    return x == y ? 0 : fabs(x - y); /* infinities of one sign are equal */
}

static void compare_bytes(sheaf_dtype dtype, const uint8_t *a, const uint8_t *b, size_t size,
                          sheaf_tensor_difference *d)
{
    const size_t width = sheaf_dtype_size(dtype);
    for (size_t at = 0, part; at < size; at += part) {
        part = size - at < BLOCK * width ? size - at : BLOCK * width;
        if (memcmp(a + at, b + at, part) == 0)
            continue;
        for (size_t i = at; i < at + part; i += width) {
            if (memcmp(a + i, b + i, width) == 0)
                continue;
            d->elements++;
            d->largest = larger(d->largest, difference_of(dtype, a + i, b + i));
        }
    }
}

static void compare_string(const sheaf_bytes *a, const sheaf_bytes *b, sheaf_tensor_difference *d)
{
    if (a->size == b->size && (!a->size || memcmp(a->data, b->data, a->size) == 0))
        return;
    d->elements++;
    d->largest = NAN;
}

static sheaf_status compare_strings(sheaf_tensor *a, sheaf_tensor *b, sheaf_tensor_difference *d)
{
    const sheaf_bytes *x = sheaf__tensor_host(a, NULL), *y = sheaf__tensor_host(b, NULL);
    for (int64_t i = 0; i < sheaf_tensor_elements(a); i++)
        compare_string(&x[i], &y[i], d);
    return SHEAF_OK;
}

/* Two files and the tensor in each. */
struct pair {
    sheaf_tensor_file *files[2];
    const struct sheaf__tensor_entry *entries[2];
};

static sheaf_status compare_whole(const struct pair *p, sheaf_tensor_difference *d,
                                  sheaf_error *err)
{
    sheaf_error fault = {0};
    sheaf_tensor *a = sheaf__tensor_file_whole(p->files[0], p->entries[0], &fault);
    sheaf_tensor *b = a ? sheaf__tensor_file_whole(p->files[1], p->entries[1], &fault) : NULL;
    sheaf_status status = b ? compare_strings(a, b, d) : sheaf__error_copy(err, &fault);
    sheaf__unref(a);
    sheaf__unref(b);
    return status;
}

/* Both are the object graph, of which only checkpoints have strings. */
static bool are_graphs(const struct pair *p)
{
    return sheaf__tensor_entry_is_graph(p->entries[0]) &&
           sheaf__tensor_entry_is_graph(p->entries[1]);
}

static sheaf_status compare_graphs(const struct pair *p, sheaf_tensor_difference *d,
                                   sheaf_error *err)
{
    sheaf_error fault = {0};
    sheaf_bytes x, y;
    sheaf_tensor *a = sheaf__tensor_file_graph(p->files[0], p->entries[0], &x, &fault);
    sheaf_tensor *b = a ? sheaf__tensor_file_graph(p->files[1], p->entries[1], &y, &fault) : NULL;
    if (b)
        compare_string(&x, &y, d);
    sheaf__unref(a);
    sheaf__unref(b);
    return b ? SHEAF_OK : sheaf__error_copy(err, &fault);
}

static sheaf_status compare_streams(const struct pair *p, sheaf_tensor_difference *d,
                                    sheaf_error *err)
{
    struct sheaf__tensor_stream a, b;
    const uint8_t *x, *y;
    size_t size;
    SHEAF__TRY(sheaf__tensor_stream_begin(&a, p->files[0], p->entries[0], NULL, err));
    SHEAF__TRY(sheaf__tensor_stream_begin(&b, p->files[1], p->entries[1], NULL, err));
    sheaf_status status = SHEAF_OK;
    while (status == SHEAF_OK) {
        status = sheaf__tensor_stream_next(&a, &x, &size, err);
        if (status == SHEAF_OK)
            status = sheaf__tensor_stream_next(&b, &y, &size, err);
        if (status == SHEAF_OK)
            compare_bytes(p->entries[0]->dtype, x, y, size, d);
    }
    return status == SHEAF_END ? SHEAF_OK : status;
}

/* Compares what can be compared: the same dtype and shape, or two object graphs. */
static sheaf_status compare_pair(const struct pair *p, sheaf_tensor_difference *d, sheaf_error *err)
{
    const struct sheaf__tensor_entry *a = p->entries[0], *b = p->entries[1];
    const bool same = a->dtype == b->dtype && sheaf_shape_equal(a->shape, b->shape);
    const bool graphs = a->dtype != b->dtype && are_graphs(p);
    if (!same && !graphs)
        return sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "tensor '%.120s' is %s of shape %s in one file, %s of shape %s in the other", a->name,
            sheaf_dtype_name(a->dtype), SHEAF__SHAPE_TEXT(a->shape), sheaf_dtype_name(b->dtype),
            SHEAF__SHAPE_TEXT(b->shape));
    for (int i = 0; i < 2; i++)
        SHEAF__TRY(sheaf__tensor_file_readable(p->files[i], p->entries[i], err));
    return graphs                     ? compare_graphs(p, d, err)
           : a->dtype == SHEAF_STRING ? compare_whole(p, d, err)
                                      : compare_streams(p, d, err);
}

sheaf_status sheaf_tensor_file_compare(sheaf_tensor_file *a, sheaf_tensor_file *b, const char *name,
                                       sheaf_tensor_difference *difference, sheaf_error *err)
{
    if (!a || !b || a == b || !name || !difference)
        return sheaf__error(
            err, SHEAF_ERR_INVALID_ARGUMENT,
            "comparing a tensor needs two files, a name and a place for what is found");
    struct pair p = {.files = {a, b}};
    for (int i = 0; i < 2; i++) {
        const struct sheaf__place place = {p.files[i]->path, SHEAF__UNKNOWN, SHEAF__UNKNOWN};
        p.entries[i] = sheaf__tensor_file_find(p.files[i], name);
        if (!p.entries[i])
            return sheaf__error_at(err, SHEAF_ERR_NOT_FOUND, &place,
                                   "no tensor '%.120s' in the file", name);
    }
    sheaf_tensor_difference found = {0};
    SHEAF__TRY(compare_pair(&p, &found, err));
    *difference = found;
    return SHEAF_OK;
}
