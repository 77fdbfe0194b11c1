# SPDX-License-Identifier: Apache-2.0
"""PyTorch's and safetensors' files. usage: ckpt_torch.py DIR"""
import os
import sys
import time

import torch
from safetensors.torch import load_file, save_file

FORMATS = {
    "torch": (torch.save, torch.load, "t.pt"),
    "safetensors": (save_file, load_file, "t.safetensors"),
}


def run(name, count, shape, gib):
    tensors = {f"v{i}": torch.rand(*shape) for i in range(count)}
    for peer, (save, load, file) in FORMATS.items():
        path = os.path.join(sys.argv[1], file)
        write = read = 0
        for _ in range(3):
            begin = time.perf_counter()
            save(tensors, path)
            middle = time.perf_counter()
            load(path)
            write = max(write, gib / (middle - begin))
            read = max(read, gib / (time.perf_counter() - middle))
        print(f"{peer}\tcheckpoint write {name}\t{write:.3f}\tGiB/s")
        print(f"{peer}\tcheckpoint read {name}\t{read:.3f}\tGiB/s", flush=True)
        os.unlink(path)


run("64x16MiB", 64, (1024, 4096), 1.0)
run("10000x1KiB", 10000, (256,), 10000 / 2**20)
