#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tasks and launchers that are killed: who depends on them says so within a second, the job ends or goes on within five,
nothing is left, and the next start goes on."""
import os
import re
import shutil
import signal
import time

from job import check, read_text, run, session_members, SHEAF, SLOW

FOREVER = ("--epochs", "1000000")
NAMED, ENDED = 1, 5
SAVED = 75  # exit code: it was asked to stop, and has saved


def named_in_time(tasks, victim, since):
    """Each of `tasks` has a line on stderr with the victim within a second of `since`."""
    for task in tasks:
        task.says(re.escape(victim), NAMED, stream=1)
    late = time.monotonic() - since
    check(late <= NAMED * SLOW, f"{victim} was named after {late:.2f} s")


def all_end(tasks, since):
    """They end with an error of one line each within five seconds."""
    for task in tasks:
        task.ends(ENDED)
        check(time.monotonic() - since <= ENDED * SLOW, f"{task.name} ended too late", task.show())


def training(t, cluster, *args, wait="epoch 2 "):
    """Starts the main job without a launcher; it trains when this returns."""
    tasks = cluster.start_all(*t.digits_argv(*args))
    tasks["worker:0"].says(wait)
    return tasks


def case_worker_of_workers(t):
    """S70: in step together, nobody can go on."""
    cluster = t.cluster(worker=3)
    tasks = training(t, cluster, *FOREVER)
    tasks["worker:1"].kill()
    since = time.monotonic()
    others = [tasks["worker:0"], tasks["worker:2"]]
    named_in_time(others, cluster.named("worker:1"), since)
    all_end(others, since)
    for task in others:
        task.fails(cluster.named("worker:1"))


def case_before_they_come(t):
    """Who starts the tasks knows that one is gone: nobody waits for what will never come."""
    wrapper = os.path.join(t.work, "die")
    with open(wrapper, "w", encoding="ascii") as file:
        file.write('#!/bin/sh\ncase $TF_CONFIG in *"$DIE"*) kill -9 $$;; esac\nexec "$@"\n')
    os.chmod(wrapper, 0o755)
    for jobs, job, index, goes_on in (("--worker 2", "worker", 0, False), ("--worker 2", "worker", 1, False),
                                      ("--chief 1 --worker 1", "chief", 0, False),
                                      ("--worker 2 --ps 1", "worker", 0, False),
                                      ("--worker 2 --ps 1", "worker", 1, True),
                                      ("--worker 2 --ps 2", "ps", 1, False)):
        task = t.start(f"run {jobs} without {job}:{index}", SHEAF, "run", *jobs.split(), "--", wrapper,
                       *t.digits_argv("--epochs", "2"), DIE=f'"type":"{job}","index":{index}')
        check(task.ends(ENDED) == 128 + signal.SIGKILL, "wrong exit code", task.show())
        check(f"{job}:{index} was killed by signal 9" in task.err, "it is not named", task.show())
        check(("accuracy" in task.out) == goes_on, "the others", "did not go on" if goes_on else "went on", task.show())
        shutil.rmtree(t.out, ignore_errors=True)


def case_T16_stopped_worker(t):
    """One that does not answer is lost when its signs of life stop."""
    cluster = t.cluster(worker=2)
    tasks = training(t, cluster, *FOREVER)
    tasks["worker:1"].kill(signal.SIGSTOP)
    since = time.monotonic()
    tasks["worker:0"].ends(ENDED)
    check(time.monotonic() - since <= ENDED * SLOW, "too late", tasks["worker:0"].show())
    tasks["worker:0"].fails(cluster.named("worker:1"))
    tasks["worker:1"].kill()
    tasks["worker:1"].ends(1)


def start_unlike(t, cluster, first, other, **env):
    """The main job with other arguments for worker 1, so that it cannot be through before it is killed."""
    tasks = {f"ps:{i}": cluster.start("ps", i, *t.digits_argv(), **env) for i in range(len(cluster.addresses["ps"]))}
    for i, args in enumerate((first, other)):
        tasks[f"worker:{i}"] = cluster.start("worker", i, *t.digits_argv(*args), **env)
    tasks["worker:0"].says("epoch 9 ")
    return tasks


def case_worker_of_ps(t):
    """The others go on; the ps says who is gone."""
    cluster = t.cluster(worker=2, ps=2)
    tasks = start_unlike(t, cluster, ("--epochs", str(int(300 / SLOW))), FOREVER)
    tasks["worker:1"].kill()
    since = time.monotonic()
    named_in_time([tasks["ps:0"], tasks["ps:1"]], cluster.named("worker:1"), since)
    code = tasks["worker:0"].ends(60)
    check(code == 0 and not tasks["worker:0"].err, f"exit code {code}", tasks["worker:0"].show())
    for name in ("ps:0", "ps:1"):
        code = tasks[name].ends(5)
        check(code == 0, f"{name}: exit code {code}", tasks[name].show())


def case_workers_of_ps(t):
    """Without any worker a ps ends, too, and says who was the last one."""
    cluster = t.cluster(worker=2, ps=2)
    tasks = training(t, cluster, *FOREVER)
    tasks["worker:1"].kill()
    servers = [tasks["ps:0"], tasks["ps:1"]]
    named_in_time(servers, cluster.named("worker:1"), time.monotonic())
    tasks["worker:0"].kill()
    t.saver_killed = True
    since = time.monotonic()
    all_end(servers, since)
    for task in servers:
        task.fails(f"no worker is left: 2 ended before their work was done, the last one: {cluster.named('worker:0')}",
                   lines=None)


def case_chief_of_ps(t):
    """Worker 1 saves in its place, and the last checkpoint, too, with which the evaluator ends."""
    cluster = t.cluster(worker=2, ps=2, evaluator=1)
    tasks = {f"{job}:{i}": cluster.start(job, i, *t.digits_argv(*FOREVER), SHEAF_RUN_ID="one")
             for job, i in (("ps", 0), ("ps", 1), ("worker", 0), ("evaluator", 0))}
    tasks["worker:0"].says("epoch 3 ")
    argv = t.digits_argv("--epochs", str(int(200 / SLOW)))
    tasks["worker:1"] = cluster.start("worker", 1, *argv, SHEAF_RUN_ID="one")
    time.sleep(0.3)
    tasks["worker:0"].kill()
    named_in_time([tasks["ps:0"], tasks["ps:1"]], cluster.named("worker:0"), time.monotonic())
    before = t.checkpoints()[-1]
    code = tasks["worker:1"].ends(60)
    check(code == 0 and not tasks["worker:1"].err, f"exit code {code}", tasks["worker:1"].show())
    for name in ("ps:0", "ps:1"):
        code = tasks[name].ends(5)
        check(code == 0, f"exit code {code}", tasks[name].show())
    last = t.checkpoints()[-1]
    check(last > before, f"no checkpoint after {before}")
    check(not half_saved(t), "half a checkpoint", half_saved(t))
    check(not os.path.exists(f"{t.out}/.checkpoint.lock"), "the directory is still taken")
    result = re.search(r"^checkpoint (\S+)\naccuracy (\S+)\n\Z", tasks["worker:1"].out, re.M)
    check(result and result.group(1) == f"{t.out}/ckpt-{last}", "its summary", tasks["worker:1"].show())
    evaluator = tasks["evaluator:0"]
    code = evaluator.ends(10)
    check(code == 0 and not evaluator.err, f"exit code {code}", evaluator.show())
    check(evaluator.out.splitlines()[-1] == "{} accuracy {}".format(*result.groups()), "its last line", evaluator.show())
    verify_all(t)


def case_chief_of_ps_at_last(t):
    """The other worker has done its part, and stands by: it saves, and reports."""
    cluster = t.cluster(worker=2, ps=1)
    tasks = start_unlike(t, cluster, FOREVER, ("--epochs", "1"))
    tasks["worker:0"].kill()
    for name in ("worker:1", "ps:0"):
        code = tasks[name].ends(10)
        check(code == 0, f"exit code {code}", tasks[name].show())
    result = re.search(r"^checkpoint (\S+)\naccuracy \S+\n\Z", tasks["worker:1"].out, re.M)
    check(result and result.group(1) == f"{t.out}/ckpt-{t.checkpoints()[-1]}", "its summary", tasks["worker:1"].show())
    check(not half_saved(t), "half a checkpoint", half_saved(t))
    verify_all(t)


def verify_all(t):
    for number in t.checkpoints():
        task = t.start("verify", SHEAF, "ckpt", "verify", f"{t.out}/ckpt-{number}")
        check(task.ends(20) == 0, f"checkpoint {number} is damaged", task.show())


def named_newest(t):
    """Number of the checkpoint that the state file names."""
    with open(f"{t.out}/checkpoint", encoding="utf-8") as f:
        return int(re.match(r'model_checkpoint_path: "ckpt-(\d+)"', f.read()).group(1))


def wait_for_newer(t, task, number):
    end = time.monotonic() + 20 * SLOW
    while named_newest(t) <= number:
        check(time.monotonic() < end and task.running(), f"no checkpoint after {number}", task.show())
        time.sleep(0.01)


def case_slow_chief_of_ps(t):
    """A chief that was stopped, most often in a save, and goes on has lost its turn, says why, and adds nothing. The signs of
    life are many, so that it is missed soon."""
    for moment in range(4):
        t.out = f"{t.work}/out-{moment}"
        cluster = t.cluster(worker=2, ps=1)
        tasks = start_unlike(t, cluster, FOREVER, FOREVER, SHEAF_HEARTBEAT_MS=str(int(100 * SLOW)))
        time.sleep(0.003 * moment)
        tasks["worker:0"].kill(signal.SIGSTOP)
        tasks["worker:1"].says(r"^epoch \d+ step")
        newest = named_newest(t)
        wait_for_newer(t, tasks["worker:1"], newest)
        tasks["worker:0"].kill(signal.SIGCONT)
        tasks["worker:0"].fails(cluster.named("ps:0"), "it heard nothing from this task for ", limit=ENDED)
        check(named_newest(t) > newest, f"checkpoint {named_newest(t)} after {newest}")
        wait_for_newer(t, tasks["worker:1"], named_newest(t))
        tasks["worker:1"].kill(signal.SIGTERM)
        tasks["worker:1"].ends(ENDED)
        tasks["ps:0"].ends(ENDED)
        check(not half_saved(t), "half a checkpoint", half_saved(t))
        check(named_newest(t) == t.checkpoints()[-1], "the state file", named_newest(t), t.checkpoints())
        verify_all(t)


def value_of(t, number, key):
    show = t.start(f"show-{len(t.tasks)}", SHEAF, "ckpt", "show", f"{t.out}/ckpt-{number}",
                   key + "/.ATTRIBUTES/VARIABLE_VALUE")
    check(show.ends(10) == 0, "failed", show.show())
    return int(re.findall(r"\d+", show.out)[-1])


def goes_on(t):
    """Started again, the job goes on after the newest checkpoint."""
    newest = t.checkpoints()[-1]
    step = value_of(t, newest, "step")
    seen = max(int(e) for task in t.tasks for e in re.findall(r"epoch (\d+) ", task.out))
    last = seen + 10  # it may have come further than it could tell
    task = t.launch("--worker 2 --ps 2", "--epochs", str(last), name="again")
    code = task.ends(60)
    check(code == 0 and not task.err, f"exit code {code}", task.show())
    lines = [(int(e), int(n)) for e, n in re.findall(r"epoch (\d+) step (\d+)", task.out)]
    epochs = [e for e, _ in lines]
    check(epochs == list(range(epochs[0], last + 1)) and epochs[0] > 1, f"epochs after {seen}", task.show())
    check(lines[0][1] > step, f"steps after {step}", task.show())
    check(t.checkpoints()[-1] > newest, "no newer checkpoint")


def case_ps(t):
    """All tasks end, naming it; the next start resumes."""
    cluster = t.cluster(worker=2, ps=2)
    tasks = training(t, cluster, *FOREVER, wait="epoch 9 ")
    victim = tasks.pop("ps:1")
    victim.kill()
    since = time.monotonic()
    workers = [tasks["worker:0"], tasks["worker:1"]]
    named_in_time(workers, cluster.named("ps:1"), since)
    all_end(tasks.values(), since)
    for task in tasks.values():
        task.fails(cluster.named("ps:1"))
    goes_on(t)


def case_ps_while_saving(t):
    """At any moment: what is committed stays whole."""
    for moment in range(4):
        t.out = f"{t.work}/out-{moment}"
        cluster = t.cluster(worker=1, ps=1)
        tasks = {n: cluster.start(n[:-2], 0, *t.digits_argv(*FOREVER)) for n in ("worker:0", "ps:0")}
        tasks["worker:0"].says("epoch 3 ")
        time.sleep(0.013 * moment)
        tasks["ps:0"].kill()
        tasks["worker:0"].fails(cluster.named("ps:0"), limit=ENDED)
        tasks["ps:0"].ends(1)
        check(t.checkpoints(), "no checkpoint")
        goes_on(t)


def being_written(t, least):
    """Number of a save, `least` or later, of which a server has written a part of a large shard; None if there is none now."""
    for name in os.listdir(t.out) if os.path.isdir(t.out) else []:
        found = re.fullmatch(r"ckpt-(\d+)_temp", name)
        if not found or int(found.group(1)) < least:
            continue
        try:
            sizes = [e.stat().st_size for e in os.scandir(f"{t.out}/{name}")]
        except FileNotFoundError:
            continue  # it has just been completed
        if any(0 < size < 4 * WEIGHTS for size in sizes):
            return int(found.group(1))
    return None


WEIGHTS = 1 << 24  # floats, on the second server


def case_ps_while_saving_in_the_background(t):
    """T59: the workers go on with their steps meanwhile. What is committed stays whole, and the server is named."""
    argv = (t.helper("steps"), "--elements", str(WEIGHTS), "--save", t.out)
    cluster = t.cluster(worker=2, ps=2)
    tasks = cluster.start_all(*argv, "--steps", "1000000")
    number, end = None, time.monotonic() + 60 * SLOW
    while number is None:
        check(time.monotonic() < end, "no save", tasks["worker:0"].show())
        time.sleep(0.001)
        number = being_written(t, least=2)
    tasks["ps:1"].kill()
    since = time.monotonic()
    workers = [tasks["worker:0"], tasks["worker:1"]]
    named_in_time(workers, cluster.named("ps:1"), since)
    all_end(workers, since)
    for task in workers:
        task.fails(cluster.named("ps:1"), lines=None)
    tasks["ps:0"].ends(ENDED)
    check(t.checkpoints()[-1] == number - 1 == named_newest(t), f"save {number} was under way", t.checkpoints())
    verify_all(t)
    steps = value_of(t, number - 1, "steps")
    again = t.cluster(worker=2, ps=2).start_all(*argv, "--steps", "3", SHEAF_FSYNC="0")
    for task in again.values():
        check(task.ends(60) == 0 and not task.err, "the next start", task.show())
    check(f"total {steps + 6}\n" in again["worker:0"].out, f"{steps} and 6 steps", again["worker:0"].show())
    check(not half_saved(t), "half a checkpoint", half_saved(t))


def case_evaluator(t):
    """Nobody depends on it."""
    task = t.launch("--worker 1 --ps 1 --evaluator 1", "--epochs", "60")
    task.says("epoch 2 ")
    evaluator = [p for p in session_members(task.pid) if is_task(p, "evaluator")]
    check(len(evaluator) == 1, "one evaluator", evaluator)
    os.kill(evaluator[0], signal.SIGKILL)
    code = task.ends(60)
    check(code == 128 + 9 and "accuracy" in task.out.splitlines()[-1], f"exit code {code}", task.show())
    check("evaluator:0 was killed by signal 9" in task.err, "its name", task.show())


def is_task(pid, job):
    try:
        with open(f"/proc/{pid}/environ", encoding="utf-8") as f:
            return f'"type":"{job}"' in f.read().replace(" ", "")
    except OSError:
        return False


def half_saved(t):
    """Files of saves that were not completed. Almost all of the job's time goes into saves."""
    names = os.listdir(t.out)
    whole = [n[:-len(".index")] for n in names if n.endswith(".index")]
    return [n for n in names if n.endswith("_temp") or ".tmp-" in n or
            re.match(r"\.?ckpt-\d", n) and n.strip(".").split(".")[0] not in whole]


