#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may speak to a job, and where it listens."""
import os
import re
import socket
import stat
import subprocess

from job import check, Cluster, run, Skip, SLOW

TRANSPORTS = ("auto", "shm", "tcp", "ucx")


def secret(t, name, text):
    path = f"{t.work}/{name}"
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    os.chmod(path, 0o600)
    return path


def case_no_secret_off_loopback(t):
    """No start at all: neither a worker nor a ps."""
    cluster = Cluster(t, worker=2, ps=1)
    for addresses in cluster.addresses.values():
        addresses[:] = [a.replace("127.0.0.1", "192.0.2.1") for a in addresses]
    for job in ("worker", "ps"):
        cluster.start(job, 0, t.helper("steps")).fails("SHEAF_SECRET_FILE", "secret", limit=5)


def case_secret_file(t):
    """A file that is not there, or has nothing in it, is named."""
    cluster = t.cluster(worker=1, ps=1)
    empty = secret(t, "empty", "")
    for path in (t.work + "/none", empty):
        cluster.start("ps", 0, t.helper("steps"), SHEAF_SECRET_FILE=path).fails(path, limit=5)


def case_own_key(t):
    """On loopback, without any: a key of the user's, made at first use, that nobody else can read."""
    cluster = t.cluster(worker=1, ps=1)
    for task in cluster.start_all(t.helper("steps")).values():
        check(task.ends(20) == 0, "failed", task.show())
    key = t.home + "/.local/state/sheaf/key"
    mode = stat.S_IMODE(os.stat(key).st_mode)
    check(mode == 0o600, f"mode {mode:o}")
    check(stat.S_IMODE(os.stat(os.path.dirname(key)).st_mode) == 0o700, "mode of its folder")


def intruder(t, cluster, number, **env):
    """A task that says it is worker 1 of the cluster, at an address of its own."""
    other = Cluster(t, worker=1)
    own = dict(cluster.addresses, worker=[cluster.addresses["worker"][0], other.addresses["worker"][0]])
    other.addresses = own
    return t.start(f"intruder-{number}", t.helper("steps"), TF_CONFIG=other.config("worker", 1), **env)


def case_T65_strangers(t):
    """Their connections end without effect, and the job is not disturbed."""
    right, wrong = secret(t, "right", "a long and good secret"), secret(t, "wrong", "another long secret")
    cluster = t.cluster(worker=2, ps=1)
    known = {"SHEAF_SECRET_FILE": right, "SHEAF_RUN_ID": "one"}
    steps = t.helper("steps")
    job = [cluster.start("ps", 0, steps, **known),
           cluster.start("worker", 0, steps, "--pause", "4", "--steps", "200", **known)]
    job[1].says("^paused$")
    for number, env in enumerate(({"SHEAF_INSECURE": "1", "SHEAF_RUN_ID": "one"}, dict(known, SHEAF_SECRET_FILE=wrong),
                                  dict(known, SHEAF_RUN_ID="two", SHEAF_DEADLINE_S="2"))):
        intruder(t, cluster, number, **env).fails("/job:ps/task:0", ("secret", "secret", 'run "two"')[number], limit=10)
    for address in (cluster.addresses["ps"][0], cluster.addresses["worker"][0]):
        shout(address, os.urandom(1 << 20))
        shout(address, b"GET / HTTP/1.0\r\n\r\n")
        shout(address, b"")
    half = half_open(cluster.addresses["ps"][0])
    job.append(cluster.start("worker", 1, steps, "--steps", "200", **known))
    for task in job:
        check(task.ends(20) == 0, "disturbed", task.show())
    half.close()
    check(job[1].out.splitlines()[-1] == "total 400", "every step counts", job[1].show())


def case_wrong_secret(t):
    """Both sides say so; the ps does not wait for ever, and says for whom it did."""
    right, wrong = secret(t, "right", "a long and good secret"), secret(t, "wrong", "another long secret")
    cluster = t.cluster(worker=1, ps=1)
    ps = cluster.start("ps", 0, t.helper("steps"), SHEAF_SECRET_FILE=right, SHEAF_DEADLINE_S=str(0.5 * SLOW))
    worker = cluster.start("worker", 0, t.helper("steps"), SHEAF_SECRET_FILE=wrong)
    worker.fails(cluster.named("ps:0"), "the secrets differ", limit=5)
    ps.says(r"^sheaf: warning: refused a connection from 127\.0\.0\.1:\d+, which says that it is /job:worker/task:0: "
            "it could not prove that it knows this cluster's secret$", stream=1)
    ps.fails(f"no worker was there for {2.5 * SLOW:g} s: waited for {cluster.named('worker:0')}; refused 127.0.0.1:",
             limit=5, lines=2)


