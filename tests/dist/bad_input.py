#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the cluster, the data or the checkpoint is said in one clear line; nothing is lost or left behind."""
import json
import os
import re
import shutil
import socket
import subprocess

import records
from job import check, run, DATA, Skip, SHEAF

SHARD = "digits-train-00001-of-00004.tfrecord"


def refuses(t, config, *parts):
    """The main job with that TF_CONFIG ends before it opens a socket."""
    text = config if isinstance(config, str) else json.dumps(config)
    t.digits(name=f"digits-{len(t.tasks)}", TF_CONFIG=text).fails(*parts, limit=10)
    check(not os.path.exists(t.out), "it made its output folder")


TWO = {"worker": ["127.0.0.1:40001", "127.0.0.1:40002"], "ps": ["127.0.0.1:40003"]}


def case_S6_config_not_json(t):
    refuses(t, "{not json", "TF_CONFIG")
    refuses(t, '{"cluster": {}} tail', "TF_CONFIG")
    refuses(t, "[]", "TF_CONFIG")


def case_S6_config_without_cluster(t):
    refuses(t, {"task": {"type": "worker", "index": 0}}, "TF_CONFIG", "cluster")


def case_T5_other_jobs(t):
    cluster = {"chief": ["127.0.0.1:1"], "ps_hosts": ["127.0.0.1:2"], "worker_hosts": ["127.0.0.1:3"]}
    refuses(t, {"cluster": cluster, "task": {"type": "worker", "index": 0}}, "ps_hosts", "worker", "evaluator")


def case_T6_unknown_task(t):
    refuses(t, {"cluster": TWO, "task": {"type": "wrker", "index": 0}}, "wrker", "worker")
    refuses(t, {"cluster": TWO, "task": {"type": "chief", "index": 0}}, "chief")
    refuses(t, {"cluster": TWO}, "task")
    refuses(t, {"cluster": TWO, "task": {"type": "worker"}}, "index")
    refuses(t, {"cluster": TWO, "task": {"index": 0}}, "type")


def case_T6_index(t):
    for index in (2, -1, 1.5, "x", "", None, 2**40):
        refuses(t, {"cluster": TWO, "task": {"type": "worker", "index": index}}, "index")
    refuses(t, {"cluster": TWO, "task": {"type": "worker", "index": 2}}, "2", "worker")


def case_T6_duplicate_key(t):
    refuses(t, '{"cluster": {"worker": ["127.0.0.1:1"]}, "task": {"type": "worker", "type": "ps", "index": 0}}',
            "TF_CONFIG", "type")


def case_T10_duplicate_address(t):
    cluster = {"worker": ["127.0.0.1:40001", "127.0.0.1:40001"]}
    refuses(t, {"cluster": cluster, "task": {"type": "worker", "index": 0}}, "127.0.0.1:40001", "worker:0", "worker:1")
    cluster = {"worker": ["localhost:40001", "127.0.0.2:40001"], "ps": ["127.0.0.1:40001"]}
    refuses(t, {"cluster": cluster, "task": {"type": "ps", "index": 0}}, "localhost:40001", "worker:0", "ps:0")


def case_address(t):
    for address in ("127.0.0.1", "127.0.0.1:99999", "127.0.0.1:", ":1", "127.0.0.1:0x1", ""):
        cluster = {"worker": [address, "127.0.0.1:40002"]}
        refuses(t, {"cluster": cluster, "task": {"type": "worker", "index": 0}}, "worker", "0")


def case_T10_port_in_use(t):
    """By a foreign process: each kind of task says which address."""
    for jobs in ({"worker": 2}, {"chief": 1, "worker": 1, "ps": 1}):
        cluster = t.cluster(**jobs)
        for job in jobs:
            address = cluster.addresses[job][0]
            host, port = address.split(":")
            with socket.socket() as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # beside the cluster's own hold
                s.bind((host, int(port)))
                s.listen()
                task = cluster.start(job, 0, *t.digits_argv())
                task.fails(address, "in use", f"{job}:0", limit=10)


# ---- data ----

def case_missing_data(t):
    t.digits(data=t.work + "/none").fails(t.work + "/none/digits-train-*.tfrecord", limit=10)
    check(not os.listdir(t.out), "left behind", os.listdir(t.out))


def case_missing_shard_of_data(t):
    data = t.copy_data()
    os.remove(data + "/digits-train-00001-of-00004.tfrecord")
    t.digits(data=data).fails(data + "/digits-train-00001-of-00004.tfrecord is missing, expected all 4", limit=10)
    check(not os.listdir(t.out), "left behind", os.listdir(t.out))


