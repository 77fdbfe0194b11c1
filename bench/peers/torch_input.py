# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's DataLoader can do of the same: it calls a function for each number and makes batches, here and in two
processes; it reads no TFRecords."""
import torch

from tally import MODULUS, RANGE, Rate
from turns import take_works


class Doubled(torch.utils.data.Dataset):
    def __len__(self):
        return RANGE

    def __getitem__(self, i):
        return i * 2


def loader(workers):
    return torch.utils.data.DataLoader(Doubled(), batch_size=128, num_workers=workers)


def number_sum(batch):
    return len(batch), float((batch % MODULUS).sum())


torch.set_num_threads(2)
take_works([Rate("pytorch", "range map batch", number_sum, lambda: loader(0), lambda: loader(2))])
