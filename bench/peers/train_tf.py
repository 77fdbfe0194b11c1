# SPDX-License-Identifier: Apache-2.0
"""Single-process training rates of TensorFlow, as a graph and compiled by XLA."""
import time

import numpy as np
import tensorflow as tf

from turns import line, take

STEPS = 100
tf.config.threading.set_intra_op_parallelism_threads(2)
tf.config.threading.set_inter_op_parallelism_threads(2)
K, L = tf.keras, tf.keras.layers
rng = np.random.default_rng(0)
loss_fn = K.losses.SparseCategoricalCrossentropy(from_logits=True)


def make_step(rule, jit):
    model = K.Sequential([L.Input((784,)), L.Dense(512, "relu"), L.Dense(512, "relu"), L.Dense(10)])
    optimizer = K.optimizers.get(rule)
    optimizer.build(model.trainable_variables)

    @tf.function(jit_compile=jit)
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return step


works = []
for batch in (32, 256):
    x = tf.constant(rng.random((batch, 784), dtype=np.float32))
    y = tf.constant(rng.integers(0, 10, batch))
    for rule in ("sgd", "adam"):
        for jit in (False, True):
            step = make_step(rule, jit)
            for _ in range(5):
                step(x, y)
            peer = "tensorflow-xla" if jit else "tensorflow"
            works.append((peer, f"train MLP 784-512-512-10 batch {batch} {rule}", step, x, y, batch))


def measure():
    for peer, work, step, x, y, batch in works:
        best = 0
        for _ in range(3):
            begin = time.perf_counter()
            for _ in range(STEPS):
                loss = step(x, y)
            loss.numpy()
            best = max(best, STEPS * batch / (time.perf_counter() - begin))
        line(peer, work, best, "examples/s")


take(measure)
