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


KINDS = ("tfrecord", "gzip", "zlib", "snappy", "lines", "fixed", "raw", "csv")


def record_bytes(kind, number):
    return {"fixed": b"%08d", "lines": b"%d\r\n", "csv": b"x,%d,\"a\n,\"\"\"\n"}[kind] % number if kind != "raw" else \
        number.to_bytes(8, "little")


def write_records(path, kind, records):
    if kind == "snappy":  # which the Python writer refuses
        tf.data.experimental.TFRecordWriter(path, "SNAPPY").write(Dataset.from_tensor_slices(records))
        return
    with tf.io.TFRecordWriter(path, "" if kind == "tfrecord" else kind.upper()) as w:
        for r in records:
            w.write(r)


def example(number):
    """Number, absent where a default stands for it, and a list of 0 to 3 numbers, absent if it has none."""
    feature = {}
    if number % 3:
        feature["number"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[number]))
    if number % 4:
        feature["list"] = tf.train.Feature(int64_list=tf.train.Int64List(value=range(number, number + number % 4)))
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def write_files():
    """Files 0 … 6 of 1 … 7 records each, of every kind."""
    for i in range(FILES):
        numbers = range(10 * i, 10 * i + i + 1)
        for kind in KINDS[:4]:
            write_records(os.path.join(DIR, f"{i}.{kind}"), kind, [b"%d" % n for n in numbers])
        write_records(os.path.join(DIR, f"{i}.example"), "tfrecord", [example(n) for n in numbers])
        for kind in KINDS[4:]:
            around = (b"abc", b"de") if kind == "fixed" else (b"", b"")
            with open(os.path.join(DIR, f"{i}.{kind}"), "wb") as f:
                f.write(around[0] + b"".join(record_bytes(kind, n) for n in numbers) + around[1])


# ---- drawing ----

def draw_source(dice):
    if dice.random() < 0.6:
        return [dice.choice(["range", "range", "slices"]), dice.randrange(1, 30)]
    return ["files", dice.randrange(1, FILES + 1), dice.randrange(4), dice.randrange(1, 4), dice.randrange(-1, 3),
            dice.randrange(len(KINDS)), dice.randrange(3)]


def draw_stage(dice, rank):
    """A stage for elements of that rank, and the rank after it."""
    common = [
        lambda: ["map", dice.randrange(-1, 3)],
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
        lambda: ["interleave", dice.randrange(1, 4), dice.randrange(1, 4), dice.randrange(-1, 3)],
        lambda: ["padded", dice.randrange(1, 6), dice.randrange(2), dice.choice([-1, 4, 6]), dice.randrange(3)],
        lambda: ["flat_map"],
        lambda: ["zip", {"source": draw_source(dice), "stages": [["map", 0]]}],
    ]
    lists = [
        lambda: ["rebatch", dice.randrange(2)] + [dice.randrange(1, 5) for _ in range(dice.randrange(1, 4))],
        lambda: ["unbatch"],
    ]
    batch = lambda: ["batch", dice.randrange(1, 6), dice.randrange(2), dice.choice([0, 0, 2, -1])]
    stage = dice.choice(common + (lists * 2 if rank else numbers) + ([batch] * 3 if rank < 2 else []))()
    return stage, rank + {"batch": 1, "padded": 2, "unbatch": -1}.get(stage[0], 0)


def draw_examples(dice):
    """Records in some order, which are parsed in batches."""
    stages = [s for s in (draw_stage(dice, 0)[0] for _ in range(dice.randrange(8)))
              if s[0] in ("repeat", "take", "skip", "shard", "cache", "prefetch", "shuffle")]
    source = ["examples", dice.randrange(1, FILES + 1), dice.randrange(4), dice.randrange(1, 4), dice.randrange(-1, 3)]
    return {"source": source, "stages": stages + [["batch", dice.randrange(1, 6), dice.randrange(2), 0], ["parse"]]}


def draw(dice):
    if dice.random() < 0.1:
        return draw_examples(dice)
    p, rank = {"source": draw_source(dice), "stages": []}, 0
    for _ in range(dice.randrange(8)):
        stage, rank = draw_stage(dice, rank)
        p["stages"].append(stage)
    if dice.random() < 0.4:
        p["stages"].append(["batch", dice.randrange(1, 9), dice.randrange(2), dice.choice([0, 0, 0, 2])])
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


def pad(ds, size, drop, width, value):
    """Lists of 1 to 4 numbers, filled up. Without any, TensorFlow's unbatch ends the process."""
    return ds.map(lambda x: tf.range(x, x + 1 + x % 4)).padded_batch(
        size, [None if width < 0 else width], tf.constant(value, tf.int64), drop_remainder=bool(drop))


