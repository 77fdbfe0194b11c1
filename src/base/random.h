/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHEAF_BASE_RANDOM_H
#define SHEAF_BASE_RANDOM_H

/* Random numbers, bit for bit TensorFlow's: Philox 4x32-10 (R9.4), MT19937 and the rules of seeds
 * (R9.8). */

#include <sheaf/context.h>

/* A stream of Philox outputs. Copy the struct to save its position. */
struct sheaf__philox {
    uint32_t key[2];
    uint32_t counter[4];
    uint32_t out[4];
    uint32_t used; /* outputs of `out` that were taken; 4: the next block is due */
};

/* Key from seed, counter words 2 and 3 from seed2 (R9.4). */
void sheaf__philox_init(struct sheaf__philox *p, uint64_t seed, uint64_t seed2);
uint32_t sheaf__philox_next(struct sheaf__philox *p);
uint64_t sheaf__philox_next64(struct sheaf__philox *p); /* low word first */
/* Moves on by `blocks` whole blocks of four outputs; what is left of the present block is dropped.
 */
void sheaf__philox_skip(struct sheaf__philox *p, uint64_t blocks);
/* Uniform in 0..bound-1 without bias; bound > 0. Ours, not TensorFlow's. */
uint64_t sheaf__philox_below(struct sheaf__philox *p, uint64_t bound);

/* Fills with floats as TensorFlow's kernels do, from whole blocks: uniform in [0, 1), standard
 * normal (Box-Muller, two outputs a pair), and normal with values beyond two deviations drawn
 * again. */
void sheaf__philox_uniform(struct sheaf__philox *p, float *values, size_t count);
void sheaf__philox_normal(struct sheaf__philox *p, float *values, size_t count);
void sheaf__philox_truncated_normal(struct sheaf__philox *p, float *values, size_t count);

struct sheaf__mt19937 {
    uint32_t state[624];
    uint32_t at;
};
/* init_by_array with the 32-bit words of |seed|, lowest first. */
void sheaf__mt19937_init(struct sheaf__mt19937 *mt, int64_t seed);
uint32_t sheaf__mt19937_next(struct sheaf__mt19937 *mt);

/* The two seeds of an operation (R9.8) in the current context: from the op's own seed if
 * `has_seed`, from the global one (taking the next number of its sequence if the op has none),
 * both, or neither: then from the system's entropy. Any thread. */
struct sheaf__seeds {
    uint64_t seed;
    uint64_t seed2;
};
struct sheaf__seeds sheaf__random_seeds(bool has_seed, int64_t op_seed);
/* The global seed of a context and how far its sequence of op seeds is. */
struct sheaf__seed_state {
    bool has_seed;
    int64_t seed;
    struct sheaf__mt19937 op_seeds;
};
void sheaf__seed_get(sheaf_context *context, struct sheaf__seed_state *state);
void sheaf__seed_put(sheaf_context *context, const struct sheaf__seed_state *state);
/* Whether they are from neither: other processes have other ones. */
bool sheaf__random_is_chance(bool has_seed);
/* The pure rule: `pair` after the reduction modulo 2^31-1, (0,0) becoming (0, 2^31-1). */
struct sheaf__seeds sheaf__random_reduce(int64_t seed, int64_t seed2);

#endif
