# SPDX-License-Identifier: Apache-2.0
"""What the works of `input` have in common (src/cli/bench_input.c has the same rules): sums over everything that comes
out, and rates of the best form."""
import os
import time

from turns import line

RANGE = 200000
SHUFFLE = 10000
MODULUS = 1009
LEAST_SECONDS = 0.5


def paths(directory, kind):
    return [os.path.join(directory, f"{kind}-{i:05d}-of-00004.tfrecord") for i in range(4)]


class Tally:
    """`sum_of(element)` gives the rows of an element and the sum of its numbers, of integers modulo MODULUS so that none
    outweighs the others, of strings the sizes. In `order` each element counts as often as its number says."""

    def __init__(self, form, sum_of):
        self.rows = self.elements = 0
        self.sum = self.order = 0.0
        for element in form():
            rows, total = sum_of(element)
            self.elements += 1
            self.rows += rows
            self.sum += total
            self.order += total * self.elements


def rate_of(form, rows):
    """Rows a second; the form runs again until LEAST_SECONDS are over."""
    begin = time.perf_counter()
    times = 0
    while True:
        for _ in form():
            pass
        times += 1
        seconds = time.perf_counter() - begin
        if seconds >= LEAST_SECONDS:
            return times * rows / seconds


class Rate:
    """A work that is done in several forms, of which the best counts: callables that give something to iterate."""

    def __init__(self, peer, work, sum_of, *forms):
        self.peer, self.work, self.forms = peer, work, forms
        tallies = [Tally(form, sum_of) for form in forms]
        self.first = tallies[0]
        for other in tallies:
            if other.rows != self.first.rows or abs(other.sum - self.first.sum) > 1e-9 * abs(self.first.sum):
                raise SystemExit(f"{work}: the forms of {peer} come to different sums")

    def measure(self):
        line(self.peer, self.work, max(rate_of(form, self.first.rows) for form in self.forms), "records/s")
        line(self.peer, self.work, self.first.sum, "sum")
        line(self.peer, self.work + ", in order", self.first.order, "sum")


class ResidentRate(Rate):
    """Also what memory the process has at most meanwhile."""

    def measure(self):
        with open("/proc/self/clear_refs", "w") as refs:
            refs.write("5")
        super().measure()
        with open("/proc/self/status") as status:
            kib = next(int(text.split()[1]) for text in status if text.startswith("VmHWM:"))
        line(self.peer, self.work + ", resident", kib / 1024, "MiB")


class First:
    """How long a new pipeline takes to its first element."""

    def __init__(self, peer, work, make):
        self.peer, self.work, self.make = peer, work, make

    def measure(self):
        begin = time.perf_counter()
        next(iter(self.make()))
        line(self.peer, self.work, 1e3 * (time.perf_counter() - begin), "ms")
