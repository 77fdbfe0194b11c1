# SPDX-License-Identifier: Apache-2.0
# What `ckpt show --json` says of every dtype is JSON, and reads back as the values that TensorFlow saved; what JSON has no
# number for is a string. Of dtypes that nothing computes on it shows the bits, of which only the shape is known here.
all=$GOLDEN/checkpoint/dtypes/all
$SHEAF ckpt list --json "$all" >list
mapfile -t keys < <(python3 -c 'import json, sys
for line in sys.stdin: print(json.loads(line)["key"])' <list)
$SHEAF ckpt show --json "$all" "${keys[@]}" >found
python3 - "$GOLDEN/checkpoint/dtypes/expected.json" <<'END'
import base64, json, math, struct, sys

with open(sys.argv[1], encoding="utf-8") as f:
    expected = json.load(f)["checkpoints"][0]["tensors"]
WORDS = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
PACK = {"float16": "<e", "float32": "<f", "float64": "<d", "complex64": "<f", "complex128": "<d"}


def flat(value, rank):
    return [value] if rank == 0 else [x for v in value for x in flat(v, rank - 1)]


def bits(value, dtype):
    """What the dtype makes of a number."""
    if dtype == "bfloat16":
        whole = struct.unpack("<I", struct.pack("<f", value))[0]
        return (whole + 0x7fff + (whole >> 16 & 1)) >> 16
    return struct.pack(PACK[dtype], value)


def same(found, want, dtype):
    if isinstance(want, list):
        return len(found) == 2 and all(same(f, w, dtype) for f, w in zip(found, want))
    if isinstance(want, dict):
        return base64.b64decode(found["b64"]).hex() == want["hex"] if isinstance(found, dict) else found.encode().hex() == want["hex"]
    if dtype in PACK or dtype == "bfloat16":
        return found == WORDS[want] if isinstance(want, str) else bits(found, dtype) == bits(want, dtype)
    return type(found) in (str, bool, int) and found == (int(want) if isinstance(found, int) else want)


compared = {}
with open("found", encoding="utf-8") as f:
    for line in f:
        one = json.loads(line)
        tensor = expected[one["key"]]
        values = flat(one["value"], len(tensor["shape"]))
        if len(values) != math.prod(tensor["shape"]):
            print(one["key"], "has", len(values), "values")
        bare = tensor["dtype"].startswith(("float8", "float4", "int2", "int4", "uint2", "uint4"))
        if "values" not in tensor or bare:
            continue
        for found, want in zip(values, tensor["values"]):
            if not same(found, want, tensor["dtype"]):
                print(one["key"], "has", found, "expected", want)
        compared[tensor["dtype"]] = compared.get(tensor["dtype"], 0) + len(values)
print(compared)
END
