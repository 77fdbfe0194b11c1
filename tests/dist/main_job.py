#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The main job in all its forms: alone, mirrored, on several workers, on parameter servers, again, and predicting."""
import glob
import json
import os
import re

from job import check, run, SHEAF

ACCURACY = 0.95


def summary(task, limit=60, good=ACCURACY):
    """It ended well with a summary; the numbers in it."""
    code = task.ends(limit)
    check(code == 0 and task.err == "", f"exit code {code}", task.show())
    last = task.out.rstrip("\n").splitlines()[-1]
    found = re.fullmatch(r"accuracy (\d\.\d{4})", last)
    check(found, f"the last line is {last!r}", task.show())
    check(float(found.group(1)) >= good, f"accuracy {found.group(1)}, expected {good}")
    values = {}
    for key in ("steps", "examples/s", "loss", "checkpoint"):
        value = re.search(rf"^(?:\S+\| )?{key} (\S+)$", task.out, re.M)
        check(value, f"no line with {key}", task.show())
        values[key] = value.group(1)
    epochs = re.findall(r"epoch (\d+) step \d+ loss \d+\.\d{4}, 1438 examples$", task.out, re.M)
    check(epochs, "no loss and no account were shown while training", task.show())
    values.update(epochs=[int(e) for e in epochs], accuracy=found.group(1))
    return values


def case_alone(t):
    one = summary(t.digits())
    check(one["steps"] == "690", "1,438 examples in batches of 64, 30 times", one)
    check(len(t.checkpoints()) == 3, "the newest three checkpoints are kept", t.checkpoints())
    check(len(glob.glob(t.out + "/events.out.tfevents.*")) == 1, "one file of events")


def case_any_number_of_cores(t):
    """The same seed gives the same numbers on every machine."""
    for jobs in ("", "--worker 2"):
        seen = set()
        for threads in ("1", "2", "5"):
            t.out = f"{t.work}/out-{len(t.tasks)}"
            args = ("--epochs", "2", "--seed", "3")
            task = t.launch(jobs, *args, SHEAF_THREADS=threads) if jobs else t.digits(*args, SHEAF_THREADS=threads)
            check(task.ends(60) == 0, "failed", task.show())
            lines = [line for line in task.out.splitlines() if not re.search("examples/s|checkpoint", line)]
            check(len(lines) >= 4, "lines", task.show())
            seen.add("\n".join(lines))
        check(len(seen) == 1, f"{jobs}: other numbers", *seen)


def case_mirrored(t):
    """Every number of replicas trains the same model."""
    seen = []
    for replicas in (1, 2, 4):
        t.out = f"{t.work}/out-{replicas}"
        one = summary(t.digits("--replicas", str(replicas), name=f"digits-{replicas}"))
        seen.append((one["steps"], one["loss"]))
    check(seen[0] == seen[1] == seen[2], "other losses", seen)


def case_mirrored_in_a_cluster(t):
    """A cluster of one worker with several devices is mirrored."""
    one = summary(t.launch("--worker 1", "--replicas", "2"))
    check(one["steps"] == "690", "one worker", one)


def case_trace(t):
    """SHEAF_TRACE: every task writes its spans to a file of its own; what cannot be written is said."""
    trace = f"{t.work}/trace"
    summary(t.launch("--worker 2 --ps 1", SHEAF_TRACE=trace))
    for task, spans in (("worker-0", {"step", "minimize", "ps.pull", "ps.push", "input.next", "checkpoint.save"}),
                        ("worker-1", {"step"}), ("ps-0", set())):
        with open(f"{trace}.{task}", encoding="ascii") as file:
            found = {event["name"] for event in json.load(file)["traceEvents"]}
        check(spans <= found, f"spans of {task}", found)
    t.out = f"{t.work}/other"
    task = t.digits("--epochs", "1", name="unwritable", SHEAF_TRACE=f"{trace}.ps-0/no-directory")
    check(task.ends(60) == 0 and re.search(r"SHEAF_TRACE: \S+: the trace is not written: ", task.err), "nothing is said", task.show())


def case_workers(t):
    one = summary(t.launch("--worker 2"))
    check(one["steps"] == "690", "two workers share the batches", one)