def case_missing_test_file(t):
    """Before the training, by whoever would read it after that."""
    data = t.copy_data()
    os.remove(data + "/digits-test.tfrecord")
    for number, jobs in enumerate((None, "--worker 2 --ps 1", "--worker 1 --evaluator 1")):
        start = t.launch if jobs else t.digits
        start(*filter(None, [jobs]), data=data, name=f"run-{number}").fails(
            data + "/digits-test.tfrecord", limit=15, lines=None)
        check(not t.checkpoints(), "nothing was trained", t.checkpoints())


def damage(path, at, change):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ change]))


def in_every_form(t, *parts, data):
    """Alone, on two workers and on parameter servers: who meets the fault names it, the job ends."""
    t.digits("--replicas", "2", name="alone", data=data).fails(*parts)
    for number, jobs in enumerate(("--worker 2", "--worker 1 --ps 1")):
        t.launch(jobs, data=data, name=f"run-{number}").fails(*parts, limit=15, lines=None)


def case_last_number(t):
    """No number comes after the largest, and none is used twice."""
    os.makedirs(t.out)
    with open(f"{t.out}/ckpt-{2**63 - 1}.index", "wb"):
        pass
    t.digits("--epochs", "1").fails(f"there is a checkpoint {t.out}/ckpt-{2**63 - 1}, no number comes after it")
    found = [n for n in os.listdir(t.out) if "ckpt-" in n]
    check(found == [f"ckpt-{2**63 - 1}.index"], "no checkpoint is written", found)


def case_T29_corrupt_record(t):
    data = t.copy_data()
    path = f"{data}/{SHARD}"
    offsets = records.read(path)[1]
    damage(path, offsets[7] + 12 + 5, 0x10)
    in_every_form(t, path, "record 7", f"offset {offsets[7]}", "data", "CRC", data=data)


def case_T29_corrupt_length(t):
    data = t.copy_data()
    path = f"{data}/{SHARD}"
    offsets = records.read(path)[1]
    damage(path, offsets[9], 0x01)
    lost = os.path.getsize(path) - offsets[9]
    t.digits(data=data).fails(path, "record 9", f"offset {offsets[9]}", "length", "CRC",
                              f"the last {lost} bytes of the file cannot be read")


def case_T30_truncated(t):
    data = t.copy_data()
    path = f"{data}/{SHARD}"
    offsets = records.read(path)[1]
    for cut in (14, 5):
        os.truncate(path, offsets[-1] + cut)
        t.digits(name=f"cut-{cut}", data=data).fails(path, f"record {len(offsets) - 1}", f"offset {offsets[-1]}",
                                                     "truncated")


def replace(path, number, features):
    all_records = records.read(path)[0]
    all_records[number] = records.example(features)
    records.write(path, all_records)


def case_T34_wrong_type(t):
    data = t.copy_data()
    path = f"{data}/{SHARD}"
    replace(path, 3, {"image": records.floats([0.5] * 64), "label": records.ints([1])})
    in_every_form(t, "image", "float", "int64", "record 3", path, data=data)


def case_T34_wrong_shape(t):
    data = t.copy_data()
    path = f"{data}/{SHARD}"
    replace(path, 5, {"image": records.ints([1] * 63), "label": records.ints([1])})
    t.digits(data=data).fails("image", "63", "64", "record 5", path)


def case_T34_missing_key(t):
    data = t.copy_data()
    path = f"{data}/{SHARD}"
    replace(path, 11, {"image": records.ints([1] * 64)})
    t.digits(data=data).fails("label", "record 11", path)


def case_T32_empty_files(t):
    """One empty file is no fault; all empty is said."""
    data = t.copy_data()
    open(f"{data}/{SHARD}", "wb").close()
    task = t.digits("--epochs", "2", data=data)
    check(task.ends(20) == 0, "one empty file", task.show())
    for name in os.listdir(data):
        if "train" in name:
            open(f"{data}/{name}", "wb").close()
    t.out += "-none"
    for name, start in (("digits", t.digits), ("run", lambda *args, **job: t.launch("--worker 2", *args, **job))):
        start("--epochs", "2", name=name, data=data).fails(f"no example to train on in {data}", lines=None)
        check(not t.checkpoints(), "nothing is saved", t.checkpoints())