def stopped(t, task, number, code):
    """A signal ends the job in order: nothing of it stays but what was complete."""
    task.says("epoch 3 ")
    time.sleep(0.05)
    task.kill(number)
    found = task.ends(ENDED)
    check(found == code, f"exit code {found}", task.show())
    nobody_left(task)
    check(not half_saved(t), "half a checkpoint", half_saved(t), task.show())
    shutil.rmtree(t.out)


def case_interrupt(t):
    """Ctrl-C: the launcher ends its tasks, says so, and the job can go on later."""
    for jobs in ("--worker 2 --ps 2 --evaluator 1", "--worker 2"):
        stopped(t, t.launch(jobs, *FOREVER), signal.SIGINT, SAVED)
    task = t.launch("--worker 2 --ps 2", *FOREVER)
    task.says("epoch 9 ")
    task.kill(signal.SIGINT)
    task.ends(ENDED)
    goes_on(t)


def nobody_left(task):
    end = time.monotonic() + 2 * SLOW
    while session_members(task.pid) and time.monotonic() < end:
        time.sleep(0.01)
    check(not session_members(task.pid), "processes are left", session_members(task.pid))


def case_launcher(t):
    task = t.launch("--worker 2 --ps 2 --evaluator 1", *FOREVER)
    task.says("epoch 9 ")
    check(len(session_members(task.pid)) >= 6, "the tasks are in its session")
    task.kill()
    task.process.wait()
    nobody_left(task)
    goes_on(t)


