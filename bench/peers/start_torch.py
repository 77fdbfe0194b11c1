# SPDX-License-Identifier: Apache-2.0
"""From the start of a Python process to the end of the first training step, with PyTorch; the median of 5 starts after
one that warms the page cache. usage: start_torch.py (starts itself with "child")"""
import statistics
import subprocess
import sys
import time


def child():
    import torch

    torch.set_num_threads(2)
    N = torch.nn
    model = N.Sequential(N.Linear(784, 512), N.ReLU(), N.Linear(512, 512), N.ReLU(), N.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x, y = torch.rand(32, 784), torch.randint(0, 10, (32,))
    loss = N.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    loss.item()
    print(time.clock_gettime(time.CLOCK_MONOTONIC))


def main():
    seconds = []
    for _ in range(6):
        begin = time.clock_gettime(time.CLOCK_MONOTONIC)
        done = subprocess.run([sys.executable, __file__, "child"], stdout=subprocess.PIPE, check=True, text=True)
        seconds.append(float(done.stdout) - begin)
    print(f"torch\tstart to first step MLP 784-512-512-10 batch 32\t{statistics.median(seconds[1:]) * 1e3:.1f}\tms")


if __name__ == "__main__":
    child() if sys.argv[1:] == ["child"] else main()
