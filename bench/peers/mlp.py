# SPDX-License-Identifier: Apache-2.0
"""The network of the benchmarks, 784-512-512-10: sizes, inputs and first weights as in src/cli/bench_mlp.c."""
import numpy as np

SIZES = (784, 512, 512, 10)
WARM_UP, STEPS, TIMES = 5, 100, 3


def uniform(stream, shape, low, high):
    """Numbers in [low, high): a hash of the position."""
    i = np.arange(np.prod(shape), dtype=np.uint32) + np.uint32(stream * 1000003)
    h = i * np.uint32(2654435761)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(2246822519)
    u = ((h ^ (h >> np.uint32(13))) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    return (np.float32(low) + np.float32(high - low) * u).reshape(shape)


def batch_of(size):
    return uniform(0, (size, SIZES[0]), 0, 1), np.arange(size, dtype=np.int64) * 7 % SIZES[-1]


def weights(layer):
    limit = np.sqrt(np.float32(6 / (SIZES[layer] + SIZES[layer + 1])))
    return uniform(1 + layer, SIZES[layer:layer + 2], -limit, limit)


def name(batch, rule):
    return f"MLP 784-512-512-10 batch {batch} {rule}"


def loss_name(batch, rule):
    return f"loss after {WARM_UP + TIMES * STEPS} steps, {name(batch, rule)}"
