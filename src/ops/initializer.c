/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values. Element i of a variable depends on the seed and i alone, so that a part of it can be made anywhere. */
#include "ops/initializer.h"

#include "base/error.h"
#include "base/random.h"
#include "base/thread.h"
#include "tensor/called.h"
#include "tensor/kernel.h"

#include <math.h>
#include <string.h>

/* Elements at a time. A block of Philox has four outputs: four elements, or two doubles of 53 bits each. */
enum { CHUNK = 256 };

/* ---- numbers of the stream, from a block's beginning on ---- */

static double next_double(struct sheaf__philox *p)
{
    return (double)(sheaf__philox_next64(p) >> 11) * 0x1p-53;
}

static void uniform_doubles(struct sheaf__philox *p, double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = next_double(p);
}

/* Box-Muller. */
static void normal_doubles(struct sheaf__philox *p, double *values, size_t count)
{
    for (size_t i = 0; i < count; i += 2) {
        double radius = sqrt(-2 * log(1 - next_double(p)));
        double angle = 2 * acos(-1.0) * next_double(p);
        values[i] = radius * sin(angle);
        if (i + 1 < count)
            values[i + 1] = radius * cos(angle);
    }
}

/* ---- from there to the elements ---- */

/* Range of a uniform distribution, or mean and deviation of a normal one. */
struct shape_of_numbers {
    bool normal;
    double low, width;
};

static void place_doubles(const struct shape_of_numbers *s, double *values, size_t count)
{
    double high = s->low + s->width;
    for (size_t i = 0; i < count; i++) {
        double value = s->low + s->width * values[i];
        /* Rounding must not reach the end of the range. */
        values[i] = s->normal || value < high ? value : nextafter(high, s->low);
    }
}

static void place_floats(const struct shape_of_numbers *s, float *values, size_t count)
{
    float low = (float)s->low, width = (float)s->width, high = (float)(s->low + s->width);
    float last = nextafterf(high, low);
    for (size_t i = 0; i < count; i++) {
        float value = low + width * values[i];
        values[i] = s->normal || value < high ? value : last;
    }
}

/* Numbers `from` .. of the stream, of which the first `skip` are not wanted, `count` in all. */
static void fill_chunk(struct sheaf__philox *p, const struct shape_of_numbers *s, sheaf_dtype dtype,
                       void *out, size_t skip, size_t count)
{
    if (dtype == SHEAF_FLOAT64) {
        double values[CHUNK];
        (s->normal ? normal_doubles : uniform_doubles)(p, values, count);
        place_doubles(s, values, count);
        sheaf__kernel_cast(out, dtype, values + skip, SHEAF_FLOAT64, count - skip);
    } else {
        float values[CHUNK];
        (s->normal ? sheaf__philox_normal : sheaf__philox_uniform)(p, values, count);
        place_floats(s, values, count);
        sheaf__kernel_cast(out, dtype, values + skip, SHEAF_FLOAT32, count - skip);
    }
}

static void fill_random(void *data, const sheaf_initial_part *part, uint64_t seed,
                        const struct shape_of_numbers *s)
{
    uint64_t per_block = part->dtype == SHEAF_FLOAT64 ? 2 : 4;
    uint64_t skip = part->first % per_block;
    struct sheaf__philox p;
    sheaf__philox_init(&p, seed, 0);
    sheaf__philox_skip(&p, part->first / per_block);
    for (uint64_t done = 0; done < part->count; skip = 0) {
        uint64_t wanted = part->count - done + skip;
        size_t n = wanted < CHUNK ? (size_t)wanted : CHUNK;
        fill_chunk(&p, s, part->dtype, (uint8_t *)data + done * sheaf_dtype_size(part->dtype),
                   (size_t)skip, n);
        done += n - skip;
    }
}

/* ---- the makers' functions ---- */

static void fill_constant(void *data, const sheaf_initial_part *part, uint64_t seed,
                          const double *args)
{
    (void)seed;
    if (args[0] == 0) /* of every dtype, also one that we know no numbers of */
        memset(data, 0, (size_t)part->count * sheaf_dtype_size(part->dtype));
    else
        sheaf__kernel_fill(data, part->dtype, args[0], part->count);
}

static void fill_uniform(void *data, const sheaf_initial_part *part, uint64_t seed,
                         const double *args)
{
    const struct shape_of_numbers s = {false, args[0], args[1] - args[0]};
    fill_random(data, part, seed, &s);
}

static void fill_normal(void *data, const sheaf_initial_part *part, uint64_t seed,
                        const double *args)
{
    const struct shape_of_numbers s = {true, args[0], args[1]};
    fill_random(data, part, seed, &s);
}

