# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's checkpoints. usage: ckpt_tf.py DIR"""
import glob
import os
import sys

import ckpt
import tensorflow as tf

PATH = os.path.join(sys.argv[1], "tf")


class Files:
    """A checkpoint of `count` variables: made when it is first asked for, written, and read into the same variables."""

    def __init__(self, count, shape):
        self.count, self.shape, self.checkpoint = count, shape, None

    def make(self):
        if not self.checkpoint:
            variables = {f"v{i}": tf.Variable(tf.random.uniform(self.shape)) for i in range(self.count)}
            self.checkpoint = tf.train.Checkpoint(**variables)

    def save(self):
        self.checkpoint.write(PATH)

    def restore(self):
        self.checkpoint.read(PATH).assert_consumed()

    def names(self):
        return glob.glob(PATH + ".*")


ckpt.take("tensorflow", Files)
