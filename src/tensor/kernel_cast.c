/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion between dtypes in three steps: widen to one of five number types, convert between
 * those, narrow. So there is a loop for each dtype and each pair of wide types, not for each pair
 * of dtypes. Steps that change nothing are left out. */
#include "tensor/half.h"
#include "tensor/kernel.h"

#include <string.h>

enum wide { I32, I64, U64, F32, F64, WIDE, BOOL = WIDE, TARGETS };

typedef void (*step)(void *out, const void *in, size_t n);

#define STEP(name, from_type, to_type, value)             \
    static void name(void *out, const void *in, size_t n) \
    {                                                     \
        const from_type *from = in;                       \
        to_type *to = out;                                \
        for (size_t i = 0; i < n; i++) {                  \
            from_type x = from[i];                        \
            to[i] = (to_type)(value);                     \
        }                                                 \
    }

/* ---- floats to integers: toward zero; what does not fit is what x86 makes of it ---- */

static int32_t trunc32(double x)
{
    return x > -2147483649.0 && x < 2147483648.0 ? (int32_t)x : INT32_MIN;
}

static int64_t trunc64(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

static uint64_t trunc_u64(double x)
{
    return x >= 0x1p63 && x < 0x1p64 ? (uint64_t)x : (uint64_t)trunc64(x);
}

/* ---- widening ---- */

STEP(widen_i8, int8_t, int32_t, x)
STEP(widen_i16, int16_t, int32_t, x)
STEP(widen_u8, uint8_t, int32_t, x)
STEP(widen_u16, uint16_t, int32_t, x)
STEP(widen_u32, uint32_t, int64_t, x)

static void widen_f16(void *out, const void *in, size_t n)
{
    sheaf__kernels()->float16_to_float(out, in, n);
}

static void widen_bf16(void *out, const void *in, size_t n)
{
    sheaf__kernels()->bfloat16_to_float(out, in, n);
}

static void real_c64(void *out, const void *in, size_t n)
{
    const float *from = in;
    float *to = out;
    for (size_t i = 0; i < n; i++)
        to[i] = from[2 * i];
}

static void real_c128(void *out, const void *in, size_t n)
{
    const double *from = in;
    double *to = out;
    for (size_t i = 0; i < n; i++)
        to[i] = from[2 * i];
}

/* ---- converting ---- */

STEP(i32_to_i64, int32_t, int64_t, x)
STEP(i32_to_u64, int32_t, uint64_t, (int64_t)x)
STEP(i32_to_f32, int32_t, float, x)
STEP(i32_to_f64, int32_t, double, x)
STEP(i32_to_bool, int32_t, uint8_t, x != 0)
STEP(i64_to_i32, int64_t, uint32_t, x)
STEP(i64_to_f32, int64_t, float, x)
STEP(i64_to_f64, int64_t, double, x)
STEP(i64_to_bool, int64_t, uint8_t, x != 0)
STEP(u64_to_f32, uint64_t, float, x)
STEP(u64_to_f64, uint64_t, double, x)
STEP(f32_to_i32, float, int32_t, trunc32(x))
STEP(f32_to_i64, float, int64_t, trunc64(x))
STEP(f32_to_u64, float, uint64_t, trunc_u64(x))
STEP(f32_to_f64, float, double, x)
STEP(f32_to_bool, float, uint8_t, x != 0)
STEP(f64_to_i32, double, int32_t, trunc32(x))
STEP(f64_to_i64, double, int64_t, trunc64(x))
STEP(f64_to_u64, double, uint64_t, trunc_u64(x))
STEP(f64_to_f32, double, float, x)
STEP(f64_to_bool, double, uint8_t, x != 0)

static void copy64(void *out, const void *in, size_t n)
{
    memcpy(out, in, n * 8);
}

/* NULL: nothing to do, the types are the same. */
static const step convert[WIDE][TARGETS] = {
    [I32] = {NULL, i32_to_i64, i32_to_u64, i32_to_f32, i32_to_f64, i32_to_bool},
    [I64] = {i64_to_i32, NULL, copy64, i64_to_f32, i64_to_f64, i64_to_bool},
    [U64] = {i64_to_i32, copy64, NULL, u64_to_f32, u64_to_f64, i64_to_bool},
    [F32] = {f32_to_i32, f32_to_i64, f32_to_u64, NULL, f32_to_f64, f32_to_bool},
    [F64] = {f64_to_i32, f64_to_i64, f64_to_u64, f64_to_f32, NULL, f64_to_bool},
};

/* ---- narrowing ---- */

STEP(narrow_i8, int32_t, uint8_t, x)
STEP(narrow_i16, int32_t, uint16_t, x)
STEP(narrow_u32, int64_t, uint32_t, x)

static void narrow_f16(void *out, const void *in, size_t n)
{
    sheaf__kernels()->float_to_float16(out, in, n);
}

static void narrow_bf16(void *out, const void *in, size_t n)
{
    sheaf__kernels()->float_to_bfloat16(out, in, n);
}

static void complex_of_f32(void *out, const void *in, size_t n)
{
    const float *from = in;
    float *to = out;
    for (size_t i = 0; i < n; i++) {
        to[2 * i] = from[i];
        to[2 * i + 1] = 0;
    }
}

static void complex_of_f64(void *out, const void *in, size_t n)
{
    const double *from = in;
    double *to = out;
    for (size_t i = 0; i < n; i++) {
        to[2 * i] = from[i];
        to[2 * i + 1] = 0;
    }
}

/* ---- dtypes ---- */

static const struct route {
    step widen, narrow; /* NULL: the element is of the wide type already */
    uint8_t from, to;   /* wide type it is widened to, and narrowed from */
    bool known;
} routes[SHEAF__DTYPES] = {
    [SHEAF_FLOAT32] = {NULL, NULL, F32, F32, true},
    [SHEAF_FLOAT64] = {NULL, NULL, F64, F64, true},
    [SHEAF_INT8] = {widen_i8, narrow_i8, I32, I32, true},
    [SHEAF_INT16] = {widen_i16, narrow_i16, I32, I32, true},
    [SHEAF_INT32] = {NULL, NULL, I32, I32, true},
    [SHEAF_INT64] = {NULL, NULL, I64, I64, true},
    [SHEAF_UINT8] = {widen_u8, narrow_i8, I32, I32, true},
    [SHEAF_UINT16] = {widen_u16, narrow_i16, I32, I32, true},
    [SHEAF_UINT32] = {widen_u32, narrow_u32, I64, I64, true},
    [SHEAF_UINT64] = {NULL, NULL, U64, U64, true},
    [SHEAF_BOOL] = {widen_u8, NULL, I32, BOOL, true},
    [SHEAF_BFLOAT16] = {widen_bf16, narrow_bf16, F32, F32, true},
    [SHEAF_FLOAT16] = {widen_f16, narrow_f16, F32, F32, true},
    [SHEAF_COMPLEX64] = {real_c64, complex_of_f32, F32, F32, true},
    [SHEAF_COMPLEX128] = {real_c128, complex_of_f64, F64, F64, true},
};

bool sheaf__kernel_can_cast(sheaf_dtype to, sheaf_dtype from)
{
    return (unsigned)to < SHEAF__DTYPES && (unsigned)from < SHEAF__DTYPES && routes[to].known &&
           routes[from].known;
}

static bool is_complex(sheaf_dtype dtype)
{
    return dtype == SHEAF_COMPLEX64 || dtype == SHEAF_COMPLEX128;
}

#define AT_ONCE 512

/* At most three steps over as many elements as the two buffers between them hold; the last one that
 * there is writes to `out`. */
static void cast_some(void *out, const struct route *to, const void *in, const struct route *from,
                      size_t n)
{
    uint64_t buffers[2][AT_ONCE];
    const step steps[] = {from->widen, convert[from->from][to->to], to->narrow};
    int last = to->narrow ? 2 : steps[1] ? 1 : 0;
    for (int i = 0; i <= last; i++) {
        if (!steps[i])
            continue;
        void *target = i == last ? out : buffers[i];
        steps[i](target, in, n);
        in = target;
    }
}

void sheaf__kernel_cast(void *out, sheaf_dtype to, const void *in, sheaf_dtype from, size_t n)
{
    if (!sheaf__kernel_can_cast(to, from))
        return;
    if (to == from) {
        memmove(out, in, n * sheaf_dtype_size(to));
        return;
    }
    /* Between complex numbers both parts are converted. */
    if (is_complex(to) && is_complex(from)) {
        n *= 2;
        to = to == SHEAF_COMPLEX64 ? SHEAF_FLOAT32 : SHEAF_FLOAT64;
        from = from == SHEAF_COMPLEX64 ? SHEAF_FLOAT32 : SHEAF_FLOAT64;
    }
    size_t to_size = sheaf_dtype_size(to), from_size = sheaf_dtype_size(from);
    for (size_t i = 0; i < n; i += AT_ONCE) {
        size_t some = n - i < AT_ONCE ? n - i : AT_ONCE;
        cast_some((char *)out + i * to_size, &routes[to], (const char *)in + i * from_size,
                  &routes[from], some);
    }
}