def case_launcher_names_the_ps(t):
    task = t.launch("--worker 2 --ps 2", *FOREVER)
    task.says("epoch 9 ")
    ps = [p for p in session_members(task.pid) if is_task(p, "ps")]
    os.kill(ps[0], signal.SIGKILL)
    since = time.monotonic()
    task.says(r"^sheaf run: ps:\d was killed by signal 9", NAMED, stream=1)
    code = task.ends(ENDED)
    check(code > 0 and time.monotonic() - since <= ENDED * SLOW, f"exit code {code}", task.show())
    nobody_left(task)
    goes_on(t)


def launched(task, job, index=0):
    """The process of a task of a launched job."""
    found = [p for p in session_members(task.pid)
             if is_task(p, job) and f'"index":{index}' in read_text(f"/proc/{p}/environ").replace(" ", "")]
    check(len(found) == 1, f"one {job}:{index}", found)
    return found[0]


def case_launcher_of_the_stopped(t):
    """What stands still is given up by its peers and killed by the launcher after the grace."""
    for jobs, job, index in (("--worker 2", "worker", 1), ("--worker 2 --ps 1", "ps", 0), ("--worker 1 --ps 1", "worker", 0)):
        t.out = f"{t.work}/out-{len(t.tasks)}"
        task = t.start("run", SHEAF, "run", "--grace", "1", *jobs.split(), "--", *t.digits_argv(*FOREVER))
        task.says("epoch 9 ")
        os.kill(launched(task, job, index), signal.SIGSTOP)
        code = task.ends(ENDED + 3)
        check(code > 0, f"{jobs}: exit code {code}", task.show())
        check(f"sheaf run: {job}:{index} did not end within 1 s: killed; it had been stopped by signal 19" in task.err,
              "its name", task.show())
        nobody_left(task)
    t.saver_killed = True