def case_ps(t):
    task = t.launch("--worker 2 --ps 2 --evaluator 1")
    one = summary(task)
    check(one["steps"] == "1380", "each worker makes its own steps", one)
    seen = re.findall(r"^evaluator:0\| (\S+) accuracy (\d\.\d{4})$", task.out, re.M)
    check(seen and seen[-1] == (one["checkpoint"], one["accuracy"]), "the evaluator ends after the last one", seen)
    shards = glob.glob(one["checkpoint"] + ".data-*-of-00003")
    check(len(shards) == 3, "each ps wrote a shard, the chief the rest", sorted(os.listdir(t.out)))


def has_kernels(task):
    with open(f"/proc/{task.pid}/maps", encoding="utf-8") as f:
        return "libdnnl" in f.read()


def case_ps_that_nobody_uses(t):
    """It is said at the start, and the job ends well."""
    task = t.launch("--worker 2 --ps 1", "--strategy", "multiworker")
    code = task.ends(60)
    check(code == 0 and re.fullmatch(r"accuracy 0\.9\d+", task.out.splitlines()[-1]), f"exit code {code}", task.show())
    check(task.err.splitlines() == [
        "worker:0| sheaf: warning: MultiWorkerMirroredStrategy uses no parameter servers: 1 ps of the cluster will have no "
        "worker to serve"], "one line", task.show())


def case_S3_no_kernels_in_a_ps(t):
    """A parameter server trains without the library of kernels, which a worker loads."""
    cluster = t.cluster(worker=1, ps=1)
    tasks = cluster.start_all(*t.digits_argv("--epochs", "20"))
    tasks["worker:0"].says("epoch 2 ")
    check(has_kernels(tasks["worker:0"]), "the worker has no kernels", tasks["worker:0"].show())
    check(not has_kernels(tasks["ps:0"]), "the ps has loaded kernels")
    summary(tasks["worker:0"])
    check(tasks["ps:0"].ends(10) == 0, "failed", tasks["ps:0"].show())


def case_chief(t):
    summary(t.launch("--chief 1 --worker 1 --ps 1"))


def case_optimizers(t):
    for optimizer in "sgd momentum adam adagrad rmsprop ftrl adadelta adamax nadam lion".split():
        t.out = f"{t.work}/out-{optimizer}"
        summary(t.digits("--optimizer", optimizer, name=optimizer))


def goes_on(t, start):
    """What is started again in its folder goes on after the newest checkpoint."""
    first = summary(start("--epochs", "16"))
    second = summary(start("--epochs", "20"))
    check(second["epochs"][0] == 17 and second["epochs"][-1] == 20, "epochs", second)
    check(int(second["steps"]) * 16 == int(first["steps"]) * 20, "steps", first, second)
    third = summary(start("--epochs", "21"))
    check(third["epochs"] == [21], "epochs", third)


def case_again(t):
    goes_on(t, t.digits)


def case_again_workers(t):
    goes_on(t, lambda *args: t.launch("--worker 2", *args))


def case_again_ps(t):
    goes_on(t, lambda *args: t.launch("--worker 2 --ps 2", *args))


def case_again_ps_with_more_workers(t):
    """Every worker makes its own passes; one that is new makes all of them, and so does one that was away."""
    steps = []
    for workers, epochs in ((1, 2), (2, 3), (1, 4), (2, 5)):
        steps.append(int(summary(t.launch(f"--worker {workers} --ps 1", "--epochs", str(epochs)), good=0)["steps"]))
    passes = [2, 2 + (1 + 3), 6 + 1, 7 + (1 + 5)]
    check(steps == [23 * p for p in passes], "23 steps a pass", steps)


