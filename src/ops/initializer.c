/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values. Element i of a variable depends on the seed and i alone, so that a part of it can
 * be made anywhere. */
#include "ops/initializer.h"

#include "base/random.h"
#include "tensor/kernel.h"

#include <math.h>

/* Blocks of four outputs: four floats, or two doubles of 53 bits. */
static bool is_double(sheaf_dtype dtype)
{
    return dtype == SHEAF_FLOAT64;
}

/* Numbers `first` .. of the stream into doubles, at most CHUNK of them; `first` at the beginning of
 * a block. */
enum { CHUNK = 256 };

static double next_double(struct sheaf__philox *p)
{
    return (double)(sheaf__philox_next64(p) >> 11) * 0x1p-53;
}

static void draw_uniform(struct sheaf__philox *p, bool doubles, double *values, size_t count)
{
    if (doubles) {
        for (size_t i = 0; i < count; i++)
            values[i] = next_double(p);
        return;
    }
    float chunk[CHUNK];
    sheaf__philox_uniform(p, chunk, count);
    for (size_t i = 0; i < count; i++)
        values[i] = chunk[i];
}

static void draw_normal(struct sheaf__philox *p, bool doubles, double *values, size_t count)
{
    if (!doubles) {
        float chunk[CHUNK];
        sheaf__philox_normal(p, chunk, count);
        for (size_t i = 0; i < count; i++)
            values[i] = chunk[i];
        return;
    }
    for (size_t i = 0; i < count; i += 2) { /* Box-Muller */
        double radius = sqrt(-2 * log(1 - next_double(p)));
        double angle = 2 * acos(-1.0) * next_double(p);
        values[i] = radius * sin(angle);
        if (i + 1 < count)
            values[i + 1] = radius * cos(angle);
    }
}

/* The largest number of the dtype below `high`, which rounding might otherwise reach. */
static double below(double value, double low, double high, sheaf_dtype dtype)
{
    double rounded = 0, candidate = value;
    for (double step = 0x1p-53; step < 1; step *= 2) {
        sheaf__kernel_fill(&rounded, dtype, candidate, 1);
        if (sheaf__kernel_number(&rounded, dtype, 0) < high)
            return candidate;
        candidate = high - (high - low) * step;
    }
    return low;
}

static void fill_random(void *data, sheaf_dtype dtype, uint64_t first, uint64_t count,
                        uint64_t seed, const double *args, bool normal)
{
    bool doubles = is_double(dtype);
    unsigned per_block = doubles ? 2 : 4;
    uint64_t skip = first % per_block;
    struct sheaf__philox p;
    sheaf__philox_init(&p, seed, 0);
    sheaf__philox_skip(&p, first / per_block);
    size_t size = sheaf_dtype_size(dtype);
    for (uint64_t done = 0; done < count;) {
        double values[CHUNK];
        uint64_t wanted = count - done + skip;
        size_t n = wanted < CHUNK ? (size_t)wanted : CHUNK;
        (normal ? draw_normal : draw_uniform)(&p, doubles, values, n);
        for (size_t i = skip; i < n; i++) {
            if (normal) {
                values[i] = args[0] + args[1] * values[i];
            } else {
                double value = args[0] + (args[1] - args[0]) * values[i];
                values[i] = args[1] - value < (args[1] - args[0]) * 0x1p-6
                                ? below(value, args[0], args[1], dtype)
                                : value;
            }
        }
        sheaf__kernel_cast((uint8_t *)data + done * size, dtype, values + skip, SHEAF_FLOAT64,
                           n - skip);
        done += n - skip;
        skip = 0;
    }
}

static void fill_constant(void *data, sheaf_dtype dtype, sheaf_shape shape, uint64_t first,
                          uint64_t count, uint64_t seed, const double *args)
{
    (void)shape, (void)first, (void)seed;
    sheaf__kernel_fill(data, dtype, args[0], count);
}

static void fill_uniform(void *data, sheaf_dtype dtype, sheaf_shape shape, uint64_t first,
                         uint64_t count, uint64_t seed, const double *args)
{
    (void)shape;
    fill_random(data, dtype, first, count, seed, args, false);
}

static void fill_normal(void *data, sheaf_dtype dtype, sheaf_shape shape, uint64_t first,
                        uint64_t count, uint64_t seed, const double *args)
{
    (void)shape;
    fill_random(data, dtype, first, count, seed, args, true);
}

/* Fans as Keras counts them: the last two axes, times the sizes of those before (a convolution's
 * window). */
static void fill_glorot(void *data, sheaf_dtype dtype, sheaf_shape shape, uint64_t first,
                        uint64_t count, uint64_t seed, const double *args)
{
    (void)args;
    double in = 1, out = 1;
    if (shape.rank == 1)
        in = out = (double)shape.dims[0];
    for (int i = 0; shape.rank >= 2 && i < shape.rank; i++) {
        if (i != shape.rank - 1)
            in *= (double)shape.dims[i];
        if (i != shape.rank - 2)
            out *= (double)shape.dims[i];
    }
    double limit = sqrt(6 / (in + out));
    const double range[2] = {-limit, limit};
    fill_random(data, dtype, first, count, seed, range, false);
}

uint64_t sheaf__initializer_seed(void)
{
    struct sheaf__seeds seeds = sheaf__random_seeds(false, 0);
    uint64_t seed = seeds.seed ^ (seeds.seed2 << 32 | seeds.seed2 >> 32);
    return seed ? seed : 1;
}

sheaf_initializer sheaf_init_zeros(void)
{
    return sheaf_init_constant(0);
}

sheaf_initializer sheaf_init_constant(double value)
{
    /* A seed, so that none is taken from the sequence. */
    return (sheaf_initializer){.fill = fill_constant, .seed = 1, .args = {value}};
}

sheaf_initializer sheaf_init_uniform(double low, double high, uint64_t seed)
{
    return (sheaf_initializer){.fill = fill_uniform, .seed = seed, .args = {low, high}};
}

sheaf_initializer sheaf_init_normal(double mean, double deviation, uint64_t seed)
{
    return (sheaf_initializer){.fill = fill_normal, .seed = seed, .args = {mean, deviation}};
}

sheaf_initializer sheaf_init_glorot_uniform(uint64_t seed)
{
    return (sheaf_initializer){.fill = fill_glorot, .seed = seed};
}

struct parts {
    const sheaf_initializer *initializer;
    uint8_t *data;
    sheaf_dtype dtype;
    sheaf_shape shape;
    uint64_t first;
};

static void run_part(size_t begin, size_t end, void *user)
{
    const struct parts *p = user;
    p->initializer->fill(p->data + begin * sheaf_dtype_size(p->dtype), p->dtype, p->shape,
                         p->first + begin, end - begin, p->initializer->seed, p->initializer->args);
}

void sheaf__initializer_run(const sheaf_initializer *initializer, struct sheaf__device *device,
                            void *data, sheaf_dtype dtype, sheaf_shape shape, uint64_t first,
                            uint64_t count)
{
    struct parts p = {initializer, data, dtype, shape, first};
    sheaf__split(device, count, SHEAF__GRAIN, run_part, &p);
}
