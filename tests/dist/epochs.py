#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that are killed at any moment and started again: every example comes exactly once in each epoch of what is saved in the
end. Under parameter servers that is so for every worker.

With LONG the jobs are killed far more often.
"""
import json
import os
import random
import re
import time

import records
from job import check, run, session_members, DATA, DIGITS, SHEAF, SLOW

FILES, EACH = 8, 25
NUMBERS = FILES * EACH
LONG = bool(os.environ.get("LONG"))
EPOCHS = 200 if LONG else 16
WHOLE = 600 if LONG else 60  # seconds that all of them take at most


def write_numbers(t):
    folder = f"{t.work}/numbers"
    os.mkdir(folder)
    for f in range(FILES):
        numbers = range(f * EACH, (f + 1) * EACH)
        records.write(f"{folder}/{f}.tfrecord", [records.example({"number": records.ints([n])}) for n in numbers])
    return folder


def tasks_of(launcher, name):
    """Processes of that program; the launcher itself, if it is one."""
    found = []
    for pid in session_members(launcher.pid):
        try:
            with open(f"/proc/{pid}/comm", encoding="ascii") as f:
                if f.read().strip() == name:
                    found.append(pid)
        except OSError:
            pass
    return found


def strike(dice, task, name):
    """Kills one of the tasks, a moment later those that are left; or all of them at once."""
    victims = tasks_of(task, name)
    if victims and dice.randrange(2):
        kill(dice.choice(victims))
        time.sleep(dice.uniform(0, 0.02) * SLOW)
    for pid in tasks_of(task, name):
        kill(pid)
    task.ends(10)
    end = time.monotonic() + 10 * SLOW
    while session_members(task.pid) and time.monotonic() < end:
        time.sleep(0.005)
    check(not session_members(task.pid), "processes are left", task.show())


def kill(pid):
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass


def argv_of(jobs, program):
    return [SHEAF, "run", *jobs.split(), "--", *program] if jobs else program


def storm(t, program, shapes, most):
    """Starts it in one of the shapes, kills it after up to `most` lines about a step, and so on until it is through. How often
    it was killed, and the last one. A shape is the tasks of a cluster, "" for none, and the replicas in each."""
    seed = random.randrange(1 << 30)
    dice, kills, name = random.Random(seed), 0, os.path.basename(program(1)[0])
    while True:
        jobs, replicas = dice.choice(shapes)
        task = t.start(f"life-{kills}", *argv_of(jobs, program(replicas)))
        target, end = dice.randrange(most), time.monotonic() + 60 * SLOW
        while task.running() and len(re.findall(r"step \d", task.out)) <= target:
            check(time.monotonic() < end, f"seed {seed}: it does not go on", task.show())
            time.sleep(0.002)
        time.sleep(dice.uniform(0, 0.01))
        if not task.running():
            check(task.ends(1) == 0, f"seed {seed}, life {kills} as {jobs!r} x {replicas}", task.show())
            return kills, task
        strike(dice, task, name)
        check(not re.search("came .* times", task.err), f"seed {seed}, life {kills}", task.show())
        t.tasks.remove(task)
        kills += 1


def value_of(t, name, out=None):
    """A variable as the newest checkpoint has it."""
    show = t.start(f"show-{len(t.tasks)}", SHEAF, "ckpt", "show", "--json", out or t.out,
                   name + "/.ATTRIBUTES/VARIABLE_VALUE")
    check(show.ends(10) == 0, "failed", show.show())
    return json.loads(show.out)["value"]


def exactly_once(t, shapes, rows=1):
    """Each number as often as there were epochs, in the row of each worker."""
    folder = write_numbers(t)
    kills, _ = storm(t, lambda replicas: [t.helper("epochs"), folder, t.out, str(EPOCHS), str(NUMBERS), str(replicas)],
                     shapes, 60)
    check(kills >= EPOCHS // 4, "it was hardly killed", kills)
    counts = value_of(t, "counts")
    check(all(row == [EPOCHS] * NUMBERS for row in counts[:rows]), f"not {EPOCHS} times each", counts)
    check(not any(map(any, counts[rows:])), "rows of no worker", counts)


def case_alone(t):
    exactly_once(t, [("", 1)])


def case_mirrored(t):
    exactly_once(t, [("", 2)])


def case_workers(t):
    exactly_once(t, [("--worker 2", 1)])


def case_other_workers(t):
    """With another number of workers and replicas each time."""
    exactly_once(t, [("", 1), ("", 3), ("--worker 2", 1), ("--worker 2", 2), ("--worker 3", 1)])


def case_ps(t):
    exactly_once(t, [("--worker 2 --ps 2", 1)], rows=2)


def case_ps_without_chief(t):
    """The chief is killed; its place is in what another worker saves."""
    folder = write_numbers(t)
    argv = [t.helper("epochs"), folder, t.out, str(EPOCHS), str(NUMBERS), "1"]
    tasks = t.cluster(worker=2, ps=2).start_all(*argv)
    tasks["worker:0"].says("^step 60$")
    tasks.pop("worker:0").kill()
    for task in tasks.values():
        check(task.ends(WHOLE) == 0, "failed", task.show())
    counts = value_of(t, "counts")
    check(0 < sum(counts[0]) < EPOCHS * NUMBERS, "the chief was not killed on its way", counts[0])
    check(counts[1] == [EPOCHS] * NUMBERS, "worker 1", counts[1])
    task = t.start("again", *argv_of("--worker 2 --ps 2", argv))
    check(task.ends(WHOLE) == 0 and not task.err, "failed", task.show())
    check(value_of(t, "counts")[:2] == [[EPOCHS] * NUMBERS] * 2, f"not {EPOCHS} times each", value_of(t, "counts"))


# ---- the main job ----

def results(text):
    """The lines about the epochs, and about what came of them."""
    return re.findall(r"^(?:\S+\| )?((?:epoch|accuracy) .*)", text, re.M)


def like_undisturbed(t, jobs, replicas):
    """Killed again and again, the main job ends with the same losses, to the last bit of its variables."""
    whole = f"{t.work}/whole"
    argv = [DIGITS, "--data", DATA, "--epochs", str(EPOCHS), "--replicas", str(replicas)]
    undisturbed = t.start("undisturbed", *argv_of(jobs, [*argv, "--out", whole]))
    check(undisturbed.ends(WHOLE) == 0, "failed", undisturbed.show())
    kills, last = storm(t, lambda _: [*argv, "--out", t.out], [(jobs, replicas)], 6)
    check(kills >= EPOCHS // 8, "it was hardly killed", kills)
    expected, found = results(undisturbed.out), results(last.out)
    check(found and expected[-len(found):] == found, "another end", undisturbed.show(), last.show())
    for name in ("b1", "b2", "step"):
        check(value_of(t, name) == value_of(t, name, whole), f"another {name}")


def case_main_job_alone(t):
    like_undisturbed(t, "", 1)


def case_main_job_mirrored(t):
    like_undisturbed(t, "", 2)


def case_main_job_workers(t):
    like_undisturbed(t, "--worker 2", 1)


run(globals())
