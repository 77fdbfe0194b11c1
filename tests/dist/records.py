# SPDX-License-Identifier: Apache-2.0
"""TFRecord files and Examples for the tests, written without the library (formats.md 1, 2)."""
import struct


def _table():
    rows = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ 0x82F63B78 if n & 1 else n >> 1
        rows.append(n)
    return rows


_TABLE = _table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF)


def read(path):
    """The records of a file, and the offset of each."""
    with open(path, "rb") as f:
        data = f.read()
    records, offsets, at = [], [], 0
    while at < len(data):
        size = struct.unpack_from("<Q", data, at)[0]
        records.append(data[at + 12:at + 12 + size])
        offsets.append(at)
        at += size + 16
    return records, offsets


def write(path, records):
    with open(path, "wb") as f:
        for r in records:
            head = struct.pack("<Q", len(r))
            f.write(head + masked(head) + r + masked(r))


def _varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def _field(number, data):
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def ints(values):
    return _field(3, _field(1, b"".join(_varint(v) for v in values)))


def floats(values):
    return _field(2, _field(1, struct.pack(f"<{len(values)}f", *values)))


def example(features):
    """A tf.train.Example of {key: ints(…) or floats(…)}."""
    entries = b"".join(_field(1, _field(1, k.encode()) + _field(2, v)) for k, v in features.items())
    return _field(1, entries)
