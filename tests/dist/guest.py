#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library as a guest of a process, and jobs where there is little room."""
import os
import re
import subprocess

from job import check, run, session_members, Skip, SHEAF, SLOW
from strangers import TRANSPORTS


def case_manners(t):
    """No handler of the program is changed, no descriptor reaches a child, nothing is printed but what goes to the log;
    with every transport."""
    for transport in TRANSPORTS:
        for strategy, jobs in (("ps", {"worker": 1, "ps": 1}), ("multiworker", {"worker": 2})):
            cluster = t.cluster(**jobs)
            tasks = cluster.start_all(t.helper("manners"), t.work, strategy, SHEAF_TRANSPORT=transport)
            for task in tasks.values():
                code = task.ends(30)
                check(code == 0 and not task.out and not task.err, f"{transport}, {strategy}: {code}", task.show())


def case_manners_alone(t):
    for strategy in ("one", "mirrored"):
        task = t.start(strategy, t.helper("manners"), t.work, strategy)
        code = task.ends(30)
        check(code == 0 and not task.out and not task.err, f"{strategy}: {code}", task.show())


def case_T11_again_and_again(t):
    """A ps and a worker on fixed ports, 20 times in one process; nothing grows."""
    cluster = t.cluster(worker=1, ps=1)
    task = t.start("restart", t.helper("restart"), "20", cluster.addresses["worker"][0], cluster.addresses["ps"][0])
    check(task.ends(60) == 0 and not task.err, "failed", task.show())
    rounds = [tuple(map(int, r)) for r in re.findall(r"round (\d+) descriptors (\d+) threads (\d+)", task.out)]
    check(len(rounds) == 20, "rounds", task.show())
    check(len({r[1:] for r in rounds}) == 1, "descriptors or threads are left", rounds)


def case_little_shared_memory(t):
    """Containers have 64 MiB of /dev/shm."""
    if subprocess.call(["unshare", "-m", "true"], stderr=subprocess.DEVNULL) != 0:
        raise Skip("no mount namespaces here")
    script = 'mount -t tmpfs -o size=64m none /dev/shm && exec "$@"'
    for transport in TRANSPORTS:
        argv = [SHEAF, "run", "--worker", "2", "--ps", "1", "--", t.helper("steps"), "--elements", "8000000", "--steps", "3"]
        task = t.start("run-" + transport, "unshare", "-m", "sh", "-c", script, "sh", *argv, SHEAF_TRANSPORT=transport)
        check(task.ends(60) == 0 and not task.err, transport, task.show())
        check(task.out.splitlines()[-1] == "total 6", "every step counts", task.show())


def cores_of(t, *prefix, name):
    task = t.start(name, *prefix, t.helper("steps"), "--strategy", "one")
    check(task.ends(20) == 0, "failed", task.show())
    return int(re.search(r"^cores (\d+)$", task.out, re.M).group(1))


def case_cores_by_affinity(t):
    cores = sorted(os.sched_getaffinity(0))
    check(cores_of(t, "taskset", "-c", str(cores[0]), name="one") == 1, "one core")
    if len(cores) > 1:
        check(cores_of(t, "taskset", "-c", f"{cores[0]},{cores[1]}", name="two") <= 2, "two cores at most")


def group_of_one_core():
    """A new control group that may use one core, of either version."""
    for root, limits in (("/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "100000"}),
                         ("/sys/fs/cgroup", {"cpu.max": "100000 100000"})):
        if os.path.exists(f"{root}/cgroup.procs"):
            group = f"{root}/sheaf-test-{os.getpid()}"
            os.mkdir(group)
            for name, value in limits.items():
                with open(f"{group}/{name}", "w", encoding="ascii") as f:
                    f.write(value)
            return group
    raise Skip("no control groups here")


def case_cores_by_container(t):
    """A container may use one core of several."""
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("there is one core")
    try:
        group = group_of_one_core()
    except OSError as fault:
        raise Skip(f"no control group of our own: {fault.strerror}") from None
    try:
        script = f'echo $$ >{group}/cgroup.procs && exec "$@"'
        check(cores_of(t, "sh", "-c", script, "sh", name="limited") == 1, "one core")
    finally:
        os.rmdir(group)


def case_small(t):
    """Each process of the main job stays below 48 MiB."""
    task = t.launch("--worker 2 --ps 2 --evaluator 1", "--epochs", str(int(300 / SLOW)))
    task.says("epoch 2 ")
    sizes = []
    for pid in session_members(task.pid):
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            text = f.read()
        name = re.search(r"Name:\s+(\S+)", text).group(1)
        sizes.append((name, int(re.search(r"VmHWM:\s+(\d+)", text).group(1)) >> 10))
    check(task.ends(60) == 0, "failed", task.show())
    check(len([s for s in sizes if s[0] == "digits"]) == 5, "five tasks", sizes)
    if SLOW == 1:
        check(all(mib < 48 for _, mib in sizes), "MiB of each", sizes)


if __name__ == "__main__":
    run(globals())
