# SPDX-License-Identifier: Apache-2.0
"""Single-process training rates of PyTorch, eager and compiled."""
import time

import numpy as np
import torch

from turns import line, take

STEPS = 100
torch.set_num_threads(2)
N = torch.nn
rng = np.random.default_rng(0)
loss_fn = N.CrossEntropyLoss()
RULES = {"sgd": lambda p: torch.optim.SGD(p, 0.01), "adam": lambda p: torch.optim.Adam(p)}


def make_step(rule, compiled, x, y):
    model = N.Sequential(N.Linear(784, 512), N.ReLU(), N.Linear(512, 512), N.ReLU(), N.Linear(512, 10))
    optimizer = RULES[rule](model.parameters())
    forward = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad()
        loss = loss_fn(forward(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


works = []
for batch in (32, 256):
    x = torch.from_numpy(rng.random((batch, 784), dtype=np.float32))
    y = torch.from_numpy(rng.integers(0, 10, batch))
    for rule in RULES:
        for compiled in (False, True):
            step = make_step(rule, compiled, x, y)
            for _ in range(5):
                step()
            peer = "torch-compile" if compiled else "torch"
            works.append((peer, f"train MLP 784-512-512-10 batch {batch} {rule}", step, batch))


def measure():
    for peer, work, step, batch in works:
        best = 0
        for _ in range(3):
            begin = time.perf_counter()
            for _ in range(STEPS):
                loss = step()
            loss.item()
            best = max(best, STEPS * batch / (time.perf_counter() - begin))
        line(peer, work, best, "examples/s")


take(measure)
