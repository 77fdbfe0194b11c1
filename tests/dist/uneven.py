#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parameter servers, and workers that come and go as they like."""
import re
import signal

from job import check, run


def case_S10_one_sleeps(t):
    """While worker 0 is five seconds inside a step, worker 1 makes a hundred and more."""
    cluster = t.cluster(worker=2, ps=2)
    steps = t.helper("steps")
    for i in range(2):
        cluster.start("ps", i, steps)
    slow = cluster.start("worker", 0, steps, "--steps", "2", "--pause", "5")
    slow.says("^paused$")
    fast = cluster.start("worker", 1, steps, "--steps", "1000")
    fast.says("^step 100$", 5)
    check("step" not in slow.out, "the slow one is still in its step", slow.show())
    for task in t.tasks:
        check(task.ends(20) == 0, "failed", task.show())
    check(slow.out.splitlines()[-1] == "total 1002", "every step counts", slow.show())


def case_T18_few_and_many(t):
    """The job ends when the last of them has; nobody is an error."""
    cluster = t.cluster(worker=2, ps=1)
    steps = t.helper("steps")
    ps = cluster.start("ps", 0, steps)
    few = cluster.start("worker", 0, steps, "--steps", "10")
    few.says("^step 10$")
    many = cluster.start("worker", 1, steps, "--steps", "1000")
    many.says("^made$")
    for task in (many, few, ps):
        check(task.ends(20) == 0 and not task.err, "failed", task.show())
    check(few.out.splitlines()[-1] == "total 1010", "the chief waited for the other", few.show())
    check(many.out.splitlines()[-1] == "step 1000", "all steps", many.show())


def case_late_worker(t):
    """One that comes after the chief is through its steps still takes part."""
    cluster = t.cluster(worker=2, ps=1)
    steps = t.helper("steps")
    cluster.start("ps", 0, steps)
    chief = cluster.start("worker", 0, steps, "--steps", "3")
    chief.says("^step 1$")
    late = cluster.start("worker", 1, steps, "--steps", "4", "--before", "1")
    for task in t.tasks:
        check(task.ends(20) == 0, "failed", task.show())
    check(chief.out.splitlines()[-1] == "total 7" and re.search("^step 1$", late.out, re.M), "steps", chief.show())


def case_S5_one_map(t):
    """Workers started in whatever order, one of them late, see each variable on the same ps."""
    cluster = t.cluster(worker=5, ps=3)
    program = t.helper("placement")
    tasks = [cluster.start("worker", 3, program), cluster.start("ps", 2, program), cluster.start("worker", 1, program)]
    tasks += [cluster.start("ps", i, program) for i in (0, 1)]
    tasks += [cluster.start("worker", i, program) for i in (2, 0)]
    for task in tasks:
        if task.name.startswith("worker"):
            task.says("^placed$")
    tasks.append(cluster.start("worker", 4, program))
    for task in tasks:
        check(task.ends(20) == 0, "failed", task.show())
    maps = {task.out for task in tasks if task.name.startswith("worker")}
    check(len(maps) == 1, "not one map", *maps)
    devices = re.findall(r"^v(\d+) /job:ps/\S*task:(\d)", maps.pop(), re.M)
    check(devices == [(str(i), str(i % 3)) for i in range(13)], "one after the other", devices)


def case_S8_terminated(t):
    """A ps that SIGTERM's handler stops ends well, whether anybody is there or not; its workers are told."""
    cluster = t.cluster(worker=1, ps=2)
    steps = t.helper("steps")
    for name in ("lonely", "served"):
        ps = [cluster.start("ps", i, steps) for i in range(2)]
        worker = cluster.start("worker", 0, steps, "--steps", "1000000") if name == "served" else None
        if worker:
            worker.says("^step 100$")
        else:
            ps[0].says("^serving$")
        ps[0].kill(signal.SIGTERM)
        check(ps[0].ends(5) == 0 and not ps[0].err, name, ps[0].show())
        if worker:
            worker.fails(cluster.named("ps:0"), limit=5)
            check(ps[1].ends(5) > 0, "all workers are lost", ps[1].show())
        else:
            ps[1].says("^serving$")
            ps[1].kill(signal.SIGTERM)
            check(ps[1].ends(5) == 0 and not ps[1].err, name, ps[1].show())


def case_chief_is_lost_early(t):
    """Workers that wait for what the chief makes are told at once that it is gone."""
    cluster = t.cluster(worker=2, ps=1)
    steps = t.helper("steps")
    ps = cluster.start("ps", 0, steps)
    chief = cluster.start("worker", 0, steps, "--before", "60")
    chief.says("^connected$")
    other = cluster.start("worker", 1, steps)
    other.says("^connected$")
    chief.kill()
    other.fails(cluster.named("worker:0") + " ended before", limit=1)
    chief.ends(1)
    check(ps.ends(5) > 0, "all workers are lost", ps.show())


run(globals())
