/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include <math.h>
#include <string.h>

/* ---- Philox 4x32-10 (R9.4) ---- */

void sheaf__philox_init(struct sheaf__philox *p, uint64_t seed, uint64_t seed2)
{
    *p = (struct sheaf__philox){
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .counter = {0, 0, (uint32_t)seed2, (uint32_t)(seed2 >> 32)},
        .used = 4,
    };
}

static void add_to_counter(uint32_t counter[4], uint64_t n)
{
    uint64_t low = counter[0] | (uint64_t)counter[1] << 32;
    uint64_t sum = low + n;
    counter[0] = (uint32_t)sum;
    counter[1] = (uint32_t)(sum >> 32);
    if (sum < low && ++counter[2] == 0)
        counter[3]++;
}

/* One block: ten rounds over a copy of the counter, which then moves on by one. */
static void next_block(struct sheaf__philox *p, uint32_t out[4])
{
    uint32_t k0 = p->key[0];
    uint32_t k1 = p->key[1];
    uint32_t c[4];
    memcpy(c, p->counter, sizeof(c));
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)UINT32_C(0xD2511F53) * c[0];
        uint64_t p1 = (uint64_t)UINT32_C(0xCD9E8D57) * c[2];
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[0] = n0;
        c[1] = (uint32_t)p1;
        c[2] = n2;
        c[3] = (uint32_t)p0;
        k0 += UINT32_C(0x9E3779B9);
        k1 += UINT32_C(0xBB67AE85);
    }
    memcpy(out, c, sizeof(c));
    add_to_counter(p->counter, 1);
}

uint32_t sheaf__philox_next(struct sheaf__philox *p)
{
    if (p->used >= 4) {
        next_block(p, p->out);
        p->used = 0;
    }
    return p->out[p->used++];
}

uint64_t sheaf__philox_next64(struct sheaf__philox *p)
{
    uint64_t low = sheaf__philox_next(p);
    return low | (uint64_t)sheaf__philox_next(p) << 32;
}

void sheaf__philox_skip(struct sheaf__philox *p, uint64_t blocks)
{
    add_to_counter(p->counter, blocks);
    p->used = 4;
}

uint64_t sheaf__philox_below(struct sheaf__philox *p, uint64_t bound)
{
    /* Draws from the incomplete last round of `bound` are thrown away. */
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t x;
    do {
        x = sheaf__philox_next64(p);
    } while (x >= limit);
    return x % bound;
}

/* ---- floats, as TensorFlow makes them ---- */

/* 23 bits behind the point of a number in [1, 2), less 1. */
static float to_unit(uint32_t x)
{
    uint32_t bits = (UINT32_C(127) << 23) | (x & UINT32_C(0x7fffff));
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f - 1.0f;
}

/* Two normals from two outputs. The float functions, as there. */
static void box_muller(uint32_t x0, uint32_t x1, float *a, float *b)
{
    const float epsilon = 1.0e-7f;
    float u1 = to_unit(x0);
    if (u1 < epsilon)
        u1 = epsilon;
    float v1 = (float)(2.0f * M_PI * (double)to_unit(x1));
    float u2 = sqrtf(-2.0f * logf(u1));
    *a = sinf(v1) * u2;
    *b = cosf(v1) * u2;
}

void sheaf__philox_uniform(struct sheaf__philox *p, float *values, size_t count)
{
    uint32_t x[4];
    for (size_t i = 0; i < count; i += 4) {
        next_block(p, x);
        for (size_t k = 0; k < 4 && i + k < count; k++)
            values[i + k] = to_unit(x[k]);
    }
    p->used = 4;
}

void sheaf__philox_normal(struct sheaf__philox *p, float *values, size_t count)
{
    uint32_t x[4];
    float f[4];
    for (size_t i = 0; i < count; i += 4) {
        next_block(p, x);
        box_muller(x[0], x[1], &f[0], &f[1]);
        box_muller(x[2], x[3], &f[2], &f[3]);
        for (size_t k = 0; k < 4 && i + k < count; k++)
            values[i + k] = f[k];
    }
    p->used = 4;
}

void sheaf__philox_truncated_normal(struct sheaf__philox *p, float *values, size_t count)
{
    size_t done = 0;
    while (done < count) {
        float f[4];
        sheaf__philox_normal(p, f, 4);
        for (size_t k = 0; k < 4 && done < count; k++)
            if (fabsf(f[k]) < 2.0f)
                values[done++] = f[k];
    }
}

/* ---- MT19937 (R9.8) ---- */

static void mt_init_word(struct sheaf__mt19937 *mt, uint32_t seed)
{
    mt->state[0] = seed;
    for (uint32_t i = 1; i < 624; i++)
        mt->state[i] = UINT32_C(1812433253) * (mt->state[i - 1] ^ (mt->state[i - 1] >> 30)) + i;
    mt->at = 624;
}

void sheaf__mt19937_init(struct sheaf__mt19937 *mt, int64_t seed)
{
    uint64_t size = seed < 0 ? 0 - (uint64_t)seed : (uint64_t)seed;
    uint32_t key[2] = {(uint32_t)size, (uint32_t)(size >> 32)};
    uint32_t words = key[1] ? 2 : 1;
    uint32_t *s = mt->state;
    uint32_t i = 1;
    uint32_t j = 0;
    mt_init_word(mt, UINT32_C(19650218));
    for (uint32_t k = 0; k < 624; k++) {
        s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * UINT32_C(1664525))) + key[j] + j;
        j = (j + 1) % words;
        if (++i >= 624) {
            s[0] = s[623];
            i = 1;
        }
    }
    for (uint32_t k = 0; k < 623; k++) {
        s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * UINT32_C(1566083941))) - i;
        if (++i >= 624) {
            s[0] = s[623];
            i = 1;
        }
    }
    s[0] = UINT32_C(0x80000000);
}

static void mt_refill(struct sheaf__mt19937 *mt)
{
    uint32_t *s = mt->state;
    for (uint32_t i = 0; i < 624; i++) {
        uint32_t y = (s[i] & UINT32_C(0x80000000)) | (s[(i + 1) % 624] & UINT32_C(0x7fffffff));
        s[i] = s[(i + 397) % 624] ^ (y >> 1) ^ (y & 1 ? UINT32_C(0x9908b0df) : 0);
    }
    mt->at = 0;
}

uint32_t sheaf__mt19937_next(struct sheaf__mt19937 *mt)
{
    if (mt->at >= 624)
        mt_refill(mt);
    uint32_t y = mt->state[mt->at++];
    y ^= y >> 11;
    y ^= (y << 7) & UINT32_C(0x9d2c5680);
    y ^= (y << 15) & UINT32_C(0xefc60000);
    return y ^ (y >> 18);
}
