# SPDX-License-Identifier: Apache-2.0
"""Random pipelines in real tf.data and in sheaf, element for element.

usage: pipelines.py PIPELINES DIR [SEED COUNT]

Draws pipelines by a seed, with and without a strategy's split over workers and replicas, lists what tf.data gives, and what
PIPELINES, the program of pipelines.c, gives. Prints one line a hundred, shows what differs, ends with "N passed, N failed"."""

import json
import os
import random
import subprocess
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import tensorflow as tf
from tensorflow.python.data.experimental.ops import distribute
from tensorflow.python.distribute import input_ops

PIPELINES, DIR = sys.argv[1:3]
SEED, COUNT = (int(a) for a in (sys.argv[3:] or ("1", "400")))
FILES, MOST = 7, 200
Dataset = tf.data.Dataset
POLICY = tf.data.experimental.AutoShardPolicy


def write_files():
    """Files 0 … 6 of 1 … 7 records each."""
    for i in range(FILES):
        with tf.io.TFRecordWriter(os.path.join(DIR, f"{i}.tfrecord")) as w:
            for k in range(i + 1):
                w.write(b"%d" % (10 * i + k))


# ---- drawing ----

def draw_source(dice):
    if dice.random() < 0.6:
        return ["range", dice.randrange(30)]
    return ["files", dice.randrange(1, FILES + 1), dice.randrange(4), dice.randrange(1, 4), dice.randrange(3)]


def draw_stage(dice, rank):
    """A stage for elements of that rank, and the rank after it."""
    common = [
        lambda: ["map", dice.randrange(3)],
        lambda: ["filter"],
        lambda: ["repeat", dice.randrange(3)],
        lambda: ["take", dice.randrange(25)],
        lambda: ["skip", dice.randrange(7)],
        lambda: (lambda n: ["shard", n, dice.randrange(n)])(dice.randrange(1, 4)),
        lambda: ["cache"],
        lambda: ["prefetch", dice.randrange(1, 4)],
        lambda: ["shuffle", dice.randrange(1, 9), dice.randrange(1, 100), dice.randrange(2)],
        lambda: ["shuffle", dice.randrange(1, 9), dice.randrange(1, 100), dice.randrange(2)],
        lambda: ["enumerate", dice.randrange(4)],
        lambda: ["concatenate", {"source": draw_source(dice), "stages": [["batch", 3, 0]] * rank}],
    ]
    numbers = [
        lambda: ["interleave", dice.randrange(1, 4), dice.randrange(1, 4), dice.randrange(3)],
        lambda: ["flat_map"],
        lambda: ["zip", {"source": draw_source(dice), "stages": [["map", 0]]}],
    ]
    lists = [
        lambda: ["rebatch", dice.randrange(2)] + [dice.randrange(1, 5) for _ in range(dice.randrange(1, 4))],
        lambda: ["unbatch"],
    ]
    batch = lambda: ["batch", dice.randrange(1, 6), dice.randrange(2)]
    stage = dice.choice(common + (lists * 2 if rank else numbers) + ([batch] * 3 if rank < 2 else []))()
    return stage, rank + (stage[0] == "batch") - (stage[0] == "unbatch")


def draw(dice):
    p, rank = {"source": draw_source(dice), "stages": []}, 0
    for _ in range(dice.randrange(8)):
        stage, rank = draw_stage(dice, rank)
        p["stages"].append(stage)
    if dice.random() < 0.4:
        p["stages"].append(["batch", dice.randrange(1, 9), dice.randrange(2)])
        p.update(workers=dice.randrange(1, 4), replicas=dice.randrange(1, 4),
                 policy=dice.choice(["DATA", "OFF"] if divides_twice(p) else ["AUTO", "FILE", "DATA", "OFF"]))
    return p


def divides_twice(p):
    """Where sheaf has another rule on purpose. Of a function behind the reader tf.data divides the records between workers,
    sheaf the files (R2.14); where only one of two inputs reads files tf.data divides those, and then all elements once
    more, and half of them are lost."""
    names = ("interleave", "flat_map", "zip", "concatenate")
    return p["source"][0] == "files" and any(s[0] in names for s in p["stages"])


# ---- tf.data ----

def first(x):
    flat = tf.reshape(x, [-1])
    return tf.cond(tf.size(flat) > 0, lambda: flat[0], lambda: tf.constant(7, tf.int64))


def few(x):
    return Dataset.range(10 * x, 10 * x + x % 4)


def parallel(n):
    return {"num_parallel_calls": n, "deterministic": True} if n else {}


def make_source(s):
    if s[0] == "range":
        return Dataset.range(s[1])
    names = Dataset.from_tensor_slices([os.path.join(DIR, f"{i}.tfrecord") for i in range(s[1])])
    ds = (names.interleave(tf.data.TFRecordDataset, s[2], s[3], **parallel(s[4])) if s[2]
          else names.flat_map(tf.data.TFRecordDataset))
    return ds.map(lambda text: tf.strings.to_number(text, tf.int64))


