# SPDX-License-Identifier: Apache-2.0
"""Write seeded benchmark inputs without TensorFlow: TFRecord files of tf.train.Example.
usage: make_data.py DIR [examples]   -> DIR/ctr-0000{0..3}-of-00004.tfrecord (13 float + 26 int64 + label:
                                        280 bytes a record; the integers are hashes of 44 bits)
                                        DIR/img-0000{0..3}-of-00004.tfrecord (784 raw bytes + label)"""
import os, random, struct, sys
import array
POLY = 0x82F63B78
T = []
for i in range(256):
    c = i
    for _ in range(8):
        c = (c >> 1) ^ (POLY if c & 1 else 0)
    T.append(c)
try:
    import crc32c as _c
    crc = lambda b: _c.crc32c(b)
except ImportError:
    def crc(b):
        c = 0xFFFFFFFF
        for x in b:
            c = T[(c ^ x) & 255] ^ (c >> 8)
        return c ^ 0xFFFFFFFF
def masked(b):
    c = crc(b)
    return (((c >> 15) | (c << 17)) + 0xA282EAD8) & 0xFFFFFFFF
def vi(n):
    o = bytearray()
    while True:
        b = n & 127
        n >>= 7
        o.append(b | (128 if n else 0))
        if not n:
            return bytes(o)
def ld(f, b):
    return vi(f << 3 | 2) + vi(len(b)) + b
def feat(kind, payload):
    return ld(kind, payload)
def f_float(v): return feat(2, ld(1, struct.pack('<%df' % len(v), *v)))
def f_int(v): return feat(3, ld(1, b''.join(vi(x & (2**64 - 1)) for x in v)))
def f_bytes(v): return feat(1, b''.join(ld(1, x) for x in v))
def example(d):
    return ld(1, b''.join(ld(1, ld(1, k.encode()) + ld(2, f)) for k, f in d.items()))
def write(path, recs):
    with open(path, 'wb') as o:
        for r in recs:
            l = struct.pack('<Q', len(r))
            o.write(l + struct.pack('<I', masked(l)) + r + struct.pack('<I', masked(r)))
def main():
    d, n = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 400000
    os.makedirs(d, exist_ok=True)
    R = random.Random(7)
    def ctr(k):
        for _ in range(k):
            dense = [R.random() for _ in range(13)]
            cat = [R.getrandbits(44) for _ in range(26)]
            y = 1 if (dense[0] + 0.1 * (cat[0] % 7)) > 0.9 else 0
            yield example({'label': f_int([y]), 'dense': f_float(dense), 'cat': f_int(cat)})
    def img(k):
        for _ in range(k):
            yield example({'image': f_bytes([R.randbytes(784)]), 'label': f_int([R.randrange(10)])})
    for i in range(4):
        write(f'{d}/ctr-{i:05d}-of-00004.tfrecord', ctr(n // 4))
        write(f'{d}/img-{i:05d}-of-00004.tfrecord', img(n // 16))
main()
