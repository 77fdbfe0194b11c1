# SPDX-License-Identifier: Apache-2.0
"""Real TensorFlow and TensorBoard read what sheaf writes, and sheaf reads what they write.

usage: check.py EXCHANGE SHEAF DIGITS DATA DIR PROGRAMS

Prints "ok - what" or "not ok - what" for every check and ends with "N passed, N failed"."""

import glob
import json
import os
import subprocess
import sys
import traceback

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras
import numpy as np
import safetensors.numpy
import tensorflow as tf
from tensorboard.backend.event_processing import event_accumulator
from tensorflow.python.distribute.sharded_variable import ShardedVariable

EXCHANGE, SHEAF, DIGITS, DATA, DIR, PROGRAMS = sys.argv[1:7]
PIPELINES, PARTS, OBJECTS, TABLE = (os.path.join(PROGRAMS, name) for name in ("pipelines", "parts", "objects", "table"))
RULES = ["sgd", "momentum", "adam", "adagrad", "rmsprop", "ftrl", "adadelta", "adamax", "nadam",
         "lion"]
RECORDS = ["plain", "gzip", "zlib", "snappy"]
VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
POLICIES = {"-task": tf.train.experimental.ShardByTaskPolicy(),
            "-max": tf.train.experimental.MaxShardSizePolicy(8)}
passed = failed = 0


def check(what):
    """Runs the decorated function at once and counts how it ends."""

    def run(function):
        global passed, failed
        try:
            function()
            passed += 1
            print("ok -", what, flush=True)
        except Exception:  # whatever it is, it is a failed check
            failed += 1
            print("not ok -", what)
            print("# " + traceback.format_exc().replace("\n", "\n# "), flush=True)

    return run


def path(name):
    return os.path.join(DIR, name)


def equal(found, expected):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
    assert found.shape == expected.shape, (found.shape, expected.shape)
    assert (found == expected).all(), (found, expected)


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-6, atol=1e-6)


def example(i):
    feature = tf.train.Feature
    return tf.train.Example(features=tf.train.Features(feature={
        "numbers": feature(int64_list=tf.train.Int64List(value=[i, -i, -2**63 + i])),
        "values": feature(float_list=tf.train.FloatList(value=[i / 4, -1.5])),
        "text": feature(bytes_list=tf.train.BytesList(value=[b"record %d" % i, b"\0\xff"]))}))


def optimizer(rule):
    return {"sgd": lambda: keras.optimizers.SGD(0.125),
            "momentum": lambda: keras.optimizers.SGD(0.125, momentum=0.9),
            "adam": lambda: keras.optimizers.Adam(0.125),
            "adagrad": lambda: keras.optimizers.Adagrad(0.125),
            "rmsprop": lambda: keras.optimizers.RMSprop(0.125),
            "ftrl": lambda: keras.optimizers.Ftrl(0.125),
            "adadelta": lambda: keras.optimizers.Adadelta(0.125),
            "adamax": lambda: keras.optimizers.Adamax(0.125),
            "nadam": lambda: keras.optimizers.Nadam(0.125),
            "lion": lambda: keras.optimizers.Lion(0.125)}[rule]()


def model(rule, zero=False):
    w = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    b = np.array([-1, 0, 1], np.float32)
    variables = [keras.Variable(w * (not zero), name="w"), keras.Variable(b * (not zero), name="b")]
    o = optimizer(rule)
    o.build(variables)
    return variables, o


def step(variables, o, n):
    w = ((np.arange(6) - 2) * 0.25 + n).astype(np.float32).reshape(2, 3)
    b = (np.arange(1, 4) * 0.5 - n).astype(np.float32)
    o.apply([tf.constant(w), tf.constant(b)], variables)


def call(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=300).stdout.decode()


