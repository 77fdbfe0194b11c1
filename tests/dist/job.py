# SPDX-License-Identifier: Apache-2.0
"""Jobs of real processes, started and judged from outside: what the tests of this folder share.

A test is a function `case_NAME(t)` of a file; `run(globals())` runs them all, each in an empty folder of its own, and
prints a TAP line for each. SHEAF and DIGITS name the programs, DATA the records, HELPERS the programs of this folder.
After a case no process, temporary file or shared-memory segment of it may be left.
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

SHEAF = os.environ["SHEAF"]
DIGITS = os.environ["DIGITS"]
DATA = os.environ["DATA"]
HELPERS = os.environ["HELPERS"]
# Sanitizers make everything slower; time limits of the product are multiplied by this.
SLOW = float(os.environ.get("SLOW", "1"))


class Skip(Exception):
    """The machine cannot run this case."""


def check(condition, text, *more):
    if not condition:
        raise AssertionError("\n".join(str(m) for m in (text, *more)))


class Task:
    """A process with its output in files."""

    def __init__(self, test, name, argv, env):
        taken = [t.name for t in test.tasks]
        while name in taken:
            name += "-again"
        self.name, self.argv = name, argv
        self.paths = [os.path.join(test.folder, f"{name}.{end}") for end in ("out", "err")]
        with open(self.paths[0], "wb") as out, open(self.paths[1], "wb") as err:
            # A session of its own, so that what it leaves behind can be found.
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env,
                cwd=test.work, start_new_session=True)
        self.pid = self.process.pid
        test.tasks.append(self)

    def _read(self, i):
        with open(self.paths[i], encoding="utf-8", errors="replace") as f:
            return f.read()

    @property
    def out(self):
        return self._read(0)

    @property
    def err(self):
        return self._read(1)

    def kill(self, number=signal.SIGKILL):
        os.kill(self.pid, number)

    def kill_all(self):
        """It and everything that it started."""
        for pid in session_members(self.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    def running(self):
        return self.process.poll() is None

    def ends(self, limit):
        """Waits at most `limit` seconds of the product's time; its exit code."""
        try:
            return self.process.wait(limit * SLOW)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} has not ended after {limit * SLOW:g} s\n{self.show()}") from None

    def says(self, pattern, limit=20, stream=0):
        """Waits until a line of its output matches; the match."""
        end = time.monotonic() + limit * SLOW
        while True:
            over = not self.running()
            found = re.search(pattern, self._read(stream), re.M)
            if found:
                return found
            if over or time.monotonic() > end:
                raise AssertionError(f"{self.name} did not say {pattern!r}\n{self.show()}")
            time.sleep(0.01)

    def fails(self, *parts, limit=20, lines=1):
        """It ends with an error: exit code above 0, one line on stderr with every part in it."""
        code = self.ends(limit)
        check(code > 0, f"{self.name} ended with {code}, expected an error", self.show())
        found = self.err.splitlines()
        check(lines is None or len(found) == lines, f"{self.name}: {len(found)} lines on stderr, expected {lines}",
              self.show())
        check(any(all(p in line for p in parts) for line in found), f"{self.name}: no line with {parts}", self.show())

    def show(self):
        return f"--- {self.name}: {' '.join(self.argv)}\n{self.out[-3000:]}{self.err[-3000:]}---"


class Cluster:
    """Addresses of a cluster on this machine. Its ports are held as long as it lives: the system gives them to nobody who
    asks for any port, while tasks may listen there."""

    def __init__(self, test, host="127.0.0.1", **jobs):
        self.test = test
        self.held, self.addresses = [], {}
        for job, count in jobs.items():
            self.addresses[job] = []
            for _ in range(count):
                s = socket.socket()
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind((host, 0))
                self.held.append(s)
                self.addresses[job].append(f"{host}:{s.getsockname()[1]}")

    def config(self, job, index):
        cluster = {j: a for j, a in self.addresses.items() if j != "evaluator"}
        return json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})

    def named(self, task):
        """How errors name "worker:1"."""
        job, index = task.split(":")
        return f"/job:{job}/task:{index} at {self.addresses[job][int(index)]}"

    def start(self, job, index, *argv, **env):
        return self.test.start(f"{job}-{index}", *argv, TF_CONFIG=self.config(job, index), **env)

    def start_all(self, *argv, **env):
        return {f"{job}:{i}": self.start(job, i, *argv, **env)
                for job, addresses in self.addresses.items() for i in range(len(addresses))}


