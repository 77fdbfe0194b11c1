# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's checkpoints. usage: ckpt_tf.py DIR"""
import glob
import os
import sys
import time

import tensorflow as tf

path = os.path.join(sys.argv[1], "tf")


def run(name, count, shape, gib):
    variables = {f"v{i}": tf.Variable(tf.random.uniform(shape)) for i in range(count)}
    checkpoint = tf.train.Checkpoint(**variables)
    write = read = 0
    for _ in range(3):
        begin = time.perf_counter()
        written = checkpoint.write(path)
        middle = time.perf_counter()
        checkpoint.read(written).assert_consumed()
        write = max(write, gib / (middle - begin))
        read = max(read, gib / (time.perf_counter() - middle))
    print(f"tensorflow\tcheckpoint write {name}\t{write:.3f}\tGiB/s")
    print(f"tensorflow\tcheckpoint read {name}\t{read:.3f}\tGiB/s", flush=True)


run("64x16MiB", 64, [1024, 4096], 1)
run("10000x1KiB", 10000, [256], 10000 / 2**20)
for file in glob.glob(path + ".*"):
    os.unlink(file)