def first_part():
    """TensorFlow reads ours."""
    call(EXCHANGE, "write", DIR)
    for name in RECORDS:
        @check("TensorFlow reads our TFRecords, " + name)
        def _():
            kind = "" if name == "plain" else name.upper()
            found = list(tf.data.TFRecordDataset(path(name + ".tfrecord"), kind).as_numpy_iterator())
            assert len(found) == 5
            for i, record in enumerate(found):
                assert tf.train.Example.FromString(record) == example(i), (i, record)

    @check("TensorBoard reads our event files")
    def _():
        events = event_accumulator.EventAccumulator(path("events")).Reload()
        assert sorted(events.Tags()["scalars"] + events.Tags()["tensors"]) == ["accuracy", "loss"]
        close(scalars(events, "loss"), [(i, 1 / (i + 1)) for i in range(10)])
        close(scalars(events, "accuracy"), [(i, i / 10) for i in range(10)])

    @check("load_checkpoint lists our names, shapes and values")
    def _():
        reader = tf.train.load_checkpoint(path("values-1"))
        dtypes = ["float32", "float64", "int32", "int64", "bfloat16", "bool"]
        keys = ["model/layer_%d/%s%s" % (i, d, VALUE) for i, d in enumerate(dtypes)]
        shapes = reader.get_variable_to_shape_map()
        assert sorted(shapes) == sorted(
            keys + ["save_counter" + VALUE, "_CHECKPOINTABLE_OBJECT_GRAPH"]), sorted(shapes)
        for key, dtype in zip(keys, dtypes):
            assert shapes[key] == [2, 3]
            expected = tf.cast(np.arange(6).reshape(2, 3), dtype).numpy()
            equal(reader.get_tensor(key), expected)
        equal(reader.get_tensor("save_counter" + VALUE), np.int64(1))

    @check("latest_checkpoint finds ours")
    def _():
        assert tf.train.latest_checkpoint(DIR) == path(RULES[-1] + "-1")

    for name in ["values", "split", "robin"]:  # one shard; cut by a largest size; round robin
        @check("Checkpoint.restore of nested names consumes everything, " + name)
        def _():
            dtypes = ["float32", "float64", "int32", "int64", "bfloat16", "bool"]
            root = tf.Module()
            for i, dtype in enumerate(dtypes):
                layer = tf.Module()
                setattr(layer, dtype, tf.Variable(tf.zeros([2, 3], dtype)))
                setattr(root, "layer_%d" % i, layer)
            tf.train.Checkpoint(model=root).restore(path(name + "-1")).assert_consumed()
            for i, dtype in enumerate(dtypes):
                found = getattr(getattr(root, "layer_%d" % i), dtype).numpy()
                equal(found, tf.cast(np.arange(6).reshape(2, 3), dtype).numpy())
            if name == "split":
                cut_alike(path("split-1"), tf.train.Checkpoint(model=root))

    for rule in RULES:
        @check("Keras goes on with our %s, and the same in slices" % rule)
        def _():
            for name in ["-1", "-split"]:
                variables, o = model(rule, zero=True)
                checkpoint = tf.train.Checkpoint(w=variables[0], b=variables[1], optimizer=o)
                checkpoint.restore(path(rule + name)).assert_consumed()
                assert int(o.iterations) == 3
                goes_on(rule, variables, o)


def cut_alike(prefix, checkpoint):
    """TensorFlow cuts the same into the same files; the last one has the save counter and the object graph."""
    policy = tf.train.experimental.MaxShardSizePolicy(16)
    options = tf.train.CheckpointOptions(experimental_sharding_callback=policy)
    theirs = checkpoint.save(path("cut-alike"), options=options)
    names = sorted(glob.glob(theirs + ".data-*"))
    assert len(names) == len(glob.glob(prefix + ".data-*")) > 6
    for name in names[:-1]:
        with open(name, "rb") as a, open(name.replace(theirs, prefix), "rb") as b:
            assert a.read() == b.read(), name


def goes_on(rule, variables, o):
    """One more step gives what ours gave."""
    step(variables, o, 3)
    # written twice: the second over the first
    assert os.path.exists(path(rule + "-after.data-00000-of-00002"))
    after = tf.train.load_checkpoint(path(rule + "-after"))
    close(variables[0], after.get_tensor("w" + VALUE))
    close(variables[1], after.get_tensor("b" + VALUE))


def scalars(events, tag):
    """(step, value) of a tag, whichever of the two forms TensorBoard keeps it in."""
    if tag in events.Tags()["scalars"]:
        return [(e.step, e.value) for e in events.Scalars(tag)]
    return [(e.step, tf.make_ndarray(e.tensor_proto)) for e in events.Tensors(tag)]


