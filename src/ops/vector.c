/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/vector.h"

#include "base/cpu.h"
#include "base/independent.h"

#define BODY static inline __attribute__((always_inline)) void

/* NaN stays NaN, as in TensorFlow. */
BODY relu_body(float *out, const float *in, size_t n)
{
    SHEAF__INDEPENDENT
    for (size_t i = 0; i < n; i++)
        out[i] = in[i] < 0 ? 0 : in[i];
}

BODY add_relu_body(float *out, const float *a, const float *b, size_t n)
{
    SHEAF__INDEPENDENT
    for (size_t i = 0; i < n; i++) {
        float sum = a[i] + b[i];
        out[i] = sum < 0 ? 0 : sum;
    }
}

BODY relu_grad_body(float *out, const float *dy, const float *y, size_t n)
{
    SHEAF__INDEPENDENT
    for (size_t i = 0; i < n; i++)
        out[i] = y[i] > 0 ? dy[i] : 0;
}

/* The same loops, compiled for one instruction set and put into a table. */
#define VERSION(name, attribute)                                                                  \
    attribute static void relu_##name(float *out, const float *in, size_t n)                      \
    {                                                                                             \
        relu_body(out, in, n);                                                                    \
    }                                                                                             \
    attribute static void add_relu_##name(float *out, const float *a, const float *b, size_t n)   \
    {                                                                                             \
        add_relu_body(out, a, b, n);                                                              \
    }                                                                                             \
    attribute static void relu_grad_##name(float *out, const float *dy, const float *y, size_t n) \
    {                                                                                             \
        relu_grad_body(out, dy, y, n);                                                            \
    }                                                                                             \
    static const struct sheaf__vector name = {relu_##name, add_relu_##name, relu_grad_##name};

#define PLAIN
VERSION(baseline, PLAIN)
#ifdef __x86_64__
VERSION(avx2, __attribute__((target("avx2"))))
VERSION(avx512, __attribute__((target("avx512f,avx512vl,avx512bw"))))
#endif

const struct sheaf__vector *sheaf__vector(void)
{
#ifdef __x86_64__
    const struct sheaf__cpu_features *cpu = sheaf__cpu_features();
    if (cpu->avx512f && cpu->avx512bw && cpu->avx512vl)
        return &avx512;
    if (cpu->avx2)
        return &avx2;
#endif
    return &baseline;
}
