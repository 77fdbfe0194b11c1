/* SPDX-License-Identifier: Apache-2.0 */
#include "optim/clip.h"

#include "tensor/half.h"
#include "tensor/kernel.h"

#include <string.h>

#define LANES 8 /* partial sums of a block */
#define BLOCK 4096

/* Sum of the squares of one block, in LANES interleaved sums that are added in pairs at the end. */
#define BLOCK_SUM(name, type, read)                    \
    static double name(const type *data, size_t n)     \
    {                                                  \
        double sum[LANES] = {0};                       \
        size_t i = 0;                                  \
        for (; i + LANES <= n; i += LANES) {           \
            for (size_t k = 0; k < LANES; k++) {       \
                double v = read(data[i + k]);          \
                sum[k] += v * v;                       \
            }                                          \
        }                                              \
        for (size_t k = 0; i < n; i++, k++) {          \
            double v = read(data[i]);                  \
            sum[k] += v * v;                           \
        }                                              \
        for (size_t half = LANES / 2; half; half /= 2) \
            for (size_t k = 0; k < half; k++)          \
                sum[k] += sum[k + half];               \
        return sum[0];                                 \
    }
#define AS_IS(v) ((double)(v))
BLOCK_SUM(block_float, float, AS_IS)
BLOCK_SUM(block_double, double, AS_IS)
BLOCK_SUM(block_half, uint16_t, (double)sheaf__bfloat16_to_float)

double sheaf__clip_sum_squares(sheaf_dtype dtype, const void *data, size_t count)
{
    double sum = 0;
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t n = count - at < BLOCK ? count - at : BLOCK;
        if (dtype == SHEAF_FLOAT64)
            sum += block_double((const double *)data + at, n);
        else if (dtype == SHEAF_BFLOAT16)
            sum += block_half((const uint16_t *)data + at, n);
        else
            sum += block_float((const float *)data + at, n);
    }
    return sum;
}

double sheaf__clip_factor(double norm, double limit)
{
    return norm <= limit ? 1 : limit / norm; /* a norm that is NaN makes all NaN */
}

void sheaf__clip_scale(sheaf_dtype dtype, void *to, const void *from, size_t count, double factor)
{
    if (factor != 1)
        sheaf__kernels()->scale[dtype](to, from, factor, count);
    else if (to != from && count)
        memcpy(to, from, count * sheaf_dtype_size(dtype));
}

void sheaf__clip_value(sheaf_dtype dtype, void *to, const void *from, size_t count, double limit)
{
    const float most = (float)limit;
    if (dtype == SHEAF_FLOAT64) {
        const double *in = from;
        double *out = to;
        for (size_t i = 0; i < count; i++)
            out[i] = in[i] > limit ? limit : in[i] < -limit ? -limit : in[i];
    } else if (dtype == SHEAF_BFLOAT16) {
        const uint16_t *in = from;
        uint16_t *out = to;
        for (size_t i = 0; i < count; i++) {
            float v = sheaf__bfloat16_to_float(in[i]);
            out[i] = sheaf__bfloat16_of_float(v > most ? most : v < -most ? -most : v);
        }
    } else {
        const float *in = from;
        float *out = to;
        for (size_t i = 0; i < count; i++)
            out[i] = in[i] > most ? most : in[i] < -most ? -most : in[i];
    }
}
