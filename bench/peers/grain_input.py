# SPDX-License-Identifier: Apache-2.0
"""What grain can do of the same: it reads TFRecords, without a look at their CRCs, but has no parser for what is in
them. usage: grain_input.py DIR"""
import sys

import grain

from tally import MODULUS, RANGE, Rate, paths
from turns import take_works


def raw(kind, size):
    files = [grain.experimental.TFRecordIterDataset(path) for path in paths(sys.argv[1], kind)]
    return grain.experimental.InterleaveIterDataset(files, cycle_length=1).batch(size, batch_fn=list)


def doubled():
    return grain.MapDataset.range(RANGE).map(lambda x: x * 2).batch(128)


def string_sum(batch):
    return len(batch), float(sum(map(len, batch)))


def number_sum(batch):
    return len(batch), float((batch % MODULUS).sum())


take_works([
    Rate("grain", "raw read ctr", string_sum, lambda: raw("ctr", 4096)),
    Rate("grain", "raw read img", string_sum, lambda: raw("img", 512)),
    Rate("grain", "range map batch", number_sum, doubled, lambda: doubled().to_iter_dataset()),
])