def finished(t, start):
    """What is through says so when it is started again, and saves nothing; its evaluator ends, too."""
    first = summary(start("--epochs", "9"))
    files = sorted(os.listdir(t.out))
    task = start("--epochs", "9")
    code = task.ends(20)
    check(code == 0 and not task.err, f"exit code {code}", task.show())
    lines = [line.split("| ")[-1] for line in task.out.splitlines() if not line.startswith("evaluator")]
    if lines[-2:-1] == lines[-1:]:
        lines.pop()  # a task that takes its time to end has its last line shown before it is known to be the last
    check(lines == [f"nothing to do: {t.out} has reached step {first['steps']}", f"steps {first['steps']}",
                    f"checkpoint {first['checkpoint']}", f"accuracy {first['accuracy']}"], "lines", task.show())
    seen = re.findall(r"^evaluator:0\| (.*)$", task.out, re.M)
    check(all(line == f"{first['checkpoint']} accuracy {first['accuracy']}" for line in seen), "the evaluator", seen)
    check(sorted(os.listdir(t.out)) == files, "other files", files, sorted(os.listdir(t.out)))
    again = summary(start("--epochs", "10"))
    check(again["epochs"] == [10] and again["checkpoint"] != first["checkpoint"], "it goes on", again)


def case_finished(t):
    finished(t, t.digits)


def case_finished_workers(t):
    finished(t, lambda *args: t.launch("--worker 2 --evaluator 1", *args))


def case_finished_ps(t):
    finished(t, lambda *args: t.launch("--worker 2 --ps 2 --evaluator 1", *args))


def case_finished_json(t):
    check(t.digits("--epochs", "2").ends(60) == 0, "failed")
    task = t.digits("--epochs", "2", "--json")
    check(task.ends(20) == 0, "failed", task.show())
    last = json.loads(task.out.splitlines()[-1])
    check(last["steps"] == 46 and last["loss"] is None and last["examples_per_second"] is None, "values", last)


def case_json(t):
    task = t.launch("--worker 2 --ps 1", "--json")
    check(task.ends(60) == 0, "failed", task.show())
    last = json.loads(task.out.splitlines()[-1])
    check(sorted(last) == ["accuracy", "checkpoint", "examples_per_second", "loss", "steps"], "keys", last)
    check(last["accuracy"] >= ACCURACY and last["steps"] == 1380, "values", last)


def case_predict(t):
    """The checkpoint of any strategy, without a cluster."""
    one = summary(t.launch("--worker 1 --ps 2"))
    task = t.digits("--predict")
    check(task.ends(20) == 0 and not task.err, "failed", task.show())
    *rows, last = task.out.splitlines()
    check(last == f"{one['checkpoint']} accuracy {one['accuracy']}", "the same accuracy as after training", last, one)
    answers = [n for row in rows for n in json.loads(row)]
    check(len(answers) == 359 and set(answers) == set(range(10)), "a digit for each image", len(answers))


def case_predict_json(t):
    """The last line is an object, also with a name that JSON must escape; each evaluator's line is one."""
    t.out = f'{t.work}/a "b" \\c'
    evaluator = t.launch("--worker 1 --evaluator 1", "--epochs", "2", "--json")
    check(evaluator.ends(60) == 0, "failed", evaluator.show())
    task = t.digits("--predict", "--json")
    check(task.ends(20) == 0 and not task.err, "failed", task.show())
    *rows, last = map(json.loads, task.out.splitlines())
    seen = re.findall(r"^evaluator:0\| (.*)$", evaluator.out, re.M)
    trained = [line.split("| ")[-1] for line in evaluator.out.splitlines() if '"steps"' in line]
    check(sum(map(len, rows)) == 359, "a digit for each image", rows)
    check(last == {"checkpoint": f"{t.out}/ckpt-{t.checkpoints()[-1]}", "accuracy": last["accuracy"]}, "keys", last)
    check(json.loads(seen[-1]) == last, "the evaluator's last line", seen)
    check({k: json.loads(trained[0])[k] for k in last} == last, "the trainer's summary", trained)


def case_predict_nothing(t):
    t.digits("--predict").fails("no checkpoint in", t.out, "no such directory")


def case_tools(t):
    """`sheaf ckpt` reads what the job wrote."""
    one = summary(t.launch("--worker 1 --ps 2"))
    for command in ("list", "verify"):
        task = t.start(command, SHEAF, "ckpt", command, one["checkpoint"])
        check(task.ends(20) == 0 and not task.err, "failed", task.show())
    check("w1/.ATTRIBUTES/VARIABLE_VALUE" in t.tasks[1].out, "w1", t.tasks[1].show())
    check("saved by: Split tensors into shards based on their device spec task." in t.tasks[1].out,
          "S211: what the policy says of itself", t.tasks[1].show())


run(globals())
