#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random arrays with the texts that printing_rules.py gives them, in the form of printing.json.

Usage: random_arrays.py [COUNT [SEED]] > random.json"""
import json
import random
import struct
import sys

import printing_rules as rules

FLOATS = ("float16", "float32", "float64", "bfloat16")
INTEGERS = {"int32": (-2**31, 2**31 - 1), "int64": (-2**63, 2**63 - 1), "uint8": (0, 255)}


def number(rng, dtype, kind):
  """A value of the dtype: nice decimals, any bits, powers of two, special ones."""
  if kind == "bits":
    size = {"float16": "H", "bfloat16": "H", "float32": "I", "float64": "Q"}[dtype]
    bits = rng.getrandbits(8 * struct.calcsize(size))
    if dtype == "bfloat16":
      return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
    return struct.unpack("<" + rules.FORMATS[dtype], struct.pack("<" + size, bits))[0]
  value = {
      "decimal": lambda: round(rng.uniform(-1000, 1000), rng.randrange(6)),
      "small": lambda: rng.uniform(-1, 1) * 10.0 ** rng.randint(-6, 4),
      "two": lambda: rng.choice((-1, 1)) * 2.0 ** rng.randint(-20, 14),
      "whole": lambda: float(rng.randint(-20, 20)),
      "odd": lambda: rng.choice((0.0, -0.0, 1.0, float("nan"), float("inf"), -float("inf"), 0.1, 1e-5)),
  }[kind]()
  if dtype == "bfloat16":
    return struct.unpack("<f", struct.pack("<I", struct.unpack("<I", struct.pack("<f", value))[0] & 0xffff0000))[0]
  return rules.narrow(value, dtype)


def bytestring(rng):
  return bytes(rng.choice(b"abc'\"\\\n\t\x00\x7f\xc3\xff ") for _ in range(rng.randrange(6)))


def entry(rng, index):
  dtype = rng.choice(FLOATS * 3 + tuple(INTEGERS) + ("bool", "string"))
  shape = rng.choice(([], [1], [3], [7], [20], [40], [2, 3], [4, 1], [2, 30], [2, 2, 2], [2, 1, 3, 2], [0], [1, 9], [8, 8]))
  count = 1
  for n in shape:
    count *= n
  kind = rng.choice(("bits", "decimal", "small", "two", "whole", "odd"))
  if dtype in FLOATS:
    values = [number(rng, dtype, kind) for _ in range(count)]
    stored = [v.hex() for v in values]
  elif dtype == "string":
    values = [bytestring(rng) for _ in range(count)]
    stored = [v.hex() for v in values]
  elif dtype == "bool":
    values = stored = [rng.random() < 0.5 for _ in range(count)]
  else:
    low, high = INTEGERS[dtype]
    limit = rng.choice((3, 100, high))
    values = stored = [rng.randint(max(low, -limit), min(high, limit)) for _ in range(count)]
  arguments = dtype, shape, values
  return {
      "id": "random-%d" % index, "dtype": dtype, "shape": shape, "values": stored,
      "repr": rules.tensor_repr(*arguments), "str": rules.tensor_str(*arguments), "tf_print": rules.tf_print(*arguments)
  }


def main():
  count = int(sys.argv[1]) if len(sys.argv) > 1 else 400
  rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
  json.dump({"tensors": [entry(rng, i) for i in range(count)]}, sys.stdout, indent=0)
  print()


if __name__ == "__main__":
  main()