class Test:
    def __init__(self, name):
        self.name, self.tasks = name, []
        self.folder = tempfile.mkdtemp(prefix="sheaf-dist-")
        self.work, self.home, self.tmp = (os.path.join(self.folder, d) for d in ("work", "home", "tmp"))
        for d in (self.work, self.home, self.tmp):
            os.mkdir(d)
        self.out = os.path.join(self.work, "out")
        self.saver_killed = False  # what it had half saved is for the next start to sweep

    def env(self, **more):
        env = {k: v for k, v in os.environ.items() if k != "TF_CONFIG" and not k.startswith("SHEAF_")}
        env.update(HOME=self.home, TMPDIR=self.tmp, LC_ALL="C")
        env.update(more)
        return {k: v for k, v in env.items() if v is not None}

    def start(self, name, *argv, **env):
        return Task(self, name, list(argv), self.env(**env))

    def digits(self, *args, name="digits", data=DATA, **env):
        return self.start(name, *self.digits_argv(*args, data=data), **env)

    def digits_argv(self, *args, data=DATA):
        return [DIGITS, "--data", data, "--out", self.out, *args]

    def launch(self, jobs, *args, data=DATA, name="run", **env):
        """`sheaf run` with `jobs` ("--worker 2 --ps 1") of the main job."""
        return self.start(name, SHEAF, "run", *jobs.split(), "--", *self.digits_argv(*args, data=data), **env)

    def cluster(self, **jobs):
        return Cluster(self, **jobs)

    def helper(self, name):
        return os.path.join(HELPERS, name)

    def copy_data(self):
        """The records in a folder that may be changed; its path."""
        path = os.path.join(self.work, "data")
        shutil.copytree(DATA, path)
        return path

    def checkpoints(self):
        """Numbers of the checkpoints in the output folder."""
        names = os.listdir(self.out) if os.path.isdir(self.out) else []
        return sorted(int(m.group(1)) for m in (re.fullmatch(r"ckpt-(\d+)\.index", n) for n in names) if m)

    def find_leftovers(self):
        left = [f"{task.name} still runs\n{task.show()}" for task in self.tasks if task.running()]
        for task in self.tasks:
            for pid in session_members(task.pid):
                left.append(f"process {pid} of {task.name}: {read_text(f'/proc/{pid}/cmdline')}")
        for root, _, files in os.walk(self.folder):
            for name in files:
                path = os.path.join(root, name)
                if self.saver_killed and path.startswith(f"{self.work}/out"):
                    continue
                # The thread sanitizer's own, for a moment while a program starts; who is killed then leaves it.
                if root == self.tmp and re.fullmatch(r"tsan\.rodata\.\d+", name):
                    continue
                if root == self.tmp or re.search(r"\.(tmp|new|part|probe)\b|tempstate", name):
                    left.append(path)
        left += [f"/dev/shm/{n}" for n in os.listdir("/dev/shm") if "sheaf" in n or "ucx" in n]
        return left

    def find_reports(self):
        """A sanitizer's complaint counts whatever else the task was to say."""
        return [f"a report on {t.name}\n{t.show()}" for t in self.tasks
                if re.search(r"Sanitizer: |runtime error: ", t.err)]

    def finish(self, failed):
        left = [] if failed else self.wait_for_nothing() + self.find_reports()
        for task in self.tasks:
            task.kill_all()
        shutil.rmtree(self.folder, ignore_errors=True)
        check(not left, "left behind:", *left)

    def wait_for_nothing(self):
        """The kernel takes a moment to take a killed process away."""
        end = time.monotonic() + 2 * SLOW
        left = self.find_leftovers()
        while left and time.monotonic() < end:
            time.sleep(0.02)
            left = self.find_leftovers()
        return left


def read_text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read().replace("\0", " ")
    except OSError:
        return ""


def session_members(session):
    """Processes of a session that are no zombies."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = read_text(f"/proc/{name}/stat").rpartition(")")[2].split()
            if len(fields) > 3 and int(fields[3]) == session and fields[0] != "Z":
                found.append(int(name))
    return found


def run(names):
    cases = [(n[5:], f) for n, f in names.items() if n.startswith("case_")]
    wanted = sys.argv[1:]
    cases = [(n, f) for n, f in cases if not wanted or n in wanted]
    bad = 0
    for number, (name, function) in enumerate(cases, 1):
        test = Test(name)
        result, text, failed = "ok", "", True
        try:
            function(test)
            failed = False
        except Skip as reason:
            result, text, failed = "ok", f" # SKIP {reason}", False
        except Exception as fault:  # pylint: disable=broad-except # every fault is a failure of the case
            result = "not ok"
            print(fault if isinstance(fault, AssertionError) else traceback.format_exc(), file=sys.stderr)
            print("".join(traceback.format_tb(fault.__traceback__)[-1:]), file=sys.stderr)
        try:
            test.finish(failed)
        except AssertionError as fault:
            result = "not ok"
            print(fault, file=sys.stderr)
        bad += result != "ok"
        print(f"{result} {number} - {name}{text}", flush=True)
    print(f"1..{len(cases)}")
    sys.exit(1 if bad or not cases else 0)
