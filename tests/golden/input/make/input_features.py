"""Expected results of decode_raw with fixed_length, Fingerprint64 and look-ups, made with TensorFlow and Keras: python input_features.py OUTDIR [FILE ...]"""
import itertools
import random
import tempfile

from input_common import *

import keras


# ------------------------------------------------------------------------------------------------------------- decode_raw
def make_decode_padded(_):
    cases = []

    def case(inputs, dtype, length, little=True):
        got, error = attempt(lambda: tf.io.decode_raw(tf.constant(inputs, tf.string), dtype, little_endian=little, fixed_length=length))
        cases.append({"input_hex": [b.hex() for b in inputs] if isinstance(inputs, list) else inputs.hex(), "scalar": not isinstance(inputs, list), "dtype": dtype.name, "little_endian": little,
                      "fixed_length": length, **({"shape": list(got.shape), "values": tf.cast(got, tf.float32) if dtype == tf.bfloat16 else got} if error is None else {"error": error})})

    data = bytes(range(1, 7))
    for dtype, length, little in itertools.product((tf.uint8, tf.int8, tf.int16, tf.uint16, tf.int32, tf.int64, tf.float32, tf.float64, tf.bfloat16), (8, 16), (True, False)):
        case(data, dtype, length, little)
    for length in (-4, 3, 4, 6):
        case(data, tf.int32, length)
    for dtype, little in itertools.product((tf.uint8, tf.int16, tf.int32), (True, False)):
        case([b"\x01", b"\x01\x02\x03\x04\x05", b"", b"\xff\x00"], dtype, 4, little)
    case([], tf.int16, 4)
    return {"decode_raw": cases}


# ------------------------------------------------------------------------------------------------------------ fingerprint
def make_fingerprint(_):
    """Byte i of the string of n bytes is (7 i + n) mod 256."""
    def of(n):
        row = tf.constant([[(7 * i + n) % 256 for i in range(n)]], tf.uint8, shape=[1, n])
        return int.from_bytes(bytes(tf.fingerprint(row).numpy()[0]), "little")

    return {"sizes": [{"size": n, "fingerprint": "%d" % of(n)} for n in list(range(1, 261)) + [1000, 4096, 70001]]}