OPEN = {
    "lines": tf.data.TextLineDataset,
    "fixed": lambda name: tf.data.FixedLengthRecordDataset(name, 8, 3, 2),
    "raw": lambda name: tf.data.FixedLengthRecordDataset(name, 8),
    "csv": lambda name: tf.data.experimental.CsvDataset(name, [tf.constant([], tf.int64)], select_cols=[1]),
    "gzip": lambda name: tf.data.TFRecordDataset(name, "GZIP"),
    "zlib": lambda name: tf.data.TFRecordDataset(name, "ZLIB"),
    "snappy": lambda name: tf.data.TFRecordDataset(name, "SNAPPY"),
}
NUMBER = {
    "csv": lambda number: number,
    "raw": lambda text: tf.io.decode_raw(text, tf.int64)[0],
}


def names_of(kind, count, listed):
    """Names as a list, or as a pattern finds them: sorted, or shuffled by a seed."""
    if not listed:
        return Dataset.from_tensor_slices([os.path.join(DIR, f"{i}.{kind}") for i in range(count)])
    order = {"shuffle": False} if listed == 1 else {"seed": 3}
    return Dataset.list_files(os.path.join(DIR, f"[0-{count - 1}].{kind}"), **order)


def read_files(kind, count, cycle, block, n, listed=0):
    names, reader = names_of(kind, count, listed), OPEN.get(kind, tf.data.TFRecordDataset)
    return names.interleave(reader, cycle, block, **parallel(n)) if cycle else names.flat_map(reader)


def make_source(s):
    if s[0] == "range":
        return Dataset.range(s[1])
    if s[0] == "slices":
        return Dataset.from_tensor_slices(tf.range(5, 5 + s[1], dtype=tf.int64))
    if s[0] == "examples":
        return read_files("example", *s[1:])
    kind = KINDS[s[5]]
    numbers = NUMBER.get(kind, lambda text: tf.strings.to_number(text, tf.int64))
    return read_files(kind, *s[1:5], s[6]).map(numbers)


FEATURES = {
    "list": tf.io.VarLenFeature(tf.int64),
    "number": tf.io.FixedLenFeature([], tf.int64, default_value=-1),
    "ragged": tf.io.RaggedFeature(tf.int64, value_key="list", row_splits_dtype=tf.int64),
}


STAGES = {
    "map": lambda ds, n: ds.map(lambda x: x + 1, **parallel(n)),
    "filter": lambda ds: ds.filter(lambda x: first(x) % 3 != 1),
    "interleave": lambda ds, cycle, block, n: ds.interleave(few, cycle, block, **parallel(n)),
    "flat_map": lambda ds: ds.flat_map(few),
    "batch": lambda ds, n, drop, many=0: ds.batch(n, drop_remainder=bool(drop), **parallel(many)),
    "padded": pad,
    "parse": lambda ds: ds.map(lambda records: tf.io.parse_example(records, FEATURES)),
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
    # Of what is optimized by default this has a say in how many seeds are taken. The rest changes errors: a batch that is
    # dropped is looked at.
    options.experimental_optimization.apply_default_optimizations = False
    options.experimental_optimization.noop_elimination = True
    options.experimental_optimization.shuffle_and_repeat_fusion = True
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


def plain(e):
    if isinstance(e, dict):
        return {name: plain(part) for name, part in e.items()}
    if isinstance(e, tf.SparseTensor):
        return [plain(e.indices), plain(e.values), plain(e.dense_shape)]
    if isinstance(e, tf.RaggedTensor):
        return [plain(e.row_splits), plain(e.values)]
    return e.numpy().tolist()


def elements(ds):
    found = []
    try:
        for e in ds:
            found.append(plain(e))
            if len(found) > MOST:
                return None
    except tf.errors.FailedPreconditionError:  # rows that rebatch cannot join: an error like batch's in sheaf
        found.append({"status": "InvalidArgumentError"})
    except tf.errors.OpError as e:
        found.append({"status": type(e).__name__})
    return found


def passes(ds):
    """Two, but none after an error: how far threads were then is chance."""
    first = elements(ds)
    if first is None or has_error(first):
        return first and [first]
    return [first, elements(ds)]


def parts(p):
    if "workers" not in p:
        return passes(make(p))
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


def has_error(e):
    return isinstance(e, dict) and "status" in e or isinstance(e, list) and any(has_error(part) for part in e)


def refused(stages):
    """tf.data makes one stage of a shuffle and its repeat, which then cannot be of no rounds (R9.7)."""
    busy = [s for s in stages if s not in (["skip", 0], ["repeat", 1], ["shard", 1, 0])]
    return any(s[0] in ("zip", "concatenate") and refused(s[1]["stages"]) for s in stages) or \
        any(a[0] == "shuffle" and b == ["repeat", 0] for a, b in zip(busy, busy[1:]))


def looks_away(stages):
    """What is stepped over, or dropped at the end, sheaf does not look at; tf.data's skip does, and its parallel batch."""
    return any(s[0] == "skip" or s[0] == "batch" and s[2] and any(s[3:]) or looks_away(s[1]["stages"] if s[0] in
               ("zip", "concatenate") else []) for s in stages)


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
        if refused(p["stages"]):
            continue
        try:
            expected = parts(p)
        except (ValueError, TypeError, tf.errors.OpError):  # refused when it is made: there is nothing to compare
            continue
        if expected is not None and not (has_error(expected) and looks_away(p["stages"])):
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