def second_part():
    """We read TensorFlow's."""
    for name in RECORDS:
        records = tf.data.Dataset.from_tensor_slices([example(i).SerializeToString() for i in range(5)])
        tf.raw_ops.DatasetToTFRecord(input_dataset=records._variant_tensor, filename=path("tf-%s.tfrecord" % name),
                                     compression_type="" if name == "plain" else name.upper())
    writer = tf.summary.create_file_writer(path("tf-events"))
    with writer.as_default():
        for i in range(10):
            tf.summary.scalar("loss", i, step=i)
    writer.close()
    events = os.listdir(path("tf-events"))
    os.replace(path("tf-events/" + events[0]), path("tf-events.tfrecord"))
    expected = {}
    for rule in RULES:
        variables, o = model(rule)
        for n in range(3):
            step(variables, o, n)
        checkpoint = tf.train.Checkpoint(w=variables[0], b=variables[1], optimizer=o)
        checkpoint.save(path("tf-" + rule))
        for policy, callback in POLICIES.items():
            tf.train.Checkpoint(w=variables[0], b=variables[1], optimizer=o).save(
                path("tf-" + rule + policy),
                options=tf.train.CheckpointOptions(experimental_sharding_callback=callback))
        step(variables, o, 3)
        expected[rule] = [v.numpy() for v in variables]
    lines = dict(line.split(" ", 1) for line in call(EXCHANGE, "read", DIR).splitlines())

    for name in RECORDS:
        @check("we read TensorFlow's TFRecords, " + name)
        def _():
            # 5 records; the numbers of each add up to i - i - 2^63 + i, modulo 2^64
            total = sum(-2**63 + i for i in range(5))
            total = (total + 2**63) % 2**64 - 2**63
            assert lines[name] == "5 %d -5" % total, lines[name]

    @check("we read TensorFlow's event files")
    def _():
        assert lines["events"] == "11", lines["events"]

    for rule in RULES:
        @check("we go on with Keras's %s, by each of TensorFlow's policies" % rule)
        def _():
            assert len(glob.glob(path("tf-%s-max-1.data-*" % rule))) > 3
            for name in [rule] + [rule + policy for policy in POLICIES]:
                assert lines[name] == "3", lines[name]
                reader = tf.train.load_checkpoint(path("back-" + name))
                close(reader.get_tensor("w" + VALUE), expected[rule][0])
                close(reader.get_tensor("b" + VALUE), expected[rule][1])


def third_part():
    """The main job: parameter servers, sharded checkpoint, events."""
    out = path("digits")
    call(SHEAF, "run", "--worker", "2", "--ps", "2", DIGITS, "--data", DATA, "--out", out,
         "--epochs", "2")
    latest = tf.train.latest_checkpoint(out)

    @check("load_checkpoint reads the main job's sharded checkpoint")
    def _():
        shapes = tf.train.load_checkpoint(latest).get_variable_to_shape_map()
        for name, shape in {"w1": [64, 128], "b1": [128], "w2": [128, 10], "b2": [10]}.items():
            assert shapes[name + VALUE] == shape, shapes
        files = [f for f in os.listdir(out) if f.startswith(os.path.basename(latest) + ".data-")]
        assert len(files) > 1, files

    @check("Checkpoint.restore of the main job with Keras's Adam consumes everything")
    def _():
        names = {"w1": (64, 128), "b1": (128,), "w2": (128, 10), "b2": (10,)}
        variables = {n: keras.Variable(np.zeros(s, np.float32), name=n) for n, s in names.items()}
        o = keras.optimizers.Adam()
        o.build(list(variables.values()))
        step = tf.Variable(np.int64(0))
        checkpoint = tf.train.Checkpoint(optimizer=o, step=step, **variables)
        checkpoint.restore(latest).assert_consumed()
        assert float(tf.reduce_max(tf.abs(variables["w1"].value))) > 0
        assert int(o.iterations) > 0 and int(step) > 0

    @check("a CheckpointManager takes over the main job's directory")
    def _():
        manager = tf.train.CheckpointManager(tf.train.Checkpoint(), out, max_to_keep=3)
        assert manager.latest_checkpoint == latest
        assert len(manager.checkpoints) > 0

    @check("TensorBoard shows loss and accuracy of the main job")
    def _():
        events = event_accumulator.EventAccumulator(out).Reload()
        tags = events.Tags()["scalars"] + events.Tags()["tensors"]
        assert {"loss", "accuracy"} <= set(tags), tags
        assert len(scalars(events, "loss")) > 0


