#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One job, killed again and again at any moment: what it has saved is always whole, and it always goes on."""
import os
import random
import re
import signal
import time

from job import check, run, session_members, SHEAF, SLOW

TIMES = 100


def tasks_of(launcher):
    return [p for p in session_members(launcher.pid) if p != launcher.pid and is_digits(p)]


def is_digits(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as f:
            return f.read().strip() == "digits"
    except OSError:
        return False


def verify_all(t):
    for number in t.checkpoints():
        task = t.start("verify", SHEAF, "ckpt", "verify", f"{t.out}/ckpt-{number}")
        check(task.ends(20) == 0, f"checkpoint {number} is damaged", task.show())
        t.tasks.pop()


def case_any_task_at_any_moment(t):
    seed = random.randrange(1 << 30)
    dice, epochs, newest = random.Random(seed), 0, 0
    for number in range(TIMES):
        task = t.launch("--worker 2 --ps 2 --evaluator 1", "--epochs", "1000000", name=f"run-{number}")
        t.tasks.pop()
        try:
            strike(dice, task)
            verify_all(t)
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}, round {number}: {fault}") from None
        finally:
            task.kill_all()
        now = t.checkpoints()[-1] if t.checkpoints() else 0
        check(now >= newest, f"seed {seed}, round {number}: checkpoint {now} after {newest}", task.show())
        newest = now
        epochs = max([epochs, *(int(e) for e in re.findall(r"^worker:0\| epoch (\d+) ", task.out, re.M))])
    check(newest > TIMES // 4, "it hardly went on", newest)
    # Each worker makes passes of its own: the other one may have made more, and is through at once.
    task = t.launch("--worker 2 --ps 2 --evaluator 1", "--epochs", str(epochs + 2))
    check(task.ends(300) == 0, "failed", task.show())
    names = [n for n in os.listdir(t.out) if ".tmp-" in n or n.endswith("_temp")]
    check(not names, "left behind", names)


def strike(dice, task):
    """Kills one of the tasks, or the launcher, some time after the start; everything must be gone soon."""
    time.sleep(dice.uniform(0.02, 1.0) * SLOW)
    victims = tasks_of(task) + [task.pid]
    victim = dice.choice(victims)
    try:
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        pass
    since = time.monotonic()
    if victim != task.pid and len(victims) > 5:
        time.sleep(0.3 * SLOW)
        if task.running():
            task.kill(signal.SIGTERM)
    elif task.running():
        task.kill(signal.SIGTERM)
    task.ends(10)
    while session_members(task.pid) and time.monotonic() < since + 10 * SLOW:
        time.sleep(0.01)
    check(not session_members(task.pid), "processes are left", task.show())


run(globals())
