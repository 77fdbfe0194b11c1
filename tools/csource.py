# SPDX-License-Identifier: Apache-2.0
"""What the checks share: the tree, and C text without comments and strings."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def files(*folders, ends=(".c", ".h")):
    """Paths below the folders, relative to the root, sorted."""
    found = []
    for folder in folders:
        for where, folders_in, names in os.walk(os.path.join(ROOT, folder)):
            folders_in[:] = [f for f in folders_in if not f.startswith((".", "build"))]
            found += [os.path.relpath(os.path.join(where, n), ROOT) for n in names if n.endswith(ends)]
    return sorted(found)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def bare(text, keep_strings=False):
    """The text with comments (and what strings hold) made blank; lines stay where they are."""

    def blank(match):
        token = match.group(0)
        if token[0] in "\"'":
            return token if keep_strings else token[0] + " " * (len(token) - 2) + token[0]
        return re.sub(r"[^\n]", " ", token)

    return _TOKEN.sub(blank, text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


class Allowed:
    """A list of exceptions, one a line. One that is not needed any more is a fault: the list only shrinks."""

    def __init__(self, path):
        self.path = path
        self.entries = {}
        if os.path.exists(os.path.join(ROOT, path)):
            for line in read(path).splitlines():
                line = line.split("#")[0].strip()
                if line:
                    self.entries[line] = False

    def __contains__(self, entry):
        if entry in self.entries:
            self.entries[entry] = True
            return True
        return False

    def unused(self):
        return [f"{self.path}: no longer needed: {e}" for e, used in self.entries.items() if not used]


def finish(faults):
    """Prints the faults; the exit code of a check."""
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)
