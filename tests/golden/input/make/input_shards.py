"""What TensorFlow's MaxShardSizePolicy does with lists of tensors: python input_shards.py OUTDIR"""
import random

from input_common import *

from tensorflow.python.checkpoint.sharding import sharding_policies, sharding_util
from tensorflow.python.framework import device as device_lib


def make_shard_plan(_):
    rng = random.Random(4)
    cases = []
    dev = device_lib.DeviceSpec.from_string("/job:localhost/replica:0/task:0/device:CPU:0")

    def case(tensors, limit):
        given = []
        for t in tensors:
            value = tf.constant(t["value"]) if "value" in t else tf.zeros(t["shape"], tf.dtypes.as_dtype(t["dtype"]))
            given.append(sharding_util.ShardableTensor(_tensor_save_spec=None, tensor=value, dtype=value.dtype, device=dev, name=t["key"], shape=value.shape, slice_spec=t.get("slice_spec", ""), checkpoint_key=t["key"], trackable=None))
        shards = sharding_policies.MaxShardSizePolicy(limit)(given)
        cases.append({"max_shard_size": limit, "tensors": tensors, "shards": [[{"key": k, "slice_spec": spec, "shape": list(x.shape)} for k, m in s.items() for spec, x in m.items()] for s in shards]})

    graph = {"key": "_CHECKPOINTABLE_OBJECT_GRAPH", "dtype": "string", "shape": [], "value": "0123456789" * 5}

    def t(key, dtype, *shape, **kw):
        return {"key": key, "dtype": dtype, "shape": list(shape), **kw}

    f, i, d = "float32", "int32", "float64"
    for limit in (4, 10, 18):
        case([t("v0", f, 4), t("v1", f, 4, 1), graph], limit)
    for limit in (8, 12, 16, 1000):
        case([t("v0", f, 3, 2), t("v1", f, 3, 2, 1), graph], limit)
    for limit in (8, 12):
        case([t("s", f, 2, 3, slice_spec="2 5 0,2:1,3"), graph], limit)
    case([t("x", "string", value="0123456789"), graph], 8)
    case([t("v0", i, 3, 2), t("v1", i, 3, 2, 1), t("v2", "string", value="hello world"), graph], 10)
    for limit in (100, 120, 399, 400, 401):
        case([t("v", f, 10, 10), graph], limit)
    case([t("a", d, 7), t("b", i, 5), graph], 24)
    case([t("v", f, 4, 6), graph], 40)
    case([t("a", f), t("b", f), t("c", f), graph], 8)
    case([t("d", d), t("e", f, 1), graph], 4)
    case([t("z", f, 0, 3), graph], 8)
    case([t("z", f, 0, 3), t("a", f, 2), graph], 8)
    case([t("s", "string", 3, value=["aa", "bbb", "c"]), graph], 5)
    case([], 8)
    sizes = {"float32": 4, "float64": 8, "int64": 8, "int32": 4, "int8": 1, "float16": 2, "bool": 1}
    while len(cases) < 150:
        tensors, least = [], 1
        for k in range(rng.randint(1, 4)):
            dtype = rng.choice(list(sizes))
            shape = [rng.choice([1, 2, 3, 4, 5, 7, 8]) for _ in range(rng.choice([0, 1, 1, 2, 2, 3]))]
            tensors.append(t("t%d" % k, dtype, *shape))
            if shape:  # the thinnest slab of some axis must fit, or the policy never ends
                least = max(least, min(int(np.prod(shape)) // n for n in shape) * sizes[dtype])
        case(tensors + [graph], rng.randint(least, least * 6 + 8))
    return {"cases": cases}


main({"shard_plan.json": make_shard_plan})
