# SPDX-License-Identifier: Apache-2.0
"""Single-process training rates of PyTorch, eager and compiled."""
import time

import torch

import mlp
from turns import line, take

torch.set_num_threads(2)
N = torch.nn
loss_fn = N.CrossEntropyLoss()
RULES = {"sgd": lambda p: torch.optim.SGD(p, 0.01), "adam": lambda p: torch.optim.Adam(p)}


def make_step(rule, compiled, x, y):
    model = N.Sequential(N.Linear(784, 512), N.ReLU(), N.Linear(512, 512), N.ReLU(), N.Linear(512, 10))
    with torch.no_grad():
        for i, layer in enumerate(model[::2]):
            layer.weight.copy_(torch.from_numpy(mlp.weights(i).T.copy()))
            layer.bias.zero_()
    optimizer = RULES[rule](model.parameters())
    forward = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad()
        loss = loss_fn(forward(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


class Work:
    def __init__(self, batch, rule, compiled):
        self.peer = "torch-compile" if compiled else "torch"
        self.batch, self.rule = batch, rule
        self.step = make_step(rule, compiled, *map(torch.from_numpy, mlp.batch_of(batch)))
        self.turns = 0
        for _ in range(mlp.WARM_UP):
            self.step()

    def measure(self):
        best = 0
        for _ in range(mlp.TIMES):
            begin = time.perf_counter()
            for _ in range(mlp.STEPS):
                loss = self.step()
            loss = loss.item()
            best = max(best, mlp.STEPS * self.batch / (time.perf_counter() - begin))
        line(self.peer, "train " + mlp.name(self.batch, self.rule), best, "examples/s")
        self.turns += 1
        if self.turns == 1:
            line(self.peer, mlp.loss_name(self.batch, self.rule), loss, "loss")


works = [Work(b, r, compiled) for b in (32, 256) for r in RULES for compiled in (False, True)]


def measure():
    for work in works:
        work.measure()


take(measure)
