/* SPDX-License-Identifier: Apache-2.0 */
/* The seeds of operations (R9.8). */
#include "base/context_state.h"
#include "base/digest.h"
#include "base/random.h"

#define DEFAULT_GLOBAL_SEED 87654321
#define MODULUS             INT64_C(0x7fffffff)

void sheaf__seed_set(sheaf_context *context, int64_t seed)
{
    sheaf__mutex_lock(&context->seed_lock);
    context->seeds.has_seed = true;
    context->seeds.seed = seed;
    sheaf__mt19937_init(&context->seeds.op_seeds, seed);
    sheaf__mutex_unlock(&context->seed_lock);
}

void sheaf__seed_init(sheaf_context *context, bool has_seed, int64_t seed)
{
    if (has_seed)
        sheaf__seed_set(context, seed);
}

void sheaf_set_seed(int64_t seed)
{
    sheaf__seed_set(sheaf__context(), seed);
}

void sheaf__seed_get(sheaf_context *context, struct sheaf__seed_state *state)
{
    sheaf__mutex_lock(&context->seed_lock);
    *state = context->seeds;
    sheaf__mutex_unlock(&context->seed_lock);
}

void sheaf__seed_put(sheaf_context *context, const struct sheaf__seed_state *state)
{
    sheaf__mutex_lock(&context->seed_lock);
    context->seeds = *state;
    sheaf__mutex_unlock(&context->seed_lock);
}

static uint64_t reduce(int64_t seed)
{
    int64_t r = seed % MODULUS;
    return (uint64_t)(r < 0 ? r + MODULUS : r);
}

struct sheaf__seeds sheaf__random_reduce(int64_t seed, int64_t seed2)
{
    struct sheaf__seeds s = {reduce(seed), reduce(seed2)};
    if (s.seed == 0 && s.seed2 == 0)
        s.seed2 = (uint64_t)MODULUS;
    return s;
}

/* The next number of the global seed's sequence: outputs of 2^31 and more are thrown away. */
static int64_t next_op_seed(sheaf_context *context)
{
    uint32_t x;
    do {
        x = sheaf__mt19937_next(&context->seeds.op_seeds);
    } while (x >= UINT32_C(0x80000000));
    return x;
}

bool sheaf__random_is_chance(bool has_seed)
{
    sheaf_context *context = sheaf__context();
    sheaf__mutex_lock(&context->seed_lock);
    const bool has_global = context->seeds.has_seed;
    sheaf__mutex_unlock(&context->seed_lock);
    return !has_global && !has_seed;
}

struct sheaf__seeds sheaf__random_seeds(bool has_seed, int64_t op_seed)
{
    sheaf_context *context = sheaf__context();
    struct sheaf__seeds s;
    sheaf__mutex_lock(&context->seed_lock);
    bool has_global = context->seeds.has_seed;
    int64_t global = has_global ? context->seeds.seed : DEFAULT_GLOBAL_SEED;
    if (has_global && !has_seed)
        op_seed = next_op_seed(context);
    sheaf__mutex_unlock(&context->seed_lock);
    if (has_global || has_seed)
        return sheaf__random_reduce(global, op_seed);
    /* No seed at all: not reproducible on purpose. The system's entropy cannot fail after the
     * machine has booted. */
    if (sheaf__random_bytes(&s, sizeof(s), NULL) < 0)
        s = (struct sheaf__seeds){(uint64_t)sheaf__clock_now(), sheaf__thread_id()};
    return s;
}
