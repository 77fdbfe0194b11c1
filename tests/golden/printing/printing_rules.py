#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules of printing, executable: the texts of tensors from dtype, shape and values alone, without TensorFlow or NumPy.

Usage: printing_rules.py [PRINTING_JSON]   checks the rules against every tensor of printing.json, made by TensorFlow 2.15"""
import decimal
import json
import os
import struct
import sys

LINE, THRESHOLD, EDGE, PRECISION = 75, 1000, 3, 8
IMPLIED = ("int64", "float64", "bool")  # the dtypes that `array(...)` does not name
decimal.getcontext().prec = 60
FORMATS = {"float64": "d", "float32": "f", "float16": "e"}


# --- numbers ---------------------------------------------------------------------------------------------------------------------------

def narrow(value, dtype):
  """The value of `dtype` nearest to a float."""
  try:
    return struct.unpack(FORMATS[dtype], struct.pack(FORMATS[dtype], value))[0]
  except OverflowError:
    return float("inf") if value > 0 else -float("inf")


def shortest(value, dtype):
  """(digits, exponent) of the shortest decimal d.ddd * 10^exponent that reads back as `value` (the nearest, if several); value > 0, finite.
  Both neighbours are tried: at a power of two the nearest decimal may read back as another value while the one above does not."""
  exact = decimal.Decimal(value)
  for precision in range(17):
    unit = decimal.Decimal(1).scaleb(exact.adjusted() - precision)
    nearest = (exact / unit).to_integral_value(decimal.ROUND_HALF_EVEN)
    for candidate in sorted((nearest, nearest - 1, nearest + 1), key=lambda n: abs(n * unit - exact)):
      number = candidate * unit
      if narrow(float(number), dtype) == value:
        digits = "".join(str(d) for d in number.as_tuple().digits).rstrip("0")
        return digits or "0", number.adjusted()
  raise AssertionError(value)


def positional(value, dtype):
  """(integer part with sign, fraction): shortest digits, cut to 8 decimals by rounding the exact value (ties to even)."""
  sign = "-" if str(value)[0] == "-" else ""
  if value == 0:
    return sign + "0", ""
  digits, exponent = shortest(abs(value), dtype)
  if len(digits) - 1 - exponent > PRECISION:
    whole, fraction = ("%.*f" % (PRECISION, abs(value))).split(".")
    return sign + whole, fraction.rstrip("0")
  if exponent < 0:
    return sign + "0", "0" * (-exponent - 1) + digits
  if exponent >= len(digits):  # the digits end left of the point: the whole integer is written
    return sign + "%d" % abs(value), ""
  return sign + digits[:exponent + 1], digits[exponent + 1:]


def scientific(value, dtype):
  """(integer digit with sign, fraction, exponent sign, exponent digits), the fraction cut to 8 decimals likewise."""
  sign = "-" if str(value)[0] == "-" else ""
  if value == 0:
    return sign + "0", "", "+", "00"
  digits, exponent = shortest(abs(value), dtype)
  if len(digits) - 1 > PRECISION:
    mantissa, exponent = ("%.*e" % (PRECISION, abs(value))).split("e")
    digits, exponent = mantissa.replace(".", "").rstrip("0"), int(exponent)
  return sign + digits[0], digits[1:], "-" if exponent < 0 else "+", "%02d" % abs(exponent)


def finite(value):
  return value == value and abs(value) != float("inf")


def word_of(value):
  return "nan" if value != value else "inf" if value > 0 else "-inf"


def scalar(value, dtype):
  """A number by itself."""
  if dtype == "string":
    return repr(value)
  if dtype in ("bool",) or dtype not in FORMATS and dtype != "bfloat16":
    return str(value)
  if not finite(value):
    return word_of(value)
  if dtype == "bfloat16":
    return "%g" % value
  digits, exponent = ("0", 0) if value == 0 else shortest(abs(value), dtype)
  sign = "-" if str(value)[0] == "-" else ""
  # 1e-4 and 1e16 are compared in double: float32 1e-4 lies below.
  if value == 0 or 1e-4 <= abs(value) < 1e16:
    if exponent < 0:
      return sign + "0." + "0" * (-exponent - 1) + digits
    return sign + digits[:exponent + 1].ljust(exponent + 1, "0") + "." + (digits[exponent + 1:] or "0")
  return "%s%s%s%se%s%02d" % (sign, digits[0], "." if digits[1:] else "", digits[1:], "-" if exponent < 0 else "+", abs(exponent))


# --- the elements of an array: all of one width --------------------------------------------------------------------------------------------

def formatter(values, dtype):
  """A function from an element to its text, from the elements that will be shown."""
  if dtype == "string":
    return repr
  if dtype == "bool":
    return lambda value: " True" if value else "False"
  if dtype == "bfloat16":
    return lambda value: scalar(value, dtype)
  if dtype not in FORMATS:
    width = max(len(str(value)) for value in values)
    return lambda value: str(value).rjust(width)
  numbers = [value for value in values if finite(value)]
  sizes = [abs(value) for value in numbers if value != 0]
  if sizes and (max(sizes) >= 1e8 or min(sizes) < 1e-4 or narrow(max(sizes) / min(sizes), dtype) > 1000):
    parts = [scientific(value, dtype) for value in numbers]
    left, decimals = max(len(p[0]) for p in parts), max(len(p[1]) for p in parts)
    exponent = max(len(p[3]) for p in parts)
    right = decimals + 2 + exponent

    def text(value):  # more decimals than identify the value come from its exact expansion, not from zeros
      mantissa, power = ("%.*e" % (decimals, value)).split("e")
      whole, _, fraction = mantissa.partition(".")
      return whole.rjust(left) + "." + fraction + "e" + power[0] + power[1:].rjust(exponent, "0")
  else:
    parts = [positional(value, dtype) for value in numbers]
    left, right = max([len(p[0]) for p in parts] or [0]), max([len(p[1]) for p in parts] or [0])

    def text(value):
      whole, fraction = positional(value, dtype)
      return whole.rjust(left) + "." + fraction.ljust(right)
  if len(numbers) != len(values):
    longest = max(len(word_of(value)) for value in values if not finite(value))
    left = max(left, longest - right - 1)
  return lambda value: text(value) if finite(value) else word_of(value).rjust(left + right + 1)


# --- brackets and lines ----------------------------------------------------------------------------------------------------------------------

def shown(length, summary):
  """The indices of an axis that are shown, None standing for the dots."""
  if summary and length > 2 * EDGE:
    return list(range(EDGE)) + [None] + list(range(length - EDGE, length))
  return list(range(length))


def array_text(values, shape, dtype, separator, prefix, suffix):
  """Brackets, separators and line breaks; `prefix` stands before the first bracket on its line, `suffix` after the last."""
  count = 1
  for n in shape:
    count *= n
  if count == 0:
    return "[]"
  summary = count > THRESHOLD
  strides = [1] * len(shape)
  for axis in range(len(shape) - 2, -1, -1):
    strides[axis] = strides[axis + 1] * shape[axis + 1]

  def visible(axis, offset):
    if axis == len(shape):
      return [values[offset]]
    return [v for i in shown(shape[axis], summary) if i is not None for v in visible(axis + 1, offset + i * strides[axis])]

  element = formatter(visible(0, 0), dtype)

  def block(axis, offset, indent, width):
    if axis == len(shape):
      return element(values[offset])
    indices = shown(shape[axis], summary)
    if axis == len(shape) - 1:
      limit = width - max(len(separator.rstrip()), 1)
      lines, line = "", indent
      for position, i in enumerate(indices):
        word = "..." if i is None else element(values[offset + i])
        if len(line) + len(word) > limit and len(line) > len(indent):
          lines, line = lines + line.rstrip() + "\n", indent
        line += word + (separator if position < len(indices) - 1 else "")
      return "[" + (lines + line)[len(indent):] + "]"
    between = separator.rstrip() + "\n" * (len(shape) - 1 - axis) + indent
    return "[" + between.join(
        "..." if i is None else block(axis + 1, offset + i * strides[axis], indent + " ", width - 1) for i in indices) + "]"

  return block(0, 0, " " * (len(prefix) + 1), LINE - len(suffix))


def array_repr(values, shape, dtype):
  empty = 0 in shape
  text = "array(" + array_text(values, shape, dtype, ", ", "array(", ")")
  if empty and list(shape) != [0]:
    text += ", shape=" + shape_text(shape)
  if dtype in IMPLIED and not empty:
    return text + ")"
  text += ","
  name = "dtype=%s)" % ("object" if dtype == "string" else dtype)
  last = len(text) - (text.rfind("\n") + 1)
  return text + ("\n      " if last + len(name) + 1 > LINE else " ") + name


def shape_text(shape):
  return "(%s)" % ("%d," % shape[0] if len(shape) == 1 else ", ".join("%d" % n for n in shape))


def own_line(text):
  return ("\n" if "\n" in text else "") + text


def tensor_repr(dtype, shape, values):
  text = array_repr(values, shape, dtype) if shape else scalar(values[0], dtype)
  return "<tf.Tensor: shape=%s, dtype=%s, numpy=%s>" % (shape_text(shape), dtype, own_line(text))


def tensor_str(dtype, shape, values):
  text = array_text(values, shape, dtype, " ", "", "") if shape else scalar(values[0], dtype)
  return "tf.Tensor(%s, shape=%s, dtype=%s)" % (own_line(text), shape_text(shape), dtype)


# --- tf.print ----------------------------------------------------------------------------------------------------------------------------------

ESCAPES = {0x0a: "\\n", 0x0d: "\\r", 0x09: "\\t", 0x22: '\\"', 0x27: "\\'", 0x5c: "\\\\"}


def printed_element(value, dtype, alone):
  if dtype == "string":
    if alone:
      return value.decode("utf-8", "backslashreplace")
    text = b"".join(
        ESCAPES[c].encode() if c in ESCAPES else b"\\%03o" % c if c < 0x20 or c == 0x7f else bytes([c]) for c in value)
    return '"%s"' % text.decode("utf-8", "backslashreplace")
  if dtype == "bool":
    return str(int(value))
  if dtype not in FORMATS and dtype != "bfloat16":
    return str(value)
  if not finite(value):
    return word_of(value)
  few, many, kind = (15, 17, "float64") if dtype == "float64" else (6, 9, "float32")
  text = "%.*g" % (few, value)
  return text if narrow(float(text), kind) == value else "%.*g" % (many, value)


def tf_print(dtype, shape, values, edge=EDGE):
  if not shape:
    return printed_element(values[0], dtype, True)
  strides = [1] * len(shape)
  for axis in range(len(shape) - 2, -1, -1):
    strides[axis] = strides[axis + 1] * shape[axis + 1]

  def block(axis, offset):
    if axis == len(shape):
      return printed_element(values[offset], dtype, False)
    between = " " if axis == len(shape) - 1 else "\n" * (len(shape) - 1 - axis) + " " * (axis + 1)
    indices = range(shape[axis])
    if edge >= 0 and shape[axis] > 2 * edge:
      indices = list(range(edge)) + [None] + list(range(shape[axis] - edge, shape[axis]))
    return "[" + between.join("..." if i is None else block(axis + 1, offset + i * strides[axis]) for i in indices) + "]"

  return block(0, 0)


# --- the check -----------------------------------------------------------------------------------------------------------------------------------

def values_of(entry):
  dtype = entry["dtype"]
  if "fill" in entry:
    count = 1
    for n in entry["shape"]:
      count *= n
    numbers = [entry["start"] + i * entry["step"] for i in range(count)]
    return [float(n) for n in numbers] if dtype.startswith("float") else numbers
  if dtype == "string":
    return [bytes.fromhex(v) for v in entry["values"]]
  if "float" in dtype:
    return [float.fromhex(v) for v in entry["values"]]
  return entry["values"]


def main():
  default = os.path.join(os.path.dirname(os.path.abspath(__file__)), "printing.json")
  with open(sys.argv[1] if len(sys.argv) > 1 else default, encoding="utf-8") as source:
    entries = json.load(source)["tensors"]
  failed = 0
  for entry in entries:
    arguments = entry["dtype"], entry["shape"], values_of(entry)
    for key, function in (("repr", tensor_repr), ("str", tensor_str), ("tf_print", tf_print)):
      text = function(*arguments)
      if text != entry[key] and not (key == "tf_print" and 0 in entry["shape"][1:]):  # a quirk not copied
        failed += 1
        print("%s %s\n--- rule\n%s\n--- TensorFlow\n%s" % (entry["id"], key, text, entry[key]))
  print("%d passed, %d failed" % (3 * len(entries) - failed, failed))
  sys.exit(1 if failed else 0)


if __name__ == "__main__":
  main()
