# SPDX-License-Identifier: Apache-2.0
"""What the works of `checkpoint` are (src/cli/bench_checkpoint.c has the same). There each is done twice in its turn and
the second time counts; here, where one process has all turns, it is done twice in the first of them."""
import os
import time

from turns import line, take_works

LARGE, SMALL = (64, (1024, 4096)), (100000, (256,))


def sync(names):
    for name in names:
        file = os.open(name, os.O_RDWR)
        os.fsync(file)
        os.close(file)


class Saving:
    def __init__(self, peer, work, files, fsync):
        self.peer, self.work, self.files, self.fsync, self.warm = peer, work, files, fsync, False

    def once(self):
        begin = time.perf_counter()
        self.files.save()
        if self.fsync:
            sync(self.files.names())
        return time.perf_counter() - begin

    def measure(self):
        self.files.make()
        if not self.warm:
            self.warm_up()
        self.warm = True
        gib = self.files.count * self.files.shape[0] * (self.files.shape + (1,))[1] * 4 / 2**30
        line(self.peer, self.work, gib / self.once(), "GiB/s")
        self.drop()

    def warm_up(self):
        self.once()
        self.drop()

    def drop(self):
        for name in self.files.names():
            os.unlink(name)


class Restoring(Saving):
    def once(self):
        begin = time.perf_counter()
        self.files.restore()
        return time.perf_counter() - begin

    def warm_up(self):
        self.once()

    def measure(self):
        self.files.make()
        self.files.save()
        super().measure()


def take(peer, make_files):
    large, small = make_files(*LARGE), make_files(*SMALL)
    take_works([
        Saving(peer, "save 64x16MiB", large, False),
        Saving(peer, "save 64x16MiB, none with fsync", large, False),
        Saving(peer, "save 64x16MiB, all with fsync", large, True),
        Restoring(peer, "restore 64x16MiB", large, False),
        Saving(peer, "save 100000x1KiB, none with fsync", small, False),
        Saving(peer, "save 100000x1KiB, all with fsync", small, True),
        Restoring(peer, "restore 100000x1KiB", small, False),
    ])
