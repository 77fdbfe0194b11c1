# SPDX-License-Identifier: Apache-2.0
"""tf.data over the files of make_data.py. usage: tfdata.py DIR"""
import sys

import tensorflow as tf

from tally import MODULUS, RANGE, SHUFFLE, First, Rate, ResidentRate, paths
from turns import take_works

AUTO = tf.data.AUTOTUNE
CTR = paths(sys.argv[1], "ctr")
IMG = paths(sys.argv[1], "img")
CTR_SPEC = {
    "label": tf.io.FixedLenFeature([], tf.int64),
    "dense": tf.io.FixedLenFeature([13], tf.float32),
    "cat": tf.io.FixedLenFeature([26], tf.int64),
}
IMG_SPEC = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def read(files):
    return tf.data.TFRecordDataset(files)


def interleaved(files, batch=None):
    """Elements, or batches, of several files at once."""
    read_one = (lambda name: read(name).batch(batch)) if batch else read
    names = tf.data.Dataset.from_tensor_slices(files)
    return names.interleave(read_one, cycle_length=4, num_parallel_calls=AUTO, deterministic=False)


def parse_inside(files):
    """Each thread parses what it has read."""
    def read_one(name):
        return read(name).batch(512).map(lambda x: tf.io.parse_example(x, CTR_SPEC))
    names = tf.data.Dataset.from_tensor_slices(files)
    return names.interleave(read_one, cycle_length=4, num_parallel_calls=AUTO, deterministic=False).prefetch(AUTO)


def parsed(batches):
    """Whole batches are parsed, which is faster than parsing each example."""
    return batches.map(lambda x: tf.io.parse_example(x, CTR_SPEC), num_parallel_calls=AUTO).prefetch(AUTO)


def scaled(batches):
    return batches.map(scale, num_parallel_calls=AUTO).prefetch(AUTO)


def shuffled():
    return parsed(read(CTR).shuffle(SHUFFLE, seed=1).batch(512))


def scale(x):
    p = tf.io.parse_example(x, IMG_SPEC)
    return tf.cast(tf.io.decode_raw(p["image"], tf.uint8), tf.float32) / 255.0, p["label"]


def doubled(parallel):
    return tf.data.Dataset.range(RANGE).map(lambda x: x * 2, num_parallel_calls=parallel).batch(128)


def sum_of(element):
    tensors = tf.nest.flatten(element)
    total = 0.0
    for t in tensors:
        t = tf.strings.length(t) if t.dtype == tf.string else t % MODULUS if t.dtype == tf.int64 else t
        total += float(tf.reduce_sum(tf.cast(t, tf.float64)))
    return int(tensors[0].shape[0]), total


def rate(work, *datasets, kind=Rate):
    return kind("tensorflow", work, sum_of, *[lambda d=d: d for d in datasets])


take_works([
    First("tensorflow", "first element ctr", lambda: parsed(read(CTR).batch(512))),
    First("tensorflow", "first element shuffled ctr", shuffled),
    rate("raw read ctr", read(CTR).batch(4096), interleaved(CTR, 4096)),
    rate("raw read img", read(IMG).batch(512), interleaved(IMG, 512)),
    rate("read+parse+batch ctr", parsed(read(CTR).batch(512)), parsed(interleaved(CTR).batch(512)),
         parsed(interleaved(CTR, 512)), parse_inside(CTR)),
    rate("read+shuffle10k+parse+batch ctr", shuffled(), kind=ResidentRate),
    rate("read+parse+decode+scale img", scaled(read(IMG).batch(128)), scaled(interleaved(IMG, 128))),
    rate("range map batch", doubled(None), doubled(AUTO)),
])