/* Fans as Keras counts them: the last two axes, times the sizes of those before (a convolution's window). */
static void fill_glorot(void *data, const sheaf_initial_part *part, uint64_t seed,
                        const double *args)
{
    sheaf_shape shape = part->shape;
    double in = 1, out = 1;
    (void)args;
    if (shape.rank == 1)
        in = out = (double)shape.dims[0];
    for (int i = 0; shape.rank >= 2 && i < shape.rank; i++) {
        if (i != shape.rank - 1)
            in *= (double)shape.dims[i];
        if (i != shape.rank - 2)
            out *= (double)shape.dims[i];
    }
    double limit = sqrt(6 / (in + out));
    const struct shape_of_numbers s = {false, -limit, 2 * limit};
    fill_random(data, part, seed, &s);
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

/* ---- what makes no numbers ---- */

static bool is_finite_in(sheaf_dtype dtype, double value)
{
    uint64_t element = 0;
    sheaf__kernel_fill(&element, dtype, value, 1);
    return isfinite(value) && isfinite(sheaf__kernel_number(&element, dtype, 0));
}

static sheaf_status check_uniform(double low, double high, sheaf_dtype dtype, sheaf_error *err)
{
    const sheaf_dtype drawn = dtype == SHEAF_FLOAT64 ? dtype : SHEAF_FLOAT32;
    if (is_finite_in(dtype, low) && is_finite_in(dtype, high) && low <= high &&
        is_finite_in(drawn, high - low))
        return SHEAF_OK;
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                        "uniform in [%g, %g), expected low <= high, a finite range of %s", low,
                        high, sheaf_dtype_name(dtype));
}

static sheaf_status check_normal(double mean, double deviation, sheaf_dtype dtype, sheaf_error *err)
{
    if (is_finite_in(dtype, mean) && is_finite_in(dtype, deviation) && deviation >= 0)
        return SHEAF_OK;
    return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                        "normal with mean %g and deviation %g, expected finite numbers of %s, "
                        "the deviation 0 or more",
                        mean, deviation, sheaf_dtype_name(dtype));
}

sheaf_status sheaf__initializer_check(const sheaf_initializer *initializer, sheaf_dtype dtype,
                                      sheaf_error *err)
{
    const sheaf_initializer_fn fill = initializer->fill;
    const double a = initializer->args[0], b = initializer->args[1];
    const bool draws = fill == fill_uniform || fill == fill_normal || fill == fill_glorot;
    const bool zero = fill == fill_constant && a == 0;
    if (draws && !sheaf__dtype_is_float(dtype))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "dtype %s, wanted a float",
                            sheaf_dtype_name(dtype));
    if (dtype == SHEAF_STRING && !zero)
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT,
                            "strings, wanted a tensor of them as the initial value");
    if (fill == fill_constant && !zero && !sheaf__kernel_can_cast(dtype, SHEAF_FLOAT64))
        return sheaf__error(err, SHEAF_ERR_INVALID_ARGUMENT, "constant %g: no numbers of dtype %s",
                            a, sheaf_dtype_name(dtype));
    if (fill == fill_uniform)
        return check_uniform(a, b, dtype, err);
    return fill == fill_normal ? check_normal(a, b, dtype, err) : SHEAF_OK;
}

/* ---- running ---- */

uint64_t sheaf__initializer_seed(void)
{
    struct sheaf__seeds seeds = sheaf__random_seeds(false, 0);
    uint64_t seed = seeds.seed ^ (seeds.seed2 << 32 | seeds.seed2 >> 32);
    return seed ? seed : 1;
}

struct parts {
    const sheaf_initializer *initializer;
    uint8_t *data;
    const sheaf_initial_part *whole;
    struct sheaf__mutex lock;
    size_t failed; /* where the first part begins that failed, and why */
    sheaf_error error;
};

static void note_failure(struct parts *p, size_t begin, const sheaf_error *error)
{
    sheaf__mutex_lock(&p->lock);
    if (p->error.status >= 0 || begin < p->failed) {
        p->failed = begin;
        p->error = *error;
    }
    sheaf__mutex_unlock(&p->lock);
}

static void run_part(size_t begin, size_t end, void *user)
{
    struct parts *p = user;
    sheaf_initial_part part = *p->whole;
    sheaf_error error;
    part.first += begin;
    part.count = end - begin;
    sheaf__error_listen();
    p->initializer->fill(p->data + begin * sheaf_dtype_size(part.dtype), &part,
                         p->initializer->seed, p->initializer->args);
    if (sheaf__called_mute(&error, "the initializer") < 0)
        note_failure(p, begin, &error);
}

sheaf_status sheaf__initializer_run(const sheaf_initializer *initializer,
                                    struct sheaf__device *device, void *data,
                                    const sheaf_initial_part *part, sheaf_error *err)
{
    struct parts p = {.initializer = initializer, .data = data, .whole = part};
    sheaf__split(device, (size_t)part->count, SHEAF__GRAIN, run_part, &p);
    return p.error.status < 0 ? sheaf__error_copy(err, &p.error) : SHEAF_OK;
}