def fourth_part():
    """Pipelines."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pipelines.py")
    for seed in (1, 1000):

        @check(f"150 random pipelines from seed {seed} give what tf.data gives, element for element")
        def _():
            records = path(f"records-{seed}")
            os.mkdir(records)
            run = subprocess.run([sys.executable, program, PIPELINES, records, str(seed), "150"],
                                 stdout=subprocess.PIPE, text=True, check=False)
            assert run.returncode == 0, run.stdout


def fifth_part():
    """Checkpoints, safetensors and .npz turned into each other, theirs and ours."""
    reader = tf.train.load_checkpoint(path("tf-adam-1"))
    graph = "_CHECKPOINTABLE_OBJECT_GRAPH"
    ours = {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map() if key != graph}
    bytes_of_graph = np.frombuffer(reader.get_tensor(graph), np.uint8)
    theirs = {"half": np.array([1, .5, -2], np.float16), "n": np.array(7), "none": np.zeros((0, 3), np.float32),
              "größe/x y": np.arange(24.).reshape(2, 3, 4), "bits": np.array([True, False]),
              "small": np.arange(-2, 3, dtype=np.int8), "z": np.array([1 + 2j], np.complex64),
              "large": np.array([2**64 - 1], np.uint64)}

    def compare(found, expected):
        assert sorted(found) == sorted(expected), sorted(found)
        for key, value in expected.items():
            equal(found[key], value)

    def load(prefix):
        reader = tf.train.load_checkpoint(prefix)
        return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}

    def consumed(prefix):
        variables, o = model("adam", zero=True)
        tf.train.Checkpoint(w=variables[0], b=variables[1], optimizer=o).restore(prefix).assert_consumed()
        goes_on("adam", variables, o)

    @check("TensorFlow restores its checkpoint that we put into other shards")
    def _():
        call(SHEAF, "ckpt", "reshard", "--max-size", "9", path("tf-adam-1"), path("cut"))
        consumed(path("cut"))
        call(SHEAF, "ckpt", "reshard", "--shards", "3", path("tf-adam-max-1"), path("three"))
        consumed(path("three"))
        call(SHEAF, "ckpt", "diff", path("cut"), path("three"))

    @check("safetensors loads a checkpoint that we converted, and TensorFlow restores what comes back")
    def _():
        call(SHEAF, "ckpt", "convert", path("tf-adam-1"), path("a.safetensors"))
        compare(safetensors.numpy.load_file(path("a.safetensors")), {**ours, graph: bytes_of_graph})
        call(SHEAF, "ckpt", "convert", path("a.safetensors"), path("back"))
        consumed(path("back"))

    @check("safetensors loads each of several files that we wrote")
    def _():
        call(SHEAF, "ckpt", "convert", "--max-size", "30", path("tf-adam-1"), path("b.safetensors"))
        with open(path("b.safetensors.index.json"), encoding="utf-8") as file:
            index = json.load(file)
        found = {}
        for name in sorted(set(index["weight_map"].values())):
            part = safetensors.numpy.load_file(path(name))
            assert all(index["weight_map"][key] == name for key in part)
            found.update(part)
        compare(found, {**ours, graph: bytes_of_graph})
        assert index["metadata"]["total_size"] == sum(v.nbytes for v in found.values())

    @check("NumPy loads archives that we wrote, stored and deflated")
    def _():
        for options in ([], ["--deflate"]):
            call(SHEAF, "ckpt", "convert", *options, path("tf-adam-1"), path("c.npz"))
            with np.load(path("c.npz"), allow_pickle=False) as archive:
                compare(dict(archive), {**ours, graph: bytes_of_graph})

    @check("we read what safetensors writes, and write it again byte for byte")
    def _():
        safetensors.numpy.save_file(theirs, path("d.safetensors"))
        call(SHEAF, "ckpt", "convert", path("d.safetensors"), path("d"))
        compare(load(path("d")), theirs)
        call(SHEAF, "ckpt", "convert", path("d"), path("e.safetensors"))
        with open(path("d.safetensors"), "rb") as a, open(path("e.safetensors"), "rb") as b:
            assert a.read() == b.read()

    @check("we read what NumPy writes, and what lies by columns or the other way round")
    def _():
        by_columns = {**theirs, "columns": np.asfortranarray(theirs["größe/x y"])}
        for save in (np.savez, np.savez_compressed):
            save(path("f.npz"), swapped=np.arange(3, dtype=">i4"), **by_columns)
            call(SHEAF, "ckpt", "convert", path("f.npz"), path("f"))
            compare(load(path("f")), {**by_columns, "swapped": np.arange(3, dtype=np.int32)})


def sixth_part():
    """Variables in parts over parameter servers."""

    def job(what, servers, parts):
        call(SHEAF, "run", "--worker", "1", "--ps", str(servers), PARTS, what, DIR, str(parts))

    def sharded(value, parts):
        # rows of each differ by one at most, as a partitioner cuts them
        return ShardedVariable([tf.Variable(rows) for rows in np.array_split(value, parts)])

    table = np.arange(1, 22, dtype=np.float32).reshape(7, 3)
    b = np.arange(5, dtype=np.float32) / 2 - 1
    job("write", 2, 4)
    reader = tf.train.load_checkpoint(path("parts-only"))
    trained = [reader.get_tensor(name + VALUE) for name in ("table", "b")]

    @check("Keras goes on with variables and slots that our servers had in 4 parts")
    def _():
        for name in ("parts-all", "parts-small"):
            variables = [keras.Variable(table * 0, name="table"), keras.Variable(b * 0, name="b")]
            o = keras.optimizers.Adagrad(0.125)
            o.build(variables)
            checkpoint = tf.train.Checkpoint(table=variables[0], b=variables[1], optimizer=o)
            checkpoint.read(path(name)).assert_consumed()
            assert int(o.iterations) == 3
            equal(variables[0], trained[0])
            o.apply([tf.constant(np.arange(21, dtype=np.float32).reshape(7, 3) * .25 + 2),
                     tf.constant(np.arange(5, dtype=np.float32) * .5 - 2.5)], variables)
            after = tf.train.load_checkpoint(path("parts-after"))
            close(variables[0], after.get_tensor("table" + VALUE))
            close(variables[1], after.get_tensor("b" + VALUE))

    @check("ShardedVariables of 1 to 7 parts restore our 4 and consume everything")
    def _():
        for parts in range(1, 8):
            variables = {"table": sharded(table * 0, parts), "b": sharded(b * 0, min(parts, 5))}
            tf.train.Checkpoint(**variables).read(path("parts-only")).assert_consumed()
            for name, value in zip(variables, trained):
                equal(tf.convert_to_tensor(variables[name]), value)

    @check("our servers restore ShardedVariables into any parts, whole ones too")
    def _():
        for theirs, servers, parts in ((3, 2, 1), (1, 3, 5), (5, 2, 3), (4, 1, 9)):
            values = {"table": table * theirs, "b": b * theirs}
            variables = {name: sharded(v, theirs) for name, v in values.items()}
            tf.train.Checkpoint(**variables).write(path("tf-parts"))
            job("read", servers, parts)
            reader = tf.train.load_checkpoint(path("back-parts"))
            for name, value in values.items():
                equal(reader.get_tensor(name + VALUE), value)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.first, self.second = layers()

    def call(self, inputs):
        return self.second(self.first(inputs))


def layers():
    return [keras.layers.Dense(5, kernel_initializer="zeros"), keras.layers.Dense(3, kernel_initializer="zeros")]


def keras_model(kind):
    """A model of two layers, and its Adam."""
    if kind == "sequential":
        m = keras.Sequential([keras.Input((4,)), *layers()])
    elif kind == "functional":
        inputs = keras.Input((4,))
        first, second = layers()
        m = keras.Model(inputs, second(first(inputs)))
    else:
        m = Subclassed()
        m(np.zeros((1, 4), np.float32))
    o = keras.optimizers.Adam(0.125)
    o.build(m.trainable_variables)
    return m, o


def keras_step(m, o, n):
    o.apply([tf.constant((n - 1.5 + 0.25 * (i + 1) * np.arange(np.prod(v.shape))).astype(np.float32).reshape(v.shape))
             for i, v in enumerate(m.trainable_variables)], m.trainable_variables)


def seventh_part():
    """Models: weights, slots, and what is restored before it is there."""
    kinds = ["sequential", "functional", "subclassed"]
    call(OBJECTS, "write", DIR)
    after = tf.train.load_checkpoint(path("model-after"))
    trained = [after.get_tensor("model/%s/%s%s" % (layer, name, VALUE))
               for layer in ("first", "second") for name in ("_kernel", "bias")]
    for kind in kinds:

        @check("a %s Keras model restores our weights, and goes on with our slots" % kind)
        def _():
            m, _ = keras_model(kind)
            tf.train.Checkpoint(model=m).restore(path("weights-%s-1" % kind)).assert_consumed()
            weights = m.get_weights()
            m, o = keras_model(kind)
            tf.train.Checkpoint(model=m, optimizer=o).restore(path("model-" + kind)).assert_consumed()
            for found, expected in zip(m.get_weights(), weights):
                equal(found, expected)
            assert int(o.iterations) == 3
            keras_step(m, o, 3)
            for found, expected in zip(m.get_weights(), trained):
                close(found, expected)

    expected = {}
    for kind in kinds:
        m, o = keras_model(kind)
        for n in range(3):
            keras_step(m, o, n)
        tf.train.Checkpoint(model=m, optimizer=o).save(path("tf-" + kind))
        keras_step(m, o, 3)
        expected[kind] = m.get_weights()
    three = {name: np.arange(12 + 3 * i, dtype=np.float32).reshape(4 + i, 3) + i for i, name in enumerate("abc")}
    save_three(three)
    call(OBJECTS, "read", DIR)
    names = {"sequential": ["_functional/_operations/1", "_functional/_operations/2"],
             "functional": ["_operations/1", "_operations/2"], "subclassed": ["first", "second"]}
    for kind in kinds:

        @check("we restore a %s Keras model before it is made, and consume everything" % kind)
        def _():
            reader = tf.train.load_checkpoint(path("back-" + kind))
            keys = ["model/%s/%s" % (layer, name) for layer in names[kind] for name in ("_kernel", "bias")]
            for key, value in zip(keys, expected[kind]):
                close(reader.get_tensor(key + VALUE), value)

    for name, what in {"tasks": "ShardByTaskPolicy in several shards", "pieces": "MaxShardSizePolicy on several tasks",
                       "saver": "tf.compat.v1.train.Saver, by names"}.items():

        @check("we restore what TensorFlow saved by " + what)
        def _():
            reader = tf.train.load_checkpoint(path("back-" + name))
            for key, value in three.items():
                equal(reader.get_tensor(key + VALUE), value)


def save_three(three):
    """Saves them from two parameter servers by TensorFlow's policies, and by the names of variables."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "servers.py")
    np.savez(path("three.npz"), **three)
    call(sys.executable, program, DIR)
    assert len(glob.glob(path("tf-tasks-1.data-*"))) == 3
    assert len(glob.glob(path("tf-pieces-1.data-*"))) > 6


