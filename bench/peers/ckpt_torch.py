# SPDX-License-Identifier: Apache-2.0
"""PyTorch's and safetensors' files. usage: ckpt_torch.py DIR torch|safetensors"""
import os
import sys

import ckpt
import torch
from safetensors.torch import load_file, save_file

SAVE, LOAD, NAME = {"torch": (torch.save, torch.load, "t.pt"),
                    "safetensors": (save_file, load_file, "t.safetensors")}[sys.argv[2]]
PATH = os.path.join(sys.argv[1], NAME)


class Files:
    """A file of `count` tensors: made when it is first asked for, written, and read into the same tensors."""

    def __init__(self, count, shape):
        self.count, self.shape, self.tensors = count, shape, None

    def make(self):
        if not self.tensors:
            self.tensors = {f"v{i}": torch.rand(*self.shape) for i in range(self.count)}

    def save(self):
        SAVE(self.tensors, PATH)

    def restore(self):
        for name, value in LOAD(PATH).items():
            self.tensors[name].copy_(value)

    def names(self):
        return [PATH]


ckpt.take(sys.argv[2], Files)