def case_scanner(t):
    """Many that speak otherwise do not fill the log."""
    cluster = t.cluster(worker=1, ps=1)
    ps = cluster.start("ps", 0, t.helper("steps"))
    worker = cluster.start("worker", 0, t.helper("steps"), "--pause", "4", "--steps", "20")
    worker.says("^paused$")
    for i in range(200):
        shout(cluster.addresses["ps"][0], b"GET /%d HTTP/1.0\r\n\r\n" % i)
    for task in (worker, ps):
        check(task.ends(20) == 0, "disturbed", task.show())
    lines = ps.err.splitlines()
    check(1 <= len(lines) <= 5, f"{len(lines)} lines", ps.show())
    check("refused a connection from 127.0.0.1:" in lines[0], "the address", ps.show())


def address_of(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def shout(address, data):
    """What is sent is not answered with more than the greeting, and the connection is closed."""
    with socket.create_connection(address_of(address), timeout=5) as s:
        heard = 0
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            while part := s.recv(4096):
                heard += len(part)
        except OSError:
            pass  # it was closed before we were through
        check(heard < 1024, f"{heard} bytes of answer")


def half_open(address):
    s = socket.create_connection(address_of(address), timeout=5)
    s.sendall(b"s")
    return s


def case_silent_strangers(t):
    """Many that connect and say nothing do not keep a worker out."""
    cluster = t.cluster(worker=1, ps=1)
    steps = t.helper("steps")
    ps = cluster.start("ps", 0, steps)
    address, held = address_of(cluster.addresses["ps"][0]), []
    for _ in range(200):
        while True:
            try:
                held.append(socket.create_connection(address, timeout=5))
                break
            except ConnectionRefusedError:
                check(ps.running(), "the ps ended", ps.show())
    worker = cluster.start("worker", 0, steps)
    check(worker.ends(20) == 0, "kept out", worker.show())
    for s in held:
        s.close()
    check(ps.ends(20) == 0, "failed", ps.show())


def listening(tasks):
    """{pid: addresses that it listens at} of TCP and UDP sockets, by `ss`."""
    found = {t.pid: [] for t in tasks}
    for kind in ("-ltnpH", "-lunpH"):
        text = subprocess.run(["ss", kind], stdout=subprocess.PIPE, check=True, text=True).stdout
        for line in text.splitlines():
            for pid in re.findall(r"pid=(\d+)", line):
                if int(pid) in found:
                    found[int(pid)].append(line.split()[3])
    return found


def case_listens_nowhere_else(t):
    """Each task at the address that the cluster names, with every transport; an evaluator nowhere."""
    for transport in TRANSPORTS:
        for jobs in ({"worker": 2, "ps": 1}, {"worker": 2}):
            cluster = Cluster(t, host="127.0.0.2", **jobs)
            tasks = cluster.start_all(t.helper("steps"), "--steps", "1000000", SHEAF_TRANSPORT=transport)
            for name, task in tasks.items():
                if name.startswith("worker"):
                    task.says("^step 10$")
            found = listening(tasks.values())
            for name, task in tasks.items():
                job, index = name.split(":")
                check(found[task.pid] == [cluster.addresses[job][int(index)]], f"{name}, {transport}", found[task.pid])
                task.kill()
            for task in tasks.values():
                task.ends(1)


def case_two_hosts(t):
    """Network namespaces as hosts: a secret file, and nothing but the named addresses."""
    if os.geteuid() != 0 or subprocess.call(["unshare", "-n", "true"], stderr=subprocess.DEVNULL) != 0:
        raise Skip("no network namespaces here")
    names = [f"sheaf-{os.getpid()}-{i}" for i in range(2)]
    shared = secret(t, "secret", "what both hosts have")
    try:
        connect_hosts(names)
        cluster = t.cluster(worker=2, ps=1)
        cluster.addresses = {"worker": ["10.77.0.1:5001", "10.77.0.2:5001"], "ps": ["10.77.0.2:5002"]}
        hosts = {"worker:0": names[0], "worker:1": names[1], "ps:0": names[1]}
        for jobs in (("worker:0", "worker:1", "ps:0"), ("worker:0", "worker:1")):
            if len(jobs) == 2:
                del cluster.addresses["ps"]
            tasks = [cluster.start(n.split(":")[0], int(n[-1]), "ip", "netns", "exec", hosts[n], t.helper("steps"),
                                   "--elements", "300000", SHEAF_SECRET_FILE=shared) for n in jobs]
            for task in tasks:
                check(task.ends(30) == 0, "failed", task.show())
            check(tasks[0].out.splitlines()[-1] == "total 20", "every step counts", tasks[0].show())
    finally:
        for name in names:
            subprocess.call(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def connect_hosts(names):
    def ip(*args):
        subprocess.run(["ip", *args], check=True)
    for name in names:
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
    ip("-n", names[0], "link", "add", "sheaf0", "type", "veth", "peer", "name", "sheaf1", "netns", names[1])
    for i, name in enumerate(names):
        ip("-n", name, "addr", "add", f"10.77.0.{i + 1}/24", "dev", f"sheaf{i}")
        ip("-n", name, "link", "set", f"sheaf{i}", "up")


if __name__ == "__main__":
    run(globals())