def eighth_part():
    """LevelDB."""

    @check("LevelDB's table reader reads every index that we wrote, as TensorFlow does")
    def _():
        call(SHEAF, "ckpt", "reshard", "--max-size", "4096", path("values-1"), path("again"))
        prefixes = [path(name) for name in ["values-1", "split-1", "robin-1", "again", "model-functional", "parts-all"] +
                    [rule + "-split" for rule in RULES]]
        for prefix in prefixes:
            entries = [tuple(bytes.fromhex(part) for part in line.split(" "))
                       for line in call(TABLE, prefix + ".index").splitlines()]
            keys = [key for key, _ in entries]
            assert keys == sorted(set(keys)) and keys[0] == b""
            plain = {key.decode() for key in keys if key and key[0] != 0}
            assert plain == set(tf.train.load_checkpoint(prefix).get_variable_to_shape_map())


def ninth_part():
    """T55, if it is asked for."""
    if not os.environ.get("LONG"):
        return
    call(OBJECTS, "large", DIR)
    for name, shape in {"large-float": (24500000, 22), "large-byte": (65536, 65536)}.items():

        @check("TensorFlow reads our tensor of %d x %d, bit for bit" % shape)
        def _():
            value = tf.train.load_checkpoint(path(name)).get_tensor("w" + VALUE)
            assert value.shape == shape, value.shape
            words, step = value.reshape(-1).view(np.uint32), 1 << 24
            for first in range(0, len(words), step):
                numbers = np.arange(first, min(first + step, len(words)), dtype=np.uint32)
                assert (words[first:first + step] == numbers * np.uint32(2654435761)).all(), first


first_part()
second_part()
third_part()
fourth_part()
fifth_part()
sixth_part()
seventh_part()
eighth_part()
ninth_part()
print("%d passed, %d failed" % (passed, failed))
sys.exit(failed > 0)
