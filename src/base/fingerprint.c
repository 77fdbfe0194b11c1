/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fingerprint.h"

#include "base/buf.h"

static const uint64_t k0 = 0xc3a5c85c97cb3127, k1 = 0xb492b66fbe98f273, k2 = 0x9ae16a3b2f90404f;

static uint64_t rotate(uint64_t v, int by)
{
    return v >> by | v << (64 - by);
}

static uint64_t shift_mix(uint64_t v)
{
    return v ^ v >> 47;
}

/* Two halves into one. */
static uint64_t mix(uint64_t u, uint64_t v, uint64_t mul)
{
    uint64_t a = shift_mix((u ^ v) * mul);
    return shift_mix((v ^ a) * mul) * mul;
}

static uint64_t up_to_16(const uint8_t *s, size_t size)
{
    uint64_t mul = k2 + size * 2;
    if (size >= 8) {
        uint64_t a = sheaf__load64(s) + k2, b = sheaf__load64(s + size - 8);
        return mix(rotate(b, 37) * mul + a, (rotate(a, 25) + b) * mul, mul);
    }
    if (size >= 4)
        return mix(size + ((uint64_t)sheaf__load32(s) << 3), sheaf__load32(s + size - 4), mul);
    if (size == 0)
        return k2;
    uint32_t y = s[0] + ((uint32_t)s[size >> 1] << 8);
    uint32_t z = (uint32_t)size + ((uint32_t)s[size - 1] << 2);
    return shift_mix(y * k2 ^ z * k0) * k2;
}

static uint64_t up_to_32(const uint8_t *s, size_t size)
{
    uint64_t mul = k2 + size * 2;
    uint64_t a = sheaf__load64(s) * k1, b = sheaf__load64(s + 8);
    uint64_t c = sheaf__load64(s + size - 8) * mul, d = sheaf__load64(s + size - 16) * k2;
    return mix(rotate(a + b, 43) + rotate(c, 30) + d, a + rotate(b + k2, 18) + c, mul);
}

static uint64_t up_to_64(const uint8_t *s, size_t size)
{
    uint64_t mul = k2 + size * 2;
    uint64_t a = sheaf__load64(s) * k2, b = sheaf__load64(s + 8);
    uint64_t c = sheaf__load64(s + size - 8) * mul, d = sheaf__load64(s + size - 16) * k2;
    uint64_t y = rotate(a + b, 43) + rotate(c, 30) + d;
    uint64_t z = mix(y, a + rotate(b + k2, 18) + c, mul);
    uint64_t e = sheaf__load64(s + 16) * mul, f = sheaf__load64(s + 24);
    uint64_t g = (y + sheaf__load64(s + size - 32)) * mul;
    uint64_t h = (z + sheaf__load64(s + size - 24)) * mul;
    return mix(rotate(e + f, 43) + rotate(g, 30) + h, e + rotate(f + a, 18) + g, mul);
}

/* 128 bits of state. */
struct pair {
    uint64_t first, second;
};

/* 32 bytes into a pair. */
static struct pair absorb(const uint8_t *s, uint64_t a, uint64_t b)
{
    uint64_t z = sheaf__load64(s + 24);
    a += sheaf__load64(s);
    b = rotate(b + a + z, 21);
    uint64_t c = a;
    a += sheaf__load64(s + 8) + sheaf__load64(s + 16);
    return (struct pair){a + z, b + rotate(a, 44) + c};
}

struct state {
    uint64_t x, y, z;
    struct pair v, w;
};

/* 64 bytes; the last ones with other factors. */
static void step(struct state *t, const uint8_t *s, uint64_t mul, uint64_t factor)
{
    uint64_t x = rotate(t->x + t->y + t->v.first + sheaf__load64(s + 8), 37) * mul;
    uint64_t y = rotate(t->y + t->v.second + sheaf__load64(s + 48), 42) * mul;
    x ^= t->w.second * factor;
    y += t->v.first * factor + sheaf__load64(s + 40);
    uint64_t z = rotate(t->z + t->w.first, 33) * mul;
    t->v = absorb(s, t->v.second * mul, x + t->w.first);
    t->w = absorb(s + 32, z + t->w.second, y + sheaf__load64(s + 16));
    t->x = z;
    t->y = y;
    t->z = x;
}

uint64_t sheaf__fingerprint64(const void *data, size_t size)
{
    const uint8_t *s = data;
    if (size <= 16)
        return up_to_16(s, size);
    if (size <= 32)
        return up_to_32(s, size);
    if (size <= 64)
        return up_to_64(s, size);
    const uint64_t seed = 81;
    const size_t rest = (size - 1) % 64;
    struct state t = {.y = seed * k1 + 113};
    t.x = seed * k2 + sheaf__load64(s);
    t.z = shift_mix(t.y * k2 + 113) * k2;
    for (size_t at = 0; at + 64 < size; at += 64)
        step(&t, s + at, k1, 1);
    uint64_t mul = k1 + ((t.z & 0xff) << 1);
    t.w.first += rest;
    t.v.first += t.w.first;
    t.w.first += t.v.first;
    step(&t, s + size - 64, mul, 9);
    return mix(mix(t.v.first, t.w.first, mul) + shift_mix(t.y) * k0 + t.z,
               mix(t.v.second, t.w.second, mul) + t.x, mul);
}