STAGES = {
    "map": lambda ds, n: ds.map(lambda x: x + 1, **parallel(n)),
    "filter": lambda ds: ds.filter(lambda x: first(x) % 3 != 1),
    "interleave": lambda ds, cycle, block, n: ds.interleave(few, cycle, block, **parallel(n)),
    "flat_map": lambda ds: ds.flat_map(few),
    "batch": lambda ds, n, drop: ds.batch(n, drop_remainder=bool(drop)),
    "rebatch": lambda ds, drop, *sizes: ds.rebatch(list(sizes), drop_remainder=bool(drop)),
    "unbatch": lambda ds: ds.unbatch(),
    "shuffle": lambda ds, size, seed, again: ds.shuffle(size, seed=seed, reshuffle_each_iteration=bool(again)),
    "repeat": lambda ds, n: ds.repeat(n),
    "take": lambda ds, n: ds.take(n),
    "skip": lambda ds, n: ds.skip(n),
    "shard": lambda ds, n, i: ds.shard(n, i),
    "enumerate": lambda ds, start: ds.enumerate(start).map(lambda i, x: 1000 * i + x),
    "zip": lambda ds, p: Dataset.zip((ds, make(p))).map(lambda a, b: 1000 * a + b),
    "concatenate": lambda ds, p: ds.concatenate(make(p)),
    "cache": lambda ds: ds.cache(),
    "prefetch": lambda ds, n: ds.prefetch(n),
}


def make(p):
    ds = make_source(p["source"])
    for name, *args in p["stages"]:
        ds = STAGES[name](ds, *args)
    options = tf.data.Options()
    # What fuses stages also changes errors: shuffle().repeat(0) is refused, and a batch that is dropped is looked at.
    options.experimental_optimization.apply_default_optimizations = False
    return ds.with_options(options)


def worker_dataset(ds, workers, replicas, worker):
    """What experimental_distribute_dataset makes for one worker, by the same calls."""
    n = workers * replicas
    if n > 1:
        size = int(distribute.compute_batch_size(ds))
        if size != -1:
            sizes = distribute.batch_sizes_for_worker(tf.constant(size, tf.int64), workers, replicas, worker)
            ds = ds.rebatch(sizes).prefetch(replicas)
        else:
            ds = distribute._LegacyRebatchDataset(ds, n).prefetch(replicas)
    return input_ops.auto_shard_dataset(ds, workers, worker, n)


def elements(ds):
    found = []
    try:
        for e in ds:
            found.append(e.numpy().tolist())
            if len(found) > MOST:
                return None
    except tf.errors.OpError as e:
        found.append({"status": type(e).__name__})
    return found


def parts(p):
    if "workers" not in p:
        return elements(make(p))
    all_of = []
    for w in range(p["workers"]):
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = POLICY[p["policy"]]
        try:
            ds = worker_dataset(make(p).with_options(options), p["workers"], p["replicas"], w)
            all_of.append(elements(ds))
        except tf.errors.OpError as e:
            all_of.append([{"status": type(e).__name__}])
    return None if None in all_of else all_of


# ---- comparing ----

def too_few(expected):
    """Where TensorFlow refuses on the workers that have a file, sheaf does on all: any error will do for it."""
    return any(isinstance(e, dict) for worker in expected for e in worker if isinstance(worker, list))


def same(p, found, expected):
    if found == expected:
        return True
    if "workers" in p and too_few(expected):
        return too_few(found)
    return False


def main():
    write_files()
    pipelines, wanted, seed = [], [], SEED
    while len(pipelines) < COUNT:
        p = draw(random.Random(seed)) | {"seed": seed}
        seed += 1
        try:
            expected = parts(p)
        except (ValueError, TypeError, tf.errors.OpError):  # refused when it is made: there is nothing to compare
            continue
        if expected is not None:
            pipelines.append(p)
            wanted.append(expected)
    run = subprocess.run([PIPELINES, DIR], input=json.dumps(pipelines), stdout=subprocess.PIPE, text=True, check=True,
                         env=os.environ | {"SHEAF_LOG": "error"})
    bad = [(p, f, e) for p, f, e in zip(pipelines, json.loads(run.stdout), wanted) if not same(p, f, e)]
    for p, found, expected in bad[:10]:
        print("#", json.dumps(p))
        print("#   sheaf  ", json.dumps(found)[:600])
        print("#   tf.data", json.dumps(expected)[:600])
    print("not ok" if bad else "ok", f"- {COUNT} random pipelines from seed {SEED}, {len(bad)} differ")
    return 1 if bad else 0


sys.exit(main())
