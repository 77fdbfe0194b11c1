#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs whose tasks are asked to stop: one checkpoint of the step that all have reached, soon, and the next start goes on there
with every example of each epoch once (T21)."""
import os
import re
import signal
import subprocess
import time

from job import check, run, session_members, SHEAF, SLOW

EXAMPLES = 1438
SAVED = 75  # exit code: saved early, start it again
ENDED = 5
FOREVER = ("--epochs", "1000000")


def saved_as(t, task):
    """The step and number that it says, which are those of the newest checkpoint, and that is whole."""
    found = re.findall(r"stopped at step (\d+), saved as (\S+)/ckpt-(\d+)$", task.out, re.M)
    check(len(found) == 1, "one line", task.show())
    step, number = int(found[0][0]), int(found[0][2])
    check(t.checkpoints()[-1] == number, f"newest of {t.checkpoints()}", task.show())
    path = os.path.join(t.out, f"ckpt-{number}")
    shown = subprocess.run([SHEAF, "ckpt", "show", path, "step/.ATTRIBUTES/VARIABLE_VALUE"], capture_output=True,
                           text=True, check=True).stdout
    check(re.search(rf"\b{step}\b", shown), f"step {step} in {shown}")
    subprocess.run([SHEAF, "ckpt", "verify", path], capture_output=True, check=True)
    left = [n for n in os.listdir(t.out) if n.endswith("_temp") or ".tmp-" in n]
    check(not left, "half a checkpoint", left)
    return step


def epochs_of(task):
    return [(int(e), int(n)) for e, n in re.findall(r"epoch (\d+) step \d+ loss \S+, (\d+) examples", task.out)]


def every_example_once(told):
    """Epochs of one life after the other, each told when it is over, in whichever life that was."""
    check([e for e, _ in told] == list(range(1, len(told) + 1)), "one line an epoch", told)
    check(all(n == EXAMPLES for _, n in told), f"{EXAMPLES} examples in each", told)


def stop_each_in_turn(t, **jobs):
    told = []
    names = [f"{job}:{i}" for job, count in jobs.items() for i in range(count)]
    for asked in [[n] for n in names] + [names]:
        cluster = t.cluster(**jobs)
        tasks = cluster.start_all(*t.digits_argv(*FOREVER))
        tasks["worker:0"].says(r"epoch \d+ ")
        for name in asked:
            tasks[name].kill(signal.SIGTERM)
        for name, task in tasks.items():
            code = task.ends(ENDED)
            check(code == (0 if name.startswith("ps") else SAVED), f"{asked}: exit code {code}", task.show())
            check(not task.err, "no line", task.show())
        saved_as(t, tasks["worker:0"])
        told += epochs_of(tasks["worker:0"])
    tasks = t.cluster(**jobs).start_all(*t.digits_argv("--epochs", str(len(told) + 2)))
    for task in tasks.values():
        check(task.ends(60) == 0 and not task.err, "the last start", task.show())
    every_example_once(told + epochs_of(tasks["worker:0"]))


def case_T21_workers(t):
    stop_each_in_turn(t, worker=3)


def case_T21_parameter_servers(t):
    stop_each_in_turn(t, worker=2, ps=2)


def case_T21_alone(t):
    told = []
    for number in (signal.SIGINT, signal.SIGTERM):
        task = t.digits(*FOREVER)
        task.says(r"epoch \d+ ")
        task.kill(number)
        check(task.ends(ENDED) == SAVED and not task.err, "exit code", task.show())
        saved_as(t, task)
        told += epochs_of(task)
    task = t.digits("--epochs", str(len(told) + 1))
    check(task.ends(30) == 0, "the last start", task.show())
    every_example_once(told + epochs_of(task))


def case_T21_launcher(t):
    """A signal to the launcher is one to all tasks, the evaluator included."""
    for number, name in ((signal.SIGINT, "Interrupt"), (signal.SIGTERM, "Terminated")):
        for jobs in ("--worker 2 --ps 2 --evaluator 1", "--worker 2"):
            task = t.launch(jobs, *FOREVER, name=name)
            task.says(r"epoch \d+ ")
            task.kill(number)
            code = task.ends(ENDED)
            check(code == SAVED, f"exit code {code}", task.show())
            check(task.err == f"sheaf run: ending all tasks by signal {number} ({name}); a second one kills them\n",
                  "one line", task.show())
            check(not session_members(task.pid), "processes are left", session_members(task.pid))
            saved_as(t, task)


def case_T21_at_any_moment(t):
    """Also while the tasks start: they end in time, and what is saved goes on."""
    for delay in range(12):
        cluster = t.cluster(worker=2)
        tasks = cluster.start_all(*t.digits_argv(*FOREVER), SHEAF_DEADLINE_S="3")
        time.sleep(0.03 * delay * SLOW)
        tasks["worker:1"].kill(signal.SIGTERM)
        codes = [task.ends(ENDED) for task in tasks.values()]
        # Who is asked before there is anything to save dies of it, and the other one cannot go on.
        check(codes in ([SAVED, SAVED], [1, -signal.SIGTERM]), f"exit codes {codes}",
              *(task.show() for task in tasks.values()))
        if codes[0] == SAVED:
            saved_as(t, tasks["worker:0"])


def case_T21_cannot_agree(t):
    """A worker that does not answer: the others end when the time for it is over, or when they are asked again."""
    for grace, again in (("1", False), ("60", True)):
        cluster = t.cluster(worker=2)
        tasks = cluster.start_all(*t.digits_argv(*FOREVER), SHEAF_GRACE_S=grace, SHEAF_HEARTBEAT_MS="20000")
        tasks["worker:0"].says(r"epoch \d+ ")
        tasks["worker:1"].kill(signal.SIGSTOP)
        tasks["worker:0"].kill(signal.SIGTERM)
        if again:
            time.sleep(0.6)
            tasks["worker:0"].kill(signal.SIGTERM)
        code = tasks["worker:0"].ends(ENDED)
        check(code == -signal.SIGTERM, f"exit code {code}", tasks["worker:0"].show())
        check(not re.search("stopped at", tasks["worker:0"].out), "nothing saved", tasks["worker:0"].show())
        tasks["worker:1"].kill(signal.SIGKILL)
        tasks["worker:1"].ends(ENDED)


run(globals())