def case_empty_test_file(t):
    """There is no accuracy of nothing: for who has trained, who follows and who predicts. The training is not lost."""
    data = t.copy_data()
    path = f"{data}/digits-test.tfrecord"
    open(path, "wb").close()
    for name, job in (("digits", {}), ("evaluator", {"TF_CONFIG": t.cluster(worker=1).config("evaluator", 0)})):
        t.digits("--epochs", "2", name=name, data=data, **job).fails(f"no example to evaluate in {path}")
    check(len(t.checkpoints()) == 1, "the model was saved before", t.checkpoints())
    t.digits("--predict", name="predict", data=data).fails(f"no example to evaluate in {path}")


def case_T32_strange_folder(t):
    """No byte of its name means anything."""
    data = f"{t.work}/d[a-c]*?{{x}} \\1"
    shutil.copytree(DATA, data)
    task = t.digits("--epochs", "2", data=data)
    check(task.ends(20) == 0 and " 1438 examples" in task.out, "failed", task.show())
    for name in os.listdir(data):
        if "train" in name:
            os.remove(f"{data}/{name}")
    t.out += "-2"
    t.digits(data=data).fails(f'no files matched pattern "{data}/digits-train-*.tfrecord"')


# ---- output ----

def case_full_output(t):
    """What could not be printed is no success, and is said in one line; what was trained is there."""
    script = 'exec "$@" >/dev/full'
    for args in (("--help",), ("--epochs", "2"), ("--epochs", "2", "--json"), ("--predict",)):
        task = t.start(f"digits{args[0]}", "sh", "-c", script, "sh", *t.digits_argv(*args))
        task.fails("digits: cannot write to standard output")
    check(t.checkpoints(), "no checkpoint")


# ---- checkpoints ----

def trained(t, jobs="--worker 1 --ps 2"):
    task = t.launch(jobs, "--epochs", "4")
    check(task.ends(30) == 0, "failed", task.show())
    return f"{t.out}/ckpt-{t.checkpoints()[-1]}"


def keep_one(t, path):
    """Only that checkpoint is left."""
    for name in os.listdir(t.out):
        if "ckpt-" in name and os.path.basename(path) + "." not in name:
            os.remove(f"{t.out}/{name}")


def files(t):
    found = {}
    for name in sorted(os.listdir(t.out)):
        with open(f"{t.out}/{name}", "rb") as f:
            found[name] = f.read()
    return {k: v for k, v in found.items() if not k.startswith("events")}


def says_once(task, *parts):
    """What is wrong is on one line of each task that has found it; every other one has a line at most, and the command one
    for the first that has failed and one for those that followed it (in a second)."""
    lines = task.err.splitlines()
    marked = [line.split("| ", 1) for line in lines if "| " in line]
    causes = [text for _, text in marked if all(p in text for p in parts)]
    check(causes and len(set(causes)) == len(causes), f"{parts} not once", task.show())
    check(len({name for name, _ in marked}) == len(marked), "two lines of one task", task.show())
    check(len(lines) - len(marked) <= 2, "too many lines of the command", task.show())


def cannot_go_on(t, *parts):
    """Alone and on a cluster; what was there stays as it was."""
    before = files(t)
    t.digits("--epochs", "5", name="alone").fails(*parts)
    for number, jobs in enumerate(("--worker 2 --ps 2", "--worker 2")):
        task = t.launch(jobs, "--epochs", "5", name=f"run-again-{number}")
        task.fails(*parts, lines=None)
        says_once(task, *parts)
    check(files(t) == before, "files were changed", sorted(before), sorted(files(t)))


