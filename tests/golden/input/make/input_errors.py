"""Where datasets go on behind elements that are errors: python input_errors.py OUTDIR"""
import random

from input_common import *

Dataset = tf.data.Dataset


def fails_at(values):
    """A function that fails for these values and gives any other one back."""
    def f(x):
        with tf.control_dependencies([tf.debugging.assert_equal(tf.reduce_any(tf.equal(x, tf.constant(values, tf.int64))), False)]):
            return tf.identity(x)
    return f


def outcomes(ds):
    """All elements, None for an error."""
    out, it = [], iter(ds)
    while True:
        try:
            out.append(int(next(it)))
        except StopIteration:
            return out
        except tf.errors.InvalidArgumentError:
            out.append(None)


STAGES = {
    "skip": lambda d, a: d.skip(a[0]), "shard": lambda d, a: d.shard(*a), "take": lambda d, a: d.take(a[0]),
    "prefetch": lambda d, a: d.prefetch(a[0]), "repeat": lambda d, a: d.repeat(a[0]), "shuffle": lambda d, a: d.shuffle(a[0], seed=a[1]),
    "concatenate": lambda d, a: d.concatenate(Dataset.range(100, 100 + a[0])), "cache": lambda d, a: d.cache(),
    "skip, shard": lambda d, a: d.skip(a[0]).shard(a[1], a[2]),
}


def make_errors(_):
    rng = random.Random(8)
    stages, interleaves = [], []

    def stage(op, n, bad, *args):
        stages.append({"op": op, "args": list(args), "n": n, "bad": bad, "output": outcomes(STAGES[op](Dataset.range(n).map(fails_at(bad)), args))})

    def interleave(inputs, each, cycle, block, threads, bad=(), bad_inputs=(), bad_opens=()):
        """Input i opens the numbers 10 i to 10 i + each - 1. An input, its opening or a number may be an error."""
        def open_one(x):
            x = fails_at(list(bad_opens))(x)
            return Dataset.range(10 * x, 10 * x + each).map(fails_at(list(bad)))
        ds = Dataset.range(inputs).map(fails_at(list(bad_inputs)))
        ds = ds.interleave(open_one, cycle_length=cycle, block_length=block, num_parallel_calls=threads or None, deterministic=True if threads else None)
        interleaves.append({"inputs": inputs, "each": each, "cycle": cycle, "block": block, "threads": threads, "bad": list(bad),
                            "bad_inputs": list(bad_inputs), "bad_opens": list(bad_opens), "output": outcomes(ds)})

    for n in (2, 3, 4, 5, 8, 20):
        stage("skip", 12, [3], n)
    # Of more than two shards TensorFlow steps over too many elements behind an error: some come in two shards then, others in none.
    for count in (1, 2):
        for index in range(count):
            stage("shard", 12, [3], count, index)
    stage("take", 12, [3], 5)
    stage("prefetch", 12, [3], 2)
    stage("repeat", 3, [1], 2)
    stage("shuffle", 12, [3], 4, 1)
    stage("concatenate", 3, [1], 2)
    stage("cache", 5, [3])
    for _ in range(60):
        n = rng.randint(0, 24)
        bad = sorted(rng.sample(range(24), rng.randint(1, 6)))
        count = rng.randint(1, 2)
        op, args = rng.choice([("skip", [rng.randint(0, 10)]), ("shard", [count, rng.randrange(count)]),
                               ("skip, shard", [rng.randint(0, 6), count, rng.randrange(count)])])
        stage(op, n, bad, *args)
    for threads in (0, 2):
        for cycle, block in ((2, 1), (2, 2), (3, 2)):
            interleave(4, 4, cycle, block, threads, bad=[11, 21])
            interleave(4, 4, cycle, block, threads, bad=[10, 33])
            for i in range(4):
                interleave(4, 4, cycle, block, threads, bad_inputs=[i])
                interleave(4, 4, cycle, block, threads, bad_opens=[i])
    for _ in range(40):
        inputs, each, cycle = rng.randint(1, 6), rng.randint(0, 6), rng.randint(1, 4)
        pick = lambda values, most: sorted(rng.sample(values, min(len(values), rng.randint(0, most))))
        interleave(inputs, each, cycle, rng.randint(1, 3), rng.choice([0, 1, cycle]), pick([10 * i + k for i in range(inputs) for k in range(each)], 4),
                   pick(range(inputs), 1), pick(range(inputs), 1))
    return {"stages": stages, "interleaves": interleaves}


main({"errors.json": make_errors})