# ---------------------------------------------------------------------------------------------------------------- look-up
def make_lookup(_):
    cases = []
    folder = tempfile.mkdtemp()

    def case(name, vocabulary, inputs, integers=False, **options):
        layer = keras.layers.IntegerLookup if integers else keras.layers.StringLookup
        given = vocabulary
        if isinstance(vocabulary, bytes):  # a name of its own: tables are shared by the name of their file
            given = os.path.join(folder, "%d.txt" % len(cases))
            with open(given, "wb") as f:
                f.write(vocabulary)
        record = {"name": name, "integers": integers, "options": options, "inputs": plain(inputs), **({"file_hex": vocabulary.hex()} if isinstance(vocabulary, bytes) else {"tokens": vocabulary})}
        made, error = attempt(lambda: layer(vocabulary=given, **options))
        if error is None:
            got, error = attempt(lambda: plain(made(tf.constant(inputs))))
            if vocabulary != b"a\0\nb\n":  # NumPy takes zeros off the end
                record["vocabulary"] = [v.item() if isinstance(v, np.generic) else v for v in made.get_vocabulary()]
            record["size"] = made.vocabulary_size()
        cases.append({**record, **({"output": got} if error is None else {"error": error})})

    words = ["a", "b", "c", "z", "", "[UNK]", "ab", "Hello", "World"]
    case("the documents'", ["a", "b", "c", "d", "f"], ["a", "c", "e", "a", "c", "e"])
    case("matrix", ["a", "b"], [["a", "x"], ["b", "a"]])
    for n in (0, 1, 2, 3, 10):
        case("%d oov" % n, ["a", "b"], ["a", "b"] + ([] if n == 0 else ["c", "d", "Hello", "World", "", "a b", "x" * 40, "y" * 100]), num_oov_indices=n)
        case("%d oov, integers" % n, [10, 11, 12, 13], [13, 10] + ([] if n == 0 else [133, -1, -2, -3, 0, 2**62]), True, num_oov_indices=n)
        case("%d oov, mask" % n, ["a", "b"], ["a", "", "b"] + ([] if n == 0 else ["c"]), num_oov_indices=n, mask_token="")
        case("%d oov, mask, integers" % n, [10, 11, 12, 13], [13, 0] + ([] if n == 0 else [133]), True, num_oov_indices=n, mask_token=0)
        case("%d oov, inverse" % n, ["a", "b"], [0, 1, 2, 3, 4, -1, 99], num_oov_indices=n, invert=True)
        case("%d oov, inverse, mask" % n, ["a", "b"], [0, 1, 2, 3, 4, -1, 99], num_oov_indices=n, invert=True, mask_token="")
        case("%d oov, inverse, integers" % n, [10, 11], [0, 1, 2, 3, 4, -1, 99], True, num_oov_indices=n, invert=True, mask_token=0)
    case("0 oov, unknown", ["a", "b"], ["a", "x", "y"], num_oov_indices=0)
    case("0 oov, unknown, integers", [10, 11], [10, 12], True, num_oov_indices=0)
    case("oov token", ["a"], ["a", "[OOV]", "x"], oov_token="[OOV]")
    case("oov token, inverse", ["a"], [0, 1, 2], oov_token="[OOV]", invert=True)
    case("oov token, integers", [10], [0, 1, 5], True, oov_token=-7, invert=True)
    case("specials first", ["", "[UNK]", "a"], ["a", "", "x"], mask_token="")
    case("oov first", ["[UNK]", "a"], ["a", "[UNK]", "x"])
    case("oov first, but a mask is asked for", ["[UNK]", "a"], ["a", "[UNK]", "x", ""], mask_token="")
    case("two oov first", ["[UNK]", "[UNK]", "a"], ["a", "[UNK]", "x"], num_oov_indices=2)
    case("one oov first of two", ["[UNK]", "a"], ["a", "[UNK]", "x"], num_oov_indices=2)
    case("oov later", ["a", "[UNK]"], ["a", "[UNK]", "x"])
    case("oov later, inverse", ["a", "[UNK]"], [0], invert=True)
    case("oov first, integers", [-1, 11], [11, -1], True)
    case("mask later", ["a", "m"], ["a"], mask_token="m")
    case("mask is oov", ["a"], ["[UNK]", "a", "b"], mask_token="[UNK]")
    case("repeated", ["a", "b", "a", "b", "c"], ["a"])
    case("repeated integers", [1, 2, 1], [1], True)
    case("empty", [], ["a"])
    case("only specials", ["[UNK]"], ["a"])
    case("max_tokens", ["a", "b", "c"], ["a"], max_tokens=3)
    case("max_tokens fits", ["a", "b", "c"], ["a"], max_tokens=4)
    case("max_tokens 1", ["a"], ["a"], max_tokens=1)
    case("max_tokens -1", ["a"], ["a"], max_tokens=-1)
    case("-1 oov", ["a"], ["a"], num_oov_indices=-1)
    for name, content in {"plain": b"a\nb\nc\n", "no last LF": b"a\nb\nc", "CRLF": b"a\r\nb\r\n", "CR inside": b"a\rb\nb\n", "CR at the end": b"a\nb\r", "two CR": b"a\r\r\nb\n", "CR alone": b"a\n\r\nb\n", "empty line": b"a\n\nb\n", "only LF": b"\n", "blanks": b" a \nb c\n",
                          "repeated line": b"a\nb\na\n", "NUL": b"a\0\nb\n", "empty file": b""}.items():
        case("file, " + name, content, words + [" a ", "b c"])
    case("file, 0 oov", b"a\nb\n", ["b", "a"], num_oov_indices=0)
    case("file, 3 oov, mask", b"a\nb\n", words, num_oov_indices=3, mask_token="")
    case("file, inverse", b"a\nb\n", [0, 1, 2, 3, -1], invert=True)
    case("file, repeated, inverse", b"a\nb\na\n", [0, 1, 2, 3], invert=True)
    case("file, max_tokens", b"a\nb\nc\n", ["a", "c"], max_tokens=3)
    for name, content in {"plain": b"10\n11\n-5\n", "blanks": b" 10\n11 \n", "plus": b"+10\n", "junk": b"10\nx\n", "out of range": b"99999999999999999999\n", "float": b"1.0\n", "extremes": b"9223372036854775807\n-9223372036854775808\n",
                          "hex": b"0x10\n", "repeated": b"7\n8\n7\n"}.items():
        case("integers in a file, " + name, content, [10, 11, -5, 7, 1, 2**63 - 1, -(2**63)], True)
    rng = random.Random(5)
    tokens = sorted({"".join(rng.choice("abcdefgh") for _ in range(rng.randint(1, 40))) for _ in range(300)})
    case("many", tokens, [rng.choice(tokens) if rng.random() < 0.5 else rng.choice(tokens) + "x" for _ in range(100)], num_oov_indices=7)
    return {"keras": keras.__version__, "cases": cases}


main({"decode_padded.json": make_decode_padded, "fingerprint.json": make_fingerprint, "lookup.json": make_lookup})
