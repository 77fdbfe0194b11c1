# SPDX-License-Identifier: Apache-2.0
"""Single-process training rates of TensorFlow, as a graph and compiled by XLA."""
import time

import tensorflow as tf

import mlp
from turns import line, take

tf.config.threading.set_intra_op_parallelism_threads(2)
tf.config.threading.set_inter_op_parallelism_threads(2)
K, L = tf.keras, tf.keras.layers
loss_fn = K.losses.SparseCategoricalCrossentropy(from_logits=True)


def make_step(rule, jit):
    model = K.Sequential([L.Input((784,)), L.Dense(512, "relu"), L.Dense(512, "relu"), L.Dense(10)])
    for i, layer in enumerate(model.layers):
        layer.kernel.assign(mlp.weights(i))
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


class Work:
    def __init__(self, batch, rule, jit):
        self.peer = "tensorflow-xla" if jit else "tensorflow"
        self.batch, self.rule = batch, rule
        self.step = make_step(rule, jit)
        self.x, self.y = map(tf.constant, mlp.batch_of(batch))
        self.turns = 0
        for _ in range(mlp.WARM_UP):
            self.step(self.x, self.y)

    def measure(self):
        best = 0
        for _ in range(mlp.TIMES):
            begin = time.perf_counter()
            for _ in range(mlp.STEPS):
                loss = self.step(self.x, self.y)
            loss = float(loss)
            best = max(best, mlp.STEPS * self.batch / (time.perf_counter() - begin))
        line(self.peer, "train " + mlp.name(self.batch, self.rule), best, "examples/s")
        self.turns += 1
        if self.turns == 1:
            line(self.peer, mlp.loss_name(self.batch, self.rule), loss, "loss")


works = [Work(b, r, jit) for b in (32, 256) for r in ("sgd", "adam") for jit in (False, True)]


def measure():
    for work in works:
        work.measure()


take(measure)