def case_checkpoint_flipped_byte(t):
    path = trained(t)
    keep_one(t, path)
    shard = path + ".data-00000-of-00003"
    damage(shard, os.path.getsize(shard) // 2, 0x40)
    cannot_go_on(t, shard, "checksum")


def case_checkpoint_missing_shard(t):
    path = trained(t)
    keep_one(t, path)
    os.remove(path + ".data-00001-of-00003")
    cannot_go_on(t, path + ".data-00001-of-00003")


def case_checkpoint_damaged_index(t):
    path = trained(t)
    keep_one(t, path)
    damage(path + ".index", 40, 0x04)
    cannot_go_on(t, path + ".index")


def case_checkpoint_older_one(t):
    """With an older complete one the job goes on from there, and says so."""
    path = trained(t)
    shard = path + ".data-00000-of-00003"
    damage(shard, os.path.getsize(shard) // 2, 0x40)
    task = t.digits("--epochs", "5", name="again")
    check(task.ends(20) == 0, "failed", task.show())
    check(os.path.basename(path) in task.err and len(task.err.splitlines()) == 1, "one warning", task.show())


def case_checkpoint_other_shape(t):
    task = t.start("other", t.helper("other_shape"), t.out)
    check(task.ends(10) == 0, "failed", task.show())
    cannot_go_on(t, "1/.ATTRIBUTES/VARIABLE_VALUE': it is of shape (", "32", "), expected (", "128") # w1 or b1


def case_checkpoint_other_optimizer(t):
    """One that has no slots for what is restored."""
    task = t.digits("--epochs", "4", "--optimizer", "sgd")
    check(task.ends(30) == 0, "failed", task.show())
    cannot_go_on(t, "optimizer/_variables/2")


def case_read_only_directory(t):
    """On a file system that is really read-only, since root may write anywhere else."""
    os.mkdir(t.out)
    if subprocess.call(["unshare", "-m", "true"], stderr=subprocess.DEVNULL) != 0:
        raise Skip("no mount namespaces here")
    script = 'mount -t tmpfs -o ro none "$1" && shift && exec "$@"'
    argv = t.digits_argv()
    t.start("digits", "unshare", "-m", "sh", "-c", script, "sh", t.out, *argv).fails(
        "no checkpoint can be saved", f"(file {t.out})", "read-only", limit=10)


def case_no_directory(t):
    """A path that cannot be made."""
    with open(t.out, "w", encoding="ascii"):
        pass
    t.digits().fails(t.out, limit=10)
    for jobs in ("--worker 2", "--worker 3", "--worker 2 --ps 2", "--chief 1 --worker 2 --ps 1"):
        task = t.launch(jobs, name=f"run {jobs}")
        task.fails(t.out, lines=None)
        said = [line for line in task.err.splitlines() if not line.startswith("sheaf run: ")]
        check(len(said) == 1, "one fault is one line", task.show())


def case_lock_that_is_a_directory(t):
    """The error names what is in the way."""
    os.makedirs(f"{t.out}/.checkpoint.lock")
    t.digits().fails("no checkpoint can be saved in the directory", "is a directory", f"{t.out}/.checkpoint.lock", limit=10)


def case_usage(t):
    t.digits("--seed", "-1").fails('--seed is "-1", expected a whole number from 0 on')


def case_full_disk(t):
    """The complete checkpoints stay; no half of another."""
    os.mkdir(t.out)
    if subprocess.call(["unshare", "-m", "true"], stderr=subprocess.DEVNULL) != 0:
        raise Skip("no mount namespaces here")
    script = """mount -t tmpfs -o size=500k none "$1" && folder=$1 && shift && "$@"; code=$?
        ls -A $folder | sed 's/^/file /'
        for index in $folder/*.index; do $SHEAF ckpt verify ${index%.index} || echo damaged $index; done
        exit $code"""
    task = t.start("digits", "unshare", "-m", "sh", "-c", script, "sh", t.out, *t.digits_argv(), SHEAF=SHEAF)
    task.fails(t.out, "o space", limit=30)
    names = re.findall(r"^file (.*)$", task.out, re.M)
    complete = re.findall(r"^(\S+): \d+ tensors", task.out, re.M)
    check(complete and "damaged" not in task.out, "no whole checkpoint", task.show())
    allowed = [os.path.basename(c) for c in complete]
    check(all(n == "checkpoint" or n.startswith("events") or n.strip(".").split(".")[0] in allowed for n in names),
          "files of no checkpoint", names)


def case_another_optimizer(t):
    """What another optimizer has saved is not left out, or taken, in silence."""
    for jobs in ("", "--worker 2", "--worker 2 --ps 2"):
        t.out = f"{t.work}/out-{len(t.tasks)}"

        def start(*args):
            return t.launch(jobs, "--epochs", "2", *args) if jobs else t.digits("--epochs", "2", *args)
        for first, second in (("adam", "sgd"), ("adagrad", "momentum"), ("sgd", "momentum")):
            check(start("--optimizer", first).ends(60) == 0, first)
            other = start("--optimizer", second)
            if second == "sgd":
                check(other.ends(60) == 0, second, other.show())
                check(re.fullmatch(r"(worker:0\| )?sheaf: warning: checkpoint \S+ was saved with another optimizer: 8 values of "
                                   r"'optimizer/_variables' are left out \('momentum', 'velocity'\)\n", other.err),
                      "one line", other.show())
            else:
                found = "'optimizer/_variables/2' is its 'accumulator'" if first == "adagrad" else "it has no 'optimizer/_variables/2'"
                other.fails(f"saved with another optimizer: {found}, expected 'momentum'", lines=None, limit=60)
                check("sharding" not in other.err, other.show())
            t.out += "-again"


run(globals())
