# SPDX-License-Identifier: Apache-2.0
"""tf.data over the files of make_data.py. usage: tfdata.py DIR"""
import glob
import sys
import time

import tensorflow as tf

AUTO = tf.data.AUTOTUNE
directory = sys.argv[1]
ctr = sorted(glob.glob(directory + "/ctr-*.tfrecord"))
img = sorted(glob.glob(directory + "/img-*.tfrecord"))
spec = {
    "label": tf.io.FixedLenFeature([], tf.int64),
    "dense": tf.io.FixedLenFeature([13], tf.float32),
    "cat": tf.io.FixedLenFeature([26], tf.int64),
}


def run(work, dataset, unit):
    best = 0
    for _ in range(3):
        begin = time.perf_counter()
        count = 0
        for _ in dataset:
            count += unit
        best = max(best, count / (time.perf_counter() - begin))
    print(f"tensorflow\t{work}\t{best:.0f}\trecords/s", flush=True)


def parse(dataset):
    return dataset.map(lambda x: tf.io.parse_example(x, spec), num_parallel_calls=AUTO).prefetch(AUTO)


def read():
    return tf.data.TFRecordDataset(ctr)


def interleaved():
    files = tf.data.Dataset.from_tensor_slices(ctr)
    return files.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=AUTO, deterministic=False)


run("raw read ctr", read().batch(4096), 4096)
run("raw read img", tf.data.TFRecordDataset(img).batch(512), 512)
run("read+batch+parse ctr (vectorised)", parse(read().batch(512)), 512)
run("interleave+batch+parse ctr", parse(interleaved().batch(512)), 512)
run("read+parse_single+batch ctr",
    read().map(lambda x: tf.io.parse_single_example(x, spec), num_parallel_calls=AUTO).batch(512).prefetch(AUTO), 512)
run("read+shuffle10k+batch+parse ctr", parse(read().shuffle(10000, seed=1).batch(512)), 512)
run("range map batch", tf.data.Dataset.range(2000000).map(lambda x: x * 2, num_parallel_calls=AUTO).batch(128), 128)