def case_asked_once_by_two_signals(t):
    """A signal to the launcher and to its group, as timeout(1) sends it, leaves the tasks their grace."""
    loop = "trap 'sleep 0.5; echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    task = t.start("run", SHEAF, "run", "--worker", "2", "--", "sh", "-c", loop)
    task.says(r"(?s)ready.*ready")
    task.kill(signal.SIGTERM)
    task.kill(signal.SIGTERM)
    task.ends(ENDED)
    check(task.out.count("bye") == 2 and "a second time" not in task.err, "the grace", task.show())


def case_ps_before_anybody_met_it(t):
    """The workers cannot know, but the launcher does."""
    task = t.launch("--worker 2 --ps 2", *FOREVER)
    ps, end = [], time.monotonic() + 10 * SLOW
    while not ps and time.monotonic() < end:
        ps = [p for p in session_members(task.pid) if is_task(p, "ps")]
    os.kill(ps[0], signal.SIGKILL)
    since = time.monotonic()
    code = task.ends(ENDED)
    check(code > 0 and time.monotonic() - since <= ENDED * SLOW, f"exit code {code}", task.show())
    check(re.search(r"^sheaf run: ps:\d was killed by signal 9", task.err, re.M), "its name", task.show())
    nobody_left(task)


run(globals())
