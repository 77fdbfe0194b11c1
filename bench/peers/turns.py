# SPDX-License-Identifier: Apache-2.0
"""Takes turns with bench/run: what measures once is called whenever a line comes in."""
import sys


def take(measure):
    print("done", flush=True)
    for _ in sys.stdin:
        measure()
        print("done", flush=True)


def take_works(works):
    """Each line that comes in names a work. One that is not ours is no error: others have it."""
    print("done", flush=True)
    for text in sys.stdin:
        for work in works:
            if work.work == text.rstrip("\n"):
                work.measure()
        print("done", flush=True)


def line(peer, work, figure, unit):
    print(f"{peer}\t{work}\t{figure:.12g}\t{unit}", flush=True)
